"""The cycle and its proof: what follows the tester's PASS, and agents that leave their role."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from logos.domain.events import ProofRan, RunResumed, TurnAnswered, TurnAsked, WorkCompared, WorkUndone
from logos.domain.plans import CyclePlan, ReviewRules
from logos.domain.proof import CountedTests, ProofRules, ProofStep
from logos.domain.turns import AgentName, Compare, Outcome, Prove, TurnId
from logos.flows.cycle.briefing import ASKED_AGAIN
from logos.flows.cycle.flow import Cycle
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, PASS, REVISE
from tests.builders import BASELINE, Driven, a_quick_plan, drive_purely, proves
from tests.unit.test_cycle_flow import due_turn, says

CHANGED = ("shop.py", "tests/test_new.py")
DECLARING = f"{GOOD_ANALYSIS}\nTests that must change:\n- tests/test_new.py: it asserts the old price\n"


def a_proven_plan(*, rules: ProofRules | None = None, **changes: Any) -> CyclePlan:
    return a_quick_plan(proof=rules or ProofRules("pytest"), test_command="pytest", verify_pass=True, **changes)


def steps_of(driven: Driven) -> list[ProofStep]:
    return [event.step for event in driven.events if isinstance(event, ProofRan)][1:]


def driven(*, prove: Any = proves, plan: CyclePlan | None = None, **said: Any) -> Driven:
    flow = Cycle(plan or a_proven_plan(max_rounds=2))
    return drive_purely(flow, says(**said), changed=lambda _turn: CHANGED, prove=prove, before=[BASELINE])


def test_a_pass_is_proven_step_by_step() -> None:
    done = driven()
    assert steps_of(done) == [ProofStep.RESULT, ProofStep.GUARDED, ProofStep.CANARY, ProofStep.RED]
    assert (done.state.outcome, done.state.verified) == (Outcome.PASSED, True)
    assert "Logos has proven it" in done.state.reason


def test_an_honest_run_asks_no_turn_more_than_without_a_proof() -> None:
    assert driven().asked == drive_purely(Cycle(a_quick_plan()), says()).asked


def test_a_fail_is_not_proven() -> None:
    assert steps_of(driven(tester=FAIL)) == []


@pytest.mark.parametrize("step", [ProofStep.RESULT, ProofStep.GUARDED])
def test_a_step_that_fails_goes_back_to_the_programmer_with_its_evidence(step: ProofStep) -> None:
    def prove(action: Prove) -> ProofRan:
        cheats = action.step is step and action.id.startswith("r1.")
        return proves(action, failed=("test_old.py::test_cheated",) if cheats else ())

    done = driven(prove=prove)
    assert done.asked[5:] == ["r2.programmer.c1", "r2.peer_programmer.c1", "r2.tester.c1"]
    assert done.state.outcome is Outcome.PASSED
    second = drive_purely(
        Cycle(a_proven_plan()),
        says(),
        changed=lambda _turn: CHANGED,
        prove=prove,
        before=[BASELINE],
        until=lambda state: state.round == 2,
    )
    assert "test_cheated" in second.state.feedback
    assert second.state.feedback.startswith("RESULT: FAIL")


def test_without_a_baseline_the_command_is_run_in_the_work_tree() -> None:
    done = drive_purely(Cycle(a_proven_plan()), says(), lambda _check: 0)
    assert [check.turn for check in done.checks] == ["r1.verify"]


def test_a_work_tree_that_cannot_be_stored_pauses_and_is_compared_again() -> None:
    flow = Cycle(a_proven_plan())
    waiting = drive_purely(flow, says(), before=[BASELINE], until=lambda state: state.comparing)
    paused = flow.apply(waiting.state, WorkCompared(TurnId("r1.changes"), None, ""))
    assert "nothing can be proven" in str(paused.stalled)
    assert flow.due(paused) == ()
    assert flow.due(flow.apply(paused, RunResumed(flow.plan))) == (Compare(TurnId("r1.changes")),)


# --- resumed in the middle of a proof


def resumed_at(step: ProofStep, plan: CyclePlan, commit: str) -> Driven:
    flow = Cycle(a_proven_plan())
    cut = drive_purely(
        flow,
        says(),
        changed=lambda _turn: CHANGED,
        before=[BASELINE],
        until=lambda state: state.proof is not None and state.proof.step is step,
    )
    again = [RunResumed(plan), WorkCompared(TurnId("r1.changes"), CHANGED, commit)]
    return drive_purely(flow, says(), changed=lambda _turn: CHANGED, before=[*cut.events, *again])


def test_steps_that_ran_are_not_repeated_by_a_new_driver() -> None:
    done = resumed_at(ProofStep.CANARY, a_proven_plan(), "c0ffee1")
    assert steps_of(done) == [ProofStep.RESULT, ProofStep.GUARDED, ProofStep.CANARY, ProofStep.RED]


@pytest.mark.parametrize(
    ("plan", "commit"),
    [(a_proven_plan(), "c0ffee2"), (a_quick_plan(proof=ProofRules("pytest", setup="make deps")), "c0ffee1")],
    ids=["other files", "other rules"],
)
def test_other_files_or_rules_are_proven_anew(plan: CyclePlan, commit: str) -> None:
    done = resumed_at(ProofStep.CANARY, plan, commit)
    assert steps_of(done)[2:] == [ProofStep.RESULT, ProofStep.GUARDED, ProofStep.CANARY, ProofStep.RED]


# --- declared changes


def declared(**said: Any) -> tuple[str, ...]:
    flow = Cycle(a_proven_plan(review=said.pop("review", a_quick_plan().review)))
    done = drive_purely(
        flow,
        says(**said),
        changed=lambda _turn: CHANGED,
        before=[BASELINE],
        until=lambda state: state.proof is not None,
    )
    assert done.state.proof is not None
    return done.state.proof.declared


def test_an_approved_analysis_declares_which_tests_change() -> None:
    assert declared(analyst=DECLARING) == ("/tests/test_new.py",)


def test_an_analysis_that_nobody_approved_declares_nothing() -> None:
    assert declared(analyst=DECLARING, analyst_review=REVISE, review=ReviewRules(max_cycles=1)) == ()


def test_the_programmer_declares_nothing() -> None:
    assert declared(programmer=DECLARING) == ()


def unrelated(**said: Any) -> tuple[str, ...]:
    """The tests that may go on failing; two failed before the run."""
    flow = Cycle(a_proven_plan(review=said.pop("review", a_quick_plan().review), rules=said.pop("rules", RULES)))
    red = replace(BASELINE, exit_code=1, tests=CountedTests("pytest", ("t.py::ok",), ("t.py::old", "t.py::other")))
    done = drive_purely(
        flow,
        says(**said),
        changed=lambda _turn: CHANGED,
        before=[red],
        until=lambda state: state.proof is not None,
    )
    assert done.state.proof is not None
    return done.state.proof.unrelated


RULES = ProofRules("pytest", unrelated_declared=True)
EXCUSING = f"{GOOD_ANALYSIS}\nUnrelated failing tests:\n- t.py::old: needs a server\n- t.py::ok: it may break\n"


def test_an_approved_analysis_declares_failures_of_before_the_run_unrelated() -> None:
    assert unrelated(analyst=EXCUSING) == ("t.py::old",)


def test_nobody_else_declares_failures_unrelated() -> None:
    assert unrelated(programmer=EXCUSING, analyst_review=APPROVED + EXCUSING) == ()
    assert unrelated(analyst=EXCUSING, analyst_review=REVISE, review=ReviewRules(max_cycles=1)) == ()
    assert unrelated(analyst=EXCUSING, rules=ProofRules("pytest")) == ()


def test_who_may_declare_failures_unrelated_is_told_what_fails() -> None:
    flow = Cycle(a_proven_plan(rules=RULES))
    red = replace(BASELINE, exit_code=1, tests=CountedTests("pytest", (), ("t.py::old", "t.py::other")))
    turns = {}
    state = flow.apply(flow.start(), red)
    while "tester" not in turns:
        turn = due_turn(flow, state)
        turns[turn.agent] = turn
        state = flow.apply(state, TurnAnswered(turn.id, says(analyst=EXCUSING)(turn.id, turn.answer)))
    assert turns["analyst"].facts["failing"] == turns["peer_analyst"].facts["failing"] == "t.py::old, t.py::other"
    assert turns["tester"].facts["may_fail"] == "t.py::old"


# --- roles


def review_with(flow: Cycle, oversteps: int) -> list[str]:
    """The turns up to the end of the first review of a program whose reviewer changes files this many times."""
    state = drive_purely(flow, says(), until=lambda state: state.role == "peer_programmer").state
    asked: list[str] = []
    while state.role == "peer_programmer":
        turn = due_turn(flow, state).id
        asked.append(turn)
        state = flow.apply(state, TurnAsked(turn, AgentName("peer_programmer"), "prompt", "c0ffee1"))
        if len(asked) <= oversteps:
            state = flow.apply(state, WorkUndone(turn, ("shop.py",), "c0ffee2"))
        state = flow.apply(state, TurnAnswered(turn, APPROVED))
    return [*asked, f"then {due_turn(flow, state).id}"]


def test_an_approval_of_a_reviewer_that_changed_files_is_asked_for_once_more() -> None:
    flow = Cycle(a_quick_plan())
    assert review_with(flow, 1) == ["r1.peer_programmer.c1", "r1.peer_programmer.c1.t2", "then r1.tester.c1"]


def test_a_reviewer_that_changes_files_again_counts_as_revise() -> None:
    flow = Cycle(a_quick_plan())
    assert review_with(flow, 2)[-1] == "then r1.programmer.c2"


def test_the_reviewer_is_told_why_it_is_asked_again() -> None:
    flow = Cycle(a_quick_plan())
    state = drive_purely(flow, says(), until=lambda state: state.role == "peer_analyst").state
    turn = due_turn(flow, state).id
    state = flow.apply(flow.apply(state, WorkUndone(turn, ("a",), "c0ffee2")), TurnAnswered(turn, APPROVED))
    assert due_turn(flow, state).facts["again"] == ASKED_AGAIN


def test_the_verdict_of_a_tester_that_changed_files_counts() -> None:
    flow = Cycle(a_quick_plan())
    state = drive_purely(flow, says(), until=lambda state: state.role == "tester").state
    turn = due_turn(flow, state).id
    state = flow.apply(flow.apply(state, WorkUndone(turn, ("a",), "c0ffee2")), TurnAnswered(turn, PASS))
    assert state.outcome is Outcome.PASSED
