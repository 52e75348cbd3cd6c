"""The little git that the cycle needs: is this a repository, and commit what the agents did."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(wd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments],
        cwd=wd,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        check=False,
    )


def is_repository(wd: Path) -> bool:
    return git(wd, "rev-parse", "--is-inside-work-tree").stdout.strip() == "true"
