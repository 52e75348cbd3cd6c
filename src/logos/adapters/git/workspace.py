"""The git worktrees of one run: create, gather, merge and remove them without touching the user's branch or index."""

import os
import posixpath
import re
import shutil
import tempfile
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from logos.adapters.files import (
    folder_below,
    own_folder,
    private_folder,
    refuse_link,
    remove,
    text_of_file,
    write_atomically,
)
from logos.adapters.git.command import Git, checked_commit, dubious, provider_error, repository_of, text_of
from logos.adapters.git.contents import (
    FileProblem,
    changed_after,
    fresh_index,
    missing_paths,
    problems_in,
    stage,
    stage_as_user,
    touched,
    undeclared,
)
from logos.adapters.git.merging import merge_contributions
from logos.adapters.git.signature import Signature
from logos.adapters.git.worktrees import Setup, WorktreePath, owner_of, run_setup
from logos.domain.events import WorkGathered, WorkMerged
from logos.domain.turns import Gather, Merge, RunId, TurnId, Worktree
from logos.errors import HostError, UsageError

MAIN = "main"
TELOS = "telos.toml"
WRITTEN_BY_INIT = (TELOS, "logos.json", "prompt.md")

# Valid as a part of a branch name.
_SLUG = re.compile(r"(?!.*\.lock$)[a-z](?:[a-z0-9_-]|\.(?=[a-z0-9_-]))*")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

_START = "`git init && git add -A && git commit -m start`"
_SNAPSHOT = "`logos build --allow-dirty`, which builds from a snapshot and does not change your files"
_OLDEST = (2, 38)
_IN_PROGRESS = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


