"""Writing files so that a crash leaves the old one or the new one, readable by their owner alone."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from logos.errors import LogosError, UsageError

# The disk is full, the person's share of it is used up, or the file may not grow any more.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_atomically(path: Path, text: str, *, durable: bool = True) -> None:
    """Temp file beside the target, fsync where it must outlive a power cut, rename."""
    try:
        private_folder(path.parent)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as sink:
                sink.write(text)
                sink.flush()
                if durable:
                    os.fsync(sink.fileno())
            os.replace(temporary, path)
        except BaseException:
            # A signal may come when it is in its place already.
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise refused(f"cannot write {path}", error) from error


def refused(what: str, error: OSError) -> LogosError:
    """What the system did not let us do, and why. A full disk is nobody's mistake: with space again it works."""
    kind = LogosError if error.errno in _FULL else UsageError
    return kind(f"{what}: {error.strerror}")


def private_folder(folder: Path) -> None:
    """Create a folder (and its parents) for its owner alone; one that exists is left as it is."""
    if folder.is_dir():
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise refused(f"cannot create {folder}", error) from error


def own_folder(folder: Path) -> None:
    """A private folder of ours inside a person's repository: git does not see it."""
    private_folder(folder)
    # One that is empty may be what somebody left who was killed just now.
    if any(folder.iterdir()):
        return
    try:
        write_atomically(folder / ".gitignore", "*\n", durable=False)
    except LogosError:
        # Whoever comes next must find it fresh again, or git would see it.
        with suppress(OSError):
            folder.rmdir()
        raise


def set_aside(path: Path, stamp: str) -> Path:
    """Keep a damaged file under another name, never overwriting one that was kept before."""
    kept = aside(path, stamp)
    os.replace(path, kept)
    return kept


def aside(path: Path, stamp: str) -> Path:
    """A name for a damaged file that nothing has yet."""
    for number in range(1000):
        kept = path.with_name(f"{path.name}.damaged-{stamp}" + (f"-{number}" if number else ""))
        if not kept.exists():
            return kept
    raise UsageError(f"too many damaged copies beside {path}; remove some")
