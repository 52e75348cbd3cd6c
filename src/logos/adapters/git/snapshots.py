"""Snapshots of a work tree as commits outside branches, made with a GIT_DIR of our own, and restored exactly."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha1, sha256
from pathlib import Path

from logos.adapters.files import own_folder, private_folder, remove, text_of_file
from logos.adapters.git.command import (
    PLANTABLE,
    Git,
    PathChange,
    checked_commit,
    is_repository,
    repository_of,
    without_drivers,
)
from logos.adapters.git.contents import OURS, FileProblem, differing, take
from logos.domain.turns import RunId, TurnId
from logos.errors import HostError, UsageError

LARGEST_FILE = 100_000_000
# The limits of one snapshot; more files usually mean that a .gitignore is missing.
MOST_FILES = 50_000
MOST_BYTES = 2_000_000_000
KEPT = "refs/logos/snapshots"

# After a power cut, no ref may point to an object that was lost.
_DURABLE = (("core.fsync", "committed,loose-object"), ("core.fsyncMethod", "batch"))
# Write the index with a hash that shows damage.
_PLAIN = (("index.skipHash", "false"),)
# Store bytes unchanged: no conversion of line ends, keywords or encodings.
_ATTRIBUTES = b"* -text -ident !eol !working-tree-encoding\n"
# LFS restores what it stores, and without it files would be stored that are too large for a repository.
_TRUSTED_FILTERS = ("filter.lfs",)

_REPOSITORY = b"160000"
# How `ls-files -v` marks files that git is told not to check.
_SKIPPED = frozenset(bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyzS")
_SEQ = re.compile(r"\d{1,9}")

Tell = Callable[[str], None]


class SnapshotRefused(HostError):
    """The work tree is too large for a snapshot, or has a file that cannot be read."""


class GitSnapshots:
    """The snapshots of one work dir: tracked and untracked files, without ignored files and our own."""

    def __init__(
        self, wd: Path, unseen: Iterable[Path] = (), tell: Tell = lambda _: None, home: Path | None = None
    ) -> None:
        self._wd = wd.resolve()
        self._tell = tell
        self._warned: set[str] = set()
        self._repository = repository_of(self._wd)
        self.top = self._repository.top
        self._root = os.fsencode(self.top)
        # The work dir relative to the top of the work tree.
        self.prefix = self._repository.prefix
        # Git on the shared GIT_DIR, for refs and objects.
        self._main = self._repository.git.with_settings(_DURABLE)
        # Our own GIT_DIR. A reader uses another folder, so that it does not disturb a live driver.
        self._home = home or self._wd / ".telos" / "snapshots"
        self._index = self._home / "index"
        self._private: Git | None = None
        self._ours = [f"{self.prefix}{name}" for name in (".telos/", *OURS)]
        self._ours += [str(path.relative_to(self.top)) for path in unseen if path.is_relative_to(self.top)]
        # Patterns that match exactly our own files.
        self._patterns = ["/" + re.sub(r"([\\*?\[\]#! ])", r"\\\1", path) for path in self._ours]
        # The snapshot of a tree and the user's HEAD commit at that time.
        self._known: dict[tuple[str, str], str] = {}
        self._user_head = self._head = self._tree = ""

    def take(self, *, anew: bool = False) -> str:
        """The commit of the files as they are; the same tree on the same HEAD gives the same commit.

        `anew`: read every file, because agents can write to our index and hide files in it.
        """
        if anew:
            self._prepare()
            self._index.unlink(missing_ok=True)
            self._tree = ""
        commit, problems = self._taken()
        for message in (problem.describe(self.prefix) for problem in problems):
            if message not in self._warned:
                self._warned.add(message)
                self._tell(f"warning: not in the checkpoints: {message}")
        return commit

    def keep(self, commit: str) -> None:
        """Keep a commit that belongs to no run."""
        self._main.point({f"{KEPT}/{commit[:12]}": commit})

    def point(self, run: RunId, commits: Mapping[int, str] | Mapping[str, str]) -> None:
        """Record the commits of a run: of the work tree at its events, those that its log names, and `left/TURN`."""
        self._main.point({f"refs/logos/{run}/{name}": checked_commit(commit) for name, commit in commits.items()})

    def left_of(self, run: RunId) -> dict[TurnId, str]:
        folder = f"refs/logos/{run}/left/"
        return {TurnId(ref.removeprefix(folder)): commit for ref, commit in self._main.refs(folder).items()}

    def of(self, run: RunId) -> dict[int, str]:
        refs = self._main.refs(f"refs/logos/{run}/")
        found = {ref.rpartition("/")[2]: commit for ref, commit in refs.items() if ref.count("/") == 3}
        return {int(seq): found[seq] for seq in sorted(filter(_SEQ.fullmatch, found), key=int)}

    def changed(self, since: str, now: str) -> list[str]:
        return [change.path.decode("utf-8", "replace") for change in self._git.changes(since, now)]

    def digest(self, since: str, now: str, without: str) -> str:
        return digest_of(self._git.changes(since, now), f"{self.prefix}{without}")

    def altered(self, since: str, now: str) -> list[str]:
        return [os.fsdecode(change.path) for change in self._git.changes(since, now) if change.old_mode]

    def put_back(self, commit: str, paths: Iterable[str]) -> None:
        put_files_back(self._git, self._home / "index.put_back", commit, paths)

    def remember(self, commits: Iterable[str]) -> None:
        asked = "".join(f"{commit}\n" for commit in dict.fromkeys(commits))
        flags = ("--no-walk=unsorted", "--stdin", "--format=%H %T %P", "--no-show-signature")
        for line in self._git.line("log", *flags, stdin=asked.encode()).splitlines() if asked else ():
            commit, tree, *parents = line.split()
            self._known[tree, parents[0] if parents else ""] = commit

    # -- restoring

    def keep_before(self, commit: str) -> str:
        """Keep all files that restoring a commit would change, also ignored ones; UsageError if that is impossible."""
        self.remember([checked_commit(commit)])
        now, problems = self._taken()
        entries = self._entries(commit)
        wanted = {path for path, mode in entries.items() if mode != _REPOSITORY}
        if any(not path.startswith(os.fsencode(self.prefix)) for path in wanted):
            raise UsageError(f"commit {commit[:12]} is not a snapshot of {self._wd}")
        coming = [change.path for change in self._git.changes(now, commit) if not change.old_mode]
        # Files in no snapshot (ignored now, or before) at paths where files are to be restored.
        in_the_way = sorted({found for path in coming for found in self._files_at(path)} - self._entries(now).keys())
        if in_the_way:
            self._tree = ""
            problems = [*problems, *take(self._git, self.top, in_the_way, LARGEST_FILE)]
            now = self._commit()
        # A file that could not be staged would be lost if it is removed or overwritten.
        touched = wanted | {*self._entries(now), *in_the_way, b""} if problems else set[bytes]()
        nested = {path for path, mode in entries.items() if mode == _REPOSITORY}
        lost = [problem for problem in problems if problem.path.rstrip(b"/") in touched - nested]
        if lost:
            raise UsageError(f"{lost[0].describe(self.prefix)}, so it would be lost: move it away first")
        self.keep(now)
        return now

    def restore(self, commit: str) -> str:
        """Restore the work tree; ignored files stay. Returns the commit that keeps the files as they were before."""
        now = self.keep_before(commit)
        self._put_back(now, commit)
        return now

    def _put_back(self, now: str, commit: str) -> None:
        gone = [change.path for change in self._git.changes(now, commit) if not change.mode]
        self._tree = ""
        self._git.ask("read-tree", "--reset", "-u", commit)
        left = next((path for path in gone if path in self._files_at(path)), None)
        if left is not None:
            kept = f"the previous files are kept as commit {now[:12]}"
            raise HostError(f"{FileProblem(left, 'could not be removed').describe(self.prefix)}; {kept}")
        self._give_back_ignored(now, gone)

    def unfold(self, commit: str, folder: Path, branch: str) -> None:
        """Create a worktree with the files of a snapshot, on a new branch at its HEAD; uncommitted files stay so."""
        head = self._git.line("log", "-1", "--format=%P", checked_commit(commit)) or commit
        self.add_worktree(head, folder, branch)
        there = GitSnapshots(folder / self.prefix)
        there._put_back(there.take(), commit)

    def add_worktree(self, head: str, folder: Path, branch: str) -> None:
        if os.path.lexists(folder):
            raise UsageError(f"cannot create the worktree {folder}: it exists already")
        try:
            self._main.disarmed().ask("worktree", "add", "--quiet", "-b", branch, str(folder), checked_commit(head))
            (folder / self.prefix).mkdir(parents=True, exist_ok=True)
        except (HostError, OSError) as error:
            raise UsageError(f"cannot create the worktree {folder}: {error}") from error

    def discard(self, run: RunId, folder: Path, branch: str) -> None:
        """Remove the parts of a fork that failed."""
        self._main.run("worktree", "remove", "--force", str(folder))
        self._main.run("branch", "-D", "--quiet", branch)
        self._main.point(dict.fromkeys(self._main.refs(f"refs/logos/{run}/"), None))

    def _entries(self, commit: str) -> dict[bytes, bytes]:
        """The paths of a commit and their modes."""
        listed = self._git.paths("ls-tree", "-r", "-z", "--full-tree", checked_commit(commit))
        return {path: about.split()[0] for about, _, path in (entry.partition(b"\t") for entry in listed)}

    def _give_back_ignored(self, commit: str, gone: list[bytes]) -> None:
        """Restore removed files that the current rules ignore: they were not meant to be removed."""
        # `check-ignore` does not support literal pathspecs; no path that begins with ./ is read as a pattern.
        asked = b"".join(b"./" + path + b"\0" for path in gone if not [*self._files_at(path)])
        git = self._git.using(GIT_LITERAL_PATHSPECS="0", GIT_INDEX_FILE=str(self._home / "index.ignored"))
        ignored = git.run("check-ignore", "--no-index", "-z", "--stdin", stdin=asked).stdout if asked else b""
        if ignored:
            git.ask("read-tree", "--reset", commit)
            git.ask("checkout-index", "-z", "--force", "--stdin", stdin=ignored)
            (self._home / "index.ignored").unlink(missing_ok=True)

    # -- taking snapshots

    def _taken(self) -> tuple[str, list[FileProblem]]:
        self._prepare()
        self._check_index()
        try:
            return self._staged()
        except SnapshotRefused:
            raise
        except HostError:
            # An agent damaged our index, or `git gc` removed files of an earlier snapshot: start with a new index.
            self._index.unlink(missing_ok=True)
            self._tree = ""
            return self._staged()

    def _check_index(self) -> None:
        """Detect an index that skips files, or an ignore file that blocks its reader: an agent may have made them."""
        for folder in (self._wd, *self._wd.parents):
            rules = folder / ".gitignore"
            if rules.is_fifo():
                raise SnapshotRefused(f"{rules} is a pipe, and reading it would block")
            if folder == self.top:
                break
        if not self._user_head and self._index.exists():
            listed = self._git.run("ls-files", "-v", "-z").stdout.split(b"\0")
            if not _is_intact(self._index) or any(line[:1] in _SKIPPED for line in listed):
                self._index.unlink()
            else:
                # Otherwise files with a new time stamp and the same content would be read every time.
                self._git.run("update-index", "-q", "--refresh")

    def _staged(self) -> tuple[str, list[FileProblem]]:
        """Store the files; returns their commit, and the problems of those that are not in it."""
        self._learn_head()
        changed, problems = differing(self._git, self._patterns, self.prefix), list[FileProblem]()
        if changed:
            self._check_amount(changed)
            self._tree = ""
            problems = take(self._git, self.top, changed, LARGEST_FILE)
        failed = next((problem for problem in problems if not problem.path), None)
        if failed is not None:
            raise HostError(failed.message)
        return self._commit(), problems

    def _commit(self) -> str:
        self._tree = self._tree or self._git.line("write-tree")
        known = self._known.get((self._tree, self._head), "")
        # `git gc` may have removed a commit that has no ref.
        if not known or not self._git.commit(known):
            parents = [self._head] if self._head else []
            known = self._git.commit_tree(self._tree, parents, "Snapshot of the work tree")
            self._known[self._tree, self._head] = known
        return known

    def _learn_head(self) -> None:
        """Include every file that the user's HEAD tracks, also ignored ones; our index starts with them."""
        user_head = Git(self._wd).run("rev-parse", "--verify", "--quiet", "HEAD").stdout.decode().strip()
        known = self._index.exists()
        if user_head == self._user_head and known:
            return
        # With our settings: those of the repository could make git fetch missing objects with any program.
        git, prefix = self._git, self.prefix
        self._user_head, self._head = user_head, git.commit(user_head)
        if not self._head or (prefix and git.run("rev-parse", "-q", "--verify", f"{self._head}:{prefix}").returncode):
            return
        if known:
            flags = ("--cached", "--name-only", "-z", "--no-renames", "--diff-filter=D")
            missing = git.paths("diff-index", *flags, self._head, "--", *([prefix] if prefix else []))
            ours = tuple(map(os.fsencode, self._ours))
            self._tree = ""
            there = [path for path in missing if not path.startswith(ours) and self._size(path) is not None]
            take(git, self.top, there, LARGEST_FILE)
        else:
            git.ask("read-tree", *([f"--prefix={prefix}", f"{self._head}:{prefix}"] if prefix else [self._head]))
            git.run("rm", "--cached", "-r", "-q", "--ignore-unmatch", "--", *self._ours)
            # Reads every file once; later the time stamps show what changed.
            git.run("update-index", "-q", "--refresh")

    def _check_amount(self, paths: list[bytes]) -> None:
        sizes = [size for size in map(self._size, paths) if size is not None]
        if len(sizes) > MOST_FILES or sum(size for size in sizes if size <= LARGEST_FILE) > MOST_BYTES:
            raise SnapshotRefused(
                f"{len(sizes)} files in {self._wd} are new or changed, more than a checkpoint can hold "
                f"({MOST_FILES} files, {MOST_BYTES // 10**9} GB); is a .gitignore missing?"
            )

    def _size(self, path: bytes) -> int | None:
        """The size of the file at a path; None if there is none."""
        try:
            return os.lstat(os.path.join(self._root, path)).st_size
        except OSError:
            return None

    def _files_at(self, path: bytes) -> Iterator[bytes]:
        """The files at a path, or the file that is in place of one of its folders."""
        parts = path.split(b"/")
        for depth in range(1, len(parts) + 1):
            above = b"/".join(parts[:depth])
            full = os.path.join(self._root, above)
            if not os.path.isdir(full) or os.path.islink(full):
                yield from [above] if os.path.lexists(full) else []
                return
        for folder, _, names in os.walk(os.path.join(self._root, path)):
            yield from (os.path.relpath(os.path.join(folder, name), self._root) for name in names)

    # -- our own GIT_DIR

    @property
    def _git(self) -> Git:
        return self._private or self._prepare()

    def _prepare(self) -> Git:
        """Git with our own GIT_DIR. All its files but the index are new each time: an agent may have changed them."""
        if self._home.is_relative_to(self._wd):
            own_folder(self._wd / ".telos")
        # Symbolic links are removed, too: they could lead to the user's GIT_DIR.
        if self._home.is_symlink() or not self._home.is_dir():
            remove(self._home, self._home.parent)
        private_folder(self._home)
        for entry in self._home.iterdir():
            if entry != self._index or entry.is_symlink() or not entry.is_file():
                remove(entry, self._home)
        for name in ("info", "objects", "refs"):
            private_folder(self._home / name)
        _, names = self._settings.get("extensions.objectformat", ("", "sha1"))
        version, more = (0, "") if names == "sha1" else (1, f"[extensions]\n\tobjectformat = {names}\n")
        core = f"[core]\n\trepositoryformatversion = {version}\n\tbare = false\n\tfilemode = true\n"
        exclude = self._repository.common / "info" / "exclude"
        excluded = text_of_file(exclude, "surrogateescape", follow=True).encode("utf-8", "surrogateescape")
        files = {"config": f"{core}{more}".encode(), "HEAD": b"ref: refs/heads/none\n"}
        for name, content in (files | {"info/attributes": _ATTRIBUTES, "info/exclude": excluded}).items():
            (self._home / name).write_bytes(content)
        variables = {"GIT_DIR": str(self._home), "GIT_WORK_TREE": str(self.top)}
        variables |= {"GIT_OBJECT_DIRECTORY": str(self._repository.common / "objects"), "GIT_LITERAL_PATHSPECS": "1"}
        # A filter may remove content when a file is stored that it does not restore.
        filters = without_drivers((key for key in self._settings if key.startswith("filter.")), _TRUSTED_FILTERS)
        # The ignore file that the repository's own settings name, if any.
        scope, path = self._settings.get("core.excludesfile", ("", ""))
        named = (("core.excludesFile", str(self.top / Path(path).expanduser())),)
        ignored = named if scope in PLANTABLE else ()
        git = Git(self.top, variables, root=self._wd, is_disarmed=True)
        self._private = git.with_settings((*_DURABLE, *_PLAIN, *ignored, *filters))
        return self._private

    @cached_property
    def _settings(self) -> dict[str, tuple[str, str]]:
        """Scope and value of every setting of the user's repository, by key."""
        fields = os.fsdecode(Git(self._wd).ask("config", "--list", "-z", "--show-scope")).split("\0")
        split = ((scope, *setting.partition("\n")) for scope, setting in zip(fields[::2], fields[1::2], strict=False))
        return {key: (scope, value) for scope, key, _, value in split}


