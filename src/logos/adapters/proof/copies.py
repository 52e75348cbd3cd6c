"""Snapshots without the person's repository: copies of the work dir in a private one, in the user state folder."""

import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from logos.adapters.files import private_folder
from logos.adapters.git.command import Git, is_repository, repository_of
from logos.adapters.git.commits import Extent, SnapshotCommits, exact_pattern
from logos.adapters.proof.checkout import AS_STORED, SnapshotStore, bare_git_dir
from logos.adapters.proof.lending import DEPENDENCIES
from logos.adapters.store.mirror import state_folder
from logos.errors import HostError

# Not the person's work, also where no .gitignore says so.
_NEVER = ("__pycache__/", *(f"{name}/" for name in DEPENDENCIES))
_FILES = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--full-name")


class TreeCopies(SnapshotCommits):
    """The port Snapshots for a folder without git, or with checkpoints off: copies of a work dir as commits.

    Nothing is written into the work dir, or into a repository of the person.
    """

    def __init__(self, work_dir: Path, unseen: Iterable[Path] = ()) -> None:
        self._wd = wd = work_dir.resolve()
        self._in_repository = is_repository(wd)
        self._folder = copies_folder(wd)
        algorithm, objects = "sha1", self._home / "objects"
        self.store = SnapshotStore(wd, wd, "", objects, algorithm)
        if self._in_repository:
            found, algorithm = repository_of(wd), Git(wd).line("rev-parse", "--show-object-format")
            self.store = SnapshotStore(wd, found.top, found.prefix, objects, algorithm, found.common)
        self._ours = self._own_paths(unseen)
        self._private = self._prepare()

    @property
    def prefix(self) -> str:
        return self.store.prefix

    @property
    def _home(self) -> Path:
        return self._folder

    @property
    def top(self) -> Path:
        return self.store.top

    @property
    def _git(self) -> Git:
        return self._private

    def take(self, *, anew: bool = False, whole: bool = False) -> str:  # noqa: ARG002 - no agent reaches this index
        """The commit of the files as they are; the same files on the same HEAD give the same commit."""
        whole = whole and bool(self.prefix)
        name = "index.whole" if whole else "index"
        (self._home / f"{name}.lock").unlink(missing_ok=True)
        git = self._git.using(GIT_INDEX_FILE=str(self._home / name))
        paths = self._paths(git, self.top if whole else self._wd)
        self._check_amount(paths, f"{self._wd} has {{}} files, more than a copy can hold")
        problems = self._staged_files(git, paths)
        head = Git(self._wd).commit("HEAD") if self._in_repository else ""
        message = Extent.of(problems, whole=whole).message
        return git.commit_tree(git.line("write-tree"), [head] if head else [], message, at=0)

    def remember(self, commits: Iterable[str]) -> None:
        """Nothing to do: the same files always give the same commit."""

    def _prepare(self) -> Git:
        bare_git_dir(self._home, self.store.algorithm)
        private_folder(self._home / "objects" / "info")
        (self._home / "info" / "attributes").write_text(AS_STORED)
        # A commit of the person is the parent, so that tools in a room find the history.
        shared = self.store.common / "objects" if self.store.common else None
        (self._home / "objects" / "info" / "alternates").write_bytes(os.fsencode(shared) + b"\n" if shared else b"")
        variables = {"GIT_DIR": str(self._home), "GIT_WORK_TREE": str(self.top), "GIT_LITERAL_PATHSPECS": "1"}
        return Git(self.top, variables, root=self._wd, is_disarmed=True)

    def _paths(self, git: Git, folder: Path) -> list[bytes]:
        """The files below a folder that git would store, and those of the last copy: they may be gone."""
        mine = git.paths("ls-files", "-z")
        if self._in_repository:
            listed = Git(folder).paths(*_FILES)
        else:
            patterns = [f"--exclude={pattern}" for pattern in (*_NEVER, *map(exact_pattern, self._ours))]
            listed = git.paths(*_FILES, *patterns)
        ours = tuple(map(os.fsencode, self._ours))
        return sorted(path for path in {*mine, *listed} if not path.startswith(ours))


def copies_folder(work_dir: Path) -> Path:
    """The private repository of a work dir."""
    name = sha256(os.fsencode(os.path.realpath(work_dir))).hexdigest()[:24]
    try:
        folder = state_folder() / "copies" / name
    except OSError as error:
        raise HostError(f"a copy of the work dir needs a user state folder: {error.strerror}") from error
    private_folder(folder)
    return folder
