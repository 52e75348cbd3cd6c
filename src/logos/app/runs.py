"""Runs in a log, found and folded."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from logos.adapters.reports import read_report
from logos.domain.plans import Plan
from logos.domain.turns import RunId
from logos.engine.journal import Journal
from logos.errors import LogError, UsageError
from logos.flows.cycle.flow import CycleState
from logos.flows.fold import fold_run, started_by
from logos.flows.levels.state import LevelsState
from logos.ports import Log
from logos.views.events import EventFormatter
from logos.views.run import RunView, TurnViewBuilder, view_run


def plan_of(log: Log, run: RunId) -> Plan:
    """The plan a run began with."""
    return started_by(run, next(iter(log.read(run)), None)).plan


def load_run(log: Log, run: RunId) -> RunView:
    """The read model of a run."""
    return view_run(run, log.read(run), read_report)


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
