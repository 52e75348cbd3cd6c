"""Checkpoints: a run at one of its events, with its files then, as a person names it; and a run that starts there."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Literal

from logos.adapters.git.command import Git, is_repository
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.git.workspace import GitWorkspace
from logos.adapters.git.worktrees import worktrees_of
from logos.adapters.hosts.scripted import SESSION as SCRIPTED_SESSION
from logos.adapters.lock import driver_of
from logos.adapters.store.sqlite import SqliteLog
from logos.app.hosts import session_in
from logos.app.runs import load_run, write_state
from logos.app.settings import Settings
from logos.app.workdir import Tell, find_run, has_log, reading, wd_flag
from logos.domain.events import CheckRan, Recorded, RunForked, TurnAnswered, WorkGathered, WorkMerged
from logos.domain.ledger import Ledger
from logos.domain.plans import CyclePlan, Plan
from logos.domain.turns import Outcome, RunId, TurnId
from logos.engine.checkpoints import commit_at
from logos.errors import HostError, LogError, UsageError
from logos.flows.fold import UNFINISHED, RunState
from logos.flows.levels.turn_ids import GATHER
from logos.ports import Log
from logos.views.run import RunView

HELP = "An event's number, RUN@NUMBER, RUN, a turn's id or RUN@TURN, or a date (its last event that day)."

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_ENDS_A_TURN = TurnAnswered | CheckRan | WorkGathered | WorkMerged
# By pending turn: the commit of the work that it continues.
LeftWork = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CheckpointName:
    """A checkpoint as it was named: the work dir whose log has the run, the run and the event, where they are named."""

    place: Path
    run: str | None = None
    event: str = ""


def work_dirs(place: Path) -> list[Path]:
    """The work dirs of the repository that have a log, each once: this one first, then those of forks."""
    found: dict[Path, Path] = {}
    for path in [place, *(worktrees_of(place) if is_repository(place) else [])]:
        if has_log(path):
            found.setdefault(path.resolve(), path)
    return [*found.values()]


def run_name(run: str | None) -> str | None:
    """The name of a run's newest checkpoint; the `@` keeps an id from being read as a number or a date."""
    return run if run is None or "@" in run else f"{run}@"


def locate(place: Path, wanted: str | None) -> CheckpointName:
    """The work dir that has the checkpoint `wanted`: this one or that of a fork. None is the newest run here."""
    name, at, event = (wanted or "").partition("@")
    if wanted is not None and not (name or event):
        raise UsageError(f"{wanted!r} names no checkpoint: {HELP}")
    if not at and (name.isdecimal() or _DATE.fullmatch(name) or "." in name):
        name, event = "", name
    return CheckpointName(_place_with(work_dirs(place), name) if name else place, name or None, event)


def match(log: SqliteLog, name: CheckpointName, known: RunView | None = None) -> tuple[RunView, int | None]:
    """The run that a name means, loaded unless it is `known`, and its event; None means the newest event."""
    if name.run is None and _DATE.fullmatch(name.event):
        view = _newest_on(log, name.event)
    else:
        run = find_run(log, name.run)
        view = known if known is not None and known.run == run else load_run(log, run)
    return view, _event_number(view, name.event) if name.event else None


def _newest_on(log: SqliteLog, day: str) -> RunView:
    """The newest run with an event of its own on a day; without one, the newest of all."""
    for run in reversed(log.runs()):
        view = load_run(log, run)
        first = view.forked.seq if view.forked is not None else 1
        if any(_day(record) == day for record in view.records[first - 1 :]):
            return view
    return load_run(log, find_run(log, None))


def _place_with(places: list[Path], run: str) -> Path:
    """The work dir whose log has the run: a whole id before the start of one, this work dir before others."""
    known: dict[Path, list[RunId]] = {}
    for place in places:
        with suppress(LogError), reading(place) as log:
            known[place] = log.runs()
    for fits in (str.__eq__, str.startswith):
        for place, runs in known.items():
            if any(fits(str(known_run), run.lower()) for known_run in runs):
                return place
    elsewhere = ", nor elsewhere in this repository" if len(places) > 1 else ""
    raise UsageError(f"there is no run {run!r} here{elsewhere}; `logos runs` lists them")


def _event_number(view: RunView, wanted: str) -> int:
    """The number of an event that is named by number, by the turn it ends, or by a date (the last on that day)."""
    if wanted.isdecimal() and len(wanted) < 10:
        return int(wanted)
    if _DATE.fullmatch(wanted):
        return _last_on(view, wanted)
    for record in reversed(view.records):
        if isinstance(record.event, _ENDS_A_TURN) and record.event.turn == wanted:
            return record.seq
    raise UsageError(f"run {view.run} has no event {wanted!r}: {HELP}")


def _last_on(view: RunView, day: str) -> int:
    try:
        date.fromisoformat(day)
    except ValueError as error:
        raise UsageError(f"{day!r} is not a valid date (YYYY-MM-DD): {error}") from error
    until = [record.seq for record in view.records if _day(record) <= day]
    if not until:
        raise UsageError(f"run {view.run} began on {_day(view.records[0])}, after {day}")
    return until[-1]


