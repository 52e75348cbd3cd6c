"""The steps that the stages share: ask a level, store a spec, hand off, enter a stage, block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from logos.domain.levels import Level, above
from logos.domain.reports import Report, TurnKind
from logos.domain.specs import Direction, Handoff, Question, Spec
from logos.domain.turns import Outcome, TurnId
from logos.flows.levels.reconcile import Cause, Dispute, participants
from logos.flows.levels.state import LevelsState, PendingTurn, Stage

Value = TypeVar("Value")
Key = TypeVar("Key", str, Level)


def with_item(table: Mapping[Key, Value], key: Key, value: Value) -> Mapping[Key, Value]:
    return MappingProxyType({**table, key: value})


def enter_stage(state: LevelsState, stage: Stage, level: Level) -> LevelsState:
    """Switch to a stage; the flow enters it next."""
    return replace(state, stage=stage, level=level, pending_turns=(), entering=True)


def down_to(state: LevelsState, level: Level | None) -> LevelsState:
    """Go down to the next level that writes a spec; below the last one the build stage starts."""
    if level is None or level < Level.L3:
        return enter_stage(state, Stage.BUILD, Level.L2)
    return enter_stage(state, Stage.DOWN, level)


def ask_for(state: LevelsState, level: Level, kind: TurnKind, component: str = "") -> LevelsState:
    """Ask a level; the same question again in a sweep goes to a new agent under a new turn id."""
    key = ".".join(part for part in (f"s{state.sweep}", level.name, component, kind.value) if part)
    visit = state.visits.get(key, 0) + 1
    pending = PendingTurn(key if visit == 1 else f"{key}.v{visit}", level, kind, component)
    return replace(state, visits=with_item(state.visits, key, visit), pending_turns=(*state.pending_turns, pending))


def specified(state: LevelsState, level: Level, turn: TurnId, report: Report, component: str = "") -> LevelsState:
    """Store a level's new spec, linked to the spec above it."""
    higher = above(level, state.levels)
    over = state.spec_of(higher) if higher is not None else None
    held = state.spec_of(level, component)
    version = held.version + 1 if held is not None else 1
    parent = over.id if over is not None else "telos"
    spec = Spec(level, version, turn, parent, report.work_summary, report.spec, component)
    return replace(state, specs=(*state.specs, spec))


def hand_off(state: LevelsState, giver: Level, taker: Level, toward: Direction, turn: TurnId, text: str) -> LevelsState:
    return replace(state, handoffs=(*state.handoffs, Handoff(giver, taker, toward, turn, text)))


def dispute_over(
    state: LevelsState,
    cause: Cause,
    level: Level,
    question: str,
    *,
    evidence: str = "",
    others: Iterable[Level] = (),
    parties: tuple[str, ...] = (),
) -> LevelsState:
    """Open a reconciliation, or fail when there were too many."""
    if len(state.settled) >= state.plan.max_reconciliations:
        reason = f"after {len(state.settled)} reconciliations: {question}"
        return replace(state, pending_turns=(), outcome=Outcome.FAILED, reason=reason)
    number = f"s{state.sweep}.q{len(state.settled) + 1}"
    invited = participants(cause, level, others, state.levels)
    dispute = Dispute(number, cause, level, invited, question, evidence, parties)
    return enter_stage(replace(state, dispute=dispute), Stage.DISPUTE, level)


def blocked(state: LevelsState, question: Question) -> LevelsState:
    return replace(state, question=question, pending_turns=(), outcome=Outcome.BLOCKED, reason=question.text)


def blocked_by_stuck(state: LevelsState) -> LevelsState:
    """Block on a person's answer once the other agents have finished."""
    if state.pending_turns or state.answered or not state.stuck:
        return state
    names = sorted(state.stuck)
    text = "\n".join(state.stuck[name] for name in names)
    return blocked(state, Question("+".join(_asked_as(state, name) for name in names), text))


def _asked_as(state: LevelsState, name: str) -> str:
    """The turn in which an agent got stuck; components are stored by name only."""
    key = f"s{state.sweep}.{Level.L2.name}.{name}.{TurnKind.AUTHOR.value}"
    visit = state.visits.get(key, 0)
    return name if not visit else key if visit == 1 else f"{key}.v{visit}"
