"""What a file defines at its top level."""

from __future__ import annotations

import warnings

import pytest

from logos.adapters.git.contents import defined_in


def test_functions_and_classes_at_the_top_level_are_definitions() -> None:
    text = (
        "import os\n\ndef add(): ...\n\nasync def fetch(): ...\n\nclass Cart:\n    def total(self): ...\n\nLIMIT = 3\n"
    )
    assert defined_in("src/cart.py", text) == ("add", "fetch", "Cart")


def test_private_names_and_main_are_everybodys() -> None:
    assert (
        defined_in("cart.py", "def _add(): ...\ndef __getattr__(name): ...\ndef main(): ...\nclass _Cart: ...\n") == ()
    )


def test_a_name_defined_twice_in_a_file_counts_once() -> None:
    assert defined_in("cart.py", "def add(x): ...\ndef add(y): ...\n") == ("add",)


def test_nothing_inside_functions_classes_or_conditions_is_at_the_top_level() -> None:
    assert defined_in("cart.py", "def add():\n    def inner(): ...\nif True:\n    def other(): ...\n") == ("add",)


@pytest.mark.parametrize(
    "path",
    ["test_cart.py", "src/cart_test.py", "conftest.py", "app/conftest.py", "tests/builders.py", "a/tests/b/c.py"],
)
def test_test_files_may_define_what_they_like(path: str) -> None:
    assert defined_in(path, "def cart(): ...\n") == ()


@pytest.mark.parametrize("path", ["contest.py", "src/testing.py", "latests/a.py", "tests.py"])
def test_a_file_that_only_sounds_like_a_test_is_none(path: str) -> None:
    assert defined_in(path, "def cart(): ...\n") == ("cart",)


@pytest.mark.parametrize("path", ["cart.js", "cart.pyi", "py", "cart.py.txt", ""])
def test_other_languages_are_not_read(path: str) -> None:
    assert defined_in(path, "def cart(): ...\n") == ()


@pytest.mark.parametrize(
    "text", ["def broken(:\n", "\0", "(" * 5_000, "x = " + "-" * 200_000 + "1", "a" + ".a" * 100_000, "# " * 600_000]
)
def test_a_text_that_python_cannot_read_defines_nothing(text: str) -> None:
    assert defined_in("cart.py", text) == ()


def test_a_strange_text_prints_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert defined_in("cart.py", "def add():\n    return '\\d' is 1\n") == ("add",)
