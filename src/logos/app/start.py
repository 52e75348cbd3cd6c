"""Starting or resuming one run or build in a work dir: check, lock, choose a host, build the adapters, drive."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from logos.adapters.git.workspace import GitWorkspace, base_of
from logos.adapters.git.worktrees import Setup
from logos.adapters.responses import FileWatcher, ResponseFiles
from logos.app.acceptance import acceptance_tester, check_blind, check_blind_host, without_blind
from logos.app.checkpoints import locate, match, run_name, snapshots_for
from logos.app.hosts import MakeHost, Tell, session_of
from logos.app.person import require_person
from logos.app.pins import pinned_by, telos_of
from logos.app.post_processing import is_left, post_process_once
from logos.app.preflight import (
    check_input,
    check_prompt,
    check_reviews,
    check_work_dir,
)
from logos.app.registry import place_of_run
from logos.app.rollback import abandon_runs, finish_rollback
from logos.app.run_start import (
    Continued,
    StartPlan,
    StateTrust,
    blocked,
    build_to_resume,
    name_in_state_file,
    run_to_continue,
    start_build,
    start_run,
)
from logos.app.runs import cycle_journal, load_run, newest_of, open_levels, unfinished_runs
from logos.app.setting_sources import settings_of
from logos.app.settings import Settings
from logos.app.telos_file import Telos, read_telos
from logos.app.trial import remove_scratch, require_tools
from logos.app.wiring import Caller, Ready, Wiring, check_gate, checked_host, settled, wire, with_host, with_messages
from logos.app.workdir import WorkDir, driver_at, driving, has_log, place_of, reading, say
from logos.domain.artifacts import Artifacts, changes_folder
from logos.domain.plans import CyclePlan, LevelsPlan, OnNoProgress, Plan
from logos.domain.roles import Role
from logos.domain.turns import RunId
from logos.engine.build_run import BuildRun
from logos.engine.checkpoints import changed_files, merged_work, work_tree
from logos.engine.cycle_run import CycleRun, StartMode
from logos.engine.journal import Watcher
from logos.engine.keeper import WorkKeeper
from logos.engine.options import ShowStep, show_nothing
from logos.engine.runner import EXIT_CODES, RunResult
from logos.engine.terminals import AgentTerminals
from logos.errors import AlreadyEnded, HostError, LogError, UsageError
from logos.flows.cycle.flow import CycleState
from logos.flows.fold import UNFINISHED
from logos.flows.levels.state import LevelsState
from logos.ports import AgentHost, ChangeSignal, RunLog, Snapshots
from logos.views.run import RunView


def run_here(
    settings: Settings,
    *,
    bare: bool = False,
    make_host: MakeHost | None = None,
    watchers: Sequence[Watcher[CycleState]] = (),
    tell: Tell = say,
    show_step: ShowStep = show_nothing,
    known: RunView | None = None,
    from_state: bool = False,
    reread: bool = False,
    waits_at_gates: bool = False,
) -> RunResult[CycleState]:
    """Start or resume one run of the cycle in the work dir, and drive it to its outcome.

    Raises RunPaused, HostError or Interrupted when the run stops before it has one; the run can then be resumed.
    `bare` keeps the letter of the specification: nothing is verified unless the settings say so, and a prompt other
    than the unfinished run's is no error. `show_step` is called with what an agent does now. `known` is the run to
    resume, if loaded. `from_state` believes a state file that differs from the log; `reread` takes files that the run
    has pinned as they are now. `waits_at_gates`: a person is there, so an open gate is waited at; otherwise the run
    pauses there, and PersonNeeded is raised.
    """
    check_input(settings)
    caller = Caller(tell, make_host, watchers, show_step, waits_at_gates)
    with driving(settings.work_dir, tell) as log, ExitStack() as stack:
        finish_rollback(settings, log, tell)
        continued = run_to_continue(settings, log, tell, known, _trust(settings, bare=bare, from_state=from_state))
        if isinstance(continued, RunView):
            require_person(settings.work_dir, "resume a run")
            continued = with_messages(settings, continued, log, caller)
        ready = _ready_run(settings, continued, log, caller, bare=bare, reread=reread)
        check_gate(ready, caller)
        settings, plan = ready.settings, ready.plan.first.plan
        host = checked_host(ready, plan.agents, caller, stack, fresh=ready.plan.mode is StartMode.FRESH)
        check_blind_host(plan, host)
        wiring = wire(ready, host, log, work_tree, caller, stack)
        if settings.resume is False:
            abandon_runs(settings, log, CyclePlan, "a new run was begun", tell)
        _introduce(settings, ready.plan, tell, bare=bare)
        run = _cycle_run(ready, wiring, caller, stack, bare=bare)
        return run.run(ready.plan.first, wiring.proving.baseline)


def _ready_run(
    settings: Settings, continued: Continued, log: RunLog, caller: Caller, *, bare: bool, reread: bool
) -> Ready[CycleState]:
    tell = caller.tell
    check_prompt(settings, continued, tell, strict=not bare)
    resumed = continued if isinstance(continued, RunView) else None
    pinned = pinned_by(resumed, reread=reread)
    settings, given = settled(settings, resumed, pinned, tell)
    check_reviews(settings, tell)
    session, agents_of = session_of(continued), Settings.role_agents
    settings, make_host, files = with_host(settings, caller, session, agents_of, pinned, bare=bare)
    snapshots = snapshots_for(settings, tell) if settings.checkpoints.enabled else None
    settings = _with_rules(settings, snapshots, tell, bare=bare)
    plan = start_run(settings, continued, log, given, files)
    check_blind(settings, plan, tell)
    return Ready(settings, plan, resumed, make_host, pinned or files, snapshots)


def _cycle_run(ready: Ready[CycleState], wiring: Wiring, caller: Caller, stack: ExitStack, *, bare: bool) -> CycleRun:
    settings, plan, checkpoints, tell = ready.settings, ready.plan, wiring.checkpoints, caller.tell
    needs, rooms = wiring.needs, wiring.proving.rooms
    tester = acceptance_tester(settings, plan, rooms, ready.make_host, needs, stack, tell)
    changed = changed_files(wiring.proving.store, tell)
    responses = ResponseFiles(settings.response_dir)
    responses.ensure()
    return CycleRun(
        plan.journal,
        plan.mode,
        settings.run_options(),
        needs,
        responses,
        stack.enter_context(closing(FileWatcher(settings.response_dir))),
        wiring.watchers,
        partial(post_process_once, plan.journal, settings, changed),
        changed,
        harvest=plan.harvest,
        keeper=WorkKeeper(checkpoints.snapshots, checkpoints.latest, tell) if checkpoints and not bare else None,
        acceptance=tester,
    )


def _introduce(settings: Settings, start_plan: StartPlan[CycleState], tell: Tell, *, bare: bool) -> None:
    """Say how the run starts, and what the folder is that its analyst creates in a repository without one."""
    if start_plan.message:
        tell(start_plan.message)
    if bare or start_plan.mode is not StartMode.FRESH:
        return
    folder, other = changes_folder(settings.artifacts), Artifacts.LOGOS
    if settings.start_agent is not Role.ANALYST or (settings.work_dir / folder).exists():
        return
    instead = f"; --set artifacts={other} puts it into {changes_folder(other)}" if settings.artifacts != other else ""
    tell(f"the analyst's plan, for you and the other agents, will be in {folder}{instead}")


def _trust(settings: Settings, *, bare: bool, from_state: bool) -> StateTrust:
    """In the bare form, RESUME=1 is the person's word for the state file."""
    if from_state or (bare and settings.resume):
        return StateTrust.ALWAYS
    return StateTrust.WITHOUT_RUN if bare else StateTrust.WITHOUT_LOG


