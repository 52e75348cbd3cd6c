"""Planted tests: which files are copied, and what is planted in them. tests/contract/test_runners.py runs them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.flows.proof.canary import MAX_FILES, beside, planted

UNITTEST = """\
import unittest
from calc import add

class TestAdd(unittest.TestCase):
    def test_one(self):
        self.assertEqual(add(1, 2), 3)
        self.assertTrue(add(1, 2))

if __name__ == "__main__":
    unittest.main()
"""
PYTEST = """\
import pytest
from calc import add

pytestmark = pytest.mark.skip

def test_one():
    assert add(1, 2) == 3
    with pytest.raises(TypeError):
        add()
"""
NODE = """\
import { test } from 'node:test';
import assert from 'node:assert/strict';
import {
  add,
} from '../src/calc.js';

test('adds', () => {
  assert.equal(add(1, 2), 3);
  assert.deepEqual([add(1, 2)], [3]);
});
"""


def words() -> Callable[[str], str]:
    numbers = count(1)
    return lambda _: f"w{next(numbers)}"


def test_a_copy_lies_beside_its_original_and_fails_once_for_each_kind_of_assertion() -> None:
    found = planted({"tests/test_calc.py": UNITTEST}, ["calc.py"], words())
    ((path, text),) = found.files.items()
    assert path.startswith("tests/test_w")
    assert [test.startswith(f"{path}::Testw") for test in found.ids] == [True, True]
    assert text.count("self.assertEqual(") == 2
    assert text.count("__import__('calc')") == 2
    ast.parse(text)


def test_own_tests_and_marks_of_a_copy_do_not_run() -> None:
    ((_, text),) = planted({"tests/test_calc.py": PYTEST}, [], words()).files.items()
    assert "'pytestmark'" in text
    assert "'test_one'" in text
    assert text.count("with pytest.raises(ValueError)") == 1


def test_a_copy_of_a_script_has_its_imports_and_none_of_its_tests() -> None:
    found = planted({"test/calc.test.js": NODE}, ["src/calc.js"], words())
    ((path, text),) = found.files.items()
    assert path.startswith("test/w")
    assert path.endswith(".test.js")
    assert "from '../src/calc.js'" in text
    assert "await import('../src/calc.js')" in text
    assert "adds" not in text
    assert len(found.ids) == 2
    assert all(test.startswith(f"{path}::w") for test in found.ids)


def test_files_that_name_what_changed_come_first_and_few_are_planted() -> None:
    files = {f"tests/test_{number}.py": f"def test_{number}():\n    assert 1\n" for number in range(9)}
    files["tests/test_z.py"] = "import ledger\n\ndef test_z():\n    assert ledger.total() == 0 and 'a longer text'\n"
    found = planted(files, ["src/ledger.py"], words())
    assert len(found.files) == MAX_FILES
    assert any("import ledger" in text for text in found.files.values())


def test_a_file_that_the_command_names_is_replaced() -> None:
    found = planted({"tests/test_calc.py": UNITTEST}, [], words(), ["tests/test_calc.py"])
    assert list(found.files) == ["tests/test_calc.py"]
    assert found.files["tests/test_calc.py"].rstrip().endswith("main()")
    assert found.files["tests/test_calc.py"].count("main()") == 1


@pytest.mark.parametrize(
    ("path", "copy"),
    [
        ("tests/test_a.py", "tests/test_w.py"),
        ("tests/a_test.py", "tests/w_test.py"),
        ("app/tests.py", "app/test_w.py"),
        ("tests/check_a.py", "tests/check_w.py"),
        ("a.test.js", "w.test.js"),
        ("src/a.b.spec.ts", "src/w.b.spec.ts"),
        ("test.js", "w.test.js"),
        ("test-a.mjs", "test-w.mjs"),
        ("test/a.js", "test/w.js"),
        ("test/a_test.js", "test/w_test.js"),
    ],
)
def test_a_copy_is_found_by_the_same_pattern(path: str, copy: str) -> None:
    assert beside(path, "w") == copy


def test_a_class_with_a_base_of_the_project_is_planted_with_the_same_base() -> None:
    text = "from support import Base\n\nclass TestA(Base):\n    def test_a(self):\n        assert self.value == 1\n"
    found = planted({"tests/test_a.py": text}, [], words())
    ((path, planted_text),) = found.files.items()
    assert len(found.ids) == 1
    assert found.ids[0].startswith(f"{path}::Testw")
    assert "(Base):\n    def test_w" in planted_text
    assert "self.assertEqual" not in planted_text


def test_files_without_tests_or_with_broken_text_are_not_planted() -> None:
    files = {
        "tests/conftest.py": PYTEST,
        "tests/test_a.py": "def",
        "tests/helper.py": "x = 1\n",
        "tests/a.txt": "test(",
    }
    assert planted(files, [], words()).ids == ()


@given(st.sampled_from(["tests/test_a.py", "a.test.js", "a.spec.ts"]), st.text(max_size=300))
def test_no_text_is_an_error(path: str, text: str) -> None:
    assert planted({path: text}, ["src/a.py", "src/a.js"], words()).files is not None
