"""What a proof of a cycle is about, and what the approved analysis declares about its tests."""

from logos.domain.proof import AcceptanceTests
from logos.domain.roles import Role
from logos.flows.cycle.state import CycleState
from logos.flows.proof.declared import declared_in, excused, unrelated_in
from logos.flows.proof.verdict import ProofProgress, listed, may_fail


def new_proof(state: CycleState, commit: str, files: tuple[str, ...] | None) -> ProofProgress:
    """Guarded paths may change if a person allowed them, or the approved analysis gives the reason.

    So may tests that failed before the run go on failing.
    """
    allowed = state.plan.proof.may_change if state.plan.proof is not None else ()
    # With a slash in front, a name means that one file, not every file of the name.
    declared = (*allowed, *(f"/{one.path}" for one in declared_in(_approved_analysis(state))))
    return ProofProgress(commit, files, declared, unrelated=_unrelated(state), acceptance=_acceptance(state))


def _acceptance(state: CycleState) -> AcceptanceTests | None:
    return state.blind.tests if state.blind is not None and state.blind.before is not None else None


def _approved_analysis(state: CycleState) -> str:
    return state.said(Role.ANALYST) if state.analysis_approved else ""


def _unrelated(state: CycleState) -> tuple[str, ...]:
    if state.plan.proof is None or not state.plan.proof.unrelated_declared:
        return ()
    return excused(_failed_before(state), unrelated_in(_approved_analysis(state)))


def _failed_before(state: CycleState) -> tuple[str, ...]:
    """The tests that failed before the run."""
    tests = state.baseline.tests if state.baseline is not None else None
    return tests.failed if tests is not None else ()


def failing_in_words(state: CycleState) -> str:
    """The tests that failed before the run, for those who may declare them unrelated."""
    rules = state.plan.proof
    return listed(_failed_before(state)) if rules is not None and rules.unrelated_declared else ""


def may_fail_in_words(state: CycleState) -> str:
    rules, baseline = state.plan.proof, state.baseline
    return listed(may_fail(baseline, rules, _unrelated(state))) if rules is not None and baseline is not None else ""
