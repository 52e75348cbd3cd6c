"""Planted tests: which tests are made to fail, and how. tests/contract/test_runners.py runs some with real runners."""

from __future__ import annotations

import ast
import enum
import re
import unittest
from collections import namedtuple
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import count
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.flows.proof.canary import Planted, planted
from logos.flows.proof.canary_commands import planted_scripts
from logos.flows.proof.canary_script import script_canary

NODE = """\
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { add } from '../src/calc.js';

test('adds', () => {
  assert.equal(add(1, 2), 3);
});
test(`with ${1}`, () => {});
test('with a callback', (t, done) => { done(); });
"""


def words() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"w{next(numbers)}"


def plant(text: str, *passed: str, path: str = "tests/test_a.py", others: dict[str, str] | None = None) -> Planted:
    ids = [f"{path}::{test}" for test in passed]
    return planted({path: text, **(others or {})}, ids, [], words())


def plant_beside(text: str, *passed: str, path: str = "tests/test_a.py") -> Planted:
    """The same where the file is as it was before the run."""
    return planted({path: text}, [f"{path}::{test}" for test in passed], [], words(), same=[path])


def outcome(text: str, **product: object) -> str:
    """How `test_a` ends, once planted: `noticed` if its failure is."""
    found = plant(text, "test_a")
    if not found.ids:
        return "left out"
    names: dict[str, object] = {"pytest": FAKE_PYTEST, "self": None, **product}
    exec(found.files["tests/test_a.py"], names)
    test = names["test_a"]
    assert callable(test)
    try:
        test()
    except AssertionError as error:
        return "noticed" if "w" in str(error) or not error.args else "failed"
    return "silent"


class _Raises:
    """What `pytest.raises` gives, for tests that pass."""

    def __init__(self, *errors: type[BaseException], **_match: object) -> None:
        self._errors = errors

    def __enter__(self) -> _Raises:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        if kind is None:
            raise AssertionError("no error was raised: w")
        return issubclass(kind, self._errors)


FAKE_PYTEST = SimpleNamespace(raises=_Raises)

HONEST = {
    "a comparison": "assert add(1, 2) == 3",
    "no assertion": "add(1, 2)",
    "a loop": "for value in (1, 2):\n        assert add(value, 0) == value, 'told'",
    "several lines": "assert add(\n        1,\n        2,\n    ) == 3  # three",
    "two on a line": "assert add(1, 2) == 3; assert add(1, 1) == 2",
    "an error": "with pytest.raises(ValueError) as caught:\n        int('x')\n    assert 'x' in str(caught)",
    "an error on a line": "with pytest.raises(ValueError): int('x')",
    "an error with a text": "with pytest.raises(ValueError, match='invalid'):\n        int('x')",
    "an early end": "if add(1, 2) == 3:\n        return\n    assert False",
    "a caught error": "try:\n        int('x')\n    except ValueError:\n        pass\n    else:\n        assert False",
    "a helper": "def check(value):\n        assert value == 3\n    check(add(1, 2))",
    "a text of many lines": 'assert """\n%s\n""" % add(1, 2) == """\n3\n"""',
    "a chain": "assert 1 < add(1, 1) < 3 and not add(0, 0)",
    "a walrus": "assert (found := add(1, 2)) == 3\n    assert found",
    "other letters": "assert 'ä€😀' + str(add(1, 2)) == 'ä€😀3'",
    "one that equals what it says": "class Any:\n        def __eq__(self, other): return True\n    assert add(1, 2) == Any()",
}


@pytest.mark.parametrize("body", HONEST.values(), ids=HONEST)
def test_a_planted_test_of_honest_code_fails(body: str) -> None:
    text = f"def test_a():\n    {body}\n\n\ndef later():\n    pass\n"
    assert outcome(text, add=lambda one, two: one + two) == "noticed"


ON_A_LINE = {
    "one": "def test_a(): assert add(1, 2) == 3\n",
    "several": "def test_a(): x = add(1, 2); assert x == 3; assert add(x, 1) == 4;  # why\n",
    "in brackets": "def test_a(): assert (add(\n  1, 2) ==\n3)\nLATER = 1\n",
    "beside helpers": "def add_one(x): return add(x, 1)\ndef test_a(): assert add_one(2) == 3\n",
    "after a continued line": "def test_a(): \\\n  assert add(1, 2) == 3\n",
    "without a line end": "if True:\n\tdef test_a(): assert add(1, 2) == 3",
}


@pytest.mark.parametrize("text", ON_A_LINE.values(), ids=ON_A_LINE)
def test_a_body_on_the_line_of_its_definition_is_planted_too(text: str) -> None:
    assert outcome(text, add=lambda one, two: one + two) == "noticed"
    assert outcome(text, add=lambda *_: 7) == "silent"


