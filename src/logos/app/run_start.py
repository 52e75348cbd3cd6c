"""How a run or a build starts: fresh, resumed from its log, or imported from a state file."""

import os
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from pathlib import Path
from typing import Generic, TypeVar, cast

from logos.adapters.files import aside, set_aside
from logos.adapters.lock import driver_lock
from logos.adapters.reports import read_report
from logos.adapters.state_files import read_cycle_state
from logos.app.prompt import Prompt, given_prompt, split_prompt
from logos.app.proof_rules import build_proof_rules, proof_rules
from logos.app.run_state import write_run_state
from logos.app.runs import cycle_journal, levels_journal, newest_of, reload_run, unfinished_runs
from logos.app.setting_sources import OF_BUILDS, OF_HANDOFFS, OF_REVIEWS
from logos.app.settings import Settings
from logos.app.telos_file import Telos
from logos.app.workdir import Tell, stamp, wd_flag
from logos.domain.events import RunAbandoned, RunEnded, RunResumed, RunStarted, TerminalOpened
from logos.domain.ledger import Ledger
from logos.domain.plans import (
    CURRENT_RULES,
    CondenseRules,
    CyclePlan,
    GivenSetting,
    LevelsPlan,
    PinnedFile,
    ReviewRules,
    RulesVersion,
)
from logos.domain.turns import Outcome, RunId
from logos.engine.cycle_run import StartMode
from logos.engine.journal import Journal
from logos.engine.runner import new_run_id
from logos.errors import AlreadyPassed, LogDamaged, PromptError, StateError, UsageError
from logos.flows.cycle.flow import Cycle, CycleState
from logos.flows.fold import UNFINISHED, RunFold
from logos.flows.levels.flow import Levels
from logos.flows.levels.state import LevelsState
from logos.ports import RunLog
from logos.views.cycle_state import FINAL, RUNNING, Saved, StateDamaged, parse, project
from logos.views.run import RunView
from logos.views.text import first_line

State = TypeVar("State")
AnyPlan = TypeVar("AnyPlan", CyclePlan, LevelsPlan)


@dataclass(frozen=True, slots=True)
class StartPlan(Generic[State]):
    """How a driver starts: the journal of the run, this driver's first event, and what the person is told."""

    mode: StartMode
    journal: Journal[State]
    first: RunStarted | RunResumed
    message: str = ""
    # A response to the first turn that is due may be there already.
    harvest: bool = False


# What a driver of the cycle continues: a run of the log, or a state file; None: a new run starts.
Continued = RunView | Saved | None


def make_plan(settings: Settings, prompt: str) -> CyclePlan:
    return plan_from(settings, split_prompt(prompt), str(settings.response_dir))


def plan_from(settings: Settings, parts: Prompt, response_dir: str) -> CyclePlan:
    return CyclePlan(
        prompt=parts.whole,
        explore=parts.explore,
        scenario_test=parts.scenario_test,
        wd=str(settings.work_dir),
        response_dir=response_dir,
        agents=settings.role_agents(),
        start=settings.start_agent,
        max_rounds=settings.limits.max_rounds,
        test_command=settings.project_test_cmd,
        verify_pass=bool(settings.verify_pass),
        expect_change=bool(settings.expect_change),
        proof=proof_rules(settings),
        on_no_progress=settings.limits.on_no_progress,
        artifacts=settings.artifacts,
        gates=settings.gates.at,
        review=ReviewRules(**{name: getattr(settings.limits, key) for name, key in OF_REVIEWS.items()}),
        condense=CondenseRules(**{name: getattr(settings.condensation, key) for name, key in OF_HANDOFFS.items()}),
        rules=CURRENT_RULES,
    )


class StateTrust(StrEnum):
    """Whether a state file that differs from the log is believed: agents can write it.

    ALWAYS: a person says so. WITHOUT_LOG: where there is no log at all. WITHOUT_RUN: where it has no unfinished run.
    """

    ALWAYS = "always"
    WITHOUT_LOG = "without_log"
    WITHOUT_RUN = "without_run"


