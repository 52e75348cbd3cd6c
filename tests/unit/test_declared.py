"""Which tests an analyst declared, and the ids of tests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.flows.proof.declared import MAX_DECLARED, declared_in, excused, unrelated_in
from logos.flows.proof.test_ids import file_of, function_of


@pytest.mark.parametrize(
    "title",
    [
        "## Tests that must change",
        "**Tests that must change:**",
        "Tests that must change:",
        "3. tests that must change:",
    ],
)
@pytest.mark.parametrize(
    "item",
    [
        "- tests/test_a.py: the rounding is new",
        "* `tests/test_a.py`: the rounding is new",
        "- tests/test_a.py - the rounding is new",
        "- tests/test_a.py — the rounding is new",
        "1. **`tests/test_a.py`** (the rounding is new)",
        "- ./tests/test_a.py, the rounding is new",
    ],
)
def test_an_item_with_a_reason_is_declared(title: str, item: str) -> None:
    (found,) = declared_in(f"Analysis\n\n{title}\n\n{item}\n\n## Next\n- other/test_b.py: no\n")
    assert (found.path, found.why) == ("tests/test_a.py", "the rounding is new")


def test_the_line_of_the_title_may_name_the_only_file() -> None:
    (found,) = declared_in("Tests that must change: tests/test_a.py, the rounding is new")
    assert (found.path, found.why) == ("tests/test_a.py", "the rounding is new")


@pytest.mark.parametrize(
    "item",
    [
        "- tests/test_a.py",
        "- tests/test_a.py:",
        "- tests/test_a.py: 12",
        "- tests/**/*.py: everything",
        "- *: everything",
        "- **: everything",
        "- ../other/test_a.py: outside",
        "- /etc/passwd: outside",
        "- none: there are none",
        "- a" + "b" * 5000 + ".py: too long",
        "> - tests/test_a.py: quoted",
        "```\n- tests/test_a.py: in a fence\n```",
    ],
)
def test_what_has_no_reason_or_is_no_path_is_not_declared(item: str) -> None:
    assert declared_in(f"## Tests that must change\n{item}\n") == ()


FAILED = ("tests/test_a.py::test_one[1]", "tests/test_a.py::Group.test_two", "web/a.test.js::adds: two", "b.py::c")


@pytest.mark.parametrize(
    ("item", "tests"),
    [
        ("- tests/test_a.py::test_one: needs a server", FAILED[:1]),
        ("- `tests/test_a.py::test_one[1]`: needs a server", FAILED[:1]),
        ("- `web/a.test.js::adds: two` - needs a server", FAILED[2:3]),
        ("- Group.test_two, needs a server", FAILED[1:2]),
        ("- tests/test_a.py: needs a server", FAILED[:2]),
        ("- tests/test_a.py::test_one", ()),
        ("- *: everything", ()),
        ("- tests/: everything", ()),
        ("- test_missing: it does not exist", ()),
        ("> - tests/test_a.py: quoted", ()),
    ],
)
def test_a_failure_with_a_reason_is_unrelated(item: str, tests: tuple[str, ...]) -> None:
    declared = unrelated_in(f"Unrelated failing tests:\n{item}\n\nOther\n- b.py: mentioned\n")
    assert excused(FAILED, declared) == tests


def test_a_folder_is_declared_as_one() -> None:
    paths = [
        found.path for found in declared_in("Tests that must change:\n- tests/api/: moved\n- tests/old/*: moved\n")
    ]
    assert paths == ["tests/api/", "tests/old/"]


def test_a_section_ends_with_its_list() -> None:
    text = "Tests that must change:\n- a/test_a.py: because of it\n\nOther things\n- b/test_b.py: mentioned\n"
    assert [found.path for found in declared_in(text)] == ["a/test_a.py"]


def test_a_flood_is_capped() -> None:
    text = "Tests that must change:\n" + "".join(f"- t/test_{number}.py: because\n" for number in range(100_000))
    assert len(declared_in(text)) == MAX_DECLARED


@given(st.text())
def test_no_text_is_an_error(text: str) -> None:
    for found in declared_in("Tests that must change:\n" + text):
        assert found.path
        assert found.why
        assert ".." not in found.path.split("/")


def test_ids_tell_their_file_and_their_function() -> None:
    assert file_of("tests/test_a.py::TestB::test_c[x::y]") == "tests/test_a.py"
    assert file_of("::crate::test") == ""
    assert function_of("tests/test_a.py::TestB::test_c[x::[y]]") == "tests/test_a.py::TestB::test_c"
    assert function_of("a.test.js::adds [1]") == "a.test.js::adds [1]"
    assert function_of("tests/test_a.py::test_c") == "tests/test_a.py::test_c"
