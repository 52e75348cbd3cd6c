"""Resume: find the unfinished run that is meant, and continue it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logos.adapters.lock import DriverLock
from logos.adapters.state_files import read_cycle_state
from logos.app.build_start import blocked
from logos.app.checkpoint_names import locate, match, run_name, settings_of
from logos.app.hosts import MakeHost
from logos.app.runs import newest_run, unfinished_runs
from logos.app.settings import Settings
from logos.app.start import build_here, run_here
from logos.app.state_files import write_run_state
from logos.app.workdir import Tell, WorkDir, driver_at, has_log, place_of, reading, say
from logos.domain.plans import Plan
from logos.engine.journal import Watcher
from logos.engine.runner import RunResult
from logos.errors import LogError, UsageError
from logos.flows.fold import UNFINISHED
from logos.views.cycle_state import StateDamaged
from logos.views.run import RunView


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """A run that can continue, and its work dir."""

    place: Path
    view: RunView

    @property
    def is_build(self) -> bool:
        return self.view.build is not None


@dataclass(frozen=True, slots=True)
class PreparedResume:
    """What a driver needs to continue a run: the configuration file, and overrides of its settings."""

    unfinished: UnfinishedRun
    config: Path | None
    overrides: tuple[str, ...]

    @property
    def settings(self) -> Settings:
        return settings_of(self.unfinished.place, self.config, [*self.overrides, "resume=1"])


def resume(
    run: str | None = None,
    *,
    overrides: Sequence[str] = (),
    config: Path | None = None,
    wd: Path | None = None,
    make_host: MakeHost | None = None,
    watchers: Sequence[Watcher[Any]] = (),
    tell: Tell = say,
) -> RunResult[Any]:
    """Continue a run, by default the newest unfinished one; `overrides` are settings as `key=value`."""
    prepared = prepare_resume(run, overrides=overrides, config=config, wd=wd)
    settings, view = prepared.settings, prepared.unfinished.view
    if prepared.unfinished.is_build:
        return build_here(settings, "", make_host=make_host, watchers=watchers, tell=tell, known=view)
    return run_here(settings, strict_prompt=True, make_host=make_host, watchers=watchers, tell=tell, known=view)


def prepare_resume(
    run: str | None = None, *, overrides: Sequence[str] = (), config: Path | None = None, wd: Path | None = None
) -> PreparedResume:
    """Find the run, check that it can continue, and make the state file name it."""
    unfinished = find_unfinished(run, wd)
    place, view = unfinished.place, unfinished.view
    if view.question is not None:
        raise blocked(view.run, place)
    default = WorkDir(place).config
    config = config or (default if default.is_file() else None)
    prepared = PreparedResume(unfinished, config, (*overrides, f"wd={place}"))
    if not unfinished.is_build:
        _name_in_state_file(prepared.settings, view)
    return prepared


def find_unfinished(run: str | None, wd: Path | None) -> UnfinishedRun:
    """The run that is named, here or in a fork; by default the newest unfinished one of the work dir."""
    name = locate(place_of(wd), run_name(run))
    with reading(name.place) as log:
        view = match(log, name).view if run else next(unfinished_runs(log), None)
    if view is None:
        raise UsageError(f"nothing unfinished is in {name.place}; `logos sessions` lists what was done there")
    if view.damage:
        raise LogError(view.damage)
    if view.outcome not in UNFINISHED:
        raise UsageError(
            f"run {view.run} has ended ({view.outcome}); `logos rollback {view.run}@EVENT` returns to an event of it, "
            f"`logos fork {view.run} --at EVENT` continues from one in another worktree"
        )
    return UnfinishedRun(name.place, view)


def _name_in_state_file(settings: Settings, view: RunView) -> None:
    """A driver of the cycle continues the run that the state file names: where that is another, rewrite the file."""
    try:
        saved = read_cycle_state(settings.state_path, settings.provider)
    except StateDamaged:
        return
    if saved is None or (saved.run is not None and saved.run != view.run):
        with DriverLock(settings.paths.lock):
            write_run_state(settings, view.fold)


def newest_unfinished(place: Path, kind: type[Plan], known: RunView | None = None) -> UnfinishedRun | None:
    """The newest run of a flow, if it can continue and no driver runs; `known` is that run, if it is loaded already.

    A log that cannot be read is reported when it is opened for writing.
    """
    if known is not None:
        return UnfinishedRun(place, known)
    if not has_log(place) or driver_at(place) is not None:
        return None
    try:
        with reading(place) as log:
            view = newest_run(log, kind)
    except LogError:
        return None
    unfinished = view is not None and not view.damage and view.outcome in UNFINISHED
    return UnfinishedRun(place, view) if view is not None and unfinished else None
