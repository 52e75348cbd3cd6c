"""The findings of reviewers and tests: ids that stay the same when they are raised again, and a ledger of their states.

What agents write is data here: a finding is one short line of it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from logos.domain.records import replace
from logos.domain.turns import TurnId
from logos.flows.condense import capped
from logos.flows.cycle.verdicts import review_notes, says_approved
from logos.flows.proof.test_ids import function_of

MOST_FINDINGS = 100
LONGEST_TEXT = 80
# The findings of a tester, and of what Logos runs itself, are about the same tests.
TESTS = "tests"
LOGOS = "logos"
# How many findings a prompt lists.
_MOST_TOLD = 30
# Longer lines are no findings but output.
_LONGEST_LINE = 2_000


class FindingState(StrEnum):
    NEW = "new"
    OPEN = "open"
    SETTLED = "settled"
    AGAIN = "raised again"


@dataclass(frozen=True, slots=True)
class RaisedFinding:
    """A finding as one turn has raised it."""

    id: str
    text: str


@dataclass(frozen=True)
class TrackedFinding:
    """A finding of the ledger. `source` is the reviewer's role, or `tests`; `raised_by` raised it first."""

    id: str
    text: str
    source: str
    raised_by: str
    first: TurnId
    last: TurnId
    state: FindingState = FindingState.NEW


# -- the ledger

_RAISED = {
    FindingState.NEW: FindingState.OPEN,
    FindingState.OPEN: FindingState.OPEN,
    FindingState.SETTLED: FindingState.AGAIN,
    FindingState.AGAIN: FindingState.OPEN,
}
Findings = tuple[TrackedFinding, ...]
Raised = tuple[RaisedFinding, ...]


def updated(findings: Findings, source: str, who: str, turn: TurnId, raised: Iterable[RaisedFinding]) -> Findings:
    """The ledger after a turn; findings of the same source that it does not raise are settled."""
    now = {finding.id: finding for finding in raised}
    met = [_met(known, turn, again=known.id in now) if known.source == source else known for known in findings]
    known = {finding.id for finding in findings}
    new = [TrackedFinding(key, own.text, source, who, turn, turn) for key, own in now.items() if key not in known]
    return _most([*met, *new])


def _met(known: TrackedFinding, turn: TurnId, *, again: bool) -> TrackedFinding:
    if again:
        return replace(known, state=_RAISED[known.state], last=turn)
    return known if known.state is FindingState.SETTLED else replace(known, state=FindingState.SETTLED)


def _most(findings: list[TrackedFinding]) -> Findings:
    """At most so many; the oldest settled ones are forgotten first."""
    excess = len(findings) - MOST_FINDINGS
    if excess > 0:
        settled = [finding.id for finding in findings if finding.state is FindingState.SETTLED][:excess]
        findings = [finding for finding in findings if finding.id not in {*settled}][:MOST_FINDINGS]
    return tuple(findings)


def as_list(findings: Iterable[TrackedFinding]) -> str:
    """One line per finding, those that are not settled first; empty without any."""
    ordered = sorted(findings, key=lambda finding: finding.state is FindingState.SETTLED)
    lines = [f"- [{finding.id}] {finding.state}: {finding.text}" for finding in ordered[:_MOST_TOLD]]
    more = len(ordered) - _MOST_TOLD
    return "\n".join([*lines, f"- and {more} more"] if more > 0 else lines)


def raised_anew(findings: Findings, sources: Iterable[str]) -> str:
    """A list of those that are new or raised again; empty where all that stand are new, for then they are no news."""
    wanted = {*sources}
    standing = [own for own in findings if own.source in wanted and own.state is not FindingState.SETTLED]
    if all(finding.state is FindingState.NEW for finding in standing):
        return ""
    return as_list(finding for finding in standing if finding.state is not FindingState.OPEN)


# -- the findings of a turn

_TEMPORARY = re.compile(r"(?:/private)?(?:/var)?/(?:tmp|folders)/[^\s'\"`,;)]*")
_RANDOM = re.compile(r"\b(?:0x[0-9a-f]+|[0-9a-f]{8,})\b")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*(?:\s?(?:ms|s|sec|seconds|min)\b)?")
_LEAD = re.compile(r"^[\s|>*#_`•+-]+")
_NUMBERED = re.compile(r"^[\s*_]*\d{1,3}[.)][\s*_]+(?P<text>\S.*)$")
_BULLET = re.compile(r"^\s*[-*•+]\s+(?P<text>\S.*)$")
_QUOTED_ID = re.compile(r"^[*_`\s]*\[(?P<id>[0-9a-f]{6})\][*_`:\s]*(?P<text>.*)$")


def normalised(text: str) -> str:
    """A line without what differs from one run to the next: case, numbers, times, temporary folders."""
    text = _TEMPORARY.sub("", _LEAD.sub("", text[:_LONGEST_LINE]).lower())
    return " ".join(_NUMBER.sub("#", _RANDOM.sub("#", text)).split())


