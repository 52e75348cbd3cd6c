"""A continuity report as Markdown that also reads well on a terminal, and as one HTML file without anything external.

Texts of agents are escaped in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from logos.cli.output import report_timeline as timeline
from logos.views.continuity.entries import Entry
from logos.views.continuity.report import HEADED, LISTED_ELSEWHERE, ContinuityReport, heading, lane_title
from logos.views.continuity.turns import Effort, TurnSpan
from logos.views.events import Severity
from logos.views.redact import clean
from logos.views.text import count, date, duration, number
from logos.views.usage import dollars, sum_in_words, tokens

_MARKS = {Severity.GOOD: "✓", Severity.BAD: "✗", Severity.WARNING: "!", Severity.ALARM: "!"}
# An underscore inside a word, as in a turn's id, is no markup.
_MARKUP = re.compile(r"[\\*\[\]<>|~]|(?<!\w)_|_(?!\w)")
_MOST_TURNS = 30


def as_markdown(report: ContinuityReport) -> str:
    turns = report.changed.turns[-_MOST_TURNS:]
    return _render(
        "report.md.j2",
        report,
        left_out=len(report.changed.turns) - len(turns),
        turns_table=_table(("turn", report.by, "answered", "took", "verdict"), map(_turn, turns)),
        efforts_table=_efforts_table(report),
        sessions_table=_sessions_table(report),
    )


def as_page(report: ContinuityReport) -> str:
    drawing = timeline.timeline(report)
    return _render(
        "report_page.html.j2",
        report,
        labels=Markup(drawing.labels),
        plot=Markup(drawing.plot),
        narrowest=drawing.narrowest,
        looks=timeline.LOOKS,
        longest=max((row.seconds for row in report.efforts), default=0.0),
    )


def _render(template: str, report: ContinuityReport, **values: object) -> str:
    several = len(report.sessions) > 1
    facts = {"report": report, "view": report.view, "changed": report.changed, "several": several}
    return _templates().get_template(template).render(**facts, **values, **_WORDS)


@cache
def _templates() -> Environment:
    """Templates in which every value is cleaned, and in HTML escaped, whoever wrote it."""
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        finalize=_cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _cleaned(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _turn(span: TurnSpan) -> tuple[str, ...]:
    mark = f"{_MARKS[span.severity]} " if span.severity in _MARKS else ""
    verdict = f"{mark}{span.verdict}" + (" (inherited)" if span.inherited else "")
    return span.turn, span.who, date(span.over[1]), duration(span.seconds), verdict


def _efforts_table(report: ContinuityReport) -> str:
    headers = (report.by, "turns", "time", "sent", "received", "tokens", "cost")
    rows = [_cells(row, lane_title(row.name)) for row in report.efforts]
    return _table(headers, [*rows, _cells(report.total, "all agents")])


def _cells(effort: Effort, title: str) -> tuple[str, ...]:
    asked = effort.bill.turns > 0 or effort.sent > 0
    usage = effort.bill.usage
    known = (number(effort.sent), number(effort.received), tokens(usage.tokens), dollars(usage.cost_usd))
    return (title, number(effort.turns), duration(effort.seconds), *(known if asked else ("-",) * 4))


def _sessions_table(report: ContinuityReport) -> str:
    rows = [
        (
            *(str(session.number), session.date, duration(session.seconds)),
            *(number(len(session.answered)), number(len(session.checked))),
            session.end + (" (inherited)" if session.inherited else ""),
        )
        for session in report.sessions
    ]
    return _table(("session", "began", "took", "turns", "checks", "how it ended"), rows)


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Aligned by spaces as well, for reading it unrendered."""
    lines = [[escaped(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(headers))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)


def escaped(text: str) -> str:
    """Escape Markdown. Pairs of backticks stay, they mark commands; a single one could swallow what follows."""
    plain = _MARKUP.sub(lambda found: f"\\{found[0]}", text)
    return plain if text.count("`") % 2 == 0 else plain.replace("`", "\\`")


def code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def commands(text: str) -> Markup:
    """HTML of a text with the parts between backticks as code."""
    words = clean(text).split("`")
    if len(words) % 2 == 0:
        return escape(clean(text))
    return Markup("").join(Markup("<code>{}</code>").format(word) if at % 2 else word for at, word in enumerate(words))


def by_part(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Neighbours with the same part."""
    return [[*group] for _, group in groupby(entries, lambda entry: entry.part)]


_FUNCTIONS = (by_part, code, commands, count, date, dollars, duration, escaped, heading, lane_title, number, tokens)
_WORDS: dict[str, object] = {
    **{function.__name__: function for function in (*_FUNCTIONS, sum_in_words)},
    "marks": _MARKS,
    "headed": HEADED,
    "listed_elsewhere": LISTED_ELSEWHERE,
}
