"""The mirror of a log: a folder in the user state folder with a file of hash-chained lines per run.

It is found by the path of the log, or by the id in the database if the work dir was moved.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from logos.adapters.files import (
    bytes_of_file,
    open_regular,
    open_to_append,
    opened_folder,
    private_folder,
    text_of_file,
    write_atomically,
)
from logos.adapters.store import chain
from logos.adapters.store.chain import Chain, Head, Reconciled, Row, Rows, first_hash
from logos.domain.turns import RunId
from logos.errors import LogError, LogosError

Tell = Callable[[str], None]
# The versions of the database (a counter of SQLite) and of the mirror file when they were last compared.
Versions = tuple[int, tuple[int, int, int] | None]

RECORD = "log.json"
EVIDENCE = ".tampered"
# A run id becomes the name of a file.
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


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

    def forget(self, run: RunId) -> None:
        self._seen.pop(run, None)

    def remember(self, run: RunId, version: int) -> None:
        self._before.pop(run, None)
        self._seen[run] = (version, self._mark(run))

    def head(self, run: RunId) -> Head:
        return self._heads.get(run) or Head(0, first_hash(run))

    def reconcile(self, run: RunId, stored: Rows, seal: str, *, write: bool = True, sound: bool = True) -> Reconciled:
        """Compare with the rows of the database; `write` also repairs the mirror file if it is wrong."""
        file = self._read(run)
        try:
            found = chain.reconcile(
                *(run, file, stored),
                known=self._heads.get(run) if self._driving else None,
                registered=run in self.record.runs,
                vouched=lambda hashed: bool(seal) and hmac.compare_digest(self._sign(hashed), seal),
                sound=sound,
            )
        except LogError as error:
            self.keep_evidence(run, str(error))
            raise
        if write:
            # Before the repair removes it.
            self.keep_evidence(run, found.forged)
            self._repair(found, file or Chain())
        return found if write and not self.failed else replace(found, mirror="")

    def _repair(self, found: Reconciled, file: Chain) -> None:
        run, count = found.run, len(found.rows)
        if found.mirror and file.rest.count(b"\n") + len(file.rows) > count:
            # More than an incomplete last line is lost.
            copy = self._path(run).with_name(f"{run}.damaged-{secrets.token_hex(4)}")
            self._attempt(lambda: write_atomically(copy, self._content(run)))
        if found.rows != file.rows[:count]:
            self._rewrite(run, found.rows)
        else:
            if found.mirror:
                self._attempt(lambda: self._truncate(run, count))
            self._heads[run] = Head(count, file.hashes[count - 1] if count else first_hash(run))

    def keep_evidence(self, run: RunId, forged: str) -> None:
        """Keep evidence of tampering until it is an event of the run."""
        if forged and forged not in (before := self.evidence(run)):
            text = f"{before}; {forged}" if before else forged
            self._attempt(lambda: write_atomically(self._evidence(run), text))

    def evidence(self, run: RunId) -> str:
        """Evidence of tampering that is no event of the run yet."""
        return text_of_file(self._evidence(run))

    def clear_evidence(self, run: RunId) -> None:
        self._attempt(lambda: self._evidence(run).unlink(missing_ok=True))

    def _evidence(self, run: RunId) -> Path:
        return self._path(run).with_suffix(EVIDENCE)

    def append(self, run: RunId, row: Row) -> None:
        """Append a line durably, before the event is inserted into the database."""
        head = self._before[run] = self.head(run)
        line, hashed = chain.make_line(head.hash, row)
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
        data, hashes = chain.make_lines(run, rows)
        self._attempt(lambda: self._write(run, data))
        self._heads[run] = Head(len(hashes), hashes[-1] if hashes else first_hash(run))

    def _write(self, run: RunId, data: bytes) -> None:
        """Replace the file of a run: temporary file, rename, fsync of the folder."""
        # The record first: a run with an entry but no file has no accepted event.
        if run not in self.record.runs or not (self._folder / RECORD).exists():
            self.save(replace(self.record, runs=tuple(dict.fromkeys((*self.record.runs, run)))))
        write_atomically(self._path(run), data)
        _sync(self._folder)

    def _add(self, run: RunId, line: bytes) -> None:
        with open_to_append(self._path(run), create=False) as file:
            size = os.fstat(file.fileno()).st_size
            try:
                if file.write(line) != len(line):
                    raise OSError(None, "the disk is full")
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(size)
                raise

    def _truncate(self, run: RunId, lines: int) -> None:
        path = self._path(run)
        if lines == 0:
            path.unlink()
        else:
            os.truncate(path, len(b"\n".join(self._content(run).split(b"\n")[:lines])) + 1)

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
            return chain.read_chain(run, self._content(run))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._fail(error)
            return None

    def _content(self, run: RunId) -> bytes:
        """All of the file of a run, however long the run is."""
        with open_regular(self._path(run)) as file:
            return file.read()

    def _mark(self, run: RunId) -> tuple[int, int, int] | None:
        with suppress(OSError):
            info = os.lstat(self._path(run))
            return info.st_ino, info.st_size, info.st_ctime_ns
        return None

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


def _sync(folder: Path) -> None:
    with opened_folder(folder) as handle:
        os.fsync(handle)


def state_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Our folder in the user state folder, outside every work dir. Raises OSError if there is no home folder.

    `environment`: that of a process with this environment.
    """
    env = os.environ if environment is None else environment
    configured, home = env.get("XDG_STATE_HOME", ""), env.get("HOME", "")
    base = configured if os.path.isabs(configured) else os.path.join(home or os.path.expanduser("~"), ".local/state")
    if not os.path.isabs(base):
        raise OSError(None, "no home folder")
    return Path(base, "logos")


