"""Counts tests in the output of runners that have no report. The tested program can write to it: totals must agree."""

import re
from collections.abc import Callable, Mapping

from logos.domain.proof import CountedTests

_CARGO_FILE = re.compile(r"^\s*(?:Running (?:unittests )?(?P<file>\S+) \(\S+\)|Doc-tests (?P<crate>\S+))\s*$")
_CARGO_START = re.compile(r"^running (\d+) tests?$")
_CARGO_TEST = re.compile(r"^test (?P<name>.+?)(?: - should panic)? \.\.\. (?P<outcome>ok|FAILED|ignored(?:, .*)?)$")
_CARGO_END = re.compile(r"^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored;")
_CARGO_LINE = re.compile(r" \(line \d+\)")
_OUTCOMES = {"ok": "passed", "FAILED": "failed", "PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}

_GO_TEST = re.compile(r"^\s*--- (?P<outcome>PASS|FAIL|SKIP): (?P<name>\S+) \(\d")
_GO_RUN = re.compile(r"^=== RUN\s+(?P<name>\S+)$")
_GO_PACKAGE = re.compile(r"^(?P<outcome>ok  |FAIL|\?   |---)\t(?P<package>\S+)(?:\t|\s\[|$)")

_Tests = dict[str, str]
_KINDS = ("passed", "failed", "skipped")


def count_output(output: str) -> CountedTests | None:
    """The tests that cargo or go printed; None where neither did."""
    lines = output.splitlines()
    for runner, (mark, read) in _READERS.items():
        if any(mark.match(line) for line in lines):
            return _counted(runner, read(lines))
    return None


class _Numbered:
    """Outcomes by id; an id that occurs again gets a number, as two crates may have the same file and test."""

    def __init__(self) -> None:
        self.outcomes: _Tests = {}

    def add(self, test: str, outcome: str) -> None:
        number = 1
        name = test
        while name in self.outcomes:
            number += 1
            name = f"{test} #{number}"
        self.outcomes[name] = outcome


def _cargo(lines: list[str]) -> _Tests:
    found = _Numbered()
    file = ""
    # The outcomes since `running N tests`; None outside of a block.
    block: dict[str, list[str]] | None = None
    expected = 0
    for line in lines:
        if match := _CARGO_FILE.match(line):
            file = match["file"] or ""
        elif match := _CARGO_START.match(line):
            if block is not None:
                found.add("::(cargo test did not finish)", "failed")
            block, expected = {kind: list[str]() for kind in _KINDS}, int(match[1])
        elif (match := _CARGO_END.match(line)) and block is not None:
            counts = tuple(len(tests) for tests in block.values())
            if counts != tuple(map(int, match.groups())) or sum(counts) != expected:
                found.add("::(the output of cargo test does not agree with its totals)", "failed")
            for outcome, tests in block.items():
                for test in tests:
                    found.add(test, outcome)
            block = None
        elif match := _CARGO_TEST.match(line):
            outcome = _OUTCOMES.get(match["outcome"], "skipped")
            if block is None:
                found.add("::(the output of cargo test does not agree with its totals)", "failed")
            else:
                block[outcome].append(_cargo_id(file, match["name"]))
    if block is not None:
        found.add("::(cargo test did not finish)", "failed")
    return found.outcomes


def _cargo_id(file: str, name: str) -> str:
    """`src/lib.rs - add (line 3)` is a documentation test; its line changes with every edit above it."""
    path, separator, rest = name.partition(" - ")
    return f"{path}::{_CARGO_LINE.sub('', rest)}" if separator else f"{file}::{name}"


def _go(lines: list[str]) -> _Tests:
    found = _Numbered()
    outcomes: _Tests = {}
    started: set[str] = set()
    for line in lines:
        if match := _GO_RUN.match(line):
            started.add(match["name"])
        elif match := _GO_TEST.match(line):
            outcomes[match["name"]] = _OUTCOMES[match["outcome"]]
        elif match := _GO_PACKAGE.match(line):
            package = match["package"]
            for test in sorted(started | outcomes.keys()):
                found.add(f"::{package}.{test}", outcomes.get(test, "failed") if test in started else "failed")
            # A package without test files has run none.
            is_odd = match["outcome"] == "?   " and started
            if is_odd or (match["outcome"] == "FAIL" and "failed" not in outcomes.values()):
                found.add(f"::{package}.(did not run)", "failed")
            outcomes, started = {}, set()
    if started or outcomes:
        found.add("::(go test did not finish)", "failed")
    return found.outcomes


def _counted(runner: str, outcomes: Mapping[str, str]) -> CountedTests:
    kinds = {kind: tuple(sorted(test for test, outcome in outcomes.items() if outcome == kind)) for kind in _KINDS}
    return CountedTests(runner, kinds["passed"], kinds["failed"], kinds["skipped"])


# The line that tells the runner, and what reads its output.
_READERS: dict[str, tuple[re.Pattern[str], Callable[[list[str]], _Tests]]] = {
    "cargo": (_CARGO_START, _cargo),
    "go": (_GO_RUN, _go),
}