def in_review(text: str, source: str, findings: Findings) -> Raised:
    """The items under `REVIEW_NOTES:`; one that begins with the id of an earlier finding is that finding."""
    # Named as elsewhere, so that the text is read once.
    if says_approved(text, strict=True):
        return ()
    known = {finding.id: finding.text for finding in findings if finding.source == source}
    notes = review_notes(capped(text)) or ""
    return _once(_item(item, source, known) for item in _items(notes))


def _items(notes: str) -> list[str]:
    """The numbered items; without any the bulleted ones; without any the first line."""
    lines = [line for line in notes.splitlines() if line.strip()]
    for form in (_NUMBERED, _BULLET):
        if items := [found["text"] for line in lines if (found := form.match(line[:_LONGEST_LINE]))]:
            return items
    return lines[:1]


def _item(item: str, source: str, known: dict[str, str]) -> RaisedFinding:
    quoted = _QUOTED_ID.match(item)
    if quoted and quoted["id"] in known:
        return RaisedFinding(quoted["id"], known[quoted["id"]])
    return _raised(source, normalised(item), item)


_PART = re.compile(r"^[-*#_`\s]*(failed criteria|recommended next fix|commands run|expected criteria)\b", re.IGNORECASE)
_MARKER = re.compile(r"^[-*#_`\s]*(?:RESULT|EVIDENCE):")
# A word of a line, and the test that it names: `path::test`, or `test_name`, but not the name of a file or folder.
_WORD = re.compile(r"[^\s'\"`(),;]+")
_TEST = re.compile(r"[\w./\\-]+\.\w{1,5}::[\w.:<>-]*\w(?:\[[^\]]*\])?|(?:[\w.]+\.)?(?P<name>test_\w+)(?=[.:!?]?$)")
_LONGEST_WORD = 300
_GOOD = re.compile(r"\b(?:pass(?:ed|es)?|ok)\b", re.IGNORECASE)
_BAD = re.compile(r"\b(?:fail\w*|error\w*|not ok|expected|wrong)\b", re.IGNORECASE)


def in_evidence(evidence: str) -> Raised:
    """The failing tests that a text names; without any, its lines."""
    lines = [line[:_LONGEST_LINE] for line in _about_failures(capped(evidence).splitlines())]
    suspects = (line for line in lines if not _GOOD.search(line) or _BAD.search(line))
    tests = of_tests(test for line in suspects for word in _WORD.findall(line) if (test := _test_in(word)))
    return tests or _once(_raised(TESTS, normalised(line), line) for line in lines if normalised(line))


def _test_in(word: str) -> str:
    # Most words name none, and to look for these is many times as fast.
    named = ("::" in word or "test_" in word) and len(word) <= _LONGEST_WORD
    found = _TEST.match(word) if named else None
    return (found["name"] or found[0]) if found else ""


def _about_failures(lines: Sequence[str]) -> list[str]:
    """The tester's failed criteria, where it lists them; else everything but the markers."""
    failed, inside = list[str](), False
    for line in lines:
        part = _PART.match(line)
        inside = part[1].lower() == "failed criteria" if part else inside
        if inside:
            failed.append(_PART.sub("", line).lstrip("*_`: ") if part else line)
    return [line for line in failed if line.strip()] or [line for line in lines if not _MARKER.match(line)]


def of_tests(tests: Iterable[str]) -> Raised:
    """Failing tests by id; all cases of a parametrized test are one finding."""
    return _once(_raised(TESTS, name, name) for name in map(function_of, tests))


def in_failed_step(failure: str, planted: Iterable[str]) -> Raised:
    """What a step of a proof has found besides failing tests; planted tests have other names each time."""
    for name in planted:
        failure = failure.partition("\n")[0].replace(name, "a planted test")
    return in_evidence(failure)


def _raised(source: str, key: str, text: str) -> RaisedFinding:
    return RaisedFinding(sha256(f"{source}\0{key}".encode("utf-8", "replace")).hexdigest()[:6], _short(text))


def _short(text: str) -> str:
    """A text as one line of printable characters, cut; a backtick that begins it stays: the other one stands later."""
    bare = _LEAD.sub("", text)
    lead = "`" if text[: len(text) - len(bare)].endswith("`") and bare.count("`") % 2 else ""
    start = f"{lead}{bare}"[: 4 * LONGEST_TEXT]
    printable = start if start.isprintable() else "".join(one if one.isprintable() else " " for one in start)
    line = " ".join(printable.split())
    return line if len(line) <= LONGEST_TEXT else line[: LONGEST_TEXT - 3] + "..."


def _once(raised: Iterator[RaisedFinding]) -> Raised:
    return tuple({finding.id: finding for finding in raised}.values())
