"""How the steps of a proof that was repeated compare with those of its certificate."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from logos.domain.proof import AcceptanceTests, CountedTests, ProofRules, ProofStep
from logos.flows.proof.test_ids import function_of
from logos.views.proof import StepRecord
from logos.views.text import count

_MOST_NAMES = 5
# What is planted has random words in it, and may be another part of the tests where the command takes longer.
_RANDOM = (ProofStep.CANARY,)
_STATUSES = ("passed", "failed", "skipped")


@dataclass(frozen=True, slots=True)
class StoredStep:
    """What a certificate says of a step, as far as a repetition must agree with it."""

    step: ProofStep
    turn: str
    commit: str
    tree: str
    exit_code: int
    tests: CountedTests | None
    subject: tuple[str, ...]
    supports: bool


@dataclass(frozen=True, slots=True)
class StoredDeclaration:
    """A pattern of guarded paths that may change."""

    path: str


@dataclass(frozen=True, slots=True)
class StoredFailure:
    """Failures of before the run that were declared unrelated to it."""

    test: str
    why: str


@dataclass(frozen=True, slots=True)
class StoredProof:
    """The part of a certificate that can be repeated."""

    run: str
    flow: str
    rules: ProofRules
    prefix: str
    changed: tuple[str, ...] | None
    declared: tuple[StoredDeclaration, ...]
    baseline: StoredStep
    steps: tuple[StoredStep, ...]
    unrelated: tuple[StoredFailure, ...] = ()
    acceptance: AcceptanceTests | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """What a repeated step shows that the certificate does not."""

    step: str
    what: str
    then: str
    now: str


@dataclass(frozen=True, slots=True)
class Repetition:
    """The steps as they ran again, and how they differ from the certificate."""

    run: str
    steps: tuple[StepRecord, ...]
    differences: tuple[Difference, ...]

    @property
    def agrees(self) -> bool:
        return not self.differences

    @property
    def exit_code(self) -> int:
        return 0 if self.agrees else 1


def compared(then: Iterable[StoredStep], now: Iterable[StepRecord]) -> Iterator[Difference]:
    """The differences between two proofs, the tests before the run included."""
    stored, ran = {step.step: step for step in then}, {step.step: step for step in now}
    for step in dict.fromkeys((*stored, *ran)):
        old, new = stored.get(step), ran.get(step)
        if old is None or new is None:
            has = "it ran", "it is missing"
            yield Difference(step, "the step", *(has if old is not None else has[::-1]))
        else:
            yield from _of_step(old, new)


def _of_step(then: StoredStep, now: StepRecord) -> Iterator[Difference]:
    step = then.step.value
    if then.supports is not now.supports:
        words = {True: "it supports the PASS", False: "it does not support the PASS"}
        yield Difference(step, "the verdict", words[then.supports], f"{words[now.supports]}: {now.shows}")
    if then.step in _RANDOM:
        return
    if then.exit_code != now.exit_code:
        yield Difference(step, "the exit code", str(then.exit_code), str(now.exit_code))
    if then.tree != now.tree:
        yield Difference(step, "the files", f"tree {then.tree[:12]}", f"tree {now.tree[:12]}")
    if (then.tests is None) is not (now.tests is None):
        words = {True: "not counted", False: "counted"}
        yield Difference(step, "the tests", words[then.tests is None], words[now.tests is None])
    elif then.tests is not None and now.tests is not None:
        yield from _of_tests(step, then.tests, now.tests)


def _of_tests(step: str, then: CountedTests, now: CountedTests) -> Iterator[Difference]:
    """By function: parameters may have random names. Tests that are flaky on either side are not compared."""
    unsure = {function_of(test) for test in (*then.flaky, *now.flaky)}
    for status in _STATUSES:
        old, new = (Counter(map(function_of, getattr(tests, status))) for tests in (then, now))
        differing = sorted(test for test in {*old, *new} - unsure if old[test] != new[test])
        if differing:
            what = f"tests that {status}" if status != "skipped" else "skipped tests"
            yield Difference(step, what, _told(differing, old), _told(differing, new))


def _told(tests: list[str], counted: Counter[str]) -> str:
    """Which of these tests there are."""
    there = [test for test in tests if counted[test]]
    more = f" and {len(there) - _MOST_NAMES} more" if len(there) > _MOST_NAMES else ""
    return ", ".join(there[:_MOST_NAMES]) + more if there else f"none of {count(len(tests), 'test')}"
