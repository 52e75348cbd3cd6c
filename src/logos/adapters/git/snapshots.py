"""Snapshots: a work tree as commits that no branch knows, taken with an index of our own, and put back exactly."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha1, sha256
from pathlib import Path

from logos.adapters.git.command import Git, checked_commit, commit_tree, point_refs, repository_of
from logos.adapters.git.contents import OURS, Problem, differing, in_words, take
from logos.adapters.git.private import DURABLE, PrivateGit
from logos.domain.turns import RunId, TurnId
from logos.errors import HostError, UsageError

LARGEST_FILE = 100_000_000
# What a single snapshot may take in; whoever has more lying about has forgotten a .gitignore.
MOST_FILES = 50_000
MOST_BYTES = 2_000_000_000
KEPT = "refs/logos/snapshots"

_REPOSITORY = b"160000"
# How `ls-files -v` marks what git is told not to look at.
_LOOKED_AWAY = frozenset(bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyzS")
_SEQ = re.compile(r"\d{1,9}")

Tell = Callable[[str], None]


class TooMuch(HostError):
    """More lies there than a snapshot takes, or what it cannot take at all."""


@dataclass(frozen=True, slots=True)
class Known:
    """A snapshot that was taken: its tree, and the commit of the person's that it was taken on."""

    tree: str
    head: str


