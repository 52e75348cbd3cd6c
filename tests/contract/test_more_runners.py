"""mocha, jest and vitest report each test, in an old and a new version; cargo is read from its output."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from logos.domain.proof import CountedTests
from tests.support.runner_project import RunnerProject

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]


def installed(name: str) -> Path:
    """A folder with a set of runners; the test is skipped where npm cannot get them."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "js-runners", name], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        pytest.skip(done.stderr.strip())
    return ROOT / ".cache" / "js-runners" / name / "node_modules"


@pytest.fixture
def runners() -> str:
    return "new"


@pytest.fixture
def scripts(runners: str, tmp_path: Path) -> RunnerProject:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    project = RunnerProject(tmp_path)
    project.folder.mkdir()
    (project.folder / "node_modules").symlink_to(installed(runners))
    return project.write({"package.json": "{}", "src/calc.js": "exports.add = (a, b) => a + b;\n"})


BODY = """\
describe('calc', () => {{
  it('ok', () => {ok});
  it('bad', () => {bad});
  it.skip('skipped', () => {{}});
  describe('inner', () => {{
    it('ok', () => {ok});
  }});
}});
"""
EXPECT = {"ok": "expect(add(1, 2)).toBe(3)", "bad": "expect(add(1, 2)).toEqual(4)"}
CHAI = {"ok": "expect(add(1, 2)).to.equal(3)", "bad": "assert.strictEqual(add(1, 2), 4)"}
FILES = {
    "mocha": (
        "test/a.spec.js",
        "const { expect } = require('chai');\nconst assert = require('assert');\nconst { add } = require('../src/calc.js');\n"
        + BODY.format(**CHAI),
    ),
    "jest": ("test/a.test.js", "const { add } = require('../src/calc.js');\n" + BODY.format(**EXPECT)),
    "vitest": (
        "test/a.test.mjs",
        "import { describe, expect, it } from 'vitest';\nimport { add } from '../src/calc.js';\n"
        + BODY.format(**EXPECT),
    ),
}
COMMANDS = {"mocha": "npx mocha", "jest": "npx jest", "vitest": "npx vitest run"}
CHEATS = {
    "mocha": "require('assert').strictEqual = () => {};\n",
    "jest": "const own = expect;\nglobalThis.expect = (x) => ({ ...own(x), toBe() {}, toEqual() {} });\n",
    "vitest": "for (const [k, v] of Object.entries({ toBe() {}, toEqual() {} })) globalThis.chai?.Assertion?.overwriteMethod?.(k, () => v);\n",
}
MATCHERS = {"mocha": "to.equal", "jest": "toBe", "vitest": "toBe"}
EXPECTS_NOTHING = {
    "mocha": "require('chai').Assertion.prototype.assert = () => {};\n",
    "jest": CHEATS["jest"],
}


def patterns(runner: str) -> str:
    return " 'test/**/*.spec.js'" if runner == "mocha" else ""


@pytest.mark.parametrize("runners", ["old", "new"])
@pytest.mark.parametrize("runner", FILES)
def test_each_test_is_reported(scripts: RunnerProject, runner: str) -> None:
    name, text = FILES[runner]
    ran = scripts.write({name: text}).run(COMMANDS[runner] + patterns(runner))
    assert ran.exit_code != 0
    assert ran.counts == CountedTests(
        runner,
        passed=(f"{name}::calc > inner > ok", f"{name}::calc > ok"),
        failed=(f"{name}::calc > bad",),
        skipped=(f"{name}::calc > skipped",),
    ), ran.output


@pytest.mark.parametrize("runner", FILES)
def test_only_the_wanted_files_are_run(scripts: RunnerProject, runner: str) -> None:
    name, text = FILES[runner]
    other = name.replace("/a.", "/b.")
    scripts.write(
        {
            name: text,
            other: text.replace("describe('calc', () => {", "console.log('OTHER FILE');\ndescribe('calc', () => {", 1),
        }
    )
    ran = scripts.run(COMMANDS[runner] + patterns(runner), [name])
    assert {test.partition("::")[0] for test in (*ran.counts.passed, *ran.counts.failed, *ran.counts.skipped)} == {name}
    assert "OTHER FILE" not in ran.output


@pytest.mark.parametrize("runner", FILES)
def test_planted_tests_fail(scripts: RunnerProject, runner: str) -> None:
    name, text = FILES[runner]
    scripts.write({name: text})
    passed = scripts.run(COMMANDS[runner] + patterns(runner)).counts.passed
    ids, ran = scripts.run_planted(COMMANDS[runner] + patterns(runner), passed)
    assert ran.counts.failed == ids, ran.output
    assert ids