def _with_rules(settings: Settings, snapshots: Snapshots | None, tell: Tell, *, bare: bool) -> Settings:
    """What holds where nobody said otherwise: a PASS is verified, something was changed for it, rounds make progress.

    The bare form promises none of it. Without snapshots nobody can tell what was changed.
    """
    otherwise = OnNoProgress.GO_ON if bare else OnNoProgress.BLOCK
    rule = (settings.limits.on_no_progress or otherwise) if snapshots is not None else None
    limits = settings.limits.model_copy(update={"on_no_progress": rule})
    settings = settings.model_copy(update={"limits": limits})
    if bare:
        return without_blind(settings, tell)
    changed = settings.expect_change is not False and snapshots is not None
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
    show_step: ShowStep = show_nothing,
    known: RunView | None = None,
    reread: bool = False,
    waits_at_gates: bool = False,
) -> RunResult[LevelsState]:
    """Start or resume one build in the work dir, and drive it to its outcome; raises what `run_here` raises."""
    check_work_dir(settings)
    settings.levels_taking_part()
    if not has_log(settings.work_dir):
        read_telos(settings.work_dir)
    caller = Caller(tell, make_host, watchers, show_step, waits_at_gates)
    with driving(settings.work_dir, tell) as log, ExitStack() as stack:
        view = build_to_resume(settings, feature, log, tell, known)
        if view is not None:
            require_person(settings.work_dir, "resume a build")
            view = with_messages(settings, view, log, caller)
        ready, telos = _ready_build(settings, feature, view, log, caller, allow_dirty=allow_dirty, reread=reread)
        check_gate(ready, caller)
        settings, plan, journal = ready.settings, ready.plan.first.plan, ready.plan.journal
        levels = {level.name for level in settings.levels_taking_part()}
        agents = [agent for agent in plan.agents if agent.name in levels]
        host = checked_host(ready, agents, caller, stack, fresh=True)
        _try_tools(settings, telos, view, journal.state.plan.base, tell)
        wiring = wire(ready, host, log, merged_work, caller, stack)
        if view is None:
            abandon_runs(settings, log, LevelsPlan, "a new build was begun", tell)
        _remove_leftovers(settings, log, host, journal.run, tell)
        if ready.plan.message:
            tell(ready.plan.message)
        setup, signature = Setup(telos.setup, wiring.commands), settings.signature()
        workspace = GitWorkspace(settings.work_dir, journal.run, setup, feature=plan.request, signature=signature)
        options, needs = settings.run_options(), wiring.needs
        run = BuildRun(journal, options, needs, workspace, responses_in, change_signal_for, wiring.watchers)
        return run.run(ready.plan.first, wiring.proving.baseline)


