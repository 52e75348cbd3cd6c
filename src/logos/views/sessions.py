"""Sessions: the periods in which a driver was attached to a run, read from its log."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import pairwise, takewhile

from logos.domain import events
from logos.domain.events import Recorded
from logos.domain.gates import GateKind
from logos.domain.turns import TurnId
from logos.errors import UsageError
from logos.views import text

_OF_PERSONS = events.QuestionResolved | events.GateDecided | events.PermissionDecided | events.PersonSaid
_BEGINS = events.RunStarted | events.RunForked
_BETWEEN_DRIVERS = _OF_PERSONS | events.Noted
_ASKING = (events.TurnAsked, events.TurnSent)
_ANSWERS = events.TurnAnswered | events.AcceptanceWritten
_CHECKS = events.CheckRan | events.ProofRan
# After these no gate is open.
_BEHIND_A_GATE = events.GateDecided | events.TurnAsked | events.ProofRan | events.RunEnded | events.RunAbandoned
LAST = "last"
# So many sessions are named in an error.
_NAMED = 5


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
    forked: events.RunForked | None = None
    driven: bool = True
    # Of a PASS that only an agent vouches for: what people are told besides the outcome.
    doubt: str = ""
    # Of its time, the part in which an open gate waited for a person.
    waited: float = 0.0
    run: str = field(default="", compare=False)

    @property
    def seconds(self) -> float:
        """The time in which there was something to do."""
        return max(self.ended - self.began - self.waited, 0.0)

    @property
    def end(self) -> str:
        return self.outcome or self.left or ("killed" if self.driven else "not driven")

    @property
    def date(self) -> str:
        return text.date(self.began)

    @property
    def name(self) -> str:
        return f"session {self.number} ({self.date})"


def sessions_of(records: Iterable[Recorded]) -> tuple[Session, ...]:
    """The sessions of a run, oldest first. What a person does between two of them belongs to the earlier."""
    records = [*records]
    groups, waited = _grouped(records), _waited(records)
    last_fork = max((n for n, group in enumerate(groups) if isinstance(group[0].event, events.RunForked)), default=0)
    return tuple(_session(n, group, waited, inherited=n < last_fork) for n, group in enumerate(groups))


def _grouped(records: Iterable[Recorded]) -> list[list[Recorded]]:
    groups: list[list[Recorded]] = []
    awaits_driver = False
    for record in records:
        event = record.event
        # The first driver of a fork continues the session that forking began.
        resumed = isinstance(event, events.RunResumed) and not awaits_driver
        if resumed or isinstance(event, _BEGINS):
            groups.append([])
        between = awaits_driver and isinstance(event, _BETWEEN_DRIVERS)
        awaits_driver = isinstance(event, events.RunForked) or between
        if groups:
            groups[-1].append(record)
    return groups


def _waited(records: Sequence[Recorded]) -> dict[int, float]:
    """By event number: how long an open gate waited for a person before this event."""
    waited: dict[int, float] = {}
    if not any(isinstance(record.event, events.GateOpened) for record in records):
        return waited
    gate: GateKind | None = None
    for before, record in pairwise(records):
        event = before.event
        if isinstance(event, events.GateOpened):
            gate = event.at
        elif isinstance(event, _BEHIND_A_GATE) or (
            isinstance(event, events.RunResumed) and gate not in event.plan.gates
        ):
            gate = None
        if gate is not None:
            waited[record.seq] = max(record.at - before.at, 0.0)
    return waited


def _session(index: int, records: Sequence[Recorded], waited: Mapping[int, float], *, inherited: bool) -> Session:
    # Most events of a long session are those of its turns, and none of the others.
    own = [record.event for record in records if not isinstance(record.event, _ASKING)]
    resumed = next((n for n, record in enumerate(records) if isinstance(record.event, events.RunResumed)), 0)
    driven = _driven(records[resumed:])
    forked = records[0].event
    first = forked if isinstance(forked, events.RunForked) else None
    left = (event.text for event in own if isinstance(event, events.Noted) and event.topic is events.Topic.INTERRUPTED)
    ends = [event for event in own if isinstance(event, events.RunEnded)]
    return Session(
        index + 1,
        records[0].seq,
        records[-1].seq,
        driven[0].at,
        # A clock that was set back must not give a session that ends before it begins.
        max(record.at for record in driven),
        tuple(event.turn for event in own if isinstance(event, _ANSWERS)),
        tuple(event.turn for event in own if isinstance(event, _CHECKS)),
        text.stop_in_words(_last(left)),
        inherited,
        _last(event.outcome.value for event in ends),
        _last(event.why for event in own if isinstance(event, events.RunAbandoned)),
        first,
        driven=resumed > 0 or first is None,
        run=records[0].run,
        waited=sum(waited.get(record.seq, 0.0) for record in driven[1:]) if waited else 0.0,
        doubt=_last(event.outcome.in_words(event.verified).removeprefix(event.outcome) for event in ends),
    )


def _driven(records: Sequence[Recorded]) -> Sequence[Recorded]:
    """The records of the driver: without the decision of a person, and what Logos closes when a run is given up."""
    persons = events.QuestionResolved | events.RunAbandoned
    own = [*takewhile(lambda record: not isinstance(record.event, persons), records)]
    while 1 < len(own) < len(records) and isinstance(own[-1].event, events.TerminalClosed):
        own.pop()
    # With a driver, a decision is followed by what it made possible.
    while len(own) > 1 and isinstance(own[-1].event, _OF_PERSONS):
        own.pop()
    return own


def _last(words: Iterable[str]) -> str:
    return next(reversed([*words]), "")


def session_since(sessions: Sequence[Session], wanted: str, run: str) -> Session:
    """The session that `--since` names: by its number, by a date (the first that began on it or later), or the last."""
    by_number = {str(session.number): session for session in sessions}
    if wanted == LAST:
        return sessions[-1]
    if wanted in by_number:
        return by_number[wanted]
    try:
        day = date.fromisoformat(wanted)
    except ValueError:
        wrong = f"--since {wanted} names no session"
    else:
        for session in sessions:
            if datetime.fromtimestamp(session.began).date() >= day:
                return session
        wrong = f"no session began on {wanted} or later"
    allowed = f"a number, a date such as {sessions[-1].date.partition(' ')[0]}, or {LAST}"
    named = ", ".join(f"{session.number} ({session.date})" for session in sessions[-_NAMED:])
    known = f"{text.count(len(sessions), 'session')}: {'…, ' if len(sessions) > _NAMED else ''}{named}"
    raise UsageError(f"{wrong} ({allowed}): run {run} has {known}")
