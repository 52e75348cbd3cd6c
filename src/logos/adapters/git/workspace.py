"""The git worktrees of one run: opened, gathered, merged and removed without touching what is the person's."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import tempfile
import threading
from collections import defaultdict
from contextlib import suppress
from itertools import count
from pathlib import Path

from logos.adapters.files import own_folder, private_folder
from logos.adapters.git.command import (
    Git,
    changes,
    checked_commit,
    commit_tree,
    point_refs,
    provider_error,
    refs_under,
    repository_of,
    text_of,
    tree_of,
)
from logos.adapters.git.contents import Problem, fresh_index, in_words, not_in, problems_in, stage, touched
from logos.adapters.git.merging import merge_pieces
from logos.adapters.git.worktrees import WorktreePath, owner_of, remove, run_setup, text_in
from logos.domain.events import WorkGathered, WorkMerged
from logos.domain.turns import Gather, Merge, RunId, TurnId, Worktree
from logos.errors import HostError, UsageError

MAIN = "main"
TELOS = "telos.toml"
WRITTEN_BY_INIT = (TELOS, "logos.json", "prompt.md")

# What git takes as a part of a branch's name, and no more.
_SLUG = re.compile(r"(?!.*\.lock$)[a-z](?:[a-z0-9_-]|\.(?=[a-z0-9_-]))*")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

_START = "`git init && git add -A && git commit -m start`"
_SNAPSHOT = "`logos build --allow-dirty`, which works on a snapshot and leaves your files alone"
_OLDEST = (2, 38)
_UNDER_WAY = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


class GitWorkspace:
    def __init__(self, wd: Path, run: RunId, setup: str = "") -> None:
        if not _RUN.fullmatch(run):
            raise HostError(f"{run!r} cannot be the name of a run's branch")
        self._wd = wd.resolve()
        self._run = run
        self._setup = setup
        self._home = self._wd / ".telos" / "worktrees" / run
        self._repository = repository_of(self._wd)
        # Several agents may be sent to the same place at once.
        self._at: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)
        # Places whose index of ours says what their start says.
        self._just_made: set[str] = set()
        self._starts: dict[tuple[str, ...], str] = {}
        self._trees: dict[str, str] = {}

    def open(self, place: Worktree, *, anew: bool) -> str:
        spot, start = self._spot(place.name), self._start(place)
        with self._at[place.name]:
            if spot.made_at != start or (anew and not self._is_whole(spot)):
                self._make(spot, start)
            elif anew:
                self._renew(spot, start)
            else:
                self._mend(spot)
            return self._inside(spot)

    def gather(self, action: Gather) -> WorkGathered:
        with self._at[action.place.name]:
            return self._gather(action)

    def _gather(self, action: Gather) -> WorkGathered:
        spot, start = self._spot(action.place.name), self._start(action.place)
        base = self._start(Worktree(action.place.name, action.since)) if action.since else start
        if not spot.is_there:
            return WorkGathered(action.id, spot.name, start, problems=("the folder of the work is gone",))
        if spot.made_at != start:
            raise HostError(f"{spot.folder} was not made at {start}: it cannot be told what was changed in it")
        git = self._git_in(spot).disarmed()
        problems = self._stage(git, spot, start)
        commit = self._commit(git, start, action.title)
        gathered = self._gathered(git, action, spot, base, commit, problems)
        if gathered.problems:
            # It stays as it lies there, with the start under it: so its author can compare and mend it.
            fresh_index(git, spot.index, start)
            self._give_back_the_telos(git, spot, base)
        now = start if gathered.problems else commit
        self._point({f"refs/heads/{spot.branch}": now, self._keeping(commit): commit})
        self._settle(spot)
        return gathered

    def _stage(self, git: Git, spot: WorktreePath, start: str) -> list[Problem]:
        """Take what lies there into our index, which says what the start says when nothing was taken yet."""
        if spot.name in self._just_made:
            self._just_made.discard(spot.name)
            with suppress(HostError):
                return stage(git, spot.folder)
        fresh_index(git, spot.index, start)
        return stage(git, spot.folder)

    def _give_back_the_telos(self, git: Git, spot: WorktreePath, base: str) -> None:
        """As the person has it: the start of a fork's place may hold what an agent made of it."""
        with suppress(OSError):
            (Path(self._inside(spot)) / TELOS).unlink(missing_ok=True)
        git.run("restore", f"--source={base}", "--worktree", "--", f":(top,literal){self._repository.prefix}{TELOS}")

    def merge(self, action: Merge) -> WorkMerged:
        commit, clashes = merge_pieces(self._git, action.onto, action.contributions, self._repository.prefix)
        if clashes:
            return WorkMerged(action.id, action.onto, clashes)
        self._point({self._keeping(commit): commit})
        return WorkMerged(action.id, commit)

    def ready(self, place: Worktree) -> str:
        spot, start = self._spot(place.name), self._start(place)
        with self._at[place.name]:
            if spot.made_at and self._is_whole(spot):
                self._reset(spot, start)
            else:
                self._make(spot, start)
            return self._inside(spot)

    def close(self, result: str | None) -> None:
        main, work = f"refs/heads/{self._branch(MAIN)}", f"refs/heads/logos-work/{self._run}/"
        self._unlock()
        there = refs_under(self._git, main, work)
        folders = [entry.name for entry in self._home.iterdir()] if self._home.is_dir() else []
        for name in {MAIN, *folders, *(ref.removeprefix(work) for ref in there if ref.startswith(work))}:
            if _SLUG.fullmatch(name):
                self._scrub(self._spot(name))
        pointed = dict.fromkeys((ref for ref in there if ref != main or not result), None)
        self._point({**pointed, **({main: checked_commit(result)} if result else {})})
        remove(self._home)
        for folder in (self._home.parent, self._repository.common / "worktrees"):
            with suppress(OSError):  # others are in it, or it is not there
                folder.rmdir()

    def keep(self, place: Worktree, turn: TurnId) -> None:
        spot = self._spot(place.name)
        with self._at[place.name]:
            # An index is made anew for it, so ours does not say any more what the start says.
            self._just_made.discard(place.name)
            if spot.made_at == self._start(place):
                self._point({self._leaving(turn): self._left_in(spot)})

    def left(self, turn: TurnId) -> str:
        """What a turn left in its place; empty where nothing was kept of it."""
        done = self._git.run("rev-parse", "--verify", "--quiet", f"{self._leaving(turn)}^{{commit}}")
        return done.stdout.decode().strip()

    def give_up(self, result: str | None) -> None:
        """Remove every place and branch, as `close` does, and keep what was done in them as commits of no branch."""
        for name in sorted(entry.name for entry in self._home.iterdir()) if self._home.is_dir() else ():
            if _SLUG.fullmatch(name):
                with suppress(HostError):
                    commit = self._left_in(self._spot(name))
                    self._point({self._keeping(commit): commit})
        self.close(result)

    def _left_in(self, spot: WorktreePath) -> str:
        git, start = self._git_in(spot).disarmed(), checked_commit(spot.made_at)
        fresh_index(git, spot.index, start)
        stage(git, spot.folder)
        return self._commit(git, start, f"Left in {spot.name}")

    def _unlock(self) -> None:
        """Remove what a killed git left of its hold on refs of this run; they are nobody else's."""
        for folder in (f"refs/logos/{self._run}", f"refs/heads/logos-work/{self._run}"):
            for lock in (self._repository.common / folder).rglob("*.lock"):
                lock.unlink(missing_ok=True)

    # -- names

    def _spot(self, name: str) -> WorktreePath:
        if not _SLUG.fullmatch(name):
            raise HostError(f"{name!r} cannot be the name of a place")
        return WorktreePath(name, self._home / name, self._branch(name))

    def _branch(self, name: str) -> str:
        return f"logos/{self._run}" if name == MAIN else f"logos-work/{self._run}/{name}"

    def _keeping(self, commit: str) -> str:
        """A ref that keeps a commit of the log from being collected, however long the run is paused."""
        return f"refs/logos/{self._run}/{commit}"

    def _leaving(self, turn: TurnId) -> str:
        return f"refs/logos/{self._run}/left/{turn}"

    def _inside(self, spot: WorktreePath) -> str:
        folder = spot.folder / self._repository.prefix
        if os.path.commonpath([spot.folder, os.path.realpath(folder)]) != str(spot.folder):
            raise HostError(f"{folder} leads out of the worktree")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HostError(f"cannot create {folder}: {error.strerror}") from error
        return str(folder)

    # -- git

    @property
    def _git(self) -> Git:
        """Git on the shared folder: neither the person's index nor what an agent made of a worktree's .git is read."""
        return Git(self._wd).using(GIT_DIR=str(self._repository.common))

    def _git_in(self, spot: WorktreePath) -> Git:
        variables = {"GIT_WORK_TREE": str(spot.folder), "GIT_INDEX_FILE": str(spot.index)}
        return Git(spot.folder, {**self._git.variables, **variables})

    def _point(self, refs: dict[str, str | None]) -> None:
        point_refs(self._git, self._repository.common, refs)

    def _commit(self, git: Git, start: str, title: str) -> str:
        tree = git.line("write-tree")
        return start if tree == self._tree(start) else commit_tree(git, tree, [start], title.strip() or "Work")

    def _tree(self, commit: str) -> str:
        if commit not in self._trees:
            self._trees[commit] = tree_of(self._git, commit)
        return self._trees[commit]

    # -- making places

    def _start(self, place: Worktree) -> str:
        """The commit a place begins at. Found again after a restart, because a merge repeated gives the same commit."""
        if not place.commits:
            raise HostError(f"the place {place.name!r} has no commit to start from")
        if place.commits not in self._starts:
            first, *more = place.commits
            self._tree(first)
            start, clashes = merge_pieces(self._git, first, tuple((commit[:12], commit) for commit in more))
            if clashes:
                paths = ", ".join(sorted({clash.where for clash in clashes}))
                raise HostError(
                    f"the place {place.name!r} cannot start from {', '.join(place.commits)}: {paths} conflict"
                )
            self._starts[place.commits] = start
        return self._starts[place.commits]

    def _make(self, spot: WorktreePath, start: str) -> None:
        self._prepare_home()
        self._add(spot, start)
        git = self._git_in(spot).disarmed()
        fresh_index(git, spot.index, start, "-u")
        self._settle(spot)
        if self._setup:
            run_setup(self._setup, Path(self._inside(spot)), self._wd)
        spot.mark.write_text(start, encoding="ascii")
        self._just_made.add(spot.name)

    def _prepare_home(self) -> None:
        telos = self._wd / ".telos"
        own_folder(telos)
        if not (telos / ".gitignore").exists():
            (telos / ".gitignore").write_text("*\n", encoding="utf-8")
        private_folder(self._home.parent)
        private_folder(self._home)

    def _add(self, spot: WorktreePath, start: str) -> None:
        """Register the worktree, empty, in the files that `git worktree add` writes: git itself would take its time,
        and fail where it meets a worktree of ours that another thread has half made."""
        self._scrub(spot)
        self._point({f"refs/heads/{spot.branch}": start})
        try:
            spot.folder.mkdir(mode=0o700)
            folder = self._new_registration(spot)
            for name, text in (
                ("gitdir", f"{spot.folder / '.git'}\n"),
                ("commondir", "../..\n"),
                ("HEAD", f"ref: refs/heads/{spot.branch}\n"),
            ):
                (folder / name).write_text(text, encoding="utf-8")
            (spot.folder / ".git").write_text(f"gitdir: {folder}\n", encoding="utf-8")
        except OSError as error:
            raise HostError(f"cannot make the worktree {spot.folder}: {error.strerror}") from error

    def _new_registration(self, spot: WorktreePath) -> Path:
        """A folder of git's for a worktree; others may have one of the same name."""
        shared = self._repository.common / "worktrees"
        shared.mkdir(exist_ok=True)
        for number in count():
            folder = shared / f"{spot.name}{number or ''}"
            with suppress(FileExistsError):
                folder.mkdir()
                return folder
        raise AssertionError("numbers do not end")

    def _scrub(self, spot: WorktreePath) -> None:
        """Remove a place and whatever a killed git left of it. Its branch stays."""
        for path in (spot.mark, spot.index, Path(f"{spot.index}.lock")):
            path.unlink(missing_ok=True)
        for folder in (*self._registered(spot), *self._half_registered(spot)):
            remove(folder)
        remove(spot.folder)

    def _registered(self, spot: WorktreePath) -> list[Path]:
        """Git's own folders that say they belong to this place."""
        return [folder for folder, of in self._registrations(spot) if of == str(spot.folder / ".git")]

    def _half_registered(self, spot: WorktreePath) -> list[Path]:
        """Folders that a git which was killed made for a worktree of this name, before it could say for which."""
        named = re.compile(rf"{re.escape(spot.name)}\d*")
        return [folder for folder, of in self._registrations(spot) if not of and named.fullmatch(folder.name)]

    def _registrations(self, spot: WorktreePath) -> list[tuple[Path, str]]:
        """Git's folders whose names begin like the place's, as git makes them, and what each is about."""
        folders = sorted((self._repository.common / "worktrees").glob(f"{spot.name}*"))
        return [(folder, owner_of(folder)) for folder in folders]

    # -- keeping places in order

    def _mend(self, spot: WorktreePath) -> None:
        """What the agent or a killed git broke of the worktree's tie to the repository."""
        for folder in self._registered(spot):
            for lock in folder.glob("*.lock"):
                lock.unlink(missing_ok=True)
            tie = spot.folder / ".git"
            if tie.is_symlink() or not tie.exists():
                tie.unlink(missing_ok=True)
            if not tie.is_dir():
                tie.write_text(f"gitdir: {folder}\n", encoding="utf-8")

    def _settle(self, spot: WorktreePath) -> None:
        """Let the agent's own git see the place as Logos does: on its branch, with nothing staged."""
        self._mend(spot)
        for folder in self._registered(spot):
            # With its time: git tells by it which entries it must look at again.
            shutil.copy2(spot.index, folder / "index.logos")
            os.replace(folder / "index.logos", folder / "index")
            if text_in(folder / "HEAD") != f"ref: refs/heads/{spot.branch}\n":
                self._git.using(GIT_DIR=str(folder)).ask("symbolic-ref", "HEAD", f"refs/heads/{spot.branch}")

    def _is_whole(self, spot: WorktreePath) -> bool:
        return (spot.folder / ".git").is_file() and bool(self._registered(spot))

    def _renew(self, spot: WorktreePath, start: str) -> None:
        """As if just made, in the same folder: a terminal may be open in it already."""
        self._reset(spot, start)
        self._git_in(spot).disarmed().ask("clean", "-ffdxq")
        if self._setup:
            run_setup(self._setup, Path(self._inside(spot)), self._wd)

    def _reset(self, spot: WorktreePath, start: str) -> None:
        git = self._git_in(spot).disarmed()
        fresh_index(git, spot.index, start, "-u")
        git.ask("clean", "-ffdq")
        self._point({f"refs/heads/{spot.branch}": start})
        self._settle(spot)
        spot.mark.write_text(start, encoding="ascii")

    # -- gathering

    def _gathered(
        self, git: Git, action: Gather, spot: WorktreePath, base: str, commit: str, problems: list[Problem]
    ) -> WorkGathered:
        prefix = self._repository.prefix
        changed = changes(git, base, commit) if commit != base else []
        belongs = [
            Problem(it.path, "belongs to the person, and was put back as it was")
            for it in changed
            if it.path == os.fsencode(prefix + TELOS)
        ]
        wanted = (posixpath.normpath(prefix + path) for path in action.declared)
        declared = not_in(git, commit, wanted, changed)
        nothing = [Problem(b"", "nothing was changed")] if action.must_change and not changed else []
        found = [*problems, *nothing, *declared, *belongs, *problems_in(git, spot.folder, changed)]
        return WorkGathered(
            action.id,
            spot.name,
            commit,
            touched(git, spot.folder, changed, prefix),
            tuple(dict.fromkeys(in_words(problem, prefix) for problem in found)),
        )


