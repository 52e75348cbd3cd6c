"""Pid files: whether the process that a file names still exists, although the system reuses pids."""

from __future__ import annotations

import os
from pathlib import Path

# How far two clocks of one machine may differ about the start of a process.
CLOCK_SECONDS = 5.0


def noted_pid(path: Path) -> int | None:
    """The pid in a file, unless a process that started after the file was written has it."""
    try:
        pid, noted = int(path.read_text()), path.stat().st_mtime
    except (OSError, ValueError):
        return None
    started = _started(pid)
    return pid if started is None or started <= noted + CLOCK_SECONDS else None


def _started(pid: int) -> float | None:
    """The start time of a process, if the system has /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
    except (OSError, StopIteration):
        return None
    return int(boot.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
