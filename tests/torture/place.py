"""A work dir as it must be: what agents, the person and rollbacks made of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.torture.files import Entry, Tree, different, is_ignored, read_tree, visible
from tests.torture.world import World


@dataclass(slots=True)
class Due:
    """A rollback that was killed after its run was in the log: whoever comes next finishes it."""

    run: str
    before: Tree
    target: Tree


@dataclass(frozen=True, slots=True)
class Visit:
    """Somebody came to a work dir, a driver or a person with a command: how far each run was then, and what lay there.

    Unsettled: an agent whose driver was killed was still at work.
    """

    name: str
    since: Mapping[str, int]
    lay: set[str]
    unsettled: bool


@dataclass(slots=True)
class Worktree:
    """A work dir as it must be."""

    folder: Path
    tree: dict[str, Entry]
    head: str
    branch: str
    head_tree: Tree
    index_tree: Tree
    index: Path
    index_bytes: bytes
    due: Due | None = None
    story: str = ""
    # A fork that was killed at its very end is in the log and not in the state file.
    told_to_resume: bool = False
    # Paths that an agent who was ended in the middle of its work may or may not have changed.
    unsure: set[str] = field(default_factory=set[str])

    @property
    def mark(self) -> Path:
        return self.folder / ".telos" / "rollback.json"

    @property
    def free(self) -> set[str]:
        """Paths of which nobody can say what they are now."""
        return self.unsure | (different(self.due.before, self.due.target) if self.due is not None else set())

    @property
    def is_dirty(self) -> bool:
        return visible(self.tree) != self.head_tree

    def stage(self, world: World, path: str) -> None:
        """The person stages one file, if git sees it."""
        if path not in visible(self.tree):
            return
        world.git(self.folder, "add", "--", f":(literal){path}")
        clashing = {own for own in self.index_tree if own.startswith(f"{path}/") or path.startswith(f"{own}/")}
        kept = {own: entry for own, entry in self.index_tree.items() if own not in clashing}
        self.index_tree = {**kept, path: self.tree[path]}
        self.index_bytes = self.index.read_bytes()

    def commit(self, world: World) -> None:
        """The person commits everything."""
        world.git(self.folder, "add", "-A")
        world.git(self.folder, "commit", "--allow-empty", "-qm", "mine")
        self.head = world.git(self.folder, "rev-parse", "HEAD").decode().strip()
        self.head_tree = self.index_tree = visible(self.tree)
        self.index_bytes = self.index.read_bytes()

    def switch(self, world: World, branch: str) -> None:
        """The person goes on on a new branch."""
        world.git(self.folder, "checkout", "-q", "-b", branch)
        self.branch = branch
        self.index_bytes = self.index.read_bytes()

    def compare(self) -> tuple[dict[str, Entry], set[str]]:
        """What lies there, and the paths at which that is not what should."""
        there = read_tree(self.folder)
        return there, self.without_free(different(there, self.tree))

    def without_free(self, paths: Iterable[str]) -> set[str]:
        free = self.free
        return {path for path in paths if not any(_within(path, own) for own in free)}


def restored(now: Tree, target: Tree) -> dict[str, Entry]:
    """A work dir in which files were put back: ignored ones stay."""
    return {**{path: entry for path, entry in now.items() if is_ignored(path)}, **visible(target)}


def read_mark(place: Worktree) -> dict[str, Any]:
    return json.loads(place.mark.read_text()) if place.mark.exists() else {}


def _within(path: str, other: str) -> bool:
    return bool(other) and (path == other or path.startswith(f"{other}/"))
