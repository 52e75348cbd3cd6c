"""Runs in a log: loading one, and searching for those of a flow or that can continue."""

import gc
import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from logos.adapters.lock import driver_of
from logos.adapters.reports import read_report as parse_report
from logos.adapters.store.codec import encode
from logos.app.workdir import Tell, WorkDir, driver_at, find_run, reading, say
from logos.domain.events import Recorded, RunAbandoned, RunEnded
from logos.domain.ledger import Ledger
from logos.domain.plans import Plan
from logos.domain.turns import RunId
from logos.engine.journal import Journal, Watcher
from logos.errors import LogDamaged, LogError, LogosError, UsageError
from logos.flows.cycle.flow import CycleState
from logos.flows.fold import UNFINISHED, RunFold, RunState, started_by
from logos.flows.levels.state import LevelsState
from logos.ports import Log, RunLog
from logos.views.document import iso
from logos.views.events import EventFormatter, Severity
from logos.views.run import RunView, State, extended, view_run
from logos.views.status import RunStatus, Unreadable

# Verdicts, states and reports ask for the same report; a process parses it once.
read_report = lru_cache(maxsize=65_536)(parse_report)


def load_run(log: Log, run: RunId) -> RunView:
    """Read and fold a run once. `Journal(log, view.fold)` continues it."""
    with without_collections():
        view = view_run(run, log.read(run), read_report)
        keep_from_collections()
        return view


@contextmanager
def without_collections() -> Generator[None]:
    """What loading a run allocates stays: to search it for cycles again and again takes time and finds none."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def keep_from_collections() -> None:
    """Later collections do not search what is kept now, which takes longer than an answer; it is freed all the same."""
    gc.freeze()


def load_views(place: Path, log: Log) -> Iterator[RunView | Unreadable]:
    """Every run of a log, oldest first; one that cannot be read does not hide the others."""
    for run in log.runs():
        try:
            view: RunView | Unreadable = load_run(log, run)
        except LogError as error:
            view = Unreadable(place, run, str(error))
        yield view


def views_in(place: Path, tell: Tell = say) -> Iterator[RunView | Unreadable]:
    """The same from the log of a work dir; one that cannot be opened is unreadable as well."""
    try:
        with reading(place, tell) as log:
            yield from load_views(place, log)
    except LogosError as error:
        yield Unreadable(place, None, str(error))


def driven_run(work_dir: Path, log: RunLog) -> RunId | None:
    """The run that the live driver of a work dir drives; None if there is no driver, or it has not begun a run yet.

    It is the run with the newest event since the driver took the lock: nobody else appends meanwhile.
    """
    lock = WorkDir(work_dir).lock
    if driver_of(lock) is None:
        return None
    ends, since = log.ends(), lock.stat().st_mtime
    run = max(ends, key=lambda run: ends[run][1], default=None)
    if run is None or ends[run][1] < since:
        return None
    last = next(log.read(run, ends[run][0])).event
    return None if isinstance(last, RunAbandoned) else run


def status_in(work_dir: Path, log: RunLog, view: RunView) -> RunStatus:
    """A run and the driver attached to it; a driver that has written nothing yet is shown with the newest run."""
    driver = driver_at(work_dir)
    driven = driver is not None and view.run == (driven_run(work_dir, log) or log.runs()[-1])
    return RunStatus(work_dir, view, driver if driven else None)


def read_status(work_dir: Path, run: str | None) -> RunStatus:
    """The same from the log of a work dir: of the run whose id begins so, or of the newest."""
    with reading(work_dir) as log:
        return status_in(work_dir, log, load_run(log, find_run(log, run)))


def status_of(work_dir: Path, view: RunView) -> RunStatus:
    """The same for a run whose log is closed again; it is opened only where there is a driver."""
    if driver_at(work_dir) is None:
        return RunStatus(work_dir, view, None)
    with reading(work_dir) as log:
        return status_in(work_dir, log, view)


def event_document(record: Recorded) -> dict[str, Any]:
    """An event as `logos log --json` prints it."""
    return {"run": record.run, "seq": record.seq, "at": iso(record.at), **json.loads(encode(record.event))}


def progress(tell: Tell) -> Watcher[Any]:
    """A watcher that tells what happens in a run, line by line."""
    formatter = EventFormatter(read_report)

    def watch(record: Recorded, state: State, ledger: Ledger) -> None:  # noqa: ARG001
        for line in formatter.lines(record, state):
            if line.severity is not Severity.QUIET:
                tell(line.text)

    return watch


def cycle_journal(log: Log, fold: RunFold[Any]) -> Journal[CycleState]:
    if not isinstance(fold.state, CycleState):
        raise UsageError(f"run {fold.run} is a build; continue it with `logos build`")
    return Journal(log, fold)


def levels_journal(log: Log, fold: RunFold[Any]) -> Journal[LevelsState]:
    if not isinstance(fold.state, LevelsState):
        raise UsageError(f"run {fold.run} is not a build; continue it with `logos run`")
    return Journal(log, fold)


def open_levels(log: Log, run: RunId) -> Journal[LevelsState]:
    return levels_journal(log, load_run(log, run).fold)


def newest_of(log: Log, kind: type[Plan]) -> RunId | None:
    """The newest run of one flow; runs whose plan cannot be read are left out."""
    for run in reversed(log.runs()):
        with suppress(LogError):
            if isinstance(started_by(run, next(iter(log.read(run)), None)).plan, kind):
                return run
    return None


class RunRecorder:
    """A watcher that extends a view of a run, so that the run need not be read again after it was driven."""

    def __init__(self, known: RunView | None) -> None:
        self._known = known
        self._added: list[tuple[Recorded, Any]] = []

    def watch(self, record: Recorded, state: RunState, ledger: Ledger) -> None:  # noqa: ARG002
        self._added.append((record, state))

    def view(self, work_dir: Path, run: RunId) -> RunView:
        """The run with all its events; it is read from the log unless the driver continued the fold of the view."""
        known = self._known
        if known is not None and known.run == run and known.fold.seq == self._added[-1][0].seq:
            return extended(known, self._added, read_report)
        with reading(work_dir) as log:
            return load_run(log, run)


def reload_run(log: Log, run: RunId, known: RunView | None) -> RunView:
    """Load a run, unless `known` is this run and nothing was added to it since."""
    if known is not None and known.run == run and not known.damage and not any(log.read(run, known.fold.seq + 1)):
        return known
    return load_run(log, run)


def unfinished_runs(log: Log, kind: type[Plan] | None = None, known: RunView | None = None) -> Iterator[RunView]:
    """The runs (of one flow) that can continue, newest first, damaged ones as far as they can be read."""
    for run in reversed(log.runs()):
        with suppress(LogError):
            view = known if known is not None and known.run == run else None
            if view is None:
                try:
                    records = [*log.read(run)]
                except LogDamaged:
                    records = []
                last = records[-1].event if records else None
                # A run whose last event says that it has ended is not folded.
                if isinstance(last, RunAbandoned) or (isinstance(last, RunEnded) and last.outcome not in UNFINISHED):
                    continue
                view = view_run(run, records, read_report) if records else load_run(log, run)
            if view.outcome in UNFINISHED and (kind is None or isinstance(view.plan, kind)):
                yield view