def mirrors_folder(state: Path | None = None) -> Path:
    return (state or state_folder()) / "mirrors"


def records() -> Iterator[LogRecord]:
    """The metadata of all mirrors. Raises OSError if there is no home folder."""
    for file in sorted(mirrors_folder().glob(f"*/{RECORD}")):
        with suppress(OSError):
            record = read_record(file.parent)
            if record is not None:
                yield record


def attach(path: Path, stored_id: str, runs: Iterable[RunId], tell: Tell, *, driving: bool) -> Mirror | None:
    """The mirror of a log for writing; a log without a mirror gets one with the runs of its database.

    The mirror of a moved work dir is moved as well. None, with a warning, if the state folder cannot be used.
    """
    real = os.path.realpath(path)
    try:
        folder = folder_of(path)
        known = read_record(folder)
        if known is None and (moved := _moved(stored_id)):
            os.rename(moved[0], folder)
            _sync(folder.parent)
            known = moved[1]
            tell(f"the work dir of the run log {known.path} was moved; its mirror is now that of {path}")
        new = LogRecord(secrets.token_hex(16), real, secrets.token_hex(32), tuple(filter(is_run_id, runs)))
        mirror = Mirror(folder, replace(known, path=real) if known else new, tell, driving=driving)
        if mirror.record != known:
            mirror.save(mirror.record)
        if known is None and stored_id:
            why = "deleted, or this is a copy"
            tell(f"the run log {path} had no mirror ({why}): a new one is created from the database")
        return mirror
    except (OSError, LogosError) as error:
        tell(f"warning: continuing without a mirror of the run log {path}: {reason(error)}")
        return None


def find(path: Path, stored_id: str, tell: Tell) -> Mirror | None:
    """The mirror of a log for reading: nothing is created or moved."""
    with suppress(OSError):
        folder = folder_of(path)
        record = read_record(folder)
        found = (folder, record) if record else _moved(stored_id)
        return Mirror(*found, tell, driving=False) if found else None
    return None


def abandoned() -> Iterator[tuple[Path, LogRecord]]:
    """The folders and the metadata of mirrors whose work dir no longer exists."""
    with suppress(OSError):
        for file in sorted(mirrors_folder().glob(f"*/{RECORD}")):
            # A folder that may not be read is not missing.
            with suppress(OSError):
                record = read_record(file.parent)
                if record is not None and not Path(record.path).parent.parent.exists():
                    yield file.parent, record


def discard(path: Path) -> None:
    """Delete an old mirror of the log of a newly created work dir."""
    with suppress(OSError):
        (folder_of(path) / RECORD).unlink(missing_ok=True)
        for pattern in ("*.jsonl", f"*{EVIDENCE}"):
            for file in folder_of(path).glob(pattern):
                file.unlink()


def folder_of(path: Path, state: Path | None = None) -> Path:
    return mirrors_folder(state) / hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]


def read_record(folder: Path) -> LogRecord | None:
    """The metadata of a mirror; None if it is missing or invalid."""
    if folder.is_symlink():
        raise OSError(None, f"{folder} is a symbolic link")
    try:
        data: Any = json.loads(bytes_of_file(folder / RECORD))
        runs = tuple(RunId(run) for run in data["runs"] if is_run_id(run))
        return LogRecord(str(data["id"]), str(data["path"]), str(data["key"]), runs)
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _moved(stored_id: str) -> tuple[Path, LogRecord] | None:
    """The mirror with this id if its work dir no longer exists; otherwise the current work dir is a copy."""
    return next((found for found in abandoned() if found[1].id == stored_id), None) if stored_id else None
