"""A damaged log: what is wrong with it, every event that can still be read, and a new log with these in its place."""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logos.adapters.files import aside, refused, write_atomically
from logos.adapters.store.pages import PAGE_SIZE, WAL_HEADER, Pages, Value, is_broken, is_unfinished, page_size
from logos.adapters.store.sqlite import END_OF_TIME, NUMBERED, LookedAt, as_it_is, in_words, opened
from logos.domain.turns import RunId
from logos.errors import LogError

Tell = Callable[[str], None]
Row = tuple[RunId, int, float, bytes]

# Who writes right now has finished after so many seconds.
MOMENT = 0.05
# How often a copy is begun anew because somebody writes.
TRIES = 20
HEADER = 100
# What lies beside a log belongs to it.
ENDS = ("-wal", "-shm", "")
# What the header of every log says: its format, and that texts are UTF-8 (before the first one: nothing yet).
FORMATS = (b"\x01\x01\x00\x40\x20\x20", b"\x02\x02\x00\x40\x20\x20")
UTF_8 = (b"\x00\x00\x00\x01", bytes(4))
# What SQLite says when it cannot write beside a log, which it must even to read it.
UNREACHABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
# What it says of a file that cannot be used now, and is not damaged.
NOT_NOW = (
    *(*UNREACHABLE, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PERM),
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT),
)
_GAPS = "SELECT 1 FROM events GROUP BY run HAVING min(seq) <> 1 OR max(seq) <> count(*)"
# An event is JSON, in which no byte is zero; where a disk lost something there are nothing but zeros.
_HOLES = "SELECT 1 FROM events WHERE instr(CAST(body AS BLOB), x'00')"
_UNNUMBERED = "SELECT 1 FROM events WHERE seq = 1 AND run NOT IN (SELECT run FROM runs)"


@dataclass(frozen=True, slots=True)
class Rescued:
    """What can be read of a run: its events from the first on, and those after a gap. It had at least `known`."""

    run: RunId
    rows: tuple[Row, ...]
    loose: tuple[Row, ...]
    known: int

    @property
    def began(self) -> float:
        return min((row[2] for row in (*self.rows, *self.loose)), default=math.inf)


# --- what is wrong


def damage(path: Path) -> str:
    """What is wrong with a log, in a few words; empty when nothing is. Raises what SQLite says when it cannot tell.

    What is being written right now may look like damage: whatever is found is looked for once more.
    """
    if not _damage(path):
        return ""
    time.sleep(MOMENT)
    return _damage(path)


