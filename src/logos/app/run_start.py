"""How a run begins: fresh, resumed from its log, or imported from a state file. Nothing is lost on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from logos.adapters.files import aside, set_aside
from logos.adapters.state_files import read_cycle_state
from logos.adapters.store.sqlite import SqliteLog
from logos.app.prompt import Prompt, read_prompt_file, split_prompt
from logos.app.runs import open_cycle, runs_with
from logos.app.settings import Settings, home_of
from logos.domain.events import RunResumed, RunStarted, TerminalOpened
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

Tell = Callable[[str], None]


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
    mode: StartMode
    plan: CyclePlan
    journal: Journal[CycleState] | None = None
    saved: Saved | None = None

    def first_event(self, log: Log) -> tuple[Journal[CycleState], RunStarted | RunResumed]:
        """The journal of the run, and the event with which this driver begins."""
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
    """The prompt a person gave now, if any; the file wins."""
    if settings.prompt_file:
        return read_prompt_file(home_of("prompt_file", settings.prompt_file))
    return settings.prompt or None


def make_plan(settings: Settings, prompt: str) -> CyclePlan:
    return plan_from(settings, split_prompt(prompt), str(settings.response_dir))


def plan_from(settings: Settings, parts: Prompt, response_dir: str) -> CyclePlan:
    limits, condensation = settings.limits, settings.condensation
    return CyclePlan(
        prompt=parts.whole,
        explore=parts.explore,
        scenario_test=parts.scenario_test,
        wd=str(settings.work_dir),
        response_dir=response_dir,
        agents=tuple(
            Agent(AgentName(role), own["provider"], own["profile"], settings.spare(role))
            for role, own in settings.agent_config().items()
        ),
        start=settings.start_agent,
        max_rounds=limits.max_rounds,
        test_command=settings.project_test_cmd,
        verify_pass=settings.verify_pass,
        review=ReviewRules(
            max_cycles=limits.max_review_cycles,
            min_cycles_before_approval=limits.min_review_cycles_before_approval,
            require_evidence=limits.require_review_evidence,
            evidence_min_match=limits.review_evidence_min_match,
            on_exhausted=limits.on_review_exhausted,
        ),
        condense=CondenseRules(
            cross_phase=condensation.condense_cross_phase,
            max_cross_phase_lines=condensation.max_cross_phase_lines,
            upstream_on_repeat=condensation.condense_upstream_on_repeat,
            explore_on_repeat=condensation.condense_explore_on_repeat,
            review_feedback=condensation.condense_review_feedback,
            max_feedback_lines=condensation.max_feedback_lines,
            max_test_evidence_lines=condensation.max_test_evidence_lines,
        ),
        rules=CURRENT_RULES,
    )


def resumed_plan(settings: Settings, old: CyclePlan) -> CyclePlan:
    """The plan of a run that goes on: what its settings say now, and where they say nothing, what they said before."""
    new = make_plan(settings, old.prompt)
    said, limits, condensation = (part.model_fields_set for part in (settings, settings.limits, settings.condensation))
    kept = {own: getattr(old, own) for own, key in _OF_THE_PLAN.items() if key not in said}
    kept |= {} if "max_rounds" in limits else {"max_rounds": old.max_rounds}
    reviews = {own: getattr(old.review, own) for own, key in _OF_REVIEWS.items() if key not in limits}
    handoffs = {own: getattr(old.condense, own) for own, key in _OF_HANDOFFS.items() if key not in condensation}
    return replace(
        new, **kept, rules=old.rules, review=replace(new.review, **reviews), condense=replace(new.condense, **handoffs)
    )


def choose_start(settings: Settings, log: SqliteLog, tell: Tell, stamp: str, *, strict_prompt: bool) -> StartPlan:
    """Decide before anything is touched. `strict_prompt`: another prompt than the state's is an error."""
    _check_reviews(settings, tell)
    given = given_prompt(settings)
    if settings.resume is False:
        return _fresh(settings, given)
    try:
        saved = read_cycle_state(settings.state_path, settings.provider)
    except StateDamaged as damage:
        return _without_state(settings, log, tell, _keep_damaged(settings, damage, tell, stamp))
    if saved is None:
        if settings.resume:
            return _without_state(settings, log, tell, f"there is no state file {settings.state_path}")
        return _fresh(settings, given)
    if saved.final_status != RUNNING and not settings.resume:
        return _fresh(settings, given)
    start_plan = _from_saved(settings, log, saved, tell, stamp)
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
    tell(f"warning: {why}; their objections are only handed on")


