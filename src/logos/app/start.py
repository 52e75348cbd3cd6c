"""Starting or resuming one run or build in a work dir: check, lock, choose a host, build the adapters, drive."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.git.workspace import GitWorkspace, base_of
from logos.adapters.notifications import notify
from logos.adapters.responses import FileWatcher, ResponseFiles
from logos.adapters.store.sqlite import SqliteLog
from logos.app.checkpoints import locate, match, run_name, snapshots_for
from logos.app.hosts import MakeHost, Tell, check_host, choose_host, session_of
from logos.app.post_processing import post_process
from logos.app.preflight import check_input, check_prompt, check_reviews, check_work_dir, try_test_command
from logos.app.rollback import abandon_runs, finish_rollback
from logos.app.run_start import blocked, build_to_resume, name_in_state_file, run_to_continue, start_build, start_run
from logos.app.runs import load_run, newest_of, open_levels, state_file_writer, unfinished_runs
from logos.app.setting_sources import given_settings, resumed_settings, settings_of
from logos.app.settings import Settings
from logos.app.telos_file import read_telos
from logos.app.workdir import WorkDir, driver_at, driving, has_log, place_of, reading, say
from logos.domain.plans import CyclePlan, GivenSetting, LevelsPlan, Plan
from logos.domain.turns import RunId
from logos.engine.build_run import BuildRun
from logos.engine.checkpoints import Checkpoints, Look, changed_files, merged_work, no_checkpoints, work_tree
from logos.engine.cycle_run import CycleRun, StartMode
from logos.engine.journal import Watcher
from logos.engine.runner import Dependencies, RunResult
from logos.engine.terminals import AgentTerminals
from logos.errors import HostError, LogError, UsageError
from logos.flows.cycle.flow import CycleState
from logos.flows.fold import UNFINISHED
from logos.flows.levels.state import LevelsState
from logos.ports import AgentHost, ChangeSignal
from logos.views.run import RunView


def run_here(
    settings: Settings,
    *,
    bare: bool = False,
    make_host: MakeHost | None = None,
    watchers: Sequence[Watcher[CycleState]] = (),
    tell: Tell = say,
    known: RunView | None = None,
) -> RunResult[CycleState]:
    """Start or resume one run of the cycle in the work dir, and drive it to its outcome.

    Raises RunPaused, HostError or Interrupted when the run stops before it has one; the run can then be resumed.
    `bare` keeps the letter of the specification: nothing is verified unless the settings say so, and a prompt other
    than the unfinished run's is no error. `known` is the run to resume, if loaded.
    """
    check_input(settings)
    with driving(settings.work_dir, tell) as log:
        finish_rollback(settings, log, tell)
        continued = run_to_continue(settings, log, tell, known)
        check_prompt(settings, continued, tell, strict=not bare)
        resumed = continued if isinstance(continued, RunView) else None
        settings, given = _settle(settings, resumed)
        check_reviews(settings, tell)
        if make_host is None:
            settings, make_host = choose_host(settings, tell, session_of(continued), Settings.role_agents, bare=bare)
        snapshots = snapshots_for(settings, tell) if settings.checkpoints.enabled else None
        if not bare:
            settings = _with_promises(settings, has_snapshots=snapshots is not None)
        start_plan = start_run(settings, continued, log, given)
        with closing(make_host(settings, tell)) as host:
            check_host(host, start_plan.first.plan.agents, tell, fresh=start_plan.mode is StartMode.FRESH)
            if not bare:
                try_test_command(settings, resumed, tell)
            if settings.resume is False:
                abandon_runs(settings, log, CyclePlan, "a new run was begun", tell)
            if start_plan.message:
                tell(start_plan.message)
            responses = ResponseFiles(settings.response_dir)
            responses.ensure()
            needs, options = _dependencies(settings, host, log, tell), settings.run_options()
            watching = _watchers(settings, watchers, log, tell, snapshots, work_tree)
            changed = changed_files(snapshots, tell)

            def after_pass(plan: CyclePlan, tell: Callable[[str], object]) -> None:
                post_process(settings.work_dir, settings, plan.explore, tell)

            with closing(FileWatcher(settings.response_dir)) as change_signal:
                wiring = options, needs, responses, change_signal, watching, after_pass, changed
                return CycleRun(start_plan.journal, start_plan.mode, *wiring).run(start_plan.first)


def _settle(settings: Settings, resumed: RunView | None) -> tuple[Settings, tuple[GivenSetting, ...]]:
    """The settings of a new or resumed run, and what this command was given for it."""
    if resumed is None:
        return settings, given_settings(settings)
    earlier = resumed.fold.ledger.given
    return resumed_settings(settings, earlier, resumed.state.plan), given_settings(settings, earlier)


def _with_promises(settings: Settings, *, has_snapshots: bool) -> Settings:
    """What holds where nobody said otherwise: a PASS is verified, and something was changed for it."""
    changed = settings.expect_change is not False and has_snapshots
    return settings.model_copy(update={"verify_pass": settings.verify_pass is not False, "expect_change": changed})


def build_here(
    settings: Settings,
    feature: str,
    *,
    allow_dirty: bool = False,
    make_host: MakeHost | None = None,
    change_signal_for: Callable[[Path], ChangeSignal] = FileWatcher,
    watchers: Sequence[Watcher[LevelsState]] = (),
    tell: Tell = say,
    known: RunView | None = None,
) -> RunResult[LevelsState]:
    """Start or resume one build in the work dir, and drive it to its outcome; raises what `run_here` raises."""
    check_work_dir(settings)
    settings.levels_taking_part()
    telos = read_telos(settings.work_dir)
    with driving(settings.work_dir, tell) as log:
        view = build_to_resume(settings, feature, log, tell, known)
        base = base_of(settings.work_dir, allow_dirty=allow_dirty) if view is None else ""
        settings, given = _settle(settings, view)
        if make_host is None:
            settings, make_host = choose_host(settings, tell, session_of(view), Settings.level_agent_config)
        start_plan = start_build(settings, feature, telos, base, log, view, given)
        plan, journal = start_plan.first.plan, start_plan.journal
        with closing(make_host(settings, tell)) as host:
            levels = {level.name for level in settings.levels_taking_part()}
            check_host(host, [agent for agent in plan.agents if agent.name in levels], tell, fresh=True)
            if view is None:
                abandon_runs(settings, log, LevelsPlan, "a new build was begun", tell)
            _remove_leftovers(settings, log, host, journal.run, tell)
            if start_plan.message:
                tell(start_plan.message)
            workspace = GitWorkspace(settings.work_dir, journal.run, telos.setup)
            needs, options = _dependencies(settings, host, log, tell), settings.run_options()
            snapshots = snapshots_for(settings, tell) if settings.checkpoints.enabled else None
            watching = _watchers(settings, watchers, log, tell, snapshots, lambda _: merged_work)
            run = BuildRun(journal, options, needs, workspace, responses_in, change_signal_for, watching)
            return run.run(start_plan.first)


def read_run(work_dir: Path, run: RunId) -> RunView:
    """The read model of one run in a work dir's log."""
    with reading(work_dir) as log:
        return load_run(log, run)


