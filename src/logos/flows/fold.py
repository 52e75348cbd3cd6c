"""A run folded from its log: the flow's state, the ledger, and what every flow's runs have in common."""

from typing import Any, Generic, TypeVar, cast

from logos.domain.events import (
    GateDecided,
    PermissionDecided,
    PersonSaid,
    QuestionResolved,
    Recorded,
    RecordsTampered,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
)
from logos.domain.ledger import Ledger
from logos.domain.plans import CyclePlan, LevelsPlan
from logos.domain.records import replace
from logos.domain.turns import Outcome, RunId
from logos.errors import LogError
from logos.flows import Flow
from logos.flows.cycle.flow import Cycle, CycleState
from logos.flows.levels.flow import Levels, ReadReport
from logos.flows.levels.state import LevelsState

State = TypeVar("State")

RunState = CycleState | LevelsState
"""Both have a position, an outcome, the work they leave and so on: code outside `flows` rarely asks which it has."""

# A run with one of these outcomes can still continue.
UNFINISHED = (None, Outcome.BLOCKED)
# No driver was attached just before these events.
_BETWEEN_DRIVERS = (RunResumed, QuestionResolved, GateDecided, RunAbandoned)
# With or without a driver: the next event of a driver counts from its last one.
_AT_ANY_TIME = (PersonSaid, PermissionDecided)
# Tuples, here and below: this is asked for every event, and a union takes three times as long.
_STATES = (CycleState, LevelsState)
_ENDS = (RunEnded, RunAbandoned)


class RunFold(Generic[State]):
    """The state of one run after the records added so far."""

    def __init__(self, run: RunId, flow: Flow[State]) -> None:
        self.run = run
        self.flow = flow
        self.state: State = flow.start()
        self.ledger = Ledger()
        self.seq = 0
        self.driven_seconds = 0.0
        self.ended = False
        # The event that says that the run's records were changed, and its evidence.
        self.tampered: tuple[int, str] | None = None
        self._last_at: float | None = None

    def __copy__(self) -> "RunFold[State]":
        """Of a run that is shown at any of its events, every one has a copy."""
        other: RunFold[State] = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    @property
    def outcome(self) -> Outcome | None:
        return self.flow.outcome(self.state)

    @property
    def verified(self) -> bool | None:
        return self.state.verified if isinstance(self.state, _STATES) else None

    def add(self, record: Recorded) -> None:
        event = record.event
        self.seq = record.seq
        self._count(record)
        self.ledger = self.ledger.enter(event)
        self.state = self.flow.apply(self.state, event)
        if isinstance(event, RecordsTampered):
            self.tampered = self.tampered or (record.seq, event.evidence)
        if self.tampered is not None and isinstance(self.state, _STATES) and not self.ended:
            self.state = cast(State, _not_believed(self.run, self.state, *self.tampered))
        # A finished run stays ended when a later driver only cleans up; a reopened run is not ended.
        self.ended = self.outcome is not None and (self.ended or isinstance(event, _ENDS))

    def _count(self, record: Recorded) -> None:
        """Count only time while a driver was attached to this run, and could do something."""
        if isinstance(record.event, _AT_ANY_TIME):
            return
        waits = isinstance(self.state, _STATES) and self.state.gate is not None
        if isinstance(record.event, RunForked):
            self.driven_seconds = 0.0
        elif self._last_at is not None and not waits and not isinstance(record.event, _BETWEEN_DRIVERS):
            self.driven_seconds += max(record.at - self._last_at, 0.0)
        self._last_at = record.at


def _not_believed(run: RunId, state: RunState, seq: int, evidence: str) -> RunState:
    """A PASS of a run whose records were changed waits for a person."""
    if state.outcome is not Outcome.PASSED:
        return state
    reason = (
        f"{state.reason}, but somebody has changed the records of this run, so the PASS is not believed: {evidence}. "
        f"`logos rollback {run}@{seq - 1}` returns to the last event before that, --fresh starts a new run"
    )
    return replace(state, outcome=Outcome.BLOCKED, reason=reason)


def flow_for(started: RunStarted, read_report: ReadReport) -> Flow[Any]:
    """The flow that a run's first event asks for."""
    match started.plan:
        case CyclePlan() as plan:
            return Cycle(plan, started.seed)
        case LevelsPlan() as plan:
            return Levels(plan, read_report)


def started_by(run: RunId, first: Recorded | None) -> RunStarted:
    if first is None or not isinstance(first.event, RunStarted):
        raise LogError(f"run {run} is not in the log")
    return first.event
