"""Writing files so that a crash leaves the old one or the new one, readable by their owner alone."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from logos.errors import LogosError, UsageError

# The disk, the user's quota or the maximum size of a file is reached.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_atomically(path: Path, content: str | bytes, *, durable: bool = True) -> None:
    """Write a temporary file beside the target and rename it; `durable` files survive a power cut."""
    try:
        private_folder(path.parent)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as sink:
                sink.write(content.encode() if isinstance(content, str) else content)
                sink.flush()
                if durable:
                    os.fsync(sink.fileno())
            os.replace(temporary, path)
        except BaseException:
            # missing_ok: a signal may arrive after the rename.
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise refused(f"cannot write {path}", error) from error


def text_of_file(path: Path, errors: str = "replace") -> str:
    """The text of a file; empty if it cannot be read."""
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors=errors)
    return ""


def refused(what: str, error: OSError) -> LogosError:
    """The error for a refused file operation. A full disk is not a usage error: the command works with more space."""
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
    """A private folder inside the user's repository, with a .gitignore for all its files."""
    private_folder(folder)
    # A process that was killed may have left it empty.
    if any(folder.iterdir()):
        return
    try:
        write_atomically(folder / ".gitignore", "*\n", durable=False)
    except LogosError:
        # The next process must find no folder, so that it writes the .gitignore.
        with suppress(OSError):
            folder.rmdir()
        raise


@contextmanager
def opened_folder(folder: Path) -> Generator[int]:
    """A handle of a folder, to sync or to lock it."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def set_aside(path: Path, stamp: str) -> Path:
    """Keep a damaged file under another name, never overwriting one that was kept before."""
    kept = aside(path, stamp)
    os.replace(path, kept)
    return kept


def aside(path: Path, stamp: str) -> Path:
    """An unused name for a damaged file."""
    for number in range(1000):
        kept = path.with_name(f"{path.name}.damaged-{stamp}" + (f"-{number}" if number else ""))
        if not kept.exists():
            return kept
    raise UsageError(f"too many damaged copies beside {path}; remove some")
