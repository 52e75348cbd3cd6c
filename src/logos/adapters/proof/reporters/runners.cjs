// What makes node --test, mocha, jest and vitest report, without a change of the project.
'use strict';

const { spawnSync } = require('child_process');
const fs = require('fs');
const Module = require('module');
const os = require('os');
const path = require('path');

const { watchTools } = require('./watch.cjs');
const { open, hide, state } = require('./writer.cjs');

const RESPAWNED = 'LOGOS_REPORT_RESPAWNED';
const wasRespawned = Boolean(process.env[RESPAWNED]);
delete process.env[RESPAWNED];

// The program that this process runs, with its links followed; empty where there is none.
function program() {
  try {
    return fs.realpathSync(process.argv[1]).split(path.sep).join('/');
  } catch {
    return '';
  }
}

// Node takes reporters from its command line alone: it reads NODE_OPTIONS too, but then demands as many destinations as
// reporters of a command line that names one reporter and no destination.
function respawnWithReporters() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  const isChild = process.env.NODE_TEST_CONTEXT || process.env.NODE_CHANNEL_FD || wasRespawned;
  if (isChild || major < 18 || (major === 18 && minor < 15)) return;
  if (!process.execArgv.includes('--test') && !usesNodeTest(process.argv[1])) return;
  const names = (option) => process.execArgv.some((word) => word === option || word.startsWith(`${option}=`));
  const words = [...process.execArgv];
  if (!names('--test-reporter')) words.push(`--test-reporter=${path.join(__dirname, 'node_standard.mjs')}`);
  if (!names('--test-reporter-destination')) words.push('--test-reporter-destination=stdout');
  words.push(`--test-reporter=${path.join(__dirname, 'node_test.mjs')}`, `--test-reporter-destination=${os.devNull}`);
  const env = { ...process.env, [RESPAWNED]: '1' };
  const done = spawnSync(process.execPath, [...words, ...process.argv.slice(1)], { env, stdio: 'inherit' });
  if (done.signal) process.kill(process.pid, done.signal);
  process.exit(done.status ?? 1);
}

// Whether a script, or a file that it imports by a relative path, uses node:test.
function usesNodeTest(script) {
  const left = script ? [path.resolve(script)] : [];
  const seen = new Set();
  while (left.length && seen.size < 50) {
    const file = found(left.pop());
    if (!file || seen.has(file) || file.includes(`${path.sep}node_modules${path.sep}`)) continue;
    seen.add(file);
    const text = fs.readFileSync(file, 'utf8');
    if (/['"]node:test['"]/.test(text)) return true;
    const imports = text.matchAll(/(?:from|import|require\()\s*['"](\.[^'"\n]*)['"]/g);
    for (const [, name] of imports) left.push(path.resolve(path.dirname(file), name));
  }
  return false;
}

function found(file) {
  const ways = [file, ...['.js', '.mjs', '.cjs', '.ts', '/index.js'].map((end) => file + end)];
  return ways.find((way) => fs.statSync(way, { throwIfNoEntry: false })?.isFile());
}

function hookRunners() {
  const main = program();
  const runsMocha = /\/mocha\/bin\/_?mocha(\.js)?$/.test(main);
  // Only where tests run: npm, for one, replaces functions of node for itself.
  if (process.env.NODE_TEST_CONTEXT || wasRespawned || runsMocha) watchTools({ ...process.env });
  watchExit();
  hookJest();
  if (runsMocha) hookMocha(path.resolve(path.dirname(main), '..'));
  else if (/\/vitest\/(vitest\.mjs|dist\/cli.*\.js)$/.test(main)) addVitestReporter();
}

// A file whose process exits in a test would count as one that has none. Files that exit when their tests have ended,
// to close what they have opened, are honest.
function watchExit() {
  const file = process.argv[1];
  const isFile = Boolean(process.env.NODE_TEST_CONTEXT);
  const variables = { ...process.env };
  if (isFile) {
    skipUnwanted(file);
    hide();
  }
  if ((!isFile && !wasRespawned) || process.execArgv.includes('--test') || !usesNodeTest(file)) return;
  const { beforeEach, afterEach } = require('node:test');
  beforeEach?.(() => void (state.running += 1));
  afterEach?.(() => void (state.running -= 1));
  const exit = process.reallyExit;
  process.reallyExit = function reallyExit(code) {
    if (state.running && !code) {
      const report = open('node', variables);
      report?.test(file, ['(exited in a test)'], 'failed');
      report?.end(1);
    }
    return exit.call(process, code);
  };
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
  let Mocha;
  let Runner;
  try {
    const loaded = require(path.join(folder, 'lib', 'runner.js'));
    Runner = loaded.Runner || loaded.default || loaded;
    const main = require(found(path.join(folder, 'lib', 'mocha')));
    Mocha = main.Mocha || main.default || main;
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
  for (const name of ['loadFiles', 'loadFilesAsync', 'run']) {
    const original = Mocha.prototype[name];
    Mocha.prototype[name] = function narrowed(...words) {
      this.files = this.files.filter((file) => report.wants(path.resolve(file)));
      return original.apply(this, words);
    };
  }
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
