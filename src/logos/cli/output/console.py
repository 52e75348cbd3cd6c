"""Text on a terminal: colours on a terminal, plain lines elsewhere, and no markup from agents."""

import json
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from rich.console import Console
from rich.text import Text

from logos.app.workdir import say, wd_flag
from logos.cli.output.layout import GAP, NARROWEST, cut_into, fitted, fold, padded
from logos.domain.specs import Question
from logos.domain.usage import Usage
from logos.flows.levels.briefing import proposal_in_words
from logos.views import usage as bill
from logos.views.events import EventLine, Severity, severity_of, unapproved_in
from logos.views.redact import clean, one_line, redacted
from logos.views.run import RunView, TurnView
from logos.views.text import clock, count, duration, number

STYLES: dict[Severity, str] = {
    Severity.QUIET: "dim",
    Severity.NORMAL: "",
    Severity.GOOD: "green",
    Severity.BAD: "red",
    Severity.WARNING: "yellow",
    Severity.ALARM: "bold reverse yellow",
}
# Words and their style.
Part = tuple[str, str]
# Commands to use next, and what each is for.
Commands = Sequence[tuple[str, str]]
tell = say
# What a command is for stands beside it if it has so many cells there.
LEAST_REASON = 32
_NUMBER = re.compile(r"-|unknown|\$?[\d.,]+")


def console(*, stderr: bool = False) -> Console:
    """rich honours NO_COLOR and leaves colours out of pipes; markup and emoji codes of agents stay text."""
    terminal = Console(stderr=stderr).is_terminal
    # Without it, rich would ask the environment again for every line.
    return Console(stderr=stderr, force_terminal=terminal, markup=False, highlight=False, emoji=False, soft_wrap=True)


def width_of(target: Console) -> int | None:
    """How wide lines may be; in a pipe they are not folded."""
    return target.width if target.is_terminal else None


def put(target: Console, text: str, style: str = "", *, whole: bool = False) -> None:
    """Print a text without control characters and secrets; on a terminal it is folded at words, unless `whole`."""
    width, shown = width_of(target), clean(text)
    lines = [shown] if whole or width is None else fold(shown, width)
    _print(target, Text("\n".join(lines), style))


def put_head(target: Console, word: str, style: str, rest: str) -> None:
    """A text whose first words have a style of their own; folded as `put` does."""
    width, shown = width_of(target), f"{word}{clean(rest)}"
    whole = Text(shown if width is None else "\n".join(fold(shown, width)))
    whole.stylize(style, 0, len(word))
    _print(target, whole)


def put_line(target: Console, line: EventLine, lead: str = "") -> None:
    head, width, text = f"{lead}{clock(line.at)}  ", width_of(target), one_line(line.text)
    if width is not None:
        text = f"\n{' ' * len(head)}".join(fold(text, max(width - len(head), NARROWEST)))
    _print(target, Text(head, "dim").append(text, STYLES[line.severity]))


def _print(target: Console, text: Text) -> None:
    """Print a text. In a pipe it has no style, and is written as it is: rich takes ten times as long for the same."""
    if target.color_system is not None or target.is_terminal or "\t" in text.plain:
        target.print(text)
        return
    try:
        target.file.write(f"{text.plain}\n")
        target.file.flush()
    except BrokenPipeError:
        target.on_broken_pipe()


