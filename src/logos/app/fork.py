"""Fork: start another run from a checkpoint of a run, in a git worktree of its own."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.git.workspace import WRITTEN_BY_INIT
from logos.adapters.git.worktrees import run_setup
from logos.adapters.lock import DriverLock
from logos.adapters.responses import ResponseFiles
from logos.adapters.store.registry import discard
from logos.app.checkpoint_names import finding, run_name, settings_of
from logos.app.checkpoints import (
    Checkpoint,
    NewRun,
    checkpoint_at,
    forked_at,
    keep_history,
    left_work,
    snapshots_for,
    start_from,
)
from logos.app.rollback import finish_interrupted
from logos.app.settings import Settings
from logos.app.telos_file import read_telos
from logos.app.workdir import CONFIG, Tell, WorkDir, open_log, place_of, say
from logos.domain.plans import CyclePlan, LevelsPlan
from logos.engine.runner import new_run_id
from logos.errors import Busy, LogosError, UsageError


def fork(
    run: str | None = None,
    *,
    at: str | None = None,
    to: Path | None = None,
    wd: Path | None = None,
    tell: Tell = say,
) -> NewRun:
    """Start another run from event `at` of a run, in a new worktree `to`; the run itself stays as it is.

    Without `run` it is the newest one, without `at` its last unfinished event.
    """
    if at is not None and not at.strip():
        raise UsageError("--at names no event")
    with finding(place_of(wd), f"{run or ''}@{at}" if at else run_name(run)) as found:
        settings = settings_of(found.place)
        # The run may be driven meanwhile.
        with suppress(Busy), DriverLock(settings.paths.lock):
            finish_interrupted(settings, found.log, found.view, tell)
        return fork_at(settings, checkpoint_at(found.place, found.view, found.seq), to, tell)


def fork_at(settings: Settings, at: Checkpoint, to: Path | None, tell: Tell) -> NewRun:
    run, snapshots = new_run_id(), snapshots_for(settings, tell)
    if snapshots is None:
        raise UsageError(
            f"{settings.work_dir} is not a git repository, so it has no worktrees to fork into; "
            "`logos rollback` works here"
        )
    folder = _check(settings, at, to or snapshots.top.with_name(f"{snapshots.top.name}-{run}"))
    there = settings.model_copy(update={"wd": str(folder / snapshots.prefix)})
    left, branch = left_work(settings, at), f"logos-fork/{run}"
    keep_history(snapshots, at, run, left)
    try:
        _add_worktree(snapshots, at, folder, branch)
        _copy_project_files(settings.paths, there.paths)
    except (LogosError, OSError):
        snapshots.discard(run, folder, branch)
        raise
    ResponseFiles(there.response_dir).ensure()
    # An earlier work dir at this path may have left a mirror.
    discard(there.paths.database)
    with open_log(there.telos_dir, tell) as log:
        started = start_from(at, log, run, forked_at(at, "fork", there, left), there)
    return replace(started, restored=True)


def _check(settings: Settings, at: Checkpoint, to: Path) -> Path:
    """The folder of the fork; UsageError where the checkpoint cannot be forked into it."""
    if not at.can_continue:
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
    try:
        wd = json.loads(settings.paths.config.read_text(encoding="utf-8-sig")).get("wd", "")
    except (OSError, ValueError, AttributeError):
        wd = ""
    if isinstance(wd, str) and Path(wd).expanduser().is_absolute():
        raise UsageError(f"{CONFIG} sets wd = {wd!r}, so commands in the fork would use this work dir: remove it first")
    return folder


def _add_worktree(snapshots: GitSnapshots, at: Checkpoint, folder: Path, branch: str) -> None:
    match at.plan:
        case CyclePlan():
            snapshots.unfold(at.commit, folder, branch)
        case LevelsPlan(base=base):
            # The merged work of a build is not in the user's work tree, but in worktrees and a branch of the run.
            snapshots.add_worktree(base, folder, branch)


def _copy_project_files(source: WorkDir, target: WorkDir) -> None:
    """Copy what a run needs and git may not have: files of `logos init`, profiles; and run the project's setup."""
    for name in WRITTEN_BY_INIT:
        if (source.path / name).is_file() and not (target.path / name).exists():
            shutil.copy2(source.path / name, target.path / name)
    if source.profiles.is_dir():
        shutil.copytree(source.profiles, target.profiles)
    if target.telos_file.is_file():
        setup = read_telos(target.path).setup
        if setup:
            run_setup(setup, target.path, source.path)