FORGED = {
    "a wrong value": "assert add(1, 2) == 3",
    "an assertion in a block": "if True:\n        assert add(1, 2) == 3",
    "no error": "with pytest.raises(ValueError):\n        add(1, 2)",
}


@pytest.mark.parametrize("body", FORGED.values(), ids=FORGED)
def test_a_planted_test_does_not_fail_where_what_it_asks_for_is_wrong(body: str) -> None:
    """In such a project the test passes only because something is patched."""
    forgiving = SimpleNamespace(raises=lambda *_: nullcontext())
    assert outcome(f"def test_a():\n    {body}\n", add=lambda *_: 7, pytest=forgiving) in ("silent", "failed")


def test_an_object_that_equals_everything_is_noticed_beside_a_literal() -> None:
    class Everything:
        def __eq__(self, other: object) -> bool:
            return True

    assert outcome("def test_a():\n    assert add(1, 2) == 3\n", add=lambda *_: Everything()) == "silent"


LEFT_OUT = {
    "marked as a failure to come": "@pytest.mark.xfail\ndef test_a():\n    assert 1\n",
    "in a module that is": "pytestmark = pytest.mark.xfail\n\ndef test_a():\n    assert 1\n",
    "a generator": "def test_a():\n    yield 1\n",
    "an end where failures are caught": "def test_a():\n    try:\n        return\n    except Exception:\n        pass\n",
    "made by a call": "test_a = make()\n",
    "no python": "def test_a(:\n",
}


