"""Snapshots: a work tree as commits that no branch knows, taken with an index of our own, and put back exactly."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.files import own_folder, private_folder
from logos.adapters.git import Git, checked_commit, commit_tree, point_refs, repository_of
from logos.adapters.worktree import OURS, Problem, differing, in_words, take
from logos.domain.turns import RunId
from logos.errors import HostError, UsageError

LARGEST_FILE = 100_000_000
# What a single snapshot may take in; whoever has more lying about has forgotten a .gitignore.
MOST_FILES = 50_000
MOST_BYTES = 2_000_000_000
KEPT = "refs/logos/snapshots"

# Bytes are kept as they lie there: no line ends are converted, nothing is expanded or recoded.
_ATTRIBUTES = "* -text -ident !eol !working-tree-encoding\n"
# A ref that outlives a power cut must not lead to an object that did not.
_DURABLE = (("core.fsync", "committed,loose-object"), ("core.fsyncMethod", "batch"))
_SEQ = re.compile(r"\d{1,9}")

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Known:
    """A snapshot that was taken: its tree, and the commit of the person's that it was taken on."""

    tree: str
    head: str


class GitSnapshots:
    """The snapshots of one work dir: all that lies in it, untracked files too, ignored ones not.

    Git is given a folder of our own as its GIT_DIR, with the repository's objects: so neither the person's index nor
    anything that an agent wrote into the repository's settings is ever used.
    """

    def __init__(
        self, wd: Path, unseen: Iterable[Path] = (), tell: Tell = lambda _: None, home: Path | None = None
    ) -> None:
        self._wd = wd.resolve()
        self._tell = tell
        self._told: set[str] = set()
        self._repository = repository_of(self._wd)
        # Who only looks while a driver may be at work has a home elsewhere.
        self._home = home or self._wd / ".telos" / "snapshots"
        self._unseen = (*OURS, *_patterns(unseen, self._repository.top))
        self._known: dict[Known, str] = {}
        self._ready = False

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
        for words in (in_words(problem, self._repository.prefix) for problem in problems):
            if words not in self._told:
                self._told.add(words)
                self._tell(f"warning: not in the checkpoints: {words}")
        return commit

    def keep(self, commit: str) -> None:
        """Keep a commit that belongs to no run."""
        self._point({f"{KEPT}/{commit[:12]}": commit})

    def point(self, run: RunId, commits: Mapping[int, str]) -> None:
        """Say which commit the work tree was at events of a run."""
        self._point({_ref(run, seq): checked_commit(commit) for seq, commit in commits.items()})

    def hold(self, run: RunId, commits: Iterable[str]) -> None:
        """Keep commits that a run's log names."""
        self._point({f"refs/logos/{run}/{commit}": commit for commit in map(checked_commit, commits)})

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
        for line in self._main.line("log", *flags, stdin=asked.encode()).splitlines() if asked else ():
            commit, tree, *parents = line.split()
            self._known[Known(tree, parents[0] if parents else "")] = commit

    def check(self, commit: str) -> str:
        """The commit of what lies there, if nothing would be lost by putting back another; else UsageError."""
        now, problems = self._taken()
        wanted = set(self._git.ask("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit).split(b"\0"))
        in_the_way = [problem for problem in problems if problem.path in wanted or not problem.path]
        if in_the_way:
            raise UsageError(f"{in_words(in_the_way[0], self.prefix)}, so it would be lost: move it away first")
        return now

    def restore(self, commit: str) -> None:
        """Make the work tree what it was. What lies there must have been taken and kept; ignored files stay."""
        now = self.check(commit)
        flags = ("-r", "-z", "--no-renames", "--name-only", "--diff-filter=D")
        gone = self._git.ask("diff-tree", *flags, now, commit, "--")
        self._git.ask("read-tree", "--reset", "-u", commit)
        self._give_back_ignored(now, gone)

    def unfold(self, commit: str, folder: Path, branch: str) -> None:
        """A new work tree with what was there, on a new branch where HEAD was; what was uncommitted is so there too."""
        head = self._main.line("log", "-1", "--format=%P", checked_commit(commit)) or commit
        self.add_worktree(head, folder, branch)
        GitSnapshots(folder / self.prefix).restore(commit)

    def add_worktree(self, head: str, folder: Path, branch: str) -> None:
        try:
            self._main.disarmed().ask("worktree", "add", "--quiet", "-b", branch, str(folder), checked_commit(head))
            (folder / self.prefix).mkdir(parents=True, exist_ok=True)
        except (HostError, OSError) as error:
            raise UsageError(f"cannot make the worktree {folder}: {error}") from error

    def _taken(self) -> tuple[str, list[Problem]]:
        self._prepare()
        if not (self._home / "index").exists():
            self._first_index()
        git = self._git
        changed = differing(git, self._unseen, self.prefix)
        if changed:
            self._check_amount(changed)
        problems = take(git, self.top, changed, LARGEST_FILE) if changed else []
        tree = git.line("write-tree")
        known = Known(tree, self._head())
        if known not in self._known:
            parents = [known.head] if known.head else []
            self._known[known] = commit_tree(git, tree, parents, "The work tree as it was")
        return self._known[known], problems

    def _check_amount(self, paths: list[bytes]) -> None:
        if len(paths) > MOST_FILES or sum(map(self._size, paths)) > MOST_BYTES:
            raise HostError(
                f"{len(paths)} files in {self._wd} are new or changed, more than a checkpoint takes "
                f"({MOST_FILES} files, {MOST_BYTES // 10**9} GB); is a .gitignore missing?"
            )

    def _size(self, path: bytes) -> int:
        try:
            size = os.lstat(os.path.join(os.fsencode(self.top), path)).st_size
        except OSError:
            return 0
        return size if size <= LARGEST_FILE else 0

    def _head(self) -> str:
        done = Git(self._wd).run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return done.stdout.decode().strip()

    def _give_back_ignored(self, commit: str, gone: bytes) -> None:
        """What is ignored by the rules that hold now was never meant to be removed."""
        if not gone:
            return
        ignored = self._git.run("check-ignore", "--no-index", "-z", "--stdin", stdin=gone).stdout
        if not ignored:
            return
        git = self._git.using(GIT_INDEX_FILE=str(self._home / "index.ignored"))
        git.ask("read-tree", "--reset", commit)
        git.ask("checkout-index", "-z", "--force", "--stdin", stdin=ignored)
        (self._home / "index.ignored").unlink(missing_ok=True)

    @property
    def _main(self) -> Git:
        """Git on the shared folder of the repository, for its refs and objects."""
        git = Git(self._wd).using(GIT_DIR=str(self._repository.common))
        return Git(git.cwd, git.variables, (*git.settings, *_DURABLE))

    @property
    def _git(self) -> Git:
        variables = {
            "GIT_DIR": str(self._home),
            "GIT_WORK_TREE": str(self.top),
            "GIT_OBJECT_DIRECTORY": str(self._repository.common / "objects"),
        }
        plain = Git(self.top, variables)
        return Git(plain.cwd, variables, (*plain.settings, *_DURABLE)).disarmed()

    def _point(self, refs: Mapping[str, str | None]) -> None:
        point_refs(self._main, self._repository.common, refs)

    def _prepare(self) -> None:
        """Our own GIT_DIR, written anew by every process: what an agent may have put there does not count."""
        if self._ready:
            return
        if self._home.is_relative_to(self._wd):
            own_folder(self._home.parent)
        private_folder(self._home)
        (self._home / "index.lock").unlink(missing_ok=True)
        (self._home / "config").unlink(missing_ok=True)
        names = self._main.line("rev-parse", "--show-object-format")
        bare = Git(self._wd).using(GIT_DIR=str(self._home))
        bare.ask("init", "--quiet", "--template=", f"--object-format={names}")
        bare.ask("config", "core.bare", "false")
        info = self._home / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(_ATTRIBUTES, encoding="utf-8")
        self._copy_excludes(info / "exclude")
        self._ready = True

    def _copy_excludes(self, target: Path) -> None:
        """What the repository's own settings ignore; they are not read with our GIT_DIR."""
        own = Git(self._wd).run("config", "--type=path", "--get", "core.excludesFile").stdout.strip()
        texts: list[bytes] = []
        for source in (self._repository.common / "info" / "exclude", *([Path(os.fsdecode(own))] if own else [])):
            with suppress(OSError):
                texts.append(source.read_bytes())
        target.write_bytes(b"\n".join(texts))

    def _first_index(self) -> None:
        head = self._head()
        if not head or (
            self.prefix and self._main.run("rev-parse", "-q", "--verify", f"{head}:{self.prefix}").returncode
        ):
            return
        self._git.ask("read-tree", *([f"--prefix={self.prefix}", f"{head}:{self.prefix}"] if self.prefix else [head]))
        # Looks into every file once; from then on their times tell what changed.
        self._git.run("update-index", "-q", "--refresh")


def _patterns(paths: Iterable[Path], top: Path) -> list[str]:
    """Paths inside the work tree as patterns that match nothing else."""
    inside = (path for path in paths if path.is_relative_to(top))
    return ["/" + re.sub(r"([\\*?\[\]#! ])", r"\\\1", str(path.relative_to(top))) for path in inside]


def _ref(run: RunId, seq: int) -> str:
    return f"refs/logos/{run}/{seq}"
