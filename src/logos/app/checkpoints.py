"""A checkpoint: a run at one of its events, with its files then; and the start of another run from there."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from logos.adapters.git.command import Git, is_repository
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.git.workspace import GitWorkspace
from logos.adapters.hosts.scripted import SESSION as SCRIPTED_SESSION
from logos.adapters.lock import driver_of
from logos.app.hosts import session_in
from logos.app.runs import load_run
from logos.app.settings import Settings
from logos.app.state_files import write_state
from logos.app.workdir import Tell, wd_flag
from logos.domain.events import Recorded, RunForked, WorkGathered, WorkMerged
from logos.domain.ledger import Ledger
from logos.domain.plans import CyclePlan, LevelsPlan, Plan
from logos.domain.turns import Outcome, RunId, TurnId
from logos.engine.checkpoints import commit_at
from logos.errors import HostError, LogError, UsageError
from logos.flows import RunState
from logos.flows.fold import UNFINISHED
from logos.flows.levels.turn_ids import GATHER
from logos.ports import Log
from logos.views.run import RunView

# By pending turn: the commit of the work that it continues.
LeftWork = tuple[tuple[str, str], ...]


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
    def plan(self) -> Plan:
        return self.state.plan

    @property
    def can_continue(self) -> bool:
        return self.state.outcome in UNFINISHED

    @property
    def history(self) -> tuple[Recorded, ...]:
        return self.view.records[: self.seq]


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that starts from a checkpoint of another.

    `kept` is the commit with the files that a rollback replaced; `restored` says whether the files are those of the
    checkpoint.
    """

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


def find_checkpoint(place: Path, log: Log, run: RunId, seq: int | None) -> Checkpoint:
    return checkpoint_at(place, load_run(log, run), seq)


def checkpoint_at(place: Path, view: RunView, seq: int | None) -> Checkpoint:
    """A run of a work dir at an event; without one, at its last unfinished event."""
    if view.damage:
        raise LogError(view.damage)
    number = len(view.records) if seq is None else seq
    if 1 <= number <= len(view.records) and (seq is None or view.states[number - 1].outcome is Outcome.ABANDONED):
        # An abandoned run is reopened at its last unfinished event.
        open_events = (at for at, state in enumerate(view.states[:number], 1) if state.outcome in UNFINISHED)
        number = max(open_events, default=0)
    if not 1 <= number <= len(view.records):
        raise UsageError(f"there is no event {number} in run {view.run}: it has {len(view.records)}")
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
    workspace, gathered = GitWorkspace(settings.work_dir, at.run), gathered_in(at.view.records)
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
    wd = str(settings.work_dir)
    match at.plan:
        case CyclePlan() as plan:
            moved: Plan = replace(plan, wd=wd, response_dir=str(settings.response_dir))
        case LevelsPlan() as plan:
            moved = replace(plan, wd=wd)
    return RunForked(at.run, at.seq, moved, way, at.commit, left, session_in(at.view.records))


def keep_history(snapshots: GitSnapshots, at: Checkpoint, run: RunId, left: LeftWork) -> None:
    """Keep every commit that the new run's history names, whatever is removed of the old run."""
    earlier = {seq: commit for seq, commit in snapshots.of(at.run).items() if seq <= at.seq}
    snapshots.point(run, {**earlier, **({at.seq: at.commit} if at.commit else {})})
    snapshots.point(run, {commit: commit for commit in (*commits_in(at.history), *(commit for _, commit in left))})
    # A later rollback to an earlier event needs what was in the worktrees then.
    before = {**snapshots.left_of(at.run), **gathered_in(at.view.records)}
    snapshots.point(run, {f"left/{turn}": commit for turn, commit in before.items()})


def start_from(at: Checkpoint, log: Log, run: RunId, event: RunForked, settings: Settings) -> NewRun:
    """Write the new run to a log, and its state file."""
    record = log.fork(run, at.history, event)
    state = at.view.fold.flow.apply(at.state, event)
    write_state(settings, state, Ledger().enter(event), run, record.seq, time.time())
    return NewRun(run, settings.work_dir, at, simulated=event.host == SCRIPTED_SESSION)


def gathered_in(history: Iterable[Recorded]) -> dict[TurnId, str]:
    """By turn: the commit that its work was gathered as."""
    events = (record.event for record in history)
    return {
        TurnId(event.turn.removesuffix(GATHER)): event.commit for event in events if isinstance(event, WorkGathered)
    }


def commits_in(history: Iterable[Recorded]) -> set[str]:
    """Every commit that the events of a run name."""
    found: set[str] = set()
    for record in history:
        match record.event:
            case WorkGathered(_, _, commit) | WorkMerged(_, commit):
                found.add(commit)
            case RunForked(_, _, _, _, _, left):
                found.update(commit for _, commit in left)
            case _:
                pass
    return found
