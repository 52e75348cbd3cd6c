"""Shortens handoffs to the parts the next agent needs; never empties a text that had content."""

import re
from functools import cache

from logos.domain.plans import CondenseRules

_FOR_PROGRAMMER = ("OpenSpec artifacts created/updated", "Implementation notes for programmer", "Risks/assumptions")
_FOR_TESTER = ("Files changed", "Behavior implemented")
_ANALYST_PARTS = ("Scope", *_FOR_PROGRAMMER, "Downstream impact")
_PROGRAMMER_PARTS = ("openspec-apply-change result", *_FOR_TESTER, "Known limitations")

_DECOR = r"[-*#_`\s]*"
# A section ends at the next known heading or marker.
_MARKER = re.compile(rf"^{_DECOR}(?:ANALYST_SUMMARY|PROGRAMMER_SUMMARY|REVIEW_RESULT|REVIEW_NOTES|RESULT|EVIDENCE):")

# A response may have millions of characters: no more than this is searched, or handed on as one text.
MAX_CHARACTERS = 200_000
# A limit of lines is one of characters, too: this many for each line, however long the lines are.
LINE_CHARACTERS = 2_000
CUT = "[… cut by Logos: too long …]"


def capped(text: str) -> str:
    """The text as it is; of one that is too long, its beginning and its end."""
    half = MAX_CHARACTERS // 2
    return text if len(text) <= MAX_CHARACTERS else f"{text[:half]}\n{CUT}\n{text[-half:]}"


def head(text: str, lines: int) -> str:
    return _first(capped(text.strip()).splitlines(), lines)


def tail(text: str, lines: int) -> str:
    if lines <= 0:
        return ""
    last, most = "\n".join(capped(text.strip()).splitlines()[-lines:]), lines * LINE_CHARACTERS
    return last if len(last) <= most else f"{CUT}\n{last[-most:]}"


def _first(lines: list[str], count: int) -> str:
    first, most = "\n".join(lines[:count]), count * LINE_CHARACTERS
    return first if len(first) <= most else f"{first[:most]}\n{CUT}"


def _starts(line: str, title: str) -> bool:
    return _titled(title).match(line) is not None


@cache
def _titled(title: str) -> re.Pattern[str]:
    return re.compile(rf"{_DECOR}{re.escape(title)}[*_`]*:")


def _from(lines: list[str], title: str) -> list[str]:
    return lines[next((n for n, line in enumerate(lines) if title in line and _starts(line, title)), len(lines)) :]


def _section(lines: list[str], title: str, titles: tuple[str, ...]) -> list[str]:
    found = _from(lines, title)
    first, rest = found[:1], found[1:]
    with_colon = ((n, line) for n, line in enumerate(rest) if ":" in line)
    ends = (n for n, line in with_colon if _MARKER.match(line) or any(t in line and _starts(line, t) for t in titles))
    return [*first, *rest[: next(ends, len(rest))]]


def _parts(text: str, wanted: tuple[str, ...], titles: tuple[str, ...], rules: CondenseRules) -> str:
    if not rules.cross_phase:
        return capped(text.strip())
    lines, cap = [line.rstrip() for line in capped(text).splitlines() if line.strip()], rules.max_cross_phase_lines
    found = [line for title in wanted for line in _section(lines, title, titles)]
    return _first(found, cap) if found else head(text, cap)


def analyst_for_programmer(text: str, rules: CondenseRules) -> str:
    return _parts(text, _FOR_PROGRAMMER, _ANALYST_PARTS, rules)


def programmer_for_tester(text: str, rules: CondenseRules) -> str:
    return _parts(text, _FOR_TESTER, _PROGRAMMER_PARTS, rules)


def review_notes(text: str, rules: CondenseRules) -> str:
    """From `REVIEW_NOTES:` onward, or the head of the text where there is no such marker."""
    if not rules.review_feedback:
        return capped(text.strip())
    text = capped(text)
    notes = "\n".join(_from(text.splitlines(), "REVIEW_NOTES"))
    return head(notes or text, rules.max_feedback_lines)


def test_evidence(text: str, rules: CondenseRules) -> str:
    """The `RESULT:` line and the `EVIDENCE:` section onward, or the head of the text."""
    text = capped(text)
    lines = text.splitlines()
    results = [line for line in lines if "RESULT" in line and _starts(line, "RESULT")]
    # Only the FAIL line is handed on: a PASS beside it would mislead the programmer.
    result = next((line for line in results if "FAIL" in line), next(iter(results), None))
    evidence = _from(lines, "EVIDENCE")
    if result is None and not evidence:
        return head(text, rules.test_evidence_lines)
    if not evidence:
        evidence = [line for line in lines if line != result]
    return head("\n".join([*([result] if result else []), *evidence]), rules.test_evidence_lines)
