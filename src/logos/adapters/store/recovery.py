"""Opening a log: compare its database with its mirror, and repair damaged, missing or foreign rows."""

import fcntl
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from logos.adapters.files import opened_folder, own_folder, refused
from logos.adapters.store import sqlite
from logos.adapters.store.chain import Reconciled, readable
from logos.adapters.store.mirror import Mirror, Tell, attach, find, is_run_id
from logos.adapters.store.sqlite import ReadOnlyLog, Stored, beside, describe, in_words, is_damage, open_database
from logos.errors import LogError

# How long a reader waits before it reads again, and how often, because a driver may be writing.
MOMENT, TRIES = 0.05, 20
# The suffixes of the files that belong to a database.
SUFFIXES = ("-wal", "-shm")


def repair(path: Path, tell: Tell, *, driving: bool) -> Mirror | None:
    """Correct the database of a log to its mirror, and return the mirror; a damaged file is kept under another name.

    The caller must hold the driver lock. If several processes open the log at the same time, one of them repairs it.
    """
    try:
        own_folder(path.parent)
        with opened_folder(path.parent) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            return _repair(path, tell, driving=driving)
    except sqlite3.Error as error:
        raise LogError(f"the run log {path} cannot be opened: {in_words(error)}") from error
    except OSError as error:
        raise refused(f"the run log {path} cannot be used", error) from error


def _repair(path: Path, tell: Tell, *, driving: bool) -> Mirror | None:
    mirrored, damaged = find(path, "", tell) is not None, examine(path)
    if not damaged.damage:
        try:
            return _repair_in_place(path, tell, driving=driving, mirrored=mirrored)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            damaged = replace(damaged, damage=str(error))
    mirror = attach(path, damaged.id, damaged.runs, tell, driving=driving)
    found = _corrected(mirror, damaged, write=True)
    if mirror is not None and damaged.damage == sqlite.FOREIGN and (runs := mirror.runs()):
        mirror.keep_evidence(runs[-1], f"the database had objects that Logos never creates ({sqlite.FOREIGN})")
    kept, new = sqlite.keep_copy(path), beside(path, ".repaired")
    _write(new, found, mirror.record.id if mirror is not None else "")
    # SQLite would apply an old write-ahead log to the new database.
    for suffix in SUFFIXES:
        beside(path, suffix).unlink(missing_ok=True)
    os.replace(new, path)
    events = ", ".join(f"{len(run.rows)} events of run {run.run}" for run in found if run.rows) or "no event"
    source = "its mirror" if mirrored else "its readable part"
    tell(f"the run log {path} is damaged ({damaged.damage}) and kept as {kept}; it was rebuilt from {source}: {events}")
    return mirror


def _repair_in_place(path: Path, tell: Tell, *, driving: bool, mirrored: bool) -> Mirror | None:
    existed = path.exists()
    with closing(open_database(path)) as db, db:
        db.execute("BEGIN IMMEDIATE")
        stored = sqlite.read_stored(db)
        mirror = attach(path, stored.id, stored.runs, tell, driving=driving)
        if mirror is None:
            return None
        found = _corrected(mirror, stored, write=True)
        kept = sqlite.keep_copy(path) if any(run.dropped for run in found) else ""
        for run in found:
            sqlite.write_rows(db, run)
        sqlite.write_list(db, mirror.record.id, [run.run for run in found if run.rows], stored)
        if not mirror.failed:
            db.execute("DELETE FROM seals")
    if not mirrored:
        found = [replace(run, mirror="") for run in found]
    notes = [*describe(found, kept)] if existed else ["the database was missing and was rebuilt from the mirror"]
    if notes and found:
        tell(f"the run log {path}: {'; '.join(notes)}")
    return mirror


@contextmanager
def open_readonly(path: Path, tell: Tell, *, driven: bool) -> Generator[ReadOnlyLog]:
    """Open a log without changing it; if it differs from its mirror, a corrected copy is read.

    A live driver writes to the mirror first: with `driven`, a database that has not all of its events is correct.
    """
    with ExitStack() as stack:

        def elsewhere() -> Path:
            return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="logos-"))) / path.name

        try:
            log = _open_readonly(path, elsewhere, tell, driven=driven)
        except sqlite3.Error as error:
            raise LogError(f"the run log {path} cannot be read: {in_words(error)}") from error
        except OSError as error:
            raise refused(f"the run log {path} cannot be read", error) from error
        yield stack.enter_context(closing(log))


