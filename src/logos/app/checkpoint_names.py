"""Checkpoints as a person names them, and the work dirs of a repository in which they may be."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from logos.app.workdir import CONFIG, find_run, has_log, reading
from logos.errors import LogError, UsageError

if TYPE_CHECKING:
    from logos.adapters.store.sqlite import SqliteLog
    from logos.app.settings import Settings
    from logos.domain.turns import RunId

HELP = "An event's number, RUN@NUMBER, RUN, a turn's id or RUN@TURN, or a date (its last event that day)."

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


OpenLog = Callable[[Path], "AbstractContextManager[SqliteLog]"]


@dataclass(frozen=True, slots=True)
class MatchedRun:
    """A run where it is, and an event of it; None where its newest is meant."""

    place: Path
    log: SqliteLog
    run: RunId
    seq: int | None = None


def work_dirs(place: Path) -> list[Path]:
    """The work dirs of this repository in which something was run: this one first, then those of forks."""
    from logos.adapters.git.command import is_repository
    from logos.adapters.git.worktrees import worktrees_of

    tops = worktrees_of(place) if is_repository(place) else []
    return [place, *(other for other in tops if other.resolve() != place.resolve() and has_log(other))]


def named(run: str | None) -> str | None:
    """A run by its id, whatever else that could be: with the sign after it, it is nothing else."""
    return run if run is None or "@" in run else f"{run}@"


@contextmanager
def finding(place: Path, wanted: str | None, opened: OpenLog = reading) -> Generator[MatchedRun]:
    """What a person means by `wanted`, in the log of this work dir or of a fork; None is the newest run here."""
    name, at, event = (wanted or "").partition("@")
    if wanted is not None and not (name or event):
        raise UsageError(f"{wanted!r} names no checkpoint: {HELP}")
    here = [found for found in work_dirs(place) if has_log(found)]
    run = name or None
    if not at and (name.isdecimal() or _DATE.fullmatch(name) or "." in name):
        run, event = None, name
    where = _place_with(here, run) if run else place
    if not has_log(where):
        raise UsageError(f"no run was started in {where} yet; `logos run` starts one")
    with opened(where) as log:
        found = _run_on(log, event) if run is None and _DATE.fullmatch(event) else find_run(log, run)
        yield MatchedRun(where, log, found, event_at(log, found, event) if event else None)


def _run_on(log: SqliteLog, day: str) -> RunId:
    """The newest run to which something happened on a day; without one, the newest of all."""
    from logos.domain.events import RunForked
    from logos.views.text import date

    for run in reversed(log.runs()):
        records = [*log.read(run)]
        born = max((record.seq for record in records if isinstance(record.event, RunForked)), default=1)
        if any(record.seq >= born and date(record.at)[:10] == day for record in records):
            return run
    return find_run(log, None)


def _place_with(places: list[Path], run: str) -> Path:
    """The work dir whose log knows a run by this name: the whole id before its beginning, here before elsewhere."""
    known = {place: _runs_in(place) for place in places}
    for fits in (str.__eq__, str.startswith):
        for place, runs in known.items():
            if any(fits(str(own), run.lower()) for own in runs):
                return place
    elsewhere = ", nor elsewhere in this repository" if len(places) > 1 else ""
    raise UsageError(f"there is no run {run!r} here{elsewhere}; `logos runs` lists them")


def _runs_in(place: Path) -> list[RunId]:
    try:
        with reading(place) as log:
            return log.runs()
    except LogError:
        return []


def event_at(log: SqliteLog, run: RunId, wanted: str) -> int:
    """The number of an event: as it is, of a turn's end, or of the last one on a day."""
    if wanted.isdecimal() and len(wanted) < 10:
        return int(wanted)
    if _DATE.fullmatch(wanted):
        return _last_on(log, run, wanted)
    ends = [record.seq for record in log.read(run) if _ends(record.event, wanted)]
    if not ends:
        raise UsageError(f"run {run} has no event {wanted!r}: {HELP}")
    return ends[-1]


def _ends(event: object, turn: str) -> bool:
    from logos.domain.events import CheckRan, TurnAnswered, WorkGathered, WorkMerged

    return isinstance(event, TurnAnswered | CheckRan | WorkGathered | WorkMerged) and event.turn == turn


def _last_on(log: SqliteLog, run: RunId, day: str) -> int:
    from datetime import date as calendar

    from logos.views.text import date

    try:
        calendar.fromisoformat(day)
    except ValueError as error:
        raise UsageError(f"{day!r} is no day: {error}") from error
    dated = [(record.seq, date(record.at)[:10]) for record in log.read(run)]
    until = [seq for seq, when in dated if when <= day]
    if not until:
        raise UsageError(f"run {run} began on {dated[0][1]}, after {day}")
    return until[-1]


def settings_of(place: Path, config: Path | None = None, flags: Sequence[str] = ()) -> Settings:
    """The settings that a run in this work dir has: those of the configuration beside it."""
    import os

    from logos.app.settings import load_settings

    own = place / CONFIG
    return load_settings(config or (own if own.is_file() else None), os.environ, [*flags, f"wd={place}"])


def newest_unfinished(log: SqliteLog) -> RunId | None:
    """The newest run that can go on; one that cannot be read is not it."""
    from logos.app.runs import open_run
    from logos.flows.fold import UNFINISHED

    for run in reversed(log.runs()):
        try:
            if open_run(log, run).outcome in UNFINISHED:
                return run
        except LogError:
            continue
    return None
