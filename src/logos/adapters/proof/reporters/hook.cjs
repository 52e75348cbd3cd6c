// Node loads this file first. It makes runners that take no reporter from the environment report their tests.
'use strict';

const { fixAssertions } = require('./fixed.cjs');
const { hookRunners, respawnWithReporters } = require('./runners.cjs');

if (process.env.LOGOS_REPORT) {
  respawnWithReporters();
  fixAssertions();
  hookRunners();
}
