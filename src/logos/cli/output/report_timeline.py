"""The timeline of a run as SVG: one lane per role or level, one bar per turn, without the time between sessions.

Across, everything is in percent, so that it fills whatever width it gets while texts keep their size. Colours are the
page's, by class.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import inf

from logos.views.continuity.report import ContinuityReport, lane_title
from logos.views.continuity.turns import TurnSpan
from logos.views.events import Severity
from logos.views.sessions import Session
from logos.views.text import count, date, duration

# In pixels; across, the least that the page gives it, and a session in it: room for a date.
NARROWEST = 760
SESSION = 44
GAP = 9
LABELS = 156
HEAD = 38
FOOT = 20
ROW = 16
BAR = 12
PAD = 7
# In percent.
LEAST_BAR = 0.35
# Authors beyond this many at once share the last row.
MOST_ROWS = 8
# How wide a character of a label is, about, and the room around it.
CHARACTER = 6.3
AROUND = 8
# A mark alone may touch the ends of its bar.
MARK = 4
TICKS_APART = 64
# Half of an hour's label.
HOUR = 16
TICKS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 7 * 86400)
DAY = 86400


@dataclass(frozen=True, slots=True)
class Look:
    """How a bar looks: its mark and hatch show the result as well as its colour."""

    name: str
    mark: str
    words: str
    hatched: bool = False


GOOD = Look("good", "✓", "passed, approved, agreed")
BAD = Look("bad", "✗", "failed, no response", hatched=True)
WARNING = Look("warning", "!", "to revise, objected, sent back", hatched=True)
NEUTRAL = Look("neutral", "", "work without a verdict")
OPEN = Look("open", "…", "in flight")
LOOKS = (GOOD, BAD, WARNING, NEUTRAL, OPEN)
_BY_SEVERITY = {Severity.GOOD: GOOD, Severity.BAD: BAD, Severity.WARNING: WARNING, Severity.ALARM: WARNING}

# Hatches distinguish bars without colours.
_PATTERNS = (
    '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="warning-ground" width="5" height="5"/><rect class="warning-line" width="2.4" height="5"/></pattern>'
    '<pattern id="cross" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="bad-ground" width="4" height="4"/><rect class="bad-line" width="1" height="4"/>'
    '<rect class="bad-line" width="4" height="1"/></pattern></defs>'
)


@dataclass(frozen=True, slots=True)
class Drawing:
    """The names of the lanes, which do not scroll, and the lanes; `narrowest` is in pixels."""

    labels: str
    plot: str
    narrowest: int


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


def timeline(report: ContinuityReport) -> Drawing:
    scale, top = scale_of(report.sessions), float(HEAD)
    labels, lines, bars = list[str](), list[str](), list[str]()
    for lane in report.lanes:
        rows = [*_rows((span for span in report.spans if span.lane == lane), scale)]
        height = (max((row for row, _ in rows), default=0) + 1) * ROW + PAD
        labels.append(_label(lane, top + height / 2 + 4, report.flow))
        lines.append(f'<line class="lane" x1="0" x2="100%" y1="{top:g}" y2="{top:g}"/>')
        bars += [_bar(span, scale, top + PAD / 2 + row * ROW) for row, span in rows]
        top += height
    first_new = inf if report.all_new else report.since.number
    bands = [_band(session, scale, top, new=session.number >= first_new) for session in report.sessions]
    about = f"{count(len(report.spans), 'turn')} in {count(len(report.sessions), 'session')}"
    return Drawing(
        f'<svg class="lanes" width="{LABELS}" height="{top + FOOT:g}" aria-hidden="true">{"".join(labels)}</svg>',
        f'<svg class="plot" width="100%" height="{top + FOOT:g}" role="img" aria-label="timeline: {about}">'
        f"{_PATTERNS}{''.join((*bands, *lines, *bars))}</svg>",
        scale.narrowest,
    )


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


def _rows(spans: Iterable[TurnSpan], scale: Scale) -> Iterator[tuple[int, TurnSpan]]:
    """Put turns of one lane that overlap in time on rows of their own."""
    ends: list[float] = []
    for span in sorted(spans, key=lambda span: scale.x(span.begun)):
        begun, over = scale.x(span.begun), scale.x(span.over)
        row = next((row for row, end in enumerate(ends) if end <= begun + 1e-9), len(ends))
        row = min(row, MOST_ROWS - 1)
        if row == len(ends):
            ends.append(over)
        ends[row] = max(ends[row], over)
        yield row, span


def _label(lane: str, middle: float, flow: str) -> str:
    title = lane_title(lane)
    short, _, rest = title.partition(" ") if title.startswith(lane) and flow == "levels" else (title, "", "")
    more = f'<tspan class="more" dx="6">{escape(rest)}</tspan>' if rest else ""
    return f'<text x="0" y="{middle:g}"><tspan class="name">{escape(short)}</tspan>{more}</text>'


def _band(session: Session, scale: Scale, bottom: float, *, new: bool) -> str:
    """A session: background, number and date, a stripe if it counts as new, and the hours."""
    x, width = f"{scale.left[session.number]:.3f}%", scale.width[session.number]
    room, took, (day, clock) = scale.room(width), duration(session.seconds), session.date.split(" ")
    dates = (f"session {session.number} · {day}", f"{session.number} · {day}", f"{session.number} · {day[5:]}", day[5:])
    first = _fitting(room, *dates)
    second = _fitting(room, f"{clock}, {took}", clock)
    stripe = f'<rect class="new" x="{x}" y="0" width="{width:.3f}%" height="3" rx="1.5"/>'
    whole = f"{session.name}, {took}, {count(len(session.answered), 'turn')}: {session.end}"
    return (
        f'<g class="session{" inherited" if session.inherited else ""}"><title>{escape(whole)}</title>'
        f'<rect class="ground" x="{x}" y="0" width="{width:.3f}%" height="{bottom:g}" rx="3"/>'
        f"{stripe if new else ''}"
        f'<text class="date" x="{x}" y="16" dx="5">{escape(first)}</text>'
        f'<text class="clock" x="{x}" y="30" dx="5">{escape(second)}</text>'
        f"{''.join(_ticks(session, scale, bottom))}</g>"
    )


def _fitting(room: float, *texts: str) -> str:
    """The first that fits, or the last."""
    return next((text for text in texts if len(text) * CHARACTER + AROUND <= room), texts[-1])


def _ticks(session: Session, scale: Scale, bottom: float) -> Iterator[str]:
    """Round hours of the day, as many as there is room for."""
    room = scale.room(scale.width[session.number])
    step = next((step for step in TICKS if session.seconds / step * TICKS_APART <= room), None)
    if step is None:
        return
    # Round in local time.
    shift = time.localtime(session.began).tm_gmtoff
    at = (int(session.began + shift) // step + 1) * step - shift
    while at < session.ended:
        x = scale.x((session.number, at))
        words = date(at)[5:10] if step >= DAY else date(at)[11:]
        yield f'<line class="tick" x1="{x:.3f}%" x2="{x:.3f}%" y1="{HEAD}" y2="{bottom:g}"/>'
        if scale.room(x - scale.left[session.number]) > HOUR and scale.room(100 - x) > HOUR:
            yield f'<text class="hour" x="{x:.3f}%" y="{bottom + 14:g}">{words}</text>'
        at += step


def _bar(span: TurnSpan, scale: Scale, top: float) -> str:
    look = OPEN if span.in_flight else _BY_SEVERITY.get(span.severity, NEUTRAL)
    x = scale.x(span.begun)
    width = max(scale.x(span.over) - x, LEAST_BAR)
    x = min(x, 100 - width)
    kind = f"act {look.name}{' inherited' if span.inherited else ''}"
    took = f"in flight since {date(span.begun[1])}" if span.in_flight else duration(span.seconds)
    parts = (span.turn, took, span.verdict, "inherited" if span.inherited else "")
    title = " · ".join(part for part in parts if part)
    middle, room = f"{x + width / 2:.3f}%", scale.room(width)
    component = span.who.partition(" ")[2] if span.lane == "L2" else ""
    words = _fitting(room + MARK, f"{look.mark} {component}".strip(), look.mark, "")
    # On a hatch, a mark needs a plain background.
    ground = f'<circle cx="{middle}" cy="{top + 7:g}" r="6"/>' if words and look.hatched else ""
    inside = f'{ground}<text x="{middle}" y="{top + 10.5:g}">{escape(words)}</text>' if words else ""
    return (
        f'<g class="{kind}"><title>{escape(title)}</title>'
        f'<rect x="{x:.3f}%" y="{top + 1:g}" width="{width:.3f}%" height="{BAR}" rx="2"/>{inside}</g>'
    )
