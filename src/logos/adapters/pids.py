"""Is a process that was noted down still that process? Numbers are given out again."""

from __future__ import annotations

import os
from pathlib import Path

# How far two clocks of one machine may disagree on when a process began.
CLOCK_SECONDS = 5.0


def noted_pid(path: Path) -> int | None:
    """The pid a file holds, unless its number belongs to somebody younger than the note."""
    try:
        pid, noted = int(path.read_text()), path.stat().st_mtime
    except (OSError, ValueError):
        return None
    started = _started(pid)
    return pid if started is None or started <= noted + CLOCK_SECONDS else None


def _started(pid: int) -> float | None:
    """When a process began, where the system tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
    except (OSError, StopIteration):
        return None
    return int(boot.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