def _day(record: Recorded) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(record.at))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run as it was after event `seq`. `commit` has its files then; it is empty where they were not kept."""

    view: RunView
    seq: int
    commit: str = ""

    @property
    def run(self) -> RunId:
        return self.view.run

    @property
    def state(self) -> RunState:
        return self.view.states[self.seq - 1]

    @property
    def can_continue(self) -> bool:
        return self.state.outcome in UNFINISHED

    @property
    def history(self) -> tuple[Recorded, ...]:
        return self.view.records[: self.seq]


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that starts from a checkpoint. `kept` has the files that were replaced by those of the checkpoint."""

    run: RunId
    wd: Path
    at: Checkpoint
    kept: str = ""
    restored: bool = False
    simulated: bool = False

    @property
    def blocked(self) -> bool:
        """Whether a person must answer a question before it continues."""
        return self.at.state.question is not None

    @property
    def next_command(self) -> str:
        if self.blocked:
            return f"logos resolve{wd_flag(self.wd)}"
        simulate = " --simulate SCRIPT" if self.simulated else ""
        return f"logos resume {self.run}{simulate}{wd_flag(self.wd)}"


def snapshots_for(settings: Settings, tell: Tell) -> GitSnapshots | None:
    """The snapshots of a work dir, whether or not new ones are wanted; None where there is no git repository."""
    wd = settings.work_dir
    return GitSnapshots(wd, [settings.state_path], tell) if is_repository(wd) else None


def checkpoint_at(place: Path, view: RunView, seq: int | None) -> Checkpoint:
    """A run of a work dir at an event; without one, at its last unfinished event."""
    if view.damage:
        raise LogError(view.damage)
    last = len(view.records)
    number = last if seq is None else seq
    if 1 <= number <= last and (seq is None or view.states[number - 1].outcome is Outcome.ABANDONED):
        # An abandoned run is reopened at its last unfinished event.
        open_events = (at for at, state in enumerate(view.states[:number], 1) if state.outcome in UNFINISHED)
        number = max(open_events, default=0)
    if not 1 <= number <= last:
        raise UsageError(f"there is no event {number} in run {view.run}: it has {last}")
    return Checkpoint(view, number, files_at(place, view, number))


def files_at(place: Path, view: RunView, seq: int) -> str:
    """The commit with the files of a run at an event; empty where they were not kept."""
    if not is_repository(place):
        return ""
    head = view.states[seq - 1].head
    if head is None:
        return commit_at(GitSnapshots(place).of(view.run), seq)
    try:
        # Only the log names this commit, so git may have removed it.
        return head if Git(place).tree_of(head) else ""
    except HostError:
        return ""


def left_work(settings: Settings, at: Checkpoint) -> LeftWork:
    """Work in worktrees that a build was not done with: as it was gathered, then or later, or else as it was kept.

    That is the work of agents who were asked for another attempt, and of those whose answers had just come.
    """
    continued = at.state.unfinished_work
    if not continued:
        return ()
    workspace, gathered = GitWorkspace(settings.work_dir, at.run), _gathered_in(at.view)
    uncommitted, driven = at.view.state.uncommitted, driver_of(settings.paths.lock) is not None

    def kept(turn: TurnId) -> str:
        found = workspace.left(turn)
        if not found and turn in uncommitted and not driven:
            # A killed driver did not keep it; the worktree still has it.
            workspace.keep(uncommitted[turn], turn)
        return found or workspace.left(turn)

    found = ((key, gathered.get(turn) or kept(turn)) for key, turn in sorted(continued.items()))
    return tuple((key, commit) for key, commit in found if commit)


def forked_at(at: Checkpoint, way: Literal["fork", "rollback"], settings: Settings, left: LeftWork) -> RunForked:
    """The first event of a run that starts from a checkpoint, in the work dir of these settings."""
    plan: Plan = replace(at.state.plan, wd=str(settings.work_dir))
    if isinstance(plan, CyclePlan):
        plan = replace(plan, response_dir=str(settings.response_dir))
    return RunForked(at.run, at.seq, plan, way, at.commit, left, session_in(at.view.records))


def keep_history(snapshots: GitSnapshots, at: Checkpoint, run: RunId, left: LeftWork) -> None:
    """Keep every commit that the new run's history names, whatever is removed of the old run."""
    earlier = {seq: commit for seq, commit in snapshots.of(at.run).items() if seq <= at.seq}
    snapshots.point(run, {**earlier, **({at.seq: at.commit} if at.commit else {})})
    named = {commit for _, commit in left}
    for event in (record.event for record in at.history):
        if isinstance(event, WorkGathered | WorkMerged):
            named.add(event.commit)
        elif isinstance(event, RunForked):
            named.update(commit for _, commit in event.left)
    snapshots.point(run, {commit: commit for commit in named})
    # A later rollback to an earlier event needs what was in the worktrees then.
    before = {**snapshots.left_of(at.run), **_gathered_in(at.view)}
    snapshots.point(run, {f"left/{turn}": commit for turn, commit in before.items()})


def _gathered_in(view: RunView) -> dict[TurnId, str]:
    """By turn: the commit that its work was gathered as."""
    events = [record.event for record in view.records if isinstance(record.event, WorkGathered)]
    return {TurnId(event.turn.removesuffix(GATHER)): event.commit for event in events}


def start_from(at: Checkpoint, log: Log, run: RunId, event: RunForked, settings: Settings) -> NewRun:
    """Write the new run to a log, and its state file."""
    record = log.fork(run, at.history, event)
    state = at.view.fold.flow.apply(at.state, event)
    write_state(settings, state, Ledger().enter(event), run, record.seq, time.time())
    return NewRun(run, settings.work_dir, at, simulated=event.host == SCRIPTED_SESSION)
