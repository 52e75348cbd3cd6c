"""Sessions: the periods in which a driver was attached to a run, read from its log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from logos.domain.events import (
    CheckRan,
    Noted,
    QuestionResolved,
    Recorded,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    TerminalClosed,
    Topic,
    TurnAnswered,
)
from logos.domain.turns import TurnId
from logos.views import text


@dataclass(frozen=True, slots=True)
class Session:
    """What one driver did in a run: events `first` to `last`.

    A person may answer a question or give a run up days later: these events belong to the session, their time does not.
    An inherited session belongs to the run that this one was forked from.
    """

    number: int
    first: int
    last: int
    began: float
    ended: float
    answered: tuple[TurnId, ...] = ()
    checked: tuple[TurnId, ...] = ()
    # Why the driver left; a killed driver could not say.
    left: str = ""
    inherited: bool = False
    outcome: str = ""
    given_up: str = ""
    forked: RunForked | None = None
    driven: bool = True

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def end(self) -> str:
        """How it ended."""
        return self.outcome or self.left or ("killed" if self.driven else "not driven")

    @property
    def date(self) -> str:
        return text.date(self.began)

    @property
    def name(self) -> str:
        return f"session {self.number} ({self.date})"

    def within(self, at: float) -> float:
        """A time inside this session, also where the clock was set in between."""
        return min(max(at, self.began), self.ended)


def sessions_of(records: Iterable[Recorded]) -> tuple[Session, ...]:
    """The sessions of a run, oldest first. What a person does between two of them belongs to the earlier."""
    groups = _grouped(records)
    last_fork = max((n for n, group in enumerate(groups) if isinstance(group[0].event, RunForked)), default=0)
    return tuple(_session(n, group, inherited=n < last_fork) for n, group in enumerate(groups))


def _grouped(records: Iterable[Recorded]) -> list[list[Recorded]]:
    groups: list[list[Recorded]] = []
    awaits_driver = False
    for record in records:
        event = record.event
        # The first driver of a fork continues the session that forking began.
        if isinstance(event, RunStarted | RunForked) or (isinstance(event, RunResumed) and not awaits_driver):
            groups.append([])
        awaits_driver = isinstance(event, RunForked) or (awaits_driver and isinstance(event, QuestionResolved | Noted))
        if groups:
            groups[-1].append(record)
    return groups


def _session(index: int, records: Sequence[Recorded], *, inherited: bool) -> Session:
    events = [record.event for record in records]
    resumed = next((n for n, event in enumerate(events) if isinstance(event, RunResumed)), 0)
    driven = _driven(records[resumed:])
    began, first = driven[0].at, events[0]
    return Session(
        index + 1,
        records[0].seq,
        records[-1].seq,
        began,
        # A clock that was set back must not give a session that ends before it begins.
        max(record.at for record in driven),
        tuple(event.turn for event in events if isinstance(event, TurnAnswered)),
        tuple(event.turn for event in events if isinstance(event, CheckRan)),
        _last(event.text for event in events if isinstance(event, Noted) and event.topic is Topic.INTERRUPTED),
        inherited,
        _last(event.outcome.value for event in events if isinstance(event, RunEnded)),
        _last(event.why for event in events if isinstance(event, RunAbandoned)),
        first if isinstance(first, RunForked) else None,
        resumed > 0 or not isinstance(first, RunForked),
    )


def _driven(records: Sequence[Recorded]) -> Sequence[Recorded]:
    """The records of the driver: without the decision of a person, and what Logos closes when a run is given up."""
    own = [*takewhile(lambda record: not isinstance(record.event, QuestionResolved | RunAbandoned), records)]
    while 1 < len(own) < len(records) and isinstance(own[-1].event, TerminalClosed):
        own.pop()
    return own


def _last(words: Iterable[str]) -> str:
    return next(reversed([*words]), "")
