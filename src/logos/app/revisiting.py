"""Fork, rollback and reset, put together: the adapters they need, and the order in which nothing can be lost."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logos.adapters.files import write_atomically
from logos.adapters.git.command import is_repository
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.git.workspace import WRITTEN_BY_INIT, GitWorkspace
from logos.adapters.git.worktrees import run_setup
from logos.adapters.hosts.scripted import SESSION as SCRIPTED_SESSION
from logos.adapters.lock import DriverLock, driver_of
from logos.adapters.responses import ResponseFiles
from logos.adapters.store.recovery import repair
from logos.adapters.store.registry import discard
from logos.adapters.store.sqlite import SqliteLog
from logos.app.checkpoints import (
    UNFINISHED,
    Checkpoint,
    checkpoint_at,
    commits_in,
    forked_at,
    gathered_in,
    history_of,
    left_at,
)
from logos.app.hosts import Tell, host_to_end, session_of
from logos.app.runs import open_run, runs_with
from logos.app.settings import Settings
from logos.app.state_files import write_state
from logos.app.telos_file import read_telos
from logos.app.workdir import CONFIG, LOCK
from logos.domain.events import RunAbandoned, RunForked
from logos.domain.plans import CyclePlan, LevelsPlan, Plan
from logos.domain.turns import RunId, TurnId
from logos.engine.checkpoints import Checkpoints, commit_at, work_tree
from logos.engine.journal import Journal
from logos.engine.runner import new_run_id
from logos.engine.terminals import AgentTerminals
from logos.errors import Busy, HostError, LogError, LogosError, UsageError
from logos.flows.levels.state import LevelsState
from logos.ports import Log

MARK = "rollback.json"
Left = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that begins at a checkpoint of another. `kept` is what lay in the work dir, where that was replaced."""

    run: RunId
    wd: Path
    at: Checkpoint
    kept: str = ""
    restored: bool = False
    simulated: bool = False

    @property
    def pending_turns(self) -> bool:
        """Whether it waits for a person's decision."""
        return getattr(self.at.state, "question", None) is not None


def snapshots_for(settings: Settings, tell: Tell) -> GitSnapshots | None:
    """The snapshots of a work dir, whether or not new ones are wanted; None where there is no git repository."""
    wd = settings.work_dir
    return GitSnapshots(wd, [settings.state_path], tell) if is_repository(wd) else None


def find_checkpoint(place: Path, log: Log, run: RunId, seq: int | None) -> Checkpoint:
    """A run of this work dir at an event; without one, at the last from which it can go on."""
    commits = GitSnapshots(place).of(run) if is_repository(place) else {}
    return checkpoint_at(log, run, seq, lambda at: commit_at(commits, at))


def fork_here(settings: Settings, log: SqliteLog, at: Checkpoint, to: Path | None, tell: Tell) -> Begun:
    """Another run from a checkpoint, in a worktree of its own: both can go on side by side."""
    wd, run = settings.work_dir, new_run_id()
    snapshots = snapshots_for(settings, tell)
    if snapshots is None:
        raise UsageError(
            f"{wd} is no git repository, so there is no worktree to fork into; `logos rollback` works here"
        )
    if not at.goes_on:
        raise UsageError(
            f"run {at.run} has ended at event {at.seq} ({at.journal.outcome}); fork an earlier event with --at N"
        )
    if not at.commit:
        raise UsageError(f"the files of run {at.run} at event {at.seq} were not kept, so it cannot be forked there")
    folder = to or snapshots.top.with_name(f"{snapshots.top.name}-{run}")
    folder = Path(os.path.abspath(folder.expanduser()))
    if folder.exists():
        raise UsageError(f"{folder} is there already; name another folder with --to")
    if Path(settings.state_file).is_absolute():
        raise UsageError(
            f"state_file = {settings.state_file!r}: two runs would write it; make it relative to fork a run"
        )
    _check_config(wd)
    there = settings.model_copy(update={"wd": str(folder / snapshots.prefix)})
    left = _left(settings, log, at)
    keep_history(log, snapshots, at, run, left)
    try:
        _lay_out(snapshots, at, folder, f"logos-fork/{run}")
        _bring_along(wd, there.work_dir)
    except (LogosError, OSError):
        snapshots.discard(run, folder, f"logos-fork/{run}")
        raise
    ResponseFiles(there.response_dir).ensure()
    event = forked_at(at, "fork", there.work_dir, there.response_dir, left, session_of(log, at.run))
    with _new_log(there.work_dir, tell) as target:
        _begin(log, target, run, at, event, there)
    return Begun(run, there.work_dir, at, restored=True, simulated=event.host == SCRIPTED_SESSION)


