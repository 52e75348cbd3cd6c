"""The turns of a run over its sessions: who, from when to when, and with what effort."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from logos.domain.events import (
    CheckRan,
    Recorded,
    RunForked,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    WorkGathered,
    WorkMerged,
)
from logos.domain.levels import LEVELS, Level
from logos.domain.roles import Role
from logos.domain.usage import Spent
from logos.flows.levels.turn_ids import level_turn
from logos.views.continuity.entries import printable
from logos.views.events import Severity, severity_of
from logos.views.run import LOGOS, RunView, TurnView
from logos.views.sessions import Session

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
    def inherited(self) -> bool:
        return self.view.inherited

    @property
    def by_logos(self) -> bool:
        return self.lane == LOGOS

    @property
    def received(self) -> int:
        return 0 if self.inherited or self.by_logos else len(self.view.response)

    @property
    def bill(self) -> Spent:
        return Spent().plus(*self.view.bills) if self.view.bills else Spent()


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
            self.bill.merged(span.bill),
        )


def lane_of(turn: TurnView) -> str:
    """A role, a level, or Logos itself."""
    if turn.agent == LOGOS:
        return LOGOS
    level = level_turn(turn.turn)
    return level.level.name if level is not None else printable(turn.agent, _SHORT) or "?"


def lanes_of(spans: Iterable[TurnSpan], levels: tuple[Level, ...] | None) -> tuple[str, ...]:
    """Roles or levels in their order, whether they had a turn or not; then other agents in the log, and Logos."""
    known = tuple(Role) if levels is None else tuple(level.name for level in LEVELS if level in levels)
    used = dict.fromkeys(span.lane for span in spans)
    more = [lane for lane in used if lane not in known and lane != LOGOS]
    return (*known, *more, *((LOGOS,) if LOGOS in used else ()))


def spans_of(view: RunView, sessions: Sequence[Session]) -> tuple[TurnSpan, ...]:
    inherited = frozenset(turn.turn for turn in view.turns if turn.inherited)
    places = _Places({session.number: session for session in sessions}, inherited, {}, {}, {})
    rest = iter(sessions)
    session = next(rest)
    for record in view.records:
        if record.seq > session.last:
            session = next(rest)
        places.add(record, session.number)
    return tuple(places.span(turn) for turn in view.turns if turn.turn in places.over or turn.turn in places.begun)


@dataclass(frozen=True, slots=True)
class _Places:
    """When each turn was asked and ended, by the order of events: clocks can be set back."""

    sessions: Mapping[int, Session]
    inherited: frozenset[str]
    begun: dict[str, Place]
    over: dict[str, Place]
    sent: dict[str, int]

    def add(self, record: Recorded, session: int) -> None:
        match record.event:
            case TurnAsked(turn, _, prompt):
                self.begun.setdefault(turn, (session, record.at))
                self.sent[turn] = self.sent.get(turn, 0) + len(prompt)
            case TurnAnswered(turn) | TurnFailed(turn) | CheckRan(turn) | WorkGathered(turn) | WorkMerged(turn):
                self.over[turn] = (session, record.at)
            case RunForked():
                # A turn in flight is asked again in the fork, from the beginning.
                for turn in self.begun.keys() - self.inherited:
                    del self.begun[turn]
                self.sent.clear()
            case _:
                pass

    def span(self, turn: TurnView) -> TurnSpan:
        last, in_flight = max(self.sessions), turn.ended is None and not turn.failure
        over = self._inside((last, self.sessions[last].ended) if in_flight else self.over[turn.turn])
        # A step of Logos itself begins and ends with the same driver.
        begun = self._inside(self.begun.get(turn.turn, (over[0], turn.asked)))
        return TurnSpan(turn, lane_of(turn), begun, over, self._seconds(begun, over), self.sent.get(turn.turn, 0))

    def _inside(self, place: Place) -> Place:
        return place[0], self.sessions[place[0]].within(place[1])

    def _seconds(self, begun: Place, over: Place) -> float:
        if begun[0] == over[0]:
            return max(over[1] - begun[1], 0.0)
        between = sum(self.sessions[number].seconds for number in range(begun[0] + 1, over[0]))
        return self.sessions[begun[0]].ended - begun[1] + between + over[1] - self.sessions[over[0]].began


def efforts_of(spans: Iterable[TurnSpan], lanes: Iterable[str]) -> tuple[Effort, ...]:
    """Of this run's own turns, in the order of the lanes."""
    rows = {lane: Effort(lane) for lane in lanes}
    for span in spans:
        if not span.inherited:
            rows[span.lane] = rows[span.lane].plus(span)
    return tuple(row for row in rows.values() if row != Effort(row.name))