def _fresh(settings: Settings, given: str | None) -> StartPlan:
    if given is None:
        raise PromptError(
            "no prompt: give one (logos run --prompt FILE, or PROMPT_FILE); `logos init` writes a template"
        )
    return StartPlan(StartMode.FRESH, make_plan(settings, given))


def _keep_damaged(settings: Settings, damage: StateDamaged, tell: Tell, stamp: str) -> str:
    kept = set_aside(settings.state_path, stamp)
    tell(f"{damage}; kept as {kept.name}")
    return f"the state file was damaged and is kept as {kept}"


def _without_state(settings: Settings, log: SqliteLog, tell: Tell, why: str) -> StartPlan:
    """The log restores what the file cannot say."""
    run = last_unfinished(log)
    if run is None:
        raise StateError(f"{why}, and no unfinished run is in the log; --fresh (RESUME=0) starts a new one")
    journal = open_cycle(log, run)
    tell(f"{why}; going on with run {run} from the log")
    return StartPlan(StartMode.RESUME, resumed_plan(settings, journal.state.plan), journal)


def last_unfinished(log: SqliteLog) -> RunId | None:
    for run in reversed(runs_with(log, CyclePlan)):
        try:
            if open_cycle(log, run).outcome is None:
                return run
        except LogDamaged:
            continue
    return None


def _from_saved(settings: Settings, log: SqliteLog, saved: Saved, tell: Tell, stamp: str) -> StartPlan:
    if saved.run is not None and saved.run in log.runs():
        journal = _reopen(settings, log, saved.run, tell, stamp)
        if journal is not None and journal.seq >= saved.seq and _unedited(settings, log, saved, journal):
            return StartPlan(StartMode.RESUME, resumed_plan(settings, journal.state.plan), journal)
        knows_more = journal is None or journal.seq < saved.seq
        why = "knows more than what is left of" if knows_more else "was edited: it says something else than"
        tell(f"the state file {why} the log of run {saved.run}; the file is believed")
    if not saved.prompt:
        given = given_prompt(settings)
        if given is None:
            raise StateError(f"{settings.state_path} holds no prompt, and none was given")
        return StartPlan(StartMode.IMPORT, make_plan(settings, given), saved=saved)
    return StartPlan(StartMode.IMPORT, make_plan(settings, saved.prompt), saved=saved)


def _reopen(settings: Settings, log: SqliteLog, run: RunId, tell: Tell, stamp: str) -> Journal[CycleState] | None:
    """The run in the log, without a tail that cannot be read; None when nothing is left of it."""
    try:
        return open_cycle(log, run)
    except LogDamaged as damage:
        without_tail(settings, log, damage, tell, stamp)
        return open_cycle(log, run) if damage.seq > 1 else None


def without_tail(settings: Settings, log: SqliteLog, damage: LogDamaged, tell: Tell, stamp: str) -> None:
    """Cut what cannot be read from a run, after a copy of the whole log was made."""
    copy = aside(settings.telos_dir / "logos.db", stamp)
    log.cut(RunId(damage.run), damage.seq, copy)
    tell(f"{damage}; the whole log is kept as {copy.name}, the run goes on from event {damage.seq - 1}")


def _unedited(settings: Settings, log: SqliteLog, saved: Saved, now: Journal[CycleState]) -> bool:
    """Whether the file is what Logos wrote at that event; a person's edit wins over the log."""
    then = now if now.seq == saved.seq else open_cycle(log, now.run, upto=saved.seq)
    wrote = project(then.state, then.ledger, then.run, saved.seq, "", "")
    return parse(wrote, settings.provider).seed == saved.seed and (
        parse(wrote, settings.provider).terminals == saved.terminals
    )


def _compare_prompts(settings: Settings, given: str | None, ours: str, tell: Tell, *, strict_prompt: bool) -> None:
    if given is None or given.strip() == ours.strip():
        return
    if strict_prompt and settings.resume is None:
        raise UsageError(
            "an unfinished run with another prompt is here: --resume goes on with it, --fresh starts the new prompt"
        )
    tell("warning: the given prompt differs from the unfinished run's; going on with the run's own prompt")
