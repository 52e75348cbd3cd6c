"""What was done, turn by turn, laid out over the sessions of a run: who, from when to when, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from logos.domain.events import (
    CheckRan,
    QuestionResolved,
    Recorded,
    RunAbandoned,
    RunEnded,
    RunForked,
    TerminalClosed,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    WorkGathered,
    WorkMerged,
)
from logos.domain.levels import LEVELS, Level
from logos.domain.roles import Role
from logos.flows.levels.turn_ids import level_turn
from logos.views import text
from logos.views.continuity.entries import said
from logos.views.events import Severity, severity_of
from logos.views.run import LOGOS, RunView, TurnView
from logos.views.sessions import Session
from logos.views.usage import Bill

_SHORT = 120


@dataclass(frozen=True, slots=True)
class SessionSpan:
    """A session as the report shows it: until the last thing its driver did, which is not what a person did later."""

    number: int
    began: float
    ended: float
    turns: int
    checks: int
    first: int
    last: int
    end: str = ""
    inherited: bool = False

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def date(self) -> str:
        return text.date(self.began)

    @property
    def name(self) -> str:
        return f"session {self.number} ({self.date})"

    def within(self, at: float) -> float:
        """A moment of this session, also where the clock was set in between."""
        return min(max(at, self.began), self.ended)


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """One turn, or something that Logos did itself. Places in time are a session's number and a moment in it."""

    turn: str
    lane: str
    who: str
    begun: tuple[int, float]
    over: tuple[int, float]
    seconds: float
    verdict: str = ""
    tone: Severity = Severity.NORMAL
    in_flight: bool = False
    failed: bool = False
    inherited: bool = False
    sent: int = 0
    received: int = 0
    bill: Bill = field(default_factory=Bill)

    @property
    def by_logos(self) -> bool:
        return self.lane == LOGOS


@dataclass(frozen=True, slots=True)
class Effort:
    """What one role or level took: its answered turns, their time in its hands, characters and tokens."""

    name: str
    turns: int = 0
    seconds: float = 0.0
    sent: int = 0
    received: int = 0
    bill: Bill = field(default_factory=Bill)

    def plus(self, act: TurnSpan) -> Effort:
        return Effort(
            self.name,
            self.turns + (not (act.in_flight or act.failed)),
            self.seconds + act.seconds,
            self.sent + act.sent,
            self.received + act.received,
            Bill(
                self.bill.turns + act.bill.turns,
                self.bill.usage.plus(act.bill.usage),
                self.bill.tokens_unknown + act.bill.tokens_unknown,
                self.bill.cost_unknown + act.bill.cost_unknown,
            ),
        )


def stretches_of(story: RunView, *, driven: bool) -> tuple[SessionSpan, ...]:
    """`driven`: somebody is at work on the last one now."""
    sessions = story.sessions
    found = tuple(_stretch(session, _records(story, session)) for session in sessions)
    return (*found[:-1], replace(found[-1], end="at work now")) if driven else found


def _records(story: RunView, session: Session) -> Sequence[Recorded]:
    # Events are numbered from 1 without gaps.
    return story.records[session.first - 1 : session.last]


def _stretch(session: Session, records: Sequence[Recorded]) -> SessionSpan:
    ends = [record.event.outcome.value for record in records if isinstance(record.event, RunEnded)]
    own = _driven(records)
    unsaid = "not driven" if len(own) == 1 and isinstance(own[0].event, RunForked) else "killed"
    return SessionSpan(
        session.number,
        session.began,
        max((session.began, *(record.at for record in own))),
        len(session.answered),
        len(session.checked),
        session.first,
        session.last,
        (ends[-1] if ends else "") or said(session.left, _SHORT) or unsaid,
        session.inherited,
    )


def _driven(records: Sequence[Recorded]) -> list[Recorded]:
    """What its driver did. Who decides something, or gives a run up and closes its terminals, does so later."""
    own = [*takewhile(lambda record: not isinstance(record.event, QuestionResolved | RunAbandoned), records)]
    while len(own) < len(records) and own and isinstance(own[-1].event, TerminalClosed):
        own.pop()
    return own


