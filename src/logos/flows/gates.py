"""Reading verdicts, strictly: an agent's text approves or passes only where it says so and nothing else."""

from __future__ import annotations

import re
from enum import StrEnum

from logos.domain.plans import ReviewRules
from logos.domain.roles import Phase

# Markdown emphasis before a marker is tolerated; a quote sign is not, since a quoted verdict is someone else's.
_LEAD = r"^[ \t]*(?:[#*_`]+[ \t]*)*"
_RESULT = re.compile(_LEAD + r"RESULT:[*_` \t]*(?P<rest>\S.*)$", re.MULTILINE)
_REVIEW = re.compile(_LEAD + r"REVIEW_RESULT:[*_` \t]*(?P<rest>\S.*)$", re.MULTILINE)
_NOTES = re.compile(_LEAD + r"REVIEW_NOTES:", re.MULTILINE)


class Verdict(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    UNCLEAR = "UNCLEAR"


def _said(pattern: re.Pattern[str], text: str, good: str, bad: str) -> set[str]:
    """Which of the two words the marker lines say. A line that says both is the format line, echoed."""
    said: set[str] = set()
    for line in pattern.finditer(text):
        words = {word for word in (good, bad) if re.search(rf"\b{word}\b", line["rest"])}
        said.add("both" if len(words) == 2 else next(iter(words), "neither"))
    return said


def read_result(text: str) -> Verdict:
    """The tester's verdict. FAIL outweighs a PASS beside it; an echoed format line makes a PASS unclear."""
    said = _said(_RESULT, text, "PASS", "FAIL")
    if "FAIL" in said:
        return Verdict.FAIL
    return Verdict.PASS if said == {"PASS"} else Verdict.UNCLEAR


def says_approved(text: str) -> bool:
    return _said(_REVIEW, text, "APPROVED", "REVISE") == {"APPROVED"}


EVIDENCE: dict[Phase, tuple[re.Pattern[str], ...]] = {
    Phase.ANALYST: (
        re.compile(r"\b(?:artifact|proposal|design|task|spec)", re.IGNORECASE),
        re.compile(r"\b(?:P[1-4]\b|traceab|phase)", re.IGNORECASE),
        re.compile(r"\b(?:downstream|contract|impact)", re.IGNORECASE),
        re.compile(r"\b(?:handoff|hand-off|actionable|action item)", re.IGNORECASE),
    ),
    Phase.PROGRAMMER: (
        re.compile(r"\b(?:implement|code|diff|file)", re.IGNORECASE),
        re.compile(r"\b(?:validat|test|command|run|ran\b)", re.IGNORECASE),
        re.compile(r"\b(?:risk|regression|coverage)", re.IGNORECASE),
        re.compile(r"\b(?:fix|issue|defect|gap)", re.IGNORECASE),
    ),
}


def evidence_found(text: str, phase: Phase) -> int:
    """How many evidence families the review notes touch; a family counts once, no notes count nothing."""
    notes = _NOTES.search(text)
    if notes is None:
        return 0
    return sum(1 for family in EVIDENCE[phase] if family.search(text, notes.end()))


def is_approved(text: str, cycle: int, phase: Phase, rules: ReviewRules) -> bool:
    if not says_approved(text) or cycle < rules.min_cycles_before_approval:
        return False
    return not rules.require_evidence or evidence_found(text, phase) >= rules.evidence_min_match
