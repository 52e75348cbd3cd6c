"""The state file of a build, .telos/state.json: ids and summaries; the log has the whole texts."""

from datetime import UTC, datetime
from functools import lru_cache
from types import SimpleNamespace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from logos.domain.ledger import Ledger
from logos.domain.levels import LEVELS, Level
from logos.domain.reports import Component
from logos.domain.specs import Handoff
from logos.domain.turns import AgentName, RunId
from logos.flows.levels.state import LevelsState, PendingTurn
from logos.views.document import LevelName, NonEmpty, shown

Json = dict[str, Any]

SUMMARY_CHARACTERS = 160
QUESTION_CHARACTERS = 2000


# The same summaries are written after every event.
@lru_cache(maxsize=4096)
def short(text: str, characters: int = SUMMARY_CHARACTERS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= characters else line[: characters - 1] + "…"


Summary = Annotated[str, BeforeValidator(short)]
SummaryOrNull = Annotated[str | None, BeforeValidator(lambda text: short(text) if text else None)]


class StateModel(BaseModel):
    """Takes its fields from the attributes of a record, or from a dict."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)


class ActiveAgent(StateModel):
    level: LevelName
    title: str
    turn: str
    component: NonEmpty
    attempt: int
    terminal: str | None
    provider: str | None
    asked: bool


class StoredSpec(StateModel):
    id: str
    level: LevelName
    version: int
    parent: str
    component: NonEmpty
    turn: str
    summary: Summary
    in_force: bool


class StoredHandoff(StateModel):
    from_level: LevelName
    to_level: LevelName
    toward: Literal["down", "back", "up"]
    turn: str
    summary: Summary = shown(source="text")


class LevelStanding(StateModel):
    level: LevelName
    title: str
    takes_part: bool
    status: Literal["skipped", "pending", "proven", "unproven", "passed", "failed"]


class StoredComponent(StateModel):
    name: str
    depends_on: list[str]
    commit: str | None
    merged: bool
    files: list[str]
    tests: list[str]
    blocked_by: list[str]


class ToolResult(StateModel):
    level: LevelName
    tool: str
    command: str
    exit_code: int


class Reconciliation(StateModel):
    id: str
    cause: Literal["failure", "conflict", "constraint", "loop", "rejected"]
    level: LevelName
    question: Summary
    decision: SummaryOrNull
    decided_by: NonEmpty = shown(source="by")
    rounds: int = shown(source="round")


class OpenQuestion(StateModel):
    id: str
    text: Annotated[str, BeforeValidator(lambda text: short(text, QUESTION_CHARACTERS))]
    options: list[Annotated[str, BeforeValidator(lambda option: short(option.summary))]]


class GateState(StateModel):
    id: str
    at: Literal["after_plan", "before_pass"]
    question: Annotated[str, BeforeValidator(lambda text: short(text, QUESTION_CHARACTERS))]


class LogMark(StateModel):
    run: str
    seq: int


class TelosState(StateModel):
    """A build's state file."""

    version: Literal[1] = 1
    updated_at: str
    logos: LogMark = shown("the run, and the last event of its log that changed this file")
    feature: str = shown(source="state.plan.feature")
    wd: str = shown(source="state.plan.wd")
    base: str = shown("the commit that all work started from", "state.plan.base")
    head: str = shown("the commit that holds what is merged", "state.head")
    status: Literal["RUNNING", "PASSED", "FAILED", "REJECTED", "BLOCKED", "ABANDONED"]
    verified: bool = shown("whether Logos itself ran tests of L2, and they passed", "state.verified")
    reason: Summary
    sweep: int = shown(source="state.sweep")
    direction: Literal["down", "build", "merge", "lint", "up", "prove", "reconcile"] = shown(source="state.stage")
    current_level: LevelName = shown(source="state.level")
    levels: list[LevelName] = shown(source="state.levels")
    skipped_levels: list[LevelName] = shown(source="state.skipped")
    active_agents: list[ActiveAgent]
    pending_handoffs: list[StoredHandoff]
    specification_stack: list[StoredSpec]
    handoff_lineage: list[StoredHandoff] = shown(source="state.handoffs")
    validation_status: list[LevelStanding]
    components: list[StoredComponent]
    tool_results: list[ToolResult] = shown(source="state.proofs")
    reconciliations: list[Reconciliation]
    handoff_loops: list[str] = shown("handoffs that repeat in this sweep", "state.loops")
    question: OpenQuestion | None = shown(source="state.question")
    gate: GateState | None = shown("the gate at which a person must approve or reject", "state.gate")
    violation: SummaryOrNull = shown(source="state.violation")
    alternatives: list[Summary] = shown(source="state.alternatives")


def project(state: LevelsState, ledger: Ledger, run: RunId, seq: int, at: float) -> Json:
    seen = SimpleNamespace(
        state=state,
        updated_at=datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        logos={"run": run, "seq": seq},
        status=state.outcome or "RUNNING",
        reason=state.stalled or state.reason,
        active_agents=[_active(ask, state, ledger) for ask in state.in_progress],
        pending_handoffs=_pending(state),
        specification_stack=_specs(state),
        validation_status=[_standing(state, level) for level in LEVELS],
        components=[_component(state, component) for component in state.components],
        reconciliations=(*state.settled, *((state.dispute,) if state.dispute else ())),
    )
    return TelosState.model_validate(seen).model_dump(mode="json")


def _active(ask: PendingTurn, state: LevelsState, ledger: Ledger) -> Json:
    terminal = ledger.terminals.get(AgentName(ask.key))
    return {
        "level": ask.level,
        "title": LEVELS[ask.level].title,
        "turn": ask.turn,
        "component": ask.component,
        "attempt": ask.attempt,
        "terminal": terminal.id if terminal else None,
        "provider": terminal.provider if terminal else None,
        "asked": ask.turn in state.started,
    }


def _pending(state: LevelsState) -> list[Handoff]:
    """Handoffs whose receiver has not finished its turn."""
    waiting = {ask.level for ask in state.pending_turns}
    latest = {(handoff.to_level, handoff.toward): handoff for handoff in state.handoffs}
    now = state.handoffs_now
    return [handoff for handoff in latest.values() if handoff.to_level in waiting and handoff in now]


def _specs(state: LevelsState) -> list[Json]:
    in_force = {(spec.level, spec.component): spec for spec in state.specs}
    return [
        {name: getattr(spec, name) for name in StoredSpec.model_fields if name != "in_force"}
        | {"in_force": in_force[spec.level, spec.component] is spec}
        for spec in state.specs
    ]


def _standing(state: LevelsState, level: Level) -> Json:
    part = level in state.levels
    status = state.standing.get(level) or ("pending" if part else "skipped")
    return {"level": level, "title": LEVELS[level].title, "takes_part": part, "status": status}


def built_component(state: LevelsState, component: Component) -> Json:
    """A component, and what was built of it."""
    built = state.contributions.get(component.name)
    done: Json = {"commit": None, "merged": False, "files": (), "tests": ()}
    if built is not None:
        done = {name: getattr(built, name) for name in done}
    return {"name": component.name, "depends_on": component.depends_on, **done}


def _component(state: LevelsState, component: Component) -> Json:
    missing = [name for name in component.depends_on if name not in state.contributions]
    blocked_by = [] if component.name in state.contributions else missing
    return {**built_component(state, component), "blocked_by": blocked_by}
