"""The run log in SQLite: one file, write-ahead, every accepted event on disk before it counts."""

import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from logos.adapters.files import aside, own_folder
from logos.adapters.store.chain import Reconciled, Row, Rows, head_of
from logos.adapters.store.codec import Clock, encode, recorded, steady
from logos.adapters.store.mirror import Mirror
from logos.domain.events import Event, Recorded, RecordsTampered, RunForked
from logos.domain.turns import RunId
from logos.errors import LogConflict, LogError

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
# Messages for errors that the user can correct; the others keep SQLite's message.
_MESSAGES = {
    sqlite3.SQLITE_FULL: "no space is left on the disk",
    sqlite3.SQLITE_IOERR: "the disk has errors or is full ({})",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "no permission to use it or its folder ({})",
    sqlite3.SQLITE_CORRUPT: "it is damaged ({})",
    sqlite3.SQLITE_NOTADB: "it is damaged ({})",
}
BATCH = 500
LOCKED_SECONDS = 5.0
# The `user_version` of a log in which every run has a number.
NUMBERED = 1
# The damage of a database whose rows may be changed by others' statements.
FOREIGN = "it has triggers or views"


class SqliteLog:
    """A Log. With a mirror, every event is durable there before it is inserted into the database."""

    def __init__(
        self, path: Path, clock: Clock | None = None, mirror: Mirror | None = None, db: sqlite3.Connection | None = None
    ) -> None:
        self._path = path
        self._clock = clock or steady()
        self._one_at_a_time = threading.RLock()
        self._mirror = mirror
        self._db = db or self._open()

    def _open(self) -> sqlite3.Connection:
        own_folder(self._path.parent)
        try:
            return open_database(self._path)
        except sqlite3.Error as error:
            raise LogError(f"the run log {self._path} cannot be opened: {in_words(error)}") from error

    def append(self, run: RunId, event: Event, after: int) -> Recorded:
        record = Recorded(run, after + 1, self._clock(), event)
        self.add(run, (record.seq, record.at, encode(event).encode()))
        if self._mirror is not None and isinstance(event, RecordsTampered):
            self._mirror.clear_evidence(run)
        return record

    def add(self, run: RunId, row: Row) -> None:
        """Append an event as it is stored; LogConflict where it is not the next."""
        mirror, after = self._for_writing(), row[0] - 1
        # One transaction: the check of `after` and the insertion need the same lock.
        with self._transaction(run):
            version = self._verify(run, mirror) if mirror is not None else 0
            if self._last(run) != after:
                raise LogConflict(f"run {run} is not at event {after} any more: another driver is active")
            if mirror is not None:
                mirror.append(run, row)
            self._insert(run, [row])
        if mirror is not None:
            mirror.remember(run, version)

    def tampering(self, run: RunId, *, verify: bool = False) -> str:
        mirror = self._mirror
        if mirror is None:
            return ""
        if verify:
            with self._transaction(run):
                # A trigger in the database changes rows that this process writes: compare them in any case.
                for kind, name in [
                    *self._rows("SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view')")
                ]:
                    mirror.keep_evidence(run, f"the {kind} {name} was added to the database")
                    self._db.execute(f"DROP {kind} {_quoted(name)}")
                mirror.forget(run)
                version = self._verify(run, mirror)
            mirror.remember(run, version)
        return mirror.evidence(run)

    def head(self, run: RunId) -> str:
        """The hash that stands for every event of a run: as this driver knows it, or else as the database has it."""
        known = self._mirror.head(run) if self._mirror is not None else None
        return (
            known.hash if known is not None and known.seq else head_of(run, tuple(self._rows(ROWS, run, _FROM_START)))
        )

    def fork(self, run: RunId, history: Iterable[Recorded], event: RunForked) -> Recorded:
        records = [*history]
        record = Recorded(run, len(records) + 1, self._clock(), event)
        self.put(
            run, [(seq, copied.at, encode(copied.event).encode()) for seq, copied in enumerate((*records, record), 1)]
        )
        return record

    def put(self, run: RunId, rows: Iterable[Row]) -> None:
        """Create a run from stored events; all or nothing."""
        mirror, rows = self._for_writing(), [*rows]
        with self._one_at_a_time:
            if self._last(run) or (mirror is not None and mirror.holds(run)):
                raise LogConflict(f"run {run} exists already")
            # Before the transaction: after a kill in between, the mirror is ahead and is copied to the database.
            if mirror is not None:
                mirror.begin(run, rows)
            with self._transaction(run):
                self._insert(run, rows)

    def rows(self, run: RunId) -> Iterator[Row]:
        """The events of a run as they are stored."""
        return self._rows(ROWS, run, _FROM_START)

    def read(self, run: RunId, from_seq: int = 1) -> Iterator[Recorded]:
        from_seq = max(from_seq, 1)
        for expected, (seq, at, body) in enumerate(self._rows(ROWS, run, from_seq), from_seq):
            yield recorded(run, expected, (seq, at, body))

    def runs(self) -> list[RunId]:
        numbered = next(self._rows("PRAGMA user_version"))[0] >= NUMBERED
        # A reader may open the file before the schema exists.
        begun = numbered or any(self._rows("SELECT 1 FROM sqlite_master WHERE name = 'events'"))
        return [RunId(str(row[0])) for row in self._rows(RUNS if numbered else RUNS_BY_TIME)] if begun else []

    def ends(self) -> dict[RunId, tuple[int, float]]:
        """The number and the time of every run's last event."""
        query = "SELECT max(seq), max(CAST(at AS REAL)), run FROM events GROUP BY run"
        return {RunId(str(run)): (seq, at) for seq, at, run in self._rows(query)} if self.runs() else {}

    def cut(self, run: RunId, from_seq: int, copy: Path) -> None:
        """Delete the unreadable end of a run after copying the log to `copy`."""
        mirror = self._for_writing()
        try:
            with closing(_connect(copy)) as kept:
                self._db.backup(kept)
        except sqlite3.Error as error:
            raise LogError(f"the run log {copy} cannot be written: {in_words(error)}") from error
        with self._transaction(run):
            if mirror is not None:
                mirror.cut(run, from_seq)
            self._db.execute("DELETE FROM events WHERE run = ? AND seq >= ?", (run, from_seq))

    def close(self) -> None:
        self._db.close()

    def _for_writing(self) -> Mirror | None:
        """The mirror, which must be written before the database."""
        return self._mirror

    @contextmanager
    def _transaction(self, run: RunId) -> Generator[None]:
        """A transaction with the write lock; if it fails, the mirror is reset to the state of the database."""
        with self._one_at_a_time:
            try:
                with self._db:
                    self._db.execute("BEGIN IMMEDIATE")
                    yield
            except BaseException as error:
                if self._mirror is not None:
                    # If that fails too, the event is copied to the database when the log is next opened.
                    with suppress(LogError):
                        self._mirror.undo(run, self._last(run))
                if isinstance(error, sqlite3.Error):
                    raise LogError(f"the run log {self._path} cannot be written: {in_words(error)}") from error
                raise

    def _insert(self, run: RunId, rows: list[Row]) -> None:
        insert(self._db, run, rows)
        if rows[0][0] == 1:
            self._db.execute("INSERT OR IGNORE INTO runs (run) VALUES (?)", (run,))
        if self._mirror is not None and (seal := self._mirror.seal(run)):
            self._db.execute("INSERT OR REPLACE INTO seals VALUES (?, ?)", (run, seal))

    def _verify(self, run: RunId, mirror: Mirror) -> int:
        """Compare a run with its mirror if another process has written to either since the last event."""
        version = next(self._rows("PRAGMA data_version"))[0]
        if mirror.is_unchanged(run, version):
            return version
        seal = next(self._rows("SELECT seal FROM seals WHERE run = ?", run), ("",))[0]
        found = mirror.reconcile(run, tuple(self._rows(ROWS, run, _FROM_START)), str(seal))
        notes = [*describe([found], keep_copy(self._path) if found.dropped else "")]
        write_rows(self._db, found)
        if notes:
            mirror.tell(f"warning: the run log {self._path}: {'; '.join(notes)}")
        return version

    def _last(self, run: RunId) -> int:
        return next(self._rows("SELECT coalesce(max(seq), 0) FROM events WHERE run = ?", run))[0]

    def _rows(self, query: str, *values: object) -> Iterator[Any]:
        """Rows in batches, so that the first ones are available at once."""
        try:
            cursor = self._db.execute(query, values)
            while rows := cursor.fetchmany(BATCH):
                yield from rows
        except sqlite3.Error as error:
            raise LogError(f"the run log {self._path} cannot be read: {in_words(error)}") from error


