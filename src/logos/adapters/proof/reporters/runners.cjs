// What makes node --test, mocha, jest and vitest report, without a change of the project.
'use strict';

const { spawnSync } = require('child_process');
const fs = require('fs');
const Module = require('module');
const path = require('path');

const { open, hide } = require('./writer.cjs');

// The program that this process runs, with its links followed; empty where there is none.
function program() {
  try {
    return fs.realpathSync(process.argv[1]).split(path.sep).join('/');
  } catch {
    return '';
  }
}

// Node demands as many destinations as reporters, and a command line that names one reporter alone names none.
function respawnWithReporters() {
  const given = process.execArgv.filter((word) => word === '--test-reporter' || word.startsWith('--test-reporter='));
  const standard = process.env.LOGOS_REPORT_STANDARD || '';
  const options = process.env.NODE_OPTIONS || '';
  if (!given.length || !standard || !options.includes(standard)) return;
  const named = process.execArgv.some((word) => word.startsWith('--test-reporter-destination'));
  const words = named ? process.execArgv : [...process.execArgv, '--test-reporter-destination=stdout'];
  const env = { ...process.env, NODE_OPTIONS: options.replace(standard, '') };
  env.LOGOS_REPORT_NODE_OPTIONS = (env.LOGOS_REPORT_NODE_OPTIONS || '').replace(standard, '');
  delete env.LOGOS_REPORT_STANDARD;
  const done = spawnSync(process.execPath, [...words, ...process.argv.slice(1)], { env, stdio: 'inherit' });
  if (done.signal) process.kill(process.pid, done.signal);
  process.exit(done.status ?? 1);
}

function hookRunners() {
  watchExit();
  hookJest();
  const main = program();
  if (/\/mocha\/bin\/_?mocha(\.js)?$/.test(main)) hookMocha(path.resolve(path.dirname(main), '..'));
  else if (/\/vitest\/(vitest\.mjs|dist\/cli.*\.js)$/.test(main)) addVitestReporter();
}

// A file whose process exits before its tests have ended would count as one that has none.
function watchExit() {
  const isFile = Boolean(process.env.NODE_TEST_CONTEXT);
  const forced = [...process.execArgv, process.env.NODE_OPTIONS || ''].some((word) => word.includes('--test-force-exit'));
  if (forced) return;
  const variables = { ...process.env };
  const file = process.argv[1];
  let ended = false;
  const check = (code) => {
    if (ended || code || !isTestProcess()) return;
    ended = true;
    const report = open('node', variables);
    report?.test(file, ['(exited before its tests ended)'], 'failed');
    report?.end(1);
  };
  const exit = process.reallyExit;
  process.reallyExit = function reallyExit(code) {
    check(code);
    return exit.call(process, code);
  };
  process.once('beforeExit', () => {
    ended = true;
  });
  if (isFile) skipUnwanted(file) || hide();
}

function isTestProcess() {
  return process.moduleLoadList.some((name) => name.endsWith('internal/test_runner/harness'));
}

// `node --test` starts a process for each file.
function skipUnwanted(file) {
  const settings = JSON.parse(fs.readFileSync(path.join(process.env.LOGOS_REPORT, 'settings.json'), 'utf8'));
  const root = settings.root || process.cwd();
  const wanted = settings.only.map((name) => path.resolve(root, name));
  if (wanted.length && !wanted.includes(path.resolve(file))) process.exit(0);
}

function hookMocha(folder) {
  const warn = process.emitWarning;
  // That a module of a newer mocha is loaded with `require` is no concern of the project.
  process.emitWarning = () => {};
  let Runner;
  try {
    const found = require(path.join(folder, 'lib', 'runner.js'));
    Runner = found.Runner || found.default || found;
  } catch {
    return;
  } finally {
    process.emitWarning = warn;
  }
  const report = open('mocha');
  hide();
  const outcomes = { pass: 'passed', fail: 'failed', pending: 'skipped', retry: 'rerun' };
  const emit = Runner.prototype.emit;
  Runner.prototype.emit = function observed(event, runnable, ...rest) {
    if (event === 'end') report.end(this.stats ? Math.min(this.stats.failures, 1) : 0);
    else if (outcomes[event] && runnable?.titlePath) report.test(runnable.file, runnable.titlePath(), outcomes[event]);
    return emit.call(this, event, runnable, ...rest);
  };
}

function addVitestReporter() {
  const words = process.argv;
  if (words.some((word) => ['list', 'bench', 'init', '--version', '-v', '--help', '-h'].includes(word))) return;
  const own = words.some((word) => word.startsWith('--reporter'));
  const place = words.includes('--') ? words.indexOf('--') : words.length;
  const reporter = `--reporter=${path.join(__dirname, 'vitest.mjs')}`;
  words.splice(place, 0, ...(own ? [] : ['--reporter=default']), reporter);
}

// jest reads its configuration with this module; a reporter is added to what it finds.
function hookJest() {
  const load = Module._load;
  Module._load = function loaded(request, ...rest) {
    const found = load.call(this, request, ...rest);
    if (request !== 'jest-config' || typeof found?.readConfigs !== 'function') return found;
    return { ...found, readConfigs: (...words) => found.readConfigs(...words).then(withReporter) };
  };
}

function withReporter(read) {
  const file = path.join(__dirname, 'jest.cjs');
  const given = read.globalConfig.reporters || [['default', {}]];
  const { only, root } = JSON.parse(fs.readFileSync(path.join(process.env.LOGOS_REPORT, 'settings.json'), 'utf8'));
  const names = only.map((name) => path.resolve(root || process.cwd(), name).replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const others = names.length ? [`^(?!(?:${names.join('|')})$)`] : [];
  const narrowed = (config) => ({
    ...config,
    testPathIgnorePatterns: [...config.testPathIgnorePatterns, ...others],
  });
  return {
    ...read,
    globalConfig: Object.freeze({ ...read.globalConfig, reporters: [...given, [file, {}]] }),
    configs: read.configs.map((config) => (others.length ? Object.freeze(narrowed(config)) : config)),
  };
}

module.exports = { hookRunners, respawnWithReporters };
