// Reports the tests of vitest.
import { createRequire } from 'node:module';

const { open, hide } = createRequire(import.meta.url)('./writer.cjs');
const OUTCOMES = { pass: 'passed', fail: 'failed' };

export default class Reporter {
  onInit(vitest) {
    this.report = open('vitest');
    hide();
    // Versions before 3 tell the end of a run by another method.
    this.isNew = Number(String(vitest?.version || '0').split('.')[0]) >= 3;
    this.narrow(vitest?.specifications);
  }

  narrow(specifications) {
    const original = specifications?.getRelevantTestSpecifications;
    if (!original || !this.report?.only.length) return;
    specifications.getRelevantTestSpecifications = async (...words) => {
      const found = await original.apply(specifications, words);
      return found.filter(({ moduleId }) => this.report.wants(moduleId));
    };
  }

  onTestRunEnd(modules, errors) {
    this.finish(modules.map((module) => module.task), errors);
  }

  onFinished(files, errors) {
    if (!this.isNew) this.finish(files || [], errors || []);
  }

  finish(files, errors) {
    for (const file of files) {
      this.walk(file.filepath, [], file);
      if (file.result?.errors?.length) this.report?.test(file.filepath, ['(did not run)'], 'failed');
    }
    if (errors.length) this.report?.test('', ['(vitest reported an error outside of tests)'], 'failed');
    this.report?.end(errors.length || files.some((file) => file.result?.state === 'fail') ? 1 : 0);
  }

  walk(file, names, task) {
    for (const inner of task.tasks || []) {
      const all = [...names, inner.name];
      if (inner.tasks) {
        this.walk(file, all, inner);
        if (inner.result?.errors?.length) this.report?.test(file, [...all, '(suite)'], 'failed');
      } else {
        const retried = inner.result?.state === 'pass' && inner.result.retryCount > 0;
        this.report?.test(file, all, retried ? 'flaky' : OUTCOMES[inner.result?.state] || 'skipped');
      }
    }
  }
}
