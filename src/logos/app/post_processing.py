"""Post-processing after a PASS: archive the OpenSpec change, commit the work. Neither changes the exit code."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from subprocess import DEVNULL

from logos.adapters.git.command import git, is_repository
from logos.app.settings import Settings

# How long archiving may take.
SECONDS = 120
# Files that Logos writes are never committed; the state file, which may lie elsewhere, is added to them.
OURS = (".telos", ".tmp")

Tell = Callable[[str], object]


class Done(StrEnum):
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


def active_changes(wd: Path) -> list[str]:
    folder = wd / "openspec" / "changes"
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and entry.name != "archive")


def detect_active_change(wd: Path) -> str | None:
    """The one active change, or None when there is none or more than one."""
    found = active_changes(wd)
    return found[0] if len(found) == 1 else None


def archive(wd: Path, tell: Tell) -> Done:
    change = detect_active_change(wd)
    if change is None:
        found = ", ".join(active_changes(wd)) or "none"
        tell(f"openspec archive skipped: exactly one active change is needed, found: {found}")
        return Done.SKIPPED
    binary = shutil.which("openspec")
    if binary is None:
        tell("openspec archive failed: no `openspec` on the PATH")
        return Done.FAILED
    try:
        words = [binary, "archive", change, "--yes"]
        ran = subprocess.run(
            words, cwd=wd, capture_output=True, text=True, errors="replace", stdin=DEVNULL, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        tell(f"openspec archive {change} failed: {error}")
        return Done.FAILED
    if ran.returncode != 0:
        tell(f"openspec archive {change} failed: {(ran.stderr or ran.stdout).strip()[-300:]}")
        return Done.FAILED
    tell(f"openspec change {change} archived")
    return Done.DONE


def commit(wd: Path, settings: Settings, explore: str, tell: Tell) -> Done:
    if not is_repository(wd):
        tell("git commit skipped: not a git repository")
        return Done.SKIPPED
    ours = [f":(literal){name}" for name in (*OURS, *_within(wd, settings.state_path))]
    staged = git(wd, "add", "-A", "--", ".", *(path.replace("(", "(exclude,", 1) for path in ours))
    # An agent may have staged them.
    git(wd, "reset", "-q", "--", *ours)
    if staged.returncode == 0 and git(wd, "diff", "--cached", "--quiet").returncode == 0:
        tell("No changes to commit")
        return Done.SKIPPED
    comment = settings.post_processing.git_commit_comment or comment_for(explore)
    made = git(wd, "commit", "-q", "-m", comment) if staged.returncode == 0 else staged
    if made.returncode != 0:
        tell(f"git commit failed: {(made.stderr or made.stdout).strip()[-300:]}")
        return Done.FAILED
    tell(f"committed: {git(wd, 'log', '-1', '--format=%h %s').stdout.strip()}")
    return Done.DONE


def _within(wd: Path, path: Path) -> list[str]:
    """The path relative to the work dir, where it is in its repository: git refuses others."""
    top = Path(git(wd, "rev-parse", "--show-toplevel").stdout.rstrip("\n"))
    found = path.parent.resolve() / path.name
    return [os.path.relpath(found, wd.resolve())] if found.is_relative_to(top.resolve()) else []


def comment_for(explore: str) -> str:
    """A commit message from the first line of what was asked for."""
    first = next((line.strip(" #*-") for line in explore.splitlines() if line.strip(" #*-")), "agents' work")
    return first if len(first) <= 72 else first[:69] + "..."


def post_process(wd: Path, settings: Settings, explore: str, tell: Tell) -> None:
    """Do what the settings ask for; `explore` is what the run was asked for."""
    post = settings.post_processing
    archived = archive(wd, tell) if post.openspec_archive else Done.SKIPPED
    if post.git_commit and archived is Done.FAILED:
        tell("git commit skipped: archiving failed")
    elif post.git_commit:
        commit(wd, settings, explore, tell)
