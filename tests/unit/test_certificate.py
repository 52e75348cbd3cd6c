"""The certificate of a run, and how a repeated proof compares with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from logos.domain.events import Event, Noted, ProofRan, Recorded, RunStarted, Topic
from logos.domain.gates import GateKind
from logos.domain.levels import Level
from logos.domain.plans import CyclePlan, ReviewRules
from logos.domain.proof import CountedTests, ProofRules, ProofStep
from logos.domain.turns import Outcome, Prove, RunId
from logos.flows.cycle.flow import Cycle
from logos.flows.levels.flow import Levels
from logos.testing import FAIL, GOOD_ANALYSIS, REVISE
from logos.views.proof import PERSON, Certificate, certificate_of
from logos.views.proof_document import CertificateDocument
from logos.views.repetition import Difference, StoredProof, compared
from logos.views.run import view_run
from tests.builders import BASELINE, a_quick_plan, drive_purely, proves
from tests.levels_builders import a_levels_plan, drive_levels, flow_of, read
from tests.unit.test_cycle_flow import says
from tests.unit.test_person_gates import deciding

RUN = RunId("k3xyz")
CHANGED = ("shop.py", "tests/test_new.py")
DECLARING = f"{GOOD_ANALYSIS}\nTests that must change:\n- tests/test_new.py: it asserts the old price\n"


def certified(events: list[Event] | tuple[Event, ...], plan: Any) -> Certificate:
    whole = (RunStarted(plan), *events, Noted(Topic.AFTERWARDS, "nothing to do"))
    records = [Recorded(RUN, seq, 100.0 + seq, event) for seq, event in enumerate(whole, 1)]
    return certificate_of(view_run(RUN, records, read), head="abc")


def of_a_cycle(
    *, prove: Any = proves, check: Any = None, baseline: bool = True, rules: ProofRules | None = None, **said: Any
) -> Certificate:
    plan = a_quick_plan(proof=rules or ProofRules("pytest"), test_command="pytest", verify_pass=True, max_rounds=2)
    before = [BASELINE] if baseline else []
    more = {"check": check} if check is not None else {}
    done = drive_purely(Cycle(plan), says(**said), changed=lambda _turn: CHANGED, prove=prove, before=before, **more)
    return certified(done.events, plan)


def test_a_proven_pass_has_base_result_and_every_step() -> None:
    own = of_a_cycle()
    assert own.is_proven
    assert (own.outcome, own.verified, own.head) == (Outcome.PASSED, True, "abc")
    assert own.baseline is not None
    assert own.result is not None
    assert (own.baseline.commit, own.result.commit) == ("c0ffee0", "c0ffee1")
    assert [step.step for step in own.steps] == [
        ProofStep.RESULT,
        ProofStep.GUARDED,
        ProofStep.CANARY,
        ProofStep.RED,
    ]
    assert all(step.supports for step in own.steps)
    assert own.guarded == ("tests/test_new.py",)


def test_the_approvals_are_those_that_counted() -> None:
    own = of_a_cycle()
    assert [(found.turn, found.who) for found in own.approvals] == [
        ("r1.peer_analyst.c1", "peer analyst"),
        ("r1.peer_programmer.c1", "peer programmer"),
    ]
    unapproved = of_a_cycle(programmer_review=REVISE)
    assert [found.who for found in unapproved.approvals] == ["peer analyst"]


def test_approvals_of_an_earlier_round_do_not_speak_for_the_result() -> None:
    def prove(action: Prove) -> ProofRan:
        return proves(action, failed=("test_old.py::test_cheated",) if action.id.startswith("r1.") else ())

    own = of_a_cycle(prove=prove)
    assert [found.turn for found in own.approvals] == ["r1.peer_analyst.c1", "r2.peer_programmer.c1"]
    assert {step.turn.partition(".")[0] for step in own.steps} == {"r2"}


def of_a_gated_cycle(*decisions: bool, **said: Any) -> list[tuple[str, str]]:
    rules = ReviewRules(max_cycles=1, min_cycles_before_approval=1, require_evidence=False)
    plan = a_quick_plan(proof=ProofRules("pytest"), test_command="pytest", gates=tuple(GateKind), review=rules)
    done = drive_purely(Cycle(plan), says(**said), before=[BASELINE], decide=deciding(*decisions))
    return [(found.turn, found.who) for found in certified(done.events, plan).approvals]


def test_what_a_person_approved_is_among_the_approvals() -> None:
    assert of_a_gated_cycle() == [
        ("r1.peer_analyst.c1", "peer analyst"),
        ("r1.peer_programmer.c1", "peer programmer"),
        ("r1.gate.after_plan", "a person"),
        ("r1.gate.before_pass", "a person"),
    ]


def test_what_a_person_rejected_is_approved_by_nobody() -> None:
    # The reviewer approves only what is rejected then; the person approves what comes after it.
    assert of_a_gated_cycle(False, True, False, analyst_review=["REVIEW_RESULT: APPROVED", REVISE]) == [
        ("r2.peer_programmer.c1", "peer programmer"),
        ("r1.gate.after_plan.2", "a person"),
        ("r2.gate.before_pass", "a person"),
    ]


def test_a_person_approves_the_result_of_a_build_that_is_there_in_the_end() -> None:
    plan = a_levels_plan(Level.L3, Level.L2, gates=tuple(GateKind), proof=ProofRules("pytest"))
    done = drive_levels(Levels(plan, read), before=[BASELINE], decide=deciding(True, False))
    found = [one.turn for one in certified(done.events, plan).approvals if one.who == "a person"]
    assert found == ["s2.gate.after_plan", "s2.gate.before_pass"]


def test_a_proof_that_fails_says_why() -> None:
    def prove(action: Prove) -> ProofRan:
        return proves(action, failed=("test_old.py::test_cheated",) if action.step is ProofStep.GUARDED else ())

    own = of_a_cycle(prove=prove)
    assert not own.is_proven
    assert own.outcome is Outcome.FAILED
    assert [step.supports for step in own.steps] == [True, False]
    assert "as they were before the run, the result does not pass" in own.not_proven
    assert "test_cheated" in own.steps[-1].failure


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (a_quick_plan(), "no test command is known"),
        (a_quick_plan(test_command="pytest"), "VERIFY_PASS=0"),
        (a_quick_plan(test_command="pytest", verify_pass=True), "not in a clean room"),
    ],
    ids=["no command", "turned off", "in the work tree"],
)
def test_an_unproven_pass_says_why(plan: CyclePlan, why: str) -> None:
    done = drive_purely(Cycle(plan), says(), lambda _check: 0)
    own = certified(done.events, plan)
    assert own.outcome is Outcome.PASSED
    assert why in own.not_proven
    assert (own.baseline, own.steps) == (None, ())


def test_a_run_that_fails_or_goes_on_is_not_proven() -> None:
    assert of_a_cycle(tester=FAIL).not_proven.startswith("the run has ended FAILED")
    plan = a_quick_plan(proof=ProofRules("pytest"))
    cut = drive_purely(Cycle(plan), says(), before=[BASELINE], until=lambda state: state.proof is not None)
    assert certified(cut.events, plan).not_proven == "it has not ended"


def test_declared_changes_name_who_why_and_what_changed() -> None:
    (declared,) = of_a_cycle(analyst=DECLARING).declared
    assert (declared.path, declared.why) == ("tests/test_new.py", "it asserts the old price")
    assert "approved by the peer analyst" in declared.by
    assert declared.files == ("tests/test_new.py",)
    own = of_a_cycle(rules=ProofRules("pytest", may_change=("tests/",)))
    assert [(found.path, found.by, found.files) for found in own.declared] == [
        ("tests/", PERSON, ("tests/test_new.py",))
    ]
    assert own.guarded == ()


def test_failures_that_were_declared_unrelated_name_who_why_and_what_still_fails() -> None:
    rules = ProofRules("pytest", unrelated_declared=True)
    plan = a_quick_plan(proof=rules, test_command="pytest", verify_pass=True)
    tests = CountedTests("pytest", ("test_old.py::test_old",), ("test_old.py::test_net", "test_old.py::test_dns"))
    red = replace(BASELINE, exit_code=1, tests=tests)
    analyst = f"{GOOD_ANALYSIS}\nUnrelated failing tests:\n- test_net: no network\n- test_old: it may break\n"

    def prove(action: Prove) -> ProofRan:
        failing = action.step in (ProofStep.RESULT, ProofStep.GUARDED)
        return proves(action, failed=("test_old.py::test_net",) if failing else ())

    done = drive_purely(Cycle(plan), says(analyst=analyst), changed=lambda _: CHANGED, prove=prove, before=[red])
    own = certified(done.events, plan)
    (failure,) = own.unrelated
    assert (failure.test, failure.why, failure.tests) == ("test_net", "no network", ("test_old.py::test_net",))
    assert "approved by the peer analyst" in failure.by
    stored = TypeAdapter(StoredProof).validate_python(CertificateDocument.of(own))
    assert [one.test for one in stored.unrelated] == ["test_net"]


def test_new_tests_that_pass_on_the_old_source_are_called_untested() -> None:
    def prove(action: Prove) -> ProofRan:
        ran = proves(action)
        if action.step is not ProofStep.RED:
            return ran
        return replace(ran, tests=CountedTests("pytest", ("test_new.py::test_new",)), exit_code=0)

    red = of_a_cycle(prove=prove).steps[-1]
    assert red.supports
    assert "untested" in red.shows


def test_a_proven_build_names_the_levels_that_validated_it() -> None:
    flow = flow_of(proof=ProofRules("pytest"))
    own = certified(drive_levels(flow, before=[BASELINE]).events, flow.plan)
    assert own.is_proven
    assert own.approvals
    assert all(found.turn.endswith(".validate") for found in own.approvals)


# --- the document, and what a repetition must agree with


def stored(own: Certificate) -> StoredProof:
    return TypeAdapter(StoredProof).validate_python(CertificateDocument.of(own))


def test_the_document_of_a_certificate_holds_what_a_repetition_needs() -> None:
    own = of_a_cycle(analyst=DECLARING)
    proof = stored(own)
    assert proof.rules == own.rules
    assert [step.step for step in proof.steps] == [step.step for step in own.steps]
    assert [declared.path for declared in proof.declared] == ["tests/test_new.py"]


def differences(own: Certificate, again: Certificate) -> list[Difference]:
    proof = stored(own)
    assert again.baseline is not None
    return [*compared((proof.baseline, *proof.steps), (again.baseline, *again.steps))]


def test_the_same_proof_agrees_with_itself() -> None:
    assert differences(of_a_cycle(), of_a_cycle()) == []


def test_planted_tests_have_other_names_every_time() -> None:
    def renamed(action: Prove) -> ProofRan:
        ran = proves(action)
        if action.step is not ProofStep.CANARY or ran.tests is None:
            return ran
        other = ("test_other.py::test_planted",)
        return replace(ran, tests=replace(ran.tests, failed=other), subject=other, tree="another")

    assert differences(of_a_cycle(), of_a_cycle(prove=renamed)) == []


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"exit_code": 3}, "the exit code"),
        ({"tree": "another"}, "the files"),
        ({"tests": None}, "the tests"),
        ({"tests": CountedTests("pytest", ("test_old.py::test_old", "test_old.py::test_more"))}, "tests that passed"),
        ({"tests": CountedTests("pytest", ("test_old.py::test_old",), (), ("test_s.py::test_s",))}, "skipped tests"),
    ],
)
def test_a_step_that_differs_is_told(changes: dict[str, Any], what: str) -> None:
    own = of_a_cycle()
    (result, *others) = own.steps
    again = replace(own, steps=(replace(result, **changes), *others))
    assert what in [found.what for found in differences(own, again)]


def test_a_step_that_is_missing_or_fails_is_told() -> None:
    own = of_a_cycle()
    less = replace(own, steps=own.steps[:-1])
    assert differences(own, less) == [Difference("red", "the step", "it ran", "it is missing")]
    assert differences(less, own) == [Difference("red", "the step", "it is missing", "it ran")]
    (first, *others) = own.steps
    failing = replace(own, steps=(replace(first, failure="no"), *others))
    assert [found.what for found in differences(own, failing)] == ["the verdict"]


def test_flaky_tests_and_random_parameters_are_not_compared() -> None:
    def with_tests(own: Certificate, tests: CountedTests) -> Certificate:
        (first, *others) = own.steps
        return replace(own, steps=(replace(first, tests=tests), *others))

    own = of_a_cycle()
    one = with_tests(own, CountedTests("pytest", ("a.py::t[1]", "a.py::f")))
    two = with_tests(own, CountedTests("pytest", ("a.py::t[2]",), (), (), ("a.py::f",)))
    assert differences(one, two) == []