def _remove_leftovers(settings: Settings, log: SqliteLog, host: AgentHost, current: RunId, tell: Tell) -> None:
    """Remove terminals and worktrees of earlier builds that were killed before their last step, or abandoned."""
    for folder in sorted(settings.paths.worktrees.glob("*")):
        run = RunId(folder.name)
        if run == current or run not in log.runs():
            continue
        try:
            journal = open_levels(log, run)
            AgentTerminals(host, journal.record, time.monotonic, time.sleep).close(journal.ledger)
            workspace, state = GitWorkspace(settings.work_dir, run), journal.state
            if state.outcome not in UNFINISHED:
                workspace.close(state.result)
                continue
            workspace.give_up(state.merged)
            tell(f"build {run} is abandoned: its worktrees are removed, its log and its commits are kept")
        except (LogError, UsageError, HostError) as error:
            tell(f"warning: cannot remove what build {run} left in {folder}: {error}")


def _dependencies(settings: Settings, host: AgentHost, log: SqliteLog, tell: Tell) -> Dependencies:
    topic = settings.notifications.ntfy_topic
    return Dependencies(host, log, tell, notify=lambda title, text, priority: notify(topic, title, text, priority))


def responses_in(folder: str, answer: str) -> ResponseFiles:
    """The response file of one turn of a build."""
    return ResponseFiles(WorkDir(Path(folder)).response_dir, {answer: f"{answer}.md"})