class GitSnapshots:
    """The snapshots of one work dir: all that lies in it, untracked files too, ignored ones and our own not."""

    def __init__(
        self, wd: Path, unseen: Iterable[Path] = (), tell: Tell = lambda _: None, home: Path | None = None
    ) -> None:
        self._wd = wd.resolve()
        self._tell = tell
        self._told: set[str] = set()
        self._repository = repository_of(self._wd)
        # Who only looks while a driver may be at work has a home elsewhere.
        self._private = PrivateGit(self._wd, self._repository, home)
        self._ours = [f"{self.prefix}{own}" for own in (".telos/", *OURS)]
        self._ours += [str(path.relative_to(self.top)) for path in unseen if path.is_relative_to(self.top)]
        self._known: dict[Known, str] = {}
        # Commits that refs lead to: git does not collect them.
        self._safe: set[str] = set()
        self._said = self._head = self._tree = ""

    @property
    def top(self) -> Path:
        return self._repository.top

    @property
    def prefix(self) -> str:
        """The way from the top of the work tree to the work dir."""
        return self._repository.prefix

    def take(self) -> str:
        """The commit of what lies there now; the same commit for the same tree on the same HEAD."""
        commit, problems = self._taken()
        for words in (in_words(problem, self.prefix) for problem in problems):
            if words not in self._told:
                self._told.add(words)
                self._tell(f"warning: not in the checkpoints: {words}")
        return commit

    def keep(self, commit: str) -> None:
        """Keep a commit that belongs to no run."""
        self._point({f"{KEPT}/{commit[:12]}": commit})

    def point(self, run: RunId, commits: Mapping[int, str]) -> None:
        """Say which commit the work tree was at events of a run."""
        self._point({f"refs/logos/{run}/{seq}": checked_commit(commit) for seq, commit in commits.items()})

    def hold(self, run: RunId, commits: Iterable[str]) -> None:
        """Keep commits that a run's log names."""
        self._point({f"refs/logos/{run}/{commit}": commit for commit in map(checked_commit, commits)})

    def hold_left(self, run: RunId, left: Mapping[TurnId, str]) -> None:
        """Keep what turns of a build left in their places."""
        self._point({f"refs/logos/{run}/left/{turn}": checked_commit(commit) for turn, commit in left.items()})

    def left_of(self, run: RunId) -> dict[TurnId, str]:
        folder = f"refs/logos/{run}/left/"
        said = self._main.ask("for-each-ref", "--format=%(refname) %(objectname)", folder).decode()
        return {TurnId(ref.removeprefix(folder)): commit for ref, commit in map(str.split, said.splitlines())}

    def of(self, run: RunId) -> dict[int, str]:
        """The events of a run that have a snapshot, in order, and their commits."""
        said = self._main.ask("for-each-ref", "--format=%(refname) %(objectname)", f"refs/logos/{run}/").decode()
        refs = (line.split() for line in said.splitlines())
        found = {ref.rpartition("/")[2]: commit for ref, commit in refs if ref.count("/") == 3}
        return {int(seq): found[seq] for seq in sorted(filter(_SEQ.fullmatch, found), key=int)}

    def remember(self, commits: Iterable[str]) -> None:
        """Use these commits again where the tree is the same again."""
        asked = "".join(f"{commit}\n" for commit in dict.fromkeys(commits))
        flags = ("--no-walk=unsorted", "--stdin", "--format=%H %T %P", "--no-show-signature")
        for line in self._git.line("log", *flags, stdin=asked.encode()).splitlines() if asked else ():
            commit, tree, *parents = line.split()
            self._known[Known(tree, parents[0] if parents else "")] = commit
            self._safe.add(commit)

    # -- putting back

    def keep_before(self, commit: str) -> str:
        """Keep all that putting back a commit would change, also ignored files in its way; UsageError if it cannot."""
        self.remember([checked_commit(commit)])
        now, problems = self._taken()
        entries = self._entries(commit)
        wanted = {path for path, mode in entries.items() if mode != _REPOSITORY}
        if any(not path.startswith(os.fsencode(self.prefix)) for path in wanted):
            raise UsageError(f"commit {commit[:12]} is no snapshot of {self._wd}")
        in_the_way = self._in_the_way(now, commit)
        if in_the_way:
            self._tree = ""
            problems = [*problems, *take(self._git, self.top, in_the_way, LARGEST_FILE)]
            now = self._commit()
        # What our index knows only as it was once would be removed or overwritten as it is.
        touched = wanted | {*self._entries(now), *in_the_way, b""} if problems else set[bytes]()
        nested = {path for path, mode in entries.items() if mode == _REPOSITORY}
        lost = [own for own in problems if own.path.rstrip(b"/") in touched - nested]
        if lost:
            raise UsageError(f"{in_words(lost[0], self.prefix)}, so it would be lost: move it away first")
        self.keep(now)
        return now

    def restore(self, commit: str) -> str:
        """Make the work tree what it was; ignored files stay. Returns the commit in which what lay there is kept."""
        now = self.keep_before(commit)
        self._put_back(now, commit)
        return now

    def _put_back(self, now: str, commit: str) -> None:
        flags = ("-r", "-z", "--no-renames", "--name-only", "--diff-filter=D")
        gone = [path for path in self._git.ask("diff-tree", *flags, now, commit, "--").split(b"\0") if path]
        self._tree = ""
        self._git.ask("read-tree", "--reset", "-u", commit)
        left = next((path for path in gone if path in _lying_at(os.fsencode(self.top), path)), None)
        if left is not None:
            raise HostError(f"{in_words(Problem(left, 'could not be removed'), self.prefix)}; {kept_as(now)}")
        self._give_back_ignored(now, gone)

    def unfold(self, commit: str, folder: Path, branch: str) -> None:
        """A new work tree with what was there, on a new branch where HEAD was; what was uncommitted is so there too."""
        head = self._git.line("log", "-1", "--format=%P", checked_commit(commit)) or commit
        self.add_worktree(head, folder, branch)
        there = GitSnapshots(folder / self.prefix)
        there._put_back(there.take(), commit)

    def add_worktree(self, head: str, folder: Path, branch: str) -> None:
        if os.path.lexists(folder):
            raise UsageError(f"cannot make the worktree {folder}: it exists already")
        try:
            self._main.disarmed().ask("worktree", "add", "--quiet", "-b", branch, str(folder), checked_commit(head))
            (folder / self.prefix).mkdir(parents=True, exist_ok=True)
        except (HostError, OSError) as error:
            raise UsageError(f"cannot make the worktree {folder}: {error}") from error

    def discard(self, run: RunId, folder: Path, branch: str) -> None:
        """Remove what was made of a fork that could not be finished."""
        git = self._main
        git.run("worktree", "remove", "--force", str(folder))
        git.run("branch", "-D", "--quiet", branch)
        refs = git.ask("for-each-ref", "--format=%(refname)", f"refs/logos/{run}/").decode().split()
        point_refs(git, self._repository.common, dict.fromkeys(refs, None))

    def _entries(self, commit: str) -> dict[bytes, bytes]:
        """The paths of a commit, and what each is."""
        said = self._git.ask("ls-tree", "-r", "-z", "--full-tree", checked_commit(commit)).split(b"\0")
        split = (entry.partition(b"\t") for entry in said if entry)
        return {path: about.split()[0] for about, _, path in split}

    def _in_the_way(self, now: str, commit: str) -> list[bytes]:
        """Files that lie where others are to come back, and are in no snapshot: they are ignored, or were."""
        flags = ("-r", "-z", "--no-renames", "--name-only", "--diff-filter=A")
        coming = [path for path in self._git.ask("diff-tree", *flags, now, commit, "--").split(b"\0") if path]
        known = self._entries(now).keys() if coming else set[bytes]()
        found = {own for path in coming for own in _lying_at(os.fsencode(self.top), path)}
        return sorted(found - known)

    def _give_back_ignored(self, commit: str, gone: list[bytes]) -> None:
        """What is ignored by the rules that hold now was never meant to be removed."""
        free = [path for path in gone if not [*_lying_at(os.fsencode(self.top), path)]]
        ignored = self._ignored(free) if free else b""
        if not ignored:
            return
        index = self._private.home / "index.ignored"
        git = self._git.using(GIT_INDEX_FILE=str(index))
        git.ask("read-tree", "--reset", commit)
        git.ask("checkout-index", "-z", "--force", "--stdin", stdin=ignored)
        index.unlink(missing_ok=True)

    def _ignored(self, paths: list[bytes]) -> bytes:
        # It takes no literal names, but none that begins like this is read as a pattern.
        asked = b"".join(b"./" + path + b"\0" for path in paths)
        git = self._git.using(GIT_LITERAL_PATHSPECS="0")
        said = git.run("check-ignore", "--no-index", "-z", "--stdin", stdin=asked).stdout.split(b"\0")
        return b"".join(path.removeprefix(b"./") + b"\0" for path in said if path)

    # -- taking

    def _taken(self) -> tuple[str, list[Problem]]:
        self._private.prepare()
        self._distrust()
        try:
            problems = self._stage()
            return self._commit(), problems
        except TooMuch:
            raise
        except HostError:
            # An agent spoiled our index, or git has collected what nobody kept of an earlier snapshot: begin anew.
            self._private.index.unlink(missing_ok=True)
            self._tree = ""
            self._known = {known: commit for known, commit in self._known.items() if commit in self._safe}
            problems = self._stage()
            return self._commit(), problems

    def _distrust(self) -> None:
        """An index that is told not to look at files, or rules that can never be read, are an agent's work."""
        for folder in (self._wd, *self._wd.parents):
            rules = folder / ".gitignore"
            if rules.is_fifo():
                raise TooMuch(f"{rules} is a pipe: whoever reads it waits for ever")
            if folder == self.top:
                break
        if not self._said and self._private.index.exists():
            said = self._git.run("ls-files", "-v", "-z").stdout.split(b"\0")
            if not _is_whole(self._private.index) or any(line[:1] in _LOOKED_AWAY for line in said):
                self._private.index.unlink()
            else:
                # What was touched and not changed would be read again every time.
                self._git.run("update-index", "-q", "--refresh")

    def _stage(self) -> list[Problem]:
        self._learn_head()
        changed = differing(self._git, self._patterns, self.prefix)
        if not changed:
            return []
        self._check_amount(changed)
        self._tree = ""
        problems = take(self._git, self.top, changed, LARGEST_FILE)
        unsaid = next((problem for problem in problems if not problem.path), None)
        if unsaid is not None:
            raise HostError(unsaid.words)
        return problems

    def _commit(self) -> str:
        git = self._git
        self._tree = self._tree or git.line("write-tree")
        known = Known(self._tree, self._head)
        commit = self._known.get(known)
        if commit is not None and commit not in self._safe:
            # Nobody keeps it yet, so git may have collected it meanwhile.
            git.ask("cat-file", "-e", f"{self._known.pop(known)}^{{commit}}")
            self._known[known] = commit
        if known not in self._known:
            parents = [known.head] if known.head else []
            self._known[known] = commit_tree(git, known.tree, parents, "The work tree as it was")
        return self._known[known]

    def _learn_head(self) -> None:
        """What the person's HEAD tracks is taken, also where it is ignored; our index is begun with it."""
        said = Git(self._wd).run("rev-parse", "--verify", "--quiet", "HEAD").stdout.decode().strip()
        if said == self._said and self._private.index.exists():
            return
        # Asked of our own git: the person's could be told to fetch what is missing, by a program of anybody's.
        head = self._git.run("rev-parse", "--verify", "--quiet", f"{said}^{{commit}}").stdout.decode().strip()
        if not self._private.index.exists():
            self._first_index(head)
        elif head:
            self._learn_ignored(head)
        self._said, self._head = said, head

    def _learn_ignored(self, head: str) -> None:
        flags = ("--cached", "--name-only", "-z", "--no-renames", "--diff-filter=D")
        missing = self._git.ask("diff-index", *flags, head, "--", *([self.prefix] if self.prefix else []))
        known = [path for path in missing.split(b"\0") if path and not self._is_ours(path) and self._is_there(path)]
        if known:
            self._tree = ""
            take(self._git, self.top, known, LARGEST_FILE)

    def _first_index(self, head: str) -> None:
        git, prefix = self._git, self.prefix
        if not head or (prefix and git.run("rev-parse", "-q", "--verify", f"{head}:{prefix}").returncode):
            return
        git.ask("read-tree", *([f"--prefix={prefix}", f"{head}:{prefix}"] if prefix else [head]))
        git.run("rm", "--cached", "-r", "-q", "--ignore-unmatch", "--", *self._ours)
        # Looks into every file once; from then on their times tell what changed.
        git.run("update-index", "-q", "--refresh")

    def _is_ours(self, path: bytes) -> bool:
        return any(path == own or path.startswith(own) for own in map(os.fsencode, self._ours))

    def _is_there(self, path: bytes) -> bool:
        return os.path.lexists(os.path.join(os.fsencode(self.top), path))

    def _check_amount(self, paths: list[bytes]) -> None:
        there = [path for path in paths if self._is_there(path)]
        if len(there) > MOST_FILES or sum(map(self._size, there)) > MOST_BYTES:
            raise TooMuch(
                f"{len(there)} files in {self._wd} are new or changed, more than a checkpoint takes "
                f"({MOST_FILES} files, {MOST_BYTES // 10**9} GB); is a .gitignore missing?"
            )

    def _size(self, path: bytes) -> int:
        try:
            size = os.lstat(os.path.join(os.fsencode(self.top), path)).st_size
        except OSError:
            return 0
        return size if size <= LARGEST_FILE else 0

    # -- git

    @property
    def _main(self) -> Git:
        """Git on the shared folder of the repository, for its refs and objects."""
        git = Git(self._wd).using(GIT_DIR=str(self._repository.common))
        return replace(git, settings=(*git.settings, *DURABLE))

    @property
    def _git(self) -> Git:
        return self._private.git

    @property
    def _patterns(self) -> list[str]:
        """Our own files, as patterns that match nothing else."""
        return ["/" + re.sub(r"([\\*?\[\]#! ])", r"\\\1", own) for own in self._ours]

    def _point(self, refs: Mapping[str, str]) -> None:
        point_refs(self._main, self._repository.common, refs)
        self._safe.update(refs.values())


