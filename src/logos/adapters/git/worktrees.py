"""Worktrees on this machine: their paths, setup and removal."""

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.commands import SupervisedCommands
from logos.adapters.files import text_of_file
from logos.adapters.git.command import Git, repository_of, text_of
from logos.adapters.programs import own_environment
from logos.errors import HostError

SETUP_SECONDS = 1800.0
SETUP_TAIL = 2_000
# Ignored files that belong to Logos, and caches, which no tool needs.
_NOT_LINKED = {".telos", ".tmp", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}


@dataclass(frozen=True, slots=True)
class WorktreePath:
    """The folder and branch of a worktree. Our own files about it are hidden files beside the folder."""

    name: str
    folder: Path
    branch: str

    @property
    def index(self) -> Path:
        return self.folder.with_name(f".{self.name}.index")

    @property
    def mark(self) -> Path:
        """A file with the start commit, written when the worktree is complete."""
        return self.folder.with_name(f".{self.name}.made")

    @property
    def setup_mark(self) -> Path:
        """A file with the setup command that has run in the worktree."""
        return self.folder.with_name(f".{self.name}.setup")

    @property
    def exists(self) -> bool:
        return self.folder.is_dir() and not self.folder.is_symlink()

    @property
    def start(self) -> str:
        return text_of_file(self.mark) if self.exists else ""


@dataclass(frozen=True, slots=True)
class Setup:
    """The user's setup command, and what runs it."""

    command: str
    commands: SupervisedCommands


class SetupFailed(HostError):
    """The user's setup command did not end with exit code 0."""

    def __init__(self, command: str, folder: Path, exit_code: int, output: str) -> None:
        self.ended_with = exit_code
        self.output = output
        super().__init__(f"the setup command {command!r} failed in {folder} (exit code {exit_code}): {output}")


def run_setup(setup: Setup, folder: Path, root: Path) -> None:
    """Run the user's setup command, if any, in a new worktree; all its processes end with the call."""
    if not setup.command:
        return
    env = {name: value for name, value in own_environment().items() if not name.startswith("GIT_")}
    words = ["/bin/sh", "-c", setup.command]
    exit_code, output = setup.commands.execute(
        words, folder, {**env, "LOGOS_ROOT": str(root)}, SETUP_SECONDS, threading.Event()
    )
    if exit_code != 0:
        raise SetupFailed(setup.command, folder, exit_code, output[-SETUP_TAIL:].strip())


def link_ignored(wd: Path, folder: Path) -> list[str]:
    """Link the files and folders that git ignores in the work dir into its worktree, where it has none; their paths."""
    flags = ("--others", "--ignored", "--exclude-standard", "--directory")
    linked: list[str] = []
    for path in map(os.fsdecode, Git(wd).paths("ls-files", "-z", *flags)):
        link = folder / path.rstrip("/")
        # A folder of the worktree may be a link to somewhere else.
        inside = link.parent.is_dir() and link.parent.resolve().is_relative_to(folder.resolve())
        if inside and not os.path.lexists(link) and _NOT_LINKED.isdisjoint(Path(path).parts):
            link.symlink_to(wd / path)
            linked.append(text_of(os.fsencode(path)))
    return linked


def worktrees_of(wd: Path) -> list[Path]:
    """This folder in every worktree of the repository; git itself would fail at an unfinished one."""
    here = repository_of(wd)
    main = [here.common.parent] if here.common.name == ".git" else []
    others = [Path(owner).parent for folder in (here.common / "worktrees").glob("*") if (owner := owner_of(folder))]
    return [top / here.prefix if here.prefix else top for top in dict.fromkeys([here.top, *main, *others])]


def owner_of(folder: Path) -> str:
    """The .git file of the worktree that a folder in GIT_DIR/worktrees belongs to; empty if unknown."""
    path = text_of_file(folder / "gitdir", "surrogateescape").strip()
    return os.path.normpath(folder / path) if path else ""
