"""The person's prompt: two parts under two header lines, or one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.app.prompt import (
    EXPLORE_HEADER,
    SCENARIO_HEADER,
    TEMPLATE,
    given_prompt,
    prompt_from_words,
    split_prompt,
)
from logos.app.setting_sources import load_settings
from logos.errors import PromptError
from tests.builders import examples

BOTH = f"{EXPLORE_HEADER}\nthe shop\nhas no discount\n\n{SCENARIO_HEADER}\nbuy ten\n"


def test_both_parts_are_found_under_their_headers() -> None:
    prompt = split_prompt(BOTH)
    assert prompt.explore == "the shop\nhas no discount"
    assert prompt.scenario_test == "buy ten"
    assert prompt.whole == BOTH


@pytest.mark.parametrize(
    "text",
    [
        f"{SCENARIO_HEADER}\nbuy ten\n{EXPLORE_HEADER}\nthe shop\nhas no discount",
        f"Hello, please do this:\n{BOTH}",
        BOTH.replace("\n", "\r\n"),
        BOTH.replace(EXPLORE_HEADER, f"  {EXPLORE_HEADER}\t"),
        BOTH.strip(),
    ],
    ids=["in the other order", "words before them", "windows line ends", "blanks around a header", "no last newline"],
)
def test_parts_are_found_however_they_stand(text: str) -> None:
    prompt = split_prompt(text)
    assert prompt.explore == "the shop\nhas no discount"
    assert prompt.scenario_test == "buy ten"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", EXPLORE_HEADER),
        ("only words", EXPLORE_HEADER),
        (f"{EXPLORE_HEADER}\nwords", SCENARIO_HEADER),
        (f"{SCENARIO_HEADER}\nwords", EXPLORE_HEADER),
        (f"{EXPLORE_HEADER}\n{SCENARIO_HEADER}\nwords", EXPLORE_HEADER),
        (f"{EXPLORE_HEADER}\nwords\n{SCENARIO_HEADER}\n \n\t\n", SCENARIO_HEADER),
        (f"{BOTH}{SCENARIO_HEADER}\nagain", SCENARIO_HEADER),
        (f"{EXPLORE_HEADER} words\n{SCENARIO_HEADER}\nwords", EXPLORE_HEADER),
        (BOTH.lower(), EXPLORE_HEADER),
    ],
    ids=[
        *("empty", "no header", "no scenario", "no explore", "empty explore", "empty scenario"),
        *("a part twice", "header in a line with words", "lower case"),
    ],
)
def test_a_missing_part_is_named(text: str, named: str) -> None:
    with pytest.raises(PromptError) as caught:
        split_prompt(text)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_template_has_both_parts() -> None:
    assert split_prompt(TEMPLATE).explore
    assert split_prompt(TEMPLATE).scenario_test


def test_plain_words_and_a_test_command_make_a_prompt() -> None:
    prompt = split_prompt(prompt_from_words("  add a discount\n", "make test"))
    assert prompt.explore == "add a discount"
    assert "make test" in prompt.scenario_test


def test_plain_words_without_a_test_command_are_not_enough() -> None:
    with pytest.raises(PromptError, match="--test"):
        prompt_from_words("add a discount", "")


def test_a_prompt_file_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "prompt.md"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text(BOTH, encoding=encoding)
        assert (
            split_prompt(given_prompt(load_settings(None, {}, [f"prompt_file={path}"])) or "").scenario_test
            == "buy ten"
        )


@pytest.mark.parametrize("kind", ["missing", "folder", "bytes"])
def test_a_prompt_file_that_cannot_be_read_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "prompt.md"
    if kind == "folder":
        path.mkdir()
    if kind == "bytes":
        path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PromptError, match=str(path)):
        given_prompt(load_settings(None, {}, [f"prompt_file={path}"]))


lines = st.sampled_from([EXPLORE_HEADER, SCENARIO_HEADER, "", " "]) | st.text(max_size=20)


@examples()
@given(st.lists(lines, max_size=8).map("\n".join))
def test_any_text_has_both_parts_or_a_prompt_error(text: str) -> None:
    try:
        prompt = split_prompt(text)
    except PromptError:
        return
    assert prompt.explore.strip()
    assert prompt.scenario_test.strip()
    assert prompt.whole == text
