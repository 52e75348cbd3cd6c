"""After every level has passed: the merged work is proven in clean rooms, as the result of a cycle is."""

from collections.abc import Iterator

from logos.domain.events import ProofRan
from logos.domain.gates import GateKind
from logos.domain.levels import Level
from logos.domain.records import replace
from logos.domain.turns import Action, Compare, Outcome, TurnId
from logos.flows.levels import gating
from logos.flows.levels.reconcile import Cause
from logos.flows.levels.state import LevelsState, Stage
from logos.flows.proof.declared import declared_in, excused, unrelated_in
from logos.flows.proof.verdict import ProofProgress, action_for, in_words, judged

# The levels whose specs may declare that tests must change.
_DECLARING = (Level.L3, Level.L2)


def passed(state: LevelsState, reason: str) -> LevelsState:
    """Every level is satisfied: prove it, where there is a baseline to compare with."""
    if state.plan.proof is None or state.baseline is None:
        return gating.passed(state, reason)
    return replace(state, satisfied=reason, proof=None).enter_stage(Stage.PROVE, max(state.levels))


def due(state: LevelsState) -> Action:
    if state.approved or state.proof is None or state.baseline is None or state.plan.proof is None:
        return Compare(_compare_id(state))
    return action_for(state.proof, state.baseline, state.plan.proof, f"s{state.sweep}")


def compared(state: LevelsState, turn: TurnId, files: tuple[str, ...] | None, commit: str) -> LevelsState:
    if turn != _compare_id(state):
        return state
    if state.approved:
        # What is merged is a commit: nobody has changed it meanwhile.
        return replace(state, outcome=Outcome.PASSED, reason=state.passing)
    if state.proof is not None:
        return state
    return replace(state, proof=_new_proof(state, commit, files))


def proven(state: LevelsState, ran: ProofRan) -> LevelsState:
    rules, baseline, progress = state.plan.proof, state.baseline, state.proof
    if rules is None or baseline is None or progress is None or ran.turn != due(state).id:
        return state
    judgement = judged(progress, ran, baseline, rules)
    if judgement.pause:
        return replace(state, stalled=judgement.pause)
    state = replace(state, proof=judgement.progress)
    if judgement.failure:
        question, _, evidence = judgement.failure.partition("\n")
        return state.dispute_over(Cause.FAILURE, Level.L2, f"the proof fails: {question}", evidence=evidence)
    if judgement.progress.step is not None:
        return state
    words = in_words(judgement.progress, baseline)
    return gating.passed(state, f"{state.satisfied}; Logos has proven it: {words}")


def resumed(state: LevelsState, before: LevelsState) -> LevelsState:
    """With other rules, the steps that ran prove nothing, and nobody has approved what they will find."""
    if state.plan.proof == before.plan.proof:
        return state
    gate = state.gates.reached
    proven = state.stage is Stage.PROVE and (state.approved or (gate is not None and gate.at is GateKind.BEFORE_PASS))
    state = replace(state, gates=state.gates.left, approved=False, passing="") if proven else state
    return replace(state, proof=None)


def _compare_id(state: LevelsState) -> TurnId:
    approvals = state.gates.count(f"s{state.sweep}", GateKind.BEFORE_PASS) if state.approved else 0
    return TurnId(f"s{state.sweep}.changes{f'.{approvals + 1}' if approvals else ''}")


def _new_proof(state: LevelsState, commit: str, files: tuple[str, ...] | None) -> ProofProgress:
    """Guarded paths may change if a person allowed them, or the newest spec of a level gives the reason.

    So may tests that failed before the build go on failing.
    """
    rules, before = state.plan.proof, state.baseline.tests if state.baseline is not None else None
    texts = tuple(_declaring_texts(state))
    allowed = rules.may_change if rules is not None else ()
    declared = (*allowed, *(f"/{declared.path}" for text in texts for declared in declared_in(text)))
    if rules is None or before is None or not rules.unrelated_declared:
        return ProofProgress(commit, files, declared)
    unrelated = excused(before.failed, (one for text in texts for one in unrelated_in(text)))
    return ProofProgress(commit, files, declared, unrelated=unrelated)


def _declaring_texts(state: LevelsState) -> Iterator[str]:
    names = ("", *(component.name for component in state.components))
    specs = (state.spec_of(level, name) for level in _DECLARING for name in names)
    yield from (f"{section.name}:\n{section.text}" for spec in specs if spec is not None for section in spec.sections)
