"""A continuity report as Markdown that also reads well on a terminal, and as one HTML file without anything external.

Texts of agents are escaped in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from logos.cli.output.report_timeline import LOOKS, timeline
from logos.views.continuity.entries import Entry
from logos.views.continuity.report import HEADED, LISTED_ELSEWHERE, ContinuityReport, heading, lane_title
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
    return _render("report.md.j2", report, turns=turns, left_out=len(report.changed.turns) - len(turns))


def as_page(report: ContinuityReport) -> str:
    longest = max((row.seconds for row in report.efforts), default=0.0)
    return _render("report_page.html.j2", report, looks=LOOKS, longest=longest, **timeline(report))


def _render(template: str, report: ContinuityReport, **values: object) -> str:
    # Nothing happened before the first session.
    sets = {"several": len(report.sessions) > 1, "all_new": report.since.number == 1}
    facts = {"report": report, "view": report.view, "changed": report.changed, **sets}
    return _templates().get_template(template).render(**facts, **values, **_WORDS)


@cache
def _templates() -> Environment:
    """Templates in which every value is cleaned, and in HTML escaped, whoever wrote it."""
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        finalize=lambda value: clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def aligned(table: str) -> str:
    """The rows of a Markdown table, the first its head, aligned by spaces for reading it unrendered."""
    lines = [row.strip().removeprefix("| ").removesuffix(" |").split(" | ") for row in table.strip().splitlines()]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
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


def percent(share: float) -> str:
    return f"{share:.3f}%"


def by_part(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Neighbours with the same part."""
    return [[*group] for _, group in groupby(entries, lambda entry: entry.part)]


_HERE = (aligned, by_part, code, commands, escaped, percent)
_FUNCTIONS = (*_HERE, count, date, dollars, duration, heading, lane_title, number, sum_in_words, tokens)
_WORDS: dict[str, object] = {
    **{function.__name__: function for function in _FUNCTIONS},
    "marks": _MARKS,
    "headed": HEADED,
    "listed_elsewhere": LISTED_ELSEWHERE,
}