def _ready_build(
    settings: Settings,
    feature: str,
    view: RunView | None,
    log: RunLog,
    caller: Caller,
    *,
    allow_dirty: bool,
    reread: bool,
) -> tuple[Ready[LevelsState], Telos]:
    tell, pinned = caller.tell, pinned_by(view, reread=reread)
    kept = view.build.plan if view is not None and view.build is not None and pinned else None
    telos = telos_of(kept) if kept is not None else read_telos(settings.work_dir)
    base = base_of(settings.work_dir, allow_dirty=allow_dirty) if view is None else ""
    settings, given = settled(settings, view, pinned, tell)
    settings = without_blind(settings, tell)
    session, agents_of = session_of(view), Settings.level_agent_config
    settings, make_host, files = with_host(settings, caller, session, agents_of, pinned)
    plan = start_build(settings, feature, telos, base, log, view, given, files)
    snapshots = snapshots_for(settings, tell) if settings.checkpoints.enabled else None
    return Ready(settings, plan, view, make_host, pinned or files, snapshots), telos


def _try_tools(settings: Settings, telos: Telos, view: RunView | None, base: str, tell: Tell) -> None:
    """Try setup and tools on the commit that a build starts or continues from, unless an earlier driver has."""
    wd, state = settings.work_dir, view.build if view is not None else None
    known = state.plan if state is not None else None
    if known is not None and (known.setup, known.tools) == (telos.setup, telos.tools):
        remove_scratch(wd)
        return
    levels = known.levels if known is not None else settings.levels_taking_part()
    tools = [tool for tool in telos.tools if tool.level in levels]
    commit = state.head if state is not None else base
    require_tools(wd, commit, telos.setup, tools, settings.handoff.response_timeout, tell)