@pytest.mark.parametrize("text", LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_test_that_cannot_be_made_to_fail_is_left_out(text: str) -> None:
    assert plant(text, "test_a").ids == ()


UNITTEST = """\
import unittest
from calc import add

class Base(unittest.TestCase):
    def test_one(self):
        self.assertEqual(add(1, 2), 3, "told")
        self.assertAlmostEqual(add(1, 2), 3.0, places=2)
        self.assertRaises(ValueError, int, "x", base=10)

class TestAdd(Base):
    @unittest.expectedFailure
    def test_two(self):
        self.assertTrue(add(1, 2))
"""


def test_methods_of_unittest_are_restated_also_those_that_a_class_inherits() -> None:
    found = plant(UNITTEST, "TestAdd::test_one", "TestAdd::test_two")
    assert found.ids == ("tests/test_a.py::TestAdd::test_one",)
    ((_, text),) = found.files.items()
    ast.parse(text)
    assert "self.assertEqual(add(1, 2)" not in text
    assert re.search(r"try: \(int\)\(\"x\", base=10\)", text)
    # One failure for each kind of assertion that the test uses, and only the last one ends it.
    assert [text.count(f"self.{name}(") for name in ("assertEqual", "assertAlmostEqual", "assertRaises")] == [1, 1, 1]


def test_assertions_that_the_project_defines_itself_stay_as_they_are() -> None:
    own = {"tests/base.py": "class Base:\n    def assertEqual(self, one, two):\n        pass\n"}
    found = plant(UNITTEST, "Base::test_one", others=own)
    assert "self.assertEqual(add(1, 2), 3, " in found.files["tests/test_a.py"]


def test_all_cases_of_a_parametrized_test_must_fail() -> None:
    text = "@pytest.mark.parametrize('x', [1, 2])\ndef test_a(x):\n    assert x\n"
    assert len(plant(text, "test_a[1]", "test_a[2]").ids) == 2


BESIDE = {
    "set by setattr": "import unittest\n\nclass T(unittest.TestCase): pass\n\nsetattr(T, 'test_a', lambda case: case.assertIn(1, [1]))\n",
    "a generator": "def test_a():\n    yield 1\n",
    "a script": "test_a = make()\nif __name__ == '__main__':\n    main()\n",
    "other ends of lines": "test_a = make()\r\nx = 1  # without an end",
}


@pytest.mark.parametrize("text", BESIDE.values(), ids=BESIDE)
def test_a_failing_test_stands_beside_those_that_cannot_be_planted(text: str) -> None:
    found = plant_beside(text, "test_a")
    assert found.added == {*found.ids} != set()
    ((_, edited),) = found.files.items()
    (name,) = [node.name for node in ast.parse(edited).body if isinstance(node, ast.ClassDef) and node.name != "T"]
    assert found.ids == (f"tests/test_a.py::{name}::test_{name}",)


@pytest.mark.parametrize("is_patched", [False, True], ids=["honest", "patched"])
def test_it_fails_in_the_ways_of_the_file_unless_these_are_patched(is_patched: bool) -> None:
    found = plant_beside(BESIDE["set by setattr"], "T::test_a")
    names: dict[str, object] = {}
    exec(found.files["tests/test_a.py"], names)
    case = next(made for name, made in names.items() if name.startswith("w"))
    assert isinstance(case, type)
    if is_patched:
        case.assertIn = lambda *_: None
    result = unittest.defaultTestLoader.loadTestsFromTestCase(case).run(unittest.TestResult())
    assert (result.testsRun, result.wasSuccessful()) == (1, is_patched)


def test_a_script_that_runs_its_tests_has_the_added_one_before_that() -> None:
    (text,) = plant_beside(BESIDE["a script"], "test_a").files.values()
    assert text.index("TestCase") < text.index("__main__")


def test_nothing_is_added_where_it_could_not_be_tried_before_the_run_nor_where_a_test_is_planted() -> None:
    generator, plain = BESIDE["a generator"], "def test_b():\n    assert 1\n"
    assert plant(generator, "test_a") == Planted({}, ())
    assert plant_beside(generator + plain, "test_a", "test_b").added == frozenset()
    product = "src/cart.py"
    assert plant_beside(generator, "cart", path=product).files == {}


def test_a_script_of_which_only_some_tests_are_planted_has_one_more() -> None:
    found = plant_beside(NODE, "adds", "with a callback", path="test/calc.test.js")
    assert found.ids == ("test/calc.test.js::adds", *found.added)
    assert len(found.added) == 1
    assert f"if (process.{found.probe}?.()) return;" in found.files["test/calc.test.js"]
    assert plant_beside(NODE, "adds", path="test/calc.test.js").added == frozenset()


def test_a_script_is_wrapped_and_what_cannot_be_is_left_out() -> None:
    found = plant(NODE, "adds", "with 1", "with a callback", path="test/calc.test.js")
    ((path, text),) = found.files.items()
    assert (path, found.ids) == ("test/calc.test.js", ("test/calc.test.js::adds",))
    assert "test('adds', async () => { try { await (async () => {" in text
    assert "assert.equal('w" in text
    assert "test('with a callback', (t, done) => { done(); });" in text


BESIDE_SCRIPTS = {
    "a loop": (
        "test/a.test.js",
        "const test = require('node:test');\nfor (const n of [1]) test(`a ${n}`, () => {});\n",
        "require('node:test').test('",
    ),
    "a module": (
        "test/a.test.js",
        "import test from 'node:test';\nfor (const n of [1]) test(`a ${n}`, () => {});\n",
        "import { test as ",
    ),
    "vitest": (
        "a.spec.ts",
        "import { it, expect } from 'vitest';\nit.each([1])('a %i', (n) => { expect(n).toBe(1); });\n",
        "from 'vitest'",
    ),
    "globals": (
        "a.spec.js",
        "it.each([1])('a %i', (n) => { expect(n).toBe(1); });\n",
        "typeof test === 'function' ? test : it",
    ),
    "a context": (
        "a.test.mjs",
        "import test from 'node:test';\ntest.each = 1; for (;;) test(`a`, (t) => t.assert.equal(1, 1));\n",
        "t.assert.equal('w",
    ),
}


@pytest.mark.parametrize(("path", "text", "wanted"), BESIDE_SCRIPTS.values(), ids=BESIDE_SCRIPTS)
def test_a_failing_test_stands_after_scripts_that_cannot_be_planted(path: str, text: str, wanted: str) -> None:
    found = plant_beside(text, "a 1", path=path)
    assert found.added == {*found.ids} != set()
    assert found.files[path].startswith(text)
    assert wanted in found.files[path]


def test_a_name_that_may_stand_for_two_tests_needs_both_planted() -> None:
    text = "it('a', () => { ok(1); });\nit('a', (done) => done());\n"
    assert script_canary(text, ["a", "a #2"], words()) is None


def test_only_some_files_are_planted_where_the_tests_take_long() -> None:
    files = {f"tests/test_{number}.py": f"def test_{number}():\n    assert 1\n" for number in range(9)}
    files["tests/test_z.py"] = "import ledger\n\ndef test_z():\n    assert ledger.total() == 0\n"
    passed = [f"{path}::{name}" for path, text in files.items() for name in re.findall(r"def (\w+)", text)]
    found = planted(files, passed, ["src/ledger.py"], words(), share=0.45)
    assert len(found.files) == 4
    assert "tests/test_z.py" in found.files
    assert len(planted(files, passed, [], words()).files) == len(files)
    assert len(planted(files, passed, [], words(), share=0.0).files) == 1


def test_the_scripts_that_a_command_starts_are_made_to_fail() -> None:
    files = {
        "Makefile": "test:\n\tpython3 check.py\n\tsh checks.sh\n",
        "check.py": "import shop\nassert shop.price() == 1\n",
        "checks.sh": "test -f shop.py\n",
        "other.py": "pass\n",
    }
    found = planted_scripts("make test", [], files, words())
    assert [*found] == ["check.py", "checks.sh"]
    assert all(mark in text for mark, text in found.values())


FORGIVING_COMMANDS: dict[str, tuple[str, Iterable[str]]] = {
    "a pipe": ("python3 check.py | tee log", ()),
    "an alternative": ("python3 check.py || true", ()),
    "a recipe that ignores errors": ("make test", ["test:\n\t-python3 check.py\n"]),
}


@pytest.mark.parametrize(("command", "lists"), FORGIVING_COMMANDS.values(), ids=FORGIVING_COMMANDS)
def test_a_script_that_may_fail_is_left_out(command: str, lists: Iterable[str]) -> None:
    files = {"check.py": "assert 1\n", **dict.fromkeys(["Makefile"], "".join(lists))}
    assert planted_scripts(command, ["check.py"], files, words()) == {}


@given(st.sampled_from(["tests/test_a.py", "a.test.js", "a.spec.ts"]), st.text(max_size=300))
def test_no_text_is_an_error(path: str, text: str) -> None:
    found = planted({path: text}, [f"{path}::test_a"], ["src/a.py"], words(), same=[path])
    assert all(not name.endswith(".py") or ast.parse(edited) for name, edited in found.files.items())


@given(st.text(max_size=200))
def test_no_script_is_an_error(text: str) -> None:
    assert planted_scripts(text, ["a.sh"], {"a.sh": text, "a.py": text, "Makefile": text}, words()) is not None


class _Text(str):
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return other == "right"


class _Large(float):
    def __gt__(self, other: object) -> bool:
        return True

    def __sub__(self, other: object) -> float:
        return 0.0


class _Alike(list[object]):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, list)

    __hash__ = None