def run_to_continue(
    settings: Settings,
    log: RunLog,
    tell: Tell,
    known: RunView | None = None,
    trust: StateTrust = StateTrust.ALWAYS,
) -> Continued:
    """What there is to continue, before anything is changed; `known` is a run that is loaded already."""
    if settings.resume is False:
        return None
    if trust is not StateTrust.ALWAYS and (ignored := _ignored(settings, log, trust, known)):
        tell(f"warning: {settings.state_path} {ignored}, so it is ignored; --from-state believes it")
        found = _unfinished(settings, log, tell, known)
        if found is None and settings.resume:
            raise StateError(
                f"{settings.state_path} {ignored}, and no unfinished run is in the log; --fresh starts one"
            )
        return found
    try:
        saved = read_cycle_state(settings.state_path, settings.provider)
    except StateDamaged as damage:
        kept = set_aside(settings.state_path, stamp())
        tell(f"{damage}; kept as {kept.name}")
        return _without_state(settings, log, tell, f"the state file was damaged and is kept as {kept}", known)
    if saved is None and settings.resume:
        return _without_state(settings, log, tell, f"there is no state file {settings.state_path}", known)
    ended = saved is not None and saved.final_status != RUNNING and _has_ended(log, saved)
    if saved is None or (ended and not settings.resume):
        return None
    if ended and saved.final_status == FINAL[Outcome.PASSED]:
        raise AlreadyPassed(f"{settings.state_path} says PASS: nothing to resume; --fresh (RESUME=0) starts a new run")
    if saved.run is not None and saved.run in log.runs():
        view = _load_readable(settings, log, saved.run, tell, known)
        newer = view is None or view.fold.seq < saved.seq
        if view is not None and not newer and _unedited(settings, saved, view):
            if view.fold.ended and view.outcome not in UNFINISHED:
                raise StateError(
                    f"run {view.run} has ended ({view.outcome}): nothing to resume; --fresh starts a new one"
                )
            return view
        if view is not None and newer and _same_place(settings, saved, view):
            return view
        why = "is newer than the damaged" if newer else "was edited: it differs from the"
        tell(f"the state file {why} log of run {saved.run}; resuming from the state file")
    return saved


def _ignored(settings: Settings, log: RunLog, trust: StateTrust, known: RunView | None) -> str:
    """Why the state file is not believed; empty where it is, and where there is none that can be read."""
    try:
        saved = read_cycle_state(settings.state_path, settings.provider)
    except StateDamaged:
        return ""
    if saved is None or not log.runs():
        return ""
    if trust is StateTrust.WITHOUT_RUN and next(unfinished_runs(log, CyclePlan, known), None) is None:
        return ""
    if saved.run is None:
        return "was not written by the runs in the log"
    if saved.run not in log.runs():
        return f"names the run {saved.run}, which is not in the log"
    try:
        view = reload_run(log, saved.run, known)
    except LogDamaged:
        return ""
    if view.fold.seq < saved.seq:
        return f"is newer than the log of run {saved.run}"
    written = _written(settings, saved, view)
    same = (written.prompt, written.final_status) == (saved.prompt, saved.final_status)
    return "" if same and _unedited(settings, saved, view) else f"differs from the log of run {saved.run}"


def _unfinished(settings: Settings, log: RunLog, tell: Tell, known: RunView | None) -> RunView | None:
    """The unfinished run that continues without a state file: the newest run, or with --resume any."""
    view = next(unfinished_runs(log, CyclePlan, known), None)
    if view is None or not (settings.resume or view.run == newest_of(log, CyclePlan)):
        return None
    return _load_readable(settings, log, view.run, tell, view) if view.damage else view


def _has_ended(log: RunLog, saved: Saved) -> bool:
    """Whether a run that has its outcome was also ended; a driver may be killed in between."""
    if saved.run is None or saved.run not in log.runs():
        return True
    rest = (record.event for record in log.read(saved.run, max(saved.seq, 1)))
    return any(isinstance(event, RunEnded | RunAbandoned) for event in rest)


