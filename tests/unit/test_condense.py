"""Condensing: the parts the next agent needs, within the cap, and never nothing where there was something."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.domain.plans import CondenseRules
from logos.flows import condense
from tests.builders import examples

RULES = CondenseRules()

REVIEW = """I looked at everything.
REVIEW_RESULT: REVISE
REVIEW_NOTES:
1. tasks.md: the second task cannot be ticked off
2. design.md: no word on empty names

The rest is fine."""

TEST_REPORT = """I ran the scenario.
RESULT: FAIL
Some prose between the two.
EVIDENCE:
- Failed criteria: expected 2, observed 3
- Recommended next fix: greet.py"""

ANALYSIS = """Here is my analysis.
ANALYST_SUMMARY:
- Scope: names
- OpenSpec artifacts created/updated: proposal.md PASS
  design.md PASS
- Implementation notes for programmer: change greet()
  in greet.py
- Risks/assumptions: names are text
- Downstream impact: the CLI prints it"""

PROGRAM = """PROGRAMMER_SUMMARY:
- openspec-apply-change result: 3 of 3
- Files changed: greet.py
  test_greet.py
- Behavior implemented: greets by name
- Known limitations: none"""


def lines_of(text: str) -> list[str]:
    return text.splitlines()


# --- review notes


@pytest.mark.scenario("CYC-08")
def test_review_notes_begin_at_their_marker_and_end_at_the_cap() -> None:
    notes = condense.review_notes(REVIEW, RULES)
    assert lines_of(notes) == lines_of(REVIEW)[2:]
    assert lines_of(condense.review_notes(REVIEW, CondenseRules(max_feedback_lines=2))) == lines_of(REVIEW)[2:4]


@pytest.mark.parametrize(("cap", "kept"), [(0, 0), (1, 1), (5, 5), (6, 5)])
def test_review_notes_are_capped_exactly(cap: int, kept: int) -> None:
    text = "REVIEW_NOTES:\n1\n2\n3\n4"
    assert len(lines_of(condense.review_notes(text, CondenseRules(max_feedback_lines=cap)))) == kept


def test_a_review_without_its_marker_is_cut_at_its_head() -> None:
    text = "\n\nThis is\nno good\nat all\n"
    assert condense.review_notes(text, CondenseRules(max_feedback_lines=2)) == "This is\nno good"


@pytest.mark.parametrize(
    "marker", ["REVIEW_NOTES:", "**REVIEW_NOTES:**", "**REVIEW_NOTES**:", "## REVIEW_NOTES:", "REVIEW_NOTES: at once"]
)
def test_the_marker_of_review_notes_may_be_decorated(marker: str) -> None:
    assert condense.review_notes(f"REVIEW_RESULT: REVISE\n{marker}\n- a", RULES) == f"{marker}\n- a"


@pytest.mark.parametrize("marker", ["see REVIEW_NOTES:", "> REVIEW_NOTES:", "review_notes:", "REVIEW_NOTES"])
def test_a_marker_in_mid_line_or_quoted_is_none(marker: str) -> None:
    text = f"REVIEW_RESULT: REVISE\n{marker}\n- a"
    assert condense.review_notes(text, RULES) == text


def test_reviews_go_on_whole_when_they_are_not_to_be_condensed() -> None:
    rules = CondenseRules(review_feedback=False, max_feedback_lines=1)
    assert condense.review_notes(f"\n{REVIEW}\n\n", rules) == REVIEW


# --- test evidence


@pytest.mark.scenario("CYC-09")
def test_test_evidence_is_the_result_line_and_the_evidence_onward() -> None:
    assert lines_of(condense.test_evidence(TEST_REPORT, RULES)) == [
        "RESULT: FAIL",
        "EVIDENCE:",
        "- Failed criteria: expected 2, observed 3",
        "- Recommended next fix: greet.py",
    ]
    capped = condense.test_evidence(TEST_REPORT, CondenseRules(max_feedback_lines=3))
    assert lines_of(capped) == ["RESULT: FAIL", "EVIDENCE:", "- Failed criteria: expected 2, observed 3"]


@pytest.mark.parametrize(("cap", "kept"), [(0, 0), (1, 1), (4, 4), (5, 4)])
def test_test_evidence_is_capped_exactly(cap: int, kept: int) -> None:
    assert len(lines_of(condense.test_evidence(TEST_REPORT, CondenseRules(max_feedback_lines=cap)))) == kept


def test_test_evidence_can_have_a_cap_of_its_own() -> None:
    rules = CondenseRules(max_feedback_lines=1, max_test_evidence_lines=3)
    assert len(lines_of(condense.test_evidence(TEST_REPORT, rules))) == 3
    assert len(lines_of(condense.review_notes(REVIEW, rules))) == 1


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("It broke.\nBadly.\nAgain.", "It broke.\nBadly."),
        ("EVIDENCE:\n- one\n- two", "EVIDENCE:\n- one"),
        ("RESULT: FAIL\n- one\n- two", "RESULT: FAIL\n- one"),
        ("RESULT: FAIL", "RESULT: FAIL"),
        ("", ""),
    ],
    ids=["no marker", "no result", "no evidence", "only a result", "empty"],
)
def test_missing_markers_of_a_test_report_lose_no_text(text: str, kept: str) -> None:
    assert condense.test_evidence(text, CondenseRules(max_feedback_lines=2)) == kept


def test_evidence_before_the_result_is_found_too() -> None:
    said = lines_of(condense.test_evidence("EVIDENCE:\n- two is three\nRESULT: FAIL", RULES))
    assert said[0] == "RESULT: FAIL"
    assert "- two is three" in said


# --- across phases


def test_the_programmer_gets_artifacts_notes_and_risks() -> None:
    assert lines_of(condense.analyst_for_programmer(ANALYSIS, RULES)) == [
        "- OpenSpec artifacts created/updated: proposal.md PASS",
        "  design.md PASS",
        "- Implementation notes for programmer: change greet()",
        "  in greet.py",
        "- Risks/assumptions: names are text",
    ]


def test_the_tester_gets_files_and_behavior() -> None:
    assert lines_of(condense.programmer_for_tester(PROGRAM, RULES)) == [
        "- Files changed: greet.py",
        "  test_greet.py",
        "- Behavior implemented: greets by name",
    ]


def test_sections_are_found_in_whatever_order_and_decoration() -> None:
    text = "**Behavior implemented:** greets\n\n## Files changed:\n* greet.py\n\nKnown limitations: none"
    assert lines_of(condense.programmer_for_tester(text, RULES)) == [
        "## Files changed:",
        "* greet.py",
        "**Behavior implemented:** greets",
    ]


@pytest.mark.parametrize(
    "after",
    [
        "RESULT: PASS",
        "REVIEW_RESULT: APPROVED",
        "EVIDENCE:",
        "**RESULT:** PASS",
        "ANALYST_SUMMARY:",
        "- Known limitations: x",
    ],
)
def test_a_section_ends_where_another_marker_begins(after: str) -> None:
    text = f"- Files changed: a.py\n- Behavior implemented: b\n{after}\nnot for the tester"
    assert lines_of(condense.programmer_for_tester(text, RULES)) == [
        "- Files changed: a.py",
        "- Behavior implemented: b",
    ]


def test_a_section_goes_on_over_blank_lines_and_nested_lists() -> None:
    text = "- Files changed:\n\n  - a.py: new\n\n  - b.py: RESULT: in mid-line\n- Behavior implemented: c"
    assert lines_of(condense.programmer_for_tester(text, RULES)) == [
        "- Files changed:",
        "  - a.py: new",
        "  - b.py: RESULT: in mid-line",
        "- Behavior implemented: c",
    ]


def test_one_section_is_enough() -> None:
    assert condense.programmer_for_tester("hello\n- Files changed: a.py", RULES) == "- Files changed: a.py"


@pytest.mark.parametrize("text", ["I changed greet.py\nand it greets", "### Files changed\ngreet.py"])
def test_a_handoff_without_markers_is_cut_at_its_head(text: str) -> None:
    assert condense.programmer_for_tester(text, RULES) == text
    assert condense.analyst_for_programmer(text, CondenseRules(max_cross_phase_lines=1)) == lines_of(text)[0]


@pytest.mark.parametrize(("cap", "kept"), [(0, 0), (1, 1), (3, 3), (4, 3)])
def test_handoffs_are_capped_exactly(cap: int, kept: int) -> None:
    said = condense.programmer_for_tester(PROGRAM, CondenseRules(max_cross_phase_lines=cap))
    assert len(lines_of(said)) == kept


def test_handoffs_go_on_whole_when_they_are_not_to_be_condensed() -> None:
    rules = CondenseRules(cross_phase=False, max_cross_phase_lines=1)
    assert condense.programmer_for_tester(f"\n{PROGRAM}\n", rules) == PROGRAM
    assert condense.analyst_for_programmer(f"\n{ANALYSIS}\n", rules) == ANALYSIS


@pytest.mark.parametrize(
    ("condensed", "text"),
    [
        (condense.review_notes, REVIEW),
        (condense.test_evidence, TEST_REPORT),
        (condense.analyst_for_programmer, ANALYSIS),
        (condense.programmer_for_tester, PROGRAM),
    ],
)
def test_windows_line_ends_change_nothing(condensed, text: str) -> None:
    assert condensed(text.replace("\n", "\r\n"), RULES) == condensed(text, RULES)


@pytest.mark.parametrize(
    "condensed",
    [condense.review_notes, condense.test_evidence, condense.analyst_for_programmer, condense.programmer_for_tester],
)
def test_nothing_condenses_to_nothing(condensed) -> None:
    assert condensed("", RULES) == condensed(" \n\t\n", RULES) == ""


@pytest.mark.timeout(20)
@pytest.mark.parametrize("sign", ["-", "*", "_", "#", "`", "=", "* ", "-*_`# ", "- "])
@pytest.mark.parametrize("end", ["", ".", " x", "|"])
def test_a_long_rule_across_the_page_costs_no_time(sign: str, end: str) -> None:
    rule = sign * 100 + end
    assert condense.review_notes(f"{rule}\nREVIEW_NOTES:\n- a", RULES) == "REVIEW_NOTES:\n- a"
    assert condense.test_evidence(f"{rule}\nRESULT: FAIL\nEVIDENCE:\n- b", RULES) == "RESULT: FAIL\nEVIDENCE:\n- b"
    assert condense.programmer_for_tester(f"{rule}\n- Files changed: c", RULES) == "- Files changed: c"
    assert condense.analyst_for_programmer(f"{rule}\nhello", RULES).endswith("hello")


# --- whatever the text

contributions = st.one_of(
    st.sampled_from(
        [
            *("REVIEW_RESULT: REVISE", "REVIEW_NOTES:", "RESULT: FAIL", "RESULT:", "EVIDENCE:", "**EVIDENCE:**", ""),
            *("- Files changed:", "- Behavior implemented: b", "- Known limitations:", "PROGRAMMER_SUMMARY:"),
            *("- OpenSpec artifacts created/updated:", "- Risks/assumptions: r", "- Downstream impact:", "  detail"),
        ]
    ),
    st.text(max_size=20),
)
texts = st.lists(contributions, max_size=12).flatmap(
    lambda parts: st.sampled_from(["\n", "\r\n"]).map(lambda n: n.join(parts))
)
caps = st.integers(1, 8)


@examples()
@given(texts, caps)
def test_condensed_text_keeps_to_its_cap_and_is_not_empty_unless_the_text_is(text: str, cap: int) -> None:
    rules = CondenseRules(max_feedback_lines=cap, max_cross_phase_lines=cap)
    for condensed in (
        condense.review_notes(text, rules),
        condense.test_evidence(text, rules),
        condense.analyst_for_programmer(text, rules),
        condense.programmer_for_tester(text, rules),
    ):
        assert len(lines_of(condensed)) <= cap
        assert bool(condensed.strip()) == bool(text.strip())


@examples()
@given(texts, caps)
def test_condensing_invents_no_line(text: str, cap: int) -> None:
    rules = CondenseRules(max_feedback_lines=cap, max_cross_phase_lines=cap)
    there = {line.strip() for line in lines_of(text)}
    for condensed in (condense.review_notes(text, rules), condense.test_evidence(text, rules)):
        assert {line.strip() for line in lines_of(condensed)} <= there | {""}


@examples()
@given(st.text(max_size=200), st.integers(0, 10))
def test_head_and_tail_keep_to_their_number_of_lines(text: str, count: int) -> None:
    every = lines_of(text.strip())
    assert condense.head(text, count) == "\n".join(every[:count])
    assert condense.tail(text, count) == "\n".join(every[len(every) - min(count, len(every)) :])
