"""Down: each level's spec constrains the next; a level may hand work back a limited number of times."""

from logos.domain.levels import Level, below
from logos.domain.records import replace
from logos.domain.reports import ActionKind, Report, Verdict
from logos.domain.specs import Direction
from logos.domain.turns import Outcome
from logos.flows.levels import gating
from logos.flows.levels.briefing import handed
from logos.flows.levels.components import in_order
from logos.flows.levels.reconcile import Cause
from logos.flows.levels.state import LevelsState, PendingTurn

# The same handoff this often is a loop, and so is this number of hand-backs in a sweep.
SAME_HANDOFFS = 3
HAND_BACKS = 6


def decomposed(state: LevelsState, pending: PendingTurn, report: Report) -> LevelsState:
    if report.verdict is Verdict.MISALIGNED:
        told = replace(state, violation=report.violation, alternatives=report.alternatives)
        return replace(told, outcome=Outcome.REJECTED, reason=report.violation)
    if report.next.step is ActionKind.HAND_BACK and report.next.to is not None:
        return _handed_back(state, pending, report, report.next.to)
    state = state.specified(pending.level, pending.turn, report)
    if pending.level is Level.L3:
        state = replace(state, components=in_order(report.components))
    lower = below(pending.level, state.levels)
    if lower is not None:
        state = state.hand_off(pending.level, lower, Direction.DOWN, pending.turn, handed(report))
    return gating.planned(state, lower)


def _handed_back(state: LevelsState, pending: PendingTurn, report: Report, to: Level) -> LevelsState:
    state = state.hand_off(pending.level, to, Direction.BACK, pending.turn, handed(report))
    pattern = state.handoffs[-1].pattern
    if state.loops.count(pattern) < SAME_HANDOFFS and len(state.loops) < HAND_BACKS:
        return state.down_to(to)
    often = ", ".join(f"{name} {state.loops.count(name)} times" for name in dict.fromkeys(state.loops))
    question = f"handoff loop ({often}); the last one, {pattern}, says: {handed(report)}"
    return state.dispute_over(Cause.LOOP, to, question, others=(pending.level,))
