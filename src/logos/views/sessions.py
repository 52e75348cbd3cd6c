"""Sessions: the stretches in which somebody drove a run, read off its log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from logos.domain.events import (
    CheckRan,
    Noted,
    QuestionResolved,
    Recorded,
    RunAbandoned,
    RunForked,
    RunResumed,
    RunStarted,
    Topic,
    TurnAnswered,
)
from logos.domain.turns import TurnId


@dataclass(frozen=True, slots=True)
class Session:
    """What one driver did of a run: events `first` to `last`. `left` is why it went; killed, it could not say.

    A person's own events come with it, but not its time: an answer may come days later.

    An inherited one belongs to the run that this one was forked from.
    """

    number: int
    first: int
    last: int
    began: float
    ended: float
    answered: tuple[TurnId, ...] = ()
    checked: tuple[TurnId, ...] = ()
    left: str = ""
    inherited: bool = False

    @property
    def seconds(self) -> float:
        return self.ended - self.began


def sessions_of(records: Iterable[Recorded]) -> tuple[Session, ...]:
    """The sessions of a run, oldest first. What a person does between two of them belongs to the earlier."""
    found: list[Session] = []
    forked = False
    for record in records:
        event = record.event
        begins = isinstance(event, RunStarted | RunResumed | RunForked)
        if isinstance(event, RunForked):
            found = [replace(session, inherited=True) for session in found]
        if forked and isinstance(event, RunResumed):
            # Who first drives a fork goes on with the session that making it began.
            found[-1] = replace(found[-1], began=record.at, ended=record.at)
        elif begins:
            found.append(Session(len(found) + 1, record.seq, record.seq, record.at, record.at))
        forked = isinstance(event, RunForked) or (forked and isinstance(event, QuestionResolved | Noted))
        if found:
            found[-1] = _with(found[-1], record)
    return tuple(found)


def _with(session: Session, record: Recorded) -> Session:
    session = replace(session, last=record.seq)
    if not isinstance(record.event, QuestionResolved | RunAbandoned):
        # A clock that was set back must not give a session that ends before it begins.
        session = replace(session, ended=max(session.ended, record.at))
    match record.event:
        case TurnAnswered(turn):
            return replace(session, answered=(*session.answered, turn))
        case CheckRan(turn):
            return replace(session, checked=(*session.checked, turn))
        case Noted(Topic.INTERRUPTED, text):
            return replace(session, left=text)
        case _:
            return session