def _is_whole(index: Path) -> bool:
    """Whether an index is as git wrote it, which ends with a hash of the rest; a power cut may tear it."""
    content = index.read_bytes()
    return any(content.endswith(made(content[: -made().digest_size]).digest()) for made in (sha1, sha256))


def _lying_at(top: bytes, path: bytes) -> Iterator[bytes]:
    """What lies at a path, or where a folder of it should be."""
    parts = path.split(b"/")
    for depth in range(1, len(parts)):
        above = b"/".join(parts[:depth])
        full = os.path.join(top, above)
        if os.path.islink(full) or (os.path.lexists(full) and not os.path.isdir(full)):
            yield above
            return
    full = os.path.join(top, path)
    if not os.path.isdir(full) or os.path.islink(full):
        yield from [path] if os.path.lexists(full) else []
        return
    for folder, _, names in os.walk(full):
        yield from (os.path.relpath(os.path.join(folder, name), top) for name in names)


def kept_as(commit: str) -> str:
    return f"what lay there is kept as commit {commit[:12]}"


def kept_commit(wd: Path, name: str) -> str:
    """What lay in a work dir before it was put back, by the beginning of its commit; empty where none is kept."""
    said = Git(wd).run("for-each-ref", "--format=%(objectname)", f"{KEPT}/").stdout.decode().split()
    return next((commit for commit in said if commit.startswith(name)), "")


