// Notices where product code has replaced what the tests work with: functions of node and of the language that they
// name, and what their own modules export. As logos_watch.py does for Python.
'use strict';

const fs = require('fs');
const Module = require('module');
const path = require('path');

const { open } = require('./writer.cjs');

const MODULES = ['fs', 'path', 'util', 'child_process', 'os', 'events', 'stream', 'url'];
const LANGUAGE = { JSON, Math, Object, Array, String, Number, Promise, Reflect };
const PROTOTYPES = { Array, String, Number, Map, Set, RegExp, Promise, Object };

// `variables` are the environment as it was when the process started.
function watchTools(variables) {
  const settings = JSON.parse(fs.readFileSync(path.join(variables.LOGOS_REPORT, 'settings.json'), 'utf8'));
  if (!settings.planted || !settings.watched?.length) return;
  const root = settings.root || process.cwd();
  const watched = new Set(settings.watched.map((name) => real(path.resolve(root, name))));
  const kept = [];
  const words = wordsOf(watched);
  const remember = (holder, title, isWanted) => {
    for (const name of holder ? Object.getOwnPropertyNames(holder) : []) {
      const { value } = Object.getOwnPropertyDescriptor(holder, name);
      if (typeof value !== 'function' || !isWanted(name)) continue;
      kept.push(() => valueOf(holder, name) === value || `${title}.${name} was replaced`);
    }
  };
  for (const name of MODULES) remember(require(name), name, (word) => words.has(word));
  for (const [name, holder] of Object.entries(LANGUAGE)) remember(holder, name, (word) => words.has(word));
  for (const [name, { prototype }] of Object.entries(PROTOTYPES)) {
    remember(prototype, `${name}.prototype`, (word) => words.has(word) && word !== 'constructor');
  }
  const load = Module.prototype.load;
  Module.prototype.load = function loaded(name) {
    const found = load.call(this, name);
    if (watched.has(real(name))) lookAt(this.exports, path.relative(real(root), real(name)), kept, remember);
    return found;
  };
  process.on('exit', () => {
    const replaced = kept.map((check) => check()).filter((found) => found !== true);
    const report = replaced.length ? open('node', variables) : null;
    for (const what of replaced) report?.test('', [`(${what})`], 'failed');
    report?.end(1);
  });
}

function lookAt(exported, title, kept, remember) {
  if (title.endsWith('.json')) {
    const text = JSON.stringify(exported);
    kept.push(() => JSON.stringify(exported) === text || `${title} was changed`);
  } else if (exported && typeof exported === 'object') {
    remember(exported, title, () => true);
  }
}

function valueOf(holder, name) {
  return Object.getOwnPropertyDescriptor(holder, name)?.value;
}

// The words of the tests, and of what belongs to them.
function wordsOf(files) {
  const words = new Set();
  for (const file of files) {
    if (!/\.[cm]?[jt]sx?$/.test(file)) continue;
    try {
      for (const [word] of fs.readFileSync(file, 'utf8').matchAll(/[A-Za-z_$][\w$]*/g)) words.add(word);
    } catch {
      continue;
    }
  }
  return words;
}

function real(file) {
  try {
    return fs.realpathSync(file);
  } catch {
    return file;
  }
}

module.exports = { watchTools };
