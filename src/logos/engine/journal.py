"""One run being written: its log, the state folded from it, and the watchers of its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from logos.domain.events import Event, Recorded
from logos.domain.ledger import Ledger
from logos.domain.turns import RunId
from logos.flows.fold import RunFold
from logos.ports import Log

State = TypeVar("State")
Watcher = Callable[[Recorded, State, Ledger], None]


class Journal(Generic[State]):
    def __init__(self, log: Log, fold: RunFold[State], watchers: Iterable[Watcher[State]] = ()) -> None:
        self.fold = fold
        self._log = log
        self._watchers = list(watchers)

    @property
    def run(self) -> RunId:
        return self.fold.run

    @property
    def state(self) -> State:
        return self.fold.state

    @property
    def ledger(self) -> Ledger:
        return self.fold.ledger

    def watch(self, watcher: Watcher[State]) -> None:
        self._watchers.append(watcher)

    def record(self, event: Event) -> Recorded:
        """Make `event` part of the run: append it durably, fold it, then call the watchers."""
        record = self._log.append(self.run, event, after=self.fold.seq)
        self.fold.add(record)
        for watcher in self._watchers:
            watcher(record, self.state, self.ledger)
        return record