def _check_config(wd: Path) -> None:
    """A configuration that names its work dir would lead whoever works in the fork back here."""
    try:
        said = json.loads((wd / CONFIG).read_text(encoding="utf-8-sig")).get("wd", "")
    except (OSError, ValueError, AttributeError):
        return
    if isinstance(said, str) and Path(said).expanduser().is_absolute():
        raise UsageError(f"{CONFIG} says wd = {said!r}, which would lead back here from a fork: leave it out to fork")


def _lay_out(snapshots: GitSnapshots, at: Checkpoint, folder: Path, branch: str) -> None:
    match at.plan:
        case CyclePlan():
            snapshots.unfold(at.commit, folder, branch)
        case LevelsPlan(base=base):
            # What is built is not in the person's work tree: the fork has it in places and a branch of its own.
            snapshots.add_worktree(base, folder, branch)


def _bring_along(wd: Path, place: Path) -> None:
    """What a run needs and git may not have: what `logos init` wrote, the person's own profiles, a setup."""
    for name in WRITTEN_BY_INIT:
        if (wd / name).is_file() and not (place / name).exists():
            shutil.copy2(wd / name, place / name)
    if (wd / ".telos" / "profiles").is_dir():
        shutil.copytree(wd / ".telos" / "profiles", place / ".telos" / "profiles")
    if (place / "telos.toml").is_file():
        setup = read_telos(place).setup
        if setup:
            run_setup(setup, place, wd)


@contextmanager
def _new_log(place: Path, tell: Tell) -> Generator[SqliteLog]:
    path = place / ".telos" / "logos.db"
    discard(path)
    log = SqliteLog(path, mirror=repair(path, tell, driving=False))
    try:
        yield log
    finally:
        log.close()


def keep_history(log: SqliteLog, snapshots: GitSnapshots, at: Checkpoint, run: RunId, left: Left) -> None:
    """Everything that the new run's history names is kept for it, whatever becomes of the old one's."""
    before = {seq: commit for seq, commit in snapshots.of(at.run).items() if seq <= at.seq}
    snapshots.point(run, {**before, **({at.seq: at.commit} if at.commit else {})})
    snapshots.hold(run, commits_in(history_of(log, at)) | {commit for _, commit in left})
    # Whoever goes back further needs what lay in places then.
    snapshots.hold_left(run, {**snapshots.left_of(at.run), **gathered_in(log.read(at.run))})


def _left(settings: Settings, log: SqliteLog, at: Checkpoint) -> Left:
    if not isinstance(at.state, LevelsState):
        return ()
    workspace, now = GitWorkspace(settings.work_dir, at.run), open_run(log, at.run).state
    lies = {turn: place for turn, place in now.uncommitted.items() if driver_of(settings.telos_dir / LOCK) is None}

    def kept(turn: TurnId) -> str:
        found = workspace.left(turn)
        if not found and turn in lies:
            # Its driver was killed before it could keep it; it lies there still.
            workspace.keep(lies[turn], turn)
        return found or workspace.left(turn)

    return left_at(at, log.read(at.run), kept)


def _begin(source: SqliteLog, target: SqliteLog, run: RunId, at: Checkpoint, event: RunForked, there: Settings) -> None:
    """The new run in its log, and what its state file says of it."""
    target.fork(run, history_of(source, at), event)
    project(there, open_run(target, run))


def project(settings: Settings, journal: Journal[Any]) -> None:
    """Write the state file of a run that has no driver."""
    write_state(settings, journal.state, journal.ledger, journal.run, journal.seq, time.time())


