"""How a run of the cycle starts: fresh, resumed from its log, or imported from a state file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import cast

from logos.adapters.files import aside, set_aside
from logos.adapters.state_files import read_cycle_state
from logos.adapters.store.sqlite import SqliteLog
from logos.app.prompt import Prompt, read_prompt_file, split_prompt
from logos.app.runs import cycle_journal, reload_run, unfinished_runs
from logos.app.settings import Settings, home_of
from logos.app.workdir import Tell
from logos.domain.events import RunResumed, RunStarted, TerminalOpened
from logos.domain.ledger import Ledger
from logos.domain.plans import CURRENT_RULES, CondenseRules, CyclePlan, OnExhausted, ReviewRules
from logos.domain.turns import Agent, AgentName, RunId
from logos.engine.cycle_run import StartMode
from logos.engine.journal import Journal
from logos.engine.runner import new_run_id
from logos.errors import ConfigError, LogDamaged, PromptError, StateError, UsageError
from logos.flows.cycle.flow import Cycle, CycleState
from logos.flows.fold import RunFold
from logos.ports import Log
from logos.views.cycle_state import RUNNING, Saved, StateDamaged, parse, project
from logos.views.run import RunView

# Fields of a plan, and the settings they come from.
_OF_THE_PLAN = {"test_command": "project_test_cmd", "verify_pass": "verify_pass"}
_OF_REVIEWS = {
    "max_cycles": "max_review_cycles",
    "min_cycles_before_approval": "min_review_cycles_before_approval",
    "require_evidence": "require_review_evidence",
    "evidence_min_match": "review_evidence_min_match",
    "on_exhausted": "on_review_exhausted",
}
_OF_HANDOFFS = {
    "cross_phase": "condense_cross_phase",
    "max_cross_phase_lines": "max_cross_phase_lines",
    "upstream_on_repeat": "condense_upstream_on_repeat",
    "explore_on_repeat": "condense_explore_on_repeat",
    "review_feedback": "condense_review_feedback",
    "max_feedback_lines": "max_feedback_lines",
    "max_test_evidence_lines": "max_test_evidence_lines",
}


@dataclass(frozen=True, slots=True)
class StartPlan:
    """How a driver starts: the mode, the plan, and the run or the state file that it continues."""

    mode: StartMode
    plan: CyclePlan
    journal: Journal[CycleState] | None = None
    saved: Saved | None = None

    def first_event(self, log: Log) -> tuple[Journal[CycleState], RunStarted | RunResumed]:
        """The journal of the run, and this driver's first event."""
        if self.journal is not None:
            return self.journal, RunResumed(self.plan)
        started = RunStarted(self.plan)
        if self.saved is not None:
            opened = tuple(
                TerminalOpened(name, terminal.id, terminal.provider, self.saved.session)
                for name, terminal in self.saved.terminals.items()
            )
            started = RunStarted(self.plan, self.saved.seed, opened)
        return Journal(log, RunFold(new_run_id(), Cycle(self.plan, started.seed))), started


def given_prompt(settings: Settings) -> str | None:
    """The prompt in the settings, if any; a file wins over a text."""
    if settings.prompt_file:
        return read_prompt_file(home_of("prompt_file", settings.prompt_file))
    return settings.prompt or None


def make_plan(settings: Settings, prompt: str) -> CyclePlan:
    return plan_from(settings, split_prompt(prompt), str(settings.response_dir))


def plan_from(settings: Settings, parts: Prompt, response_dir: str) -> CyclePlan:
    return CyclePlan(
        prompt=parts.whole,
        explore=parts.explore,
        scenario_test=parts.scenario_test,
        wd=str(settings.work_dir),
        response_dir=response_dir,
        agents=tuple(
            Agent(AgentName(role), config["provider"], config["profile"], settings.spare(role))
            for role, config in settings.agent_config().items()
        ),
        start=settings.start_agent,
        max_rounds=settings.limits.max_rounds,
        test_command=settings.project_test_cmd,
        verify_pass=settings.verify_pass,
        review=ReviewRules(**{name: getattr(settings.limits, key) for name, key in _OF_REVIEWS.items()}),
        condense=CondenseRules(**{name: getattr(settings.condensation, key) for name, key in _OF_HANDOFFS.items()}),
        rules=CURRENT_RULES,
    )


def resumed_plan(settings: Settings, old: CyclePlan) -> CyclePlan:
    """The plan of a resumed run: settings that were given now win, others stay as the run had them."""
    new = make_plan(settings, old.prompt)
    given, limits, condensation = (part.model_fields_set for part in (settings, settings.limits, settings.condensation))
    kept = {name: getattr(old, name) for name, key in _OF_THE_PLAN.items() if key not in given}
    kept |= {} if "max_rounds" in limits else {"max_rounds": old.max_rounds}
    reviews = {name: getattr(old.review, name) for name, key in _OF_REVIEWS.items() if key not in limits}
    handoffs = {name: getattr(old.condense, name) for name, key in _OF_HANDOFFS.items() if key not in condensation}
    return replace(
        new, **kept, rules=old.rules, review=replace(new.review, **reviews), condense=replace(new.condense, **handoffs)
    )


