"""Shortens handoffs to the parts the next agent needs; never empties a text that had content."""

from __future__ import annotations

import re

from logos.domain.plans import CondenseRules

_FOR_PROGRAMMER = ("OpenSpec artifacts created/updated", "Implementation notes for programmer", "Risks/assumptions")
_FOR_TESTER = ("Files changed", "Behavior implemented")
_ANALYST_PARTS = ("Scope", *_FOR_PROGRAMMER, "Downstream impact")
_PROGRAMMER_PARTS = ("openspec-apply-change result", *_FOR_TESTER, "Known limitations")

_DECOR = r"[-*#_`\s]*"
# A section ends at the next known heading or marker.
_MARKER = re.compile(rf"^{_DECOR}(?:ANALYST_SUMMARY|PROGRAMMER_SUMMARY|REVIEW_RESULT|REVIEW_NOTES|RESULT|EVIDENCE):")


def head(text: str, lines: int) -> str:
    return "\n".join(text.strip().splitlines()[:lines])


def tail(text: str, lines: int) -> str:
    return "\n".join(text.strip().splitlines()[-lines:]) if lines > 0 else ""


def _starts(line: str, title: str) -> bool:
    return re.match(rf"{_DECOR}{re.escape(title)}[*_`]*:", line) is not None


def _from(lines: list[str], title: str) -> list[str]:
    """The lines from a title onward."""
    return lines[next((n for n, line in enumerate(lines) if _starts(line, title)), len(lines)) :]


def _section(lines: list[str], title: str, titles: tuple[str, ...]) -> list[str]:
    found = _from(lines, title)
    first, rest = found[:1], found[1:]
    ends = (n for n, line in enumerate(rest) if _MARKER.match(line) or any(_starts(line, t) for t in titles))
    return [*first, *rest[: next(ends, len(rest))]]


def _parts(text: str, wanted: tuple[str, ...], titles: tuple[str, ...], rules: CondenseRules) -> str:
    if not rules.cross_phase:
        return text.strip()
    lines, cap = text.splitlines(), rules.max_cross_phase_lines
    found = [line.rstrip() for title in wanted for line in _section(lines, title, titles) if line.strip()]
    return "\n".join(found[:cap]) if found else head(text, cap)


def analyst_for_programmer(text: str, rules: CondenseRules) -> str:
    return _parts(text, _FOR_PROGRAMMER, _ANALYST_PARTS, rules)


def programmer_for_tester(text: str, rules: CondenseRules) -> str:
    return _parts(text, _FOR_TESTER, _PROGRAMMER_PARTS, rules)


def review_notes(text: str, rules: CondenseRules) -> str:
    """From `REVIEW_NOTES:` onward, or the head of the text where there is no such marker."""
    if not rules.review_feedback:
        return text.strip()
    notes = "\n".join(_from(text.splitlines(), "REVIEW_NOTES"))
    return head(notes or text, rules.max_feedback_lines)


def test_evidence(text: str, rules: CondenseRules) -> str:
    """The `RESULT:` line and the `EVIDENCE:` section onward, or the head of the text."""
    lines = text.splitlines()
    results = [line for line in lines if _starts(line, "RESULT")]
    # Only the FAIL line is handed on: a PASS beside it would mislead the programmer.
    result = next((line for line in results if "FAIL" in line), next(iter(results), None))
    evidence = _from(lines, "EVIDENCE")
    if result is None and not evidence:
        return head(text, rules.test_evidence_lines)
    if not evidence:
        evidence = [line for line in lines if line != result]
    return head("\n".join([*([result] if result else []), *evidence]), rules.test_evidence_lines)