@dataclass(frozen=True, slots=True)
class Ref:
    """A ref of ours and its commit. `at` is when the one or the other was made, whichever is later."""

    name: str
    commit: str
    at: float


def refs_of_ours(wd: Path) -> list[Ref]:
    """Everything under refs/logos/ that leads to a commit."""
    common = repository_of(wd).common
    flags = ("--format=%(refname) %(objectname) %(committerdate:unix)", "refs/logos/")
    lines = (line.split() for line in Git(wd).ask("for-each-ref", *flags).decode().splitlines())
    dated = ((name, commit, float(at)) for name, commit, *dates in lines for at in dates)
    return [Ref(name, commit, max(at, _written(common / name))) for name, commit, at in dated]


def remove_refs(wd: Path, refs: Sequence[Ref]) -> list[Ref]:
    """Delete refs that still are what they were; returns those. One that moved meanwhile, or is in use, stays."""
    orders = "".join(f"delete {ref.name} {ref.commit}\n" for ref in refs)
    if Git(wd).run("update-ref", "--no-deref", "--stdin", stdin=orders.encode()).returncode == 0:
        return [*refs]
    if len(refs) == 1:
        return []
    # All or none: what keeps the others is found by halves.
    half = len(refs) // 2
    return remove_refs(wd, refs[:half]) + remove_refs(wd, refs[half:])


def held_by_nothing_else(wd: Path, refs: Iterable[Ref]) -> int:
    """How many commits could be collected if these refs were gone."""
    git, gone = Git(wd), {ref.name: ref.commit for ref in refs}
    said = git.ask("for-each-ref", "--format=%(refname) %(objectname)").decode().splitlines()
    still = {commit for name, commit in map(str.split, said) if name not in gone}
    head = git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}").stdout.decode().split()
    asked = "".join(f"{line}\n" for line in (*set(gone.values()), *(f"^{own}" for own in (*still, *head))))
    return int(git.line("rev-list", "--count", "--ignore-missing", "--stdin", stdin=asked.encode())) if gone else 0


def _written(file: Path) -> float:
    """When; a ref that git has packed has no file of its own."""
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
