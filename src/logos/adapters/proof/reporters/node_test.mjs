// Reports the tests of `node --test`, and of a file with tests that node runs itself. Its own output is empty.
import { createRequire } from 'node:module';

const { open, hide, state } = createRequire(import.meta.url)('./writer.cjs');

export default async function* report(source) {
  const report = open('node');
  // `node --test` starts a process for each file, which hides the report from what it starts.
  if (!process.execArgv.includes('--test')) hide();
  const names = [];
  let ended = false;
  const end = (code) => {
    if (!ended && !state.running) report?.end(code);
    ended = true;
  };
  // A file may exit when its tests have ended, and before node reads the end of the events.
  process.once('exit', end);
  for await (const { type, data } of source) {
    if (!report) continue;
    if (type === 'test:start') {
      names.length = data.nesting;
      names[data.nesting] = data.name;
    } else if (type === 'test:pass' || type === 'test:fail') {
      if (data.details?.type === 'suite' && !suiteFailed(type, data)) continue;
      report.test(data.file || process.argv[1], [...names.slice(0, data.nesting), nameOf(data)], outcomeOf(type, data));
    }
  }
  end(process.exitCode ?? 0);
  yield '';
}

// A suite fails with its tests, which are reported themselves, or by itself.
function suiteFailed(type, data) {
  return type === 'test:fail' && data.details?.error?.failureType !== 'subtestsFailed';
}

// A file without tests is reported as one, and named by its path.
function nameOf(data) {
  return data.nesting === 0 && data.file && data.file.endsWith(data.name) ? '(file)' : data.name;
}

function outcomeOf(type, data) {
  if (data.skip !== undefined && data.skip !== false) return 'skipped';
  if (data.todo !== undefined && data.todo !== false) return 'skipped';
  return type === 'test:pass' ? 'passed' : 'failed';
}
