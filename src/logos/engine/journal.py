"""One run being written: its log, the state folded from it, and everyone who wants to see each event."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain, takewhile
from typing import Any, Generic, TypeVar

from logos.adapters.reports import read_report
from logos.domain.events import (
    Event,
    QuestionResolved,
    Recorded,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
)
from logos.domain.ledger import Ledger
from logos.domain.plans import CyclePlan, LevelsPlan, Plan
from logos.domain.turns import Action, Outcome, RunId
from logos.errors import LogError, UsageError
from logos.flows import Flow
from logos.flows.cycle.flow import Cycle, CycleState
from logos.flows.levels.flow import Levels
from logos.flows.levels.state import LevelsState
from logos.ports import Log

State = TypeVar("State")
Watcher = Callable[[Recorded, State, Ledger], None]


class Journal(Generic[State]):
    def __init__(self, log: Log, run: RunId, flow: Flow[State], watchers: Iterable[Watcher[State]] = ()) -> None:
        self.run = run
        self.seq = 0
        self.ledger = Ledger()
        self.driven = 0.0
        self.ended = False
        self.open_until = 0
        self._last_at: float | None = None
        self.state = flow.start()
        self._log = log
        self._flow = flow
        self._watchers = list(watchers)

    def catch_up(self, recorded: Iterable[Recorded]) -> None:
        """Fold what the log already holds; watchers see nothing of it."""
        for record in recorded:
            self._fold(record)

    def watch(self, watcher: Watcher[State]) -> None:
        self._watchers.append(watcher)

    def record(self, event: Event) -> Recorded:
        """Make `event` part of the run: first durable, then true, then shown."""
        record = self._log.append(self.run, event, after=self.seq)
        self._fold(record)
        for watcher in self._watchers:
            watcher(record, self.state, self.ledger)
        return record

    def due(self) -> tuple[Action, ...]:
        return self._flow.due(self.state)

    @property
    def outcome(self) -> Outcome | None:
        return self._flow.outcome(self.state)

    def _fold(self, record: Recorded) -> None:
        self.seq = record.seq
        # The time between two drivers is nobody's, as is a person's; that of another run is not this one's.
        if isinstance(record.event, RunForked):
            self.driven = 0.0
        elif self._last_at is not None and not isinstance(record.event, RunResumed | QuestionResolved | RunAbandoned):
            self.driven += max(record.at - self._last_at, 0.0)
        self._last_at = record.at
        self.ledger = self.ledger.enter(record.event)
        self.state = self._flow.apply(self.state, record.event)
        # A run that is over stays so, whoever comes back to tidy up; one that goes on has no end yet.
        if self.outcome in (None, Outcome.BLOCKED):
            self.open_until = record.seq
        over = isinstance(record.event, RunEnded | RunAbandoned)
        self.ended = self.outcome is not None and (self.ended or over)


def flow_of(started: RunStarted) -> Flow[Any]:
    """The flow that a run's first event asks for."""
    match started.plan:
        case CyclePlan() as plan:
            return Cycle(plan, started.seed)
        case LevelsPlan() as plan:
            return Levels(plan, read_report)


def plan_of(log: Log, run: RunId) -> Plan:
    """The plan a run began with."""
    return _start_of(run, next(iter(log.read(run)), None)).plan


def open_run(log: Log, run: RunId, upto: int | None = None) -> Journal[Any]:
    """The journal of a run that is in the log, up to event `upto`."""
    records = iter(log.read(run))
    first = next(records, None)
    journal = Journal(log, run, flow_of(_start_of(run, first)))
    until = takewhile(lambda record: upto is None or record.seq <= upto, chain([first] if first else [], records))
    journal.catch_up(until)
    return journal


def open_cycle(log: Log, run: RunId, upto: int | None = None) -> Journal[CycleState]:
    journal = open_run(log, run, upto)
    if not isinstance(journal.state, CycleState):
        raise UsageError(f"run {run} is a build; `logos build` goes on with it")
    return journal


def open_levels(log: Log, run: RunId) -> Journal[LevelsState]:
    journal = open_run(log, run)
    if not isinstance(journal.state, LevelsState):
        raise UsageError(f"run {run} is no build; `logos run` goes on with it")
    return journal


def runs_with(log: Log, kind: type[Plan]) -> list[RunId]:
    """The runs of one flow, oldest first; what cannot be read is left out."""
    found: list[RunId] = []
    for run in log.runs():
        with suppress(LogError):
            found += [run] if isinstance(plan_of(log, run), kind) else []
    return found


def _start_of(run: RunId, first: Recorded | None) -> RunStarted:
    if first is None or not isinstance(first.event, RunStarted):
        raise LogError(f"run {run} is not in the log")
    return first.event
