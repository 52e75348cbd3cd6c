"""Rounds that end as an earlier one did: told to the programmer, then the end of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from logos.domain.events import RunForked, RunResumed, WorkCompared
from logos.domain.plans import CyclePlan, OnNoProgress
from logos.domain.roles import Phase, Role
from logos.domain.turns import Compare, Outcome, RunId, Turn, TurnId
from logos.flows.cycle.flow import Cycle
from logos.prompts import render
from logos.testing import FAIL, PASS
from tests.builders import Driven, a_quick_plan, drive_purely
from tests.unit.test_cycle_flow import VERIFIED, due_turn, says

BLOCK = OnNoProgress.BLOCK
OTHER_FAIL = "RESULT: FAIL\nEVIDENCE:\n- the greeting has no name\n"


def a_judging_plan(**changes: Any) -> CyclePlan:
    return a_quick_plan(**{"on_no_progress": BLOCK, **changes})


def judged(
    trees: Sequence[str], plan: CyclePlan | None = None, tester: str | Sequence[str] = FAIL, **options: Any
) -> Driven:
    """A run whose rounds end with these files; the last repeats."""

    def tree(turn: TurnId) -> str:
        return trees[min(int(turn.split(".")[0][1:]), len(trees)) - 1]

    changed = options.pop("changed", lambda _turn: ("bye.py",))
    flow = Cycle(plan or a_judging_plan())
    return drive_purely(flow, says(tester=tester), lambda _check: 1, tree=tree, changed=changed, **options)


def told(done: Driven) -> str:
    flow = Cycle(a_judging_plan())
    return str(due_turn(flow, done.state).facts["no_progress"])


def test_a_round_like_an_earlier_one_gets_one_more_try_and_then_blocks_with_the_evidence() -> None:
    done = judged(["same"])
    assert done.state.outcome is Outcome.BLOCKED
    assert [turn for turn in done.asked if "tester" in turn] == [f"r{number}.tester.c1" for number in (1, 2, 3)]
    assert "round 3 ended with the same files and the same findings as rounds 1, 2" in done.state.reason
    assert "expected 2, observed 3" in done.state.reason


def test_the_programmer_is_told_in_the_one_more_try_and_not_before() -> None:
    first = judged(["same"], until=lambda state: state.turn_id == "r2.programmer.c1")
    assert told(first) == ""
    again = judged(["same"], until=lambda state: state.turn_id == "r3.programmer.c1")
    assert told(again).startswith("round 2 ended with the same files and the same findings as round 1")
    assert "No progress: round 2 ended" in render("programmer", due_turn(Cycle(a_judging_plan()), again.state).facts)


@pytest.mark.parametrize(
    ("trees", "tester"),
    [
        (["a", "b", "c", "d"], FAIL),
        (["same"], [FAIL, OTHER_FAIL, FAIL.replace("expected", "wanted"), PASS]),
        ([""], FAIL),
    ],
    ids=["other files", "other findings", "unknown files"],
)
def test_other_files_or_findings_or_files_that_nobody_knows_are_no_standstill(
    trees: list[str], tester: str | list[str]
) -> None:
    done = judged(trees, a_judging_plan(max_rounds=4), tester)
    assert done.state.outcome is (Outcome.PASSED if isinstance(tester, list) else Outcome.FAILED)
    assert done.state.no_progress == ""


def test_numbers_that_differ_are_the_same_finding() -> None:
    fails = [FAIL.replace("3", str(number)) for number in (3, 4, 5, 6)]
    assert judged(["same"], tester=fails).state.outcome is Outcome.BLOCKED


def test_progress_after_the_try_starts_anew() -> None:
    done = judged(["a", "a", "b", "b", "c", "c", "d", "d"])
    assert done.state.outcome is Outcome.FAILED
    assert done.state.round == 8


def test_going_to_and_fro_is_no_progress() -> None:
    done = judged(["a", "b", "a", "b"])
    assert done.state.outcome is Outcome.BLOCKED
    assert "round 4 ended with the same files and the same findings as round 2" in done.state.reason


def test_with_go_on_it_is_only_said() -> None:
    done = judged(["same"], a_judging_plan(on_no_progress=OnNoProgress.GO_ON, max_rounds=4))
    assert done.state.outcome is Outcome.FAILED
    assert done.state.reason == "no PASS in 4 rounds"
    going_on = a_judging_plan(on_no_progress=OnNoProgress.GO_ON)
    fourth = judged(["same"], going_on, until=lambda state: state.turn_id == "r4.programmer.c1")
    assert "rounds 1, 2" in told(fourth)


def test_the_last_round_is_a_failure_and_not_compared() -> None:
    done = judged(["same"], a_judging_plan(max_rounds=3))
    assert done.state.outcome is Outcome.FAILED
    compared = [event.turn for event in done.events if isinstance(event, WorkCompared)]
    assert compared == ["r1.changes", "r2.changes"]


def test_a_plan_without_the_rule_compares_and_judges_nothing() -> None:
    done = judged(["same"], a_quick_plan(max_rounds=4))
    assert done.state.outcome is Outcome.FAILED
    assert not any(isinstance(event, WorkCompared) for event in done.events)
    expecting = judged(["same"], a_quick_plan(max_rounds=4, expect_change=True), PASS, changed=lambda _turn: ())
    assert expecting.state.outcome is Outcome.FAILED
    assert expecting.state.no_progress == ""


def test_a_pass_that_a_check_refuted_is_judged_too() -> None:
    done = judged(["same"], a_judging_plan(**VERIFIED), PASS)
    assert done.state.outcome is Outcome.BLOCKED
    assert len(done.checks) == 3


def test_a_pass_for_which_nothing_changed_is_judged_by_the_comparison_that_showed_it() -> None:
    done = judged(["none"], a_judging_plan(expect_change=True), PASS, changed=lambda _turn: ())
    assert done.state.outcome is Outcome.BLOCKED
    assert [event.turn for event in done.events if isinstance(event, WorkCompared)] == [
        *("r1.changes", "r2.changes", "r3.changes"),
    ]


# --- stopped in the middle


def comparing() -> Driven:
    done = judged(["same"], until=lambda state: state.failing is not None)
    assert Cycle(a_judging_plan()).due(done.state) == (Compare(TurnId("r1.changes")),)
    return done


@pytest.mark.parametrize("event", [RunResumed(a_judging_plan()), RunForked(RunId("r0"), 1, a_judging_plan())])
def test_a_resume_or_fork_while_a_failed_round_is_compared_compares_it(event: RunResumed | RunForked) -> None:
    flow, done = Cycle(a_judging_plan()), comparing()
    state = flow.apply(done.state, event)
    assert flow.due(state) == (Compare(TurnId("r1.changes")),)
    state = flow.apply(state, WorkCompared(TurnId("r1.changes"), ("bye.py",), "c0ffee1", "same"))
    assert due_turn(flow, state).id == "r2.programmer.c1"
    assert "expected 2, observed 3" in state.feedback


def test_a_resume_without_the_rule_goes_on_with_the_failed_round() -> None:
    flow, done = Cycle(a_judging_plan()), comparing()
    state = flow.apply(done.state, RunResumed(a_quick_plan()))
    assert due_turn(flow, state).id == "r2.programmer.c1"
    assert (state.comparing, state.failing) == (False, None)


def test_a_blocked_run_goes_on_when_a_person_says_so() -> None:
    flow, done = Cycle(a_judging_plan()), judged(["same"])
    assert flow.due(flow.apply(done.state, RunResumed(a_judging_plan()))) == ()
    going_on = a_judging_plan(on_no_progress=OnNoProgress.GO_ON)
    state = flow.apply(done.state, RunResumed(going_on))
    turn = due_turn(flow, state)
    assert (turn.id, state.reason) == ("r4.programmer.c1", "")
    assert "expected 2" in str(turn.facts["feedback"])
    assert "round 3 ended" in str(turn.facts["no_progress"])


def test_a_run_that_its_reviewers_blocked_does_not_go_on() -> None:
    flow = Cycle(a_judging_plan())
    blocked = judged(["same"]).state
    from_review = flow.apply(
        replace(blocked, phase=Phase.PROGRAMMER), RunResumed(a_judging_plan(on_no_progress=OnNoProgress.GO_ON))
    )
    assert from_review.outcome is Outcome.BLOCKED


def test_nothing_asks_an_agent_more_than_before() -> None:
    plain, judging = judged(["same"], a_quick_plan(max_rounds=2)), judged(["same"], a_judging_plan(max_rounds=2))
    assert plain.asked == judging.asked
    assert all(isinstance(action, Turn) for action in Cycle(a_judging_plan()).due(Cycle(a_judging_plan()).start()))
    assert judging.state.role is Role.TESTER
