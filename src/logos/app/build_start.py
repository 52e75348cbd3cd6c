"""How a build begins: fresh, or where the unfinished one stands. Decided before anything is touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from logos.adapters.reports import read_report
from logos.adapters.store.sqlite import SqliteLog
from logos.app.run_start import without_tail
from logos.app.runs import open_levels, runs_with
from logos.app.settings import Settings
from logos.app.telos_file import Telos
from logos.domain.events import RunResumed, RunStarted
from logos.domain.plans import CURRENT_RULES, LevelsPlan
from logos.domain.turns import Outcome, RunId
from logos.engine.journal import Journal
from logos.engine.runner import new_run_id
from logos.errors import LogDamaged, StateError, UsageError
from logos.flows.fold import RunFold
from logos.flows.levels.flow import Levels
from logos.flows.levels.state import LevelsState
from logos.ports import Log

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BuildStartPlan:
    run: RunId
    plan: LevelsPlan
    journal: Journal[LevelsState] | None = None

    def first_event(self, log: Log) -> tuple[Journal[LevelsState], RunStarted | RunResumed]:
        """The journal of the build, and the event with which this driver begins."""
        if self.journal is not None:
            return self.journal, RunResumed(self.plan)
        return Journal(log, RunFold(self.run, Levels(self.plan, read_report))), RunStarted(self.plan)


def plan_build(settings: Settings, feature: str, telos: Telos, base: str) -> LevelsPlan:
    levels, build = settings.levels_taking_part(), settings.build
    return LevelsPlan(
        feature=feature,
        wd=str(settings.work_dir),
        base=base,
        telos=telos.hierarchy,
        agents=settings.level_agent_config(),
        levels=levels,
        tools=telos.tools,
        max_parallel=build.max_parallel,
        max_reconciliations=build.max_reconciliations,
        max_rounds=build.max_rounds,
        rules=CURRENT_RULES,
    )


def choose_build_start(
    settings: Settings, feature: str, telos: Telos, log: SqliteLog, tell: Tell, stamp: str, base: Callable[[], str]
) -> BuildStartPlan:
    """`base` says which commit a new build starts from; it is asked only when one begins."""
    journal = None if settings.resume is False else newest_build(settings, log, tell, stamp)
    if journal is not None and _goes_on(settings, feature, journal):
        old = journal.state.plan
        plan = plan_build(settings, old.feature, telos, old.base)
        kept = {"max_parallel", "max_reconciliations", "max_rounds"} - settings.build.model_fields_set | {"rules"}
        return BuildStartPlan(journal.run, replace(plan, **{own: getattr(old, own) for own in kept}), journal)
    if not feature.strip():
        raise UsageError('say what is to be built: logos build "what is wanted, in plain words"')
    return BuildStartPlan(new_run_id(), plan_build(settings, feature, telos, base()))


def newest_build(settings: Settings, log: SqliteLog, tell: Tell, stamp: str) -> Journal[LevelsState] | None:
    runs = runs_with(log, LevelsPlan)
    if not runs:
        return None
    try:
        return open_levels(log, runs[-1])
    except LogDamaged as damage:
        without_tail(settings, log, damage, tell, stamp)
        return open_levels(log, runs[-1])


def _goes_on(settings: Settings, feature: str, journal: Journal[LevelsState]) -> bool:
    state, same = journal.state, not feature.strip() or feature.strip() == journal.state.plan.feature.strip()
    if state.outcome is not None and not journal.ended and (settings.resume or same):
        # Killed between the last answer and the last word.
        return True
    if settings.resume and state.outcome not in (None, Outcome.BLOCKED) and _left_something(settings, journal):
        return True
    if state.outcome is Outcome.BLOCKED and (settings.resume or same):
        raise StateError(
            f"build {journal.run} waits for a decision of yours; `logos resolve` shows it and takes it, "
            "--fresh begins a new build"
        )
    if state.outcome is not None:
        if settings.resume:
            raise StateError(f"build {journal.run} has ended ({state.outcome}); there is no unfinished one")
        return False
    if settings.resume or same:
        return True
    raise UsageError(
        f"an unfinished build of something else is here ({journal.run}: {_first_line(state.plan.feature)!r}): "
        "--resume goes on with it, --fresh begins the new one"
    )


def _left_something(settings: Settings, journal: Journal[LevelsState]) -> bool:
    """Killed after the last word: its terminals or its places are still there."""
    return bool(journal.ledger.terminals) or (settings.telos_dir / "worktrees" / journal.run).exists()


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0]
    return line if len(line) <= 60 else line[:57] + "..."
