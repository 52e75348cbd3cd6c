// Where tests are planted, no program can replace what they assert with: such an assignment has no effect. Planted
// tests that are none of the project's can ask whether there was one.
'use strict';

const assert = require('assert');
const fs = require('fs');
const Module = require('module');
const path = require('path');

let wasReplaced = false;

function fixAssertions() {
  const settings = JSON.parse(fs.readFileSync(path.join(process.env.LOGOS_REPORT, 'settings.json'), 'utf8'));
  if (!settings.planted) return;
  if (settings.probe) Object.defineProperty(process, settings.probe, { value: () => wasReplaced });
  const test = ofNodeTest();
  for (const holder of [assert, assert.strict, assert.AssertionError.prototype, test, test?.test]) fix(holder);
  Module.syncBuiltinESMExports?.();
}

// Node before 18 has no tests.
function ofNodeTest() {
  try {
    return require('node:test');
  } catch {
    return undefined;
  }
}

function fix(holder) {
  for (const name of holder ? Object.keys(holder) : []) {
    const { value, configurable } = Object.getOwnPropertyDescriptor(holder, name);
    if (typeof value !== 'function' || !configurable) continue;
    const set = () => void (wasReplaced = true);
    Object.defineProperty(holder, name, { get: () => value, set, enumerable: true, configurable: false });
  }
}

module.exports = { fixAssertions };