class GitWorkspace:
    def __init__(
        self, wd: Path, run: RunId, setup: Setup | None = None, *, feature: str = "", signature: Signature | None = None
    ) -> None:
        if not _RUN.fullmatch(run):
            raise HostError(f"{run!r} cannot be the name of a run's branch")
        self._wd = wd.resolve()
        self._run = run
        self._setup = setup
        self._feature = feature
        self._signature = signature or Signature()
        self._home = self._wd / ".telos" / "worktrees" / run
        self._repository = repository_of(self._wd)
        self._git = self._repository.git
        # Several agents may work in the same worktree at once.
        self._locks: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)
        self._starts: dict[tuple[str, ...], str] = {}

    def open(self, worktree: Worktree, *, anew: bool) -> str:
        checkout, start = self._checkout(worktree.name), self._start(worktree)
        with self._locks[worktree.name]:
            if checkout.start != start or (anew and not self._is_intact(checkout)):
                self._create(checkout, start)
            elif anew:
                # In the same folder: a terminal may already be open in it.
                checkout.setup_mark.unlink(missing_ok=True)
                self._reset(checkout, start, "-ffdxq")
            else:
                self._repair_link(checkout)
            self._set_up(checkout)
            return self._inside(checkout)

    def gather(self, action: Gather) -> WorkGathered:
        checkout, start = self._checkout(action.place.name), self._start(action.place)
        base = self._start(Worktree(action.place.name, action.since)) if action.since else start
        with self._locks[action.place.name]:
            if not checkout.exists:
                return WorkGathered(action.id, checkout.name, start, problems=("the worktree was deleted",))
            if checkout.start != start:
                raise HostError(f"{checkout.folder} was not created at {start}, so its changes cannot be determined")
            git, commit, problems = self._commit_files(checkout, action.title.strip() or "Work")
            changed, prefix = git.changes(base, commit) if commit != base else [], self._repository.prefix
            if action.must_change and not changed:
                problems.append(FileProblem(b"", "nothing was changed"))
            declared = [posixpath.normpath(prefix + path) for path in action.declared]
            problems += missing_paths(git, commit, declared, changed)
            if any(it.path == os.fsencode(prefix + TELOS) for it in changed):
                problems.append(FileProblem(os.fsencode(prefix + TELOS), "belongs to the user and was restored"))
            problems += problems_in(git, checkout.folder, changed)
            if action.ended_at or action.vouched:
                mine = git.changes(start, commit) if commit != start else []
                problems += changed_after(checkout.folder, mine, action.ended_at)
                problems += undeclared(mine, declared) if action.vouched else []
            lines = dict.fromkeys(problem.describe(prefix) for problem in problems)
            files = touched(git, changed, prefix)
            if problems:
                # The files stay, compared with the start commit, so that the author can correct them.
                fresh_index(git, checkout.index, start)
                # The user's telos.toml is restored: the start commit of a fork may contain an agent's version.
                with suppress(OSError):
                    (Path(self._inside(checkout)) / TELOS).unlink(missing_ok=True)
                git.run("restore", f"--source={base}", "--worktree", "--", f":(top,literal){prefix}{TELOS}")
            now = start if problems else commit
            self._git.point({f"refs/heads/{checkout.branch}": now, self._kept_ref(commit): commit})
            self._sync_index(checkout)
            return WorkGathered(action.id, checkout.name, commit, files, tuple(lines))

    def merge(self, action: Merge) -> WorkMerged:
        git = self._signature.sign(self._git)
        commit, conflicts = merge_contributions(git, action.onto, action.contributions, self._repository.prefix)
        if not conflicts:
            self._git.point({self._kept_ref(commit): commit})
        return WorkMerged(action.id, action.onto if conflicts else commit, conflicts)

    def ready(self, worktree: Worktree) -> str:
        checkout, start = self._checkout(worktree.name), self._start(worktree)
        with self._locks[worktree.name]:
            if checkout.start and self._is_intact(checkout):
                self._reset(checkout, start, "-ffdq")
            else:
                self._create(checkout, start)
            self._set_up(checkout)
            return self._inside(checkout)

    def close(self, result: str | None) -> None:
        main, work = f"refs/heads/logos/{self._run}", f"refs/heads/logos-work/{self._run}/"
        # A killed git may have left locks on refs of this run, which no other process uses.
        for folder in (f"refs/logos/{self._run}", work):
            _remove_locks(self._repository.common, self._repository.common / folder)
        there = self._git.refs(main, work)
        folders = [entry.name for entry in self._home.iterdir()] if self._home.is_dir() else []
        for name in {MAIN, *folders, *(ref.removeprefix(work) for ref in there if ref.startswith(work))}:
            if _SLUG.fullmatch(name):
                self._delete(self._checkout(name))
        pointed = dict.fromkeys((ref for ref in there if ref != main or not result), None)
        self._git.point({**pointed, **({main: checked_commit(result)} if result else {})})
        remove(self._home, self._wd)
        for folder in (self._home.parent, self._repository.common / "worktrees"):
            with suppress(OSError):  # not empty, or missing
                folder.rmdir()

    def keep(self, worktree: Worktree, turn: TurnId) -> None:
        checkout = self._checkout(worktree.name)
        with self._locks[worktree.name]:
            if checkout.start == self._start(worktree):
                _, commit, _ = self._commit_files(checkout, f"Left in {checkout.name}")
                self._git.point({f"refs/logos/{self._run}/left/{turn}": commit})

    def left(self, turn: TurnId) -> str:
        """The commit of the files that a turn left; empty if none was kept."""
        return self._git.commit(f"refs/logos/{self._run}/left/{turn}")

    def give_up(self, result: str | None) -> None:
        """Remove every worktree and branch like `close`, and keep their work as commits outside branches."""
        for name in sorted(entry.name for entry in self._home.iterdir()) if self._home.is_dir() else ():
            if _SLUG.fullmatch(name):
                with suppress(HostError):
                    _, commit, _ = self._commit_files(self._checkout(name), f"Left in {name}")
                    self._git.point({self._kept_ref(commit): commit})
        self.close(result)

    def _commit_files(self, checkout: WorktreePath, title: str) -> tuple[Git, str, list[FileProblem]]:
        """Commit the files of a worktree, unless they are those of its start; with git there, and the problems."""
        git, start = self._git_in(checkout), checked_commit(checkout.start)
        fresh_index(git, checkout.index, start)
        problems, tree = stage(git, checkout.folder), git.line("write-tree")
        line = self._signature.line(title, self._feature, self._run)
        commit = start if tree == git.tree_of(start) else self._signature.sign(git).commit_tree(tree, [start], line)
        return git, commit, problems

    # -- names

    def _checkout(self, name: str) -> WorktreePath:
        if not _SLUG.fullmatch(name):
            raise HostError(f"{name!r} is not a valid worktree name")
        branch = f"logos/{self._run}" if name == MAIN else f"logos-work/{self._run}/{name}"
        return WorktreePath(name, self._home / name, branch)

    def _kept_ref(self, commit: str) -> str:
        """A ref that protects a commit of the log from `git gc`, however long the run is paused."""
        return f"refs/logos/{self._run}/{commit}"

    def _inside(self, checkout: WorktreePath) -> str:
        folder = checkout.folder / self._repository.prefix
        if os.path.commonpath([checkout.folder, os.path.realpath(folder)]) != str(checkout.folder):
            raise HostError(f"{folder} is outside the worktree")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HostError(f"cannot create {folder}: {error.strerror}") from error
        return str(folder)

    def _git_in(self, checkout: WorktreePath) -> Git:
        variables = {"GIT_WORK_TREE": str(checkout.folder), "GIT_INDEX_FILE": str(checkout.index)}
        return Git(checkout.folder, {**self._git.variables, **variables}, root=self._wd).disarmed()

    # -- creating worktrees

    def _start(self, worktree: Worktree) -> str:
        """The commit a worktree starts at. A restart finds it again: repeating a merge gives the same commit."""
        if not worktree.commits:
            raise HostError(f"worktree {worktree.name!r} has no commit to start from")
        if worktree.commits not in self._starts:
            first, *more = worktree.commits
            self._git.tree_of(first)
            start, conflicts = merge_contributions(self._git, first, tuple((commit[:12], commit) for commit in more))
            if conflicts:
                paths, commits = ", ".join(sorted({clash.where for clash in conflicts})), ", ".join(worktree.commits)
                raise HostError(f"worktree {worktree.name!r} cannot start from {commits}: {paths} conflict")
            self._starts[worktree.commits] = start
        return self._starts[worktree.commits]

    def _create(self, checkout: WorktreePath, start: str) -> None:
        telos = self._wd / ".telos"
        own_folder(telos)
        if not (telos / ".gitignore").exists():
            write_atomically(telos / ".gitignore", "*\n", durable=False)
        for folder in (self._home.parent, self._home):
            refuse_link(folder)
            private_folder(folder)
        self._delete(checkout)
        self._git.point({f"refs/heads/{checkout.branch}": start})
        # What `git worktree add` writes: git is slower, and fails at a worktree that another thread has not finished.
        folder, tie = self._registration(checkout), checkout.folder / ".git"
        head = f"ref: refs/heads/{checkout.branch}"
        files = {folder / "gitdir": tie, folder / "commondir": "../..", folder / "HEAD": head, tie: f"gitdir: {folder}"}
        try:
            checkout.folder.mkdir(mode=0o700)
            folder.mkdir(parents=True)
            for file, line in files.items():
                file.write_text(f"{line}\n", encoding="utf-8")
        except OSError as error:
            raise HostError(f"cannot create the worktree {checkout.folder}: {error.strerror}") from error
        fresh_index(self._git_in(checkout), checkout.index, start, "-u")
        self._sync_index(checkout)
        self._set_up(checkout)
        checkout.mark.write_text(start, encoding="ascii")

    def _set_up(self, checkout: WorktreePath) -> None:
        """Run the setup command, unless the same has run in these files: it may have been changed since."""
        if self._setup is not None and text_of_file(checkout.setup_mark) != self._setup.command:
            run_setup(self._setup, Path(self._inside(checkout)), self._wd)
            checkout.setup_mark.write_text(self._setup.command, encoding="utf-8")

    def _reset(self, checkout: WorktreePath, start: str, clean: str) -> None:
        """Reset a worktree to its start; `clean` are the options for files that are not in the commit."""
        git = self._git_in(checkout)
        fresh_index(git, checkout.index, start, "-u")
        git.ask("clean", clean)
        self._git.point({f"refs/heads/{checkout.branch}": start})
        self._sync_index(checkout)
        checkout.mark.write_text(start, encoding="ascii")

    def _delete(self, checkout: WorktreePath) -> None:
        """Remove a worktree and whatever a killed driver left of it. Its branch stays."""
        ours = (checkout.mark, checkout.setup_mark, checkout.index, Path(f"{checkout.index}.lock"))
        for path in (*ours, checkout.folder):
            remove(path, self._wd)
        for path in (self._registration(checkout), *self._registered(checkout)):
            remove(path, self._repository.common)

    def _registration(self, checkout: WorktreePath) -> Path:
        """The folder in GIT_DIR/worktrees that a new worktree gets."""
        return self._repository.common / "worktrees" / f"{self._run}.{checkout.name}"

    def _registered(self, checkout: WorktreePath) -> list[Path]:
        """The folders in GIT_DIR/worktrees that name this worktree, also under a name of an older version."""
        folders = sorted((self._repository.common / "worktrees").glob("*"))
        return [folder for folder in folders if owner_of(folder) == str(checkout.folder / ".git")]

    # -- repairing worktrees

    def _repair_link(self, checkout: WorktreePath) -> None:
        """Restore the link between the worktree and the repository that an agent or a killed git broke."""
        tie = checkout.folder / ".git"
        for folder in self._registered(checkout):
            for lock in folder.glob("*.lock"):
                lock.unlink(missing_ok=True)
            if tie.is_symlink():
                tie.unlink()
            if not tie.is_dir():
                tie.write_text(f"gitdir: {folder}\n", encoding="utf-8")

    def _sync_index(self, checkout: WorktreePath) -> None:
        """Make the agent's own git see the worktree as Logos does: on its branch, with nothing staged."""
        self._repair_link(checkout)
        for folder in self._registered(checkout):
            # copy2 keeps the time stamp, by which git decides which entries to check again.
            shutil.copy2(checkout.index, folder / "index.logos")
            os.replace(folder / "index.logos", folder / "index")
            if text_of_file(folder / "HEAD", "surrogateescape") != f"ref: refs/heads/{checkout.branch}\n":
                self._git.using(GIT_DIR=str(folder)).ask("symbolic-ref", "HEAD", f"refs/heads/{checkout.branch}")

    def _is_intact(self, checkout: WorktreePath) -> bool:
        return (checkout.folder / ".git").is_file() and bool(self._registered(checkout))


