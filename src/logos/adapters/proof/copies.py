"""Snapshots without the person's repository: copies of the work dir in a private one, in the user state folder."""

import os
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from logos.adapters.files import private_folder
from logos.adapters.git.command import Git, checked_commit, is_repository, repository_of
from logos.adapters.git.contents import OURS, take
from logos.adapters.git.snapshots import (
    KEPT,
    LARGEST_FILE,
    MOST_BYTES,
    MOST_FILES,
    SnapshotRefused,
    digest_of,
    put_files_back,
)
from logos.adapters.proof.checkout import AS_STORED, SnapshotStore, bare_git_dir
from logos.adapters.proof.lending import DEPENDENCIES
from logos.adapters.store.mirror import state_folder
from logos.domain.turns import RunId
from logos.errors import HostError

# Not the person's work, also where no .gitignore says so.
_NEVER = ("__pycache__/", *(f"{name}/" for name in DEPENDENCIES))
_FILES = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--full-name")


class TreeCopies:
    """The port Snapshots for a folder without git, or with checkpoints off: copies of a work dir as commits.

    Nothing is written into the work dir, or into a repository of the person.
    """

    def __init__(self, work_dir: Path, unseen: Iterable[Path] = ()) -> None:
        self._wd = wd = work_dir.resolve()
        self._in_repository = is_repository(wd)
        self._home = copies_folder(wd)
        algorithm, objects = "sha1", self._home / "objects"
        self.store = SnapshotStore(wd, wd, "", objects, algorithm)
        if self._in_repository:
            found, algorithm = repository_of(wd), Git(wd).line("rev-parse", "--show-object-format")
            self.store = SnapshotStore(wd, found.top, found.prefix, objects, algorithm, found.common)
        prefix, top = self.store.prefix, self.store.top
        ours = [f"{prefix}{name}" for name in (".telos/", *OURS)]
        ours += [str(path.relative_to(top)) for path in unseen if path.is_relative_to(top)]
        self._ours = tuple(map(os.fsencode, ours))
        self._git = self._prepare()

    @property
    def prefix(self) -> str:
        return self.store.prefix

    def take(self, *, anew: bool = False) -> str:  # noqa: ARG002 - no agent reaches this index
        """The commit of the files as they are; the same files on the same HEAD give the same commit."""
        paths = self._paths()
        self._check_amount(paths)
        (self._home / "index.lock").unlink(missing_ok=True)
        problems = take(self._git, self.store.top, paths, LARGEST_FILE)
        failed = next((problem for problem in problems if not problem.path), None)
        if failed is not None:
            raise HostError(failed.message)
        head = Git(self._wd).commit("HEAD") if self._in_repository else ""
        return self._git.commit_tree(self._git.line("write-tree"), [head] if head else [], "Copy of the work dir", at=0)

    def point(self, run: RunId, commits: Mapping[int, str] | Mapping[str, str]) -> None:
        self._git.point({f"refs/logos/{run}/{name}": checked_commit(commit) for name, commit in commits.items()})

    def of(self, run: RunId) -> dict[int, str]:
        refs = self._git.refs(f"refs/logos/{run}/")
        found = {ref.rpartition("/")[2]: commit for ref, commit in refs.items()}
        return {int(seq): found[seq] for seq in sorted(filter(str.isdecimal, found), key=int)}

    def keep(self, commit: str) -> None:
        self._git.point({f"{KEPT}/{commit[:12]}": checked_commit(commit)})

    def changed(self, since: str, now: str) -> list[str]:
        return [change.path.decode("utf-8", "replace") for change in self._git.changes(since, now)]

    def digest(self, since: str, now: str, without: str) -> str:
        return digest_of(self._git.changes(since, now), f"{self.prefix}{without}")

    def altered(self, since: str, now: str) -> list[str]:
        return [os.fsdecode(change.path) for change in self._git.changes(since, now) if change.old_mode]

    def put_back(self, commit: str, paths: Iterable[str]) -> None:
        put_files_back(self._git, self._home / "index.put_back", commit, paths)

    def remember(self, commits: Iterable[str]) -> None:
        """Nothing to do: the same files always give the same commit."""

    def _prepare(self) -> Git:
        bare_git_dir(self._home, self.store.algorithm)
        private_folder(self._home / "objects" / "info")
        (self._home / "info" / "attributes").write_text(AS_STORED)
        # A commit of the person is the parent, so that tools in a room find the history.
        shared = self.store.common / "objects" if self.store.common else None
        (self._home / "objects" / "info" / "alternates").write_bytes(os.fsencode(shared) + b"\n" if shared else b"")
        variables = {"GIT_DIR": str(self._home), "GIT_WORK_TREE": str(self.store.top), "GIT_LITERAL_PATHSPECS": "1"}
        return Git(self.store.top, variables, root=self._wd, is_disarmed=True)

    def _paths(self) -> list[bytes]:
        """The files that git would store, and those of the last copy: they may be gone."""
        mine = self._git.paths("ls-files", "-z")
        if self._in_repository:
            listed = Git(self._wd).paths(*_FILES)
        else:
            patterns = [f"--exclude={pattern}" for pattern in (*_NEVER, *(_exactly(path) for path in self._ours))]
            listed = self._git.paths(*_FILES, *patterns)
        return sorted(path for path in {*mine, *listed} if not path.startswith(self._ours))

    def _check_amount(self, paths: Iterable[bytes]) -> None:
        sizes = [size for path in paths if (size := self._size(path)) is not None]
        if len(sizes) > MOST_FILES or sum(size for size in sizes if size <= LARGEST_FILE) > MOST_BYTES:
            raise SnapshotRefused(
                f"{self._wd} has {len(sizes)} files, more than a copy can hold ({MOST_FILES} files, "
                f"{MOST_BYTES // 10**9} GB); is a .gitignore missing?"
            )

    def _size(self, path: bytes) -> int | None:
        try:
            return os.lstat(os.path.join(os.fsencode(self.store.top), path)).st_size
        except OSError:
            return None


def _exactly(path: bytes) -> str:
    return "/" + re.sub(r"([\\*?\[\]#! ])", r"\\\1", os.fsdecode(path))


def copies_folder(work_dir: Path) -> Path:
    """The private repository of a work dir."""
    name = sha256(os.fsencode(os.path.realpath(work_dir))).hexdigest()[:24]
    try:
        folder = state_folder() / "copies" / name
    except OSError as error:
        raise HostError(f"a copy of the work dir needs a user state folder: {error.strerror}") from error
    private_folder(folder)
    return folder
