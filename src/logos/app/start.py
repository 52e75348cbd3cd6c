"""Starting or resuming one run or build in a work dir: check, lock, choose a host, drive."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from logos.adapters.git.workspace import GitWorkspace, base_of
from logos.adapters.responses import FileWatcher, ResponseFiles
from logos.adapters.store.sqlite import SqliteLog
from logos.app.build_start import BuildStartPlan, choose_build_start
from logos.app.hosts import MakeHost, Tell, check_host, choose_host, unfinished_session
from logos.app.prompt import split_prompt
from logos.app.rollback import abandon_runs, finish_rollback
from logos.app.run_start import StartPlan, choose_start, given_prompt
from logos.app.runs import load_run, open_levels
from logos.app.settings import Settings
from logos.app.state_files import state_file_writer
from logos.app.telos_file import read_telos
from logos.app.wiring import after_pass, checkpoints_for, dependencies, driver, responses_in
from logos.app.workdir import reading, say, stamp
from logos.domain.plans import CyclePlan, LevelsPlan
from logos.domain.turns import Outcome, RunId
from logos.engine.build_run import BuildRun, run_build
from logos.engine.checkpoints import merged_work, work_tree
from logos.engine.cycle_run import CycleRun, StartMode, run_cycle
from logos.engine.journal import Journal, Watcher
from logos.engine.runner import RunResult
from logos.engine.terminals import AgentTerminals
from logos.errors import ConfigError, HostError, LogError, UsageError
from logos.flows.cycle.flow import CycleState
from logos.flows.levels.state import LevelsState
from logos.ports import AgentHost, ChangeSignal
from logos.views.run import RunView


def check_work_dir(settings: Settings) -> None:
    try:
        exists = settings.work_dir.is_dir()
    except OSError:
        # The path is too long for the file system.
        exists = False
    if not exists:
        raise ConfigError(f"wd = {str(settings.work_dir)[:200]!r}: there is no such directory")


def check_input(settings: Settings) -> None:
    """Check the work dir and the prompt before a lock, a log or a terminal exists."""
    check_work_dir(settings)
    given = given_prompt(settings)
    if given is not None:
        split_prompt(given)


def run_here(
    settings: Settings,
    *,
    strict_prompt: bool = True,
    make_host: MakeHost | None = None,
    watchers: Sequence[Watcher[CycleState]] = (),
    tell: Tell = say,
    known: RunView | None = None,
) -> RunResult[CycleState]:
    """Start or resume one run of the cycle in the work dir, and drive it to its outcome.

    Raises RunPaused, HostError or Interrupted when the run stops before it has one; the run can then be resumed.
    With `strict_prompt`, a prompt other than the unfinished run's is an error. `known` is the run to resume, if loaded.
    """
    check_input(settings)
    with driver(settings, tell) as log:
        finish_rollback(settings, log, tell)
        if make_host is None:
            settings, make_host = choose_host(settings, tell, unfinished_session(settings, log, known))
        start_plan = choose_start(settings, log, tell, stamp(), strict_prompt=strict_prompt, known=known)
        with closing(make_host(settings, tell)) as host:
            check_host(host, start_plan.plan.agents, tell, fresh=start_plan.mode is StartMode.FRESH)
            if settings.resume is False:
                abandon_runs(settings, log, CyclePlan, "a new run was begun", tell)
            _announce_run(start_plan, tell)
            return _drive_cycle(settings, start_plan, host, log, watchers, tell)


def _drive_cycle(
    settings: Settings,
    start_plan: StartPlan,
    host: AgentHost,
    log: SqliteLog,
    watchers: Sequence[Watcher[CycleState]],
    tell: Tell,
) -> RunResult[CycleState]:
    responses = ResponseFiles(settings.response_dir)
    responses.ensure()
    needs = dependencies(settings, host, log, tell)
    all_watchers = [state_file_writer(settings), *watchers, *checkpoints_for(settings, log, tell, work_tree)]
    with closing(FileWatcher(settings.response_dir)) as change_signal:
        run = CycleRun(settings.run_options(), needs, responses, change_signal, all_watchers, after_pass(settings))
        return run_cycle(run, start_plan.mode, *start_plan.first_event(log))


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
    with driver(settings, tell) as log:
        base = partial(base_of, settings.work_dir, allow_dirty=allow_dirty)
        start_plan = choose_build_start(settings, feature, telos, log, tell, stamp(), base, known)
        if make_host is None:
            settings, make_host = choose_host(settings, tell, start_plan.session)
            start_plan = replace(start_plan, plan=replace(start_plan.plan, agents=settings.level_agent_config()))
        with closing(make_host(settings, tell)) as host:
            _prepare_build(settings, start_plan, host, log, tell)
            workspace = GitWorkspace(settings.work_dir, start_plan.run, telos.setup)
            needs = dependencies(settings, host, log, tell)
            checkpoints = checkpoints_for(settings, log, tell, lambda _: merged_work)
            all_watchers = [state_file_writer(settings), *watchers, *checkpoints]
            run = BuildRun(settings.run_options(), needs, workspace, responses_in, change_signal_for, all_watchers)
            return run_build(run, *start_plan.first_event(log))


def _prepare_build(settings: Settings, start_plan: BuildStartPlan, host: AgentHost, log: SqliteLog, tell: Tell) -> None:
    """Check the agents of the levels that take part, and remove what earlier builds left."""
    levels = {level.name for level in start_plan.plan.levels}
    check_host(host, [agent for agent in start_plan.plan.agents if agent.name in levels], tell, fresh=True)
    if start_plan.journal is None:
        abandon_runs(settings, log, LevelsPlan, "a new build was begun", tell)
    _remove_leftovers(settings, log, host, start_plan.run, tell)
    if start_plan.journal is not None:
        tell(f"resuming build {start_plan.run}; finished turns are not repeated")


def read_run(work_dir: Path, run: RunId) -> RunView:
    """The read model of one run in a work dir's log."""
    with reading(work_dir) as log:
        return load_run(log, run)


def _remove_leftovers(settings: Settings, log: SqliteLog, host: AgentHost, current: RunId, tell: Tell) -> None:
    """Remove terminals and worktrees of earlier builds that were killed before their last step, or abandoned."""
    for folder in sorted((settings.paths.worktrees).glob("*")):
        run = RunId(folder.name)
        if run == current or run not in log.runs():
            continue
        try:
            journal = open_levels(log, run)
            AgentTerminals(host, journal.record, time.monotonic, time.sleep).close(journal.ledger)
            _remove_worktrees(GitWorkspace(settings.work_dir, run), journal, tell)
        except (LogError, UsageError, HostError) as error:
            tell(f"warning: cannot remove what build {run} left in {folder}: {error}")


def _remove_worktrees(workspace: GitWorkspace, journal: Journal[LevelsState], tell: Tell) -> None:
    state = journal.state
    if state.outcome not in (None, Outcome.BLOCKED):
        workspace.close(state.result)
        return
    workspace.give_up(state.merged)
    tell(f"build {journal.run} is abandoned: its worktrees are removed, its log and its commits are kept")


def _announce_run(start_plan: StartPlan, tell: Tell) -> None:
    journal, saved = start_plan.journal, start_plan.saved
    if journal is not None:
        state = journal.state
        tell(
            f"resuming run {journal.run}: round {state.round}, {state.role}, cycle {state.cycle}; "
            "finished turns are not repeated"
        )
    elif saved is not None:
        tell(f"resuming from the state file: round {saved.seed.round}, {saved.seed.phase}; a new log begins")
