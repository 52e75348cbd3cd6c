"""The state file of a build, .telos/state.json: ids and summaries; the log has the whole texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, ParamSpec

from pydantic import BaseModel, ConfigDict, Field

from logos.domain.ledger import Ledger
from logos.domain.levels import LEVELS, Level
from logos.domain.reports import Component
from logos.domain.specs import Handoff, Spec
from logos.domain.turns import AgentName, RunId
from logos.flows.levels.components import Contribution
from logos.flows.levels.state import LevelsState, PendingTurn

Json = dict[str, Any]

SUMMARY_CHARACTERS = 160


class StateModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ActiveAgent(StateModel):
    level: str
    title: str
    turn: str
    component: str | None
    attempt: int
    terminal: str | None
    provider: str | None
    asked: bool


class StoredSpec(StateModel):
    id: str
    level: str
    version: int
    parent: str
    component: str | None
    turn: str
    summary: str
    in_force: bool


class StoredHandoff(StateModel):
    from_level: str
    to_level: str
    toward: Literal["down", "back", "up"]
    turn: str
    summary: str


class LevelStanding(StateModel):
    level: str
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
    level: str
    tool: str
    command: str
    exit_code: int


class Reconciliation(StateModel):
    id: str
    cause: Literal["failure", "conflict", "constraint", "loop"]
    level: str
    question: str
    decision: str | None
    decided_by: str | None
    rounds: int


class OpenQuestion(StateModel):
    id: str
    text: str
    options: list[str]


class LogMark(StateModel):
    run: str
    seq: int


class TelosState(StateModel):
    """A build's state file."""

    version: Literal[1] = 1
    updated_at: str
    logos: LogMark = Field(description="the run, and the last event of its log that changed this file")
    feature: str
    wd: str
    base: str = Field(description="the commit that all work started from")
    head: str = Field(description="the commit that holds what is merged")
    status: Literal["RUNNING", "PASSED", "FAILED", "REJECTED", "BLOCKED", "ABANDONED"]
    reason: str
    sweep: int
    direction: Literal["down", "build", "merge", "lint", "up", "reconcile"]
    current_level: str
    levels: list[str]
    skipped_levels: list[str]
    active_agents: list[ActiveAgent]
    pending_handoffs: list[StoredHandoff]
    specification_stack: list[StoredSpec]
    handoff_lineage: list[StoredHandoff]
    validation_status: list[LevelStanding]
    components: list[StoredComponent]
    tool_results: list[ToolResult]
    reconciliations: list[Reconciliation]
    handoff_loops: list[str] = Field(description="handoffs that repeat in this sweep")
    question: OpenQuestion | None
    violation: str | None
    alternatives: list[str]


Parts = ParamSpec("Parts")


def once_for(make: Callable[Parts, list[Json]]) -> Callable[Parts, list[Json]]:
    """Cache the rows for the newest arguments: most events change little of the state."""
    newest: tuple[tuple[object, ...], list[Json]] = ((), [])

    def made(*values: Parts.args, **named: Parts.kwargs) -> list[Json]:
        nonlocal newest
        known, rows = newest
        if len(known) != len(values) or any(one is not other for one, other in zip(known, values, strict=True)):
            rows = make(*values, **named)
            newest = (values, rows)
        return rows

    return made


def state_schema() -> dict[str, Any]:
    schema = TelosState.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Logos build state"
    return schema


def project(state: LevelsState, ledger: Ledger, run: RunId, seq: int, at: float) -> Json:
    """The state as the file shows it."""
    plan = state.plan
    return {
        "version": 1,
        "updated_at": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "logos": {"run": run, "seq": seq},
        "feature": plan.feature,
        "wd": plan.wd,
        "base": plan.base,
        "head": state.head,
        "status": state.outcome.value if state.outcome is not None else "RUNNING",
        "reason": short(state.stalled or state.reason),
        "sweep": state.sweep,
        "direction": state.stage.value,
        "current_level": state.level.name,
        "levels": [level.name for level in state.levels],
        "skipped_levels": [level.name for level in state.skipped],
        "active_agents": [_active(ask, state, ledger) for ask in state.in_progress],
        "pending_handoffs": _pending(state),
        "specification_stack": _specs(state.specs),
        "handoff_lineage": _handoffs(state.handoffs),
        "validation_status": [_standing(state, level) for level in LEVELS],
        "components": _components(state.components, state.contributions),
        "tool_results": [
            {"level": proof.level.name, "tool": proof.tool, "command": proof.command, "exit_code": proof.exit_code}
            for proof in state.proofs
        ],
        "reconciliations": _reconciliations(state),
        "handoff_loops": list(state.loops),
        "question": None
        if state.question is None
        else {
            "id": state.question.id,
            "text": short(state.question.text, 2000),
            "options": [short(option.summary) for option in state.question.options],
        },
        "violation": short(state.violation) or None,
        "alternatives": [short(text) for text in state.alternatives],
    }