def _open_readonly(path: Path, elsewhere: Callable[[], Path], tell: Tell, *, driven: bool) -> ReadOnlyLog:
    source, barred = path, ""
    try:
        damage, found = _believed(path, path, tell, driven=driven)
    except sqlite3.Error as error:
        if sqlite.error_kind(error) not in sqlite.UNREACHABLE or not path.exists():
            raise
        source, barred = _copied(path, elsewhere()), "it or its folder is read-only"
        damage, found = _believed(path, source, tell, driven=driven)
    notes = [f"it is damaged ({damage})"] if damage else []
    notes += describe(found)
    if notes:
        if not any(run.rows for run in found):
            raise LogError(f"the run log {path} cannot be read: {'; '.join(notes)}")
        tell(f"the run log {path}: {'; '.join(notes)}")
        source, barred = elsewhere(), "it must be repaired first; `logos run` and `logos build` do that"
        _write(source, found, "")
    return ReadOnlyLog(path, source, lambda: repair(path, tell, driving=False), barred)


def _believed(path: Path, source: Path, tell: Tell, *, driven: bool) -> tuple[str, list[Reconciled]]:
    """The damage of a database and its corrected runs; no runs if the file itself can be read."""
    for _ in range(TRIES):
        stored = examine(source)
        # After the database, so that it has whatever a driver has written meanwhile.
        mirror = find(path, stored.id, tell)
        found = _corrected(mirror, stored, write=False)
        differs = any(run.dropped for run in found) if driven else any(describe(found))
        if not stored.damage and (mirror is None or not differs):
            return "", []
        # Another process may be writing at this moment.
        time.sleep(MOMENT)
        if source != path or stored == examine(source):
            return stored.damage, found
    return "", []


def examine(path: Path) -> Stored:
    """The content of a database, read without changing it."""
    size, wal = (file.stat().st_size if file.exists() else 0 for file in (path, beside(path, "-wal")))
    if size == 0:
        return Stored(damage="it is empty, but its write-ahead log is not" if wal else "")
    try:
        with closing(sqlite.connect_readonly(path)) as db:
            stored = sqlite.read_stored(db)
            # SQLite reads the missing end of a page as zeros.
            whole = size % db.execute("PRAGMA page_size").fetchone()[0] == 0
        return stored if whole or stored.damage else replace(stored, damage="it is truncated")
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        return Stored(damage=str(error))


def _corrected(mirror: Mirror | None, stored: Stored, *, write: bool) -> list[Reconciled]:
    """Every run in the order of their start, as the mirror says; without a mirror, as far as it can be read."""
    found: list[Reconciled] = []
    for run in dict.fromkeys((*(mirror.runs() if mirror is not None else ()), *stored.runs)):
        rows = stored.runs.get(run, ())
        if mirror is not None and is_run_id(run):
            seal, sound = stored.seals.get(run, ""), not stored.damage
            found.append(mirror.reconcile(run, rows, seal, write=write, sound=sound))
        else:
            # A mirror knows no run with an invalid name.
            whole = readable(rows) if mirror is None else ()
            found.append(Reconciled(run, whole, len(whole), rows[len(whole) :], ""))
    return found


def _write(path: Path, found: Iterable[Reconciled], id_: str) -> None:
    """Create a database with the corrected runs."""
    for suffix in ("", *SUFFIXES):
        beside(path, suffix).unlink(missing_ok=True)
    runs = [run for run in found if run.rows]
    with closing(open_database(path)) as db, db:
        for run in runs:
            sqlite.insert(db, run.run, run.rows)
        sqlite.write_list(db, id_, [run.run for run in runs], Stored())


def _copied(path: Path, to: Path) -> Path:
    """Copy a database and its write-ahead log consistently, even if a driver is writing."""

    def version() -> tuple[int, int, int]:
        wal = beside(path, "-wal")
        return path.stat().st_mtime_ns, path.stat().st_size, wal.stat().st_ino if wal.exists() else 0

    for _ in range(TRIES):
        before = version()
        sqlite.copy_database(path, to)
        if version() == before:
            break
        time.sleep(MOMENT)
    return to
