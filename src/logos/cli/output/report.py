"""A continuity report as Markdown that also reads well on a terminal, and as one HTML file without anything external.

Texts of agents are escaped in both. report_timeline.html.j2 draws the timeline, whose measures are computed here: down
in pixels; across in percent, so that it fills whatever width it gets. The time between sessions is left out.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from logos.views.continuity.entries import Entry
from logos.views.continuity.report import HEADED, LISTED_ELSEWHERE, ContinuityReport, heading, lane_title
from logos.views.continuity.turns import TurnSpan
from logos.views.events import Severity
from logos.views.redact import clean
from logos.views.sessions import Session
from logos.views.text import count, date, duration, number
from logos.views.usage import price, sum_in_words, tokens

_MARKS = {Severity.GOOD: "✓", Severity.BAD: "✗", Severity.WARNING: "!", Severity.ALARM: "!"}
# An underscore inside a word, as in a turn's id, is no markup.
_MARKUP = re.compile(r"[\\*\[\]<>|~]|(?<!\w)_|_(?!\w)")
_MOST_TURNS = 30
# The timeline in pixels: the least width of it, a session in it (room for a date), the gap between sessions.
NARROWEST, SESSION, GAP = 760, 44, 9
# The dates above the lanes, a row of bars, and the space around the rows of a lane.
HEAD, ROW, PAD = 38, 16, 7
# In percent.
LEAST_BAR = 0.35
# Authors beyond this many at once share the last row.
MOST_ROWS = 8
# How wide a character of a label is, about, and the room around it; a mark alone may touch the ends of its bar.
CHARACTER, AROUND, MARK = 6.3, 8, 4
# Seconds between ticks, the least room between two, and half of an hour's label.
TICKS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 7 * 86400)
TICKS_APART, HOUR, DAY = 64, 16, 86400


def as_markdown(report: ContinuityReport) -> str:
    turns = report.changed.turns[-_MOST_TURNS:]
    return _render("report.md.j2", report, turns=turns, left_out=len(report.changed.turns) - len(turns))


def as_page(report: ContinuityReport) -> str:
    longest = max((row.seconds for row in report.efforts), default=0.0)
    return _render("report_page.html.j2", report, longest=longest, **timeline(report))


def _render(template: str, report: ContinuityReport, **values: object) -> str:
    # Nothing happened before the first session.
    sets = {"several": len(report.sessions) > 1, "all_new": report.since.number == 1}
    # The bill is the sum over all turns: it is made once.
    facts = {"report": report, "view": report.view, "bill": report.view.bill, "changed": report.changed, **sets}
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


def commands(text: str) -> Markup:
    """HTML of a text with the parts between backticks as code."""
    words = clean(text).split("`")
    if len(words) % 2 == 0:
        return escape(clean(text))
    return Markup("").join(Markup("<code>{}</code>").format(word) if at % 2 else word for at, word in enumerate(words))


def by_part(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Neighbours with the same part."""
    return [[*group] for _, group in groupby(entries, lambda entry: entry.part)]


_HERE = (aligned, by_part, commands, escaped)
_FUNCTIONS = (*_HERE, count, date, duration, heading, lane_title, number, price, sum_in_words, tokens)
_TABLES = {"marks": _MARKS, "headed": HEADED, "listed_elsewhere": LISTED_ELSEWHERE}
_WORDS: dict[str, object] = {**_TABLES, **{function.__name__: function for function in _FUNCTIONS}}


@dataclass(frozen=True, slots=True)
class Scale:
    """The horizontal scale: sessions side by side by their duration, each at least wide enough for its date."""

    left: Mapping[int, float]
    width: Mapping[int, float]
    sessions: Mapping[int, Session]
    narrowest: int

    def room(self, width: float) -> float:
        """Pixels, at least."""
        return width / 100 * self.narrowest

    def x(self, place: tuple[int, float]) -> float:
        number, at = place
        session = self.sessions[number]
        share = (at - session.began) / session.seconds if session.seconds else 0.0
        return self.left[number] + self.width[number] * share