def digest_of(changes: Iterable[PathChange], without: str) -> str:
    """Paths and contents of the changed files in one hash, but for those below a folder."""
    left_out, hashed = os.fsencode(without), sha256()
    for change in changes:
        if not change.path.startswith(left_out):
            hashed.update(b"\0".join((change.path, change.mode.encode(), change.blob.encode(), b"")))
    return hashed.hexdigest()


def put_files_back(git: Git, index: Path, commit: str, paths: Iterable[str]) -> None:
    """Put files back as they are in a commit, with an index of their own; all other files stay as they are."""
    git = git.using(GIT_INDEX_FILE=str(index))
    git.ask("read-tree", "--reset", checked_commit(commit))
    asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
    git.ask("checkout-index", "-z", "--force", "--stdin", stdin=asked)
    index.unlink(missing_ok=True)


def _is_intact(index: Path) -> bool:
    """Whether an index ends with the hash of its content; a power cut may leave it incomplete."""
    content = index.read_bytes()
    return any(content.endswith(made(content[: -made().digest_size]).digest()) for made in (sha1, sha256))


def kept_commit(wd: Path, name: str) -> str:
    """The commit that `restore` kept, by the beginning of its name; empty if there is none."""
    if not is_repository(wd):
        return ""
    return next((commit for commit in Git(wd).refs(f"{KEPT}/").values() if commit.startswith(name)), "")


