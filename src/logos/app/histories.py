"""Runs kept in memory while their logs grow: a run is folded once, and every later event is added to it.

A command reads a log and ends. A server is asked for the same runs again and again, at any of their events.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logos.adapters.lock import driver_of
from logos.app.runs import driven_run, keep_from_collections, read_report, without_collections
from logos.app.workdir import WorkDir, reading
from logos.domain.events import Recorded, RunForked
from logos.domain.turns import RunId
from logos.errors import LogDamaged
from logos.flows.fold import RunFold, flow_for, started_by
from logos.ports import RunLog
from logos.views.run import RunView, State
from logos.views.turns import TurnViewBuilder

# Turns are built again from the nearest of these events before the one that is asked for.
STRIDE = 512
# So many events at once are worth a note to the collector.
MANY = 1000
# So many events of runs are kept folded, those of the run that was asked for last in any case.
MOST_EVENTS = 100_000

# What tells that a log may have changed: its file, its write-ahead log, and its driver.
Mark = tuple[int, int, int] | None
Signature = tuple[Mark, Mark, int | None]


class RunHistory:
    """A run that is folded event by event; what it was after each of them is kept."""

    def __init__(self, run: RunId) -> None:
        self.run = run
        self.damage = ""
        self._fold: RunFold[Any] | None = None
        self._builder = TurnViewBuilder(read_report)
        self._records: list[Recorded] = []
        self._states: list[State] = []
        self._folds: list[RunFold[Any]] = []
        self._builders: list[TurnViewBuilder] = []
        self._newest: RunView | None = None
        # What its log was like when it was last extended.
        self.as_of: Signature | None = None
        self._lock = threading.RLock()

    @property
    def last(self) -> int:
        return len(self._records)

    def record(self, seq: int) -> Recorded:
        return self._records[seq - 1]

    def records(self, first: int, last: int) -> list[Recorded]:
        """The events from one number to another, as far as there are such."""
        return self._records[max(first, 1) - 1 : last]

    def extend(self, records: Iterable[Recorded]) -> None:
        """Add the events that follow; of a damaged log, those before the damage."""
        before = self.last
        with self._lock, without_collections():
            try:
                for record in records:
                    self._add(record)
            except LogDamaged as error:
                if not self._records:
                    raise
                self.damage, self._newest = str(error), None
        if self.last - before >= MANY:
            keep_from_collections()

    def _add(self, record: Recorded) -> None:
        if self._fold is None:
            self._fold = RunFold[Any](self.run, flow_for(started_by(self.run, record), read_report))
        if len(self._records) % STRIDE == 0:
            self._builders.append(self._builder.copy())
        self._fold.add(record)
        self._builder.add(record)
        self._records.append(record)
        self._states.append(self._fold.state)
        self._folds.append(copy(self._fold))
        self._newest = None

    def now(self) -> RunView:
        with self._lock:
            if self._newest is None:
                self._newest = self._view(self.last, self._builder)
            return self._newest

    def at(self, seq: int) -> RunView:
        """The run after event `seq`."""
        with self._lock:
            return self.now() if seq == self.last else self._past(seq)

    def _past(self, seq: int) -> RunView:
        step = (seq - 1) // STRIDE
        builder = self._builders[step].copy()
        for record in self._records[step * STRIDE : seq]:
            builder.add(record)
        return self._view(seq, builder)

    def _view(self, seq: int, builder: TurnViewBuilder) -> RunView:
        records = tuple(self._records[:seq])
        began = next((record.at for record in reversed(records) if isinstance(record.event, RunForked)), records[0].at)
        damage = self.damage if seq == self.last else ""
        states = tuple(self._states[:seq])
        return RunView(copy(self._folds[seq - 1]), began, records[-1].at, builder.turns, damage, records, states)


class LogFiles:
    """Where a log is. To look whether it has changed costs a few microseconds."""

    def __init__(self, place: Path) -> None:
        paths = WorkDir(place)
        self._database = str(paths.database)
        self._wal = f"{paths.database}-wal"
        self._lock = paths.lock

    def marks(self) -> tuple[Mark, Mark]:
        """What changes whenever a driver appends. A reader creates an empty write-ahead log."""
        wal = _mark(self._wal)
        return _mark(self._database), wal if wal is not None and wal[1] else None

    def signature(self) -> Signature:
        return (*self.marks(), driver_of(self._lock))


def _mark(path: str) -> Mark:
    with suppress(OSError):
        info = os.stat(path)
        return info.st_ino, info.st_size, info.st_mtime_ns
    return None


class OpenLog:
    """The log of a work dir, which is open while a driver writes it. For one thread at a time."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.files = LogFiles(place)
        self.driver: int | None = None
        # The run that this driver drives; the newest one until it has written something.
        self.driven: RunId | None = None
        self.as_of: Signature | None = None
        self.readers = 0
        self._stack = ExitStack()
        self._log: RunLog | None = None
        self._inode = 0
        self._corrected = False

    def read(self, signature: Signature) -> RunLog:
        """The log as it is now; `signature` was taken before."""
        if self._log is None or signature != self.as_of:
            database, _, driver = signature
            inode = database[0] if database is not None else 0
            # A live driver keeps its database correct; otherwise it is compared with its mirror again.
            if self._log is None or driver is None or self._corrected or (inode, driver) != (self._inode, self.driver):
                self.close()
                self._log = self._stack.enter_context(reading(self.place, self._tell))
            if self.driver != driver:
                self.driven = None
            self.driver, self._inode, self.as_of = driver, inode, signature
            if driver is not None and self.driven is None:
                self.driven = driven_run(self.place, self._log)
        return self._log

    def drives(self, run: RunId, log: RunLog) -> bool:
        return self.driver is not None and run == (self.driven or log.runs()[-1])

    def _tell(self, _: str) -> None:
        # A corrected copy is read, which does not change with the file.
        self._corrected = True

    def rest(self) -> None:
        """Leave the file alone where nobody writes it."""
        if self.driver is None and not self.readers:
            self.close()

    def close(self) -> None:
        self._corrected, self._log = False, None
        self._stack.close()


