"""Pieces of work merged in memory: no work tree and no index of anybody's is touched."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.git.command import (
    Change,
    Git,
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

Pieces = tuple[tuple[str, str], ...]


def merge_pieces(
    git: Git, onto: str, contributions: Pieces, prefix: str = ""
) -> tuple[str, tuple[ContentConflict, ...]]:
    """Every piece that can be merged, in order; and where the others clash with what came before them."""
    checked_commit(onto)
    if not contributions:
        return onto, ()
    with tempfile.TemporaryDirectory(prefix="logos-merge-") as folder:
        empty = Path(folder) / "empty"
        empty.mkdir()
        # Attributes come from the commit that is merged onto, not from what happens to lie in some work tree.
        git = git.using(GIT_WORK_TREE=str(empty), GIT_INDEX_FILE=f"{folder}/index").disarmed()
        date = _latest_date(git, [onto, *(commit for _, commit in contributions)])
        git.ask("read-tree", onto)
        together = _merge_apart(git, onto, contributions, date)
        return (together, ()) if together else _merge_each(git, onto, contributions, date, prefix)


def _merge_apart(git: Git, onto: str, contributions: Pieces, date: int) -> str | None:
    """One commit of pieces that change no path differently: they need no merging, only collecting. Else None."""
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


def _changes_in(git: Git, onto: str, commits: list[str]) -> dict[bytes, Change] | None:
    """What all commits together change; None where two do different things to a path, or a file is another's folder."""
    found: dict[bytes, Change] = {}
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
    git: Git, onto: str, contributions: Pieces, date: int, prefix: str
) -> tuple[str, tuple[ContentConflict, ...]]:
    commit, tree, clashes, before = onto, tree_of(git, onto), list[ContentConflict](), list[tuple[str, str]]()
    for component, contribution in contributions:
        union = merge_trees(git, commit, contribution)
        if union.conflicts:
            clashes += _clashes(git, onto, component, union.conflicts, before, prefix)
        elif union.tree != tree:
            # What changes nothing is in already.
            tree = union.tree
            commit = commit_tree(git, tree, [commit, contribution], f"Merge {component}", date)
            before.append((component, contribution))
    return commit, tuple(clashes)


@dataclass(frozen=True, slots=True)
class Conflict:
    path: bytes
    detail: str


@dataclass(frozen=True, slots=True)
class Union:
    """Two commits merged in memory: the tree, and where they conflict."""

    tree: str
    conflicts: tuple[Conflict, ...] = ()


def merge_trees(git: Git, ours: str, theirs: str) -> Union:
    done = git.run("merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs)
    if done.returncode not in (0, 1):
        raise HostError(f"{theirs} cannot be merged into {ours}: {provider_error(done)}")
    tree, *fields = done.stdout.split(b"\0")
    if done.returncode == 0:
        return Union(tree.decode())
    end = fields.index(b"")
    details = _details(fields[end + 1 :])
    return Union(tree.decode(), tuple(Conflict(path, details.get(path, "")) for path in dict.fromkeys(fields[:end])))


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


def _clashes(
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
    """When the youngest of these commits was made: a date that does not change when a merge is repeated."""
    done = git.run("rev-list", "--no-walk=unsorted", "--timestamp", *map(checked_commit, commits), "--")
    if done.returncode != 0:
        raise HostError(f"a commit of this run is not in the repository: {provider_error(done)}")
    return max(int(line.split()[0]) for line in done.stdout.splitlines())
