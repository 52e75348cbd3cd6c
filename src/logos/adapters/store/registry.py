"""Which log has which mirror: by the path of the log, and by the id in the database where a work dir was moved."""

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
    """In the user state folder. Raises OSError where there is no home folder."""
    given = os.environ.get("XDG_STATE_HOME", "")
    try:
        base = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise OSError(None, "no home folder") from error
    if not base.is_absolute():
        raise OSError(None, "no home folder")
    return base / "logos" / "mirrors"


def attach(path: Path, stored_id: str, runs: Iterable[RunId], tell: Tell, *, driving: bool) -> Mirror | None:
    """The mirror of a log that is going to be written; a log without one gets one, with the runs of its database.

    None where the state folder cannot be used, which is said.
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
            tell(f"the run log {path} had no mirror (deleted, or this is a copy): a new one is made from the database")
        return mirror
    except (OSError, LogosError) as error:
        tell(f"warning: going on without a mirror of the run log {path}: {reason(error)}")
        return None


def find(path: Path, stored_id: str, tell: Tell) -> Mirror | None:
    """The mirror of a log that is only read: nothing is created or moved."""
    try:
        folder = folder_of(path)
        record = read_record(folder)
        moved = None if record else _moved(stored_id)
        folder, record = moved or (folder, record)
    except OSError:
        return None
    return Mirror(folder, record, tell, driving=False) if record else None


def has_mirror(path: Path) -> bool:
    try:
        return read_record(folder_of(path)) is not None
    except OSError:
        return False


def abandoned() -> Iterator[tuple[Path, Path]]:
    """The mirrors whose work dir is gone: their folders, and the logs they were of."""
    with suppress(OSError):
        yield from ((folder, Path(record.path)) for folder, record in _all() if _is_gone(record))


def discard(path: Path) -> None:
    """Forget the mirror of a log whose work dir was just created: what was there before is gone."""
    with suppress(OSError):
        (folder_of(path) / RECORD).unlink(missing_ok=True)
        for file in folder_of(path).glob("*.jsonl"):
            file.unlink()


def folder_of(path: Path) -> Path:
    return mirrors_folder() / hashlib.sha256(os.fsencode(_real(path))).hexdigest()[:32]


def read_record(folder: Path) -> LogRecord | None:
    """None where there is none, or none that makes sense."""
    if folder.is_symlink():
        raise OSError(None, f"{folder} is a symbolic link")
    try:
        said: Any = json.loads((folder / RECORD).read_bytes())
        runs = tuple(RunId(run) for run in said["runs"] if is_run_id(run))
        return LogRecord(str(said["id"]), str(said["path"]), str(said["key"]), runs)
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _bound(path: Path, folder: Path, stored_id: str, tell: Tell) -> LogRecord | None:
    """The record of a log; that of a moved work dir comes along. None: the log needs a new one."""
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
    """The mirror with this id, if the work dir that it was made for is gone; if it still exists, this is a copy."""
    if not _ID.fullmatch(stored_id):
        return None
    return next((own for own in _all() if own[1].id == stored_id and _is_gone(own[1])), None)


def _is_gone(record: LogRecord) -> bool:
    try:
        return not Path(record.path).parent.parent.exists()
    except OSError:
        # What may not be looked at is not the same as what is not there.
        return False


def _all() -> Iterator[tuple[Path, LogRecord]]:
    for file in sorted(mirrors_folder().glob(f"*/{RECORD}")):
        with suppress(OSError):
            if record := read_record(file.parent):
                yield file.parent, record


def _real(path: Path) -> str:
    return os.path.realpath(path)
