"""The turns of a run over its sessions: who, from when to when, and with what effort."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from logos.domain.events import RunForked, TurnAsked, TurnEnded, TurnFailed
from logos.domain.levels import LEVELS, Level
from logos.domain.roles import Role
from logos.domain.usage import Spent
from logos.views.continuity.entries import Transition, printable
from logos.views.events import Severity, severity_of
from logos.views.run import RunView, TurnView
from logos.views.sessions import Session
from logos.views.turns import LOGOS

_SHORT = 120
# A session's number, and a time in it.
Place = tuple[int, float]


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """A turn over the sessions of a run; `seconds` counts only time with a driver attached."""

    view: TurnView
    lane: str
    begun: Place
    over: Place
    seconds: float
    sent: int = 0

    @property
    def turn(self) -> str:
        return printable(self.view.turn, _SHORT)

    @property
    def who(self) -> str:
        return printable(self.view.who, _SHORT)

    @property
    def verdict(self) -> str:
        return printable(self.view.verdict or (f"no response: {self.view.failure}" if self.view.failure else ""))

    @property
    def severity(self) -> Severity:
        return Severity.BAD if self.view.failure else severity_of(self.view.verdict)

    @property
    def in_flight(self) -> bool:
        return self.view.ended is None and not self.view.failure

    @property
    def answered_in(self) -> int | None:
        """The number of the session."""
        return None if self.in_flight else self.over[0]

    @property
    def received(self) -> int:
        return 0 if self.view.inherited or self.lane == LOGOS else len(self.view.response)


@dataclass(frozen=True, slots=True)
class Effort:
    """What one role or level took: its answered turns, their time in flight, characters and tokens."""

    name: str
    turns: int = 0
    seconds: float = 0.0
    sent: int = 0
    received: int = 0
    bill: Spent = field(default_factory=Spent)

    def plus(self, span: TurnSpan) -> Effort:
        return Effort(
            self.name,
            self.turns + (not (span.in_flight or bool(span.view.failure))),
            self.seconds + span.seconds,
            self.sent + span.sent,
            self.received + span.received,
            self.bill.plus(*span.view.bills) if span.view.bills else self.bill,
        )


def lane_of(turn: TurnView) -> str:
    """A role, a level, or Logos itself."""
    if turn.agent == LOGOS:
        return LOGOS
    return turn.in_build.level.name if turn.in_build is not None else printable(turn.agent, _SHORT) or "?"


def lanes_of(spans: Iterable[TurnSpan], levels: tuple[Level, ...] | None) -> tuple[str, ...]:
    """Roles or levels in their order, whether they had a turn or not; then other agents in the log, and Logos."""
    known = tuple(Role) if levels is None else tuple(level.name for level in LEVELS if level in levels)
    used = dict.fromkeys(span.lane for span in spans)
    more = [lane for lane in used if lane not in known and lane != LOGOS]
    return (*known, *more, *((LOGOS,) if LOGOS in used else ()))


def spans_of(view: RunView, sessions: Sequence[Session], steps: Iterable[Transition[Any]]) -> tuple[TurnSpan, ...]:
    """When each turn was asked and ended, by the order of events: clocks can be set back."""
    inherited = {turn.turn for turn in view.turns if turn.inherited}
    begun, over, sent = dict[str, Place](), dict[str, Place](), dict[str, int]()
    for step in steps:
        event, place = step.record.event, (step.session.number, step.record.at)
        if isinstance(event, TurnAsked):
            begun.setdefault(event.turn, place)
            sent[event.turn] = sent.get(event.turn, 0) + len(event.prompt)
        elif isinstance(event, TurnEnded | TurnFailed):
            over[event.turn] = place
        elif isinstance(event, RunForked):
            # A turn in flight is asked again in the fork, from the beginning.
            begun = {turn: place for turn, place in begun.items() if turn in inherited}
            sent.clear()
    last, spans = sessions[-1], list[TurnSpan]()
    for turn in view.turns:
        if turn.turn in over or turn.turn in begun:
            in_flight = turn.ended is None and not turn.failure
            end = _within(sessions, (last.number, last.ended) if in_flight else over[turn.turn])
            # A step of Logos itself begins and ends with the same driver.
            start = _within(sessions, begun.get(turn.turn, (end[0], turn.asked)))
            seconds = _driven(sessions, start, end)
            spans.append(TurnSpan(turn, lane_of(turn), start, end, seconds, sent.get(turn.turn, 0)))
    return tuple(spans)


def _within(sessions: Sequence[Session], place: Place) -> Place:
    """A time inside its session, also where the clock was set in between."""
    session = sessions[place[0] - 1]
    return session.number, min(max(place[1], session.began), session.ended)


def _driven(sessions: Sequence[Session], begun: Place, over: Place) -> float:
    """The seconds between two places in which a driver was attached."""
    if begun[0] == over[0]:
        return max(over[1] - begun[1], 0.0)
    between = sum(session.seconds for session in sessions[begun[0] : over[0] - 1])
    return sessions[begun[0] - 1].ended - begun[1] + between + over[1] - sessions[over[0] - 1].began


def efforts_of(spans: Iterable[TurnSpan], lanes: Iterable[str]) -> tuple[Effort, ...]:
    """Of this run's own turns, in the order of the lanes."""
    rows = {lane: Effort(lane) for lane in lanes}
    for span in spans:
        if not span.view.inherited:
            rows[span.lane] = rows[span.lane].plus(span)
    return tuple(row for row in rows.values() if row != Effort(row.name))