def read_run(work_dir: Path, run: RunId) -> RunView:
    """The read model of one run in a work dir's log."""
    with reading(work_dir) as log:
        return load_run(log, run)


def _remove_leftovers(settings: Settings, log: RunLog, host: AgentHost, current: RunId, tell: Tell) -> None:
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


def responses_in(folder: str, answer: str) -> ResponseFiles:
    """The response file of one turn of a build."""
    return ResponseFiles(WorkDir(Path(folder)).response_dir, {answer: f"{answer}.md"})


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
    from_state: bool = False,
    reread: bool = False,
    waits_at_gates: bool = False,
) -> RunResult[Any]:
    """Continue a run, by default the newest unfinished one; `overrides` are settings as `key=value`."""
    prepared = prepare_resume(run, overrides=overrides, config=config, wd=wd)
    settings, view = prepared.settings, prepared.view
    if view.build is not None:
        return build_here(
            settings,
            "",
            make_host=make_host,
            watchers=watchers,
            tell=tell,
            known=view,
            reread=reread,
            waits_at_gates=waits_at_gates,
        )
    return run_here(
        settings,
        make_host=make_host,
        watchers=watchers,
        tell=tell,
        known=view,
        from_state=from_state,
        reread=reread,
        waits_at_gates=waits_at_gates,
    )


def prepare_resume(
    run: str | None = None, *, overrides: Sequence[str] = (), config: Path | None = None, wd: Path | None = None
) -> PreparedResume:
    """Find the run, here or in a fork, check that it can continue, and make the state file name it."""
    name = locate(place_of(wd) if run is None else place_of_run(run, wd), run_name(run))
    require_person(name.place, "resume a run")
    place = name.place
    with reading(place) as log:
        view = match(log, name)[0] if run else next(unfinished_runs(log), None)
        if view is None and (runs := log.runs()):
            view = load_run(log, runs[-1])
    if view is None:
        raise UsageError(f"nothing unfinished is in {place}; `logos sessions` lists what was done there")
    if view.outcome not in UNFINISHED:
        if is_left(view):
            _post_process_later(settings_of(place, config, overrides), view)
        raise AlreadyEnded(
            f"run {view.run} has ended ({view.outcome}): nothing to resume; `logos rollback {view.run}@EVENT` returns "
            f"to an event of it, `logos fork {view.run} --at EVENT` continues from one in another worktree",
            EXIT_CODES[view.outcome],
        )
    if view.question is not None:
        raise blocked(view.run, place)
    default = WorkDir(place).config
    config = config or (default if default.is_file() else None)
    prepared = PreparedResume(place, view, config, (*overrides, f"wd={place}"))
    if view.build is None:
        name_in_state_file(prepared.settings, view)
    return prepared


def _post_process_later(settings: Settings, view: RunView, tell: Tell = say) -> None:
    """Do the post-processing of a run that passed and whose driver was killed before it."""
    with driving(settings.work_dir, tell) as log:
        view = load_run(log, view.run)
        if not is_left(view):
            return
        pinned = pinned_by(view, reread=False)
        settings, _ = settled(settings, view, pinned, tell)
        if not (settings.post_processing.openspec_archive or settings.post_processing.git_commit):
            return
        journal = cycle_journal(log, view.fold)
        tell(f"run {view.run} has passed and its post-processing is left to be done")
        post_process_once(journal, settings, changed_files(snapshots_for(settings, tell), tell))


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
