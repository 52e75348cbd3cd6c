"""Merging contributions in memory, without a work tree or the user's index."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from logos.adapters.git.command import Git, PathChange, checked_commit, provider_error, text_of
from logos.adapters.git.contents import seen_from
from logos.domain.specs import ContentConflict
from logos.errors import HostError

Contributions = tuple[tuple[str, str], ...]
# The commit, and the conflicts of contributions that are not in it.
Merged = tuple[str, tuple[ContentConflict, ...]]


def merge_contributions(git: Git, onto: str, contributions: Contributions, prefix: str = "") -> Merged:
    """Merge, in order, every contribution that has no conflict."""
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
    if tree == git.tree_of(onto):
        return onto
    return git.commit_tree(tree, [onto, *commits], f"Merge {', '.join(new.values())}", date)


def _changes_in(git: Git, onto: str, commits: list[str]) -> dict[bytes, PathChange] | None:
    """The changes of all commits; None if two change a path differently, or a file of one is a folder of another."""
    found: dict[bytes, PathChange] = {}
    for change in git.changes(onto, *commits):
        other = found.setdefault(change.path, change)
        if (other.mode, other.blob) != (change.mode, change.blob):
            return None
    files = {path for path, change in found.items() if change.blob}
    folders = {
        b"/".join(parts[:depth]) for path in files for parts in (path.split(b"/"),) for depth in range(1, len(parts))
    }
    return None if files & folders else found


def _merge_each(git: Git, onto: str, contributions: Contributions, date: int, prefix: str) -> Merged:
    commit, tree, conflicts, merged = onto, git.tree_of(onto), list[ContentConflict](), dict[str, str]()
    for component, contribution in contributions:
        new, clashes = _merge_trees(git, commit, contribution)
        if clashes:
            bases = {name: git.line("merge-base", onto, other) for name, other in merged.items()}
            touched = {(name, it.path) for name, base in bases.items() for it in git.changes(base, merged[name])}
            for path, detail in clashes.items():
                others = (name for name in merged if (name, path) in touched)
                conflicts.append(ContentConflict("merge", (component, *others), seen_from(prefix, path), detail))
        elif new != tree:
            # A contribution without changes is merged already.
            tree, merged[component] = new, contribution
            commit = git.commit_tree(tree, [commit, contribution], f"Merge {component}", date)
    return commit, tuple(conflicts)


def _merge_trees(git: Git, ours: str, theirs: str) -> tuple[str, dict[bytes, str]]:
    """The tree of two merged commits, and the paths that conflict, with git's message about each."""
    done = git.run("merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs)
    if done.returncode not in (0, 1):
        raise HostError(f"{theirs} cannot be merged into {ours}: {provider_error(done)}")
    tree, *fields = done.stdout.split(b"\0")
    if done.returncode == 0:
        return tree.decode(), {}
    end = fields.index(b"")
    clashes, fields, details = fields[:end], fields[end + 1 :], dict[bytes, str]()
    # The first conflict message about each path; a record is a count, that many paths, a kind and a message.
    while fields and fields[0]:
        count = int(fields[0])
        paths, kind, message = fields[1 : count + 1], fields[count + 1], fields[count + 2]
        fields = fields[count + 3 :]
        if kind.startswith(b"CONFLICT"):
            details = {**dict.fromkeys(paths, " ".join(text_of(message).split())), **details}
    return tree.decode(), {path: details.get(path, "") for path in clashes}


def _latest_date(git: Git, commits: Iterable[str]) -> int:
    """The date of the newest of these commits: repeating a merge gives the same date."""
    done = git.run("rev-list", "--no-walk=unsorted", "--timestamp", *map(checked_commit, commits), "--")
    if done.returncode != 0:
        raise HostError(f"a commit of this run is not in the repository: {provider_error(done)}")
    return max(int(line.split()[0]) for line in done.stdout.splitlines())
