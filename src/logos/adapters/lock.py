"""One driver per work dir: a file lock that the kernel releases when its holder dies; the file names the holder."""

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from logos.adapters.files import bytes_of_file, own_folder, refused
from logos.adapters.supervisor import identity
from logos.errors import Busy

# How long the lock of a killed driver may outlive it: a child that it had just forked holds the lock until it executes.
ORPHANED_SECONDS = 5.0
RETRY_SECONDS = 0.02
_MAX_BYTES = 1000


@contextmanager
def driver_lock(path: Path, pause: Callable[[float], object] = time.sleep) -> Generator[None]:
    try:
        own_folder(path.parent)
        # A link could lead to a file of the person's, which would be emptied.
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise refused(f"cannot write {path}", error) from error
    try:
        _take(path, handle, pause)
        try:
            yield
        finally:
            with suppress(OSError):
                os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _take(path: Path, handle: int, pause: Callable[[float], object]) -> None:
    until = time.monotonic() + ORPHANED_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, " ".join((str(own := os.getpid()), *identity(own))).encode(), 0)
            return
        except BlockingIOError:
            pid = holder(path)
            # No live driver is named: it begins, ends or was killed just now.
            if driver_of(path) is not None or time.monotonic() >= until:
                raise Busy(f"another driver (pid {pid or 'unknown'}) is active in {path.parent.parent}") from None
        except OSError as error:
            raise refused(f"cannot write {path}", error) from error
        pause(RETRY_SECONDS)


def holder(path: Path) -> int | None:
    """The pid in a lock file; None if there is none."""
    return int(words[0]) if (words := _words(path)) else None


def driver_of(path: Path) -> int | None:
    """The pid of the live driver, or None. The lock is not tried: that could keep a driver from starting.

    The system reuses pids, another container has its own, and an agent can write any: the process must be the one that
    wrote the file, and hold the lock.
    """
    words = _words(path)
    if not words or (len(words) > 1 and (*words[1:],) != identity(int(words[0]))):
        return None
    try:
        # PermissionError: the process belongs to another user. OverflowError: no process has such a number.
        with suppress(PermissionError):
            os.kill(int(words[0]), 0)
    except (ProcessLookupError, OverflowError):
        return None
    return int(words[0]) if _is_locked_by(int(words[0]), path) else None


def _is_locked_by(pid: int, path: Path) -> bool:
    """Whether a process holds the lock on a file; True where the system does not tell who holds which."""
    try:
        listed = Path("/proc/locks").read_text("ascii", "replace").splitlines()
        inode = str(path.stat().st_ino)
    except OSError:
        return True
    locks = (line.split() for line in listed)
    # NUMBER: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END
    own = [words[5].rpartition(":")[2] for words in locks if words[1] == "FLOCK" and words[4] == str(pid)]
    # The inodes of some file systems have other numbers there.
    return inode in own or (bool(own) and _has_open(pid, path))


def _has_open(pid: int, path: Path) -> bool:
    for handle in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):
            if handle.samefile(path):
                return True
    return False


def _words(path: Path) -> list[str]:
    """A pid and its identity, or a pid alone, as earlier versions wrote it."""
    try:
        words = bytes_of_file(path, limit=_MAX_BYTES).decode("ascii").split()
    except (OSError, UnicodeDecodeError):
        return []
    return words if len(words) in (1, 4) and words[0].isdigit() and int(words[0]) > 0 else []
