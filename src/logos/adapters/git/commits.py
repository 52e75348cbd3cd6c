"""Snapshots as commits, wherever their git dir is: what their messages say, how they differ, and how files return."""

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from logos.adapters.git.command import Git, PathChange, checked_commit
from logos.adapters.git.contents import OURS, FileProblem, take
from logos.domain.turns import RunId
from logos.errors import HostError

LARGEST_FILE = 100_000_000
# The limits of one snapshot; more files usually mean that a .gitignore is missing.
MOST_FILES = 50_000
MOST_BYTES = 2_000_000_000

KEPT = "refs/logos/snapshots"
WORK_DIR = "Snapshot of the work tree"
WHOLE = "Snapshot of the repository"
_NOT_STORED = "Not stored: "


class SnapshotRefused(HostError):
    """The work tree is too large for a snapshot, or has a file that cannot be read."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a snapshot is of. `missing` are files that are there and could not be stored, with the reason."""

    whole: bool = False
    missing: tuple[tuple[str, str], ...] = ()

    @property
    def message(self) -> str:
        """The message of its commit, so that the commit's hash stands for it as well."""
        lines = (f"{_NOT_STORED}{json.dumps(problem)}\n" for problem in self.missing)
        title = WHOLE if self.whole else WORK_DIR
        return "\n\n".join(filter(None, (title, "".join(lines))))

    @classmethod
    def of(cls, problems: Iterable[FileProblem], *, whole: bool) -> "Extent":
        return cls(whole, tuple(sorted((os.fsdecode(problem.path), problem.message) for problem in problems)))

    @classmethod
    def read(cls, message: str) -> "Extent":
        """Of the message of any commit; one that is no snapshot says nothing."""
        title, *lines = message.splitlines() or [""]
        if title not in (WHOLE, WORK_DIR):
            return cls()
        try:
            named = [json.loads(line.removeprefix(_NOT_STORED)) for line in lines if line.startswith(_NOT_STORED)]
            return cls(title == WHOLE, tuple((str(path), str(why)) for path, why in named))
        except (ValueError, TypeError):
            return cls()


class SnapshotCommits(ABC):
    """The part of the port Snapshots that is the same in the person's repository and in one of ours."""

    @property
    @abstractmethod
    def prefix(self) -> str: ...

    @property
    @abstractmethod
    def _git(self) -> Git:
        """Git on the commits, the work tree, and an index of ours."""

    @property
    def _refs(self) -> Git:
        """Git on the refs of the commits."""
        return self._git

    @property
    @abstractmethod
    def _home(self) -> Path: ...

    @property
    @abstractmethod
    def top(self) -> Path:
        """The top of the work tree."""

    @cached_property
    def _root(self) -> bytes:
        return os.fsencode(self.top)

    def keep(self, commit: str) -> None:
        """Keep a commit that belongs to no run."""
        self._refs.point({f"{KEPT}/{commit[:12]}": checked_commit(commit)})

    def point(self, run: RunId, commits: Mapping[int, str] | Mapping[str, str]) -> None:
        """Record the commits of a run: of the work tree at its events, those that its log names, and `left/TURN`."""
        self._refs.point({f"refs/logos/{run}/{name}": checked_commit(commit) for name, commit in commits.items()})

    def of(self, run: RunId) -> dict[int, str]:
        refs = self._refs.refs(f"refs/logos/{run}/")
        found = {ref.rpartition("/")[2]: commit for ref, commit in refs.items() if ref.count("/") == 3}
        return {int(seq): found[seq] for seq in sorted(filter(_is_seq, found), key=int)}

    def is_whole(self, commit: str) -> bool:
        """Whether a snapshot has the whole repository although the work dir is only a folder of it."""
        if not self.prefix:
            return False
        message = self._git.line("log", "-1", "--format=%B", "--no-show-signature", checked_commit(commit))
        return Extent.read(message).whole

    def changed(self, since: str, now: str) -> list[str]:
        return [change.path.decode("utf-8", "replace") for change in self._git.changes(since, now)]

    def digest(self, since: str, now: str, without: Iterable[str]) -> str:
        return _digest_of(self._git.changes(since, now), [f"{self.prefix}{folder}" for folder in without])

    def altered(self, since: str, now: str) -> list[str]:
        return [os.fsdecode(change.path) for change in self._git.changes(since, now) if change.old_mode]

    def put_back(self, commit: str, paths: Iterable[str]) -> None:
        """Put files back as they are in a commit, with an index of their own; all other files stay as they are."""
        index = self._home / "index.put_back"
        git = self._git.using(GIT_INDEX_FILE=str(index))
        git.ask("read-tree", "--reset", checked_commit(commit))
        asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
        git.ask("checkout-index", "-z", "--force", "--stdin", stdin=asked)
        index.unlink(missing_ok=True)

    def _own_paths(self, unseen: Iterable[Path]) -> list[str]:
        """Our own files, which no snapshot has, relative to the top of the work tree."""
        inside = (str(path.relative_to(self.top)) for path in unseen if path.is_relative_to(self.top))
        return [*(f"{self.prefix}{name}" for name in (".telos/", *OURS)), *inside]

    def _staged_files(self, git: Git, paths: Iterable[bytes]) -> list[FileProblem]:
        """Update an index to the files at these paths; returns the problems of those that could not be stored."""
        problems = take(git, self.top, paths, LARGEST_FILE)
        failed = next((problem for problem in problems if not problem.path), None)
        if failed is not None:
            raise HostError(failed.message)
        return problems

    def _check_amount(self, paths: Iterable[bytes], limits: str) -> None:
        """`limits`: the beginning of the error, in which {} is the number of files."""
        sizes = [size for size in map(self._size, paths) if size is not None]
        if len(sizes) > MOST_FILES or sum(size for size in sizes if size <= LARGEST_FILE) > MOST_BYTES:
            most = f"{MOST_FILES} files, {MOST_BYTES // 10**9} GB"
            raise SnapshotRefused(f"{limits.format(len(sizes))} ({most}); is a .gitignore missing?")

    def _size(self, path: bytes) -> int | None:
        """The size of the file at a path; None if there is none."""
        try:
            return os.lstat(os.path.join(self._root, path)).st_size
        except OSError:
            return None


def exact_pattern(path: str) -> str:
    """The pattern of a .gitignore that matches exactly this path."""
    return "/" + re.sub(r"([\\*?\[\]#! ])", r"\\\1", path)


def _is_seq(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 10


def _digest_of(changes: Iterable[PathChange], without: Iterable[str]) -> str:
    """Paths and contents of the changed files in one hash, but for those below the folders."""
    left_out, hashed = tuple(map(os.fsencode, without)), sha256()
    for change in changes:
        if not change.path.startswith(left_out):
            hashed.update(b"\0".join((change.path, change.mode.encode(), change.blob.encode(), b"")))
    return hashed.hexdigest()