def choose_start(
    settings: Settings, log: SqliteLog, tell: Tell, stamp: str, *, strict_prompt: bool, known: RunView | None = None
) -> StartPlan:
    """Decide how to start, before anything is changed.

    `strict_prompt`: a prompt that differs from the unfinished run's is an error. `known` is a run that is loaded
    already.
    """
    _check_reviews(settings, tell)
    given = given_prompt(settings)
    if settings.resume is False:
        return _fresh(settings, given)
    try:
        saved = read_cycle_state(settings.state_path, settings.provider)
    except StateDamaged as damage:
        kept = set_aside(settings.state_path, stamp)
        tell(f"{damage}; kept as {kept.name}")
        return _without_state(settings, log, tell, f"the state file was damaged and is kept as {kept}", known)
    if saved is None:
        if settings.resume:
            return _without_state(settings, log, tell, f"there is no state file {settings.state_path}", known)
        return _fresh(settings, given)
    if saved.final_status != RUNNING and not settings.resume:
        return _fresh(settings, given)
    start_plan = _from_saved(settings, log, saved, tell, stamp, known)
    _compare_prompts(settings, given, start_plan.plan.prompt, tell, strict_prompt=strict_prompt)
    return start_plan


def _check_reviews(settings: Settings, tell: Tell) -> None:
    limits = settings.limits
    if limits.max_review_cycles >= limits.min_review_cycles_before_approval:
        return
    why = (
        f"limits.max_review_cycles = {limits.max_review_cycles} is below min_review_cycles_before_approval = "
        f"{limits.min_review_cycles_before_approval}: no review can approve"
    )
    if limits.on_review_exhausted is OnExhausted.BLOCK:
        raise ConfigError(f"{why}, and on_review_exhausted = block would end every run")
    tell(f"warning: {why}; their objections are passed on")


def _fresh(settings: Settings, given: str | None) -> StartPlan:
    if given is None:
        raise PromptError(
            "no prompt: give one (logos run --prompt FILE, or PROMPT_FILE); `logos init` writes a template"
        )
    return StartPlan(StartMode.FRESH, make_plan(settings, given))


def _without_state(settings: Settings, log: SqliteLog, tell: Tell, why: str, known: RunView | None) -> StartPlan:
    """Resume the newest unfinished run of the log."""
    view = next((view for view in unfinished_runs(log, CyclePlan, known) if view.outcome is None), None)
    if view is None:
        raise StateError(f"{why}, and no unfinished run is in the log; --fresh (RESUME=0) starts a new one")
    tell(f"{why}; resuming run {view.run} from the log")
    return _resumed(settings, log, view)


def _resumed(settings: Settings, log: SqliteLog, view: RunView) -> StartPlan:
    journal = cycle_journal(log, view)
    return StartPlan(StartMode.RESUME, resumed_plan(settings, journal.state.plan), journal)


def _from_saved(
    settings: Settings, log: SqliteLog, saved: Saved, tell: Tell, stamp: str, known: RunView | None
) -> StartPlan:
    if saved.run is not None and saved.run in log.runs():
        view = _reload_readable(settings, log, saved.run, tell, stamp, known)
        if view is not None and view.fold.seq >= saved.seq and _unedited(settings, saved, view):
            return _resumed(settings, log, view)
        newer = view is None or view.fold.seq < saved.seq
        why = "is newer than the damaged" if newer else "was edited: it differs from the"
        tell(f"the state file {why} log of run {saved.run}; resuming from the state file")
    prompt = saved.prompt or given_prompt(settings)
    if prompt is None:
        raise StateError(f"{settings.state_path} holds no prompt, and none was given")
    return StartPlan(StartMode.IMPORT, make_plan(settings, prompt), saved=saved)


def _reload_readable(
    settings: Settings, log: SqliteLog, run: RunId, tell: Tell, stamp: str, known: RunView | None
) -> RunView | None:
    """The run in the log without events that cannot be read; None when none of it can be read."""
    try:
        view = reload_run(log, run, known)
    except LogDamaged as damage:
        _cut(settings, log, run, 1, str(damage), tell, stamp)
        return None
    cut_damage(settings, log, view, tell, stamp)
    return view


def cut_damage(settings: Settings, log: SqliteLog, view: RunView, tell: Tell, stamp: str) -> None:
    """Remove the unreadable end of a run from the log, after the whole log was copied."""
    if view.damage:
        _cut(settings, log, view.run, view.fold.seq + 1, view.damage, tell, stamp)


def _cut(settings: Settings, log: SqliteLog, run: RunId, seq: int, damage: str, tell: Tell, stamp: str) -> None:
    copy = aside(settings.paths.database, stamp)
    log.cut(run, seq, copy)
    tell(f"{damage}; the whole log is kept as {copy.name}, the run continues from event {seq - 1}")


def _unedited(settings: Settings, saved: Saved, view: RunView) -> bool:
    """Whether the file is what Logos wrote at that event; a person's edit wins over the log."""
    # A view of the cycle has only states of the cycle.
    state = cast(CycleState, view.states[saved.seq - 1] if saved.seq > 0 else view.fold.flow.start())
    ledger = reduce(Ledger.enter, (record.event for record in view.records[: max(saved.seq, 0)]), Ledger())
    written = parse(project(state, ledger, view.run, saved.seq, "", ""), settings.provider)
    return (written.seed, written.terminals) == (saved.seed, saved.terminals)


def _compare_prompts(settings: Settings, given: str | None, ours: str, tell: Tell, *, strict_prompt: bool) -> None:
    if given is None or given.strip() == ours.strip():
        return
    if strict_prompt and settings.resume is None:
        raise UsageError(
            "an unfinished run with another prompt is here: --resume continues it, --fresh starts the new prompt"
        )
    tell("warning: the given prompt differs from the unfinished run's; continuing with the run's own prompt")