def rollback_here(settings: Settings, log: SqliteLog, at: Checkpoint, tell: Tell) -> Begun:
    """Another run from a checkpoint, here: files and state together. What lay here is kept first.

    A kill in the middle leaves a mark; whoever comes next finishes what it says.
    """
    run, snapshots = new_run_id(), snapshots_for(settings, tell)
    with DriverLock(settings.telos_dir / LOCK):
        finish_rollback(settings, log, tell)
        files = isinstance(at.plan, CyclePlan) and bool(at.commit)
        if files and snapshots is not None:
            snapshots.keep_before(at.commit)
        left = _left(settings, log, at)
        give_up(settings, log, type(at.plan), f"gone back to event {at.seq} of {at.run}, as run {run}", tell)
        host = session_of(log, at.run)
        event = forked_at(at, "rollback", settings.work_dir, settings.response_dir, left, host)
        if snapshots is not None:
            keep_history(log, snapshots, at, run, left)
        if snapshots is None or not files:
            _begin(log, log, run, at, event, settings)
            return Begun(run, settings.work_dir, at, simulated=host == SCRIPTED_SESSION)
        kept = snapshots.keep_before(at.commit)
        write_atomically(settings.telos_dir / MARK, json.dumps({"run": run, "commit": at.commit}))
        _begin(log, log, run, at, event, settings)
        snapshots.restore(at.commit)
        (settings.telos_dir / MARK).unlink()
    simulated = host == SCRIPTED_SESSION
    return Begun(run, settings.work_dir, at, kept if kept != at.commit else "", restored=True, simulated=simulated)


def settle(settings: Settings, log: SqliteLog, tell: Tell) -> None:
    """Before somebody goes back: a killed rollback is finished, and a killed driver's last events get a checkpoint."""
    with suppress(Busy), DriverLock(settings.telos_dir / LOCK):
        finish_rollback(settings, log, tell)
        snapshots, runs = snapshots_for(settings, tell), runs_with(log, CyclePlan)
        if snapshots is not None and runs and settings.checkpoints.enabled:
            Checkpoints(snapshots, log, work_tree(snapshots), tell).catch_up(runs[-1])


def finish_rollback(settings: Settings, log: SqliteLog, tell: Tell) -> None:
    """What a killed rollback left: the new run is in the log, its files may not all be there."""
    mark = settings.telos_dir / MARK
    try:
        said: dict[str, str] = json.loads(mark.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except (OSError, ValueError):
        said = {}
    snapshots = snapshots_for(settings, tell)
    if said.get("run") in log.runs() and snapshots is not None:
        kept = snapshots.restore(said["commit"])
        tell(
            f"a rollback was interrupted and is finished now: the files are those of run {said['run']}; "
            f"`logos rollback --files {kept[:12]}` brings back what lay here"
        )
        project(settings, open_run(log, RunId(said["run"])))
    mark.unlink(missing_ok=True)


def restore_files(settings: Settings, commit: str, tell: Tell) -> str:
    """Put back files alone, as they were in a commit of ours; returns what lay here."""
    snapshots = snapshots_for(settings, tell)
    if snapshots is None:
        raise UsageError(f"{settings.work_dir} is no git repository: no files were kept")
    with DriverLock(settings.telos_dir / LOCK):
        # Whoever puts files back by hand has decided what is to lie here.
        (settings.telos_dir / MARK).unlink(missing_ok=True)
        return snapshots.restore(commit)


def give_up(settings: Settings, log: SqliteLog, flow: type[Plan], why: str, tell: Tell) -> list[RunId]:
    """End what is unfinished of a flow: its agents, its places, and the run itself. Its log and its work are kept."""
    given: list[RunId] = []
    for run in runs_with(log, flow):
        with suppress(LogError):
            journal = open_run(log, run)
            if journal.outcome in UNFINISHED:
                end_run(settings, journal, why, tell)
                given.append(run)
    return given


def end_run(settings: Settings, journal: Journal[Any], why: str, tell: Tell) -> None:
    """End a run's agents, close its places, and say in its log that it was given up."""
    if journal.ledger.terminals:
        host = host_to_end(settings, journal.ledger.session, tell)
        try:
            AgentTerminals(host, journal.record, time.monotonic, time.sleep).close(journal.ledger)
        finally:
            host.close()
        if journal.ledger.terminals:
            still = ", ".join(terminal.id for terminal in journal.ledger.terminals.values())
            tell(f"warning: not every agent of run {journal.run} could be ended ({still}); it may still change files")
    state = journal.state
    journal.record(RunAbandoned(why))
    if isinstance(state, LevelsState):
        with suppress(HostError):
            workspace = GitWorkspace(settings.work_dir, journal.run)
            for turn, place in state.uncommitted.items():
                workspace.keep(place, turn)
            workspace.give_up(state.head if state.head != state.plan.base else None)
    project(settings, journal)
