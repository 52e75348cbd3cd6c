"""Which step of a proof is next, and whether the one that ran supports a PASS."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from logos.domain.events import ProofRan
from logos.domain.proof import AcceptanceTests, CountedTests, ProofRules, ProofStep
from logos.domain.records import replace
from logos.domain.turns import Prove, TurnId
from logos.flows.condense import tail
from logos.flows.proof.acceptance import failure_of_blind
from logos.flows.proof.guarded import allowed, is_guarded, is_test
from logos.flows.proof.test_ids import fewer_cases, file_of, is_whole_file, replaced_in

# How many names a message lists.
_MOST_NAMES = 12
_OUTPUT_LINES = 25
# A proof of a command that takes so many seconds costs at most so many runs of it.
_LONG = 10.0
_PRICE = 2.5
# What a narrowed run takes besides its tests, and how much longer tests take that fail.
_MARGIN = 0.1
_FAILING = 1.2

# The steps in which the tests that there are must pass.
_OWN = (ProofStep.RESULT, ProofStep.GUARDED)
_BLIND = (ProofStep.BLIND, ProofStep.BLIND_BASE)

UNTESTED = "no new or changed test fails without the change"


@dataclass(frozen=True, slots=True)
class ProofProgress:
    """How far the proof of one result has come; `step` is due, None: all steps support the PASS."""

    result: str
    # The paths that differ from the base; None: too many to name.
    changed: tuple[str, ...] | None
    declared: tuple[str, ...] = ()
    step: ProofStep | None = ProofStep.RESULT
    ran: tuple[ProofRan, ...] = ()
    # The tests that failed before the run and may go on failing, because an approved analysis says why.
    unrelated: tuple[str, ...] = ()
    # Blind acceptance tests that the result must pass as well.
    acceptance: AcceptanceTests | None = None

    @property
    def untested(self) -> bool:
        """Whether nothing shows that the tests would notice if the change were not there."""
        red = next((ran for ran in self.ran if ran.step is ProofStep.RED), None)
        return red is None or not _is_red(red)


@dataclass(frozen=True, slots=True)
class Judgement:
    """`failure`: why the result does not pass. `pause`: why nothing can be proven here, which a person must mend."""

    progress: ProofProgress
    failure: str = ""
    pause: str = ""


def action_for(progress: ProofProgress, baseline: ProofRan, rules: ProofRules, prefix: str) -> Prove:
    """The step that is due."""
    assert progress.step is not None
    return Prove(
        TurnId(f"{prefix}.proof.{progress.step}"),
        progress.step,
        rules,
        baseline.commit,
        progress.result,
        progress.changed or (),
        progress.declared,
        network=baseline.room.network,
        lent=baseline.room.lent,
        before=baseline.tests,
        was_green=baseline.exit_code == 0,
        passed=_passed(progress) if progress.step is ProofStep.CANARY else (),
        share=_share(progress, baseline, rules),
        acceptance=progress.acceptance if progress.step in _BLIND else None,
    )


def _passed(progress: ProofProgress) -> tuple[str, ...]:
    """The tests that can be planted: as they were before the run, where there were any."""
    by_step = {ran.step: ran.tests for ran in progress.ran}
    tests = by_step.get(ProofStep.GUARDED) or by_step.get(ProofStep.RESULT)
    return tests.passed if tests is not None else ()


def _share(progress: ProofProgress, baseline: ProofRan, rules: ProofRules) -> float:
    """The part of all tests that may be planted, so that the proof keeps within its price. Quick commands have none."""
    once = baseline.room.seconds
    if progress.step is not ProofStep.CANARY or once < _LONG:
        return 1.0
    seconds = {ran.step: ran.room.seconds for ran in progress.ran}
    guarded = seconds.get(ProofStep.GUARDED, 0.0)
    # The new tests are those that the guarded step has not run. Where it was not run, there are none.
    is_red_due = guarded > 0.0 and bool(test_changes(progress, rules)) and not turned_green(progress, baseline)
    red = max(0.0, seconds[ProofStep.RESULT] - guarded) if is_red_due else 0.0
    left = _PRICE - _MARGIN - (sum(seconds.values()) + red) / once
    return min(1.0, max(0.0, left / _FAILING))


def judged(progress: ProofProgress, ran: ProofRan, baseline: ProofRan, rules: ProofRules) -> Judgement:
    """What a step that was due has shown, and the step after it."""
    if ran.problem:
        return Judgement(progress, pause=f"{ran.turn} proves nothing: {ran.problem}")
    after = replace(progress, ran=(*progress.ran, ran))
    failure = _JUDGES[ran.step](after, ran, baseline, rules)
    if failure:
        return Judgement(replace(after, step=None), failure=failure)
    after = replace(after, step=_next(after, baseline, rules))
    if after.step is None and rules.require_tests and after.untested and not turned_green(after, baseline):
        return Judgement(after, failure=f"{UNTESTED} (proof.require_tests)")
    return Judgement(after)


def turned_green(progress: ProofProgress, baseline: ProofRan) -> tuple[str, ...]:
    """Tests that failed before the run and pass now: they are proof that the change is tested."""
    result = next((ran for ran in progress.ran if ran.step is ProofStep.RESULT), None)
    if baseline.tests is None or result is None or result.tests is None:
        return ()
    passed = {*result.tests.passed}
    files = {file_of(test) for test in passed} - {file_of(test) for test in result.tests.failed}
    return tuple(sorted(test for test in baseline.tests.failed if test in passed or _is_file_in(test, files)))


def still_failing(progress: ProofProgress) -> tuple[str, ...]:
    """Tests that failed before the run and still do, which an approved analysis declared unrelated."""
    failed = {test for ran in progress.ran if ran.step in _OWN and ran.tests is not None for test in ran.tests.failed}
    return tuple(test for test in progress.unrelated if test in failed)


def in_words(progress: ProofProgress, baseline: ProofRan) -> str:
    """What a proof has shown, for the reason of the outcome."""
    by_step = {ran.step: ran for ran in progress.ran}
    result = by_step[ProofStep.RESULT]
    tests = result.tests
    told = [
        f"`{result.command}` passes in a clean room"
        + (f" ({_counted(len(tests.executed))})" if tests is not None else " (tests not counted)")
    ]
    guarded = by_step.get(ProofStep.GUARDED)
    if guarded is not None and guarded.subject:
        told.append(f"so do the tests of before the run ({_listed(guarded.subject, 3)} put back)")
    if (canary := by_step.get(ProofStep.CANARY)) is not None and (canary.subject or tests is not None):
        noticed, unknown = "planted failures are noticed", "but no test could be made to fail on purpose"
        told.append(noticed if canary.subject else unknown)
    green = turned_green(progress, baseline)
    if green:
        told.append(f"{_counted(len(green))} that failed before {'passes' if len(green) == 1 else 'pass'} now")
    elif progress.untested:
        told.append(f"but {UNTESTED}: untested")
    else:
        told.append("new tests fail without the change")
    if ProofStep.BLIND in by_step:
        told.append("it passes acceptance tests that no author of it has seen")
    if still := still_failing(progress):
        told.append(f"still failing, declared unrelated: {_listed(still, 3)}")
    return "; ".join(told)


# -- the next step


def _next(progress: ProofProgress, baseline: ProofRan, rules: ProofRules) -> ProofStep | None:
    """Steps that could show nothing are left out."""
    done = {ran.step for ran in progress.ran}
    # Where no test ran before, none can be put back. The prover knows best which files steer the tests: if none of
    # them has changed, it does not run the command again.
    had_tests = baseline.tests is None or bool(baseline.tests.executed)
    wanted = {
        ProofStep.RESULT: True,
        ProofStep.GUARDED: had_tests and progress.changed != (),
        ProofStep.CANARY: progress.ran[0].tests is not None or rules.plants_scripts,
        ProofStep.RED: bool(test_changes(progress, rules)) and not turned_green(progress, baseline),
        ProofStep.BLIND: progress.acceptance is not None and rules.blind,
    }
    return next((step for step, is_wanted in wanted.items() if is_wanted and step not in done), None)


def guarded_changes(progress: ProofProgress, rules: ProofRules) -> tuple[str, ...]:
    """Changed paths that steer tests and that nobody declared."""
    changed = (path for path in progress.changed or () if is_guarded(path, rules))
    return tuple(path for path in changed if not allowed(path, progress.declared))


def test_changes(progress: ProofProgress, rules: ProofRules) -> tuple[str, ...]:
    return tuple(path for path in progress.changed or () if is_test(path) and is_guarded(path, rules))


# -- the meaning of a step


def _own_tests(progress: ProofProgress, ran: ProofRan, baseline: ProofRan, rules: ProofRules) -> str:
    return _passes(ran, baseline, rules, progress)


def _guarded(progress: ProofProgress, ran: ProofRan, baseline: ProofRan, rules: ProofRules) -> str:
    why = _passes(ran, baseline, rules, progress)
    if not why:
        return ""
    changed = _listed(dict.fromkeys((*guarded_changes(progress, rules), *ran.subject)))
    return (
        "With the tests, and the configuration that steers them, as they were before the run, the result does not "
        "pass. "
        f"This run changed {changed}. Undo these changes, or make the code pass the tests as they were. A test that "
        "must change has to be named in the analysis, under `Tests that must change:`, with the reason, or be allowed "
        f"with --may-change.\n{why}"
    )


def _canary(progress: ProofProgress, ran: ProofRan, baseline: ProofRan, rules: ProofRules) -> str:
    del progress, baseline, rules
    if replaced := _replaced_in(ran):
        return (
            f"While the tests ran, the result has touched what they work with: {_listed(replaced)}. Before the run it "
            "did not. What tests read, call and compare with must stay what it is, and the product must not read them."
        )
    unnoticed = unnoticed_in(ran)
    if unnoticed:
        return (
            f"Logos planted tests that must fail, and {_listed(unnoticed)} did not: something in the result keeps "
            f"tests from failing, or from being run. `{ran.command}` exited {ran.exit_code}:\n{_end(ran)}"
        )
    if ran.exit_code == 0 and any("::" not in planted for planted in ran.subject):
        return (
            f"Logos made {_listed(ran.subject)} fail, but `{ran.command}` exited 0: something in the result forges "
            f"exit codes, or the command ignores them.\n{_end(ran)}"
        )
    if ran.subject and ran.exit_code == 0:
        return f"Planted tests failed, but `{ran.command}` exited 0: its exit code says nothing."
    return ""


def _replaced_in(ran: ProofRan) -> list[str]:
    """What was replaced under the tests: library functions, parts of the runner, their helpers and constants."""
    failed = ran.tests.failed if ran.tests is not None else ()
    return [what for test in failed if (what := replaced_in(test))]


def unnoticed_in(ran: ProofRan) -> list[str]:
    """Planted tests that did not fail as often as they should. Scripts are no tests: their exit code is asked for."""
    planted = [test for test in ran.subject if "::" in test]
    return fewer_cases(planted, ran.tests.failed if ran.tests is not None else ())


def _red(progress: ProofProgress, ran: ProofRan, baseline: ProofRan, rules: ProofRules) -> str:
    del progress, ran, baseline, rules
    # New tests that pass on the old source are told, not refused: a refactoring has such tests.
    return ""


def _blind(progress: ProofProgress, ran: ProofRan, baseline: ProofRan, rules: ProofRules) -> str:
    del baseline, rules
    return failure_of_blind(ran, progress.acceptance)


_JUDGES = {
    ProofStep.RESULT: _own_tests,
    ProofStep.GUARDED: _guarded,
    ProofStep.CANARY: _canary,
    ProofStep.RED: _red,
    ProofStep.BLIND: _blind,
}


def _is_red(ran: ProofRan) -> bool:
    return bool(ran.tests.failed) if ran.tests is not None else ran.exit_code != 0


def _passes(ran: ProofRan, baseline: ProofRan, rules: ProofRules, progress: ProofProgress) -> str:
    """Why the tests of a step do not pass; empty if they do."""
    told = f"`{ran.command}`, run by Logos in a clean room, exited {ran.exit_code}"
    tests, before = ran.tests, baseline.tests
    if tests is None:
        if ran.exit_code != 0:
            return f"{told}:\n{_end(ran)}"
        return f"{told}, but no test reported that it ran; before the run they did" if before is not None else ""
    if not tests.executed:
        return f"{told}, but no test was run:\n{_end(ran)}"
    was_flaky = {*before.flaky} if before is not None else set[str]()
    wrong = failed_tests(ran, baseline, rules, progress.unrelated)
    excused = {*tests.failed} - {*wrong}
    if wrong:
        return f"{told}; {_count(wrong)}: {_listed(wrong)}\n{_end(ran)}"
    newly_flaky = [test for test in tests.flaky if test not in was_flaky]
    if newly_flaky:
        return f"{told}; tests fail now and then, which they did not before the run: {_listed(newly_flaky)}"
    if ran.exit_code != 0 and not excused and not tests.flaky:
        return f"{told}, although no test failed:\n{_end(ran)}"
    missing = _missing(tests, before, progress.declared)
    if missing:
        return f"{told}, but tests of before the run were not run: {_listed(missing)}. Restore them."
    return ""


def failed_tests(ran: ProofRan, baseline: ProofRan, rules: ProofRules, unrelated: Collection[str] = ()) -> list[str]:
    """The tests that failed and should not: neither known to fail, nor flaky before the run, nor planted."""
    if ran.tests is None or ran.step not in _OWN:
        return []
    was_flaky = {*baseline.tests.flaky} if baseline.tests is not None else set[str]()
    free = {*was_flaky, *unrelated}
    return [test for test in ran.tests.failed if test not in free and not _matches(test, rules.known_failing)]


def may_fail(baseline: ProofRan, rules: ProofRules, unrelated: Collection[str]) -> tuple[str, ...]:
    """The tests that failed before the run and may go on failing: a person, or the approved analysis, says so."""
    failed = baseline.tests.failed if baseline.tests is not None else ()
    return tuple(test for test in failed if test in unrelated or _matches(test, rules.known_failing))


def listed(names: Iterable[str]) -> str:
    """The first of these names, for a message."""
    return _listed(names)


def _missing(tests: CountedTests, before: CountedTests | None, declared: Iterable[str]) -> list[str]:
    """Tests that ran before and do not run now, unless their file was declared."""
    if before is None:
        return []
    patterns = tuple(declared)
    files = {file_of(test) for test in tests.executed}
    then = [test for test in before.executed if not allowed(file_of(test), patterns)]
    return sorted(test for test in fewer_cases(then, tests.executed) if not _is_file_in(test, files))


def _is_file_in(test: str, files: Collection[str]) -> bool:
    """Whether an id stands for a file that could not be read as tests before, `a.py::(not collected)`, and now is."""
    return is_whole_file(test) and file_of(test) in files


def _matches(test: str, patterns: Iterable[str]) -> bool:
    return any(pattern in test if "*" not in pattern else fnmatchcase(test, pattern) for pattern in patterns)


def _end(ran: ProofRan) -> str:
    return tail(ran.output.strip(), _OUTPUT_LINES)


def _count(tests: list[str]) -> str:
    return f"{_counted(len(tests))} failed"


def _counted(tests: int) -> str:
    return f"{tests} test{'' if tests == 1 else 's'}"


def _listed(names: Iterable[str], most: int = _MOST_NAMES) -> str:
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more
