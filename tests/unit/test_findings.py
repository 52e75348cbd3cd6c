"""Findings: the same id when they are raised again, and a ledger of their states."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.domain.roles import Role
from logos.domain.turns import TurnId
from logos.flows.cycle.briefing import facts_for
from logos.flows.cycle.findings import (
    LONGEST_TEXT,
    MOST_FINDINGS,
    TESTS,
    Findings,
    FindingState,
    RaisedFinding,
    as_list,
    in_evidence,
    in_failed_step,
    in_review,
    of_tests,
    raised_anew,
    updated,
)
from logos.flows.cycle.flow import Cycle
from logos.prompts import render
from logos.testing import APPROVED, FAIL, PASS
from tests.builders import a_plan, a_quick_plan, drive_purely, examples
from tests.unit.test_cycle_flow import due_turn, says


def texts(raised: tuple[RaisedFinding, ...]) -> list[str]:
    return [finding.text for finding in raised]


def revise(*items: str) -> str:
    numbered = "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))
    return f"REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n{numbered}\n- checked: the diff\n"


# --- what a turn raises


def test_the_numbered_items_of_a_review_are_its_findings_and_its_evidence_is_none() -> None:
    assert texts(in_review(revise("cart.py leaks", "no test"), "peer_programmer", ())) == ["cart.py leaks", "no test"]


def test_without_numbers_the_bullets_count_and_without_bullets_the_first_line() -> None:
    head = "REVIEW_RESULT: REVISE\nREVIEW_NOTES:"
    assert texts(in_review(f"{head}\n- one\n* two\n", "peer_analyst", ())) == ["one", "two"]
    assert texts(in_review(f"{head} it is wrong\nbecause\n", "peer_analyst", ())) == ["it is wrong"]
    assert in_review("nothing to read", "peer_analyst", ()) == ()


def test_an_approval_raises_nothing() -> None:
    assert in_review(APPROVED, "peer_programmer", ()) == ()


def test_line_numbers_and_case_do_not_make_another_finding() -> None:
    one, other = (in_review(revise(text), "peer_programmer", ()) for text in ("cart.py:7 leaks", "Cart.py:12 Leaks"))
    assert one[0].id == other[0].id


def test_the_same_words_of_two_reviewers_are_two_findings() -> None:
    one, other = (in_review(revise("vague"), source, ()) for source in ("peer_analyst", "peer_programmer"))
    assert one[0].id != other[0].id


def test_a_finding_that_is_raised_by_its_id_is_that_finding_whatever_its_words() -> None:
    known = ledger(("peer_programmer", revise("cart.py leaks")))
    again = in_review(revise(f"**[{known[0].id}]** still the leak of before"), "peer_programmer", known)
    assert again == (RaisedFinding(known[0].id, "cart.py leaks"),)
    assert in_review(revise(f"[{known[0].id}] mine"), "peer_analyst", known)[0].id != known[0].id


@pytest.mark.parametrize(
    ("evidence", "names"),
    [
        ("FAILED tests/test_cart.py::test_add[1-2] - assert 1 == 2", ["tests/test_cart.py::test_add"]),
        ("FAIL: test_add (tests.test_cart.CartTest.test_add)", ["test_add"]),
        ("- test_add fails in tests/test_cart.py.\n- test_sum too", ["test_add", "test_sum"]),
        ("tests/test_cart.py::test_add PASSED\ntests/test_cart.py::test_sum FAILED", ["tests/test_cart.py::test_sum"]),
        ("- Failed criteria: test_add is red\n- Commands run: pytest -k test_sum, exit 1", ["test_add"]),
    ],
)
def test_failing_tests_are_named_by_their_ids(evidence: str, names: list[str]) -> None:
    assert texts(in_evidence(f"RESULT: FAIL\nEVIDENCE:\n{evidence}")) == names


def test_without_tests_the_lines_of_the_evidence_count() -> None:
    assert texts(in_evidence(FAIL)) == ["expected 2, observed 3"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("took 0.31s", "took 12 ms"),
        ("at 10:31:07 it ended", "at 23:00:59 it ended"),
        ("cannot read /tmp/pytest-of-me/pytest-3/a.txt", "cannot read /tmp/tmpx81/a.txt"),
        ("- Expected 2", "* expected 17"),
        ("object at 0x7f3a", "object at 0x99ee11"),
    ],
)
def test_what_differs_from_run_to_run_is_the_same_finding(one: str, other: str) -> None:
    assert in_evidence(one)[0].id == in_evidence(other)[0].id


def test_planted_tests_with_random_names_are_the_same_finding() -> None:
    one, other = (
        in_failed_step(f"Logos planted tests, and {name} did not fail\noutput {name}", (name,))
        for name in ("tests/test_x81.py::test_9", "tests/test_q7.py::test_4")
    )
    assert one == other


def test_a_command_that_begins_a_finding_keeps_both_of_its_backticks() -> None:
    (raised,) = in_failed_step("`make test`, run by Logos in a clean room, exited 1: no", ())
    assert raised.text == "`make test`, run by Logos in a clean room, exited 1: no"
    (raised,) = in_failed_step("- **`greet`** is gone", ())
    assert not raised.text.startswith("*")


def test_agents_write_data_which_is_cut_and_printable() -> None:
    hostile = "\x1b[31mred\x1b[0m \u2028 \u202e " + "x" * 5000
    (found,) = in_review(revise(hostile), "peer_analyst", ())
    assert len(found.text) <= LONGEST_TEXT
    assert found.text.isprintable()


@examples(50)
@given(st.text(max_size=300))
def test_any_text_has_findings_that_fit_on_a_line(text: str) -> None:
    for found in (*in_evidence(text), *in_review(f"REVIEW_NOTES:\n{text}", "peer_analyst", ())):
        assert len(found.id) == 6
        assert len(found.text) <= LONGEST_TEXT
        assert len(found.text.splitlines()) <= 1


# --- the ledger


def ledger(*turns: tuple[str, str]) -> Findings:
    """The ledger after reviews, each with its source."""
    findings: Findings = ()
    for number, (source, text) in enumerate(turns, 1):
        raised = in_review(text, source, findings)
        findings = updated(findings, source, source, TurnId(f"r1.{source}.c{number}"), raised)
    return findings


REVIEWER = "peer_programmer"


@pytest.mark.parametrize(
    ("reviews", "state"),
    [
        ([revise("leaks")], FindingState.NEW),
        ([revise("leaks"), revise("leaks")], FindingState.OPEN),
        ([revise("leaks"), revise("other")], FindingState.SETTLED),
        ([revise("leaks"), APPROVED], FindingState.SETTLED),
        ([revise("leaks"), revise("other"), revise("leaks")], FindingState.AGAIN),
        ([revise("leaks"), revise("other"), revise("leaks"), revise("leaks")], FindingState.OPEN),
    ],
)
def test_a_finding_is_new_open_settled_or_raised_again(reviews: list[str], state: FindingState) -> None:
    first = ledger(*((REVIEWER, text) for text in reviews))[0]
    assert (first.text, first.state, first.first) == ("leaks", state, "r1.peer_programmer.c1")


def test_a_ledger_knows_when_a_finding_was_raised_last() -> None:
    found = ledger((REVIEWER, revise("leaks")), (REVIEWER, revise("leaks")), (REVIEWER, APPROVED))[0]
    assert found.last == "r1.peer_programmer.c2"


def test_one_reviewer_does_not_settle_the_findings_of_another() -> None:
    findings = ledger(("peer_analyst", revise("vague")), (REVIEWER, APPROVED))
    assert [finding.state for finding in findings] == [FindingState.NEW]


def test_a_ledger_has_a_limit_and_forgets_the_settled_ones_first() -> None:
    findings = updated((), TESTS, "tester", TurnId("r1"), of_tests(f"a.py::t{n}" for n in range(MOST_FINDINGS)))
    findings = updated(findings, TESTS, "tester", TurnId("r2"), of_tests(["b.py::t"]))
    assert len(findings) == MOST_FINDINGS
    assert (findings[-1].text, findings[-1].state) == ("b.py::t", FindingState.NEW)
    many = updated((), TESTS, "tester", TurnId("r1"), of_tests(f"a.py::t{n}" for n in range(5 * MOST_FINDINGS)))
    assert len(many) == MOST_FINDINGS


# --- in a run


def test_a_reviewer_is_told_its_own_findings_from_its_second_turn_on() -> None:
    flow = Cycle(a_quick_plan())
    review = revise("parser.py leaks", "no test")
    answers = says(analyst_review=[revise("vague"), APPROVED], programmer_review=review)
    first = drive_purely(flow, answers, until=lambda state: state.turn_id == "r1.peer_programmer.c1")
    assert due_turn(flow, first.state).facts["findings"] == ""
    second = drive_purely(flow, answers, until=lambda state: state.turn_id == "r1.peer_programmer.c2")
    listed = str(due_turn(flow, second.state).facts["findings"])
    assert [line.partition("] ")[2] for line in listed.splitlines()] == ["new: parser.py leaks", "new: no test"]
    prompt = render("peer_programmer", facts_for(second.state))
    assert "Your findings so far" in prompt
    assert listed in prompt
    assert "Your findings so far" not in render("peer_programmer", facts_for(first.state))


def test_the_programmer_sees_which_are_new_or_raised_again_and_nothing_where_all_are_new() -> None:
    one, two = revise("leaks"), revise("leaks", "no test")
    assert raised_anew(ledger((REVIEWER, one)), (REVIEWER,)) == ""
    told = raised_anew(ledger((REVIEWER, one), (REVIEWER, two)), (REVIEWER,))
    assert "new: no test" in told
    assert "leaks" not in told
    back = ledger((REVIEWER, one), (REVIEWER, revise("no test")), (REVIEWER, two))
    assert raised_anew(back, (REVIEWER,)).endswith("raised again: leaks")
    assert raised_anew(back, ("peer_analyst",)) == ""


def test_the_tests_that_fail_are_findings_until_the_run_passes() -> None:
    failing = "RESULT: FAIL\nEVIDENCE:\nFAILED tests/test_cart.py::test_add\n"
    done = drive_purely(Cycle(a_quick_plan()), says(tester=[failing, PASS]))
    (found,) = done.state.findings
    assert (found.text, found.raised_by, found.first) == ("tests/test_cart.py::test_add", "tester", "r1.tester.c1")
    assert found.state is FindingState.SETTLED


def test_a_prompt_lists_at_most_thirty_findings() -> None:
    many = updated((), TESTS, "tester", TurnId("r1"), of_tests(f"a.py::t{n}" for n in range(50)))
    assert as_list(many).splitlines()[-1] == "- and 20 more"
    assert as_list(()) == ""


def test_prompts_say_nothing_of_findings_where_there_are_none() -> None:
    for role in (Role.PEER_ANALYST, Role.PROGRAMMER, Role.PEER_PROGRAMMER):
        done = drive_purely(Cycle(a_plan(start=role)), says(), until=lambda state, role=role: state.role is role)
        prompt = render(role, facts_for(done.state))
        assert "findings so far" not in prompt
        assert "raised again" not in prompt
        assert "No progress" not in prompt