def _damage(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        size, head = os.fstat(file.fileno()).st_size, file.read(HEADER)
    wal = wal_of(path)
    if not size and wal:
        return "it is empty, but its write-ahead log is not"
    if size and (len(head) < HEADER or size % page_size(head)):
        return "it is cut short"
    if size and not (head[18:24] in FORMATS and head[56:60] in UTF_8):
        return "its header is damaged"
    if is_broken(wal):
        return "its write-ahead log is damaged in the middle"
    try:
        with closing(as_it_is(path)) as db:
            return _asked(db)
    except sqlite3.Error as error:
        if _kind(error) in NOT_NOW:
            raise
        return str(error)


def _asked(db: sqlite3.Connection) -> str:
    """What SQLite itself finds, and whether every run has all its events."""
    said = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    if said != "ok":
        return said.splitlines()[-1]
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'events'").fetchone():
        return ""
    if db.execute(_GAPS).fetchone() or db.execute(_HOLES).fetchone():
        return "events are missing"
    numbered = db.execute("PRAGMA user_version").fetchone()[0] >= NUMBERED
    return "runs are missing" if numbered and db.execute(_UNNUMBERED).fetchone() else ""


def unfinished(path: Path) -> str:
    """A word on a last entry that was not written to its end; what was never accepted is lost without harm."""
    if not is_unfinished(wal_of(path)):
        return ""
    time.sleep(MOMENT)
    if not is_unfinished(wal_of(path)):
        return ""
    return f"the last entry of the run log {path} was not written to its end and does not count; all before it is there"


def wal_of(path: Path) -> bytes:
    try:
        return path.with_name(f"{path.name}-wal").read_bytes()
    except FileNotFoundError:
        return b""


def _kind(error: sqlite3.Error) -> int:
    """What sort of error it is. What Python says of a text that is none has no code, and is damage."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF


# --- what can be read


def rescue(main: bytes, wal: bytes) -> list[Rescued]:
    """Every run of which something can be read, in the order in which they began as far as that is known."""
    sizes = dict.fromkeys((page_size(main), PAGE_SIZE))
    tries = (_rescue(Pages(main, wal, size)) for size in sizes)
    return max(tries, key=lambda found: sum(len(own.rows) + len(own.loose) for own in found))


def _rescue(pages: Pages) -> list[Rescued]:
    rows: dict[RunId, dict[int, Row]] = {}
    known: dict[RunId, int] = {}
    numbers: dict[RunId, int] = {}
    for record in pages.records():
        match record.in_index, record.values:
            case True, [bytes(name), int(seq), at, body] if seq >= 1:
                run = _named(name)
                known[run] = max(known.get(run, 0), seq)
                mine = rows.setdefault(run, {})
                if seq not in mine and isinstance(body, bytes) and _is_event(at, body):
                    mine[seq] = (run, seq, float(at or 0), body)
            case True, [bytes(name), int(number)]:
                numbers.setdefault(_named(name), number)
            case False, [None, bytes(name)]:
                numbers.setdefault(_named(name), record.rowid)
            case _:
                continue
    found = [_without_gaps(run, mine, known[run]) for run, mine in rows.items()]
    # A run whose number is gone is most likely a new one.
    return sorted(found, key=lambda own: (numbers.get(own.run, math.inf), own.began, own.run))


def _named(name: bytes) -> RunId:
    return RunId(name.decode("utf-8", "replace"))


def _is_event(at: Value, body: bytes) -> bool:
    if not isinstance(at, int | float) or not abs(at) < END_OF_TIME:
        return False
    try:
        read: Any = json.loads(body.decode())
    except (ValueError, RecursionError):
        return False
    return isinstance(read, dict) and "kind" in read


def _without_gaps(run: RunId, rows: dict[int, Row], known: int) -> Rescued:
    until = next(seq for seq in range(1, len(rows) + 2) if seq not in rows)
    ordered = sorted(rows.items())
    return Rescued(
        run, tuple(row for seq, row in ordered if seq < until), tuple(row for seq, row in ordered if seq > until), known
    )


def in_short(found: Iterable[Rescued]) -> str:
    """`12 of 14 events of run k3, 96 events of 2 other runs`."""
    runs = [*found]
    short = [own for own in runs if len(own.rows) < own.known]
    whole = [own for own in runs if len(own.rows) == own.known]
    parts = [f"{len(own.rows)} of {own.known} events of run {own.run}" for own in short]
    if whole:
        events, other = sum(len(own.rows) for own in whole), " other" if short else ""
        parts.append(f"{events} events of {len(whole)}{other} run{'' if len(whole) == 1 else 's'}")
    return ", ".join(parts) or "no event"


# --- what is done about it


def mend(path: Path, stamp: str) -> str:
    """Put a log with every event that can be read in the place of a damaged one, which is kept. Returns what to say."""
    if not path.parent.is_dir():
        return ""
    try:
        with _alone_in(path.parent):
            return _mend(path, stamp)
    except OSError as error:
        raise refused(f"the run log {path} cannot be used", error) from error


def _mend(path: Path, stamp: str) -> str:
    new, kept = path.with_name(f"{path.name}.mended"), aside(path, stamp)
    if new.exists():
        # Killed in the middle; what is to take its place is complete.
        _exchange(path, new, kept)
        return f"the run log {path} was damaged; it is kept as {kept.name}, what could be read of it is in a new one"
    try:
        why = damage(path)
    except sqlite3.Error:
        # Whoever opens it says why it cannot be used now.
        return ""
    if not why:
        return unfinished(path)
    found = rescue(path.read_bytes(), wal_of(path))
    loose = [row for own in found for row in own.loose]
    if loose:
        write_atomically(kept.with_name(f"{kept.name}.jsonl"), "".join(map(_as_line, loose)))
    _write(new, found)
    _exchange(path, new, kept)
    more = f"; {len(loose)} more come after a gap and are in {kept.name}.jsonl" if loose else ""
    return (
        f"the run log {path} is damaged ({why}); it is kept as {kept.name}, and could be read: {in_short(found)}{more}"
    )


@contextmanager
def looking(path: Path, tell: Tell) -> Generator[LookedAt]:
    """A log to look at: left as it is, and read elsewhere where it cannot be read in its place."""
    with ExitStack() as stack:

        def elsewhere() -> Path:
            return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="logos-"))) / path.name

        try:
            log = _look(path, elsewhere, tell)
        except sqlite3.Error as error:
            raise LogError(f"the run log {path} cannot be read: {in_words(error)}") from error
        except OSError as error:
            raise refused(f"the run log {path} cannot be read", error) from error
        yield stack.enter_context(closing(log))


def _look(path: Path, elsewhere: Callable[[], Path], tell: Tell) -> LookedAt:
    source, barred = path, ""
    try:
        why = damage(path)
    except sqlite3.Error as error:
        if _kind(error) not in UNREACHABLE:
            raise
        source, barred = _copied(path, elsewhere()), "it, or the folder it is in, may only be read"
        why = damage(source)
    if why:
        found = rescue(source.read_bytes(), wal_of(source))
        if not any(own.rows for own in found):
            raise LogError(f"the run log {path} is damaged ({why}), and no run in it can be read")
        tell(f"the run log {path} is damaged ({why}); this is what can be read: {in_short(found)}")
        source, barred = elsewhere(), "it is damaged; `logos run` and `logos build` keep it aside and mend it"
        _write(source, found)
    elif note := unfinished(source):
        tell(note)
    return LookedAt(path, source, barred)


def _copied(path: Path, to: Path) -> Path:
    """A copy of a log and of its write-ahead log that belong together, also while somebody writes."""

    def version() -> tuple[int, int, bytes]:
        return path.stat().st_mtime_ns, path.stat().st_size, wal_of(path)[:WAL_HEADER]

    for _ in range(TRIES):
        before = version()
        shutil.copyfile(path, to)
        to.with_name(f"{to.name}-wal").write_bytes(wal_of(path))
        if version() == before:
            break
        time.sleep(MOMENT)
    return to


def _write(path: Path, found: Iterable[Rescued]) -> None:
    """A new log with these events; it has its name only once it is whole."""
    begun = path.with_name(f"{path.name}.begun")
    for end in ENDS:
        begun.with_name(f"{begun.name}{end}").unlink(missing_ok=True)
    runs = [own for own in found if own.rows]
    rows = (row for own in runs for row in own.rows)
    try:
        with closing(opened(begun)) as db, db:
            db.executemany("INSERT INTO events VALUES (?, ?, ?, CAST(? AS TEXT))", rows)
            db.executemany("INSERT INTO runs (run) VALUES (?)", ((own.run,) for own in runs))
    except sqlite3.Error as error:
        raise LogError(f"a new run log {begun} cannot be written: {in_words(error)}") from error
    os.replace(begun, path)


@contextmanager
def _alone_in(folder: Path) -> Generator[None]:
    """Of several who come at once, one does it, and the others find it done."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _exchange(path: Path, new: Path, kept: Path) -> None:
    """The write-ahead log goes first: beside the new log it would be taken for its own."""
    for end in ENDS:
        lying = path.with_name(f"{path.name}{end}")
        if lying.exists():
            os.replace(lying, kept.with_name(f"{kept.name}{end}"))
    os.replace(new, path)


def _as_line(row: Row) -> str:
    run, seq, at, body = row
    return json.dumps({"run": run, "seq": seq, "at": at, **json.loads(body)}) + "\n"
