"""Runs in a log, found and folded."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from logos.adapters.reports import read_report as parse_report
from logos.adapters.store.codec import encode
from logos.app.workdir import driver_at, reading
from logos.domain.events import Recorded
from logos.domain.plans import Plan
from logos.domain.turns import RunId
from logos.engine.journal import Journal
from logos.errors import LogError, UsageError
from logos.flows.cycle.flow import CycleState
from logos.flows.fold import fold_run, started_by
from logos.flows.levels.state import LevelsState
from logos.ports import Log
from logos.views.document import iso
from logos.views.events import EventFormatter
from logos.views.run import RunView, TurnViewBuilder, view_run
from logos.views.status import RunStatus, UnreadableRun

# Verdicts, states and reports ask for the same report; a process parses it once.
read_report = lru_cache(maxsize=4096)(parse_report)


def plan_of(log: Log, run: RunId) -> Plan:
    """The plan a run began with."""
    return started_by(run, next(iter(log.read(run)), None)).plan


def load_run(log: Log, run: RunId) -> RunView:
    """The read model of a run."""
    return view_run(run, log.read(run), read_report)


def load_status(work_dir: Path, log: Log, run: RunId) -> RunStatus:
    """A run and the driver attached to it. The driver of a work dir drives its newest run."""
    driver = driver_at(work_dir) if run == log.runs()[-1] else None
    return RunStatus(work_dir, load_run(log, run), driver)


def load_statuses(work_dir: Path, log: Log) -> list[RunStatus | UnreadableRun]:
    """Every run of a log, oldest first."""
    found: list[RunStatus | UnreadableRun] = []
    for run in log.runs():
        try:
            found.append(load_status(work_dir, log, run))
        except LogError as error:
            found.append(UnreadableRun(run, str(error)))
    return found


def status_of(work_dir: Path, view: RunView) -> RunStatus:
    """The same for a run that is loaded already."""
    driver = driver_at(work_dir)
    if driver is not None:
        with reading(work_dir) as log:
            driver = driver if view.run == log.runs()[-1] else None
    return RunStatus(work_dir, view, driver)


def event_document(record: Recorded) -> dict[str, Any]:
    """An event as `logos log --json` prints it."""
    return {"run": record.run, "seq": record.seq, "at": iso(record.at), **json.loads(encode(record.event))}


def event_formatter() -> EventFormatter:
    return EventFormatter(read_report)


def turn_view_builder() -> TurnViewBuilder:
    return TurnViewBuilder(read_report)


def open_run(log: Log, run: RunId, upto: int | None = None) -> Journal[Any]:
    """The journal of a run that is in the log, up to event `upto`."""
    return Journal(log, fold_run(run, log.read(run), read_report, upto))


def open_cycle(log: Log, run: RunId, upto: int | None = None) -> Journal[CycleState]:
    journal = open_run(log, run, upto)
    if not isinstance(journal.state, CycleState):
        raise UsageError(f"run {run} is a build; continue it with `logos build`")
    return journal


def open_levels(log: Log, run: RunId) -> Journal[LevelsState]:
    journal = open_run(log, run)
    if not isinstance(journal.state, LevelsState):
        raise UsageError(f"run {run} is not a build; continue it with `logos run`")
    return journal


def runs_with(log: Log, kind: type[Plan]) -> list[RunId]:
    """The runs of one flow, oldest first; unreadable runs are left out."""
    found: list[RunId] = []
    for run in log.runs():
        with suppress(LogError):
            found += [run] if isinstance(plan_of(log, run), kind) else []
    return found