@dataclass(frozen=True, slots=True)
class Known:
    """A run as it is kept: its history, and the driver that is attached to it."""

    place: Path
    history: RunHistory
    driver: int | None


class Histories:
    """The logs and the runs that a server was asked for, each read once and extended when it grows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: dict[Path, tuple[threading.RLock, OpenLog]] = {}
        # In the order in which they were asked for, each with the number of its events.
        self._runs: OrderedDict[tuple[Path, RunId], tuple[RunHistory, int]] = OrderedDict()
        self._events = 0

    def ends(self, place: Path) -> dict[RunId, int]:
        """The runs of a work dir, oldest first, and the number of the last event of each."""
        with self._read(place) as (log, _, _):
            ends = log.ends()
            return {run: ends[run][0] for run in log.runs() if run in ends}

    @contextmanager
    def open(self, place: Path) -> Generator[dict[RunId, int]]:
        """The same, and the log stays open meanwhile: for several runs."""
        with self._read(place):
            yield self.ends(place)

    def known(self, place: Path, run: RunId) -> Known:
        """A run with every event that its log has now."""
        with self._log_of(place) as log:
            signature, history = log.files.signature(), self._kept(place, run)
            # What nobody writes is not opened again.
            if history is not None and signature[2] is None and history.as_of == signature:
                return Known(place, history, None)
        with self._read(place) as (source, log, signature):
            history = self._kept(place, run)
            if history is None or not _continues(history, source.read(run, history.last)):
                history = RunHistory(run)
                history.extend(source.read(run))
            history.as_of = signature
            self._keep(place, history)
            return Known(place, history, log.driver if log.drives(run, source) else None)

    def close(self) -> None:
        for lock, log in self._logs.values():
            with lock:
                log.close()

    @contextmanager
    def _log_of(self, place: Path) -> Generator[OpenLog]:
        with self._lock:
            lock, log = self._logs.setdefault(place, (threading.RLock(), OpenLog(place)))
        with lock:
            yield log

    @contextmanager
    def _read(self, place: Path) -> Generator[tuple[RunLog, OpenLog, Signature]]:
        with self._log_of(place) as log:
            signature = log.files.signature()
            log.readers += 1
            try:
                yield log.read(signature), log, signature
            finally:
                log.readers -= 1
                log.rest()

    def _kept(self, place: Path, run: RunId) -> RunHistory | None:
        with self._lock:
            return self._runs.get((place, run), (None, 0))[0]

    def _keep(self, place: Path, history: RunHistory) -> None:
        with self._lock:
            _, counted = self._runs.pop((place, history.run), (None, 0))
            self._runs[place, history.run] = history, history.last
            self._events += history.last - counted
            while self._events > MOST_EVENTS and len(self._runs) > 1:
                self._events -= self._runs.popitem(last=False)[1][1]


def _continues(history: RunHistory, records: Iterator[Recorded]) -> bool:
    """Extend a history by the records from its last one on; False if that one is another, after a repair."""
    if history.damage or next(records, None) != history.record(history.last):
        return False
    history.extend(records)
    return True
