"""What product code replaces under its tests is reported by name, and what tests replace for themselves is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logos.flows.proof.test_ids import replaced_in
from tests.support.runner_project import RunnerProject

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
HELPERS = "EXPECTED = {'one': [1]}\nPRICES = [2, 1]\n\n\ndef check(got, expected):\n    assert got == expected\n"
TESTS = """\
import json
import unittest
from unittest import mock

import helpers
from calc import add


class TestA(unittest.TestCase):
    def test_add(self):
        helpers.check(add(1, 2), json.loads("3"))
        sorted(helpers.PRICES)
        for case in helpers.EXPECTED:
            self.assertIn(case, ["one"])

    @mock.patch("json.loads", return_value=4)
    def test_patched(self, loads):
        with mock.patch.object(helpers, "check"):
            helpers.check(add(1, 2), loads())
        self.assertEqual(open(__file__).read()[:6], "import")
"""
ADD = "def add(a, b):\n    return a + b\n"
BY_CALL = "import sys\n\n\ndef add(a, b):\n    {}\n    return a + b\n"
TOUCHED = {
    "json.loads was replaced": "import json\n_own = json.loads\njson.loads = lambda text: _own(text)\n\n\n" + ADD,
    "unittest.case.TestCase.assertIn was replaced": "import unittest\nunittest.TestCase.assertIn = print\n\n\n" + ADD,
    "helpers.check was replaced": BY_CALL.format(
        "sys.modules['helpers'].check.__code__ = (lambda got, expected: None).__code__"
    ),
    "helpers.EXPECTED was changed": BY_CALL.format("sys.modules['helpers'].EXPECTED.clear()"),
    "test_a.py was read by calc.py": BY_CALL.format("open(sys._getframe(1).f_code.co_filename).close()"),
}
COMMANDS = ["python -m unittest test_a", "pytest -q"]
BOTH = [pytest.param(COMMANDS[0]), pytest.param(COMMANDS[1], marks=pytest.mark.long)]


@pytest.fixture
def project(tmp_path: Path) -> RunnerProject:
    found = RunnerProject(tmp_path)
    found.folder.mkdir()
    return found.write({"conftest.py": "", "helpers.py": HELPERS, "test_a.py": TESTS, "calc.py": ADD})


def touched(project: RunnerProject, command: str, *watched: str) -> list[str]:
    ran = project.run_watched(command, *watched)
    return [what for test in ran.counts.failed if (what := replaced_in(test))]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_honest_project_touches_nothing(project: RunnerProject, command: str) -> None:
    ran = project.run_watched(command, "test_a.py", "helpers.py")
    assert (len(ran.counts.passed), ran.counts.failed) == (2, ()), ran.output


@pytest.mark.parametrize("command", BOTH)
@pytest.mark.parametrize(("what", "source"), TOUCHED.items(), ids=TOUCHED)
def test_what_product_code_touches_has_a_name(project: RunnerProject, command: str, what: str, source: str) -> None:
    project.write({"calc.py": source})
    assert touched(project, command, "test_a.py", "helpers.py") == [what]


def test_a_worker_of_xdist_reports_it_too(project: RunnerProject) -> None:
    project.write({"calc.py": TOUCHED["json.loads was replaced"]})
    assert touched(project, "pytest -q -n 1", "test_a.py") == ["json.loads was replaced"]


def test_a_list_that_tests_hand_to_the_product_may_change(project: RunnerProject) -> None:
    project.write({"test_a.py": TESTS.replace("sorted(helpers.PRICES)", "add(helpers.PRICES, [3])")})
    project.write({"helpers.py": HELPERS + "\n\ndef use(act):\n    act(PRICES)\n"})
    project.write({"calc.py": "def add(a, b):\n    a.extend(b) if isinstance(a, list) else None\n    return a + b\n"})
    assert touched(project, "pytest -q", "test_a.py", "helpers.py") == []


def test_a_report_does_not_depend_on_functions_that_tests_replace(project: RunnerProject) -> None:
    leaves = "import json, os\n\ndef setup_module():\n    json.dumps = os.write = os.getpid = None\n\ndef test_b():\n    pass\n"
    ran = project.write({"test_b.py": leaves}).run("pytest -q test_b.py")
    assert ran.counts.passed == ("test_b.py::test_b",), ran.output


def test_an_object_that_is_made_when_it_is_needed_is_not_made_by_looking_at_it(project: RunnerProject) -> None:
    lazy = "class Lazy:\n    def made(self):\n        raise RuntimeError('too early')\n    __class__ = property(made)\n    __dict__ = __class__\n\n\nSETTINGS = Lazy()\n"
    project.write({"helpers.py": lazy + "\n\n" + HELPERS})
    ran = project.run_watched("python -m unittest test_a", "test_a.py", "helpers.py")
    assert (len(ran.counts.passed), ran.counts.failed) == (2, ()), ran.output


NODE = """\
const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const { same } = require('./helpers.js');
const cases = require('./cases.json');
const { add } = require('../calc.js');

test('adds', () => {
  cases.forEach(([a, b, sum]) => assert.strictEqual(add(a, b), sum));
  same(JSON.parse('3'), 3);
});
test('mocked', (t) => {
  t.mock.method(fs, 'readFileSync', () => 'x');
  assert.strictEqual(fs.readFileSync('none'), 'x');
});
"""
ADD_JS = "exports.add = (a, b) => a + b;\n"
TOUCHED_JS = {
    "fs.readFileSync was replaced": "const fs = require('fs');\nconst own = fs.readFileSync;\nfs.readFileSync = (...a) => own(...a);\n",
    "JSON.parse was replaced": "const own = JSON.parse;\nJSON.parse = (...a) => own(...a);\n",
    "Array.prototype.forEach was replaced": "Array.prototype.forEach = function () {};\n",
    "test/helpers.js.same was replaced": "require('./test/helpers.js').same = () => {};\n",
    "test/cases.json was changed": "require('./test/cases.json').pop();\n",
}


@needs_node
@pytest.mark.parametrize(("what", "source"), [("", ""), *TOUCHED_JS.items()], ids=["honest", *TOUCHED_JS])
def test_what_product_code_touches_in_node_has_a_name(project: RunnerProject, what: str, source: str) -> None:
    project.write({"test/a.test.js": NODE, "test/cases.json": "[[1, 2, 3]]", "calc.js": source + ADD_JS})
    project.write({"test/helpers.js": "exports.same = (a, b) => { if (a !== b) throw new Error('x'); };\n"})
    watched = ("test/a.test.js", "test/helpers.js", "test/cases.json")
    assert touched(project, "node --test test", *watched) == ([what] if what else [])