def base_of(wd: Path, *, allow_dirty: bool) -> str:
    """The commit a build starts from: HEAD, or a snapshot of what lies there."""
    git = _persons_git(wd)
    head = git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}").stdout.decode().strip()
    if not head and not allow_dirty:
        raise UsageError(f"{wd} has no commit yet: `git add -A && git commit -m start`, or {_SNAPSHOT}")
    for name, what in _UNDER_WAY.items():
        if (git.cwd / git.line("rev-parse", "--git-path", name)).exists():
            raise UsageError(f"a {what} is under way in {wd}: finish it or abort it first")
    if head and not _uncommitted(git, repository_of(wd).prefix):
        return head
    if not allow_dirty:
        raise UsageError(f"{wd} has changes that are not committed: commit or stash them, or {_SNAPSHOT}")
    return _snapshot(git, head)


def _uncommitted(git: Git, prefix: str) -> bool:
    """Whether something lies there that is in no commit; nobody misses what `logos init` has just written."""
    said = git.ask("status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=dirty")
    ours = {os.fsencode(f"?? {prefix}{name}") for name in WRITTEN_BY_INIT}
    return any(entry and entry not in ours for entry in said.split(b"\0"))


def _persons_git(wd: Path) -> Git:
    """Git at the top of the person's work tree, with the person's own filters."""
    git = Git(wd)
    try:
        version = git.line("version")
    except HostError as error:
        raise UsageError(f"`logos build` needs git: {error}") from error
    found = re.search(r"(\d+)\.(\d+)", version)
    if found and tuple(map(int, found.groups())) < _OLDEST:
        raise UsageError(f"`logos build` needs git {'.'.join(map(str, _OLDEST))} or newer, this is {version}")
    done = git.run("rev-parse", "--is-bare-repository", "--is-inside-work-tree")
    if done.returncode != 0:
        why = provider_error(done)
        raise UsageError(
            f"{wd} is not a git repository: {_START} makes it one" if "not a git repository" in why else f"{wd}: {why}"
        )
    if done.stdout.split()[1] != b"true":
        raise UsageError(
            f"{wd} is a bare repository or inside .git: run `logos build` in a work tree, see `git worktree add`"
        )
    return Git(repository_of(wd).top)


