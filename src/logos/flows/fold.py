"""A run folded from its log: the flow's state, the ledger, and what every flow's runs have in common."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, takewhile
from typing import Any, Generic, TypeVar

from logos.domain.events import QuestionResolved, Recorded, RunAbandoned, RunEnded, RunForked, RunResumed, RunStarted
from logos.domain.ledger import Ledger
from logos.domain.plans import CyclePlan, LevelsPlan
from logos.domain.turns import Action, Outcome, RunId
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


class RunFold(Generic[State]):
    """The state of one run after the records added so far."""

    def __init__(self, run: RunId, flow: Flow[State]) -> None:
        self.run = run
        self.flow = flow
        self.state = flow.start()
        self.ledger = Ledger()
        self.seq = 0
        self.driven_seconds = 0.0
        self.ended = False
        self._last_at: float | None = None

    @property
    def outcome(self) -> Outcome | None:
        return self.flow.outcome(self.state)

    def due(self) -> tuple[Action, ...]:
        return self.flow.due(self.state)

    @property
    def verified(self) -> bool | None:
        return self.state.verified if isinstance(self.state, RunState) else None

    def add(self, record: Recorded) -> None:
        event = record.event
        self.seq = record.seq
        # Count only time while a driver was attached to this run.
        if isinstance(event, RunForked):
            self.driven_seconds = 0.0
        elif self._last_at is not None and not isinstance(event, RunResumed | QuestionResolved | RunAbandoned):
            self.driven_seconds += max(record.at - self._last_at, 0.0)
        self._last_at = record.at
        self.ledger = self.ledger.enter(event)
        self.state = self.flow.apply(self.state, event)
        # A finished run stays ended when a later driver only cleans up; a reopened run is not ended.
        self.ended = self.outcome is not None and (self.ended or isinstance(event, RunEnded | RunAbandoned))


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


def fold_run(run: RunId, records: Iterable[Recorded], read_report: ReadReport, upto: int | None = None) -> RunFold[Any]:
    """Fold a run's records, up to event `upto`."""
    rest = iter(records)
    first = next(rest, None)
    fold = RunFold(run, flow_for(started_by(run, first), read_report))
    for record in takewhile(lambda own: upto is None or own.seq <= upto, chain([first] if first else [], rest)):
        fold.add(record)
    return fold
