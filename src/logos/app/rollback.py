"""Fork, rollback and reset: start another run from a checkpoint, or abandon an unfinished run. Nothing is lost."""

import json
import os
import re
import shutil
import time
from contextlib import closing, suppress
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from logos.adapters.commands import SupervisedCommands
from logos.adapters.files import bytes_of_file, remove, write_atomically
from logos.adapters.git.snapshots import GitSnapshots, kept_commit
from logos.adapters.git.workspace import WRITTEN_BY_INIT, GitWorkspace
from logos.adapters.git.worktrees import Setup, run_setup
from logos.adapters.hosts.scripted import SESSION as SCRIPTED_SESSION
from logos.adapters.lock import driver_lock, driver_of
from logos.adapters.responses import ResponseFiles
from logos.adapters.store.mirror import discard
from logos.app.checkpoints import Checkpoint, checkpoint_at, locate, match, run_name, snapshots_for
from logos.app.hosts import host_to_end, session_in
from logos.app.person import require_person
from logos.app.run_state import write_run_state, write_state
from logos.app.runs import load_run, newest_of, unfinished_runs
from logos.app.setting_sources import settings_of
from logos.app.settings import Settings
from logos.app.telos_file import worktree_setup
from logos.app.workdir import CONFIG, Tell, driving, open_log, place_of, reading, require_log, say, wd_flag, wd_in
from logos.domain.events import ProofRan, RunAbandoned, RunForked, WorkCompared, WorkGathered, WorkMerged
from logos.domain.ledger import Ledger
from logos.domain.plans import CyclePlan, LevelsPlan, Plan
from logos.domain.turns import RunId, TurnId
from logos.engine.checkpoints import Checkpoints, work_tree
from logos.engine.journal import Journal
from logos.engine.runner import new_run_id
from logos.engine.terminals import AgentTerminals
from logos.errors import Busy, HostError, LogError, LogosError, UsageError
from logos.flows.fold import UNFINISHED
from logos.flows.levels.turn_ids import GATHER
from logos.ports import Log, RunLog
from logos.views.run import RunView

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
# By pending turn: the commit of the work that it continues.
LeftWork = tuple[tuple[str, str], ...]


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


@dataclass(frozen=True, slots=True)
class RestoredFiles:
    """Files of a work dir that were restored from `commit`; what they replaced is in the commit `kept`."""

    wd: Path
    commit: str
    kept: str


@dataclass(frozen=True, slots=True)
class AbandonedRun:
    """A run that was abandoned. `kept` is the commit with the files that were replaced, where they were restored."""

    run: RunId
    wd: Path
    kept: str = ""


def fork(
    run: str | None = None, *, at: str | None = None, to: Path | None = None, wd: Path | None = None, tell: Tell = say
) -> NewRun:
    """Start another run from event `at` of a run, in a new worktree `to`; the run itself stays as it is.

    Without `run` it is the newest one, without `at` its last unfinished event.
    """
    if at is not None and not at.strip():
        raise UsageError("--at names no event")
    name = locate(place_of(wd), f"{run or ''}@{at}" if at else run_name(run))
    require_person(name.place, "fork a run")
    with reading(name.place) as log:
        view, seq = match(log, name)
        settings = settings_of(name.place)
        # The run may be driven meanwhile.
        with suppress(Busy), driver_lock(settings.paths.lock):
            finish_interrupted(settings, log, view, tell)
        return fork_at(settings, checkpoint_at(name.place, view, seq), to, tell)


def fork_at(settings: Settings, at: Checkpoint, to: Path | None, tell: Tell) -> NewRun:
    run, snapshots = new_run_id(), snapshots_for(settings, tell)
    if snapshots is None:
        raise UsageError(
            f"{settings.work_dir} is not a git repository, so it has no worktrees to fork into; "
            "`logos rollback` works here"
        )
    folder = _folder_of_fork(settings, at, to or snapshots.top.with_name(f"{snapshots.top.name}-{run}"))
    there = settings.model_copy(update={"wd": str(folder / snapshots.prefix)})
    left, branch = _left_work(settings, at), f"logos-fork/{run}"
    _keep_history(snapshots, at, run, left)
    try:
        plan = at.state.plan
        if isinstance(plan, LevelsPlan):
            # The merged work of a build is not in the user's work tree, but in worktrees and a branch of the run.
            snapshots.add_worktree(plan.base, folder, branch)
        else:
            snapshots.unfold(at.commit, folder, branch)
        _copy_project_files(settings, there)
    except (LogosError, OSError):
        snapshots.discard(run, folder, branch)
        raise
    ResponseFiles(there.response_dir).ensure()
    # An earlier work dir at this path may have left a mirror.
    discard(there.paths.database)
    with open_log(there.telos_dir, tell) as log:
        return _start_from(at, "fork", left, run, log, there)