def timeline(report: ContinuityReport) -> dict[str, object]:
    scale, top = scale_of(report.sessions), float(HEAD)
    lanes, bars = list[dict[str, object]](), list[dict[str, object]]()
    for lane in report.lanes:
        # Turns that overlap in time get rows of their own; this is where each row is free again.
        ends = [0.0]
        for span in sorted((span for span in report.spans if span.lane == lane), key=lambda span: scale.x(span.begun)):
            row = next((row for row, end in enumerate(ends) if end <= scale.x(span.begun) + 1e-9), len(ends))
            row = min(row, MOST_ROWS - 1)
            if row == len(ends):
                ends.append(0.0)
            ends[row] = max(ends[row], scale.x(span.over))
            bars.append(_bar(span, scale, top + PAD / 2 + row * ROW))
        name, _, more = lane_title(lane).partition(" ") if report.view.build else (lane_title(lane), "", "")
        height = len(ends) * ROW + PAD
        lanes.append({"name": name, "more": more, "top": top, "middle": top + height / 2})
        top += height
    bands = [_band(session, scale) for session in report.sessions]
    return {"lanes": lanes, "bars": bars, "bands": bands, "head": HEAD, "bottom": top, "narrowest": scale.narrowest}


def scale_of(sessions: Sequence[Session]) -> Scale:
    many = len(sessions)
    narrowest = max(NARROWEST, many * (SESSION + GAP) * 5 // 4)
    gap, least = 100 * GAP / narrowest, 100 * SESSION / narrowest
    total, spare = sum(session.seconds for session in sessions), 100 - least * many - gap * (many - 1)
    left, width, edge = dict[int, float](), dict[int, float](), 0.0
    for session in sessions:
        share = session.seconds / total if total else 1 / many
        left[session.number], width[session.number] = edge, least + spare * share
        edge += width[session.number] + gap
    return Scale(left, width, {session.number: session for session in sessions}, narrowest)


def _bar(span: TurnSpan, scale: Scale, top: float) -> dict[str, object]:
    mark = "…" if span.in_flight else _MARKS.get(span.severity, "")
    look = "open" if span.in_flight else span.severity.value if mark else "neutral"
    width = max(scale.x(span.over) - scale.x(span.begun), LEAST_BAR)
    x = min(scale.x(span.begun), 100 - width)
    component = span.who.partition(" ")[2] if span.lane == "L2" else ""
    words = _fitting(scale.room(width) + MARK, f"{mark} {component}".strip(), mark, "")
    return {"span": span, "look": look, "words": words, "x": x, "width": width, "top": top}


def _band(session: Session, scale: Scale) -> dict[str, object]:
    """A session, the words that fit on it, and its round hours."""
    number, (day, clock), width = session.number, session.date.split(" "), scale.width[session.number]
    room = scale.room(width)
    named = _fitting(room, f"session {number} · {day}", f"{number} · {day}", f"{number} · {day[5:]}", day[5:])
    began = _fitting(room, f"{clock}, {duration(session.seconds)}", clock)
    ticks = [*_ticks(session, scale, room)]
    return {"session": session, "date": named, "clock": began, "x": scale.left[number], "width": width, "ticks": ticks}


def _fitting(room: float, *texts: str) -> str:
    """The first that fits, or the last."""
    return next((text for text in texts if len(text) * CHARACTER + AROUND <= room), texts[-1])


def _ticks(session: Session, scale: Scale, room: float) -> Iterator[tuple[float, str]]:
    """Round hours of the day, as many as there is room for; at the edges without a name."""
    step = next((step for step in TICKS if session.seconds / step * TICKS_APART <= room), None)
    if step is None:
        return
    # Round in local time.
    shift = time.localtime(session.began).tm_gmtoff
    at = (int(session.began + shift) // step + 1) * step - shift
    while at < session.ended:
        x = scale.x((session.number, at))
        inside = scale.room(x - scale.left[session.number]) > HOUR and scale.room(100 - x) > HOUR
        yield x, (date(at)[5:10] if step >= DAY else date(at)[11:]) if inside else ""
        at += step
