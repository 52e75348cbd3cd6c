"""The gates of a build: a person approves the plan before the authors begin, and the result before it passes."""

from logos.domain.gates import GateKind
from logos.domain.levels import Level, below
from logos.domain.records import replace
from logos.domain.turns import Outcome
from logos.flows.levels.state import LevelsState


def planned(state: LevelsState, lower: Level | None) -> LevelsState:
    """A level's spec is accepted. Where it is the last before the authors, a person may have to approve the plan."""
    writes_spec = lower is not None and lower >= Level.L3
    if writes_spec:
        return state.down_to(lower)
    if GateKind.AFTER_PLAN not in state.plan.gates:
        return go_on(state, GateKind.AFTER_PLAN)
    return _at_gate(state, GateKind.AFTER_PLAN, _plan_in_question(state))


def passed(state: LevelsState, reason: str) -> LevelsState:
    """Nothing is left to be done; a person may have to approve the result."""
    if GateKind.BEFORE_PASS not in state.plan.gates:
        return replace(state, outcome=Outcome.PASSED, reason=reason)
    question = f"The result of sweep {state.sweep} is ready: {reason}. Is it what you want?"
    return _at_gate(replace(state, passing=reason), GateKind.BEFORE_PASS, question)


def go_on(state: LevelsState, at: GateKind) -> LevelsState:
    """The gate is behind the build. The driver ends it: a decision can come while there is none."""
    state = replace(state, gates=state.gates.left, rejected="")
    if at is GateKind.BEFORE_PASS:
        return replace(state, approved=True)
    return state.down_to(below(state.level, state.levels))


def _at_gate(state: LevelsState, at: GateKind, question: str) -> LevelsState:
    return replace(state, gates=state.gates.reach(f"s{state.sweep}", at, question), pending_turns=())


def _plan_in_question(state: LevelsState) -> str:
    names = ", ".join(own.name for own in state.components)
    parts = f" It has the components {names}." if names else ""
    spec = state.spec_of(state.level)
    told = f" ({spec.turn})" if spec is not None else ""
    return f"The specs are written down to {state.level.name}{told}.{parts} May the authors begin?"
