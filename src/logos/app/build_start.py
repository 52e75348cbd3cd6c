"""How a build starts: fresh, or by resuming the unfinished one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from logos.adapters.reports import read_report
from logos.adapters.store.sqlite import SqliteLog
from logos.app.hosts import session_in
from logos.app.run_start import cut_damage
from logos.app.runs import levels_journal, newest_run, reload_run
from logos.app.settings import Settings
from logos.app.telos_file import Telos
from logos.app.workdir import Tell, wd_flag
from logos.domain.events import RunResumed, RunStarted
from logos.domain.plans import CURRENT_RULES, LevelsPlan
from logos.domain.turns import Outcome, RunId
from logos.engine.journal import Journal
from logos.engine.runner import new_run_id
from logos.errors import StateError, UsageError
from logos.flows.fold import RunFold
from logos.flows.levels.flow import Levels
from logos.flows.levels.state import LevelsState
from logos.ports import Log
from logos.views.run import RunView
from logos.views.text import first_line


@dataclass(frozen=True, slots=True)
class BuildStartPlan:
    """How a driver starts a build; `session` is the host's session of the build that it continues."""

    run: RunId
    plan: LevelsPlan
    journal: Journal[LevelsState] | None = None
    session: str = ""

    def first_event(self, log: Log) -> tuple[Journal[LevelsState], RunStarted | RunResumed]:
        """The journal of the build, and this driver's first event."""
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
    settings: Settings,
    feature: str,
    telos: Telos,
    log: SqliteLog,
    tell: Tell,
    stamp: str,
    base: Callable[[], str],
    known: RunView | None = None,
) -> BuildStartPlan:
    """Decide how to start, before anything is changed.

    `base` finds the commit that a new build starts from; `known` is the newest build, where it is loaded already.
    """
    view = None
    if settings.resume is not False:
        view = reload_run(log, known.run, known) if known is not None else newest_run(log, LevelsPlan)
    if view is not None:
        cut_damage(settings, log, view, tell, stamp)
        journal = levels_journal(log, view)
        if _continues(settings, feature, journal):
            old = journal.state.plan
            plan = plan_build(settings, old.feature, telos, old.base)
            kept = {"max_parallel", "max_reconciliations", "max_rounds"} - settings.build.model_fields_set | {"rules"}
            plan = replace(plan, **{name: getattr(old, name) for name in kept})
            return BuildStartPlan(journal.run, plan, journal, session_in(view.records))
    if not feature.strip():
        raise UsageError('describe what to build: logos build "the feature in plain words"')
    return BuildStartPlan(new_run_id(), plan_build(settings, feature, telos, base()))


def _continues(settings: Settings, feature: str, journal: Journal[LevelsState]) -> bool:
    state, same = journal.state, not feature.strip() or feature.strip() == journal.state.plan.feature.strip()
    if state.outcome is not None and not journal.ended and (settings.resume or same):
        # The driver was killed between the last answer and the last event.
        return True
    if settings.resume and state.outcome not in (None, Outcome.BLOCKED) and _needs_cleanup(settings, journal):
        return True
    if state.outcome is Outcome.BLOCKED and (settings.resume or same):
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


def _needs_cleanup(settings: Settings, journal: Journal[LevelsState]) -> bool:
    """Whether the driver was killed after the last event: terminals or worktrees of the build still exist."""
    return bool(journal.ledger.terminals) or (settings.paths.worktrees / journal.run).exists()
