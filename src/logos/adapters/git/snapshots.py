"""Snapshots of a work tree as commits outside branches, made with a GIT_DIR of our own, and restored exactly."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha1, sha256
from pathlib import Path

from logos.adapters.files import own_folder, private_folder, remove, text_of_file
from logos.adapters.git.command import (
    PLANTABLE,
    Git,
    checked_commit,
    is_repository,
    repository_of,
    without_drivers,
)
from logos.adapters.git.commits import KEPT, LARGEST_FILE, Extent, SnapshotCommits, SnapshotRefused, exact_pattern
from logos.adapters.git.contents import FileProblem, differing, take
from logos.domain.turns import RunId, TurnId
from logos.errors import HostError, UsageError

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

Tell = Callable[[str], None]


class GitSnapshots(SnapshotCommits):
    """The snapshots of one work dir: tracked and untracked files, without ignored files and our own.

    `whole`: of the repository that it is a folder of.
    """

    def __init__(
        self,
        wd: Path,
        unseen: Iterable[Path] = (),
        tell: Tell = lambda _: None,
        home: Path | None = None,
        *,
        whole: bool = False,
    ) -> None:
        self._wd = wd.resolve()
        self._unseen = tuple(unseen)
        self._tell = tell
        self._warned: set[str] = set()
        self._repository = repository_of(self._wd)
        # The folder whose files are taken, relative to the top of the work tree.
        self._scope = "" if whole else self.prefix
        # Our own GIT_DIR. A reader uses another folder, so that it does not disturb a live driver.
        self._own_dir = home or self._wd / ".telos" / "snapshots"
        self._index = self._home / "index"
        self._main = self._repository.git.with_settings(_DURABLE)
        self._private: Git | None = None
        self._ours = self._own_paths(self._unseen)
        self._patterns = [exact_pattern(path) for path in self._ours]
        # The snapshot of a tree, by the user's HEAD commit at that time and its message.
        self._known: dict[tuple[str, str, str], str] = {}
        self._user_head = self._head = self._tree = ""

    @property
    def prefix(self) -> str:
        return self._repository.prefix

    @property
    def _home(self) -> Path:
        return self._own_dir

    @property
    def top(self) -> Path:
        return self._repository.top

    @property
    def _refs(self) -> Git:
        """Git on the shared GIT_DIR."""
        return self._main

    @cached_property
    def _beside(self) -> "GitSnapshots":
        """The snapshots of the whole repository, with an index of their own."""
        home = self._home.with_name(f"{self._home.name}-whole")
        return GitSnapshots(self._wd, self._unseen, home=home, whole=True)

    def take(self, *, anew: bool = False, whole: bool = False) -> str:
        """The commit of the files as they are; the same tree on the same HEAD gives the same commit.

        `anew`: read every file, because agents can write to our index and hide files in it. `whole`: with the files of
        the repository that lie outside the work dir.
        """
        if whole and self._scope:
            return self._beside.take(anew=anew)
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

    def left_of(self, run: RunId) -> dict[TurnId, str]:
        folder = f"refs/logos/{run}/left/"
        return {TurnId(ref.removeprefix(folder)): commit for ref, commit in self._refs.refs(folder).items()}

    def remember(self, commits: Iterable[str]) -> None:
        asked = "".join(f"{commit}\n" for commit in dict.fromkeys(commits))
        flags = ("--no-walk=unsorted", "--stdin", "-z", "--format=%H %T %P%n%B", "--no-show-signature")
        for entry in filter(None, self._git.line("log", *flags, stdin=asked.encode()).split("\0") if asked else ()):
            about, _, message = entry.partition("\n")
            commit, tree, *parents = about.split()
            self._known[tree, parents[0] if parents else "", message.strip()] = commit

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
            now = self._commit(problems)
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
            self._refs.disarmed().ask("worktree", "add", "--quiet", "-b", branch, str(folder), checked_commit(head))
            (folder / self.prefix).mkdir(parents=True, exist_ok=True)
        except (HostError, OSError) as error:
            raise UsageError(f"cannot create the worktree {folder}: {error}") from error

    def discard(self, run: RunId, folder: Path, branch: str) -> None:
        """Remove the parts of a fork that failed."""
        self._refs.run("worktree", "remove", "--force", str(folder))
        self._refs.run("branch", "-D", "--quiet", branch)
        self._refs.point(dict.fromkeys(self._refs.refs(f"refs/logos/{run}/"), None))

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
        changed, problems = differing(self._git, self._patterns, self._scope), list[FileProblem]()
        if changed:
            self._check_amount(changed, f"{{}} files in {self._wd} are new or changed, more than a checkpoint can hold")
            self._tree = ""
            problems = self._staged_files(self._git, changed)
        return self._commit(problems), problems

    def _commit(self, problems: Iterable[FileProblem]) -> str:
        self._tree = self._tree or self._git.line("write-tree")
        message = Extent.of(problems, whole=self._scope != self.prefix).message.strip()
        known = self._known.get((self._tree, self._head, message), "")
        # `git gc` may have removed a commit that has no ref.
        if not known or not self._git.commit(known):
            parents = [self._head] if self._head else []
            known = self._git.commit_tree(self._tree, parents, message)
            self._known[self._tree, self._head, message] = known
        return known

    def _learn_head(self) -> None:
        """Include every file that the user's HEAD tracks, also ignored ones; our index starts with them."""
        user_head = Git(self._wd).run("rev-parse", "--verify", "--quiet", "HEAD").stdout.decode().strip()
        known = self._index.exists()
        if user_head == self._user_head and known:
            return
        # With our settings: those of the repository could make git fetch missing objects with any program.
        git, prefix = self._git, self._scope
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


def refs_of_ours(wd: Path, *folders: str) -> list[Ref]:
    """All refs under these folders, by default under refs/logos/, that point to commits."""
    common = repository_of(wd).common
    flags = ("--format=%(refname) %(objectname) %(committerdate:unix)", *(folders or ("refs/logos/",)))
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


def adds_to(wd: Path, ref: Ref, commits: Iterable[str]) -> bool:
    """Whether a ref has commits that are neither among these nor before them."""
    asked = "".join(f"{line}\n" for line in (ref.commit, *(f"^{commit}" for commit in commits)))
    return Git(wd).line("rev-list", "--count", "--ignore-missing", "--stdin", stdin=asked.encode()) != "0"


def _written(file: Path) -> float:
    """The time of a ref's file; packed refs have none."""
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
