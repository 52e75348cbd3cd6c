"""Texts and tables fit the width of a terminal; words and commands stay whole."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from logos.cli.output import console as show
from logos.cli.output.layout import cut_into, fold
from tests.builders import examples

HEADERS = ("run", "status", "turns", "tokens", "asked for")
ROWS = [("k3abcdef", "PASSED, unverified", 9, "1,234,567", "add a flag that prints the version and the commit")]


def printed(width: int, *, terminal: bool = True) -> list[str]:
    target = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None, soft_wrap=True)
    show.put_table(target, HEADERS, ROWS, spare=("tokens", "turns"))
    assert isinstance(target.file, io.StringIO)
    return target.file.getvalue().splitlines()


def test_a_wide_terminal_shows_the_same_table_as_a_pipe() -> None:
    assert printed(200) == printed(80, terminal=False)
    assert len(printed(200)) == 2


@pytest.mark.parametrize("width", [60, 70, 80])
def test_a_table_fits_and_breaks_no_word(width: int) -> None:
    lines = printed(width)
    assert all(len(line) <= width for line in lines)
    assert " ".join(" ".join(lines).split()).count("commit") == 1
    for word in ["add", "a", "flag", "that", "prints", "the", "version", "and", "the", "commit"]:
        assert any(word in line.split() for line in lines)


def test_columns_that_matter_least_are_left_out_where_folding_is_not_enough() -> None:
    assert "tokens" in printed(70)[0]
    assert "tokens" not in printed(55)[0]
    assert "turns" not in printed(45)[0]


def test_a_command_between_backticks_is_not_broken() -> None:
    lines = fold("`logos rollback RUN@EVENT` returns to it, `logos fork RUN --at EVENT` continues from it", 40)
    assert any("`logos fork RUN --at EVENT`" in line for line in lines)


@examples()
@given(st.text(alphabet="ab `\n界", max_size=80), st.integers(8, 40))
def test_folding_changes_nothing_but_spaces(text: str, width: int) -> None:
    assert "".join(" ".join(fold(text, width)).split()) == "".join(text.split())
    assert "".join("".join(cut_into(text, width)).split()) == "".join(text.split())
