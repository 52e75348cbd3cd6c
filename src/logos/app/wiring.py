"""The only place that builds adapters: settings go in, something that can run comes out."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from logos.adapters.git.command import is_repository
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.git.workspace import GitWorkspace, base_of
from logos.adapters.lock import DriverLock, driver_of
from logos.adapters.notifications import notify
from logos.adapters.responses import FileWatcher, ResponseFiles
from logos.adapters.store.recovery import repair
from logos.adapters.store.registry import find
from logos.adapters.store.sqlite import SqliteLog
from logos.app.build_start import choose_build_start
from logos.app.hosts import MakeHost, Tell, check_host, choose_host, session_of, unfinished_session
from logos.app.post_processing import comment_for, post_process
from logos.app.prompt import split_prompt
from logos.app.revisiting import finish_rollback, give_up
from logos.app.run_start import StartPlan, choose_start, given_prompt
from logos.app.runs import open_levels
from logos.app.settings import Settings
from logos.app.state_files import state_file_writer
from logos.app.telos_file import read_telos
from logos.app.workdir import DATABASE, LOCK, TELOS
from logos.domain.plans import CyclePlan, LevelsPlan
from logos.domain.turns import Outcome, RunId
from logos.engine.build_run import BuildRun, run_build
from logos.engine.checkpoints import Checkpoints, Look, NoCheckpoints, merged_work, work_tree
from logos.engine.cycle_run import AfterPass, CycleRun, StartMode, run_cycle
from logos.engine.journal import Journal, Watcher
from logos.engine.runner import Dependencies, RunResult
from logos.engine.terminals import AgentTerminals
from logos.errors import ConfigError, HostError, LogError, UsageError
from logos.flows.cycle.flow import CycleState
from logos.flows.levels.state import LevelsState
from logos.ports import AgentHost, ChangeSignal

# Where the response files of a build are, in each worktree.
RESPONSES = Path(".tmp") / "agent-responses"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def stamp() -> str:
    return time.strftime("%Y%m%d-%H%M%S")


@contextmanager
def open_log(telos: Path, tell: Tell = say) -> Generator[SqliteLog]:
    """The run log of a work dir with its mirror. It is repaired first, unless another process drives it."""
    path, driver = telos / DATABASE, driver_of(telos / LOCK)
    ours = driver in (None, os.getpid())
    mirror = repair(path, tell, driving=driver is not None) if ours else find(path, "", tell)
    log = SqliteLog(path, mirror=mirror)
    try:
        yield log
    finally:
        log.close()


def log_of(place: Path) -> AbstractContextManager[SqliteLog]:
    """The log of a work dir, to write in it."""
    return open_log(place / TELOS)


def check_place(settings: Settings) -> None:
    try:
        there = settings.work_dir.is_dir()
    except OSError:
        # Too long to be a path at all.
        there = False
    if not there:
        raise ConfigError(f"wd = {str(settings.work_dir)[:200]!r}: there is no such directory")


def check_input(settings: Settings) -> None:
    """Everything that can be wrong without asking anybody: before a lock, a log or a terminal exists."""
    check_place(settings)
    given = given_prompt(settings)
    if given is not None:
        split_prompt(given)


def run_here(
    settings: Settings,
    *,
    strict_prompt: bool,
    make_host: MakeHost | None = None,
    watchers: Sequence[Watcher[CycleState]] = (),
    tell: Tell = say,
) -> RunResult[CycleState]:
    """One run in this work dir: checked, locked, opened, driven."""
    check_input(settings)
    with DriverLock(settings.telos_dir / LOCK), open_log(settings.telos_dir, tell) as log:
        finish_rollback(settings, log, tell)
        if make_host is None:
            settings, make_host = choose_host(settings, tell, unfinished_session(settings, log))
        start_plan = choose_start(settings, log, tell, stamp(), strict_prompt=strict_prompt)
        host = make_host(settings, tell)
        responses = ResponseFiles(settings.response_dir)
        try:
            check_host(host, start_plan.plan.agents, tell, fresh=start_plan.mode is StartMode.FRESH)
            if settings.resume is False:
                give_up(settings, log, CyclePlan, "a new run was begun", tell)
            _announce(start_plan, tell)
            responses.ensure()
            change_signal = FileWatcher(settings.response_dir)
            seen_by = [state_file_writer(settings), *watchers, *checkpoints_for(settings, log, tell, work_tree)]
            needs = dependencies(settings, host, log, tell)
            run = CycleRun(settings.run_options(), needs, responses, change_signal, seen_by, after_pass(settings))
            try:
                return run_cycle(run, start_plan.mode, *start_plan.first_event(log))
            finally:
                change_signal.close()
        finally:
            host.close()


def build_here(
    settings: Settings,
    feature: str,
    *,
    allow_dirty: bool = False,
    make_host: MakeHost | None = None,
    change_signal_for: Callable[[Path], ChangeSignal] = FileWatcher,
    watchers: Sequence[Watcher[LevelsState]] = (),
    tell: Tell = say,
) -> RunResult[LevelsState]:
    """One build in this work dir: checked, locked, opened, driven."""
    check_place(settings)
    settings.levels_taking_part()
    telos = read_telos(settings.work_dir)
    with DriverLock(settings.telos_dir / LOCK), open_log(settings.telos_dir, tell) as log:
        start_plan = choose_build_start(
            settings, feature, telos, log, tell, stamp(), lambda: base_of(settings.work_dir, allow_dirty=allow_dirty)
        )
        if make_host is None:
            session = session_of(log, start_plan.run) if start_plan.journal is not None else ""
            settings, make_host = choose_host(settings, tell, session)
            start_plan = replace(start_plan, plan=replace(start_plan.plan, agents=settings.level_agent_config()))
        host = make_host(settings, tell)
        try:
            taking_part = {level.name for level in start_plan.plan.levels}
            agents = [agent for agent in start_plan.plan.agents if agent.name in taking_part]
            check_host(host, agents, tell, fresh=True)
            if start_plan.journal is None:
                give_up(settings, log, LevelsPlan, "a new build was begun", tell)
            tidy_builds(settings, log, host, start_plan.run, tell)
            if start_plan.journal is not None:
                tell(f"going on with unfinished build {start_plan.run}; finished turns are not asked again")
            workspace = GitWorkspace(settings.work_dir, start_plan.run, telos.setup)
            seen_by = [state_file_writer(settings), *watchers]
            seen_by += checkpoints_for(settings, log, tell, lambda _: merged_work)
            needs = dependencies(settings, host, log, tell)
            run = BuildRun(settings.run_options(), needs, workspace, responses_in, change_signal_for, seen_by)
            return run_build(run, *start_plan.first_event(log))
        finally:
            host.close()


def dependencies(settings: Settings, host: AgentHost, log: SqliteLog, tell: Tell) -> Dependencies:
    topic = settings.notifications.ntfy_topic
    return Dependencies(host, log, tell, notify=lambda title, text, priority: notify(topic, title, text, priority))


def responses_in(folder: str, answer: str) -> ResponseFiles:
    """The response file of one turn of a build."""
    return ResponseFiles(Path(folder) / RESPONSES, {answer: f"{answer}.md"})


def after_pass(settings: Settings) -> AfterPass:
    post = settings.post_processing

    def process(plan: CyclePlan, tell: Callable[[str], object]) -> None:
        comment = post.git_commit_comment or comment_for(plan.explore)
        archiving, committing = post.openspec_archive, post.git_commit
        post_process(settings.work_dir, archiving=archiving, committing=committing, comment=comment, tell=tell)

    return process


def checkpoints_for(
    settings: Settings, log: SqliteLog, tell: Tell, look: Callable[[GitSnapshots], Look]
) -> list[Watcher[Any]]:
    """What keeps the work tree of every event, where that is wanted and can be had."""
    if not settings.checkpoints.enabled:
        return []
    if not is_repository(settings.work_dir):
        return [NoCheckpoints(f"{settings.work_dir} is no git repository", tell)]
    snapshots = GitSnapshots(settings.work_dir, [settings.state_path], tell)
    return [Checkpoints(snapshots, log, look(snapshots), tell)]


def tidy_builds(settings: Settings, log: SqliteLog, host: AgentHost, now: RunId, tell: Tell) -> None:
    """What earlier builds left: killed between their end and their last step, or given up."""
    for folder in sorted((settings.telos_dir / "worktrees").glob("*")):
        run = RunId(folder.name)
        if run == now or run not in log.runs():
            continue
        try:
            journal = open_levels(log, run)
            AgentTerminals(host, journal.record, time.monotonic, time.sleep).close(journal.ledger)
            _remove_places(GitWorkspace(settings.work_dir, run), journal, tell)
        except (LogError, UsageError, HostError) as error:
            tell(f"warning: what build {run} left in {folder} could not be removed: {error}")


def _remove_places(workspace: GitWorkspace, journal: Journal[LevelsState], tell: Tell) -> None:
    state = journal.state
    if state.outcome not in (None, Outcome.BLOCKED):
        workspace.close(state.result)
        return
    workspace.give_up(state.head if state.head != state.plan.base else None)
    tell(f"build {journal.run} is given up: its worktrees are removed, its log and its commits are kept")


def _announce(start_plan: StartPlan, tell: Tell) -> None:
    match start_plan.mode:
        case StartMode.FRESH:
            return
        case StartMode.RESUME if start_plan.journal is not None:
            state = start_plan.journal.state
            tell(
                f"going on with unfinished run {start_plan.journal.run}: round {state.round}, {state.role}, "
                f"cycle {state.cycle}; finished turns are not asked again"
            )
        case StartMode.RESUME | StartMode.IMPORT:
            saved = start_plan.saved
            where = f"round {saved.seed.round}, {saved.seed.phase}" if saved else "its state"
            tell(f"going on from the state file: {where}; a new log begins")