def lane_of(told: TurnView) -> str:
    """A role, a level, or Logos itself."""
    if told.agent == LOGOS:
        return LOGOS
    turn = level_turn(told.turn)
    return turn.level.name if turn is not None else said(told.agent, _SHORT) or "?"


def lanes_of(acts: Iterable[TurnSpan], levels: tuple[Level, ...] | None) -> tuple[str, ...]:
    """Roles or levels in their order, whether they had a turn or not; then whoever else is in the log, and Logos."""
    known = tuple(Role) if levels is None else tuple(level.name for level in LEVELS if level in levels)
    used = dict.fromkeys(act.lane for act in acts)
    more = [lane for lane in used if lane not in known and lane != LOGOS]
    return (*known, *more, *((LOGOS,) if LOGOS in used else ()))


def acts_of(story: RunView, stretches: Sequence[SessionSpan]) -> tuple[TurnSpan, ...]:
    inherited = frozenset(told.turn for told in story.turns if told.inherited)
    places = _Places({stretch.number: stretch for stretch in stretches}, inherited, {}, {}, {})
    numbers = iter(stretches)
    stretch = next(numbers)
    for record in story.records:
        if record.seq > stretch.last:
            stretch = next(numbers)
        places.hear(record, stretch.number)
    return tuple(places.act(told) for told in story.turns if told.turn in places.over or told.turn in places.begun)


@dataclass(frozen=True, slots=True)
class _Places:
    """Where in time each turn was asked and ended, read off the order of events: clocks can be set."""

    stretches: Mapping[int, SessionSpan]
    inherited: frozenset[str]
    begun: dict[str, tuple[int, float]]
    over: dict[str, tuple[int, float]]
    sent: dict[str, int]

    def hear(self, record: Recorded, session: int) -> None:
        match record.event:
            case TurnAsked(turn, _, prompt):
                self.begun.setdefault(turn, (session, record.at))
                self.sent[turn] = self.sent.get(turn, 0) + len(prompt)
            case TurnAnswered(turn) | TurnFailed(turn) | CheckRan(turn) | WorkGathered(turn) | WorkMerged(turn):
                self.over[turn] = (session, record.at)
            case RunForked():
                for turn in self.begun.keys() - self.inherited:
                    # It is asked of another agent, from the beginning.
                    del self.begun[turn]
                self.sent.clear()
            case _:
                pass

    def act(self, told: TurnView) -> TurnSpan:
        last, in_flight = max(self.stretches), told.ended is None and not told.failure
        over = (last, self.stretches[last].ended) if in_flight else self.over[told.turn]
        # What Logos does itself begins and ends with the same driver.
        begun = self.begun.get(told.turn, (over[0], told.asked))
        return TurnSpan(
            said(told.turn, _SHORT),
            lane_of(told),
            said(told.who, _SHORT),
            self._inside(begun),
            self._inside(over),
            self._seconds(self._inside(begun), self._inside(over)),
            said(told.verdict or (f"no response: {told.failure}" if told.failure else "")),
            Severity.BAD if told.failure else severity_of(told.verdict),
            in_flight,
            bool(told.failure),
            told.inherited,
            self.sent.get(told.turn, 0),
            0 if told.inherited or told.agent == LOGOS else len(told.response),
            Bill().plus(told) if told.bills else Bill(),
        )

    def _inside(self, place: tuple[int, float]) -> tuple[int, float]:
        return place[0], self.stretches[place[0]].within(place[1])

    def _seconds(self, begun: tuple[int, float], over: tuple[int, float]) -> float:
        """Only while somebody drove: nobody knows what happened in the nights between."""
        if begun[0] == over[0]:
            return max(over[1] - begun[1], 0.0)
        between = sum(self.stretches[number].seconds for number in range(begun[0] + 1, over[0]))
        return self.stretches[begun[0]].ended - begun[1] + between + over[1] - self.stretches[over[0]].began


def efforts_of(acts: Iterable[TurnSpan], lanes: Iterable[str]) -> tuple[Effort, ...]:
    """Who had a turn of this run's own, in the order of the lanes."""
    rows = {lane: Effort(lane) for lane in lanes}
    for act in acts:
        if not act.inherited:
            rows[act.lane] = rows[act.lane].plus(act)
    return tuple(row for row in rows.values() if row != Effort(row.name))