class ReadOnlyLog(SqliteLog):
    """A log that reading does not change. The first append opens it for writing, unless `barred` says why not.

    `source` is the file itself or a corrected copy; `attach` repairs the log and returns its mirror.
    """

    def __init__(self, path: Path, source: Path, attach: Callable[[], Mirror | None], barred: str = "") -> None:
        self._source = connect_readonly(source)
        super().__init__(path, db=self._source)
        self._attach = attach
        self._barred = barred

    def close(self) -> None:
        self._source.close()
        super().close()

    def _for_writing(self) -> Mirror | None:
        if self._barred:
            raise LogError(f"the run log {self._path} cannot be written: {self._barred}")
        if self._db is self._source:
            self._mirror = self._attach()
            self._db = self._open()
        return self._mirror


def connect_readonly(path: Path) -> sqlite3.Connection:
    """A connection for reading.

    SQLite creates a missing write-ahead log even to read, and only a connection that may write removes it again.
    """
    mode = "ro" if beside(path, "-wal").exists() else "rw"
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=10, check_same_thread=False)


def in_words(error: sqlite3.Error) -> str:
    return _MESSAGES.get(error_kind(error), "{}").format(error) if hasattr(error, "sqlite_errorcode") else str(error)


def open_database(path: Path) -> sqlite3.Connection:
    """A connection to a file with our schema. Another process that creates it at the same time may lock it briefly."""
    until = time.monotonic() + LOCKED_SECONDS
    while True:
        db = _connect(path)
        try:
            # FULL: an accepted event survives a power cut.
            db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
            db.executescript(files("logos.adapters.store").joinpath("schema.sql").read_text("utf-8"))
            if db.execute("PRAGMA user_version").fetchone()[0] < NUMBERED:
                # A log of an older version, or a new one.
                with db:
                    db.execute("BEGIN IMMEDIATE")
                    db.execute(f"INSERT OR IGNORE INTO runs (run) {RUNS_BY_TIME}")
                    db.execute(f"PRAGMA user_version = {NUMBERED}")
            return db
        except sqlite3.Error as error:
            db.close()
            if "locked" not in str(error) or time.monotonic() >= until:
                raise
            time.sleep(0.02)


