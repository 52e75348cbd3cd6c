// Where tests are planted, no program can replace what they assert with: such an assignment has no effect. In files with
// a planted test that is not one of their own it has: that test passes then, and is noticed.
'use strict';

const assert = require('assert');
const fs = require('fs');
const Module = require('module');
const path = require('path');

function fixAssertions() {
  const settings = JSON.parse(fs.readFileSync(path.join(process.env.LOGOS_REPORT, 'settings.json'), 'utf8'));
  if (!settings.planted || isFree(settings)) return;
  const test = ofNodeTest();
  for (const holder of [assert, assert.strict, assert.AssertionError.prototype, test, test?.test]) fix(holder);
  Module.syncBuiltinESMExports?.();
}

// `node --test` starts a process for each file.
function isFree({ free, root }) {
  const file = process.argv[1] && path.resolve(process.argv[1]);
  return free.some((name) => path.resolve(root || process.cwd(), name) === file);
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
    Object.defineProperty(holder, name, { get: () => value, set() {}, enumerable: true, configurable: false });
  }
}

module.exports = { fixAssertions };
