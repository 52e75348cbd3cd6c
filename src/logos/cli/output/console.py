"""Text on a terminal: colours where they are wanted, plain lines where they are not, and nothing that is markup."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from logos.domain.usage import Usage
from logos.views import usage as bill
from logos.views.events import Line, Severity, severity_of
from logos.views.redact import clean, one_line, redacted
from logos.views.text import clock, count, duration, number

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from logos.domain.specs import Question
    from logos.flows.levels.state import LevelsState
    from logos.views.run import RunView, TurnView

STYLES: dict[Severity, str] = {
    Severity.QUIET: "dim",
    Severity.NORMAL: "",
    Severity.GOOD: "green",
    Severity.BAD: "red",
    Severity.WARNING: "yellow",
    Severity.ALARM: "bold reverse yellow",
}
_NUMBER = re.compile(r"-|unknown|\$?[\d.,]+")
MARKS = {"ok": Severity.GOOD, "warn": Severity.WARNING, "fail": Severity.BAD}


def console(*, stderr: bool = False) -> Console:
    """rich honours NO_COLOR and leaves colours out of pipes; markup and emoji codes of agents stay text."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)


def put(target: Console, text: str, style: str = "") -> None:
    """One piece of text, cleaned, at its own length."""
    from rich.text import Text

    target.print(Text(clean(text), style))


def put_line(target: Console, line: Line, lead: str = "") -> None:
    from rich.text import Text

    target.print(Text(f"{lead}{clock(line.at)}  ", "dim").append(one_line(line.text), STYLES[line.tone]))


def short(*parts: tuple[str, str]) -> Text:
    """Words with their styles on one line, cut where the terminal ends."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ellipsis")
    for words, style in parts:
        text.append(words, style)
    return text


def whole(text: str) -> None:
    """A long text as it is: no colours, no wrapping, tabs kept."""
    print(clean(text).rstrip("\n"), flush=True)


def document(data: object) -> None:
    """The one JSON document of a command."""
    print(json.dumps(redacted(data), indent=2), flush=True)


def json_line(data: object) -> None:
    print(json.dumps(redacted(data)), flush=True)


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
    target: Console, headers: Sequence[str], rows: Sequence[Sequence[object]], tones: Sequence[Severity] = ()
) -> None:
    head, *body = columns(headers, rows)
    put(target, head, "bold")
    for number_, line in enumerate(body):
        put(target, line, STYLES[tones[number_]] if tones else "")


def put_timeline(target: Console, story: RunView) -> None:
    """Per turn: who, how long, what was decided, and what it cost where anybody told."""
    priced = story.bill.usage != Usage()
    rows = [
        (
            told.turn,
            told.who,
            "-" if told.seconds is None else f"{told.seconds:.1f}",
            number(len(told.prompt)),
            *(_prices(told) if priced else ()),
            told.verdict or (f"failed: {told.failure}" if told.failure else "" if told.ended else "in hand"),
        )
        for told in story.turns
    ]
    tones = [severity_of(told.verdict) if not told.failure else Severity.BAD for told in story.turns]
    prices = ("tokens", "cost") if priced else ()
    who = "role" if story.build is None else "agent"
    put_table(target, ("turn", who, "seconds", "characters", *prices, "verdict"), rows, tones)


def _prices(told: TurnView) -> tuple[str, str]:
    if not told.bills:
        return "-", "-"
    usage = told.usage or Usage()
    return bill.tokens(usage.tokens), bill.dollars(usage.cost_usd)


def put_summary(target: Console, story: RunView) -> None:
    """Outcome, reason, and what it took; of a build also what it leaves and what it asks."""
    from rich.text import Text

    passed = story.outcome is not None and story.outcome.value == "PASSED"
    word = story.outcome.value if story.outcome else "UNFINISHED"
    # A question is shown whole, below.
    reason = "it waits for a decision of yours" if story.question else story.reason
    target.print(Text(word, f"bold {'green' if passed else 'red'}").append(f": {one_line(reason)}", ""))
    what, build = ("run", None) if story.build is None else ("build", story.build)
    settled = f"{count(len(build.settled), 'reconciliation')}, " if build is not None else ""
    put(
        target,
        f"{what} {story.run}: {story.rounds_in_words}, {count(story.answered, 'turn')}, {settled}"
        f"{duration(story.seconds)}, {bill.sum_in_words(story.bill, story.characters)}",
    )
    if build is not None:
        _put_build(target, story, build)


def _put_build(target: Console, story: RunView, build: LevelsState) -> None:
    from pathlib import Path

    from logos.app.workdir import wd_flag

    if story.branch:
        put(target, f"what was built is on the branch {story.branch}")
    if story.unproven:
        put(target, f"unproven: {', '.join(story.unproven)}; telos.toml names no tool for it", STYLES[Severity.WARNING])
    for alternative in build.alternatives:
        put(target, f"  instead: {one_line(alternative)}")
    if story.question is not None:
        put_question(target, story.question, wd_flag(Path(build.plan.wd)))


def put_question(target: Console, question: Question, at: str = "") -> None:
    """What a person must decide, whole, and the commands that decide it; `at` leads them to another work dir."""
    from logos.flows.levels.briefing import proposal_in_words

    put(target, f"\nThe question ({question.id}):", "bold")
    put(target, question.text)
    for place, option in enumerate(question.options, 1):
        put(target, f"\n{place}. {proposal_in_words(option)}")
    if question.objections:
        put(target, "\nWhat was said against them:", "bold")
    for objection in question.objections:
        put(target, f"- {objection}")
    put(target, "\nDecide with:", "bold")
    ways = [(f"logos resolve {place}{at}", f"option {place}") for place, _ in enumerate(question.options, 1)]
    ways += [(f'logos resolve "…"{at}', "in words of your own"), (f"logos build --resume{at}", "then go on")]
    width = max(len(command) for command, _ in ways)
    for command, why in ways:
        put(target, f"  {command.ljust(width)}  {why}")


def question_as_json(question: Question | None) -> dict[str, Any] | None:
    if question is None:
        return None
    return {
        "id": question.id,
        "text": question.text,
        "options": [
            {
                "number": place,
                "summary": option.summary,
                "changes": [{"level": change.level.name, "change": change.change} for change in option.changes],
                "rework": list(option.rework),
            }
            for place, option in enumerate(question.options, 1)
        ],
        "objections": list(question.objections),
    }


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


def run_as_json(story: RunView, state_file: str, exit_code: int) -> dict[str, Any]:
    return {
        "run": story.run,
        "outcome": story.outcome.value if story.outcome else None,
        "exit_code": exit_code,
        "reason": story.reason,
        "rounds": story.rounds,
        "turns": story.answered,
        "characters": story.characters,
        "usage": bill.bill_as_json(story.bill),
        "seconds": round(story.seconds, 3),
        "state_file": state_file,
        **(_build_as_json(story, story.build) if story.build is not None else {}),
    }


def _build_as_json(story: RunView, build: LevelsState) -> dict[str, Any]:
    return {
        "flow": build.plan.flow,
        "reconciliations": len(build.settled),
        "branch": story.branch or None,
        "unproven": list(story.unproven),
        "violation": build.violation or None,
        "alternatives": list(build.alternatives),
        "question": question_as_json(story.question),
    }