def start_run(
    settings: Settings,
    continued: Continued,
    log: RunLog,
    given: tuple[GivenSetting, ...],
    files: tuple[PinnedFile, ...] = (),
) -> StartPlan[CycleState]:
    """How a driver starts with these settings; its first event says what it was `given`, and which `files` it pins."""
    if isinstance(continued, RunView):
        journal = cycle_journal(log, continued.fold)
        state = journal.state
        message = (
            f"resuming run {journal.run}: round {state.round}, {state.role.replace('_', ' ')}, cycle {state.cycle}; "
            "finished turns are not repeated"
        )
        plan = replace(make_plan(settings, state.plan.prompt), rules=state.plan.rules, start=state.plan.start)
        plan = _without_late_proof(plan)
        moved = _is_elsewhere(state.plan.wd, settings.work_dir)
        return StartPlan(
            StartMode.RESUME,
            journal,
            RunResumed(plan, given, moved, files),
            message + _told(moved, state.plan.wd),
            not moved and _left_response(settings, continued),
        )
    prompt = given_prompt(settings)
    if continued is None:
        if prompt is None:
            raise PromptError(
                "no prompt: give one (logos run --prompt FILE, or PROMPT_FILE); `logos init` writes a template"
            )
        return _new_run(StartMode.FRESH, log, RunStarted(make_plan(settings, prompt), given=given, files=files))
    prompt = continued.prompt or prompt
    if prompt is None:
        raise StateError(f"{settings.state_path} holds no prompt, and none was given")
    opened = tuple(
        TerminalOpened(name, terminal.id, terminal.provider, continued.session)
        for name, terminal in continued.terminals.items()
    )
    seed = continued.seed
    message = f"resuming from the state file: round {seed.round}, {seed.phase}; a new log begins"
    # Its work began before this log: what has changed since then is not known.
    plan = replace(make_plan(settings, prompt), expect_change=False)
    started = _new_run(StartMode.IMPORT, log, RunStarted(plan, seed, opened, given, files), message)
    # A file of ours: its run was at this turn when the log was lost.
    return replace(started, harvest=continued.run is not None)


def _without_late_proof(plan: AnyPlan) -> AnyPlan:
    """A run that began before there were proofs is verified as it was: in its work tree."""
    return plan if plan.rules >= RulesVersion.QUOTED_VERDICTS_DO_NOT_COUNT else replace(plan, proof=None)


def _new_run(mode: StartMode, log: RunLog, started: RunStarted, message: str = "") -> StartPlan[CycleState]:
    fold = RunFold(new_run_id(), Cycle(cast(CyclePlan, started.plan), started.seed))
    return StartPlan(mode, Journal(log, fold), started, message)


def _without_state(settings: Settings, log: RunLog, tell: Tell, why: str, known: RunView | None) -> RunView:
    """The newest unfinished run of the log."""
    view = next((view for view in unfinished_runs(log, CyclePlan, known) if view.outcome is None), None)
    if view is None:
        raise StateError(f"{why}, and no unfinished run is in the log; --fresh (RESUME=0) starts a new one")
    tell(f"{why}; resuming run {view.run} from the log")
    return _load_readable(settings, log, view.run, tell, view) or view


def _load_readable(settings: Settings, log: RunLog, run: RunId, tell: Tell, known: RunView | None) -> RunView | None:
    """Load a run, and remove events that cannot be read after the whole log was copied; None when none can be read."""
    try:
        view = reload_run(log, run, known)
        last, damage = view.fold.seq, view.damage
    except LogDamaged as error:
        view, last, damage = None, 0, str(error)
    if damage:
        copy = aside(settings.paths.database, stamp())
        log.cut(run, last + 1, copy)
        tell(f"{damage}; the whole log is kept as {copy.name}, the run continues from event {last}")
    return view


def _unedited(settings: Settings, saved: Saved, view: RunView) -> bool:
    """Whether the file is what Logos wrote at that event."""
    written = _written(settings, saved, view)
    return (written.seed, written.terminals) == (saved.seed, saved.terminals)


def _same_place(settings: Settings, saved: Saved, view: RunView) -> bool:
    """Whether a file that is newer than the log is at the same turn."""
    return _written(settings, replace(saved, seq=view.fold.seq), view).seed == saved.seed


def _left_response(settings: Settings, view: RunView) -> bool:
    """Whether the turn that is due was asked, although the end of the log that said so is lost."""
    try:
        saved = read_cycle_state(settings.state_path, settings.provider)
    except StateError:
        return False
    if saved is None or saved.run != view.run or saved.seq <= view.fold.seq:
        return False
    return _same_place(settings, saved, view)


def _written(settings: Settings, saved: Saved, view: RunView) -> Saved:
    """What Logos wrote into the state file at the event that it names."""
    # A view of the cycle has only states of the cycle.
    state = cast(CycleState, view.states[saved.seq - 1] if saved.seq > 0 else view.fold.flow.start())
    ledger = reduce(Ledger.enter, (record.event for record in view.records[: max(saved.seq, 0)]), Ledger())
    return parse(project(state, ledger, view.run, saved.seq, "", ""), settings.provider)


