"""The mirror of one log: a folder in the user state folder with a file of hash-chained lines per run."""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from logos.adapters.files import private_folder, write_atomically
from logos.adapters.store.chain import (
    Chain,
    Head,
    Reconciled,
    Row,
    first_hash,
    make_line,
    make_lines,
    read_chain,
    reconcile,
)
from logos.domain.turns import RunId
from logos.errors import LogError, LogosError

Tell = Callable[[str], None]
# The versions of the database (a counter of SQLite) and of the mirror file when they were last compared.
Versions = tuple[int, tuple[int, int, int] | None]

RECORD = "log.json"
# A run id becomes the name of a file.
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class LogRecord:
    """The metadata of a mirror. `runs` are in the order of their start; `key` signs seals."""

    id: str
    path: str
    key: str
    runs: tuple[RunId, ...] = ()


class Mirror:
    """Writes and checks the mirror files. `driving`: this process drives the log, and trusts its memory before files.

    If the mirror cannot be written, it warns once. From then on it signs the last hash with every event (a seal), so
    that the next driver can trust the database.
    """

    def __init__(self, folder: Path, record: LogRecord, tell: Tell, *, driving: bool) -> None:
        self.record = record
        self.tell = tell
        self._folder = folder
        self._driving = driving
        self._heads: dict[RunId, Head] = {}
        self._before: dict[RunId, Head] = {}
        self._seen: dict[RunId, Versions] = {}
        self.failed = False

    def runs(self) -> list[RunId]:
        """Every run with a file or an entry in the record, in the order of their start."""
        found = sorted(RunId(path.stem) for path in self._folder.glob("*.jsonl"))
        return [*dict.fromkeys((*self.record.runs, *filter(is_run_id, found)))]

    def holds(self, run: RunId) -> bool:
        return self._path(run).exists()

    def is_unchanged(self, run: RunId, version: int) -> bool:
        """Whether no other process has written since `remember`; `version` is the database's `data_version`."""
        return self._seen.get(run) == (version, self._mark(run))

    def remember(self, run: RunId, version: int) -> None:
        self._before.pop(run, None)
        self._seen[run] = (version, self._mark(run))

    def head(self, run: RunId) -> Head:
        return self._heads.get(run) or Head(0, first_hash(run))

    def reconcile(self, run: RunId, stored: tuple[Row, ...], seal: str = "") -> Reconciled:
        """Compare with the rows of the database, and repair the mirror file if it is wrong."""
        chain = self._read(run)
        found, lines = self._compare(run, chain, stored, seal), chain or Chain()
        if found.mirror and lines.rest.count(b"\n") + len(lines.rows) > len(found.rows):
            self._attempt(lambda: self._keep(run))
        if found.rows != lines.rows[: len(found.rows)]:
            self._rewrite(run, found.rows)
        else:
            if found.mirror:
                self._attempt(lambda: self._truncate(run, len(found.rows)))
            hashes = lines.hashes[: len(found.rows)]
            self._heads[run] = Head(len(hashes), hashes[-1] if hashes else first_hash(run))
        return replace(found, mirror="") if self.failed else found

    def compare(self, run: RunId, stored: tuple[Row, ...], seal: str = "") -> Reconciled:
        """Like `reconcile`, without changing anything."""
        return replace(self._compare(run, self._read(run), stored, seal), mirror="")

    def _compare(self, run: RunId, chain: Chain | None, stored: tuple[Row, ...], seal: str) -> Reconciled:
        return reconcile(
            run,
            chain,
            stored,
            known=self._heads.get(run) if self._driving else None,
            registered=run in self.record.runs,
            vouched=lambda hashed: bool(seal) and hmac.compare_digest(self._sign(hashed), seal),
        )

    def append(self, run: RunId, row: Row) -> None:
        """Append a line durably, before the event is inserted into the database."""
        head = self._before[run] = self.head(run)
        line, hashed = make_line(head.hash, row)
        self._attempt(lambda: self._add(run, line) if head.seq else self._write(run, line))
        self._heads[run] = Head(row[0], hashed)

    def begin(self, run: RunId, rows: Iterable[Row]) -> None:
        """Write the file of a run that begins with the events of another."""
        self._before[run] = self.head(run)
        self._rewrite(run, rows)

    def undo(self, run: RunId, last: int) -> None:
        """Remove the lines of a failed transaction; `last` is the last event of the database."""
        self._seen.pop(run, None)
        head = self._before.pop(run, None)
        if head is not None and last <= head.seq:
            self._heads[run] = head
            with suppress(OSError):
                self._truncate(run, head.seq)

    def cut(self, run: RunId, from_seq: int) -> None:
        """Remove the unreadable end of a run."""
        self._seen.pop(run, None)
        self._heads.pop(run, None)
        self._attempt(lambda: self._truncate(run, from_seq - 1))

    def seal(self, run: RunId) -> str:
        """The signature of a run's last hash if the mirror cannot be written; otherwise empty."""
        return self._sign(self.head(run).hash) if self.failed else ""

    def save(self, record: LogRecord) -> None:
        for folder in (*reversed(self._folder.parents[:2]), self._folder):
            private_folder(folder)
        write_atomically(self._folder / RECORD, json.dumps(asdict(record), indent=1) + "\n")
        self.record = record

    def _rewrite(self, run: RunId, rows: Iterable[Row]) -> None:
        data, hashes = make_lines(run, rows)
        self._attempt(lambda: self._write(run, data))
        self._heads[run] = Head(len(hashes), hashes[-1] if hashes else first_hash(run))

    def _write(self, run: RunId, data: bytes) -> None:
        """Replace the file of a run: temporary file, rename, fsync of the folder."""
        # The record first: a run with an entry but no file has no accepted event.
        if run not in self.record.runs or not (self._folder / RECORD).exists():
            self.save(replace(self.record, runs=tuple(dict.fromkeys((*self.record.runs, run)))))
        write_atomically(self._path(run), data)
        sync_folder(self._folder)

    def _add(self, run: RunId, line: bytes) -> None:
        handle = os.open(self._path(run), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            size = os.fstat(handle).st_size
            try:
                if os.write(handle, line) != len(line):
                    raise OSError(None, "the disk is full")
                os.fsync(handle)
            except BaseException:
                os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)

    def _truncate(self, run: RunId, lines: int) -> None:
        path = self._path(run)
        if lines == 0:
            path.unlink()
            return
        sizes = [len(line) for line in path.read_bytes().split(b"\n")[:lines]]
        os.truncate(path, sum(sizes) + lines)

    def _keep(self, run: RunId) -> None:
        """Copy a file that will lose more than an incomplete last line."""
        copy = self._path(run).with_name(f"{run}.damaged-{secrets.token_hex(4)}")
        write_atomically(copy, self._path(run).read_bytes())

    def _attempt(self, write: Callable[[], None]) -> None:
        if not self.failed:
            try:
                write()
            except (OSError, LogosError) as error:
                self._fail(error)

    def _fail(self, error: OSError | LogosError) -> None:
        if not self.failed:
            self.failed = True
            self.tell(f"warning: continuing without the mirror of the run log, {self._folder}: {reason(error)}")

    def _read(self, run: RunId) -> Chain | None:
        try:
            with open(os.open(self._path(run), _READ), "rb") as file:
                return read_chain(run, file.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            self._fail(error)
            return None

    def _mark(self, run: RunId) -> tuple[int, int, int] | None:
        try:
            info = os.lstat(self._path(run))
        except OSError:
            return None
        return info.st_ino, info.st_size, info.st_ctime_ns

    def _path(self, run: RunId) -> Path:
        if not is_run_id(run):
            raise LogError(f"{run[:80]!r} is not a valid run id")
        return self._folder / f"{run}.jsonl"

    def _sign(self, hash_: str) -> str:
        return hmac.digest(self.record.key.encode(), hash_.encode(), "sha256").hex()


def reason(error: OSError | LogosError) -> str:
    return str(error.strerror) if isinstance(error, OSError) else str(error)


def is_run_id(run: str) -> bool:
    return _RUN.fullmatch(run) is not None


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