def _watchers(
    settings: Settings,
    watchers: Sequence[Watcher[Any]],
    log: SqliteLog,
    tell: Tell,
    snapshots: GitSnapshots | None,
    look: Callable[[GitSnapshots], Look],
) -> list[Watcher[Any]]:
    """Writes the state file, calls `watchers`, and keeps the work tree at every event, where there are snapshots."""
    watching: list[Watcher[Any]] = [state_file_writer(settings), *watchers]
    if snapshots is not None:
        watching.append(Checkpoints(snapshots, log, look(snapshots), tell))
    elif settings.checkpoints.enabled:
        watching.append(no_checkpoints(f"{settings.work_dir} is not a git repository", tell))
    return watching


@dataclass(frozen=True, slots=True)
class PreparedResume:
    """A run that can continue, its work dir, and the settings to continue it with: configuration file and overrides."""

    place: Path
    view: RunView
    config: Path | None
    overrides: tuple[str, ...]

    @property
    def settings(self) -> Settings:
        return settings_of(self.place, self.config, [*self.overrides, "resume=1"])


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
    settings, view = prepared.settings, prepared.view
    if view.build is not None:
        return build_here(settings, "", make_host=make_host, watchers=watchers, tell=tell, known=view)
    return run_here(settings, make_host=make_host, watchers=watchers, tell=tell, known=view)


def prepare_resume(
    run: str | None = None, *, overrides: Sequence[str] = (), config: Path | None = None, wd: Path | None = None
) -> PreparedResume:
    """Find the run, here or in a fork, check that it can continue, and make the state file name it."""
    name = locate(place_of(wd), run_name(run))
    place = name.place
    with reading(place) as log:
        view = match(log, name)[0] if run else next(unfinished_runs(log), None)
    if view is None:
        raise UsageError(f"nothing unfinished is in {place}; `logos sessions` lists what was done there")
    if view.damage:
        raise LogError(view.damage)
    if view.outcome not in UNFINISHED:
        raise UsageError(
            f"run {view.run} has ended ({view.outcome}); `logos rollback {view.run}@EVENT` returns to an event of it, "
            f"`logos fork {view.run} --at EVENT` continues from one in another worktree"
        )
    if view.question is not None:
        raise blocked(view.run, place)
    default = WorkDir(place).config
    config = config or (default if default.is_file() else None)
    prepared = PreparedResume(place, view, config, (*overrides, f"wd={place}"))
    if view.build is None:
        name_in_state_file(prepared.settings, view)
    return prepared


def newest_unfinished(place: Path, kind: type[Plan]) -> RunView | None:
    """The newest run of a flow, if it can continue and no driver runs."""
    if not has_log(place) or driver_at(place) is not None:
        return None
    try:
        with reading(place) as log:
            run = newest_of(log, kind)
            view = load_run(log, run) if run is not None else None
    except LogError:
        # It is reported when the log is opened for writing.
        return None
    return view if view is not None and not view.damage and view.outcome in UNFINISHED else None