def _remove_locks(root: Path, folder: Path) -> None:
    """Remove the locks in a folder of refs; where a link leads elsewhere, nothing is removed."""
    with suppress(OSError), folder_below(root, folder) as handle:
        for _, _, names, inside in os.fwalk(dir_fd=handle):
            for name in names:
                if name.endswith(".lock"):
                    os.unlink(name, dir_fd=inside)


def base_of(wd: Path, *, allow_dirty: bool) -> str:
    """The commit a build starts from: HEAD, or a snapshot of the uncommitted work."""
    git = _users_git(wd)
    head = git.commit("HEAD")
    if not head and not allow_dirty:
        raise UsageError(f"{wd} has no commit yet: `git add -A && git commit -m start`, or {_SNAPSHOT}")
    for name, what in _IN_PROGRESS.items():
        if (git.cwd / git.line("rev-parse", "--git-path", name)).exists():
            raise UsageError(f"a {what} is in progress in {wd}: finish or abort it first")
    entries = git.paths("status", "--porcelain", "-z", "--untracked-files=normal")
    # Untracked files that `logos init` wrote do not count.
    if head and not {*entries} - {os.fsencode(f"?? {repository_of(wd).prefix}{name}") for name in WRITTEN_BY_INIT}:
        return head
    if not allow_dirty:
        raise UsageError(f"{wd} has uncommitted changes: commit or stash them, or {_SNAPSHOT}")
    return _snapshot(git, head)


