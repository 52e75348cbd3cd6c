"""Verdicts: an agent's text approves or passes only where it says so, and says nothing else."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logos.domain.plans import ReviewRules
from logos.domain.roles import Phase
from logos.flows.cycle.verdicts import (
    ReportedResult,
    evidence_found,
    is_approved,
    read_result,
    says_approved,
    unquoted,
)
from tests.builders import examples

PASSES = {
    "alone": "RESULT: PASS",
    "with evidence": "RESULT: PASS\nEVIDENCE:\n- ran `make test`: 12 passed\n",
    "after an introduction": "I ran everything.\n\nRESULT: PASS\nEVIDENCE:\n- all criteria met",
    "CRLF": "RESULT: PASS\r\nEVIDENCE:\r\n- all met\r\n",
    "no space": "RESULT:PASS",
    "many spaces": "RESULT:    PASS   ",
    "a remark behind it": "RESULT: PASS (all 5 criteria met)",
    "bold": "**RESULT: PASS**",
    "bold marker": "**RESULT:** PASS",
    "bold word": "RESULT: **PASS**",
    "heading": "## RESULT: PASS",
    "inline code": "`RESULT: PASS`",
    "code fence around everything": "```\nRESULT: PASS\nEVIDENCE:\n- all met\n```",
    "said twice": "RESULT: PASS\nEVIDENCE:\n- all met\n\nRESULT: PASS",
    "failure mentioned as history": "RESULT: PASS\nEVIDENCE:\n- the earlier run said RESULT: FAIL, this one does not",
    "a quoted failure": "RESULT: PASS\nEVIDENCE:\n> RESULT: FAIL\nwas round 1",
    "quoted output behind a bar": "RESULT: PASS\nEVIDENCE:\n| RESULT: FAIL\n| that was the fixture",
    "words that contain the other": "RESULT: PASS\nEVIDENCE:\n- 12 passed, 0 FAILED, no FAILURE",
    "review marker elsewhere": "RESULT: PASS\nREVIEW_RESULT: FAIL",
}

FAILS = {
    "alone": "RESULT: FAIL",
    "with evidence": "RESULT: FAIL\nEVIDENCE:\n- expected 2, observed 3",
    "CRLF": "RESULT: FAIL\r\nEVIDENCE:\r\n- 2\r\n",
    "bold": "**RESULT: FAIL**",
    "a remark behind it": "RESULT: FAIL - criterion 2",
    "first PASS, then FAIL": "RESULT: PASS\nRESULT: FAIL",
    "first FAIL, then PASS": "RESULT: FAIL\nRESULT: PASS",
    "FAIL, then the echoed format": "RESULT: FAIL\nEVIDENCE:\n- 2\nRESULT: PASS or RESULT: FAIL",
    "the echoed format, then FAIL": "RESULT: PASS|FAIL\nRESULT: FAIL",
    "PASS, then FAIL in a fence": "RESULT: PASS\n```\nRESULT: FAIL\n```",
    "PASS, then FAIL in bold": "RESULT: PASS\n**RESULT: FAIL**",
    "PASS, then FAIL indented": "RESULT: PASS\n    RESULT: FAIL",
    "both as two lines of a format": "RESULT: PASS\nor\nRESULT: FAIL",
}

UNCLEAR = {
    "empty": "",
    "blank": " \n\t\n",
    "no marker": "Everything works, PASS!",
    "format line with a bar": "RESULT: PASS|FAIL",
    "format line with spaces around the bar": "RESULT: PASS | FAIL",
    "format line with a slash": "RESULT: PASS/FAIL",
    "format line in brackets": "RESULT: <PASS|FAIL>",
    "format line with or": "RESULT: PASS or RESULT: FAIL",
    "format line in code": "`RESULT: PASS` or `RESULT: FAIL`",
    "format line, then PASS": "RESULT: PASS|FAIL\n\nRESULT: PASS",
    "PASS, then the format line": "RESULT: PASS\nEVIDENCE:\n- met\nRESULT: PASS or RESULT: FAIL",
    "the instruction echoed": "The first line is either `RESULT: PASS` or `RESULT: FAIL`; no other line begins so.",
    "in mid-line": "So I would say RESULT: PASS",
    "quoted": "> RESULT: PASS",
    "quoted twice": ">> RESULT: PASS",
    "behind a bar": "| RESULT: PASS",
    "in quotation marks": '"RESULT: PASS"',
    "lower-case marker": "result: PASS",
    "lower-case word": "RESULT: pass",
    "another word": "RESULT: PASSED",
    "another marker": "TEST_RESULT: PASS",
    "review marker": "REVIEW_RESULT: PASS",
    "no colon": "RESULT PASS",
    "space before the colon": "RESULT : PASS",
    "word on the next line": "RESULT:\nPASS",
    "undecided": "RESULT: UNKNOWN",
    "PASS beside undecided": "RESULT: PASS\nRESULT: UNKNOWN",
    "Cyrillic E in the marker": "R\u0415SULT: PASS",
    "Cyrillic A in the word": "RESULT: P\u0410SS",
    "Greek rho in the word": "RESULT: \u03a1ASS",
    "fullwidth colon": "RESULT\uff1a PASS",
    "fullwidth word": "RESULT: \uff30\uff21\uff33\uff33",
    "zero-width space in the word": "RESULT: P\u200bASS",
    "the placeholder of the instruction": "[LOGOS: replace this line with your complete final response]",
}


@pytest.mark.parametrize("text", PASSES.values(), ids=PASSES)
def test_a_clean_pass_is_a_pass(text: str) -> None:
    assert read_result(text) is ReportedResult.PASS


@pytest.mark.parametrize("text", FAILS.values(), ids=FAILS)
def test_a_fail_outweighs_everything_beside_it(text: str) -> None:
    assert read_result(text) is ReportedResult.FAIL


@pytest.mark.parametrize("text", UNCLEAR.values(), ids=UNCLEAR)
def test_what_only_looks_like_a_verdict_is_none(text: str) -> None:
    assert read_result(text) is ReportedResult.UNCLEAR


@pytest.mark.parametrize(
    "text",
    ["RESULT: NOT PASS", "RESULT: NO PASS", "RESULT: did not PASS", "RESULT: cannot say PASS yet", "RESULT: 3/5 PASS"],
)
def test_a_verdict_that_does_not_begin_with_the_word_is_no_pass(text: str) -> None:
    assert read_result(text) is not ReportedResult.PASS


@pytest.mark.parametrize(
    "text",
    [
        "RESULT: PASS\nran the suite\rRESULT: FAIL",
        "RESULT: PASS\n\fRESULT: FAIL",
        "RESULT: PASS\nsummary\u2028RESULT: FAIL",
        "RESULT: PASS\nRESULT:\u00a0FAIL",
        "RESULT: PASS\nRESULT:\nFAIL",
    ],
    ids=["carriage return", "form feed", "line separator", "no-break space", "word on the next line"],
)
def test_a_pass_beside_a_fail_in_odd_white_space_is_no_pass(text: str) -> None:
    assert read_result(text) is not ReportedResult.PASS


@pytest.mark.timeout(20)
@pytest.mark.parametrize("sign", ["-", "*", "_", "#", "`", "=", "* ", "*_`# ", "- "])
def test_a_long_rule_across_the_page_costs_no_time(sign: str) -> None:
    rule = sign * 100
    for text in (f"{rule}\nRESULT: PASS\n{rule}\n", f"RESULT: PASS\n{rule} x\n", f"RESULT: PASS\n  {rule}|\n"):
        assert read_result(text) is ReportedResult.PASS
    # Backticks open a fence that the dot keeps from ending.
    assert says_approved(f"{rule}\nREVIEW_RESULT: APPROVED\n{rule}.") == (sign != "`")
    assert evidence_found(f"{rule}.\nREVIEW_NOTES:\n{rule}.\n- P1", Phase.ANALYST) == 1


# --- reviews

APPROVALS = {
    "alone": "REVIEW_RESULT: APPROVED",
    "CRLF": "REVIEW_RESULT: APPROVED\r\nREVIEW_NOTES:\r\n- fine\r\n",
    "bold": "**REVIEW_RESULT: APPROVED**",
    "in a fence": "```\nREVIEW_RESULT: APPROVED\nREVIEW_NOTES:\n- fine\n```",
    "a remark behind it": "REVIEW_RESULT: APPROVED with one remark below",
    "revise mentioned in the notes": "REVIEW_RESULT: APPROVED\nREVIEW_NOTES:\n- my earlier REVIEW_RESULT: REVISE is settled",
}
NO_APPROVALS = {
    "empty": "",
    "revise": "REVIEW_RESULT: REVISE",
    "format line": "REVIEW_RESULT: APPROVED|REVISE",
    "format line with or": "REVIEW_RESULT: APPROVED or REVIEW_RESULT: REVISE",
    "format line, then approved": "REVIEW_RESULT: APPROVED|REVISE\nREVIEW_RESULT: APPROVED",
    "approved, then format line": "REVIEW_RESULT: APPROVED\nREVIEW_RESULT: APPROVED|REVISE",
    "both": "REVIEW_RESULT: APPROVED\nREVIEW_RESULT: REVISE",
    "both, the other way": "REVIEW_RESULT: REVISE\nREVIEW_RESULT: APPROVED",
    "quoted": "> REVIEW_RESULT: APPROVED",
    "in mid-line": "I say REVIEW_RESULT: APPROVED",
    "lower case": "review_result: approved",
    "lower-case word": "REVIEW_RESULT: approved",
    "a longer word": "REVIEW_RESULT: UNAPPROVED",
    "not": "REVIEW_RESULT: NOT APPROVED",
    "not yet": "REVIEW_RESULT: Not yet APPROVED",
    "cannot be": "REVIEW_RESULT: cannot be APPROVED",
    "another marker": "RESULT: APPROVED",
    "Cyrillic A": "REVIEW_RESULT: \u0410PPROVED",
    "no marker": "APPROVED",
}


@pytest.mark.parametrize("text", APPROVALS.values(), ids=APPROVALS)
def test_a_clean_approval_is_one(text: str) -> None:
    assert says_approved(text)


@pytest.mark.parametrize("text", NO_APPROVALS.values(), ids=NO_APPROVALS)
def test_what_only_looks_like_an_approval_is_none(text: str) -> None:
    assert not says_approved(text)


RULES = ReviewRules()
ANALYST_NOTES = (
    "- artifact proposal.md read\n- P1 traceability holds\n- downstream contract unchanged\n- handoff is actionable\n"
)
PROGRAMMER_NOTES = "- code in the diff read\n- test command run\n- regression risk low\n- no defect or gap found\n"


def a_review(notes: str, verdict: str = "APPROVED") -> str:
    return f"REVIEW_RESULT: {verdict}\nREVIEW_NOTES:\n{notes}"


@pytest.mark.scenario("CYC-04")
def test_an_approval_with_evidence_counts_from_cycle_two_on() -> None:
    assert is_approved(a_review(ANALYST_NOTES), 2, Phase.ANALYST, RULES)
    assert is_approved(a_review(PROGRAMMER_NOTES), 2, Phase.PROGRAMMER, RULES)
    assert is_approved(a_review(ANALYST_NOTES), 3, Phase.ANALYST, RULES)


@pytest.mark.scenario("CYC-05")
def test_an_approval_in_cycle_one_does_not_count() -> None:
    assert not is_approved(a_review(ANALYST_NOTES), 1, Phase.ANALYST, RULES)
    assert not is_approved(a_review(ANALYST_NOTES), 1, Phase.ANALYST, ReviewRules(require_evidence=False))


@pytest.mark.scenario("CYC-06")
def test_an_approval_with_one_family_of_evidence_does_not_count() -> None:
    assert not is_approved(a_review("- the proposal reads well"), 2, Phase.ANALYST, RULES)
    assert not is_approved(a_review("- the code reads well"), 2, Phase.PROGRAMMER, RULES)


@pytest.mark.scenario("CYC-07")
def test_an_approval_needs_no_evidence_where_none_is_required() -> None:
    assert is_approved("REVIEW_RESULT: APPROVED", 2, Phase.ANALYST, ReviewRules(require_evidence=False))


def test_evidence_does_not_make_up_for_a_missing_approval() -> None:
    for verdict in ("REVISE", "APPROVED|REVISE"):
        assert not is_approved(a_review(ANALYST_NOTES, verdict), 3, Phase.ANALYST, RULES)


@pytest.mark.parametrize(("wanted", "counts"), [(3, True), (4, False)])
def test_as_many_families_as_configured_are_enough(wanted: int, counts: bool) -> None:
    notes = "- proposal.md, P2 and the downstream API"
    rules = ReviewRules(evidence_min_match=wanted)
    assert is_approved(a_review(notes), 2, Phase.ANALYST, rules) is counts


def test_evidence_is_required_with_its_section_even_if_no_family_is() -> None:
    rules = ReviewRules(evidence_min_match=0)
    assert is_approved(a_review("- fine"), 2, Phase.ANALYST, rules)
    assert not is_approved("REVIEW_RESULT: APPROVED", 2, Phase.ANALYST, rules)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (a_review(ANALYST_NOTES), 4),
        (a_review(""), 0),
        (a_review("- looks good to me"), 0),
        (f"{ANALYST_NOTES}\nREVIEW_RESULT: APPROVED\nREVIEW_NOTES:\n- fine", 0),
        (f"{ANALYST_NOTES}\nREVIEW_RESULT: APPROVED", 0),
        (f"REVIEW_RESULT: APPROVED\n{ANALYST_NOTES}", 0),
        (f"REVIEW_RESULT: APPROVED\nsee REVIEW_NOTES:\n{ANALYST_NOTES}", 0),
        (f"REVIEW_RESULT: APPROVED\n> REVIEW_NOTES:\n{ANALYST_NOTES}", 0),
        (a_review("- artifact proposal design tasks spec artifact proposal"), 1),
        (a_review("- P1 P2 P3 P4 traceability and phases"), 1),
        (a_review("- P5 and P10 are no priorities"), 0),
        (f"REVIEW_RESULT: APPROVED\r\nREVIEW_NOTES:\r\n{ANALYST_NOTES}", 4),
        (f"**REVIEW_RESULT: APPROVED**\n**REVIEW_NOTES:**\n{ANALYST_NOTES}", 4),
        ("REVIEW_RESULT: APPROVED\nREVIEW_NOTES: design, P3, impact and action items checked", 4),
    ],
)
def test_evidence_is_counted_by_family_and_only_under_review_notes(text: str, found: int) -> None:
    assert evidence_found(text, Phase.ANALYST) == found


@pytest.mark.parametrize(
    ("notes", "found"),
    [
        ("implementation, code, diff and files", 1),
        ("validation: the test command was run", 1),
        ("risk of regression, coverage", 1),
        ("no issue, defect or gap; one fix", 1),
        (PROGRAMMER_NOTES, 4),
        ("looks good", 0),
    ],
)
def test_the_programmers_review_has_families_of_its_own(notes: str, found: int) -> None:
    assert evidence_found(a_review(notes), Phase.PROGRAMMER) == found


# --- whatever else stands around it

lines = st.one_of(
    st.sampled_from([*PASSES.values(), *UNCLEAR.values(), *APPROVALS.values(), "EVIDENCE:", "```"]),
    st.text(max_size=30),
)
fail_lines = st.builds(
    "{}RESULT: {}FAIL{}".format,
    st.sampled_from(["", "**", "# ", "  ", "`"]),
    st.sampled_from(["", " ", "**"]),
    st.sampled_from(["", "\r", "**", " because of 2", "`"]),
)


@examples()
@given(st.lists(lines, max_size=5), fail_lines, st.lists(lines, max_size=5), st.sampled_from(["\n", "\r\n"]))
@example(["RESULT: PASS"], "RESULT: FAIL", ["RESULT: PASS or RESULT: FAIL"], "\n")
def test_no_text_with_a_failing_verdict_line_passes(before: list[str], fail: str, after: list[str], end: str) -> None:
    assert read_result(end.join([*before, fail, *after])) is ReportedResult.FAIL


@examples()
@given(st.lists(lines, max_size=5), st.lists(lines, max_size=5))
def test_no_text_with_a_line_that_revises_is_an_approval(before: list[str], after: list[str]) -> None:
    assert not says_approved("\n".join([*before, "REVIEW_RESULT: REVISE", *after]))


@examples()
@given(st.text())
def test_a_text_without_the_marker_has_no_verdict(text: str) -> None:
    if "RESULT:" not in text:
        assert read_result(text) is ReportedResult.UNCLEAR
        assert not says_approved(text)


# --- quoted verdicts


FENCED = "```\n{}\n```"


@pytest.mark.parametrize(
    "text",
    [
        "The format asks for this:\n```\nRESULT: PASS\n```\nbut nothing works.",
        "> RESULT: PASS\nsaid the programmer.",
        "~~~text\nRESULT: PASS\n~~~\nand more",
        "Output:\n````\n```\nRESULT: PASS\n```\n````\nend",
        "It printed\n   ```\nRESULT: PASS",
    ],
)
def test_a_verdict_in_a_fence_or_a_quotation_is_no_verdict(text: str) -> None:
    assert read_result(text) is ReportedResult.UNCLEAR


def test_a_response_that_is_one_fence_is_unwrapped() -> None:
    assert read_result(FENCED.format("RESULT: PASS\nEVIDENCE: ran it")) is ReportedResult.PASS
    assert read_result(f"\n{FENCED.format('RESULT: FAIL')}\n") is ReportedResult.FAIL
    assert says_approved(FENCED.format("REVIEW_RESULT: APPROVED"))


def test_two_fences_are_not_one() -> None:
    assert read_result("```\nRESULT: PASS\n```\n\n```\nRESULT: PASS\n```") is ReportedResult.UNCLEAR


def test_a_quoted_pass_beside_an_own_fail_changes_nothing() -> None:
    assert read_result("RESULT: FAIL\n```\nRESULT: PASS\n```") is ReportedResult.FAIL
    assert not says_approved("REVIEW_RESULT: REVISE\n> REVIEW_RESULT: APPROVED")


def test_old_logs_read_quoted_verdicts_as_they_did() -> None:
    text = "so:\n```\nRESULT: PASS\n```"
    assert read_result(text, strict=False) is ReportedResult.PASS


@given(st.text(alphabet="`~> \nRESULT: PAFIL", max_size=200))
def test_unquoting_only_removes_lines(text: str) -> None:
    kept = unquoted(text).splitlines()
    assert set(kept) <= set(text.strip().splitlines())