@dataclass(frozen=True, slots=True)
class Ref:
    """A ref of ours and its commit. `at` is the time of the newer of the two."""

    name: str
    commit: str
    at: float


def refs_of_ours(wd: Path) -> list[Ref]:
    """All refs under refs/logos/ that point to commits."""
    common = repository_of(wd).common
    flags = ("--format=%(refname) %(objectname) %(committerdate:unix)", "refs/logos/")
    lines = (line.split() for line in Git(wd).ask("for-each-ref", *flags).decode().splitlines())
    dated = ((name, commit, float(at)) for name, commit, *dates in lines for at in dates)
    return [Ref(name, commit, max(at, _written(common / name))) for name, commit, at in dated]


def remove_refs(wd: Path, refs: Sequence[Ref]) -> list[Ref]:
    """Delete the refs that have not changed meanwhile and are not locked; returns the deleted ones."""
    git, orders = Git(wd), "".join(f"delete {ref.name} {ref.commit}\n" for ref in refs)
    if git.run("update-ref", "--no-deref", "--stdin", stdin=orders.encode()).returncode == 0:
        return [*refs]
    # Git deletes all or none: try each, without the one that blocks the others.
    return [ref for ref in refs if git.run("update-ref", "--no-deref", "-d", ref.name, ref.commit).returncode == 0]


def held_by_nothing_else(wd: Path, refs: Iterable[Ref]) -> int:
    """How many commits `git gc` could remove without these refs."""
    git, gone = Git(wd), {ref.name: ref.commit for ref in refs}
    kept = {commit for name, commit in git.refs().items() if name not in gone} | {git.commit("HEAD")} - {""}
    asked = "".join(f"{line}\n" for line in (*set(gone.values()), *(f"^{commit}" for commit in kept)))
    return int(git.line("rev-list", "--count", "--ignore-missing", "--stdin", stdin=asked.encode())) if gone else 0


def _written(file: Path) -> float:
    """The time of a ref's file; packed refs have none."""
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