def _users_git(wd: Path) -> Git:
    """Git at the top of the user's work tree, with the user's filters."""
    git = Git(wd)
    try:
        version = git.line("version")
    except HostError as error:
        raise UsageError(f"`logos build` needs git: {error}") from error
    found = re.search(r"(\d+)\.(\d+)", version)
    if found and tuple(map(int, found.groups())) < _OLDEST:
        raise UsageError(f"`logos build` needs git {'.'.join(map(str, _OLDEST))} or newer, this is {version}")
    done = git.run("rev-parse", "--is-inside-work-tree")
    if done.returncode != 0:
        why = provider_error(done)
        known = {"not a git repository": f"{wd} is not a git repository: {_START} makes it one", "dubious": dubious(wd)}
        raise UsageError(next((text for words, text in known.items() if words in why), f"{wd}: {why}"))
    if done.stdout.strip() != b"true":
        instead = "run `logos build` in a work tree, see `git worktree add`"
        raise UsageError(f"{wd} is a bare repository or inside .git: {instead}")
    return Git(repository_of(wd).top, root=wd)


def _snapshot(git: Git, head: str) -> str:
    index = git.cwd / git.line("rev-parse", "--git-path", "index")
    with tempfile.TemporaryDirectory(prefix="logos-snapshot-") as folder:
        ours = Path(folder) / "index"
        with suppress(FileNotFoundError):
            # copy2 keeps the time stamp, by which git decides which entries to check again.
            shutil.copy2(index, ours)
        git = git.using(GIT_INDEX_FILE=str(ours))
        problems = stage_as_user(git, git.cwd)
        if problems:
            raise UsageError(f"cannot take a snapshot of {git.cwd}: {problems[0].describe('')}")
        tree = git.line("write-tree")
    if head and tree == git.tree_of(head):
        return head
    commit = git.commit_tree(tree, [head] if head else [], "Snapshot of uncommitted work")
    git.ask("update-ref", f"refs/logos/snapshots/{commit[:12]}", commit)
    return commit


def diff_stat(wd: Path, a: str, b: str) -> list[str]:
    """The changes between two commits: a line per file, and a total."""
    flags = ("-r", "-M", "--ignore-submodules=none", "--stat=100")
    stat = Git(wd).ask("diff-tree", *flags, checked_commit(a), checked_commit(b), "--")
    return [line.rstrip() for line in text_of(stat).splitlines()]
