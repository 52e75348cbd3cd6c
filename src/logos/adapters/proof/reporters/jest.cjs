// Reports the tests of jest.
'use strict';

const { open, hide } = require('./writer.cjs');

const OUTCOMES = { passed: 'passed', failed: 'failed' };

module.exports = class Reporter {
  constructor() {
    this.report = open('jest');
    hide();
  }

  onTestResult(_, result) {
    for (const test of result.testResults) {
      const names = [...test.ancestorTitles, test.title];
      if (test.status === 'passed' && test.invocations > 1) this.report?.test(result.testFilePath, names, 'flaky');
      else this.report?.test(result.testFilePath, names, OUTCOMES[test.status] || 'skipped');
    }
    if (result.testExecError) this.report?.test(result.testFilePath, ['(did not run)'], 'failed');
  }

  onRunComplete(_, results) {
    this.report?.end(results.success || results.numTotalTests === 0 ? 0 : 1);
  }
};
