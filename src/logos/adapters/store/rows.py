"""The rows of a log's database: reading them as far as possible, and correcting them to those of the mirror."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from logos.adapters.files import aside
from logos.adapters.store.chain import Reconciled, Row, Rows
from logos.domain.turns import RunId

# Errors that do not mean that the file is damaged.
UNREACHABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_NOT_NOW = (
    *(*UNREACHABLE, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PERM),
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT),
)
# CAST so that corrupt columns still have the expected type.
ROWS = """
SELECT seq, ifnull(CAST(at AS REAL), 9e999), ifnull(CAST(body AS BLOB), x'')
FROM events WHERE run = ? AND seq >= ? ORDER BY seq
"""
# No limit: a corrupt number may be below 1.
_FROM_START = -(2**63)
RUNS = "SELECT run FROM runs ORDER BY number"
# Logs of older versions have no numbers of runs.
RUNS_BY_TIME = "SELECT run FROM events WHERE seq = 1 ORDER BY at, run"


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of a database. `damage` describes a damaged file; the runs are then its readable rows."""

    id: str = ""
    runs: Mapping[RunId, Rows] = field(default_factory=dict[RunId, Rows])
    seals: Mapping[RunId, str] = field(default_factory=dict[RunId, str])
    listed: tuple[RunId, ...] = ()
    damage: str = ""


def read_stored(db: sqlite3.Connection) -> Stored:
    """Read all tables, each until its first error."""
    db.text_factory = partial(str, encoding="utf-8", errors="replace")
    listed, begun = ([RunId(str(row[0])) for row in _until_error(db, query)] for query in (RUNS, RUNS_BY_TIME))
    others = (RunId(str(row[0])) for row in _until_error(db, "SELECT DISTINCT run FROM events"))
    runs = {run: tuple(_until_error(db, ROWS, run, _FROM_START)) for run in dict.fromkeys((*listed, *begun, *others))}
    ids = [str(row[0]) for row in _until_error(db, "SELECT id FROM log")]
    seals = {RunId(str(run)): str(seal) for run, seal in _until_error(db, "SELECT run, seal FROM seals")}
    return Stored(ids[0] if len(ids) == 1 else "", runs, seals, tuple(listed), _damage(db))


def read_run(db: sqlite3.Connection, run: RunId) -> tuple[Rows, str]:
    """The rows and the seal of one run."""
    seal = db.execute("SELECT seal FROM seals WHERE run = ?", (run,)).fetchone()
    return tuple(db.execute(ROWS, (run, _FROM_START))), str(seal[0]) if seal else ""


def insert(db: sqlite3.Connection, run: RunId, rows: Iterable[Row]) -> None:
    db.executemany("INSERT INTO events VALUES (?, ?, ?, CAST(? AS TEXT))", ((run, *row) for row in rows))


def write_rows(db: sqlite3.Connection, found: Reconciled) -> None:
    """Correct the rows of a run."""
    if found.dropped:
        db.execute("DELETE FROM events WHERE run = ? AND NOT seq <= ?", (found.run, found.kept))
    insert(db, found.run, found.rows[found.kept :])


def write_list(db: sqlite3.Connection, id_: str, runs: Iterable[RunId], before: Stored) -> None:
    """Correct the id of a log and the order of its runs."""
    names = tuple(runs)
    if names != before.listed:
        db.execute("DELETE FROM runs")
        db.executemany("INSERT INTO runs (run) VALUES (?)", ((name,) for name in names))
    if id_ != before.id:
        db.execute("DELETE FROM log")
        db.execute("INSERT INTO log VALUES (?)", (id_,))


def keep_copy(path: Path) -> str:
    """Copy a database and its write-ahead log before rows are dropped; returns the name of the copy."""
    kept = aside(path, time.strftime("%Y%m%d-%H%M%S"))
    copy_database(path, kept)
    return kept.name


def copy_database(path: Path, to: Path) -> None:
    for end in ("", "-wal"):
        if beside(path, end).exists() and (not end or beside(path, end).stat().st_size):
            shutil.copyfile(beside(path, end), beside(to, end))
            beside(to, end).chmod(0o600)


def describe(found: Iterable[Reconciled], kept: str = "") -> Iterator[str]:
    """The differences, for the user; `kept` is the name of the copy of the database."""
    for result in found:
        if result.mirror:
            yield f"the mirror of run {result.run} was rewritten ({result.mirror})"
        if result.missing:
            yield f"{_count(result.missing)} of run {result.run} missing in the database, restored from the mirror"
        if result.dropped:
            yield f"{_count(len(result.dropped))} of run {result.run} dropped, not in the mirror or unreadable"
    if kept:
        yield f"the previous database is kept as {kept}"


def beside(path: Path, end: str) -> Path:
    return path.with_name(f"{path.name}{end}")


def is_damage(error: sqlite3.Error) -> bool:
    """Decode errors carry no SQLite code; treat them as corruption."""
    return error_kind(error) not in _NOT_NOW


def error_kind(error: sqlite3.Error) -> int:
    # The lower byte is the primary error code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF


def _until_error(db: sqlite3.Connection, query: str, *values: object) -> Iterator[Any]:
    try:
        yield from db.execute(query, values)
    except sqlite3.Error as error:
        if not is_damage(error):
            raise


def _damage(db: sqlite3.Connection) -> str:
    try:
        checked = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
        # Our schema has none; a foreign trigger could change inserted rows.
        foreign = db.execute("SELECT 1 FROM sqlite_master WHERE type IN ('trigger', 'view')").fetchone()
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        return str(error)
    return checked.splitlines()[-1] if checked != "ok" else "it has triggers or views" if foreign else ""


def _count(events: int) -> str:
    return f"{events} event{'' if events == 1 else 's'}"
