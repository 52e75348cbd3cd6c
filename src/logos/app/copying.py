"""Copying the runs of a work dir between its file and its database: the same bytes, times, numbers and hashes."""

from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from logos.adapters.files import own_folder
from logos.adapters.lock import driver_lock
from logos.app.database import database_address
from logos.app.person import require_person
from logos.app.workdir import Tell, WorkDir, find_run, in_database, in_file, say
from logos.domain.turns import RunId
from logos.errors import LogConflict, LogError, UsageError
from logos.ports import RunLog


class Copy(StrEnum):
    """Where runs are copied to."""

    DATABASE = "database"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class CopiedRun:
    run: RunId
    events: int
    # So many of them were not there before.
    new: int


def copy_runs(place: Path, to: Copy, run: str | None = None, tell: Tell = say) -> tuple[CopiedRun, ...]:
    """Copy all runs, or one. A run that is there already is continued; LogConflict where the two differ."""
    require_person(place, "copy runs")
    address, paths = database_address(), WorkDir(place)
    if not address:
        raise UsageError("set LOGOS_DATABASE to the database that runs are copied to or from")
    own_folder(paths.telos_dir)
    with driver_lock(paths.lock), ExitStack() as stack:
        file = stack.enter_context(in_file(paths.telos_dir, tell))
        database = stack.enter_context(in_database(paths.telos_dir, address))
        source, target = (file, database) if to is Copy.DATABASE else (database, file)
        runs = source.runs() if run is None else [find_run(source, run)]
        return tuple(_copied(source, target, one) for one in runs)


def _copied(source: RunLog, target: RunLog, run: RunId) -> CopiedRun:
    # A damaged run is reported, and not copied.
    for _ in source.read(run):
        pass
    rows, known = tuple(source.rows(run)), tuple(target.rows(run))
    new = rows[len(known) :]
    if known[: len(rows)] != rows[: len(known)]:
        raise LogConflict(f"run {run} is there already, with other events")
    if not known:
        target.put(run, rows)
    else:
        for row in new:
            target.add(run, row)
    if len(known) <= len(rows) and target.head(run) != source.head(run):
        raise LogError(f"run {run} has another hash in its copy than before")
    return CopiedRun(run, len(known) + len(new), len(new))