def short(text: str, characters: int = SUMMARY_CHARACTERS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= characters else line[: characters - 1] + "…"


def _active(ask: PendingTurn, state: LevelsState, ledger: Ledger) -> Json:
    terminal = ledger.terminals.get(AgentName(ask.key))
    return {
        "level": ask.level.name,
        "title": LEVELS[ask.level].title,
        "turn": ask.turn,
        "component": ask.component or None,
        "attempt": ask.attempt,
        "terminal": terminal.id if terminal else None,
        "provider": terminal.provider if terminal else None,
        "asked": ask.turn in state.started,
    }


@once_for
def _handoffs(handoffs: tuple[Handoff, ...]) -> list[Json]:
    return [
        {
            "from_level": handoff.from_level.name,
            "to_level": handoff.to_level.name,
            "toward": handoff.toward.value,
            "turn": handoff.turn,
            "summary": short(handoff.text),
        }
        for handoff in handoffs
    ]


def _pending(state: LevelsState) -> list[Json]:
    """Handoffs whose receiver has not finished its turn."""
    waiting = {ask.level.name for ask in state.pending_turns}
    latest = {(handoff["to_level"], handoff["toward"]): handoff for handoff in _handoffs(state.handoffs)}
    now = f"s{state.sweep}."
    return [
        handoff for handoff in latest.values() if handoff["to_level"] in waiting and handoff["turn"].startswith(now)
    ]


@once_for
def _specs(specs: tuple[Spec, ...]) -> list[Json]:
    in_force = {(spec.level, spec.component): spec for spec in specs}
    return [
        {
            "id": spec.id,
            "level": spec.level.name,
            "version": spec.version,
            "parent": spec.parent,
            "component": spec.component or None,
            "turn": spec.turn,
            "summary": short(spec.summary),
            "in_force": in_force[spec.level, spec.component] is spec,
        }
        for spec in specs
    ]


def _standing(state: LevelsState, level: Level) -> Json:
    known = state.standing.get(level)
    part = level in state.levels
    status = known.value if known is not None else "pending" if part else "skipped"
    return {"level": level.name, "title": LEVELS[level].title, "takes_part": part, "status": status}


@once_for
def _components(components: tuple[Component, ...], contributions: Mapping[str, Contribution]) -> list[Json]:
    shown: list[Json] = []
    for component in components:
        contribution = contributions.get(component.name)
        done = {name for name in component.depends_on if name in contributions}
        shown.append(
            {
                "name": component.name,
                "depends_on": list(component.depends_on),
                "commit": contribution.commit if contribution else None,
                "merged": contribution.merged if contribution else False,
                "files": list(contribution.files) if contribution else [],
                "tests": list(contribution.tests) if contribution else [],
                "blocked_by": [] if contribution else [name for name in component.depends_on if name not in done],
            }
        )
    return shown


def _reconciliations(state: LevelsState) -> list[Json]:
    ended = [
        {
            "id": settled.id,
            "cause": settled.cause.value,
            "level": settled.level.name,
            "question": short(settled.question),
            "decision": short(settled.proposal.summary),
            "decided_by": settled.by,
            "rounds": settled.round,
        }
        for settled in state.settled
    ]
    now = state.dispute
    if now is None:
        return ended
    going_on = {
        "id": now.id,
        "cause": now.cause.value,
        "level": now.level.name,
        "question": short(now.question),
        "decision": None,
        "decided_by": None,
        "rounds": now.round,
    }
    return [*ended, going_on]
