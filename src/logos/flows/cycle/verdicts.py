"""Parses verdicts strictly: a text approves or passes only when it says so unambiguously."""

import re
from enum import StrEnum
from functools import cache, lru_cache

from logos.domain.plans import ReviewRules
from logos.domain.reports import Verdict
from logos.domain.roles import Phase

# Markdown emphasis before a marker is allowed; a quote sign is not, because it quotes another text.
_LEAD = r"^[-#*_`\s]*"
_RESULT = re.compile(_LEAD + r"RESULT:[*_`\s]*(?P<rest>.*)$")
_REVIEW = re.compile(_LEAD + r"REVIEW_RESULT:[*_`\s]*(?P<rest>.*)$")
_NOTES = re.compile(_LEAD + r"REVIEW_NOTES:")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")

# The flow and those who show it read a response at about the same time; it is parsed once.
once_per_text = lru_cache(maxsize=2)


class ReportedResult(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    UNCLEAR = "UNCLEAR"


def _lines(text: str) -> list[str]:
    """The lines of a text, stripped, whatever their line endings."""
    return [stripped for line in text.splitlines() if (stripped := line.strip())]


@once_per_text
def unquoted(text: str) -> str:
    """A text without code fences and quotations: what they contain is not the agent's own word.

    A response that is a single fence is unwrapped first.
    """
    text = text.strip()
    if not any(mark in text for mark in ("```", "~~~", ">")):
        return text
    lines = text.splitlines()
    if len(lines) > 1 and (opened := _FENCE.match(lines[0])) and _closes(opened[1], lines[-1]):
        inside = [_FENCE.match(line) for line in lines[1:-1]]
        if not any(found and _closes(opened[1], found[0]) for found in inside):
            lines = lines[1:-1]
    kept: list[str] = []
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        if fence:
            fence = "" if found and _closes(fence, line) else fence
        elif found:
            fence = found[1]
        elif not line.lstrip().startswith(">"):
            kept.append(line)
    return "\n".join(kept)


def _closes(fence: str, line: str) -> bool:
    mark = line.strip()
    return mark.startswith(fence) and not mark.strip(fence[0])


def _said(pattern: re.Pattern[str], text: str, good: str, bad: str) -> set[str]:
    """The words on the marker lines: one of the two, both (an echoed format line) or neither."""
    if "RESULT:" not in text:
        return set()
    marked = (line.strip() for line in text.splitlines() if "RESULT:" in line)
    return {_word(found["rest"], good, bad) for line in marked if (found := pattern.match(line))}


def _word(rest: str, good: str, bad: str) -> str:
    says_good = good in rest and _as_word(good).search(rest) is not None
    says_bad = bad in rest and _as_word(bad).search(rest) is not None
    if says_good and says_bad:
        return "both"
    if says_bad:
        return bad
    # "NOT PASS" contains the word and means the opposite.
    return good if _as_word(good).match(rest) else "neither"


@cache
def _as_word(word: str) -> re.Pattern[str]:
    return re.compile(rf"\b{word}\b")


@once_per_text
def read_result(text: str, *, strict: bool = True) -> ReportedResult:
    """The tester's verdict. FAIL outweighs a PASS beside it; an echoed format line makes a PASS unclear.

    `strict`: a PASS in a fence or quotation does not count; a FAIL in a fence does.
    """
    said = _said(_RESULT, text, "PASS", "FAIL")
    if "FAIL" in said:
        return ReportedResult.FAIL
    spoken = unquoted(text) if strict else text
    said = said if spoken == text.strip() else _said(_RESULT, spoken, "PASS", "FAIL")
    return ReportedResult.PASS if said == {"PASS"} else ReportedResult.UNCLEAR


@once_per_text
def says_approved(text: str, *, strict: bool = True) -> bool:
    spoken = unquoted(text) if strict else text
    if _said(_REVIEW, spoken, "APPROVED", "REVISE") != {"APPROVED"}:
        return False
    return spoken == text.strip() or "REVISE" not in _said(_REVIEW, text, "APPROVED", "REVISE")


_DECISIONS = frozenset({"APPROVED", "REVISE", *Verdict})
_IN_REPORT = re.compile(r'"verdict"\s*:\s*"(\w+)"')


def contradicts(response: str, said: str) -> bool:
    """Whether an agent's own last message names only other verdicts than its response."""
    ours, theirs = (
        {*_said(_RESULT, text, "PASS", "FAIL"), *_said(_REVIEW, text, "APPROVED", "REVISE")}
        | {word.upper() for word in _IN_REPORT.findall(text)}
        for text in (response, said)
    )
    ours, theirs = ours & _DECISIONS, theirs & _DECISIONS
    return bool(ours and theirs) and ours.isdisjoint(theirs)


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


@once_per_text
def review_notes(text: str) -> str | None:
    """The text under `REVIEW_NOTES:`, or None."""
    lines = _lines(text)
    first = next((number for number, line in enumerate(lines) if _NOTES.match(line)), None)
    return None if first is None else "\n".join([_NOTES.sub("", lines[first]), *lines[first + 1 :]])


@once_per_text
def evidence_found(text: str, phase: Phase) -> int:
    """The number of evidence families that the review notes mention."""
    notes = review_notes(text) or ""
    return sum(1 for family in EVIDENCE[phase] if family.search(notes))


def is_approved(text: str, cycle: int, phase: Phase, rules: ReviewRules, *, strict: bool = True) -> bool:
    if not says_approved(text, strict=strict) or cycle < rules.min_cycles_before_approval:
        return False
    if not rules.require_evidence:
        return True
    return review_notes(text) is not None and evidence_found(text, phase) >= rules.evidence_min_match