def _folder_of_fork(settings: Settings, at: Checkpoint, to: Path) -> Path:
    """The folder of the fork; UsageError where the checkpoint cannot be forked into it."""
    if at.state.outcome not in UNFINISHED:
        raise UsageError(
            f"run {at.run} has ended at event {at.seq} ({at.state.outcome}); fork an earlier event with --at N"
        )
    if not at.commit:
        raise UsageError(f"the files of run {at.run} at event {at.seq} were not kept, so it cannot be forked there")
    folder = Path(os.path.abspath(to.expanduser()))
    if folder.exists():
        raise UsageError(f"{folder} exists; name another folder with --to")
    if Path(settings.state_file).is_absolute():
        raise UsageError(
            f"state_file = {settings.state_file!r}: both runs would write it; a relative path can be forked"
        )
    wd = wd_in(settings.paths.config)
    if Path(wd).expanduser().is_absolute():
        raise UsageError(f"{CONFIG} sets wd = {wd!r}, so commands in the fork would use this work dir: remove it first")
    return folder


def _copy_project_files(settings: Settings, there: Settings) -> None:
    """Copy what a run needs and git may not have: files of `logos init`, profiles; and run the project's setup."""
    source, target = settings.paths, there.paths
    for name in WRITTEN_BY_INIT:
        if (source.path / name).is_file() and not (target.path / name).exists():
            shutil.copy2(source.path / name, target.path / name)
    if source.profiles.is_dir():
        shutil.copytree(source.profiles, target.profiles)
    if target.telos_file.is_file():
        setup = Setup(worktree_setup(target.path), SupervisedCommands(target.checks, target.path))
        run_setup(setup, target.path, source.path)


def rollback(checkpoint: str, *, wd: Path | None = None, tell: Tell = say) -> NewRun:
    """Restore files and run state to a checkpoint, as a new run. The replaced files are kept in a commit."""
    place = place_of(wd)
    name = locate(place, checkpoint)
    if name.place != place:
        raise UsageError(f"run {name.run} is in {name.place}: use --wd to roll back there")
    require_person(place, "roll back a run")
    require_log(place)
    settings = settings_of(place)
    with driving(place, tell) as log:
        view, seq = match(log, name)
        finish_interrupted(settings, log, view, tell)
        at, run, snapshots = checkpoint_at(place, view, seq), new_run_id(), snapshots_for(settings, tell)
        is_build = at.state.head is not None
        if is_build and not at.commit:
            raise UsageError(f"the merged work of run {at.run} at event {at.seq} was not kept: commit {at.state.head}")
        replaced = snapshots if at.commit and not is_build else None
        if replaced is not None:
            # Whatever cannot be kept is an error before anything is changed.
            replaced.keep_before(at.commit)
        left = _left_work(settings, at)
        why = f"rolled back to event {at.seq} of {at.run}, as run {run}"
        abandon_runs(settings, log, type(at.state.plan), why, tell, view)
        if snapshots is not None:
            _keep_history(snapshots, at, run, left)
        if replaced is None:
            return _start_from(at, "rollback", left, run, log, settings)
        kept = replaced.keep_before(at.commit)
        # If this is killed while it replaces files, the mark stays, and the next command finishes the rollback.
        write_atomically(settings.paths.rollback_mark, json.dumps({"run": run, "commit": at.commit}))
        started = _start_from(at, "rollback", left, run, log, settings)
        replaced.restore(at.commit)
        settings.paths.rollback_mark.unlink()
        return replace(started, kept=kept if kept != at.commit else "", restored=True)


