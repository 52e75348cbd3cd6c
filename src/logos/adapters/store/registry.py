"""Finding the mirror of a log: by the log's path, or by the id in the database if the work dir was moved."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from logos.adapters.store.mirror import RECORD, LogRecord, Mirror, Tell, is_run_id, reason, sync_folder
from logos.domain.turns import RunId
from logos.errors import LogosError

_ID = re.compile(r"[0-9a-f]{32}")


def mirrors_folder() -> Path:
    """The folder of all mirrors, in the user state folder. Raises OSError if there is no home folder."""
    configured = os.environ.get("XDG_STATE_HOME", "")
    base = configured if os.path.isabs(configured) else os.path.expanduser("~/.local/state")
    if not os.path.isabs(base):
        raise OSError(None, "no home folder")
    return Path(base, "logos", "mirrors")


def attach(path: Path, stored_id: str, runs: Iterable[RunId], tell: Tell, *, driving: bool) -> Mirror | None:
    """The mirror of a log for writing; a log without a mirror gets one with the runs of its database.

    None, with a warning, if the state folder cannot be used.
    """
    try:
        folder = folder_of(path)
        record = _bound(path, folder, stored_id, tell)
        if record is not None:
            return Mirror(folder, record, tell, driving=driving)
        record = LogRecord(secrets.token_hex(16), _real(path), secrets.token_hex(32), tuple(filter(is_run_id, runs)))
        mirror = Mirror(folder, record, tell, driving=driving)
        mirror.save(record)
        if stored_id:
            tell(
                f"the run log {path} had no mirror (deleted, or this is a copy): a new one is created from the database"
            )
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


def has_mirror(path: Path) -> bool:
    with suppress(OSError):
        return read_record(folder_of(path)) is not None
    return False


def abandoned() -> Iterator[tuple[Path, Path]]:
    """The folders of mirrors whose work dir no longer exists, and the paths of their logs."""
    with suppress(OSError):
        yield from ((folder, Path(record.path)) for folder, record in _all() if _is_gone(record))


def discard(path: Path) -> None:
    """Delete an old mirror of the log of a newly created work dir."""
    with suppress(OSError):
        (folder_of(path) / RECORD).unlink(missing_ok=True)
        for file in folder_of(path).glob("*.jsonl"):
            file.unlink()


def folder_of(path: Path) -> Path:
    return mirrors_folder() / hashlib.sha256(os.fsencode(_real(path))).hexdigest()[:32]


def read_record(folder: Path) -> LogRecord | None:
    """The metadata of a mirror; None if it is missing or invalid."""
    if folder.is_symlink():
        raise OSError(None, f"{folder} is a symbolic link")
    try:
        data: Any = json.loads((folder / RECORD).read_bytes())
        runs = tuple(RunId(run) for run in data["runs"] if is_run_id(run))
        return LogRecord(str(data["id"]), str(data["path"]), str(data["key"]), runs)
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _bound(path: Path, folder: Path, stored_id: str, tell: Tell) -> LogRecord | None:
    """The record of a log; the mirror of a moved work dir is moved as well. None: the log needs a new mirror."""
    record = read_record(folder)
    if record is None and (moved := _moved(stored_id)):
        os.rename(moved[0], folder)
        sync_folder(folder.parent)
        record = moved[1]
        tell(f"the work dir of the run log {record.path} was moved; its mirror is now that of {path}")
    if record is not None and record.path != _real(path):
        record = replace(record, path=_real(path))
        Mirror(folder, record, tell, driving=False).save(record)
    return record


def _moved(stored_id: str) -> tuple[Path, LogRecord] | None:
    """The mirror with this id if its work dir no longer exists; otherwise the current work dir is a copy."""
    if not _ID.fullmatch(stored_id):
        return None
    return next((found for found in _all() if found[1].id == stored_id and _is_gone(found[1])), None)


def _is_gone(record: LogRecord) -> bool:
    try:
        return not Path(record.path).parent.parent.exists()
    except OSError:
        # A folder that may not be read is not missing.
        return False


def _all() -> Iterator[tuple[Path, LogRecord]]:
    for file in sorted(mirrors_folder().glob(f"*/{RECORD}")):
        with suppress(OSError):
            if record := read_record(file.parent):
                yield file.parent, record


def _real(path: Path) -> str:
    return os.path.realpath(path)
