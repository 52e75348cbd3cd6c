"""What changed in a repository, as git shows it; nothing is modified."""

from __future__ import annotations

import shutil
from pathlib import Path

from logos.adapters.git.command import git, is_repository
from logos.adapters.git.workspace import diff_stat
from logos.flows.levels.state import LevelsState

MAX_NEW_FILES = 20


def changes(work_dir: Path) -> list[str]:
    """Uncommitted changes as `git diff --stat` shows them, and new files by name; empty outside a repository."""
    if shutil.which("git") is None or not is_repository(work_dir):
        return []
    # A repository without commits has no HEAD; every file is new then.
    stat = git(work_dir, "--no-optional-locks", "diff", "--stat", "--no-color", "--no-ext-diff", "HEAD", "--", ".")
    lines = [line.rstrip() for line in stat.stdout.splitlines()] if stat.returncode == 0 else []
    new = git(work_dir, "ls-files", "--others", "--exclude-standard").stdout.splitlines()
    lines += [f" {name} (new)" for name in new[:MAX_NEW_FILES]]
    if len(new) > MAX_NEW_FILES:
        lines.append(f" and {len(new) - MAX_NEW_FILES} more new files")
    return lines


def built_changes(work_dir: Path, state: LevelsState) -> list[str]:
    """What a build changed, as `git diff --stat` shows it."""
    return diff_stat(work_dir, state.plan.base, state.result) if state.result else []


def code_diff(work_dir: Path, branch: str, without: tuple[str, ...] = ()) -> str:
    """The diff of the Python files from HEAD to a branch; without a branch, to the work tree."""
    excluded = (f":(exclude){pattern}" for pattern in without)
    target = (branch,) if branch else ()
    return git(work_dir, "diff", "--no-color", "--no-ext-diff", "HEAD", *target, "--", "*.py", *excluded).stdout