def name_in_state_file(settings: Settings, view: RunView) -> None:
    """A driver of the cycle continues the run that the state file names: where that is another, rewrite the file."""
    try:
        saved = read_cycle_state(settings.state_path, settings.provider)
    except StateDamaged:
        return
    if saved is None or (saved.run is not None and saved.run != view.run):
        with driver_lock(settings.paths.lock):
            write_run_state(settings, view.fold)


def build_to_resume(
    settings: Settings, feature: str, log: RunLog, tell: Tell, known: RunView | None = None
) -> RunView | None:
    """The newest build, if it continues; None: a new one starts. `known` is the newest build, if loaded already."""
    run = None if settings.resume is False else known.run if known is not None else newest_of(log, LevelsPlan)
    view = _load_readable(settings, log, run, tell, known) if run is not None else None
    if view is not None and _continues(settings, feature, levels_journal(log, view.fold)):
        return view
    if not feature.strip():
        raise UsageError('describe what to build: logos build "the feature in plain words"')
    return None


def start_build(
    settings: Settings,
    feature: str,
    telos: Telos,
    base: str,
    log: RunLog,
    view: RunView | None,
    given: tuple[GivenSetting, ...],
    files: tuple[PinnedFile, ...] = (),
) -> StartPlan[LevelsState]:
    """Resume the build of a view, or without one start a build of `feature` from the commit `base`."""
    plan = LevelsPlan(
        feature=feature,
        wd=str(settings.work_dir),
        base=base,
        telos=telos.hierarchy,
        agents=settings.level_agent_config(),
        levels=settings.levels_taking_part(),
        tools=telos.tools,
        setup=telos.setup,
        proof=build_proof_rules(settings, telos),
        gates=settings.gates.at,
        **{name: getattr(settings.build, name) for name in OF_BUILDS},
        rules=CURRENT_RULES,
    )
    if view is None:
        fold = RunFold(new_run_id(), Levels(plan, read_report))
        return StartPlan(StartMode.FRESH, Journal(log, fold), RunStarted(plan, given=given, files=files))
    plan = replace(plan, **{name: getattr(view.plan, name) for name in ("feature", "base", "rules")})
    plan = _without_late_proof(plan)
    message = f"resuming build {view.run}; finished turns are not repeated"
    moved = _is_elsewhere(view.state.plan.wd, settings.work_dir)
    message += _told(moved, view.state.plan.wd)
    return StartPlan(StartMode.RESUME, levels_journal(log, view.fold), RunResumed(plan, given, moved, files), message)


def _is_elsewhere(before: str, work_dir: Path) -> bool:
    """Whether a run is resumed in another folder than before: its work dir was copied or moved."""
    return os.path.realpath(before) != os.path.realpath(work_dir)


def _told(moved: bool, before: str) -> str:
    return f"; its work dir was {before}: agents get new terminals and prompts for this folder" if moved else ""


def _continues(settings: Settings, feature: str, journal: Journal[LevelsState]) -> bool:
    state, same = journal.state, not feature.strip() or feature.strip() == journal.state.plan.feature.strip()
    if state.outcome is not None and not journal.fold.ended and (settings.resume or same):
        # The driver was killed between the last answer and the last event.
        return True
    left = bool(journal.ledger.terminals) or (settings.paths.worktrees / journal.run).exists()
    if settings.resume and state.outcome not in UNFINISHED and left:
        # The driver was killed after the last event: terminals or worktrees of the build still exist.
        return True
    if state.outcome is Outcome.BLOCKED and (settings.resume or same):
        if state.question is None:
            raise StateError(f"build {journal.run} is BLOCKED: {state.reason}")
        raise blocked(journal.run, settings.work_dir)
    if state.outcome is not None:
        if settings.resume:
            raise StateError(f"build {journal.run} has ended ({state.outcome}); there is no unfinished one")
        return False
    if settings.resume or same:
        return True
    raise UsageError(
        f"an unfinished build of something else is here ({journal.run}: {first_line(state.plan.feature)!r}): "
        "--resume continues it, --fresh starts the new one"
    )


def blocked(run: RunId, place: Path) -> StateError:
    flag = wd_flag(place)
    return StateError(
        f"build {run} is blocked on a question. Answer it with `logos resolve{flag}`; --fresh starts a new build"
    )
