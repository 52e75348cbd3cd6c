"""What changed in a repository, as git tells it; nothing is touched."""

from __future__ import annotations

import shutil
from pathlib import Path

MOST_FILES = 20


def changes(place: Path) -> list[str]:
    """Uncommitted changes as `git diff --stat` shows them, and new files by name; empty outside a repository."""
    from logos.adapters.git.command import git, is_repository

    if shutil.which("git") is None or not is_repository(place):
        return []
    # HEAD is missing in a repository without commits; then everything is new.
    stat = git(place, "--no-optional-locks", "diff", "--stat", "--no-color", "--no-ext-diff", "HEAD", "--", ".")
    lines = [line.rstrip() for line in stat.stdout.splitlines()] if stat.returncode == 0 else []
    new = git(place, "ls-files", "--others", "--exclude-standard").stdout.splitlines()
    lines += [f" {name} (new)" for name in new[:MOST_FILES]]
    if len(new) > MOST_FILES:
        lines.append(f" and {len(new) - MOST_FILES} more new files")
    return lines