def _left_work(settings: Settings, at: Checkpoint) -> LeftWork:
    """Work in worktrees that a build was not done with: as it was gathered, then or later, or else as it was kept.

    That is the work of agents who were asked for another attempt, and of those whose answers had just come.
    """
    continued = at.state.unfinished_work
    if not continued:
        return ()
    workspace, gathered = GitWorkspace(settings.work_dir, at.run), _gathered_in(at.view)
    uncommitted, driven = at.view.state.uncommitted, driver_of(settings.paths.lock) is not None

    def kept(turn: TurnId) -> str:
        if turn in uncommitted and not driven and not workspace.left(turn):
            # A killed driver did not keep it; the worktree still has it.
            workspace.keep(uncommitted[turn], turn)
        return workspace.left(turn)

    found = ((key, gathered.get(turn) or kept(turn)) for key, turn in sorted(continued.items()))
    return tuple((key, commit) for key, commit in found if commit)


def _keep_history(snapshots: GitSnapshots, at: Checkpoint, run: RunId, left: LeftWork) -> None:
    """Keep every commit that the new run's history names, whatever is removed of the old run."""
    earlier = {seq: commit for seq, commit in snapshots.of(at.run).items() if seq <= at.seq}
    snapshots.point(run, {**earlier, **({at.seq: at.commit} if at.commit else {})})
    named = {commit for _, commit in left}
    for event in (record.event for record in at.history):
        match event:
            case WorkGathered() | WorkMerged():
                named.add(event.commit)
            case ProofRan() | WorkCompared() if event.commit and snapshots.is_whole(event.commit):
                named.add(event.commit)
            case RunForked():
                named.update(commit for _, commit in event.left)
            case _:
                pass
    snapshots.point(run, {commit: commit for commit in named})
    # A later rollback to an earlier event needs what was in the worktrees then.
    before = {**snapshots.left_of(at.run), **_gathered_in(at.view)}
    snapshots.point(run, {f"left/{turn}": commit for turn, commit in before.items()})


def _gathered_in(view: RunView) -> dict[TurnId, str]:
    """By turn: the commit that its work was gathered as."""
    events = [record.event for record in view.records if isinstance(record.event, WorkGathered)]
    return {TurnId(event.turn.removesuffix(GATHER)): event.commit for event in events}


def _start_from(
    at: Checkpoint, way: Literal["fork", "rollback"], left: LeftWork, run: RunId, log: Log, settings: Settings
) -> NewRun:
    """Write a run that starts from a checkpoint to the log of these settings, and its state file."""
    plan: Plan = replace(at.state.plan, wd=str(settings.work_dir))
    if isinstance(plan, CyclePlan):
        plan = replace(plan, response_dir=str(settings.response_dir))
    event = RunForked(at.run, at.seq, plan, way, at.commit, left, session_in(at.view.records))
    record = log.fork(run, at.history, event)
    state = at.view.fold.flow.apply(at.state, event)
    write_state(settings, state, Ledger().enter(event), run, record.seq, time.time())
    return NewRun(run, settings.work_dir, at, restored=way == "fork", simulated=event.host == SCRIPTED_SESSION)


def finish_interrupted(settings: Settings, log: RunLog, known: RunView, tell: Tell) -> None:
    """Finish an interrupted rollback, and make the checkpoints that a killed driver could not make. Needs the lock."""
    finish_rollback(settings, log, tell)
    snapshots = snapshots_for(settings, tell) if settings.checkpoints.enabled else None
    if snapshots is None:
        return
    is_newest = isinstance(known.plan, CyclePlan) and log.runs()[-1] == known.run
    run = known.run if is_newest else newest_of(log, CyclePlan)
    if run is not None:
        Checkpoints(snapshots, log, work_tree, tell).catch_up(run)


def finish_rollback(settings: Settings, log: RunLog, tell: Tell) -> None:
    """Finish an interrupted rollback: its run is in the log, but some of its files may be missing."""
    mark = settings.paths.rollback_mark
    if not mark.exists() and not mark.is_symlink():
        return
    snapshots, view = snapshots_for(settings, tell), _rolled_back(mark, log)
    if view is None or view.fork is None or snapshots is None:
        tell(
            f"warning: {mark} is ignored and removed: the log has no rollback that was interrupted; no file is changed"
        )
    else:
        kept = snapshots.restore(view.fork.commit)
        tell(
            f"finished an interrupted rollback: the files are those of run {view.run}; "
            f"`logos rollback --files {kept[:12]}` restores the files that it replaced"
        )
        write_run_state(settings, view.fold)
    remove(mark, mark.parent)