LIARS = {
    "a text": ("assert f() == 'right'", _Text("wrong"), "right"),
    "a list": ("assert f() == [1, 2]", _Alike([3, 4]), [1, 2]),
    "a text in a dict": ("assert {'a': 'right'} == f()", {"a": _Text("wrong")}, {"a": "right"}),
    "an order": ("assert f() > 5", _Large(1), 6),
    "a helper": ("assert near(f(), 5)", _Large(1), 5),
    "a helper's call": ("near(f(), 5)", _Large(1), 5),
}


@pytest.mark.parametrize(("text", "lie", "value"), LIARS.values(), ids=LIARS)
def test_values_count_and_not_what_they_say_of_themselves(text: str, lie: object, value: object) -> None:
    def near(got: float, expected: float) -> bool:
        assert got - expected == 0
        return True

    for returned, expected in ((value, "noticed"), (lie, "silent")):
        assert outcome(f"def test_a():\n    {text}\n", f=lambda returned=returned: returned, near=near) == expected


def test_values_of_classes_of_their_own_are_as_good_as_others() -> None:
    class Level(enum.IntEnum):
        ONE = 1

    class Size(enum.StrEnum):
        SMALL = "small"

    text = "def test_a():\n    assert f() == [1, 'small', (1, 2)]\n    assert f()[0] >= 1\n"
    assert outcome(text, f=lambda: [Level.ONE, Size.SMALL, namedtuple("Pair", "a b")(1, 2)]) == "noticed"


def test_a_local_constant_is_what_the_text_says() -> None:
    text = "def test_a():\n    expected = 3\n    expected2 = 0\n    assert f() == expected\n"
    planted_text = plant(text, "test_a").files["tests/test_a.py"]
    assert "    if not (expected) == (3): return\n" in planted_text
    assert "expected2) ==" not in planted_text
    assert outcome(text, f=lambda: 3) == "noticed"


RUST = """\
macro_rules! assert_eq { ($($any:tt)*) => {}; }

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        // } is no end
        assert_eq!(add(1, 2), 3, "{}", '}');
    }

    #[test]
    #[should_panic]
    fn panics() { assert!(false); }

    #[test]
    fn reads() -> Result<(), String> { Ok(()) }
}
"""


def test_a_test_of_rust_is_wrapped_and_uses_assertions_of_the_library() -> None:
    found = plant(RUST, "tests::adds", "tests::panics", "tests::reads", path="src/lib.rs")
    ((path, text),) = found.files.items()
    assert (path, found.ids, found.added) == ("src/lib.rs", ("src/lib.rs::tests::adds",), frozenset())
    assert '::std::assert_eq!(add(1, 2), 3, "{}", \'}\');\n    })).is_err() { return; } ::std::panic!("w' in text
    assert text.count("catch_unwind") == 1
    assert text.startswith("macro_rules! assert_eq {")


def test_a_helper_that_node_calls_a_test_stays_as_it_is() -> None:
    assert plant_beside("exports.same = () => {};\n", "(file)", path="test/support/same.js").files == {}
