"""A continuity report as one HTML file without scripts, fonts or anything from the network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from logos.cli.output import report_timeline as timeline
from logos.views import usage as bill
from logos.views.continuity import report as facts
from logos.views.continuity.entries import Entry
from logos.views.continuity.report import ContinuityReport
from logos.views.redact import clean
from logos.views.text import count, date, duration, number

_HERE = Path(__file__).parent
_MARKS = {"good": "✓", "bad": "✗", "warning": "!", "alarm": "!"}


def as_page(report: ContinuityReport) -> str:
    drawing = timeline.timeline(report)
    return load_template("report_page.html.j2").render(
        report=report,
        view=report.view,
        changed=report.changed,
        several=len(report.sessions) > 1,
        labels=Markup(drawing.labels),
        plot=Markup(drawing.plot),
        narrowest=drawing.narrowest,
        looks=timeline.LOOKS,
        hatched=timeline.HATCHED,
        longest=max((row.seconds for row in report.efforts), default=0.0),
        marks=_MARKS,
        headed=facts.HEADED,
        listed_elsewhere=facts.LISTED_ELSEWHERE,
        **_WORDS,
    )


@cache
def load_template(name: str, *, escape: bool = True) -> Template:
    """A template in which every value is cleaned, and in HTML escaped, whoever wrote it."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=escape,
        undefined=StrictUndefined,
        finalize=_fit,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _fit(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _commands(text: str) -> Markup:
    """A text with the parts between backticks as code."""
    words = clean(text).split("`")
    if len(words) % 2 == 0:
        return escape(clean(text))
    return Markup("").join(Markup("<code>{}</code>").format(word) if at % 2 else word for at, word in enumerate(words))


def by_part(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Neighbours with the same part."""
    return [[*group] for _, group in groupby(entries, lambda entry: entry.part)]


_WORDS: dict[str, Callable[..., object]] = {
    "by_part": by_part,
    "commands": _commands,
    "count": count,
    "date": date,
    "dollars": bill.dollars,
    "duration": duration,
    "heading": facts.heading,
    "lane_title": facts.lane_title,
    "number": number,
    "tokens": bill.tokens,
}
