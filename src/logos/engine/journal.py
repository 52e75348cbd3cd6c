"""One run being written: its log, the state folded from it, and the watchers of its events."""

from collections.abc import Callable
from typing import Generic, TypeVar

from logos.domain.events import Event, Recorded, RecordsTampered
from logos.domain.ledger import Ledger
from logos.domain.turns import RunId
from logos.flows.fold import RunFold
from logos.ports import Log
from logos.signals import uninterrupted

State = TypeVar("State")
Watcher = Callable[[Recorded, State, Ledger], None]


class Journal(Generic[State]):
    def __init__(self, log: Log, fold: RunFold[State]) -> None:
        self.fold = fold
        self._log = log
        self._watchers: list[Watcher[State]] = []

    @property
    def run(self) -> RunId:
        return self.fold.run

    @property
    def terminals_of(self) -> str:
        """Names the terminals of the run in this folder; those of the folder it was copied from have another name."""
        return f"{self.run}.{self.ledger.moves}" if self.ledger.moves else self.run

    @property
    def state(self) -> State:
        return self.fold.state

    @property
    def ledger(self) -> Ledger:
        return self.fold.ledger

    def watch(self, watcher: Watcher[State]) -> None:
        self._watchers.append(watcher)

    def record(self, event: Event) -> Recorded:
        """Make `event` part of the run: append it durably, fold it, then call the watchers.

        A signal waits meanwhile: a fold that lacks an event of the log could record nothing more.
        """
        record = self._append(event)
        self.check_records()
        return record

    def check_records(self, *, verify: bool = False) -> None:
        """Record what was found out about tampering with the run's records; `verify` compares them first."""
        if evidence := self._log.tampering(self.run, verify=verify):
            self._append(RecordsTampered(evidence))

    def _append(self, event: Event) -> Recorded:
        with uninterrupted():
            record = self._log.append(self.run, event, after=self.fold.seq)
            self.fold.add(record)
            for watcher in self._watchers:
                watcher(record, self.state, self.ledger)
        return record
