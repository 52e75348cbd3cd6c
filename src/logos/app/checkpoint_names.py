"""Checkpoints as a person names them, found in the work dirs of a repository."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from logos.adapters.git.command import is_repository
from logos.adapters.git.worktrees import worktrees_of
from logos.adapters.store.sqlite import SqliteLog
from logos.app.runs import load_run
from logos.app.settings import Settings, load_settings
from logos.app.workdir import WorkDir, find_run, has_log, reading
from logos.domain.events import CheckRan, Recorded, TurnAnswered, WorkGathered, WorkMerged
from logos.domain.turns import RunId
from logos.errors import LogError, UsageError
from logos.views.run import RunView

HELP = "An event's number, RUN@NUMBER, RUN, a turn's id or RUN@TURN, or a date (its last event that day)."

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class CheckpointName:
    """A checkpoint as it was named: the work dir whose log has the run, the run and the event, where they are named."""

    place: Path
    run: str | None = None
    event: str = ""


@dataclass(frozen=True, slots=True)
class MatchedRun:
    """The run that a name means, loaded, and its event `seq`; None means the newest event."""

    place: Path
    log: SqliteLog
    view: RunView
    seq: int | None = None

    @property
    def run(self) -> RunId:
        return self.view.run


def work_dirs(place: Path) -> list[Path]:
    """The work dirs of the repository that have a log, each once: this one first, then those of forks."""
    found: dict[Path, Path] = {}
    for path in [place, *(worktrees_of(place) if is_repository(place) else [])]:
        if has_log(path):
            found.setdefault(path.resolve(), path)
    return [*found.values()]


def run_name(run: str | None) -> str | None:
    """The name of a run's newest checkpoint; the `@` keeps an id from being read as a number or a date."""
    return run if run is None or "@" in run else f"{run}@"


def locate(place: Path, wanted: str | None) -> CheckpointName:
    """The work dir that has the checkpoint `wanted`: this one or that of a fork. None is the newest run here."""
    name, at, event = (wanted or "").partition("@")
    if wanted is not None and not (name or event):
        raise UsageError(f"{wanted!r} names no checkpoint: {HELP}")
    run = name or None
    if not at and (name.isdecimal() or _DATE.fullmatch(name) or "." in name):
        run, event = None, name
    return CheckpointName(_place_with(work_dirs(place), run) if run else place, run, event)


def match(log: SqliteLog, name: CheckpointName, known: RunView | None = None) -> MatchedRun:
    """Load the run that a name means, unless it is `known`: the only time that a command reads and folds it."""
    if name.run is None and _DATE.fullmatch(name.event):
        view = _newest_on(log, name.event)
    else:
        run = find_run(log, name.run)
        view = known if known is not None and known.run == run else load_run(log, run)
    return MatchedRun(name.place, log, view, event_number(view, name.event) if name.event else None)


@contextmanager
def finding(place: Path, wanted: str | None, known: RunView | None = None) -> Generator[MatchedRun]:
    """The run and event that a person means by `wanted`, with its log open to read."""
    name = locate(place, wanted)
    with reading(name.place) as log:
        yield match(log, name, known)


def _newest_on(log: SqliteLog, day: str) -> RunView:
    """The newest run with an event of its own on a day; without one, the newest of all."""
    for run in reversed(log.runs()):
        view = load_run(log, run)
        first = view.forked.seq if view.forked is not None else 1
        if any(_day(record) == day for record in view.records[first - 1 :]):
            return view
    return load_run(log, find_run(log, None))


def _place_with(places: list[Path], run: str) -> Path:
    """The work dir whose log has the run: a whole id before the start of one, this work dir before others."""
    known = {place: _runs_in(place) for place in places}
    for fits in (str.__eq__, str.startswith):
        for place, runs in known.items():
            if any(fits(str(known_run), run.lower()) for known_run in runs):
                return place
    elsewhere = ", nor elsewhere in this repository" if len(places) > 1 else ""
    raise UsageError(f"there is no run {run!r} here{elsewhere}; `logos runs` lists them")


def _runs_in(place: Path) -> list[RunId]:
    try:
        with reading(place) as log:
            return log.runs()
    except LogError:
        return []


def event_number(view: RunView, wanted: str) -> int:
    """The number of an event that is named by number, by the turn it ends, or by a date (the last on that day)."""
    if wanted.isdecimal() and len(wanted) < 10:
        return int(wanted)
    if _DATE.fullmatch(wanted):
        return _last_on(view, wanted)
    ends = [record.seq for record in view.records if _ends(record.event, wanted)]
    if not ends:
        raise UsageError(f"run {view.run} has no event {wanted!r}: {HELP}")
    return ends[-1]


def _ends(event: object, turn: str) -> bool:
    return isinstance(event, TurnAnswered | CheckRan | WorkGathered | WorkMerged) and event.turn == turn


def _last_on(view: RunView, day: str) -> int:
    try:
        date.fromisoformat(day)
    except ValueError as error:
        raise UsageError(f"{day!r} is not a valid date (YYYY-MM-DD): {error}") from error
    until = [record.seq for record in view.records if _day(record) <= day]
    if not until:
        raise UsageError(f"run {view.run} began on {_day(view.records[0])}, after {day}")
    return until[-1]


def _day(record: Recorded) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(record.at))


def settings_of(place: Path, config: Path | None = None, flags: Sequence[str] = ()) -> Settings:
    """The settings of runs in a work dir: by default those of the configuration file in it."""
    default = WorkDir(place).config
    return load_settings(config or (default if default.is_file() else None), os.environ, [*flags, f"wd={place}"])
