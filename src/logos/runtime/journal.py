"""One run being written: its log, the state folded from it, and everyone who wants to see each event."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from logos.domain.events import Event, Recorded, RunResumed, RunStarted
from logos.domain.ledger import Ledger
from logos.domain.turns import Errand, Outcome, RunId
from logos.errors import LogError
from logos.flows import Flow
from logos.flows.cycle import Cycle, CycleState
from logos.ports import Log

State = TypeVar("State")
Watcher = Callable[[Recorded, State, Ledger], None]


class Journal(Generic[State]):
    def __init__(self, log: Log, run: RunId, flow: Flow[State], watchers: Iterable[Watcher[State]] = ()) -> None:
        self.run = run
        self.seq = 0
        self.ledger = Ledger()
        self.driven = 0.0
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

    def due(self) -> tuple[Errand, ...]:
        return self._flow.due(self.state)

    @property
    def outcome(self) -> Outcome | None:
        return self._flow.outcome(self.state)

    def _fold(self, record: Recorded) -> None:
        self.seq = record.seq
        # The time between two drivers is nobody's.
        if self._last_at is not None and not isinstance(record.event, RunResumed):
            self.driven += max(record.at - self._last_at, 0.0)
        self._last_at = record.at
        self.ledger = self.ledger.enter(record.event)
        self.state = self._flow.apply(self.state, record.event)


def open_cycle(log: Log, run: RunId, upto: int | None = None) -> Journal[CycleState]:
    """The journal of a cycle run that is in the log, up to event `upto`."""
    recorded = iter(log.read(run))
    first = next(recorded, None)
    if first is None or not isinstance(first.event, RunStarted):
        raise LogError(f"run {run} is not in the log")
    journal = Journal(log, run, Cycle(first.event.plan, first.event.seed))
    journal.catch_up([first])
    journal.catch_up(record for record in recorded if upto is None or record.seq <= upto)
    return journal
