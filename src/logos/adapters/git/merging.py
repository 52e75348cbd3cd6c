"""Merging contributions in memory, without a work tree or the user's index."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.git.command import (
    Git,
    PathChange,
    changes,
    changes_of_many,
    checked_commit,
    commit_tree,
    provider_error,
    text_of,
    tree_of,
)
from logos.adapters.git.contents import seen_from
from logos.domain.specs import ContentConflict
from logos.errors import HostError

Contributions = tuple[tuple[str, str], ...]


def merge_contributions(
    git: Git, onto: str, contributions: Contributions, prefix: str = ""
) -> tuple[str, tuple[ContentConflict, ...]]:
    """Merge, in order, every contribution that has no conflict; returns the commit and the conflicts of the others."""
    checked_commit(onto)
    if not contributions:
        return onto, ()
    with tempfile.TemporaryDirectory(prefix="logos-merge-") as folder:
        empty = Path(folder) / "empty"
        empty.mkdir()
        # An empty work tree: attributes come from the commit that is merged onto.
        git = git.using(GIT_WORK_TREE=str(empty), GIT_INDEX_FILE=f"{folder}/index").disarmed()
        date = _latest_date(git, [onto, *(commit for _, commit in contributions)])
        git.ask("read-tree", onto)
        together = _merge_disjoint(git, onto, contributions, date)
        return (together, ()) if together else _merge_each(git, onto, contributions, date, prefix)


def _merge_disjoint(git: Git, onto: str, contributions: Contributions, date: int) -> str | None:
    """One commit of all contributions if no path is changed in two ways; otherwise None."""
    new = {commit: name for name, commit in contributions if commit != onto}
    commits = list(new)
    common = git.run("merge-base", "--octopus", onto, *commits).stdout.decode().strip()
    changed = _changes_in(git, onto, commits) if common == onto else None
    if changed is None:
        return None
    entries = b"".join(
        f"{change.mode or 0} {change.blob or '0' * len(change.old_blob)}\t".encode() + path + b"\0"
        for path, change in changed.items()
    )
    if git.run("update-index", "-z", "--index-info", stdin=entries).returncode != 0:
        return None
    tree = git.line("write-tree")
    if tree == tree_of(git, onto):
        return onto
    return commit_tree(git, tree, [onto, *commits], f"Merge {', '.join(new.values())}", date)


def _changes_in(git: Git, onto: str, commits: list[str]) -> dict[bytes, PathChange] | None:
    """The changes of all commits; None if two change a path differently, or a file of one is a folder of another."""
    found: dict[bytes, PathChange] = {}
    for change in changes_of_many(git, onto, commits):
        other = found.setdefault(change.path, change)
        if (other.mode, other.blob) != (change.mode, change.blob):
            return None
    files = {path for path, change in found.items() if change.blob}
    folders = {
        b"/".join(parts[:depth]) for path in files for parts in (path.split(b"/"),) for depth in range(1, len(parts))
    }
    return None if files & folders else found


def _merge_each(
    git: Git, onto: str, contributions: Contributions, date: int, prefix: str
) -> tuple[str, tuple[ContentConflict, ...]]:
    commit, tree, conflicts, before = onto, tree_of(git, onto), list[ContentConflict](), list[tuple[str, str]]()
    for component, contribution in contributions:
        merged = merge_trees(git, commit, contribution)
        if merged.conflicts:
            conflicts += _content_conflicts(git, onto, component, merged.conflicts, before, prefix)
        elif merged.tree != tree:
            # A contribution without changes is merged already.
            tree = merged.tree
            commit = commit_tree(git, tree, [commit, contribution], f"Merge {component}", date)
            before.append((component, contribution))
    return commit, tuple(conflicts)


@dataclass(frozen=True, slots=True)
class Conflict:
    path: bytes
    detail: str


@dataclass(frozen=True, slots=True)
class MergedTree:
    """The tree of two merged commits, and their conflicts."""

    tree: str
    conflicts: tuple[Conflict, ...] = ()


def merge_trees(git: Git, ours: str, theirs: str) -> MergedTree:
    done = git.run("merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs)
    if done.returncode not in (0, 1):
        raise HostError(f"{theirs} cannot be merged into {ours}: {provider_error(done)}")
    tree, *fields = done.stdout.split(b"\0")
    if done.returncode == 0:
        return MergedTree(tree.decode())
    end = fields.index(b"")
    details = _details(fields[end + 1 :])
    return MergedTree(
        tree.decode(), tuple(Conflict(path, details.get(path, "")) for path in dict.fromkeys(fields[:end]))
    )


def _details(fields: list[bytes]) -> dict[bytes, str]:
    """The first conflict message about each path, from records of a count, that many paths, a kind and a message."""
    details: dict[bytes, str] = {}
    while fields and fields[0]:
        count = int(fields[0])
        paths, kind, message = fields[1 : count + 1], fields[count + 1], fields[count + 2]
        fields = fields[count + 3 :]
        if kind.startswith(b"CONFLICT"):
            for path in paths:
                details.setdefault(path, " ".join(text_of(message).split()))
    return details


def _content_conflicts(
    git: Git, onto: str, component: str, conflicts: Iterable[Conflict], before: Iterable[tuple[str, str]], prefix: str
) -> list[ContentConflict]:
    touched = {name: _touched_since(git, onto, contribution) for name, contribution in before}
    return [
        ContentConflict(
            "merge",
            (component, *(name for name, paths in touched.items() if conflict.path in paths)),
            seen_from(prefix, conflict.path),
            conflict.detail,
        )
        for conflict in conflicts
    ]


def _touched_since(git: Git, onto: str, contribution: str) -> set[bytes]:
    return {change.path for change in changes(git, git.line("merge-base", onto, contribution), contribution)}


def _latest_date(git: Git, commits: Iterable[str]) -> int:
    """The date of the newest of these commits: repeating a merge gives the same date."""
    done = git.run("rev-list", "--no-walk=unsorted", "--timestamp", *map(checked_commit, commits), "--")
    if done.returncode != 0:
        raise HostError(f"a commit of this run is not in the repository: {provider_error(done)}")
    return max(int(line.split()[0]) for line in done.stdout.splitlines())
