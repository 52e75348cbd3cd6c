"""An agent that prints or answers more than anybody reads: bounded memory, bounded work, bounded prompts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.files import bytes_of_file, end_of_file, text_of_file
from logos.adapters.hosts.local import END_BYTES, WHOLE_BYTES, output_of
from logos.adapters.hosts.providers import PROVIDERS
from logos.domain.events import Event, Source, TurnAnswered, TurnAsked
from logos.domain.plans import CondenseRules, ReviewRules
from logos.domain.turns import Turn
from logos.flows import condense
from logos.flows.cycle.flow import Cycle
from logos.prompts import render
from tests.builders import a_plan

NOISE = b"compiling, compiling, compiling\n"


def step(tokens: int) -> bytes:
    tokens_ = {"input": tokens, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    row = {"type": "step_finish", "sessionID": "s-1", "part": {"tokens": tokens_, "cost": 0}}
    return json.dumps(row).encode() + b"\n"


def test_a_flood_is_read_in_bounded_memory_and_its_usage_is_not_lost(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        for _ in range(100):
            out.write(NOISE * 4000)
            # At any place of a block, also across its borders.
            out.write(step(10))
        out.write(b'{"type": "text", "part": {"text": "done"}}\n')
    assert (tmp_path / "out").stat().st_size > WHOLE_BYTES
    text = output_of(tmp_path / "out")
    reading = PROVIDERS["opencode_cli"].reading(text, "", 0)
    assert len(text) < 3 * END_BYTES
    assert reading.usage is not None
    assert (reading.usage.input, reading.usage.output) == (1000, 100)
    assert (reading.session, reading.final) == ("s-1", "done")


def test_an_output_of_ordinary_size_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(NOISE * 10 + step(1))
    assert output_of(tmp_path / "out").encode() == NOISE * 10 + step(1)


def test_a_sparse_file_costs_nothing_to_read(tmp_path: Path) -> None:
    with (tmp_path / "exit").open("wb") as sparse:
        sparse.truncate(10**12)
    assert text_of_file(tmp_path / "exit") == ""
    assert len(end_of_file(tmp_path / "exit")) < 100_000
    assert bytes_of_file(Path("/proc/self/stat"))


BIG = 1_000_000
FLOODS = {
    "newlines": "\n" * BIG + "x",
    "one line": "x" * BIG,
    "short lines": "- a\n" * (BIG // 4),
    "titles": "Files changed: EVIDENCE:\n" * (BIG // 25),
    "decoration": "-" * BIG + "EVIDENCE:",
}
EVERYTHING = CondenseRules(False, 40, False, False, False)


@pytest.mark.parametrize("rules", [CondenseRules(), EVERYTHING], ids=["condensed", "not condensed"])
@pytest.mark.parametrize("flood", FLOODS)
def test_whatever_agents_answer_the_next_prompt_and_the_work_to_make_it_are_bounded(
    flood: str, rules: CondenseRules
) -> None:
    flow = Cycle(a_plan(condense=rules, review=ReviewRules(max_cycles=1)))
    state = flow.start()
    for _ in range(9):
        (turn,), calls = counted(lambda state=state: flow.due(state))
        if not isinstance(turn, Turn):
            break
        assert len(render(turn.document, turn.facts)) < 5 * condense.MAX_CHARACTERS
        assert calls < 10 * condense.MAX_CHARACTERS
        told: list[Event] = [TurnAsked(turn.id, turn.agent, ""), TurnAnswered(turn.id, FLOODS[flood], Source.FILE)]
        for event in told:
            state = flow.apply(state, event)
    assert state.round > 1


def counted(work: Any) -> tuple[Any, int]:
    """What a function returns, and how many calls of functions it took."""
    calls = [0]

    def count(_frame: object, event: str, _argument: object) -> None:
        calls[0] += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        return work(), calls[0]
    finally:
        sys.setprofile(before)


def test_a_limit_of_lines_limits_characters_and_says_so() -> None:
    assert len(condense.head("x" * BIG, 3)) < 3 * condense.LINE_CHARACTERS + 100
    assert condense.head("x" * BIG, 3).endswith(condense.CUT)
    assert condense.tail("x" * BIG, 3).startswith(condense.CUT)
    assert condense.head("x" * 1000 + "\ny\nz", 2) == "x" * 1000 + "\ny"