def _snapshot(git: Git, head: str) -> str:
    index = git.cwd / git.line("rev-parse", "--git-path", "index")
    with tempfile.TemporaryDirectory(prefix="logos-snapshot-") as folder:
        ours = Path(folder) / "index"
        with suppress(FileNotFoundError):
            # With its time: git tells by it which entries it must look at again.
            shutil.copy2(index, ours)
        git = git.using(GIT_INDEX_FILE=str(ours))
        done = git.run("add", "--all", "--", ".")
        if done.returncode != 0:
            raise UsageError(f"cannot take a snapshot of {git.cwd}: {provider_error(done)}")
        tree = git.line("write-tree")
    if head and tree == tree_of(git, head):
        return head
    commit = commit_tree(git, tree, [head] if head else [], "Snapshot of uncommitted work")
    git.ask("update-ref", f"refs/logos/snapshots/{commit[:12]}", commit)
    return commit


def diff(wd: Path, a: str, b: str) -> str:
    """What changed between two commits, as a patch."""
    return _compared(wd, a, b, "--patch")


def diff_stat(wd: Path, a: str, b: str) -> list[str]:
    """What changed between two commits, a line for each file and one for all."""
    return [line.rstrip() for line in _compared(wd, a, b, "--stat=100").splitlines()]


def _compared(wd: Path, a: str, b: str, how: str) -> str:
    flags = ("-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")
    return text_of(Git(wd).ask("diff-tree", *flags, how, checked_commit(a), checked_commit(b), "--"))
