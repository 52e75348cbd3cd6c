"""The cycle as a pure flow: what follows what, whatever the agents say, and wherever a driver stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.domain.events import (
    CheckRan,
    Event,
    Noted,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    TerminalClosed,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnSent,
    WorkCompared,
)
from logos.domain.gates import GateKind
from logos.domain.plans import (
    CondenseRules,
    CyclePlan,
    CycleSeed,
    OnExhausted,
    OnNoProgress,
    ReviewRules,
    RulesVersion,
)
from logos.domain.roles import ANSWERS, Phase, Role
from logos.domain.turns import AgentName, Check, Compare, Outcome, RunId, TerminalId, Turn, TurnId
from logos.flows.condense import programmer_for_tester
from logos.flows.cycle.briefing import EXPLORE_BACK_REFERENCE, NO_VERDICT, UPSTREAM_BACK_REFERENCE
from logos.flows.cycle.flow import NOTHING_CHANGED, Cycle, CycleState
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, GOOD_PROGRAM, PASS, REVISE
from tests.builders import Driven, a_failure, a_plan, a_quick_plan, drive_purely, examples, replay

UNSURE = "Everything looks fine to me."
GOOD = {
    "analyst": GOOD_ANALYSIS,
    "analyst_review": APPROVED,
    "programmer": GOOD_PROGRAM,
    "programmer_review": APPROVED,
    "tester": PASS,
}


def says(**said: str | Sequence[str]):
    """An answer for every turn: good ones, except where told otherwise; of several the last repeats."""
    turns: dict[str, list[str]] = {}

    def answer(turn: TurnId, name: str) -> str:
        given = said.get(name, GOOD[name])
        asked = turns.setdefault(name, [])
        asked.append(turn)
        return given if isinstance(given, str) else given[min(len(asked), len(given)) - 1]

    return answer


def run(plan: CyclePlan, seed: CycleSeed | None = None, check: int = 0, **said: str | Sequence[str]) -> Driven:
    return drive_purely(Cycle(plan, seed), says(**said), lambda _check: check)


def due_turn(flow: Cycle, state: CycleState) -> Turn:
    (action,) = flow.due(state)
    assert isinstance(action, Turn)
    return action


def outputs(**said: str) -> tuple[tuple[str, str], ...]:
    return tuple((answer, said.get(answer, "")) for answer in ANSWERS)


# --- a whole run


def test_a_run_in_which_everybody_does_well_asks_each_role_once() -> None:
    done = run(a_quick_plan())
    assert done.asked == [
        "r1.analyst.c1",
        "r1.peer_analyst.c1",
        "r1.programmer.c1",
        "r1.peer_programmer.c1",
        "r1.tester.c1",
    ]
    assert done.state.outcome is Outcome.PASSED
    assert done.state.phase is Phase.DONE


def test_with_the_default_rules_the_first_approval_does_not_count() -> None:
    done = run(a_plan())
    assert done.asked == [
        *("r1.analyst.c1", "r1.peer_analyst.c1", "r1.analyst.c2", "r1.peer_analyst.c2"),
        *("r1.programmer.c1", "r1.peer_programmer.c1", "r1.programmer.c2", "r1.peer_programmer.c2"),
        "r1.tester.c1",
    ]


def test_nothing_is_due_once_there_is_an_outcome() -> None:
    for done in (run(a_quick_plan()), run(a_quick_plan(max_rounds=1), tester=FAIL)):
        assert Cycle(a_quick_plan()).due(done.state) == ()


def test_a_turn_stays_due_until_it_is_answered() -> None:
    flow = Cycle(a_plan())
    asked = TurnAsked(TurnId("r1.analyst.c1"), AgentName("analyst"), "prompt")
    for events in ([], [asked], [asked, TurnSent(asked.turn)]):
        assert due_turn(flow, replay(flow, events)).id == asked.turn


# --- PASS and FAIL


@pytest.mark.scenario("CYC-18")
def test_a_fail_starts_the_next_round_at_the_programmer_with_the_evidence() -> None:
    done = drive_purely(
        Cycle(a_quick_plan()), says(tester=f"So it went.\n{FAIL}"), until=lambda state: state.round == 2
    )
    state = done.state
    assert (state.round, state.phase, state.role, state.cycle) == (2, Phase.PROGRAMMER, Role.PROGRAMMER, 1)
    assert dict(state.outputs) == {
        "analyst": GOOD_ANALYSIS,
        "analyst_review": APPROVED,
        "programmer": "",
        "programmer_review": "",
        "tester": "",
    }
    assert state.feedback == FAIL.strip()
    assert state.programmer_feedback == ""


@pytest.mark.scenario("RTY-01")
def test_a_fail_keeps_what_the_programmer_had_changed() -> None:
    done = drive_purely(Cycle(a_quick_plan()), says(tester=FAIL), until=lambda state: state.round == 2)
    assert done.state.retry_context == programmer_for_tester(GOOD_PROGRAM, CondenseRules())
    assert done.state.retry_context


@pytest.mark.scenario("RTY-02")
def test_a_pass_leaves_the_retry_context_alone() -> None:
    assert run(a_quick_plan()).state.retry_context == ""
    twice = run(a_quick_plan(), programmer=[GOOD_PROGRAM, "- Files changed: other.py"], tester=[FAIL, PASS])
    assert twice.state.retry_context == programmer_for_tester(GOOD_PROGRAM, CondenseRules())


@pytest.mark.scenario("RTY-03")
def test_a_fail_without_a_programmers_output_has_an_empty_retry_context() -> None:
    done = drive_purely(Cycle(a_quick_plan(start=Role.TESTER)), says(tester=FAIL), until=lambda state: state.round == 2)
    assert done.state.retry_context == ""


def test_a_retry_round_is_the_short_pipeline() -> None:
    done = run(a_quick_plan(), tester=[FAIL, FAIL, PASS])
    assert done.asked[5:] == [
        *("r2.programmer.c1", "r2.peer_programmer.c1", "r2.tester.c1"),
        *("r3.programmer.c1", "r3.peer_programmer.c1", "r3.tester.c1"),
    ]
    assert done.state.outcome is Outcome.PASSED


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_rounds_run_out_as_a_failure(rounds: int) -> None:
    done = run(a_quick_plan(max_rounds=rounds), tester=FAIL)
    assert done.state.outcome is Outcome.FAILED
    assert done.state.phase is Phase.DONE
    assert done.state.round == rounds
    assert done.asked[-1] == f"r{rounds}.tester.c1"
    assert done.state.feedback == FAIL.strip()


@pytest.mark.parametrize(
    "text",
    [UNSURE, "RESULT: PASS|FAIL", "RESULT: PASS\nRESULT: PASS or RESULT: FAIL", "> RESULT: PASS", "result: pass"],
)
def test_a_tester_without_a_clear_verdict_is_asked_once_more_and_then_has_failed(text: str) -> None:
    done = run(a_quick_plan(max_rounds=1), tester=text)
    assert done.asked[-2:] == ["r1.tester.c1", "r1.tester.c2"]
    assert done.state.outcome is Outcome.FAILED


def test_a_tester_asked_once_more_may_still_pass_or_fail() -> None:
    assert run(a_quick_plan(), tester=[UNSURE, PASS]).state.outcome is Outcome.PASSED
    assert run(a_quick_plan(max_rounds=1), tester=[UNSURE, FAIL]).state.outcome is Outcome.FAILED


def test_a_tester_asked_once_more_is_told_why() -> None:
    flow = Cycle(a_quick_plan())
    done = drive_purely(flow, says(tester=UNSURE), until=lambda state: state.turn_id == "r1.tester.c2")
    assert due_turn(flow, done.state).facts["again"] == NO_VERDICT


def test_every_round_gives_the_tester_both_tries() -> None:
    done = run(a_quick_plan(max_rounds=2), tester=UNSURE)
    assert [turn for turn in done.asked if "tester" in turn] == [
        *("r1.tester.c1", "r1.tester.c2"),
        *("r2.tester.c1", "r2.tester.c2"),
    ]


def test_both_verdicts_in_one_text_are_a_failure_at_once() -> None:
    done = run(a_quick_plan(max_rounds=1), tester="RESULT: PASS\nRESULT: FAIL")
    assert done.asked[-1] == "r1.tester.c1"
    assert done.state.outcome is Outcome.FAILED


# --- a PASS that Logos verifies itself

VERIFIED = {"verify_pass": True, "test_command": "make test"}


def test_a_pass_is_checked_before_it_counts() -> None:
    flow = Cycle(a_quick_plan(**VERIFIED))
    done = drive_purely(flow, says(), until=lambda state: state.checking)
    assert flow.due(done.state) == (Check(TurnId("r1.verify"), "make test"),)
    assert done.state.outcome is None


def test_a_pass_whose_check_exits_zero_counts() -> None:
    assert run(a_quick_plan(**VERIFIED), check=0).state.outcome is Outcome.PASSED


@pytest.mark.parametrize("exit_code", [1, 2, 124, -9])
def test_a_pass_whose_check_fails_is_a_failure_with_the_output_as_evidence(exit_code: int) -> None:
    done = run(a_quick_plan(**VERIFIED, max_rounds=1), check=exit_code)
    assert done.state.outcome is Outcome.FAILED
    assert "make test" in done.state.feedback
    assert str(exit_code) in done.state.feedback
    assert "the output of the check" in done.state.feedback


def test_a_failed_check_starts_a_round_like_any_other_fail() -> None:
    codes = iter([1, 0])
    done = drive_purely(Cycle(a_quick_plan(**VERIFIED)), says(), lambda _check: next(codes))
    assert done.asked[5:] == ["r2.programmer.c1", "r2.peer_programmer.c1", "r2.tester.c1"]
    assert [check.turn for check in done.checks] == ["r1.verify", "r2.verify"]
    assert done.state.outcome is Outcome.PASSED


def test_a_fail_is_not_checked() -> None:
    assert run(a_quick_plan(**VERIFIED, max_rounds=1), tester=FAIL).checks == []


@pytest.mark.parametrize("plan", [{"verify_pass": True}, {"test_command": "make test"}])
def test_without_the_wish_or_the_command_nothing_is_checked(plan: dict[str, Any]) -> None:
    done = run(a_quick_plan(**plan))
    assert done.checks == []
    assert done.state.outcome is Outcome.PASSED


def test_a_long_check_leaves_its_end_as_evidence() -> None:
    flow = Cycle(a_quick_plan(**VERIFIED))
    before = drive_purely(flow, says(), until=lambda state: state.checking)
    output = "\n".join(f"line {n}" for n in range(500))
    state = flow.apply(before.state, CheckRan(TurnId("r1.verify"), "make test", 1, output))
    said = state.feedback.splitlines()
    assert said[-1] == "line 499"
    assert len(said) <= CondenseRules().max_feedback_lines


def test_only_a_pass_whose_check_exited_zero_is_verified() -> None:
    assert run(a_quick_plan(**VERIFIED), check=0).state.verified
    assert not run(a_quick_plan()).state.verified
    assert not run(a_quick_plan(**VERIFIED, max_rounds=1), check=1).state.verified


# --- a PASS for which something must have changed


def expecting(*changed: tuple[str, ...] | None, plan: CyclePlan | None = None, **said: str | Sequence[str]) -> Driven:
    """A run whose comparisons find these files, one after the other."""
    found = iter(changed)
    return drive_purely(
        Cycle(plan or a_quick_plan(expect_change=True, max_rounds=2)), says(**said), changed=lambda _turn: next(found)
    )


def test_a_pass_for_which_nothing_was_changed_is_a_failure_with_that_reason() -> None:
    done = expecting((), ())
    assert done.state.outcome is Outcome.FAILED
    assert NOTHING_CHANGED in done.state.feedback


def test_the_programmer_is_asked_again_when_nothing_was_changed() -> None:
    done = expecting((), ("bye.py",))
    assert done.asked[5:] == ["r2.programmer.c1", "r2.peer_programmer.c1", "r2.tester.c1"]
    assert done.state.outcome is Outcome.PASSED


@pytest.mark.parametrize("files", [("bye.py",), None], ids=["changed", "unknown"])
def test_a_pass_for_which_a_file_changed_or_nobody_knows_counts(files: tuple[str, ...] | None) -> None:
    assert expecting(files).state.outcome is Outcome.PASSED


def test_a_change_is_looked_for_before_the_command_is_run() -> None:
    plan = a_quick_plan(**VERIFIED, expect_change=True, max_rounds=1)
    assert expecting((), plan=plan).checks == []


@pytest.mark.parametrize("plan", [{}, {"expect_change": True, "start": Role.TESTER}], ids=["not wanted", "tester"])
def test_no_change_is_looked_for(plan: dict[str, Any]) -> None:
    done = expecting(plan=a_quick_plan(max_rounds=2, **plan), tester=[FAIL, PASS])
    assert done.state.outcome is Outcome.PASSED
    assert not any(isinstance(event, WorkCompared) for event in done.events)


def test_a_resume_without_the_wish_no_longer_compares() -> None:
    flow = Cycle(a_quick_plan(expect_change=True))
    waiting = drive_purely(flow, says(), until=lambda state: state.comparing)
    assert flow.due(waiting.state) == (Compare(TurnId("r1.changes")),)
    assert flow.apply(waiting.state, RunResumed(a_quick_plan())).outcome is Outcome.PASSED
    assert flow.apply(waiting.state, RunResumed(flow.plan)) == waiting.state


# --- reviews


@pytest.mark.parametrize("cycles", [1, 2, 3])
def test_reviews_that_never_approve_let_the_phase_go_on_with_their_objections(cycles: int) -> None:
    plan = a_plan(review=ReviewRules(max_cycles=cycles))
    flow = Cycle(plan)
    done = drive_purely(flow, says(analyst_review=REVISE), until=lambda state: state.role is Role.PROGRAMMER)
    assert done.asked[-1] == f"r1.peer_analyst.c{cycles}"
    assert "empty name" in str(due_turn(flow, done.state).facts["objections"])


def test_objections_to_the_program_reach_the_tester() -> None:
    flow = Cycle(a_quick_plan())
    done = drive_purely(flow, says(programmer_review=REVISE), until=lambda state: state.role is Role.TESTER)
    assert "empty name" in str(due_turn(flow, done.state).facts["objections"])


def test_an_approval_leaves_no_objections() -> None:
    flow = Cycle(a_quick_plan())
    done = drive_purely(
        flow,
        says(analyst_review=[REVISE, APPROVED], programmer_review=[REVISE, APPROVED]),
        until=lambda state: state.role is Role.TESTER,
    )
    assert (done.state.analyst_feedback, done.state.programmer_feedback) == ("", "")
    assert due_turn(flow, done.state).facts["objections"] == ""


def test_objections_reach_the_author_in_the_next_cycle() -> None:
    flow = Cycle(a_quick_plan())
    done = drive_purely(flow, says(analyst_review=REVISE), until=lambda state: state.turn_id == "r1.analyst.c2")
    assert "empty name" in str(due_turn(flow, done.state).facts["review_feedback"])


@pytest.mark.parametrize("answer", ["analyst_review", "programmer_review"])
def test_reviews_that_never_approve_block_where_that_is_wanted(answer: str) -> None:
    plan = a_plan(review=ReviewRules(require_evidence=False, on_exhausted=OnExhausted.BLOCK))
    done = drive_purely(Cycle(plan), says(**{answer: REVISE}))
    assert done.state.outcome is Outcome.BLOCKED
    assert done.asked[-1].endswith("c3")
    assert "peer" in done.state.reason
    assert "r1.tester.c1" not in done.asked


def test_objections_of_round_one_do_not_haunt_round_two() -> None:
    flow = Cycle(a_quick_plan())
    done = drive_purely(
        flow,
        says(programmer_review=[REVISE, REVISE, REVISE, APPROVED], tester=[FAIL, PASS]),
        until=lambda state: state.round == 2 and state.role is Role.TESTER,
    )
    assert due_turn(flow, done.state).facts["objections"] == ""


@pytest.mark.parametrize("text", ["", UNSURE, "REVIEW_RESULT: APPROVED|REVISE", "> REVIEW_RESULT: APPROVED"])
def test_a_review_without_a_clear_verdict_is_no_approval(text: str) -> None:
    done = run(a_quick_plan(), analyst_review=[text, APPROVED])
    assert done.asked[2] == "r1.analyst.c2"


@pytest.mark.parametrize("answer", ["analyst", "programmer"])
def test_an_author_that_never_says_anything_does_not_keep_a_run_going_for_ever(answer: str) -> None:
    plan = a_quick_plan(max_rounds=2)
    done = drive_purely(Cycle(plan), says(**{answer: "", "tester": FAIL}), at_most=bound(plan))
    assert done.state.outcome is Outcome.FAILED


# --- where a fresh run starts


@pytest.mark.parametrize(
    "role",
    [
        Role.ANALYST,
        pytest.param(Role.PROGRAMMER, marks=pytest.mark.scenario("PRD-10")),
        pytest.param(Role.PEER_ANALYST, marks=pytest.mark.scenario("PRD-11")),
        pytest.param(Role.PEER_PROGRAMMER, marks=pytest.mark.scenario("PRD-12")),
        pytest.param(Role.TESTER, marks=pytest.mark.scenario("PRD-13")),
    ],
)
def test_a_fresh_run_dispatches_its_start_agent_first(role: Role) -> None:
    flow = Cycle(a_plan(start=role))
    assert due_turn(flow, flow.start()).agent == role


@pytest.mark.parametrize(
    ("role", "fact"),
    [
        (Role.PEER_ANALYST, "author_output"),
        (Role.PROGRAMMER, "handoff"),
        (Role.PEER_PROGRAMMER, "author_output"),
        (Role.TESTER, "handoff"),
    ],
)
def test_a_start_agent_without_upstream_is_told_so(role: Role, fact: str) -> None:
    flow = Cycle(a_plan(start=role))
    note = str(due_turn(flow, flow.start()).facts[fact])
    assert "no upstream output" in note
    assert role.replace("_", " ") in note


@pytest.mark.parametrize(
    ("start", "then"),
    [
        (Role.ANALYST, ["r1.analyst.c1", "r1.peer_analyst.c1", "r1.programmer.c1"]),
        (Role.PROGRAMMER, ["r1.programmer.c1", "r1.peer_programmer.c1", "r1.tester.c1"]),
        (Role.TESTER, ["r1.tester.c1"]),
    ],
)
def test_a_run_goes_on_from_its_start_agent(start: Role, then: list[str]) -> None:
    assert run(a_quick_plan(start=start)).asked[:3] == then


@pytest.mark.parametrize(
    ("start", "author"), [(Role.PEER_ANALYST, Role.ANALYST), (Role.PEER_PROGRAMMER, Role.PROGRAMMER)]
)
@pytest.mark.parametrize("cycles", [1, 3])
def test_a_review_of_nothing_never_counts_as_an_approval(start: Role, author: Role, cycles: int) -> None:
    rules = ReviewRules(max_cycles=cycles, min_cycles_before_approval=1, require_evidence=False)
    done = run(a_plan(start=start, review=rules))
    assert done.asked[:3] == [f"r1.{start}.c1", f"r1.{author}.c2", f"r1.{start}.c2"]
    assert done.state.outcome is Outcome.PASSED


def test_a_review_of_nothing_does_not_block_a_run() -> None:
    rules = ReviewRules(max_cycles=1, min_cycles_before_approval=1, on_exhausted=OnExhausted.BLOCK)
    done = run(a_plan(start=Role.PEER_ANALYST, review=rules))
    assert done.state.outcome is Outcome.PASSED


def test_a_programmer_that_was_never_asked_is_not_referred_to_its_history() -> None:
    flow = Cycle(a_quick_plan(start=Role.PEER_PROGRAMMER))
    done = drive_purely(flow, says(), until=lambda state: state.role is Role.PROGRAMMER)
    facts = due_turn(flow, done.state).facts
    assert facts["handoff"] != UPSTREAM_BACK_REFERENCE
    assert facts["explore"] != EXPLORE_BACK_REFERENCE


def test_a_fail_of_a_run_that_started_at_the_tester_goes_to_the_programmer() -> None:
    done = run(a_quick_plan(start=Role.TESTER), tester=[FAIL, PASS])
    assert done.asked == ["r1.tester.c1", "r2.programmer.c1", "r2.peer_programmer.c1", "r2.tester.c1"]


# --- what is told once and what is told again


def test_the_explore_summary_is_told_once_per_conversation() -> None:
    flow = Cycle(a_plan())
    explore = {}
    state = flow.start()
    for _ in range(4):
        turn = due_turn(flow, state)
        explore[turn.id] = turn.facts["explore"]
        for event in (TurnAsked(turn.id, turn.agent, "prompt"), TurnAnswered(turn.id, GOOD[turn.answer])):
            state = flow.apply(state, event)
    assert explore == {
        "r1.analyst.c1": "greet by name",
        "r1.peer_analyst.c1": "greet by name",
        "r1.analyst.c2": EXPLORE_BACK_REFERENCE,
        "r1.peer_analyst.c2": EXPLORE_BACK_REFERENCE,
    }


def test_a_new_conversation_is_told_the_explore_summary_again() -> None:
    flow = Cycle(a_plan())
    done = drive_purely(flow, says(), until=lambda state: state.turn_id == "r1.analyst.c2")
    opened = TerminalOpened(AgentName("analyst"), TerminalId("b2"), "codex", "s")
    assert due_turn(flow, flow.apply(done.state, opened)).facts["explore"] == "greet by name"


def test_the_handoff_is_not_repeated_within_a_round() -> None:
    flow = Cycle(a_plan())
    handoffs = {}
    done = drive_purely(flow, says(), until=lambda state: state.role is Role.PROGRAMMER)
    handoffs[1] = due_turn(flow, done.state).facts["handoff"]
    done = drive_purely(flow, says(), until=lambda state: state.turn_id == "r1.programmer.c2")
    handoffs[2] = due_turn(flow, done.state).facts["handoff"]
    assert "notes for programmer: as asked" in str(handoffs[1])
    assert handoffs[2] == UPSTREAM_BACK_REFERENCE


# --- imported runs

SEEDS = [
    # (seed, the turn that is due)
    (CycleSeed(), "r1.analyst.c1"),
    (CycleSeed(phase=Phase.ANALYST, outputs=outputs(analyst="a")), "r1.peer_analyst.c1"),
    (CycleSeed(phase=Phase.ANALYST, outputs=outputs(analyst="a", analyst_review="r")), "r1.analyst.c1"),
    (CycleSeed(phase=Phase.PROGRAMMER, outputs=outputs(analyst="a")), "r1.programmer.c1"),
    (CycleSeed(phase=Phase.PROGRAMMER, outputs=outputs(analyst="a", programmer="p")), "r1.peer_programmer.c1"),
    (CycleSeed(3, Phase.PROGRAMMER, outputs=outputs(analyst="a")), "r3.programmer.c1"),
    (CycleSeed(2, Phase.TESTER, outputs=outputs(analyst="a", programmer="p")), "r2.tester.c1"),
    (CycleSeed(2, Phase.DONE, outputs=outputs(analyst="a", programmer="p", tester=PASS)), "r2.tester.c1"),
    # Missing upstream: to the programmer, to the analyst, and all the way back.
    (CycleSeed(phase=Phase.TESTER, outputs=outputs(analyst="a")), "r1.programmer.c1"),
    (CycleSeed(phase=Phase.DONE, outputs=outputs(analyst="a")), "r1.programmer.c1"),
    (CycleSeed(phase=Phase.TESTER), "r1.analyst.c1"),
    (CycleSeed(2, Phase.TESTER), "r2.analyst.c1"),
    (CycleSeed(phase=Phase.PROGRAMMER, outputs=outputs(programmer="p")), "r1.analyst.c1"),
]


@pytest.mark.parametrize(("seed", "turn"), SEEDS)
def test_an_imported_run_goes_on_where_its_file_says_or_where_output_is_missing(seed: CycleSeed, turn: str) -> None:
    flow = Cycle(a_plan(), seed)
    assert due_turn(flow, flow.start()).id == turn


@pytest.mark.scenario("CYC-20")
def test_a_programmer_phase_without_the_analysts_output_falls_back_to_the_analyst() -> None:
    flow = Cycle(a_plan(), CycleSeed(phase=Phase.PROGRAMMER))
    state = flow.start()
    assert state.phase is Phase.ANALYST
    assert due_turn(flow, state).agent == Role.ANALYST


def test_an_imported_run_ignores_the_start_agent() -> None:
    seed = CycleSeed(phase=Phase.TESTER, outputs=outputs(analyst="a", programmer="p"))
    flow = Cycle(a_plan(start=Role.ANALYST), seed)
    assert due_turn(flow, flow.start()).agent == Role.TESTER


def test_an_imported_run_keeps_what_its_file_tells() -> None:
    seed = CycleSeed(2, Phase.PROGRAMMER, "it broke", "vague", "leaks", "- Files changed: a.py", outputs(analyst="a"))
    facts = due_turn(Cycle(a_plan(), seed), Cycle(a_plan(), seed).start()).facts
    assert (facts["feedback"], facts["review_feedback"], facts["retry_context"]) == (
        "it broke",
        "leaks",
        "- Files changed: a.py",
    )


@pytest.mark.parametrize(("seed", "turn"), SEEDS)
def test_an_imported_run_can_be_driven_to_its_end(seed: CycleSeed, turn: str) -> None:
    done = run(a_quick_plan(), seed, tester=[FAIL, PASS])
    assert done.asked[0] == turn
    assert done.state.outcome is Outcome.PASSED


# --- stalled and resumed


def test_a_failed_turn_stalls_the_run_until_a_driver_comes_back() -> None:
    flow = Cycle(a_plan())
    state = flow.apply(flow.start(), a_failure("r1.analyst.c1", "the agent has ended"))
    assert flow.due(state) == ()
    assert state.outcome is None
    assert state.stalled == "the agent has ended"
    resumed = flow.apply(state, RunResumed(a_plan()))
    assert due_turn(flow, resumed).id == "r1.analyst.c1"


@pytest.mark.parametrize("event", [RunResumed(a_plan()), RunForked(RunId("r0"), 1, a_plan())])
def test_a_run_keeps_the_rules_it_began_with(event: Event) -> None:
    flow = Cycle(a_plan(rules=RulesVersion.FIRST))
    assert flow.apply(flow.start(), event).plan.rules == RulesVersion.FIRST


def test_a_resumed_run_goes_by_the_settings_it_is_resumed_with() -> None:
    flow = Cycle(a_quick_plan(max_rounds=8))
    failing = drive_purely(flow, says(tester=FAIL), until=lambda state: state.round == 2)
    state = flow.apply(failing.state, RunResumed(a_quick_plan(max_rounds=2)))
    done = drive_purely(flow, says(tester=FAIL), before=[*failing.events, RunResumed(a_quick_plan(max_rounds=2))])
    assert due_turn(flow, state).id == "r2.programmer.c1"
    assert done.state.outcome is Outcome.FAILED
    assert done.state.round == 2


@pytest.mark.parametrize(
    "event",
    [
        RunStarted(a_plan()),
        TurnSent(TurnId("r1.analyst.c1")),
        TerminalOpened(AgentName("tester"), TerminalId("a1"), "codex", "s"),
        TerminalClosed(AgentName("tester"), TerminalId("a1")),
        Noted(Topic.WARNING, "something"),
        RunEnded(Outcome.PASSED),
        TurnAnswered(TurnId("r1.tester.c1"), PASS),
        TurnAnswered(TurnId("r9.analyst.c9"), "late"),
        CheckRan(TurnId("r1.verify"), "make test", 0, ""),
        CheckRan(TurnId("r9.verify"), "make test", 0, ""),
        WorkCompared(TurnId("r1.changes"), ()),
    ],
    ids=lambda event: f"{event.kind}-{getattr(event, 'turn', '')}",
)
def test_what_nobody_waits_for_changes_nothing(event: Event) -> None:
    flow = Cycle(a_quick_plan(**VERIFIED))
    assert flow.apply(flow.start(), event) == flow.start()


def test_an_answer_that_comes_twice_counts_once() -> None:
    flow = Cycle(a_quick_plan(**VERIFIED))
    done = run(flow.plan, tester=[FAIL, PASS])
    state = flow.start()
    for event in done.events:
        state = flow.apply(state, event)
        if isinstance(event, TurnAnswered | CheckRan):
            assert flow.apply(state, event) == state, event


# --- whatever the agents say

CLEAN_PASSES = [PASS, "RESULT: PASS", "**RESULT: PASS**\r\nEVIDENCE:\r\n- all met"]
ANYTHING = [
    *(
        "RESULT: PASS\nRESULT: FAIL",
        "RESULT: PASS|FAIL",
        "RESULT: PASS or RESULT: FAIL",
        "> RESULT: PASS",
        "result: pass",
    ),
    *(FAIL, UNSURE, GOOD_ANALYSIS, GOOD_PROGRAM, APPROVED, REVISE, "REVIEW_RESULT: APPROVED", "\u2028", "語" * 50),
    "",
]
POOL = {
    "analyst": [GOOD_ANALYSIS, *ANYTHING],
    "analyst_review": [APPROVED, APPROVED, REVISE, *ANYTHING],
    "programmer": [GOOD_PROGRAM, *ANYTHING],
    "programmer_review": [APPROVED, APPROVED, REVISE, *ANYTHING],
    "tester": [*CLEAN_PASSES, FAIL, *ANYTHING],
}

plans = st.builds(
    a_plan,
    start=st.sampled_from(list(Role)),
    max_rounds=st.integers(1, 4),
    verify_pass=st.booleans(),
    expect_change=st.booleans(),
    on_no_progress=st.none() | st.sampled_from(OnNoProgress),
    gates=st.lists(st.sampled_from(GateKind), unique=True).map(tuple),
    test_command=st.sampled_from(["", "make test"]),
    review=st.builds(
        ReviewRules,
        max_cycles=st.integers(1, 3),
        min_cycles_before_approval=st.integers(1, 2),
        require_evidence=st.booleans(),
        on_exhausted=st.sampled_from([OnExhausted.PROCEED, OnExhausted.PROCEED, OnExhausted.BLOCK]),
    ),
)
seeds = st.none() | st.sampled_from([seed for seed, _ in SEEDS])


class Cast:
    """Agents whose answers are drawn as they are asked for, and stay the same when they are asked again.

    One of them may be stubborn and say the same thing in every turn.
    """

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self._stubborn = data.draw(st.none() | st.sampled_from(ANSWERS), label="stubborn")
        self._said: dict[str, str] = {}
        self._exits: dict[str, int] = {}
        self._files: dict[str, tuple[str, ...] | None] = {}
        self._trees: dict[str, str] = {}

    def answer(self, turn: TurnId, name: str) -> str:
        key = name if name == self._stubborn else turn
        if key not in self._said:
            self._said[key] = self._data.draw(st.sampled_from(POOL[name]), label=key)
        return self._said[key]

    def check(self, check: Check) -> int:
        if check.id not in self._exits:
            self._exits[check.id] = self._data.draw(st.sampled_from([0, 0, 1]), label=check.id)
        return self._exits[check.id]

    def changed(self, turn: TurnId) -> tuple[str, ...] | None:
        if turn not in self._files:
            self._files[turn] = self._data.draw(st.sampled_from([None, ("a.py",), ()]), label=turn)
        return self._files[turn]

    def tree(self, turn: TurnId) -> str:
        if turn not in self._trees:
            self._trees[turn] = self._data.draw(st.sampled_from(["a", "a", "b", ""]), label=f"tree of {turn}")
        return self._trees[turn]

    def drive(self, flow: Cycle, before: Sequence[Event] = (), at_most: int = 500) -> Driven:
        looks = {"changed": self.changed, "tree": self.tree}
        return drive_purely(flow, self.answer, self.check, **looks, before=before, at_most=at_most)


def bound(plan: CyclePlan) -> int:
    """The most errands a run can take: a review of nothing costs one more cycle, a tester has two tries, a comparison and a check.

    A gate before a PASS costs another comparison.
    """
    reviewed = 2 * (plan.review.max_cycles + 1)
    return reviewed + 1 + plan.max_rounds * (reviewed + 2 + 2 + 2)


@examples(30)
@given(plans, seeds, st.data())
def test_every_run_ends_within_its_bound_and_asks_nothing_twice(
    plan: CyclePlan, seed: CycleSeed | None, data: st.DataObject
) -> None:
    done = Cast(data).drive(Cycle(plan, seed), at_most=bound(plan))
    assert done.state.outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.BLOCKED)
    assert len(set(done.asked)) == len(done.asked)
    answered = [event.turn for event in done.events if isinstance(event, TurnAnswered | CheckRan)]
    assert len(set(answered)) == len(answered)


@examples(30)
@given(plans, seeds, st.data())
def test_only_a_clean_pass_passes(plan: CyclePlan, seed: CycleSeed | None, data: st.DataObject) -> None:
    done = Cast(data).drive(Cycle(plan, seed), at_most=bound(plan))
    if done.state.outcome is Outcome.PASSED:
        last = [turn for turn in done.asked if ".tester." in turn][-1]
        assert done.answered[last] in CLEAN_PASSES
        if plan.verify_pass and plan.test_command:
            assert done.checks[-1].exit_code == 0
            assert done.checks[-1].turn == last.split(".")[0] + ".verify"


@examples(8)
@given(plans, seeds, st.data())
def test_a_run_stopped_anywhere_and_resumed_ends_as_if_never_stopped(
    plan: CyclePlan, seed: CycleSeed | None, data: st.DataObject
) -> None:
    cast, flow = Cast(data), Cycle(plan, seed)
    done = cast.drive(flow, at_most=bound(plan))
    for length in range(len(done.events)):
        prefix = done.events[:length]
        assert cast.drive(flow, prefix) == done
        resumed = cast.drive(flow, [*prefix, RunResumed(plan)])
        assert resumed.state == done.state
        assert resumed.asked == done.asked


@examples(12)
@given(plans, st.data())
def test_a_run_whose_turns_fail_anywhere_and_is_resumed_ends_the_same(plan: CyclePlan, data: st.DataObject) -> None:
    cast, flow = Cast(data), Cycle(plan)
    done = cast.drive(flow, at_most=bound(plan))
    sent = [n for n, event in enumerate(done.events, 1) if isinstance(event, TurnSent)]
    at = data.draw(st.sampled_from(sent), label="fails after")
    turn = done.events[at - 1]
    assert isinstance(turn, TurnSent)
    stalled = [*done.events[:at], a_failure(turn.turn)]
    assert flow.due(replay(flow, stalled)) == ()
    assert cast.drive(flow, [*stalled, RunResumed(plan)]).state == done.state