def _connect(path: Path) -> sqlite3.Connection:
    fresh = not path.exists()
    db = sqlite3.connect(path, timeout=10, check_same_thread=False)
    if fresh:
        path.chmod(0o600)
    return db


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


def insert(db: sqlite3.Connection, run: RunId, rows: Iterable[Row]) -> None:
    db.executemany("INSERT INTO events VALUES (?, ?, ?, CAST(? AS TEXT))", ((run, *row) for row in rows))


def write_rows(db: sqlite3.Connection, found: Reconciled) -> None:
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
        if missing := len(result.rows) - result.kept:
            yield f"{_count(missing)} of run {result.run} missing in the database, restored from the mirror"
        if result.dropped:
            yield f"{_count(len(result.dropped))} of run {result.run} dropped, not in the mirror or unreadable"
    if kept:
        yield f"the previous database is kept as {kept}"


def beside(path: Path, end: str) -> Path:
    return path.with_name(f"{path.name}{end}")


def is_damage(error: sqlite3.Error) -> bool:
    return error_kind(error) not in _NOT_NOW


def error_kind(error: sqlite3.Error) -> int:
    """The primary error code, which is the lower byte; decode errors carry none, and count as corruption."""
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
    return checked.splitlines()[-1] if checked != "ok" else FOREIGN if foreign else ""


def _quoted(name: str) -> str:
    return '"' + str(name).replace('"', '""') + '"'


def _count(events: int) -> str:
    return f"{events} event{'' if events == 1 else 's'}"
