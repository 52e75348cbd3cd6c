"""One driver per work dir: a file lock that the kernel releases when its holder dies; the file contains the pid.

Also for other files with a pid: whether that process still exists, although the system reuses pids.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from logos.adapters.files import own_folder, refused
from logos.errors import Busy

# How long the lock of a killed driver may outlive it: a child that it had just forked holds the lock until it executes.
ORPHANED_SECONDS = 5.0
RETRY_SECONDS = 0.02
# How far two clocks of one machine may differ about the start of a process.
CLOCK_SECONDS = 5.0


class DriverLock:
    def __init__(self, path: Path, pause: Callable[[float], object] = time.sleep) -> None:
        self._path = path
        self._pause = pause
        self._handle: int | None = None

    def __enter__(self) -> DriverLock:
        try:
            own_folder(self._path.parent)
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise refused(f"cannot write in {self._path.parent}", error) from error
        try:
            self._take(handle)
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        return self

    def _take(self, handle: int) -> None:
        try:
            self._lock(handle)
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        except BlockingIOError:
            pid = holder(self._path) or "unknown"
            raise Busy(f"another driver (pid {pid}) is active in {self._path.parent.parent}") from None
        except OSError as error:
            raise refused(f"cannot write {self._path}", error) from error

    def _lock(self, handle: int) -> None:
        until = time.monotonic() + ORPHANED_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                killed = holder(self._path) is not None and driver_of(self._path) is None
                if not killed or time.monotonic() >= until:
                    raise
            self._pause(RETRY_SECONDS)

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            with suppress(OSError):
                os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None


def holder(path: Path) -> int | None:
    """The pid in a file; None if there is none."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdigit() else None


def noted_pid(path: Path) -> int | None:
    """The pid in a file, unless a process that started after the file was written has it."""
    pid = holder(path)
    try:
        # Where the system has /proc, it says when the process started, counted from the start of the system.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
        started = int(boot.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return pid if started <= path.stat().st_mtime + CLOCK_SECONDS else None
    except (OSError, StopIteration):
        return pid


def driver_of(path: Path) -> int | None:
    """The pid of the live driver, or None. The lock is not tried: that could keep a driver from starting."""
    pid = noted_pid(path)
    if not pid:
        return None
    try:
        # PermissionError: the process belongs to another user.
        with suppress(PermissionError):
            os.kill(pid, 0)
    except ProcessLookupError:
        return None
    return pid
