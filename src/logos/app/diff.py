"""Diff and compare: what changed between two checkpoints; two runs side by side, from where they part."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from logos.adapters.git.command import Git, checked_commit, is_repository, text_of
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.git.workspace import diff_stat
from logos.app.checkpoints import Checkpoint, files_at, locate, match, run_name
from logos.app.setting_sources import settings_of
from logos.app.workdir import Tell, place_to_read, reading, say
from logos.domain.events import RunForked, TurnEnded, TurnFailed
from logos.domain.turns import RunId
from logos.errors import UsageError
from logos.flows.levels.state import LevelsState
from logos.views.run import RunView, TurnView

MAX_NEW_FILES = 20
_FLAGS = ("-r", "--ignore-submodules=none")
# A run, perhaps with an event: a word that is not only digits. Numbers, dates and turns are events.
_RUN = re.compile(r"\w*[^\W\d]\w*(@.*)?")


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that differs, with the number of lines added and deleted; None for a binary file."""

    path: str
    added: int | None
    deleted: int | None


@dataclass(frozen=True, slots=True)
class Diff:
    """Two checkpoints. Git is asked for a patch, a summary or a list of files when it is wanted."""

    one: Checkpoint
    other: Checkpoint

    @property
    def missing(self) -> list[Checkpoint]:
        """The sides whose files were not kept."""
        return [side for side in (self.one, self.other) if not side.commit]

    @property
    def turns(self) -> list[TurnView] | None:
        """The turns, checks and merges that ended between two checkpoints of one run; None for two runs."""
        view = self.one.view
        if view.run != self.other.view.run:
            return None
        first, last = sorted((self.one.seq, self.other.seq))
        between = [record.event for record in view.records[first:last]]
        ended = {event.turn for event in between if isinstance(event, TurnEnded | TurnFailed)}
        return [turn for turn in view.turns if turn.turn in ended]

    def patch(self) -> bytes:
        return self._git_diff("-M", "--binary", "--patch")

    def patch_text(self) -> str:
        return text_of(self.patch())

    def stat(self) -> list[str]:
        return [line.rstrip() for line in text_of(self._git_diff("-M", "--stat=100")).splitlines()]

    def files(self) -> list[ChangedFile]:
        rows = (row.split(b"\t", 2) for row in self._git_diff("--no-renames", "-z", "--numstat").split(b"\0") if row)
        return [ChangedFile(text_of(path), _number(added), _number(deleted)) for added, deleted, path in rows]

    def _git_diff(self, *options: str) -> bytes:
        # A build knows the whole repository, a cycle only its work dir.
        same_flow = self.one.view.plan.flow == self.other.view.plan.flow
        commits = checked_commit(self.one.commit), checked_commit(self.other.commit)
        return Git(self.one.place).ask("diff-tree", *_FLAGS, *options, *commits, "--", *(() if same_flow else (".",)))


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None


def diff(
    a: str | None = None,
    b: str | None = None,
    *,
    wd: Path | None = None,
    tell: Tell = say,
    known: RunView | None = None,
) -> Diff:
    """Compare checkpoint `a` with `b`, of the same run unless it names another; without `b`, with the files now.

    `a` alone may be a run: then what that run did, until its end or until now. Without both, what the newest run has
    changed until now. `known` is a run that is loaded already.
    """
    place = place_to_read(wd)
    if a is None:
        start = _start_of(side_at(place, None))
        return Diff(start, _now(start, tell))
    one = side_at(place, a, known)
    if b is None and _RUN.fullmatch(a) and "@" not in a:
        return Diff(_start_of(one), one if one.view.outcome is not None else _now(one, tell))
    if b is None:
        return Diff(one, _now(one, tell))
    return Diff(one, side_at(one.place, b if _RUN.fullmatch(b) else f"{one.view.run}@{b}", one.view))


def _start_of(end: Checkpoint) -> Checkpoint:
    """The files that a run started with; a fork starts with those of its checkpoint."""
    first = end.view.forked.seq if end.view.forked is not None else 1
    return Checkpoint(end.place, end.view, first, files_at(end.place, end.view, first))


def run_changes(place: Path, view: RunView) -> Diff:
    """What a run has changed, from its start to its newest checkpoint."""
    last = len(view.records)
    end = Checkpoint(place, view, last, files_at(place, view, last))
    return Diff(_start_of(end), end)


def side_at(place: Path, wanted: str | None, known: RunView | None = None) -> Checkpoint:
    """The side that a person names; a run alone is its newest event. `known` is a run that is loaded already."""
    name = locate(place, wanted)
    with reading(name.place) as log:
        view, event = match(log, name, known)
    last = len(view.records)
    seq = last if event is None else event
    if not 1 <= seq <= last:
        has = f"it can be read up to {last}" if view.damage else f"it has {last}"
        raise UsageError(f"there is no event {seq} in run {view.run}: {has}")
    return Checkpoint(name.place, view, seq, files_at(name.place, view, seq))


