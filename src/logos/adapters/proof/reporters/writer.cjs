// Writes the lines of a report, as logos_reporter.py does, and hides the report from programs that tests start.
'use strict';

const crypto = require('crypto');
const fs = require('fs');
const path = require('path');

const FOLDER = 'LOGOS_REPORT';
// As they are now: tests replace such functions while they run.
const { openSync, readFileSync, realpathSync, writeSync } = fs;
const { createHash, randomBytes } = crypto;
const { parse, stringify } = JSON;

function open(runner, variables = process.env) {
  const folder = variables[FOLDER];
  const token = variables[`${FOLDER}_TOKEN`];
  if (!folder || !token) return null;
  const settings = parse(readFileSync(path.join(folder, 'settings.json'), 'utf8'));
  const root = settings.root || process.cwd();
  const name = `${runner}-${process.pid}-${randomBytes(6).toString('hex')}.jsonl`;
  const handle = openSync(path.join(folder, 'events', name), 'ax', 0o600);
  let digest = '';
  // A name that is used twice in a file is two tests.
  const seen = new Map();

  const write = (line) => {
    const text = stringify(line);
    digest = createHash('sha256').update(token + digest + text).digest('hex');
    writeSync(handle, `${digest} ${text}\n`);
  };
  const relative = (file) => {
    for (const base of [root, real(root)]) {
      for (const way of [file, real(file)]) {
        const found = path.relative(base, way);
        if (found && !found.startsWith('..') && !path.isAbsolute(found)) return found.split(path.sep).join('/');
      }
    }
    return file;
  };
  const only = new Set(settings.only);
  const wants = (file) => only.size === 0 || only.has(relative(file));
  const test = (file, names, outcome) => {
    if (file && !wants(file)) return;
    const id = `${file ? relative(file) : ''}::${names.join(' > ')}`;
    const count = (seen.get(id) || 0) + 1;
    // A test that its runner runs again is one test.
    if (outcome !== 'rerun') seen.set(id, count);
    write({ event: 'test', id: count > 1 ? `${id} #${count}` : id, outcome });
  };
  write({ event: 'start', runner });
  return { test, write, wants, relative, only: [...only], end: (status) => write({ event: 'end', status }), root };
}

function real(file) {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

// Programs that tests start are not to report.
function hide() {
  const folder = process.env[FOLDER];
  if (!folder) return;
  for (const name of ['PATH', 'PYTHONPATH']) {
    if (process.env[name] === undefined) continue;
    const kept = process.env[name].split(path.delimiter).filter((part) => !part.startsWith(folder));
    if (kept.length) process.env[name] = kept.join(path.delimiter);
    else delete process.env[name];
  }
  const ours = process.env[`${FOLDER}_NODE_OPTIONS`];
  const left = (process.env.NODE_OPTIONS || '').replace(ours || '\0', '').trim();
  if (left) process.env.NODE_OPTIONS = left;
  else delete process.env.NODE_OPTIONS;
  for (const name of Object.keys(process.env)) if (name.startsWith(FOLDER)) delete process.env[name];
}

// How many tests of node run now in this process.
const state = { running: 0 };

module.exports = { open, hide, state };
