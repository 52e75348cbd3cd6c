"""The run log in SQLite: one file, write-ahead, every accepted event on disk before it counts."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from pathlib import Path

from logos.adapters.codec import Undecodable, decode, encode
from logos.adapters.files import own_folder
from logos.domain.events import Event, Recorded, RunForked
from logos.domain.turns import RunId
from logos.errors import LogConflict, LogDamaged, LogError

WATCH_SECONDS = 0.1
BATCH = 500
LOCKED_SECONDS = 5.0
# What `user_version` says of a log in which every run has its number.
NUMBERED = 1

Row = tuple[int, float, bytes]

_APPEND = """
INSERT INTO events SELECT ?, ?, ?, ?
WHERE (SELECT coalesce(max(seq), 0) FROM events WHERE run = ?) = ?
"""
_BEGIN = "INSERT OR IGNORE INTO runs (run) VALUES (?)"
_READ = "SELECT seq, at, CAST(body AS BLOB) FROM events WHERE run = ? AND seq >= ? ORDER BY seq"


class SqliteLog:
    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        own_folder(path.parent)
        try:
            self._db = _opened(path)
        except sqlite3.Error as error:
            raise LogError(f"the run log {path} cannot be opened: {error}") from error

    def append(self, run: RunId, event: Event, after: int) -> Recorded:
        record = Recorded(run, after + 1, self._clock(), event)
        try:
            # One statement: whether this driver is next is asked and answered under the same lock.
            with self._one_at_a_time, self._db:
                added = self._db.execute(_APPEND, (run, record.seq, record.at, encode(event), run, after)).rowcount
                if added == 1 and after == 0:
                    self._db.execute(_BEGIN, (run,))
        except sqlite3.IntegrityError as error:
            raise LogConflict(f"event {record.seq} of run {run} was written by another driver") from error
        except sqlite3.Error as error:
            raise LogError(f"the run log {self._path} cannot be written: {error}") from error
        if added != 1:
            raise LogConflict(f"run {run} is not at event {after} any more: another driver is at work on it")
        return record

    def fork(self, run: RunId, history: Iterable[Recorded], event: RunForked) -> Recorded:
        records = [*history]
        record = Recorded(run, len(records) + 1, self._clock(), event)
        rows = [(run, seq, own.at, encode(own.event)) for seq, own in enumerate((*records, record), 1)]
        try:
            with self._one_at_a_time, self._db:
                self._db.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
                self._db.execute(_BEGIN, (run,))
        except sqlite3.IntegrityError as error:
            raise LogConflict(f"there is a run {run} already") from error
        except sqlite3.Error as error:
            raise LogError(f"the run log {self._path} cannot be written: {error}") from error
        return record

    def read(self, run: RunId, from_seq: int = 1) -> Iterator[Recorded]:
        from_seq = max(from_seq, 1)
        rows = self._batches(_READ, run, from_seq)
        for expected, (seq, at, body) in enumerate(rows, from_seq):
            if seq != expected:
                raise LogDamaged(run, expected, "it is missing")
            try:
                yield Recorded(run, seq, at, decode(body))
            except Undecodable as error:
                raise LogDamaged(run, seq, str(error)) from error

    def runs(self) -> list[RunId]:
        """Every run, oldest first."""
        return [RunId(str(row[0])) for row in self._rows("SELECT run FROM runs ORDER BY number")]

    def watch(self, run: RunId, from_seq: int = 1) -> Iterator[Recorded | None]:
        while True:
            for record in self.read(run, from_seq):
                from_seq = record.seq + 1
                yield record
            yield None
            time.sleep(WATCH_SECONDS)

    def cut(self, run: RunId, from_seq: int, copy: Path) -> None:
        """Drop a run's unreadable tail after copying the whole log to `copy`."""
        with sqlite3.connect(copy) as kept:
            self._db.backup(kept)
        kept.close()
        copy.chmod(0o600)
        with self._db:
            self._db.execute("DELETE FROM events WHERE run = ? AND seq >= ?", (run, from_seq))

    def close(self) -> None:
        self._db.close()

    def _batches(self, query: str, *values: object) -> Iterator[Row]:
        """Rows as they are asked for: whoever wants only the first does not wait for all."""
        try:
            cursor = self._db.execute(query, values)
            while rows := cursor.fetchmany(BATCH):
                yield from rows
        except sqlite3.Error as error:
            raise LogError(f"the run log {self._path} cannot be read: {error}") from error

    def _rows(self, query: str, *values: object) -> list[Row]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise LogError(f"the run log {self._path} cannot be read: {error}") from error


def _opened(path: Path) -> sqlite3.Connection:
    """A connection with our tables. Whoever opens the same new file at the same moment may hold it for an instant."""
    until = time.monotonic() + LOCKED_SECONDS
    while True:
        db = _connect(path)
        try:
            # FULL: an event that was accepted survives a power cut, not only a kill.
            db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
            db.executescript(files("logos.adapters").joinpath("schema.sql").read_text("utf-8"))
            _number_runs(db)
            return db
        except sqlite3.Error as error:
            db.close()
            if "locked" not in str(error) or time.monotonic() >= until:
                raise
            time.sleep(0.02)


def _number_runs(db: sqlite3.Connection) -> None:
    """A log that was begun before runs were numbered gets its numbers once."""
    if db.execute("PRAGMA user_version").fetchone()[0] >= NUMBERED:
        return
    with db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT OR IGNORE INTO runs (run) SELECT run FROM events WHERE seq = 1 ORDER BY at, run")
        db.execute(f"PRAGMA user_version = {NUMBERED}")


def _connect(path: Path) -> sqlite3.Connection:
    fresh = not path.exists()
    db = sqlite3.connect(path, timeout=10, check_same_thread=False)
    if fresh:
        path.chmod(0o600)
    return db
