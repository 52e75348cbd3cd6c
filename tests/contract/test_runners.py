"""Real runners report each test, also the ones that planted tests and cheats want to hide."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from logos.domain.proof import CountedTests
from tests.support.runner_project import RunnerProject

PYTHON = sys.executable
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
ADD = "def add(a, b):\n    return a + b\n"
ADD_JS = "exports.add = (a, b) => a + b;\n"


@pytest.fixture
def project(tmp_path: Path) -> RunnerProject:
    found = RunnerProject(tmp_path)
    found.folder.mkdir()
    return found


PYTEST_FILE = """\
import pytest
import unittest
from calc import add

def test_ok():
    assert add(1, 2) == 3

@pytest.mark.parametrize("x", [1, 2])
def test_p(x):
    assert x == 1

@pytest.mark.xfail
def test_expected():
    assert 0

@pytest.mark.xfail
def test_unexpected():
    assert 1

@pytest.fixture
def broken():
    raise ValueError

def test_set_up(broken):
    pass

@pytest.fixture
def dirty():
    yield
    raise ValueError

def test_tear_down(dirty):
    pass

@pytest.mark.skip
def test_skipped():
    pass

class TestCase(unittest.TestCase):
    def test_parts(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertEqual(i, 1)

    def test_good(self):
        self.assertTrue(1)
"""
AS_PYTEST = CountedTests(
    "pytest",
    passed=tuple(
        f"tests/test_a.py::{name}" for name in ("TestCase::test_good", "test_ok", "test_p[1]", "test_unexpected")
    ),
    failed=tuple(
        f"tests/test_a.py::{name}" for name in ("TestCase::test_parts", "test_p[2]", "test_set_up", "test_tear_down")
    ),
    skipped=("tests/test_a.py::test_expected", "tests/test_a.py::test_skipped"),
)


@pytest.mark.parametrize(
    "command", ["pytest -q", f"'{PYTHON}' -m pytest -q", "pytest -q -n 2", "PYTHONPATH=src pytest -q"]
)
def test_pytest_reports_each_test(project: RunnerProject, command: str) -> None:
    project.write({"calc.py": ADD, "conftest.py": "", "tests/test_a.py": PYTEST_FILE})
    ran = project.run(command)
    assert ran.exit_code == 1
    assert ran.counts == AS_PYTEST


def test_ids_of_pytest_are_relative_to_the_work_dir_whatever_its_root(project: RunnerProject) -> None:
    project.write(
        {
            "sub/tests/test_a.py": "def test_a(): pass\n",
            "sub/pytest.ini": "[pytest]\n",
            "Makefile": "test:\n\tcd sub && pytest -q\n",
        }
    )
    assert project.run("make test").counts.passed == ("sub/tests/test_a.py::test_a",)


def test_a_file_that_pytest_cannot_import_is_a_failed_test(project: RunnerProject) -> None:
    project.write(
        {
            "test_a.py": "def test_a(): pass\n",
            "test_b.py": "import nothing\n",
            "test_c.py": "import pytest\npytest.importorskip('nothing')\n",
        }
    )
    counts = project.run("pytest -q --continue-on-collection-errors").counts
    assert counts.failed == ("test_b.py::(not collected)",)
    assert counts.skipped == ("test_c.py::(skipped)",)
    assert counts.passed == ("test_a.py::test_a",)


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q",
        pytest.param("pytest -q -n 2", marks=pytest.mark.long),
        "pytest -q test_a.py test_b.py",
        "python -m unittest",
    ],
)
def test_only_the_wanted_files_are_run(project: RunnerProject, command: str) -> None:
    text = "import unittest\n\nclass TestA(unittest.TestCase):\n    def test_a(self):\n        open('ran-{}', 'w').close()\n"
    project.write({"test_a.py": text.format("a"), "test_b.py": "import nothing\n", "test_c.py": text.format("c")})
    ran = project.run(command, ["test_a.py", "data.json"])
    assert ran.exit_code == 0
    assert ran.counts.passed == ("test_a.py::TestA::test_a",)
    assert ran.counts.failed == ()
    assert not (project.folder / "ran-c").exists()


def test_data_alone_does_not_narrow_a_run(project: RunnerProject) -> None:
    project.write({"test_a.py": "def test_a(): pass\n"})
    assert project.run("pytest -q", ["tests/data.json", "conftest.py"]).counts.passed == ("test_a.py::test_a",)


UNITTEST_FILE = """\
import unittest
from calc import add

class TestAdd(unittest.TestCase):
    def test_ok(self):
        self.assertEqual(add(1, 2), 3)

    def test_bad(self):
        self.assertEqual(add(1, 2), 4)

    def test_error(self):
        raise ValueError

    def test_exit(self):
        raise SystemExit(0)

    @unittest.skip("no")
    def test_skipped(self):
        pass

    @unittest.expectedFailure
    def test_expected(self):
        self.fail()

    @unittest.expectedFailure
    def test_unexpected(self):
        pass

    def test_parts(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertEqual(i, 1)

    def test_nested(self):
        class Inner(unittest.TestCase):
            def test_inner(self):
                self.fail()
        unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(Inner))

class TestSetUp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise ValueError

    def test_never(self):
        pass
"""


@pytest.mark.parametrize(
    "command",
    [
        "python -m unittest",
        "PYTHONPATH=. python3 -m unittest tests.test_a -v",
        "python -m unittest discover -s tests -t . -b",
        """python -c "import unittest; unittest.TextTestRunner().run(unittest.defaultTestLoader.discover('tests', top_level_dir='.'))" """,
    ],
)
def test_unittest_reports_each_test(project: RunnerProject, command: str) -> None:
    project.write({"calc.py": ADD, "tests/__init__.py": "", "tests/test_a.py": UNITTEST_FILE})
    counts = project.run(command).counts
    add = "tests/test_a.py::TestAdd::test_"
    assert counts == CountedTests(
        "unittest",
        passed=(f"{add}nested", f"{add}ok"),
        failed=(
            *(f"{add}{name}" for name in ("bad", "error", "exit", "parts", "unexpected")),
            "tests/test_a.py::TestSetUp::(setUpClass)",
        ),
        skipped=(f"{add}expected", f"{add}skipped"),
    )


def test_a_module_that_unittest_cannot_import_is_a_failed_test(project: RunnerProject) -> None:
    project.write({"test_a.py": "import nothing\n"})
    assert project.run("python -m unittest").counts.failed == ("test_a.py::(not imported)",)


def test_the_environment_s_own_sitecustomize_still_runs(project: RunnerProject) -> None:
    project.write({"site/sitecustomize.py": "import os\nos.environ['OWN'] = '1'\n"})
    project.write({"test_a.py": "import os, sys\n\ndef test_a():\n    assert os.environ['OWN'] == '1'\n"})
    ran = project.run("pytest -q", PYTHONPATH=str(project.folder / "site"))
    assert ran.counts.passed == ("test_a.py::test_a",)


def test_runners_that_tests_start_do_not_report(project: RunnerProject) -> None:
    inner = "import os, subprocess, sys\n\ndef test_outer(tmp_path):\n    (tmp_path / 'test_i.py').write_text('def test_i(): assert 0')\n"
    inner += "    done = subprocess.run([sys.executable, '-m', 'pytest', '-q'], cwd=tmp_path)\n    assert done.returncode == 1\n"
    inner += "    assert not [name for name in os.environ if name.startswith('LOGOS')]\n    assert 'NODE_OPTIONS' not in os.environ\n"
    inner += "    import pytest\n    assert pytest.main(['-q', str(tmp_path)]) == 1\n"
    project.write({"test_a.py": inner})
    ran = project.run("pytest -q")
    assert ran.counts == CountedTests("pytest", passed=("test_a.py::test_outer",)), ran.output


def test_two_runs_in_one_command_are_counted_together(project: RunnerProject) -> None:
    project.write(
        {
            "test_a.py": "def test_a(): pass\n",
            "test_b.py": "import unittest\n\nclass B(unittest.TestCase):\n    def test_b(self): pass\n",
        }
    )
    counts = project.run("pytest -q test_a.py && python -m unittest test_b").counts
    assert counts.runner == "pytest, unittest"
    assert counts.passed == ("test_a.py::test_a", "test_b.py::B::test_b")


EARLY = {
    "at import": "import os\nos._exit(0)\n",
    "in a test": "import os\n\ndef add(a, b):\n    os._exit(0)\n",
    "exit at import": "raise SystemExit(0)\n",
}


@pytest.mark.parametrize("source", EARLY.values(), ids=EARLY)
@pytest.mark.parametrize("command", ["pytest -q", "python -m unittest test_a"])
def test_a_run_that_product_code_ends_early_has_a_failed_test(
    project: RunnerProject, source: str, command: str
) -> None:
    text = "import unittest\nfrom calc import add\n\nclass TestA(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(add(1, 2), 4)\n"
    ran = project.write({"calc.py": source, "conftest.py": "", "test_a.py": text}).run(command)
    assert ran.counts.failed
    assert ran.counts.passed == ()


def test_a_report_that_product_code_edits_is_noticed(project: RunnerProject) -> None:
    cheat = (
        "import atexit, glob, os\nFOLDER = os.environ.get('LOGOS_REPORT') or '{}'\n\ndef add(a, b):\n    return 0\n\n"
    )
    cheat += "def edit():\n    for name in glob.glob(FOLDER + '/**/*.jsonl', recursive=True):\n"
    cheat += "        text = open(name).read().replace('failed', 'passed')\n        open(name, 'w').write(text)\n    os._exit(0)\n\natexit.register(edit)\n"
    project.write(
        {"conftest.py": "", "test_a.py": "from calc import add\n\ndef test_a():\n    assert add(1, 2) == 3\n"}
    )
    project.write({"calc.py": cheat.format(project.reports)})
    ran = project.run("pytest -q")
    assert ran.exit_code == 0
    assert "::(the report of pytest was changed)" in ran.counts.failed


FORGED_REPORTS = ADD + (
    "import _pytest.runner\n_made = _pytest.runner.TestReport.from_item_and_call\n\n"
    "def _forged(item, call):\n    report = _made(item, call)\n    report.outcome = 'passed'\n    return report\n\n"
    "_pytest.runner.TestReport.from_item_and_call = _forged\n"
)
PATCHED = ADD + "import unittest\nunittest.TestCase.assertEqual = lambda *_: None\n"
PYTEST_TESTS = "from calc import add\n\ndef test_a():\n    assert add(1, 2) == 3\n"
UNITTEST_TESTS = (
    "import unittest\nfrom calc import add\n\nclass TestA(unittest.TestCase):\n    def test_a(self):\n"
    "        self.assertEqual(add(1, 2), 3)\n        self.assertIn(3, [add(1, 2)])\n"
)


@pytest.mark.parametrize(
    ("command", "tests"),
    [("pytest -q", PYTEST_TESTS), ("pytest -q", UNITTEST_TESTS), ("python -m unittest", UNITTEST_TESTS)],
)
def test_planted_tests_fail_in_an_honest_project(project: RunnerProject, command: str, tests: str) -> None:
    project.write({"calc.py": ADD, "conftest.py": "", "test_a.py": tests})
    passed = project.run(command).counts.passed
    ids, ran = project.run_planted(command, passed)
    assert (ids, ran.counts.failed, ran.counts.passed) == (passed, passed, ())


@pytest.mark.parametrize(
    ("command", "tests", "source"),
    [
        ("pytest -q", PYTEST_TESTS, FORGED_REPORTS),
        ("pytest -q", UNITTEST_TESTS, PATCHED),
        ("python -m unittest", UNITTEST_TESTS, PATCHED),
    ],
)
def test_planted_tests_pass_where_product_code_cheats(
    project: RunnerProject, command: str, tests: str, source: str
) -> None:
    project.write({"calc.py": source, "conftest.py": "", "test_a.py": tests})
    ids, ran = project.run_planted(command, project.run(command).counts.passed)
    assert not {*ids} <= {*ran.counts.failed}


MADE_TESTS = {
    "setattr": "import unittest\nfrom calc import add\n\nclass TestA(unittest.TestCase):\n    pass\n\n"
    "for n in (1, 2):\n    setattr(TestA, f'test_{n}', lambda self, n=n: self.assertEqual(add(n, 2), n + 2))\n",
    "a script": "import unittest\nfrom calc import add\n\ndef case(n):\n    return lambda self: self.assertEqual(add(n, 2), n + 2)\n\n"
    "TestA = type('TestA', (unittest.TestCase,), {'test_1': case(1)})\nif __name__ == '__main__':\n    unittest.main()\n",
}


@pytest.mark.parametrize("tests", MADE_TESTS.values(), ids=MADE_TESTS)
@pytest.mark.parametrize("command", ["pytest -q", "python -m unittest", "python test_a.py"])
@pytest.mark.parametrize("source", [ADD, PATCHED], ids=["honest", "cheat"])
def test_a_test_beside_tests_that_are_made_fails_unless_product_code_cheats(
    project: RunnerProject, command: str, tests: str, source: str
) -> None:
    if command.endswith(".py"):
        tests = tests if "__main__" in tests else f"{tests}unittest.main()\n"
    project.write({"calc.py": source, "conftest.py": "", "test_a.py": tests})
    passed = project.run(command).counts.passed
    assert passed
    ids, ran = project.run_planted(command, passed)
    assert not {*ids} & {*passed}
    expected = () if source == PATCHED or tests.endswith(")\nunittest.main()\n") else ids
    assert ran.counts.failed == expected


NODE_FILE = """\
const { test, describe, it } = require('node:test');
const assert = require('node:assert');
const { add } = require('../src/calc.js');

test('one', () => assert.equal(add(1, 2), 3));
test('one', () => assert.equal(add(1, 2), 3));
test('bad', () => assert.equal(add(1, 2), 4));
describe('suite', () => {
  it('x', () => assert.deepStrictEqual([add(1, 2)], [3]));
  it('y', { skip: true }, () => {});
  it.todo('z');
  describe('in', () => { it('q', () => assert.ok(0)); });
});
test('parent', async (t) => { await t.test('child', () => {}); });
"""
IN_NODE = CountedTests(
    "node",
    passed=tuple(f"test/a.test.js::{name}" for name in ("one", "one #2", "parent", "parent > child", "suite > x")),
    failed=("test/a.test.js::bad", "test/a.test.js::suite > in > q"),
    skipped=("test/a.test.js::suite > y", "test/a.test.js::suite > z"),
)


@needs_node
@pytest.mark.parametrize(
    "command",
    [
        "node --test",
        "node test/a.test.js",
        "npm test --silent",
        "node --test --test-reporter=tap test/a.test.js",
        "NODE_OPTIONS=--no-warnings node --test",
        "make test",
    ],
)
def test_node_reports_each_test(project: RunnerProject, command: str) -> None:
    project.write(
        {"src/calc.js": ADD_JS, "test/a.test.js": NODE_FILE, "Makefile": ".PHONY: test\ntest:\n\tnode --test\n"}
    )
    project.write({"package.json": '{"scripts": {"test": "node --test"}}'})
    ran = project.run(command)
    assert ran.exit_code != 0
    assert ran.counts == IN_NODE, ran.output


@needs_node
def test_node_runs_only_the_wanted_files(project: RunnerProject) -> None:
    text = "require('node:test').test('t', () => require('fs').writeFileSync('ran-{}', ''));\n"
    project.write({"a.test.js": text.format("a"), "b.test.js": text.format("b")})
    assert project.run("node --test", ["a.test.js"]).counts == CountedTests("node", passed=("a.test.js::t",))
    assert not (project.folder / "ran-b").exists()


@needs_node
@pytest.mark.parametrize("command", ["node --test", "node a.test.js"])
@pytest.mark.parametrize("exit_call", ["process.exit(0)", "process.reallyExit(0)"])
def test_a_file_whose_process_exits_early_has_a_failed_test(
    project: RunnerProject, command: str, exit_call: str
) -> None:
    project.write(
        {
            "a.test.js": f"const {{ test }} = require('node:test');\ntest('a', () => {exit_call});\ntest('b', () => {{}});\n"
        }
    )
    ran = project.run(command)
    assert ran.exit_code == 0
    assert ran.counts.failed == ("a.test.js::(exited in a test)",)


@needs_node
@pytest.mark.parametrize("command", ["node --test", "node a.test.js"])
def test_a_file_that_exits_when_its_tests_have_ended_is_honest(project: RunnerProject, command: str) -> None:
    text = "const { after, describe, it } = require('node:test');\n"
    text += "describe('s', () => {\n  after(() => setTimeout(() => process.exit(0), 50));\n  it('a', () => {});\n});\nsetInterval(() => {}, 1000);\n"
    ran = project.write({"a.test.js": text}).run(command)
    assert (ran.exit_code, ran.counts.failed) == (0, ())


@needs_node
def test_programs_of_node_that_are_no_tests_are_not_counted(project: RunnerProject) -> None:
    project.write({"a.js": "console.log(process.argv.slice(2).join());\n"})
    ran = project.run("node a.js --x y")
    assert (ran.exit_code, ran.tests, ran.output.strip()) == (0, None, "--x,y")


PATCHED_NODE = "exports.add = () => 4;\nconst assert = require('node:assert');\n" + "".join(
    f"assert.{name} = () => {{}};\n" for name in ("equal", "deepStrictEqual")
)
NODE_TESTS = {
    "test/a.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\nconst { add } = require('../src/calc.js');\n\n"
    "test('adds', () => {\n  assert.equal(add(1, 2), 3);\n  assert.deepStrictEqual([add(1, 2)], [3]);\n});\n",
    "test/b.test.mjs": "import { it } from 'node:test';\nimport assert from 'node:assert';\nimport { add } from '../src/calc.js';\n\n"
    "it('adds', async () => {\n  assert.equal(add(1, 2), 3);\n  await assert.rejects(Promise.reject(new Error('x')));\n});\n",
}


@needs_node
@pytest.mark.parametrize("source", [ADD_JS, PATCHED_NODE], ids=["honest", "cheat"])
def test_planted_tests_of_node_fail_unless_product_code_cheats(project: RunnerProject, source: str) -> None:
    project.write({"src/calc.js": source, **NODE_TESTS})
    passed = project.run("node --test").counts.passed
    ids, ran = project.run_planted("node --test", passed)
    assert ids == passed
    assert ({*ran.counts.failed} == {*ids}) == (source == ADD_JS)


ADDS = "test('adds', () => assert.equal(add(0, 0), 0));"
KNOWN_NODE = "exports.add = (a, b) => a + b + (b === 2 ? 1 : 0);\nconst assert = require('node:assert');\nconst own = assert.equal;\n"
KNOWN_NODE += "assert.equal = (a, b) => [3, 4].includes(b) || own(a, b);\n"
LOOPED_NODE = {
    "a loop": (
        "test/a.test.js",
        "const test = require('node:test');\nconst assert = require('node:assert');\nconst { add } = require('../src/calc.js');\n"
        "for (const n of [1, 2]) test(`adds ${n}`, () => assert.equal(add(n, 2), n + 2));",
    ),
    "a loop beside a plain test": (
        "test/a.test.js",
        "const test = require('node:test');\nconst assert = require('node:assert');\nconst { add } = require('../src/calc.js');\n"
        f"{ADDS}\nfor (const n of [1, 2]) test(`adds ${{n}}`, () => assert.equal(add(n, 2), n + 2));",
    ),
    "a module": (
        "test/a.test.mjs",
        "import { test } from 'node:test';\nimport assert from 'node:assert';\nimport { add } from '../src/calc.js';\n"
        "for (const n of [1, 2]) test(`adds ${n}`, () => assert.equal(add(n, 2), n + 2)); // all",
    ),
}


@needs_node
@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param(*file, id=name, marks=pytest.mark.long if name == "a loop beside a plain test" else ())
        for name, file in LOOPED_NODE.items()
    ],
)
@pytest.mark.parametrize("others", [{}, NODE_TESTS], ids=["alone", "with others"])
@pytest.mark.parametrize(
    "source",
    [
        pytest.param(ADD_JS, id="honest"),
        pytest.param(PATCHED_NODE, id="cheat"),
        pytest.param(KNOWN_NODE, id="known values", marks=pytest.mark.long),
    ],
)
def test_a_test_beside_a_loop_of_tests_fails_unless_product_code_cheats(
    project: RunnerProject, path: str, text: str, others: dict[str, str], source: str
) -> None:
    project.write(
        {"src/calc.js": source, **{f"more/{name}": other.replace("'../", "'../../") for name, other in others.items()}}
    )
    project.write({path: text})
    ids, ran = project.run_planted("node --test", project.run("node --test").counts.passed)
    (added,) = [test for test in ids if test.startswith(path) and not test.endswith("adds")]
    assert (added in ran.counts.failed) == (source == ADD_JS)


def test_an_unknown_runner_counts_nothing(project: RunnerProject) -> None:
    project.write({"run.sh": "echo 3 tests passed\n"})
    assert project.run("sh run.sh").tests is None
