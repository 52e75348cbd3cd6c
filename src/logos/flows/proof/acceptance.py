"""Blind acceptance tests: what their author says they check, and what may be told of how they ran."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from logos.domain.events import ProofRan
from logos.domain.proof import AcceptanceTests, CountedTests
from logos.domain.records import replace
from logos.flows.proof.declared import NamedTest, named_below
from logos.flows.proof.test_ids import file_of

TITLE = "acceptance tests"
MOST_REQUIREMENTS = 200
NOT_TOLD = "(the output is kept outside the log: it would show the acceptance tests)"
# The id of a blind test in the log is `blind-FILE::REQUIREMENT`, both as numbers; 0: it is in no line of the response.
_MASK = "blind-{}::{}"

_VALUE = re.compile(r"\d+(?:[.,]\d+)*|'[^']+'|\"[^\"]+\"|`[^`]+`")
_CHANGED = "::(changed while the tests ran)"
# Where a runner names no files, also what became of a whole package.
_IS_BROKEN = re.compile(r"::(?:.*\.)?\([\w ]+\)")
BROKEN = _MASK.format(0, 0)


def requirements_in(response: str) -> tuple[NamedTest, ...]:
    """The lines `- path::test: requirement` below "Acceptance tests:"."""
    return named_below(TITLE, response, MOST_REQUIREMENTS)


def problem_with(tests: Mapping[str, str], known: Collection[str], response: str, told: str) -> str:
    """Why tests cannot be used; it names none, because agents can read it.

    `known` are the paths of the project's files, `told` is what every agent knows of the task.
    """
    named = requirements_in(response)
    if not tests:
        return "no file is in `tests/`"
    if taken := sum(path in known for path in tests):
        return f"{taken} of {len(tests)} files have the path of a file of the project; take new paths"
    if not named:
        return "the response has no line `- path::test: requirement` below a line `Acceptance tests:`"
    if wrong := sum(file_of(one.test) not in tests for one in named):
        return f"{wrong} of {len(named)} lines of the response begin with the path of no file in `tests/`"
    whole = "\n".join(tests.values())
    if shown := sum(_shows_value(one.why, whole, told) for one in named):
        return f"{shown} of {len(named)} lines show a value of their test; tell the requirement without it"
    return ""


def _shows_value(sentence: str, tests: str, told: str) -> bool:
    """Whether a sentence has a number or a quotation that is in the tests and not in the task."""
    values = (value.strip("'\"`") for value in _VALUE.findall(sentence))
    return any(len(value) > 1 and value in tests and value not in told for value in values)


def files_named(named: Iterable[NamedTest]) -> list[str]:
    return sorted({file_of(one.test) for one in named})


def sealed(ran: ProofRan, named: Sequence[NamedTest]) -> ProofRan:
    """A step as it may be in the log: no name, value or output; of what fails, the requirement."""
    tests = _masked(ran.tests, named) if ran.tests is not None else None
    failing = {*tests.failed, *tests.flaky, *tests.skipped} if tests is not None else set[str]()
    numbers = {int(test.partition("::")[2]) for test in failing} - {0}
    subject = tuple(named[number - 1].why for number in sorted(numbers))
    return replace(ran, tests=tests, output=NOT_TOLD, subject=subject)


def _masked(tests: CountedTests, named: Sequence[NamedTest]) -> CountedTests:
    files = files_named(named)

    def masks(ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({mask for test in ids for mask in _masks(test, named, files)}))

    failed, flaky, skipped = (masks(ids) for ids in (tests.failed, tests.flaky, tests.skipped))
    bad = {*failed, *flaky, *skipped}
    passed = tuple(mask for mask in masks(tests.passed) if mask not in bad)
    # Ids that Logos makes itself: the report was changed, the run did not end, a file was changed while it ran.
    broken = any(_IS_BROKEN.fullmatch(test) or test.endswith(_CHANGED) for test in tests.failed)
    return CountedTests(tests.runner, passed, (*((BROKEN,) if broken else ()), *failed), skipped, flaky)


def _masks(test: str, named: Sequence[NamedTest], files: list[str]) -> Iterator[str]:
    """What stands for a test in the log; nothing for a test that is not one of these."""
    file = file_of(test)
    own = [number for number, one in enumerate(named, 1) if _is(test, one.test)]
    if _is_made_up(test) and file:
        own = [number for number, one in enumerate(named, 1) if file_of(one.test) == file]
    yield from (_MASK.format(files.index(file_of(named[number - 1].test)) + 1, number) for number in own)
    if not own and file in files:
        yield _MASK.format(files.index(file) + 1, 0)


def _is(test: str, wanted: str) -> bool:
    """Whether an id that a runner reports is the test that a line names; groups may be written differently."""
    file, one, other = file_of(test), _name(test), _name(wanted)
    same_file = file in ("", file_of(wanted))
    return same_file and bool(other) and (one == other or one.endswith(f".{other}") or other.endswith(f".{one}"))


def _is_made_up(test: str) -> bool:
    """Whether an id stands for no single test: `path::(not collected)`."""
    return test.partition("::")[2].startswith("(")


def _name(test: str) -> str:
    name = test.partition("::")[2].partition("[")[0]
    for separator in ("::", " > ", " › "):
        name = name.replace(separator, ".")
    return name.strip()


# -- what a step shows


def not_run(ran: ProofRan) -> str:
    """Why tests that were written cannot be used, after they ran on the files before the run."""
    if ran.tests is None:
        return (
            "" if ran.exit_code != 0 else "the test command succeeds with them before the change: it may not run them"
        )
    return "" if ran.tests.executed else "the test command does not run them where they are; put them where it looks"


def failure_of_blind(ran: ProofRan, tests: AcceptanceTests | None) -> str:
    """Why a result does not pass acceptance tests; empty if it does. It tells requirements, no test."""
    if tests is None:
        return "there are no acceptance tests"
    head = "They check what the task asks for; nobody who works on it sees them."
    if ran.tests is None:
        return f"With blind acceptance tests, the test command exited {ran.exit_code}. {head}" if ran.exit_code else ""
    wrong = {*ran.tests.failed, *ran.tests.flaky, *ran.tests.skipped}
    ran_files = {file_of(test) for test in (*ran.tests.passed, *wrong)}
    missing = tests.files_named - len(ran_files)
    if wrong:
        told = f"{len(wrong)} of {len({*ran.tests.passed, *wrong})} blind acceptance tests fail. {head}"
        return f"{told} Not met: {'; '.join(ran.subject)}" if ran.subject else told
    if missing > 0:
        return (
            f"{missing} of {tests.files_named} files of blind acceptance tests could not be run on the result. {head}"
        )
    if ran.exit_code != 0 and not ran.tests.passed:
        return f"With blind acceptance tests, the test command exited {ran.exit_code}. {head}"
    return ""