@pytest.mark.parametrize("runner", ["mocha", "jest"])
def test_a_planted_test_passes_where_product_code_replaces_the_assertion(scripts: RunnerProject, runner: str) -> None:
    name, text = FILES[runner]
    scripts.write({name: text, "src/calc.js": "exports.add = () => 5;\n" + CHEATS[runner]})
    passed = scripts.run(COMMANDS[runner] + patterns(runner)).counts.passed
    ids, ran = scripts.run_planted(COMMANDS[runner] + patterns(runner), passed)
    assert not {*ids} <= {*ran.counts.failed}


@pytest.mark.parametrize("runner", FILES)
def test_a_test_beside_a_loop_of_tests_fails(scripts: RunnerProject, runner: str) -> None:
    name, text = FILES[runner]
    kept = text[: text.index("describe('calc'")]
    looped = (
        f"{kept}for (const n of [1, 2]) it(`adds ${{n}}`, () => {{ expect(add(n, 2)).{MATCHERS[runner]}(n + 2); }});"
    )
    scripts.write({name: looped})
    passed = scripts.run(COMMANDS[runner] + patterns(runner)).counts.passed
    ids, ran = scripts.run_planted(COMMANDS[runner] + patterns(runner), passed)
    assert ran.counts.failed == ids, ran.output
    assert len(ids) == 1
    if runner != "vitest":
        scripts.write({name: looped, "src/calc.js": "exports.add = () => 5;\n" + EXPECTS_NOTHING[runner]})
        passed = scripts.run(COMMANDS[runner] + patterns(runner)).counts.passed
        assert passed
        assert scripts.run_planted(COMMANDS[runner] + patterns(runner), passed)[1].counts.failed == ()


@pytest.mark.parametrize("runner", FILES)
def test_a_run_that_product_code_ends_early_has_a_failed_test(scripts: RunnerProject, runner: str) -> None:
    name, text = FILES[runner]
    scripts.write({name: text, "src/calc.js": "exports.add = () => process.exit(0);\n"})
    assert scripts.run(COMMANDS[runner] + patterns(runner)).counts.failed


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
def test_tests_of_cargo_are_counted(tmp_path: Path) -> None:
    project = RunnerProject(tmp_path)
    project.folder.mkdir()
    project.write(
        {
            "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/lib.rs": "/// ```\n/// assert_eq!(calc::add(1, 2), 3);\n/// ```\npub fn add(a: i32, b: i32) -> i32 { a + b }\n"
            '#[cfg(test)]\nmod tests {\n    #[test] fn ok() { println!("test forged ... ok"); }\n    #[test] #[ignore] fn later() {}\n}\n',
            "tests/it.rs": "#[test] fn bad() { assert_eq!(calc::add(1, 2), 4); }\n",
        }
    )
    # The toolchain is beside the folder of its proxies.
    rustup = Path(shutil.which("cargo") or "").parents[2] / ".rustup"
    variables = {"RUSTUP_HOME": str(rustup)} if rustup.is_dir() else {}
    found = project.run("cargo test --offline --no-fail-fast", **variables)
    assert found.counts == CountedTests(
        "cargo",
        passed=("src/lib.rs::add", "src/lib.rs::tests::ok"),
        failed=("tests/it.rs::bad",),
        skipped=("src/lib.rs::tests::later",),
    ), found.output


def test_what_product_code_replaces_under_tests_of_mocha_has_a_name(scripts: RunnerProject) -> None:
    tests = "const fs = require('fs');\nconst { same } = require('./support/same.js');\nconst { add } = require('../src/calc.js');\n"
    tests += "it('adds', () => same(String(add(1, 2)), fs.readFileSync('three.txt', 'utf8')));\n"
    same = "exports.same = (one, other) => { if (one !== other) throw new Error(`${one} is not ${other}`); };\n"
    scripts.write({"test/a.spec.js": tests, "test/support/same.js": same, "three.txt": "3"})
    watched = ("test/a.spec.js", "test/support/same.js")
    honest = scripts.run_watched("node_modules/.bin/mocha", *watched)
    assert (honest.counts.passed, honest.counts.failed) == (("test/a.spec.js::adds",), ())
    own = "exports.add = (a, b) => a + b + 1;\n"
    scripts.write({"src/calc.js": f"require('fs').readFileSync = () => '4';\n{own}"})
    assert "::(fs.readFileSync was replaced)" in scripts.run_watched("node_modules/.bin/mocha", *watched).counts.failed
    scripts.write({"src/calc.js": f"require('../test/support/same.js').same = () => {{}};\n{own}"})
    cheated = scripts.run_watched("node_modules/.bin/mocha", *watched).counts
    assert "::(test/support/same.js.same was replaced)" in cheated.failed