def short(*parts: Part) -> Text:
    """Styled words on one line, cut at the width of the terminal."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def document(data: object, indent: int | None = 2) -> None:
    """Print the one JSON document of a command."""
    print(json.dumps(redacted(data), indent=indent, default=str), flush=True)


def long_document(head: Mapping[str, object], name: str, items: Iterable[object]) -> None:
    """Print the document `{**head, name: [*items]}` as `document` does, item by item: they may be many."""
    start = json.dumps(redacted(head), indent=2, default=str).removesuffix("\n}")
    print(f"{start},\n  {json.dumps(name)}: [", end="")
    before = ""
    for item in items:
        text = json.dumps(redacted(item), indent=2, default=str).replace("\n", "\n    ")
        print(f"{before}\n    {text}", end="")
        before = ","
    print("\n  ]\n}" if before else "]\n}", flush=True)


def columns(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    width: int | None = None,
    folds: Collection[str] = (),
    spare: Sequence[str] = (),
) -> list[list[str]]:
    """The lines of the head and of each row of a table aligned by spaces, numbers to the right.

    With a width, the columns of `folds` are folded, and those of `spare` are left out where that is not enough.
    """
    body = [[one_line(cell) for cell in row] for row in rows]
    right = {at for at in range(len(headers)) if body and all(_NUMBER.fullmatch(row[at]) for row in body)}
    shown, widths = fitted(headers, body, width or sys.maxsize, right, folds, spare)
    lines: list[list[str]] = []
    for row in (headers, *body):
        cells = [cut_into(row[at], wide) for at, wide in zip(shown, widths, strict=True)]
        layers = zip_longest(*cells, fillvalue="")
        padding = [*zip(shown, widths, strict=True)]
        lines.append(
            [
                (" " * GAP)
                .join(padded(cell, wide, right=at in right) for cell, (at, wide) in zip(layer, padding, strict=True))
                .rstrip()
                for layer in layers
            ]
        )
    return lines


def put_table(
    target: Console,
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    severities: Sequence[Severity] = (),
    *,
    folds: Collection[str] | None = None,
    spare: Sequence[str] = (),
) -> None:
    """A table; on a terminal it fits: the last column, or those of `folds`, is folded, those of `spare` left out."""
    chosen = headers[-1:] if folds is None else folds
    head, *body = columns(headers, rows, width_of(target), chosen, spare)
    put(target, "\n".join(head), "bold", whole=True)
    for row, lines in enumerate(body):
        put(target, "\n".join(lines), STYLES[severities[row]] if severities else "", whole=True)


def put_timeline(target: Console, view: RunView) -> None:
    """Per turn: the agent, how long it took, its verdict, and its cost where any is known."""
    priced = view.bill.usage != Usage()
    rows: list[tuple[object, ...]] = []
    for turn in view.turns:
        seconds = "-" if turn.seconds is None else f"{turn.seconds:.1f}"
        usage = turn.usage or Usage()
        prices = (bill.tokens(usage.tokens), bill.price(usage)) if turn.bills else ("-", "-")
        result = result_of(turn) or ("" if turn.ended else "in flight")
        rows.append((turn.turn, turn.who, seconds, number(len(turn.prompt)), *(prices if priced else ()), result))
    severities = [severity_of(turn.verdict) if not turn.failure else Severity.BAD for turn in view.turns]
    headers = ("turn", view.words.agent, "seconds", "characters", *(("tokens", "cost") if priced else ()), "verdict")
    put_table(target, headers, rows, severities, spare=("characters", "tokens", view.words.agent))


def result_of(turn: TurnView) -> str:
    return turn.verdict or (f"failed: {turn.failure}" if turn.failure else "")


def put_summary(target: Console, view: RunView) -> None:
    """Outcome, reason, turns and cost; for a build also its branch and its question."""
    passed = view.outcome is not None and view.outcome.value == "PASSED"
    word = view.outcome.in_words(view.state.verified) if view.outcome else "UNFINISHED"
    # The whole question is printed below.
    reason = "it is blocked on a question" if view.question else view.reason
    put_head(target, word, f"bold {'green' if passed else 'red'}", f": {one_line(reason)}")
    settled = f"{count(len(view.build.reconciled), 'reconciliation')}, " if view.build is not None else ""
    spent = f"{duration(view.seconds)}, {bill.sum_in_words(view.bill, view.characters)}"
    turns = count(view.answered, "turn")
    put(target, f"{view.words.run} {view.run}: {view.rounds_in_words}, {turns}, {settled}{spent}")
    for unapproved in unapproved_in(view):
        put(target, unapproved, STYLES[Severity.WARNING])
    if view.changed_files:
        put(target, f"warning: {view.changed_files}", STYLES[Severity.WARNING])
    if view.build is None:
        return
    if view.branch:
        put(target, f"what was built is on the branch {view.branch}")
    if view.unproven:
        put(target, f"unproven: {', '.join(view.unproven)}; telos.toml names no tool for it", STYLES[Severity.WARNING])
    for alternative in view.build.alternatives:
        put(target, f"  instead: {one_line(alternative)}")
    if view.question is not None:
        put_question(target, view.question, wd_flag(Path(view.build.plan.wd)))


def put_question(target: Console, question: Question, at: str = "") -> None:
    """The whole question of a run, and the commands that answer it; `at` is their ` --wd …`, or empty."""
    put(target, f"\nThe question ({question.id}):", "bold")
    put(target, question.text)
    if question.evidence:
        put(target, "\nThe evidence:", "bold")
        put(target, question.evidence)
    for option_number, option in enumerate(question.options, 1):
        put(target, f"\n{option_number}. {proposal_in_words(option)}")
    if question.objections:
        put(target, "\nWhat was said against them:", "bold")
    for objection in question.objections:
        put(target, f"- {objection}")
    options = [(f"logos resolve {choice}{at}", f"option {choice}") for choice in range(1, len(question.options) + 1)]
    more = [(f'logos resolve "…"{at}', "in words of your own"), (f"logos build --resume{at}", "then go on")]
    put_next(target, [*options, *more], "Decide with")


def put_next(target: Console, commands: Commands, title: str = "Where to look next") -> None:
    put(target, f"\n{title}:", "bold")
    total = width_of(target) or sys.maxsize
    lengths = [len(command) for command, _ in commands]
    # A command is not broken: it is copied. Where it leaves too little room beside it, its reason follows below.
    width = max((length for length in lengths if length <= total - LEAST_REASON - 4), default=0)
    for command, why in commands:
        if len(command) > width:
            put(target, f"  {command}", whole=True)
        beside = [command] if len(command) <= width else []
        for left, line in zip_longest(beside, fold(why, max(total - width - 4, NARROWEST)), fillvalue=""):
            put(target, f"  {left.ljust(width)}  {line}", whole=True)


def put_diff(target: Console, diff: str) -> None:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in clean(diff).splitlines():
        heading = line.startswith(("+++", "---", "diff ", "index ", "new file"))
        put(target, line, "bold" if heading else styles.get(line[:1], ""), whole=True)
