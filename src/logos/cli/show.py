"""Text on a terminal: colours where they are wanted, plain lines where they are not, and nothing that is markup."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from logos.cli import bill
from logos.cli.narrator import Line, Tone, tone_of
from logos.cli.redact import clean, one_line, redacted
from logos.cli.words import count, duration, number
from logos.domain.usage import Usage

if TYPE_CHECKING:
    from rich.console import Console

    from logos.cli.story import Story, Told

STYLES: dict[Tone, str] = {
    Tone.QUIET: "dim",
    Tone.NORMAL: "",
    Tone.GOOD: "green",
    Tone.BAD: "red",
    Tone.WARNING: "yellow",
    Tone.ALARM: "bold reverse yellow",
}
_NUMBER = re.compile(r"-|unknown|\$?[\d.,]+")
MARKS = {"ok": Tone.GOOD, "warn": Tone.WARNING, "fail": Tone.BAD}


def console(*, stderr: bool = False) -> Console:
    """rich honours NO_COLOR and leaves colours out of pipes; markup and emoji codes of agents stay text."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)


def put(target: Console, text: str, style: str = "") -> None:
    """One piece of text, cleaned, at its own length."""
    from rich.text import Text

    target.print(Text(clean(text), style))


def put_line(target: Console, line: Line) -> None:
    from rich.text import Text

    target.print(Text(f"{clock(line.at)}  ", "dim").append(one_line(line.text), STYLES[line.tone]))


def whole(text: str) -> None:
    """A long text as it is: no colours, no wrapping, tabs kept."""
    print(clean(text).rstrip("\n"), flush=True)


def document(data: object) -> None:
    """The one JSON document of a command."""
    print(json.dumps(redacted(data), indent=2), flush=True)


def json_line(data: object) -> None:
    print(json.dumps(redacted(data)), flush=True)


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def columns(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Aligned by spaces, numbers to the right, so that it reads the same on a terminal and in a pipe."""
    body = [[one_line(cell) for cell in row] for row in rows]
    lines = [[*headers], *body]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    right = [bool(body) and all(_NUMBER.fullmatch(line[column]) for line in body) for column in range(len(headers))]
    sides = list(zip(widths, right, strict=True))
    return [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, (width, to_right) in zip(line, sides, strict=True)
        ).rstrip()
        for line in lines
    ]


def put_table(
    target: Console, headers: Sequence[str], rows: Sequence[Sequence[object]], tones: Sequence[Tone] = ()
) -> None:
    head, *body = columns(headers, rows)
    put(target, head, "bold")
    for number_, line in enumerate(body):
        put(target, line, STYLES[tones[number_]] if tones else "")


def put_timeline(target: Console, story: Story) -> None:
    """Per turn: who, how long, what was decided, and what it cost where anybody told."""
    priced = story.bill.usage != Usage()
    rows = [
        (
            told.turn,
            told.agent.replace("_", " "),
            "-" if told.seconds is None else f"{told.seconds:.1f}",
            number(len(told.prompt)),
            *(_prices(told) if priced else ()),
            told.verdict or (f"failed: {told.failure}" if told.failure else "" if told.ended else "in hand"),
        )
        for told in story.turns
    ]
    tones = [tone_of(told.verdict) if not told.failure else Tone.BAD for told in story.turns]
    prices = ("tokens", "cost") if priced else ()
    put_table(target, ("turn", "role", "seconds", "characters", *prices, "verdict"), rows, tones)


def _prices(told: Told) -> tuple[str, str]:
    if not told.bills:
        return "-", "-"
    usage = told.usage or Usage()
    return bill.tokens(usage.tokens), bill.dollars(usage.cost_usd)


def put_summary(target: Console, story: Story) -> None:
    """Outcome, reason, and what it took."""
    from rich.text import Text

    state = story.state
    passed = state.outcome is not None and state.outcome.value == "PASSED"
    word = state.outcome.value if state.outcome else "UNFINISHED"
    head = Text(word, f"bold {'green' if passed else 'red'}").append(f": {one_line(state.reason)}", "")
    target.print(head)
    put(
        target,
        f"run {story.run}: {count(state.round, 'round')}, {count(story.answered, 'turn')}, "
        f"{duration(story.seconds)}, {bill.sum_in_words(story.bill, story.characters)}",
    )


def put_next(target: Console, commands: Sequence[tuple[str, str]]) -> None:
    """Where to look next."""
    put(target, "\nWhere to look next:", "bold")
    width = max(len(command) for command, _ in commands)
    for command, why in commands:
        put(target, f"  {command.ljust(width)}  {why}")


def put_diff(target: Console, diff: str) -> None:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in clean(diff).splitlines():
        heading = line.startswith(("+++", "---", "diff ", "index ", "new file"))
        put(target, line, "bold" if heading else styles.get(line[:1], ""))


def tell(text: str) -> None:
    """A word to the person, beside the output proper."""
    print(one_line(text), file=sys.stderr, flush=True)


def run_as_json(story: Story, state_file: str, exit_code: int) -> dict[str, Any]:
    state = story.state
    return {
        "run": story.run,
        "outcome": state.outcome.value if state.outcome else None,
        "exit_code": exit_code,
        "reason": state.reason,
        "rounds": state.round,
        "turns": story.answered,
        "characters": story.characters,
        "usage": bill.bill_as_json(story.bill),
        "seconds": round(story.seconds, 3),
        "state_file": state_file,
    }