def _now(one: Checkpoint, tell: Tell) -> Checkpoint:
    """The files of a run now, without changing anything that a driver uses."""
    place, view, last = one.place, one.view, len(one.view.records)
    if view.build is not None or not is_repository(place):
        return Checkpoint(place, view, last, files_at(place, view, last), now=True)
    with TemporaryDirectory(prefix="logos-look-") as home:
        snapshots = GitSnapshots(place, [settings_of(place).state_path], tell, Path(home))
        return Checkpoint(place, view, last, snapshots.take(), now=True)


@dataclass(frozen=True, slots=True)
class CommonCheckpoint:
    """The last event that both runs have, and the run it was first recorded in. `commit` has the files then."""

    run: RunId
    seq: int
    commit: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs at their newest events: `diff` is from the end of the first to the end of the second."""

    diff: Diff
    common: CommonCheckpoint | None

    @property
    def ends(self) -> tuple[Checkpoint, Checkpoint]:
        return self.diff.one, self.diff.other

    @property
    def flows(self) -> set[str]:
        return {end.view.plan.flow for end in self.ends}

    def changed_by(self, end: Checkpoint) -> int | None:
        """How many files a run changed since the common checkpoint, or else since its start."""
        start = self.common.commit if self.common is not None else files_at(end.place, end.view, 1)
        return len(Diff(replace(end, commit=start), end).files()) if start and end.commit else None

    @property
    def gaps(self) -> list[str]:
        """What cannot be compared, and why."""
        flows = (
            "a cycle has rounds and a build has sweeps; the files of a cycle are its whole work dir, those of a build "
            "what it merged"
        )
        gaps = [flows] if len(self.flows) > 1 else []
        if self.common is None:
            gaps.append("they have no event in common: the changes of each are counted from its own start")
        gaps += [f"the files at {end.name} were not kept: {end.why_not_kept}" for end in self.diff.missing]
        return gaps + [f"later events are left out: {end.view.damage}" for end in self.ends if end.view.damage]


def compare(a: str, b: str, *, wd: Path | None = None) -> Comparison:
    """Compare two runs at their newest events; both may be in this work dir or in that of a fork."""
    for run in (a, b):
        if not run or "@" in run:
            raise UsageError(f"{run!r} is no run; `logos runs` lists them, and `logos diff` compares events")
    place = place_to_read(wd)
    one, other = side_at(place, run_name(a)), side_at(place, run_name(b))
    if one.view.run == other.view.run:
        raise UsageError(f"{one.view.run} is one run; name two")
    shared, common = last_in_common(one.view, other.view), None
    if shared is not None:
        # A fork keeps the files it started with, even after those of the original run were removed.
        kept = (files_at(end.place, end.view, shared[1]) for end in (one, other))
        common = CommonCheckpoint(*shared, next(filter(None, kept), ""))
    return Comparison(Diff(one, other), common)


def last_in_common(one: RunView, other: RunView) -> tuple[RunId, int] | None:
    """The run and the event at which two histories part, over any number of forks."""
    shared = None
    for (run, upto), (same, until) in zip(_ancestry(one), _ancestry(other), strict=False):
        if run != same:
            break
        shared = run, min(upto, until)
    return shared


def _ancestry(view: RunView) -> list[tuple[RunId, int]]:
    """The runs whose events a history consists of, each with its last event; a fork has the events of its ancestors."""
    forks = [record.event for record in view.records if isinstance(record.event, RunForked)]
    return [*((fork.parent, fork.at) for fork in forks), (view.run, len(view.records))]


def changes(work_dir: Path) -> list[str]:
    """Uncommitted changes as `git diff --stat` shows them, and new files by name; empty outside a repository."""
    if not is_repository(work_dir):
        return []
    # A repository without commits has no HEAD; every file is new then.
    git = Git(work_dir).disarmed()
    stat = git.run("diff", "--stat", "HEAD", "--", ".")
    lines = [line.rstrip() for line in text_of(stat.stdout).splitlines()] if stat.returncode == 0 else []
    new = text_of(git.ask("ls-files", "--others", "--exclude-standard")).splitlines()
    lines += [f" {name} (new)" for name in new[:MAX_NEW_FILES]]
    if len(new) > MAX_NEW_FILES:
        lines.append(f" and {len(new) - MAX_NEW_FILES} more new files")
    return lines


def built_changes(work_dir: Path, state: LevelsState) -> list[str]:
    """What a build changed, as `git diff --stat` shows it."""
    return diff_stat(work_dir, state.plan.base, state.result) if state.result else []


def code_diff(work_dir: Path, branch: str, without: tuple[str, ...] = ()) -> str:
    """The diff of the Python files from HEAD to a branch; without a branch, to the work tree."""
    excluded = (f":(exclude){pattern}" for pattern in without)
    target = (branch,) if branch else ()
    return text_of(Git(work_dir).run("diff", "HEAD", *target, "--", "*.py", *excluded).stdout)
