"""What a person is notified of, read from the events of a run; when turns give no sign of life, and what is due then.

Nothing here has a clock: the time is passed in.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from logos.domain import events
from logos.domain.events import Noted, Recorded, Topic
from logos.domain.ledger import Ledger
from logos.domain.turns import FailureKind, Outcome, TurnId
from logos.flows.fold import RunState
from logos.views.cycle_state import FINAL
from logos.views.events import Severity, proposal_in_short
from logos.views.status import BUDGET
from logos.views.text import cut, duration
from logos.waiting.provider_errors import failure_kind_of

# The log has the whole text.
LONGEST = 1500


class NoticeKind(StrEnum):
    WAITING = "waiting"
    REMINDER = "reminder"
    ENDED = "ended"
    LIMIT = "limit"
    STALLED = "stalled"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Notice:
    """A message for a person who is elsewhere, about an event of a run; `again` counts reminders of the same."""

    kind: NoticeKind
    event: int
    title: str
    text: str
    severity: Severity = Severity.WARNING
    again: int = 0

    @property
    def key(self) -> str:
        """What it is about: no two notices of a run have the same."""
        return f"{self.event}-{self.kind}{f'-{self.again}' if self.again else ''}"


@dataclass(frozen=True, slots=True)
class OpenGateNotice:
    """A gate that waits for a person since `at`."""

    at: float
    notice: Notice

    def reminder(self, number: int, now: float) -> Notice:
        text = f"open for {duration(now - self.at)}: {self.notice.text}"
        title = "Logos: a run still waits for you"
        return Notice(NoticeKind.REMINDER, self.notice.event, title, text, Severity.ALARM, number)


class NoticeFold:
    """Finds the notices in the events of one run; all of them must be added, also those of earlier drivers."""

    def __init__(self) -> None:
        self.gate: OpenGateNotice | None = None
        self._drivers = 0
        # Turns that wait until a limit ends.
        self._resting: set[TurnId] = set()
        # What agents asked permission for, and which driver found it.
        self._asked: dict[TurnId, tuple[str, int]] = {}

    def add(self, record: Recorded, state: RunState) -> Notice | None:
        seq = record.seq
        match record.event:
            case events.RunStarted() | events.RunResumed() | events.RunForked():
                self._drivers += 1
            case events.GateOpened(gate, _, question):
                text = f'{question}\n`logos approve RUN`, or `logos reject RUN "why"` ({gate})'
                notice = _waits(seq, "a run", text.replace("RUN", record.run))
                self.gate = OpenGateNotice(record.at, notice)
                return notice
            case events.GateDecided():
                self.gate = None
            case Noted(Topic.PERMISSION_ASKED, text, str(turn)):
                return _waits(seq, "an agent", text) if self._is_new(turn, text) else None
            case Noted(Topic.PERMISSION_ASKED, text):
                return _waits(seq, "an agent", text)
            case Noted(Topic.PERMISSION_GIVEN, _, str(turn)) | events.PermissionDecided(turn):
                self._asked.pop(turn, None)
            case Noted(Topic.TRIED_AGAIN, text, str(turn)) if failure_kind_of(text) is FailureKind.LIMIT:
                return self._rests(seq, turn, text)
            case Noted(Topic.INTERRUPTED, why):
                return self._stopped(seq, why, state)
            case events.TurnAnswered(turn) | events.TurnFailed(turn) | events.AcceptanceWritten(turn):
                self._resting.discard(turn)
                self._asked.pop(turn, None)
            case events.RunEnded(outcome):
                return _ended(seq, outcome, state)
            case _:
                pass
        return None

    def _is_new(self, turn: TurnId, text: str) -> bool:
        """A driver that takes over finds the question that the one before it has told of."""
        known, self._asked[turn] = self._asked.get(turn), (text, self._drivers)
        return known is None or known[0] != text or known[1] == self._drivers

    def _rests(self, seq: int, turn: TurnId, text: str) -> Notice | None:
        """A limit whose end is not known is tried again and again; it is news once."""
        known = turn in self._resting
        self._resting.add(turn)
        return None if known else Notice(NoticeKind.LIMIT, seq, "Logos: a limit is reached", text)

    def _stopped(self, seq: int, why: str, state: RunState) -> Notice | None:
        # Of a gate, or of the end, the person is told anyway.
        if state.outcome is not None or self.gate is not None:
            return None
        if BUDGET.match(why) or state.trouble is FailureKind.LIMIT:
            return Notice(NoticeKind.LIMIT, seq, "Logos: stopped by a limit", why)
        return stopped(seq, why)


def stopped(seq: int, why: str) -> Notice:
    return Notice(NoticeKind.STOPPED, seq, "Logos: stopped", why)


def _waits(seq: int, who: str, text: str) -> Notice:
    return Notice(NoticeKind.WAITING, seq, f"Logos: {who} waits for you", text, Severity.ALARM)


def _ended(seq: int, outcome: Outcome, state: RunState) -> Notice:
    if state.question is not None:
        options = [f"{place}. {proposal_in_short(it)}" for place, it in enumerate(state.question.options, 1)]
        return _waits(seq, "a build", "\n".join([state.question.text, *options, "`logos resolve` takes the decision"]))
    unverified = ", unverified" if outcome is Outcome.PASSED and not state.verified else ""
    severity = Severity.GOOD if outcome is Outcome.PASSED else Severity.BAD
    word = FINAL[outcome]
    return Notice(NoticeKind.ENDED, seq, f"Logos: {word}{unverified}", state.reason or word, severity)


def body_of(notice: Notice, run: str, work_dir: str, page: str) -> str:
    """The whole message: what happened, in which run, and where to look."""
    where = f"run {run} in {work_dir}"
    return "\n".join(filter(None, (cut(notice.text, LONGEST), where, page)))


class SilentTurns:
    """Finds turns in flight that have given no sign of life for some seconds; each is told once per silence."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # The last event of each turn, and when it gave its last sign.
        self._events: dict[TurnId, int] = {}
        self._since: dict[TurnId, float] = {}
        self._told: set[TurnId] = set()

    def add(self, record: Recorded, ledger: Ledger, at: float) -> None:
        turn = getattr(record.event, "turn", None)
        sent = {TurnId(name) for name, asked in ledger.in_flight.items() if asked.sent and not asked.failed}
        if turn is not None:
            self._events[turn] = record.seq
        # An agent that waits for a person or a limit is not silent.
        rests = isinstance(record.event, Noted) and record.event.topic in (Topic.PERMISSION_ASKED, Topic.TRIED_AGAIN)
        self._since = {name: since for name, since in self._since.items() if name in sent}
        for name in sent:
            if name == turn and rests:
                self._since.pop(name, None)
            elif name == turn:
                self.alive(name, at)
            elif name not in self._since and isinstance(record.event, events.RunResumed):
                self._since[name] = at

    def alive(self, turn: TurnId, at: float) -> None:
        self._told.discard(turn)
        self._since[turn] = at

    @property
    def next_at(self) -> float | None:
        """When a turn will have been silent for too long."""
        waits = [since + self._seconds for turn, since in self._since.items() if turn not in self._told]
        return min(waits, default=None) if self._seconds else None

    def due(self, at: float) -> Iterator[Notice]:
        for turn, since in [*self._since.items()] if self._seconds else ():
            if turn not in self._told and at - since >= self._seconds:
                self._told.add(turn)
                text = f"{turn} has given no sign of life for {duration(at - since)}; `logos status` shows the run"
                yield Notice(NoticeKind.STALLED, self._events.get(turn, 0), "Logos: an agent is silent", text)
