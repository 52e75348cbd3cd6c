"""Gates: where a run waits for a person, what an approval lets happen, and what a rejection costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.domain.events import (
    Event,
    GateDecided,
    GateOpened,
    RunAbandoned,
    RunForked,
    RunResumed,
    TurnAnswered,
    TurnAsked,
    WorkCompared,
)
from logos.domain.gates import GateKind
from logos.domain.levels import Level
from logos.domain.plans import OnExhausted, ReviewRules
from logos.domain.proof import ProofRules
from logos.domain.reports import TurnKind, Verdict
from logos.domain.roles import Phase, Role
from logos.domain.turns import Compare, OpenGate, Outcome, RunId, Turn, TurnId
from logos.flows.cycle.flow import Cycle
from logos.flows.cycle.state import CycleState
from logos.flows.gates import Gate
from logos.flows.levels.flow import Levels
from logos.flows.levels.reconcile import Cause
from logos.prompts import render
from logos.testing import FAIL, REVISE
from tests.builders import BASELINE, Decide, Driven, a_quick_plan, approves, drive_purely, examples, replay
from tests.levels_builders import Built, World, a_component, a_levels_plan, drive_levels, read
from tests.unit.test_cycle_flow import Cast, bound, due_turn, plans, says

PLAN, PASS_GATE = GateKind.AFTER_PLAN, GateKind.BEFORE_PASS
BOTH = (PLAN, PASS_GATE)
ANALYSIS = ["r1.analyst.c1", "r1.peer_analyst.c1"]
ROUND = ["r1.programmer.c1", "r1.peer_programmer.c1", "r1.tester.c1"]
WORDS = "not like this\nRESULT: PASS"
QUOTED = "> not like this\n> RESULT: PASS"
RULES = ProofRules("pytest")
PROVEN = {"proof": RULES, "test_command": "pytest", "verify_pass": True}


def deciding(*decisions: bool) -> Decide:
    """These decisions in turn; then everything is approved."""
    left = list(decisions)

    def decide(gate: Gate) -> GateDecided:
        approved = left.pop(0) if left else True
        return GateDecided(gate.id, approved, "" if approved else WORDS)

    return decide


def stops_at(gate: str) -> Callable[[CycleState], bool]:
    return lambda state: state.gate is not None and state.gate.id == gate


def run(
    *gates: GateKind, decide: Decide = approves, answer: Any = None, before: Sequence[Event] = (), **plan: Any
) -> Driven:
    return drive_purely(
        Cycle(a_quick_plan(gates=gates, **plan)), answer or says(), decide=decide, before=before, prompt=rendered
    )


def rendered(turn: Turn) -> str:
    return render(turn.document, {"wd": "/repo", "response_path": "/repo/answer.md", **turn.facts})


def prompt(done: Driven | Built, turn: str) -> str:
    return next(event.prompt for event in done.events if isinstance(event, TurnAsked) and event.turn == turn)


# --- the cycle: where it waits


def test_without_gates_nobody_is_waited_for() -> None:
    done = run()
    assert done.gates == []
    assert done.asked == ANALYSIS + ROUND


def test_the_programmer_begins_after_a_person_has_approved_the_analysis() -> None:
    flow = Cycle(a_quick_plan(gates=(PLAN,)))
    waiting = drive_purely(flow, says(), until=lambda state: state.gate is not None)
    assert waiting.asked == ANALYSIS
    assert waiting.state.gate is not None
    assert (waiting.state.gate.id, waiting.state.gate.at) == ("r1.gate.after_plan", PLAN)
    assert "r1.analyst.c1" in waiting.state.gate.question
    assert flow.due(waiting.state) == ()
    assert waiting.state.position.agent == Role.PEER_ANALYST
    assert waiting.state.next_turns == ("r1.gate.after_plan",)
    decided = GateDecided(TurnId("r1.gate.after_plan"), approved=True)
    assert due_turn(flow, flow.apply(waiting.state, decided)).id == "r1.programmer.c1"


def test_a_pass_waits_for_a_person() -> None:
    flow = Cycle(a_quick_plan(gates=(PASS_GATE,)))
    waiting = drive_purely(flow, says(), until=lambda state: state.gate is not None)
    assert waiting.state.gate is not None
    assert waiting.state.gate.id == "r1.gate.before_pass"
    assert "Logos has not verified it" in waiting.state.gate.question
    assert waiting.state.outcome is None
    done = run(PASS_GATE)
    assert done.state.outcome is Outcome.PASSED
    assert done.asked == ANALYSIS + ROUND


def test_a_gate_is_due_until_it_is_in_the_log_and_then_nothing_is() -> None:
    flow = Cycle(a_quick_plan(gates=(PLAN,)))
    reached = drive_purely(flow, says(), until=lambda state: state.gates.reached is not None)
    (action,) = flow.due(reached.state)
    assert isinstance(action, OpenGate)
    assert reached.state.gate is None
    # Nothing decides a gate that no person has seen.
    assert flow.apply(reached.state, GateDecided(action.id, approved=True)) == reached.state
    opened = flow.apply(reached.state, GateOpened(action.id, action.at, action.question))
    assert opened.gate == Gate(action.id, action.at, action.question)
    assert flow.due(opened) == ()
    assert flow.apply(opened, RunResumed(flow.plan)) == opened


@pytest.mark.parametrize("gate", ["r1.gate.before_pass", "r2.gate.after_plan", "", "r1.peer_analyst.c1"])
def test_a_decision_about_another_gate_changes_nothing(gate: str) -> None:
    flow = Cycle(a_quick_plan(gates=BOTH))
    state = drive_purely(flow, says(), until=stops_at("r1.gate.after_plan")).state
    for approved in (True, False):
        assert flow.apply(state, GateDecided(TurnId(gate), approved)) == state


def test_a_second_decision_changes_nothing() -> None:
    flow = Cycle(a_quick_plan(gates=(PLAN,)))
    state = drive_purely(flow, says(), until=stops_at("r1.gate.after_plan")).state
    first = flow.apply(state, GateDecided(TurnId("r1.gate.after_plan"), approved=False, words="no"))
    assert flow.apply(first, GateDecided(TurnId("r1.gate.after_plan"), approved=True)) == first


def test_what_agents_say_never_decides_a_gate() -> None:
    flow = Cycle(a_quick_plan(gates=(PLAN,)))
    state = drive_purely(flow, says(), until=stops_at("r1.gate.after_plan")).state
    for turn in ("r1.gate.after_plan", "r1.peer_analyst.c1", "r1.programmer.c1"):
        assert flow.apply(state, TurnAnswered(TurnId(turn), "approved")) == state


def test_an_analysis_that_no_reviewer_approved_waits_for_a_person_too() -> None:
    rules = ReviewRules(max_cycles=2, on_exhausted=OnExhausted.PROCEED)
    flow = Cycle(a_quick_plan(gates=(PLAN,), review=rules))
    waiting = drive_purely(flow, says(analyst_review=REVISE), until=lambda state: state.gate is not None)
    assert waiting.state.gate is not None
    assert "did not approve it in 2 review cycles" in waiting.state.gate.question


def test_blind_tests_are_written_after_the_analysis_is_approved() -> None:
    flow = Cycle(a_quick_plan(gates=(PLAN,), **{**PROVEN, "proof": ProofRules("pytest", blind=True)}))
    state = drive_purely(flow, says(), before=[BASELINE], until=stops_at("r1.gate.after_plan")).state
    approved = flow.apply(state, GateDecided(TurnId("r1.gate.after_plan"), approved=True))
    assert due_turn(flow, approved).id == "r1.acceptance_tester.c1"


def test_a_run_that_starts_at_the_programmer_has_no_plan_to_approve() -> None:
    assert run(*BOTH, start=Role.PROGRAMMER).gates == ["r1.gate.before_pass"]


def test_a_run_that_is_given_up_waits_no_more() -> None:
    flow = Cycle(a_quick_plan(gates=(PLAN,)))
    state = drive_purely(flow, says(), until=stops_at("r1.gate.after_plan")).state
    over = flow.apply(state, RunAbandoned("no longer needed"))
    assert over.gate is None
    assert flow.apply(over, GateDecided(TurnId("r1.gate.after_plan"), approved=True)) == over


# --- the cycle: rejections


def test_a_rejected_analysis_goes_back_to_the_analyst_with_the_words() -> None:
    done = run(PLAN, decide=deciding(False))
    assert done.asked == [*ANALYSIS, "r1.analyst.c2", "r1.peer_analyst.c2", *ROUND]
    assert done.gates == ["r1.gate.after_plan", "r1.gate.after_plan.2"]
    for turn in ("r1.analyst.c2", "r1.peer_analyst.c2"):
        assert f"A person rejected this analysis:\n{QUOTED}\n" in prompt(done, turn)
    assert "A person rejected" not in "".join(prompt(done, turn) for turn in ROUND)
    assert done.state.outcome is Outcome.PASSED


def test_a_rejection_uses_up_no_review_cycle() -> None:
    rules = ReviewRules(max_cycles=1, min_cycles_before_approval=1, require_evidence=False)
    done = run(PLAN, decide=deciding(False, False), review=rules)
    assert done.asked[:6] == [f"r1.{role}.c{cycle}" for cycle in (1, 2, 3) for role in ("analyst", "peer_analyst")]
    assert len(done.gates) == 3


def test_the_limit_of_review_cycles_counts_from_the_rejection() -> None:
    rules = ReviewRules(max_cycles=2, min_cycles_before_approval=1, on_exhausted=OnExhausted.BLOCK)
    answer = says(analyst_review=["REVIEW_RESULT: APPROVED", REVISE])
    plan = a_quick_plan(gates=(PLAN,), review=ReviewRules(**{**_fields(rules), "require_evidence": False}))
    done = drive_purely(Cycle(plan), answer, decide=deciding(False))
    assert done.state.outcome is Outcome.BLOCKED
    assert done.asked == [f"r1.{role}.c{cycle}" for cycle in (1, 2, 3) for role in ("analyst", "peer_analyst")]


def _fields(rules: ReviewRules) -> dict[str, Any]:
    return {name: getattr(rules, name) for name in rules.__slots__}


def test_the_words_of_a_rejection_stay_until_the_analysis_is_approved() -> None:
    answer = says(analyst_review=["REVIEW_RESULT: APPROVED", REVISE, "REVIEW_RESULT: APPROVED"])
    done = run(PLAN, decide=deciding(False), answer=answer)
    assert QUOTED in prompt(done, "r1.analyst.c3")
    assert QUOTED in prompt(done, "r1.peer_analyst.c3")


def test_a_rejected_result_starts_a_round_at_the_programmer_with_the_words() -> None:
    done = run(PASS_GATE, decide=deciding(False), max_rounds=1)
    assert done.asked == [*ANALYSIS, *ROUND, *(turn.replace("r1.", "r2.") for turn in ROUND)]
    assert done.gates == ["r1.gate.before_pass", "r2.gate.before_pass"]
    for turn in ("r2.programmer.c1", "r2.peer_programmer.c1", "r2.tester.c1"):
        assert f"A person rejected this result, which had passed its tests:\n{QUOTED}\n" in prompt(done, turn)
    assert done.state.outcome is Outcome.PASSED


def test_a_rejection_without_words_says_so() -> None:
    done = run(PLAN, decide=lambda gate: GateDecided(gate.id, gate.id.endswith(".2")))
    assert "A person rejected this analysis, without a reason." in prompt(done, "r1.analyst.c2")


def test_a_round_after_a_rejection_can_fail_as_any_other() -> None:
    done = run(PASS_GATE, decide=deciding(False), answer=says(tester=["RESULT: PASS", FAIL]), max_rounds=1)
    assert done.state.outcome is Outcome.FAILED
    assert done.state.round == 2
    assert not done.state.verified


def test_the_words_about_a_result_outlive_a_round_that_fails() -> None:
    done = run(PASS_GATE, decide=deciding(False), answer=says(tester=["RESULT: PASS", FAIL, "RESULT: PASS"]))
    assert QUOTED in prompt(done, "r3.programmer.c1")
    assert "FAIL" in prompt(done, "r3.programmer.c1")


def test_a_rejected_result_is_proven_anew() -> None:
    done = run(PASS_GATE, decide=deciding(False), before=[BASELINE], **PROVEN)
    proofs = [str(getattr(event, "turn", "")) for event in done.events if ".proof." in str(getattr(event, "turn", ""))]
    assert [step for step in proofs if step.startswith("r2.")] == [
        step.replace("r1.", "r2.") for step in proofs if step.startswith("r1.")
    ]
    assert done.state.verified


# --- the cycle: the files of an approved result


def test_an_approved_result_passes_once_its_files_are_found_unchanged() -> None:
    flow = Cycle(a_quick_plan(gates=(PASS_GATE,), **PROVEN))
    waiting = drive_purely(flow, says(), before=[BASELINE], until=stops_at("r1.gate.before_pass"))
    approved = flow.apply(waiting.state, GateDecided(TurnId("r1.gate.before_pass"), approved=True))
    # The decision may come while there is no driver; the run is not over before one has looked.
    assert approved.outcome is None
    assert flow.due(approved) == (Compare(TurnId("r1.changes.2")),)
    done = flow.apply(approved, WorkCompared(TurnId("r1.changes.2"), ("a.py",), "c0ffee1"))
    assert (done.outcome, done.verified) == (Outcome.PASSED, True)
    assert "Logos has proven it" in done.reason


def test_files_that_changed_while_the_gate_was_open_are_proven_and_asked_about() -> None:
    plan = a_quick_plan(gates=(PASS_GATE,), **PROVEN)
    commits = {"r1.changes": "c0ffee1", "r1.changes.2": "c0ffee2", "r1.changes.3": "c0ffee2"}
    done = drive_purely(Cycle(plan), says(), before=[BASELINE], commit=lambda turn: commits[turn])
    assert done.gates == ["r1.gate.before_pass", "r1.gate.before_pass.2"]
    assert (done.state.outcome, done.state.verified) == (Outcome.PASSED, True)
    assert done.state.proof is not None
    assert done.state.proof.result == "c0ffee2"


def test_an_approval_does_not_replace_a_proof_that_cannot_be_made() -> None:
    plan = a_quick_plan(gates=(PASS_GATE,), **PROVEN)
    flow = Cycle(plan)
    waiting = drive_purely(flow, says(), before=[BASELINE], until=stops_at("r1.gate.before_pass"))
    approved = flow.apply(waiting.state, GateDecided(TurnId("r1.gate.before_pass"), approved=True))
    unknown = flow.apply(approved, WorkCompared(TurnId("r1.changes.2"), None))
    assert unknown.outcome is None
    assert unknown.stalled is not None
    assert flow.due(flow.apply(unknown, RunResumed(plan))) == (Compare(TurnId("r1.changes.2")),)


# --- the cycle: resumed and forked


@pytest.mark.parametrize("gate", BOTH)
def test_an_open_gate_stays_open_at_a_resume(gate: GateKind) -> None:
    plan = a_quick_plan(gates=(gate,), **PROVEN)
    flow = Cycle(plan)
    waiting = drive_purely(flow, says(), before=[BASELINE], until=lambda state: state.gate is not None)
    assert flow.apply(waiting.state, RunResumed(plan)).gate == waiting.state.gate
    assert flow.apply(waiting.state, RunForked(RunId("r0"), 9, plan)).gate == waiting.state.gate


@pytest.mark.parametrize(("gate", "next_action"), [(PLAN, "r1.programmer.c1"), (PASS_GATE, "r1.changes.2")])
def test_a_gate_that_is_taken_away_at_a_resume_lets_the_run_go_on(gate: GateKind, next_action: str) -> None:
    flow = Cycle(a_quick_plan(gates=(gate,)))
    waiting = drive_purely(flow, says(), until=lambda state: state.gate is not None)
    resumed = flow.apply(waiting.state, RunResumed(a_quick_plan()))
    assert resumed.gate is None
    assert [action.id for action in flow.due(resumed)] == [next_action]


@pytest.mark.parametrize("approved", [True, False])
def test_by_other_rules_of_proof_the_result_is_proven_before_anybody_approves_it(approved: bool) -> None:
    flow = Cycle(a_quick_plan(gates=(PASS_GATE,), **PROVEN))
    events: list[Event] = [
        *drive_purely(flow, says(), before=[BASELINE], until=stops_at("r1.gate.before_pass")).events,
        *([GateDecided(TurnId("r1.gate.before_pass"), approved=True)] if approved else []),
        RunResumed(a_quick_plan(gates=(PASS_GATE,), **{**PROVEN, "proof": ProofRules("pytest", reruns=2)})),
    ]
    done = drive_purely(flow, says(), before=events)
    again = [str(getattr(event, "turn", "")) for event in done.events[len(events) :]]
    assert again[:2] == ["r1.changes", "r1.proof.result"]
    assert done.gates == ["r1.gate.before_pass", "r1.gate.before_pass.2"]
    assert done.state.outcome is Outcome.PASSED


def test_a_gate_set_at_a_resume_holds_from_there() -> None:
    before = drive_purely(Cycle(a_quick_plan()), says(), until=lambda state: state.phase is Phase.PROGRAMMER)
    done = drive_purely(Cycle(a_quick_plan()), says(), before=[*before.events, RunResumed(a_quick_plan(gates=BOTH))])
    assert done.gates == ["r1.gate.before_pass"]


# --- the cycle: whatever is said and decided

decisions = st.lists(st.booleans(), max_size=4)


def _decided_by_id(rejected: frozenset[str]) -> Decide:
    """A person who says the same of a gate whenever they are asked."""
    return lambda gate: GateDecided(gate.id, gate.id not in rejected, WORDS if gate.id in rejected else "")


some_gates = st.lists(st.sampled_from(GateKind), unique=True).map(tuple)
rejected_gates = st.frozensets(
    st.sampled_from([f"r{n}.gate.{at}{again}" for n in (1, 2, 3) for at in GateKind for again in ("", ".2")]),
    max_size=3,
)


@examples(30)
@given(plans, some_gates, rejected_gates, st.data())
def test_a_run_with_gates_ends_within_its_bound_and_asks_nothing_twice(
    plan: Any, gates: tuple[GateKind, ...], rejected: frozenset[str], data: st.DataObject
) -> None:
    plan = _with(plan, gates)
    at_most = bound(plan) * (len(rejected) + 1)
    done = drive_with(Cast(data), plan, rejected, at_most=at_most)
    assert done.state.outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.BLOCKED)
    assert len(set(done.asked)) == len(done.asked)
    assert len(set(done.gates)) == len(done.gates)
    if done.state.outcome is Outcome.PASSED and PASS_GATE in gates:
        last = [event for event in done.events if isinstance(event, GateDecided)][-1]
        assert (last.approved, ".gate.before_pass" in last.gate) == (True, True)


@examples(8)
@given(plans, some_gates, rejected_gates, st.data())
def test_a_run_with_gates_stopped_anywhere_and_resumed_ends_as_if_never_stopped(
    plan: Any, gates: tuple[GateKind, ...], rejected: frozenset[str], data: st.DataObject
) -> None:
    plan, cast = _with(plan, gates), Cast(data)
    at_most = bound(plan) * (len(rejected) + 1)
    done = drive_with(cast, plan, rejected, at_most=at_most)
    for length in range(len(done.events)):
        prefix = done.events[:length]
        assert drive_with(cast, plan, rejected, prefix, at_most) == done
        resumed = drive_with(cast, plan, rejected, [*prefix, RunResumed(plan)], at_most)
        assert resumed.state == done.state
        assert resumed.asked == done.asked
        assert resumed.gates == done.gates


def _with(plan: Any, gates: tuple[GateKind, ...]) -> Any:
    return replace(plan, gates=gates)


def drive_with(
    cast: Cast, plan: Any, rejected: frozenset[str], before: Sequence[Event] = (), at_most: int = 500
) -> Driven:
    return drive_purely(
        Cycle(plan),
        cast.answer,
        cast.check,
        changed=cast.changed,
        tree=cast.tree,
        decide=_decided_by_id(rejected),
        before=before,
        at_most=at_most,
    )


# --- the levels

PARTS = (a_component("cart"), a_component("shop", "cart"))
L3_SPEC = "s1.L3.decompose"


def build(*gates: GateKind, decide: Decide = approves, world: World | None = None, **plan: Any) -> Built:
    flow = Levels(a_levels_plan(*plan.pop("levels", ()), gates=gates, **plan), read)
    return drive_levels(flow, world or World(division=PARTS), decide=decide, prompt=rendered)


def test_without_gates_a_build_waits_for_nobody() -> None:
    done = build()
    assert (done.gates, done.state.outcome) == ([], Outcome.PASSED)


def test_the_authors_begin_after_a_person_has_approved_the_specs() -> None:
    flow = Levels(a_levels_plan(gates=(PLAN,)), read)
    waiting = drive_levels(flow, World(division=PARTS), until=lambda state: state.gate is not None)
    assert waiting.state.gate is not None
    assert waiting.state.gate.id == "s1.gate.after_plan"
    assert "cart, shop" in waiting.state.gate.question
    assert waiting.asked[-1] == L3_SPEC
    assert flow.due(waiting.state) == ()
    assert waiting.state.next_turns == ("s1.gate.after_plan",)
    approved = flow.apply(waiting.state, GateDecided(TurnId("s1.gate.after_plan"), approved=True))
    assert [action.id for action in flow.due(approved)] == ["s1.L2.cart.author"]


def test_a_rejected_plan_goes_back_to_the_level_that_divides_the_work() -> None:
    done = build(PLAN, decide=deciding(False))
    at = done.asked.index(L3_SPEC)
    assert done.asked[at + 1 : at + 3] == [f"{L3_SPEC}.v2", "s1.L2.cart.author"]
    assert done.gates == ["s1.gate.after_plan", "s1.gate.after_plan.2"]
    again = prompt(done, f"{L3_SPEC}.v2")
    assert "| A person rejected this plan:\n| > not like this\n| > RESULT: PASS\n" in again
    assert not done.state.settled
    assert all("rejected this plan" not in prompt(done, turn) for turn in done.asked if turn != f"{L3_SPEC}.v2")


def test_a_build_without_the_level_that_divides_has_its_last_spec_approved() -> None:
    done = build(PLAN, levels=(Level.L9, Level.L5, Level.L2), decide=deciding(False))
    assert done.asked[:4] == ["s1.L9.decompose", "s1.L5.decompose", "s1.L5.decompose.v2", "s1.L2.feature.author"]


def test_a_build_of_code_only_has_no_plan_to_approve() -> None:
    assert build(PLAN, levels=(Level.L2, Level.L1)).gates == []


def test_a_build_passes_after_a_person_has_approved_it() -> None:
    flow = Levels(a_levels_plan(gates=(PASS_GATE,)), read)
    waiting = drive_levels(flow, World(division=PARTS), until=lambda state: state.gate is not None)
    assert waiting.state.gate is not None
    assert waiting.state.gate.id == "s1.gate.before_pass"
    assert (waiting.state.outcome, waiting.state.result) == (None, None)
    approved = flow.apply(waiting.state, GateDecided(TurnId("s1.gate.before_pass"), approved=True))
    assert approved.outcome is None
    assert flow.due(approved) == (Compare(TurnId("s1.changes.2")),)
    assert build(PASS_GATE).state.outcome is Outcome.PASSED


def test_a_build_with_a_proof_waits_after_the_proof() -> None:
    flow = Levels(a_levels_plan(gates=(PASS_GATE,), proof=RULES), read)
    done = drive_levels(flow, World(division=PARTS), before=[BASELINE])
    turns = [str(getattr(event, "turn", "") or getattr(event, "gate", "")) for event in done.events]
    assert turns.index("s1.proof.canary") < turns.index("s1.gate.before_pass") < turns.index("s1.changes.2")
    assert (done.state.outcome, done.state.verified) == (Outcome.PASSED, True)


def test_a_rejected_build_is_built_again_with_the_words_and_without_a_reconciliation() -> None:
    done = build(PASS_GATE, decide=deciding(False), max_reconciliations=1)
    assert done.state.outcome is Outcome.PASSED
    assert [(settled.cause, settled.by) for settled in done.state.settled] == [(Cause.REJECTED, "a person")]
    second = [turn for turn in done.asked if turn.startswith("s2.")]
    assert second[:3] == ["s2.L3.decompose", "s2.L2.cart.author", "s2.L2.shop.author"]
    assert not any(f".{kind}" in turn for turn in second for kind in (TurnKind.POSITION, TurnKind.PROPOSE))
    for turn in second[:3]:
        assert "a person rejected the result of the build" in prompt(done, turn)
        assert "Decided by a person: not like this\n| RESULT: PASS\n" in prompt(done, turn)


def test_rejections_use_up_no_reconciliation() -> None:
    fails = {"verdict": Verdict.FAIL}
    world = World({"s4.L3.validate": fails}, division=PARTS)
    done = build(PASS_GATE, decide=deciding(False, False, False), max_reconciliations=1, world=world)
    assert [settled.cause for settled in done.state.settled] == [*[Cause.REJECTED] * 3, Cause.FAILURE]
    assert done.state.outcome is Outcome.PASSED


def test_a_plan_that_a_rejection_changed_is_approved_again() -> None:
    done = build(*BOTH, decide=deciding(True, False))
    assert done.gates == ["s1.gate.after_plan", "s1.gate.before_pass", "s2.gate.after_plan", "s2.gate.before_pass"]
    assert done.state.outcome is Outcome.PASSED


@pytest.mark.parametrize("gate", BOTH)
def test_an_open_gate_of_a_build_stays_open_at_a_resume_unless_it_is_taken_away(gate: GateKind) -> None:
    plan = a_levels_plan(gates=(gate,))
    flow = Levels(plan, read)
    waiting = drive_levels(flow, World(division=PARTS), until=lambda state: state.gate is not None)
    assert flow.apply(waiting.state, RunResumed(plan)).gate == waiting.state.gate
    assert flow.apply(waiting.state, RunForked(RunId("r0"), 9, plan)).gate == waiting.state.gate
    without = flow.apply(waiting.state, RunResumed(a_levels_plan()))
    assert without.gate is None
    assert [action.id for action in flow.due(without)] == [{PLAN: "s1.L2.cart.author", PASS_GATE: "s1.changes.2"}[gate]]


@pytest.mark.parametrize("approved", [True, False])
def test_by_other_rules_of_proof_a_build_is_proven_before_anybody_approves_it(approved: bool) -> None:
    plan = a_levels_plan(gates=(PASS_GATE,), proof=RULES)
    flow = Levels(plan, read)
    waiting = drive_levels(flow, World(division=PARTS), before=[BASELINE], until=lambda state: state.gate is not None)
    events = [
        *waiting.events,
        *([GateDecided(TurnId("s1.gate.before_pass"), approved=True)] if approved else []),
        RunResumed(a_levels_plan(gates=(PASS_GATE,), proof=ProofRules("pytest", reruns=2))),
    ]
    assert flow.due(replay(flow, events)) == (Compare(TurnId("s1.changes")),)
    done = drive_levels(flow, World(division=PARTS), before=events)
    assert done.gates == ["s1.gate.before_pass", "s1.gate.before_pass.2"]
    assert done.state.outcome is Outcome.PASSED


@examples(10)
@given(st.lists(st.sampled_from(GateKind), unique=True).map(tuple), decisions, st.booleans())
def test_a_build_with_gates_stopped_anywhere_and_resumed_ends_as_if_never_stopped(
    gates: tuple[GateKind, ...], decided: list[bool], proven: bool
) -> None:
    plan = a_levels_plan(Level.L9, Level.L3, Level.L2, gates=gates, proof=RULES if proven else None)
    flow, before = Levels(plan, read), [BASELINE] if proven else []
    done = drive_levels(flow, World(division=PARTS), before=before, decide=deciding(*decided))
    assert done.state.outcome is Outcome.PASSED
    assert len(set(done.gates)) == len(done.gates)
    for length in range(len(before), len(done.events)):
        prefix = done.events[:length]
        left = decided[sum(isinstance(event, GateDecided) for event in prefix) :]
        again = drive_levels(flow, World(division=PARTS), before=[*prefix, RunResumed(plan)], decide=deciding(*left))
        assert again.settled_state == done.settled_state
        assert (again.gates, again.asked) == (done.gates, done.asked)