def _rolled_back(mark: Path, log: RunLog) -> RunView | None:
    """The run of an interrupted rollback. Agents can write the mark: the log must end with that rollback."""
    with suppress(OSError, ValueError, KeyError, TypeError, LogError):
        pending = json.loads(bytes_of_file(mark))
        run, commit = RunId(str(pending["run"])), str(pending["commit"])
        view = load_run(log, run) if run in log.runs() else None
        last = view.records[-1].event if view is not None else None
        return view if isinstance(last, RunForked) and (last.way, last.commit) == ("rollback", commit) else None
    return None


def restore_files(checkpoint: str, *, wd: Path | None = None, tell: Tell = say) -> RestoredFiles:
    """Restore the files alone to a checkpoint, or to a commit that a rollback has kept; no run is changed."""
    place = place_of(wd)
    require_person(place, "restore files")
    commit = _commit_named(place, checkpoint)
    settings = settings_of(place)
    snapshots = snapshots_for(settings, tell)
    if snapshots is None:
        raise UsageError(f"{place} is not a git repository: no files were kept")
    with driver_lock(settings.paths.lock):
        # These files are wanted instead of those of an interrupted rollback.
        remove(settings.paths.rollback_mark, settings.paths.telos_dir)
        return RestoredFiles(place, commit, snapshots.restore(commit))


def _commit_named(place: Path, checkpoint: str) -> str:
    if _COMMIT.fullmatch(checkpoint) and (kept := kept_commit(place, checkpoint)):
        return kept
    name = locate(place, checkpoint)
    with reading(name.place) as log:
        at = checkpoint_at(name.place, *match(log, name))
    if at.state.head is not None:
        raise UsageError(f"run {at.run} is a build: it never changes your files, so none of them were kept")
    if not at.commit:
        raise UsageError(f"the files of run {at.run} at event {at.seq} were not kept")
    return at.commit


def reset(run: str | None = None, *, files: bool = False, wd: Path | None = None, tell: Tell = say) -> AbandonedRun:
    """Abandon a run, by default the newest unfinished one; with `files`, restore the files it started with."""
    name = locate(place_of(wd), run_name(run))
    require_person(name.place, "give up a run")
    require_log(name.place)
    settings = settings_of(name.place)
    with driving(name.place, tell) as log:
        view = match(log, name)[0] if run else next(unfinished_runs(log), None)
        if view is None:
            raise UsageError(f"nothing unfinished is in {name.place}")
        if view.outcome not in UNFINISHED:
            raise UsageError(f"run {view.run} has ended ({view.outcome}): there is nothing to give up")
        if view.damage:
            raise LogError(view.damage)
        finish_interrupted(settings, log, view, tell)
        start = checkpoint_at(name.place, view, view.forked.seq if view.forked is not None else 1)
        snapshots = snapshots_for(settings, tell) if files and start.state.head is None else None
        if files and start.state.head is None and not start.commit:
            raise UsageError(f"the files that run {view.run} began with were not kept: reset it without --files")
        _abandon(settings, log, view, "reset by a person", tell)
        kept = snapshots.restore(start.commit) if snapshots is not None else ""
    return AbandonedRun(view.run, name.place, kept)


def abandon_runs(
    settings: Settings, log: RunLog, kind: type[Plan], why: str, tell: Tell, known: RunView | None = None
) -> None:
    """Abandon every unfinished run of a flow; `known` is a run that is loaded already."""
    # Oldest first: the state file shows the newest.
    for view in reversed([view for view in unfinished_runs(log, kind, known) if not view.damage]):
        _abandon(settings, log, view, why, tell)


def _abandon(settings: Settings, log: RunLog, view: RunView, why: str, tell: Tell) -> None:
    """End a run's agents, record that it was abandoned, and remove its worktrees; unmerged work is kept as commits."""
    # The view stays as it was read.
    journal = Journal(log, copy(view.fold))
    if journal.ledger.terminals:
        with closing(host_to_end(settings, journal.ledger.session, tell)) as host:
            AgentTerminals(host, journal.record, time.monotonic, time.sleep).close(journal.ledger)
        if journal.ledger.terminals:
            still = ", ".join(terminal.id for terminal in journal.ledger.terminals.values())
            tell(f"warning: not every agent of run {journal.run} could be ended ({still}); it may still change files")
    state = journal.state
    journal.record(RunAbandoned(why))
    if state.head is not None:
        with suppress(HostError):
            workspace = GitWorkspace(settings.work_dir, journal.run)
            for turn, worktree in state.uncommitted.items():
                workspace.keep(worktree, turn)
            workspace.give_up(state.merged)
    write_run_state(settings, journal.fold)
