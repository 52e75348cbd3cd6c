"""Which step of a proof is next, and what its result means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from logos.domain.events import ProofRan
from logos.domain.proof import CountedTests, LentFolder, ProofRules, ProofStep, RoomReport
from logos.domain.turns import TurnId
from logos.flows.proof.verdict import ProofProgress, action_for, in_words, judged

RULES = ProofRules("pytest -q")
ONE, TWO, NEW = "tests/test_a.py::test_one", "tests/test_a.py::test_two", "tests/test_b.py::test_new"


def ran(step: ProofStep, *passed: str, failed: tuple[str, ...] = (), **more: Any) -> ProofRan:
    tests = CountedTests("pytest", passed, failed, more.pop("skipped", ()), more.pop("flaky", ()))
    tests = more.pop("tests", tests)
    known = {"exit_code": 1 if failed else 0, "output": "the end of the output", **more}
    return ProofRan(TurnId(f"r1.proof.{step}"), step, "c0ffee0", "7ree", "pytest -q", tests=tests, **known)


BEFORE = ran(ProofStep.BASELINE, ONE, TWO)


def a_proof(*changed: str, declared: tuple[str, ...] = ()) -> ProofProgress:
    return ProofProgress("c0ffee1", ("shop.py", *changed), declared)


def prove(progress: ProofProgress, *steps: ProofRan, baseline: ProofRan = BEFORE, rules: ProofRules = RULES) -> Any:
    judgement = None
    for step in steps:
        assert progress.step is step.step
        judgement = judged(progress, step, baseline, rules)
        progress = judgement.progress
    return judgement


# --- the order of the steps


def test_a_change_of_source_alone_needs_the_tests_and_planted_ones() -> None:
    result = prove(a_proof(), ran(ProofStep.RESULT, ONE, TWO), ran(ProofStep.GUARDED, ONE, TWO))
    assert result.progress.step is ProofStep.CANARY
    done = prove(result.progress, ran(ProofStep.CANARY, failed=("c",), subject=("c",)))
    assert (done.progress.step, done.failure) == (None, "")
    assert "untested" in in_words(done.progress, BEFORE)


def test_changed_tests_are_put_back_and_new_ones_are_tried_on_the_old_source() -> None:
    result = prove(a_proof("tests/test_b.py"), ran(ProofStep.RESULT, ONE, TWO, NEW))
    guarded = prove(result.progress, ran(ProofStep.GUARDED, ONE, TWO, subject=("tests/test_b.py",)))
    canary = prove(guarded.progress, ran(ProofStep.CANARY, failed=("c",), subject=("c",)))
    assert [step.progress.step for step in (result, guarded, canary)] == [
        ProofStep.GUARDED,
        ProofStep.CANARY,
        ProofStep.RED,
    ]
    red = prove(canary.progress, ran(ProofStep.RED, failed=(NEW,)))
    assert (red.progress.step, red.failure, red.progress.untested) == (None, "", False)
    assert "new tests fail without the change" in in_words(red.progress, BEFORE)


def test_a_test_that_turns_green_shows_that_the_change_is_tested() -> None:
    baseline = ran(ProofStep.BASELINE, ONE, failed=(TWO,))
    progress = a_proof("tests/test_b.py")
    result = prove(progress, ran(ProofStep.RESULT, ONE, TWO, NEW), baseline=baseline)
    guarded = prove(result.progress, ran(ProofStep.GUARDED, ONE, TWO), baseline=baseline)
    canary = prove(guarded.progress, ran(ProofStep.CANARY, failed=("c",), subject=("c",)), baseline=baseline)
    assert canary.progress.step is None
    assert "1 test that failed before passes now" in in_words(canary.progress, baseline)


def test_where_no_test_ran_before_none_is_put_back() -> None:
    result = prove(a_proof("tests/test_b.py"), ran(ProofStep.RESULT, NEW), baseline=ran(ProofStep.BASELINE))
    assert (result.failure, result.progress.step) == ("", ProofStep.CANARY)


def test_without_counted_tests_nothing_is_planted() -> None:
    baseline = ran(ProofStep.BASELINE, tests=None)
    steps = ran(ProofStep.RESULT, tests=None), ran(ProofStep.GUARDED, tests=None)
    result = prove(a_proof(), *steps, baseline=baseline)
    assert (result.progress.step, result.failure) == (None, "")
    assert "tests not counted" in in_words(result.progress, baseline)


def test_too_many_changes_to_name_are_all_guarded() -> None:
    progress = ProofProgress("c0ffee1", None)
    assert prove(progress, ran(ProofStep.RESULT, ONE, TWO)).progress.step is ProofStep.GUARDED


def test_a_step_runs_on_the_files_and_in_the_room_of_the_baseline() -> None:
    lent = (LentFolder(".venv", "d1935"),)
    baseline = ran(ProofStep.BASELINE, ONE, room=RoomReport(network=False, lent=lent))
    action = action_for(a_proof(), baseline, RULES, "r2")
    assert (action.id, action.base, action.result) == ("r2.proof.result", "c0ffee0", "c0ffee1")
    assert (action.network, action.lent) == (False, lent)


# --- what fails


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (ran(ProofStep.RESULT, ONE, failed=(TWO,)), TWO),
        (ran(ProofStep.RESULT, ONE, failed=(TWO,), exit_code=0), TWO),
        (ran(ProofStep.RESULT, ONE, TWO, exit_code=1), "although no test failed"),
        (ran(ProofStep.RESULT), "no test was run"),
        (ran(ProofStep.RESULT, tests=None), "no test reported"),
        (ran(ProofStep.RESULT, tests=None, exit_code=2), "exited 2"),
        (ran(ProofStep.RESULT, ONE), "were not run: tests/test_a.py::test_two"),
        (ran(ProofStep.RESULT, ONE, skipped=(TWO,)), "were not run"),
        (ran(ProofStep.RESULT, ONE, flaky=(TWO,)), "now and then"),
        (ran(ProofStep.RESULT, ONE, "tests/test_a.py::renamed"), "were not run"),
    ],
)
def test_a_result_whose_tests_fail_vanish_or_contradict_themselves_fails(step: ProofRan, why: str) -> None:
    assert why in prove(a_proof(), step).failure


def test_tests_as_they_were_must_pass_and_the_changed_files_are_named() -> None:
    result = prove(a_proof("tests/test_a.py", "conftest.py"), ran(ProofStep.RESULT, ONE, TWO))
    failed = prove(result.progress, ran(ProofStep.GUARDED, ONE, failed=(TWO,), subject=("tests/test_a.py",)))
    assert "tests/test_a.py, conftest.py" in failed.failure
    assert TWO in failed.failure
    assert "Tests that must change:" in failed.failure


@pytest.mark.parametrize("noticed", [(), (ONE,)])
def test_a_planted_test_that_does_not_fail_fails_the_proof(noticed: tuple[str, ...]) -> None:
    result = prove(a_proof(), ran(ProofStep.RESULT, ONE, TWO), ran(ProofStep.GUARDED, ONE, TWO))
    step = ran(ProofStep.CANARY, TWO, failed=noticed, subject=(ONE, TWO))
    assert TWO in prove(result.progress, step).failure


def test_each_case_of_a_planted_test_must_fail() -> None:
    result = prove(a_proof(), ran(ProofStep.RESULT, ONE, TWO), ran(ProofStep.GUARDED, ONE, TWO))
    planted = (f"{ONE}[a]", f"{ONE}[b]")
    one, other = (
        prove(result.progress, ran(ProofStep.CANARY, failed=failed, subject=planted))
        for failed in ((f"{ONE}[a]",), (f"{ONE}[c]", f"{ONE}[d]"))
    )
    assert ONE in one.failure
    assert other.failure == ""


def test_scripts_are_planted_where_tests_are_not_counted_and_their_exit_code_must_say_so() -> None:
    rules = ProofRules("make test", plants_scripts=True)
    baseline = ran(ProofStep.BASELINE, tests=None)
    steps = ran(ProofStep.RESULT, tests=None), ran(ProofStep.GUARDED, tests=None)
    progress = prove(a_proof(), *steps, baseline=baseline, rules=rules).progress
    assert progress.step is ProofStep.CANARY
    failures = [
        prove(progress, ran(ProofStep.CANARY, tests=None, subject=("check.py",), exit_code=code), rules=rules).failure
        for code in (1, 0)
    ]
    assert failures[0] == ""
    assert "check.py fail, but `pytest -q` exited 0" in failures[1]


@pytest.mark.parametrize(
    ("before", "own", "guarded", "share"),
    [(1.0, 1.0, 1.0, 1.0), (12.0, 12.0, 0.0, 1.0), (12.0, 12.0, 12.0, 0.33), (12.0, 15.0, 12.0, 0.0)],
)
def test_only_as_many_tests_are_planted_as_keep_the_proof_within_its_price(
    before: float, own: float, guarded: float, share: float
) -> None:
    baseline = ran(ProofStep.BASELINE, ONE, TWO, room=RoomReport(seconds=before))
    steps = (
        ran(step, ONE, TWO, room=RoomReport(seconds=seconds))
        for step, seconds in ((ProofStep.RESULT, own), (ProofStep.GUARDED, guarded))
    )
    action = action_for(prove(a_proof("tests/test_b.py"), *steps, baseline=baseline).progress, baseline, RULES, "r1")
    assert (action.step, round(action.share, 2), action.passed) == (ProofStep.CANARY, share, (ONE, TWO))


def test_planted_tests_that_fail_with_exit_code_0_fail_the_proof() -> None:
    result = prove(a_proof(), ran(ProofStep.RESULT, ONE, TWO), ran(ProofStep.GUARDED, ONE, TWO))
    assert (
        "exited 0" in prove(result.progress, ran(ProofStep.CANARY, failed=("c",), subject=("c",), exit_code=0)).failure
    )


def test_an_untested_change_fails_only_where_tests_are_required() -> None:
    rules = ProofRules("pytest -q", require_tests=True)
    result = prove(a_proof(), ran(ProofStep.RESULT, ONE, TWO), ran(ProofStep.GUARDED, ONE, TWO), rules=rules)
    canary = ran(ProofStep.CANARY, failed=("c",), subject=("c",))
    assert "require_tests" in prove(result.progress, canary, rules=rules).failure


def test_a_room_that_is_not_to_be_believed_pauses() -> None:
    judgement = prove(a_proof(), ran(ProofStep.RESULT, ONE, TWO, problem="node_modules has changed"))
    assert (judgement.failure, judgement.progress.step) == ("", ProofStep.RESULT)
    assert "node_modules has changed" in judgement.pause


# --- what is excused


def test_a_known_failure_and_a_flaky_one_of_before_are_excused() -> None:
    baseline = ran(ProofStep.BASELINE, ONE, flaky=(TWO,))
    assert prove(a_proof(), ran(ProofStep.RESULT, ONE, failed=(TWO,)), baseline=baseline).failure == ""
    rules = ProofRules("pytest -q", known_failing=("test_two",))
    assert prove(a_proof(), ran(ProofStep.RESULT, ONE, failed=(TWO,)), rules=rules).failure == ""


def test_a_failure_of_before_the_run_that_was_declared_unrelated_is_excused_and_told() -> None:
    baseline = ran(ProofStep.BASELINE, ONE, failed=(TWO,))
    steps = ran(ProofStep.RESULT, ONE, failed=(TWO,)), ran(ProofStep.GUARDED, ONE, failed=(TWO,))
    canary = ran(ProofStep.CANARY, failed=("c",), subject=("c",))
    done = prove(replace(a_proof(), unrelated=(TWO,)), *steps, canary, baseline=baseline)
    assert (done.failure, done.progress.step) == ("", None)
    assert f"still failing, declared unrelated: {TWO}" in in_words(done.progress, baseline)
    assert TWO in prove(a_proof(), steps[0], baseline=baseline).failure


def test_where_no_test_could_be_made_to_fail_a_pass_says_so() -> None:
    steps = ran(ProofStep.RESULT, ONE, TWO), ran(ProofStep.GUARDED, ONE, TWO)
    done = prove(a_proof(), *steps, ran(ProofStep.CANARY, tests=None, output="(not run)"))
    assert (done.failure, done.progress.step) == ("", None)
    told = in_words(done.progress, BEFORE)
    assert "no test could be made to fail" in told
    assert "planted failures are noticed" not in told


def test_a_declared_file_may_lose_its_tests() -> None:
    progress = a_proof("tests/test_a.py", declared=("tests/test_a.py",))
    result = prove(progress, ran(ProofStep.RESULT, "tests/test_a.py::other"))
    assert result.failure == ""


def test_the_cases_of_a_test_are_counted_not_named() -> None:
    baseline = ran(ProofStep.BASELINE, f"{ONE}[1]", f"{ONE}[2]")
    assert prove(a_proof(), ran(ProofStep.RESULT, f"{ONE}[8]", f"{ONE}[9]"), baseline=baseline).failure == ""
    assert "were not run" in prove(a_proof(), ran(ProofStep.RESULT, f"{ONE}[1]"), baseline=baseline).failure


def test_a_result_that_replaces_what_tests_work_with_fails() -> None:
    steps = ran(ProofStep.RESULT, ONE, TWO), ran(ProofStep.GUARDED, ONE, TWO)
    touched = ("::(json.loads was replaced)", "::(tests/test_a.py was read by shop.py)")
    failure = prove(a_proof(), *steps, ran(ProofStep.CANARY, failed=(ONE, TWO, *touched), subject=(ONE, TWO))).failure
    assert "json.loads was replaced, tests/test_a.py was read by shop.py" in failure
