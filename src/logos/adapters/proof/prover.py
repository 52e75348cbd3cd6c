"""Runs the steps of a proof in clean rooms and reports what happened; it never decides what that means."""

import os
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from logos.adapters.commands import UNKNOWN
from logos.adapters.git.contents import seen_from
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.proof import lending
from logos.adapters.proof.bubblewrap import NAME, Bubblewrap, working
from logos.adapters.proof.checkout import Checkouts, NotAsStored, SnapshotStore, repository_store
from logos.adapters.proof.copies import TreeCopies
from logos.adapters.proof.environment import folders_on_path
from logos.adapters.proof.lending import Borrowed, Lender
from logos.adapters.proof.missing import not_in_rooms
from logos.adapters.proof.rooms import Rooms, rooms_folder
from logos.adapters.proof.running import RoomOrder, RoomRun, RoomRunner
from logos.adapters.proof.steps import LARGEST_TEXT, StepFiles, differing, files_of, planted_on_base, steering_of
from logos.domain.events import ProofRan
from logos.domain.proof import CountedTests, Network, ProofStep, RoomReport
from logos.domain.turns import Prove
from logos.flows.proof.canary_rust import RUST
from logos.flows.proof.test_ids import fewer_cases, file_of, function_of, replaced_in

# In the other steps tests are meant to fail.
_RERUN = (ProofStep.BASELINE, ProofStep.RESULT, ProofStep.GUARDED, ProofStep.BLIND)
_ON_BASE = (ProofStep.BASELINE, ProofStep.RED, ProofStep.BLIND_BASE)
_MOST_NAMED = 20
# How runners of scripts report a file that they cannot read.
_UNREAD = ("::(file)", "::(did not run)")
_HINT = "set proof.setup to a command that makes the dependencies in the room"


def _store_of(work_dir: Path, snapshots: GitSnapshots | TreeCopies | SnapshotStore) -> SnapshotStore:
    match snapshots:
        case SnapshotStore():
            return snapshots
        case TreeCopies():
            return snapshots.store
        case GitSnapshots():
            return repository_store(work_dir)


class RoomProver:
    """The port Prover. Without a sandbox, rooms are plain folders, and the network cannot be turned off.

    What provers of killed drivers have left, rooms and processes, is removed first.
    """

    def __init__(
        self,
        work_dir: Path,
        snapshots: GitSnapshots | TreeCopies | SnapshotStore,
        find_sandbox: Callable[[Path], Bubblewrap | None] = working,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._store = store = _store_of(work_dir, snapshots)
        self._sandbox = sandbox = find_sandbox(store.top)
        self._environ = dict(os.environ if environ is None else environ)
        self._rooms = Rooms(rooms_folder())
        self._checkouts = Checkouts(store, self._rooms.folder / "git")
        self._runner = RoomRunner(self._checkouts, self._rooms, sandbox, self._environ)
        self._lender = Lender(store)
        # The files that steer tests and that the tests before the run change themselves; None: not known.
        self._usual: frozenset[str] | None = None
        # The runs on results with their own tests, by commit.
        self._results: dict[str, RoomRun] = {}

    def changed(self, base: str, result: str) -> tuple[str, ...]:
        return tuple(differing(self._checkouts, base, result))

    def contents(self, commit: str, is_wanted: Callable[[str], bool]) -> dict[str, bytes]:
        """The files of a snapshot with a wanted path relative to the work dir; without links and larger ones."""
        entries = self._checkouts.entries(commit, self._checkouts.parent(commit))
        inside = {seen_from(self._store.prefix, path): entry for path, entry in entries.items()}
        wanted = {path: entry for path, entry in inside.items() if is_wanted(path)}
        found = self._checkouts.contents(wanted.values(), LARGEST_TEXT)
        return {path: found[entry.blob] for path, entry in wanted.items() if entry.blob in found}

    def paths(self, commit: str) -> frozenset[str]:
        """The paths of a snapshot's files relative to the work dir."""
        entries = self._checkouts.entries(commit, self._checkouts.parent(commit))
        return frozenset(seen_from(self._store.prefix, path) for path in entries)

    def run(self, action: Prove, stop: threading.Event, planted: Mapping[str, bytes] | None = None) -> ProofRan:
        """Run one step. A step with nothing to run has exit code 0, no tests, and an output that says why.

        Where no guarded file differs, the result was run on the same tree: that run is told again, if it is known.
        """
        commit = action.base if action.step in _ON_BASE else action.result
        files = StepFiles(commit, {})
        try:
            files = files_of(self._checkouts, action, planted)
            run = self._not_stored(action) or self._known(action, files) or self._run(action, files, stop)
            if files.also is not None and run.exit_code == 0 and not stop.is_set():
                run = self._also(action, files.also, run, stop)
        except NotAsStored as error:
            run = RoomRun(
                UNKNOWN, "", report=RoomReport(self._name), problem=f"the files are not to be trusted: {error}"
            )
        output = f"{run.output}{self._missing(files)}" if action.step is ProofStep.BASELINE else run.output
        return ProofRan(
            *(action.id, action.step, commit, run.tree, action.rules.command, run.exit_code, run.tests, output),
            *(_subject(action, files, run), run.problem, run.report),
        )

    def close(self) -> None:
        """End what runs, and remove the rooms."""
        self._runner.close()
        self._rooms.close()

    @property
    def _name(self) -> str:
        return NAME if self._sandbox else ""

    def _known(self, action: Prove, files: StepFiles) -> RoomRun | None:
        """What is known without running the command."""
        if files.skipped:
            return RoomRun(0, files.skipped)
        known = self._results.get(action.result)
        if known is None or files.subject or action.step is not ProofStep.GUARDED:
            return None
        told = "(not run again: what steers the tests is as it was before the run)"
        return replace(known, output=f"{known.output}\n{told}", report=replace(known.report, seconds=0.0))

    def _not_stored(self, action: Prove) -> RoomRun | None:
        """A file that no snapshot can hold any more, such as one that has grown, fails: nothing is known about it."""
        if action.step is not ProofStep.RESULT:
            return None
        before = self._checkouts.missing(action.base)
        known = self._checkouts.entries(action.base, self._checkouts.parent(action.base))
        missing = {path: why for path, why in self._checkouts.missing(action.result).items() if path in known}
        told = [f"{seen_from(self._store.prefix, path)} {why}" for path, why in missing.items() if path not in before]
        if not told:
            return None
        output = (
            f"(not run: {'; '.join(told[:_MOST_NAMED])}, so that no clean room can have it. Before the run it could.)"
        )
        return RoomRun(1, output, report=RoomReport(self._name))

    def _also(self, action: Prove, files: StepFiles, run: RoomRun, stop: threading.Event) -> RoomRun:
        """The tests with helpers of theirs as before the run: what passed before, and with these as they are now."""
        if action.before is None and not action.was_green:
            return run
        other = self._run(action, files, stop)
        failed = {*(other.tests.failed if other.tests else ())}
        if other.problem:
            return other
        if other.exit_code == 0 or (failed and failed <= {*(action.before.failed if action.before else ())}):
            return run
        tests = replace(run.tests, failed=tuple(sorted({*run.tests.failed, *failed}))) if run.tests else None
        return replace(run, exit_code=other.exit_code, output=other.output, tests=tests)

    def _missing(self, files: StepFiles) -> str:
        missing = not_in_rooms(self._checkouts, files.entries)
        return f"\n(not in the room, because snapshots do not have it: {missing})" if missing else ""

    def _run(self, action: Prove, files: StepFiles, stop: threading.Event) -> RoomRun:
        borrowed = () if action.rules.setup else self._borrow(action, files)
        if problem := self._problem(action, borrowed):
            report = RoomReport(self._name, lent=tuple(folder.record for folder in borrowed))
            return RoomRun(UNKNOWN, "", report=report, problem=problem)
        is_baseline = action.step is ProofStep.BASELINE
        steering = steering_of(self._checkouts, action.base, action.rules)
        order = RoomOrder(action.rules, steering, files, borrowed, action.network, files.only, is_baseline)
        run = self._first(action, order, stop)
        run = self._rerun(order, run, stop) if action.step in _RERUN else run
        run = self._plant_again(action, order, run, stop) if action.step is ProofStep.CANARY else run
        if is_baseline:
            self._usual = run.altered
        elif self._usual is not None and action.step in _RERUN and run.altered - self._usual:
            run = _with_altered(run, sorted(run.altered - self._usual))
        if action.step is ProofStep.RESULT and not stop.is_set():
            self._results[action.result] = run
        return run

    # -- dependencies

    def _borrow(self, action: Prove, files: StepFiles) -> tuple[Borrowed, ...]:
        """The same folders in every step: those beside the files of the base."""
        base = self._checkouts.entries(action.base, self._checkouts.parent(action.base))
        return tuple(folder for folder in self._lender.borrow(base) if not lending.collides(folder, files.entries))

    def _problem(self, action: Prove, borrowed: tuple[Borrowed, ...]) -> str:
        """Why a room would prove nothing."""
        if action.step is not ProofStep.BASELINE and not action.rules.setup:
            changed = lending.changed((folder.record for folder in borrowed), action.lent)
            if changed:
                return f"{', '.join(changed)} changed since the run started, so the tests prove nothing; {_HINT}"
        if self._sandbox is not None:
            return ""
        pointers = [f"{folder.path}/{folder.pointer}" for folder in borrowed if folder.pointer]
        pointers += lending.pointers_outside(self._store, folders_on_path(self._environ))
        if pointers:
            return (
                f"{pointers[0]} leads into the work tree, so the tests would not use the files of the room; install "
                f"bubblewrap, or {_HINT}"
            )
        if str(self._store.top) in action.rules.command:
            return "the test command names the work tree by its path; install bubblewrap, or use a relative path"
        return ""

    # -- runs of the command

    def _first(self, action: Prove, order: RoomOrder, stop: threading.Event) -> RoomRun:
        """If nobody knows yet whether the tests need the network: without it, and only if they fail so, with it."""
        cut, is_open = (replace(order, network=network) for network in (False, True))
        network = action.rules.network
        if network is not Network.AUTO or self._sandbox is None or not self._sandbox.cuts_network:
            return self._runner.run(cut if network is Network.OFF else is_open, stop)
        if action.step is not ProofStep.BASELINE:
            return self._runner.run(order, stop)
        without = self._runner.run(cut, stop)
        if without.exit_code == 0 or without.problem or stop.is_set():
            return without
        connected = self._runner.run(is_open, stop)
        return connected if connected.passes > without.passes else without

    def _rerun(self, order: RoomOrder, first: RoomRun, stop: threading.Event) -> RoomRun:
        """Run the files of failing tests again: a test that passes then is flaky."""
        tests, network = first.tests, first.report.network
        failing, flaky = {*(tests.failed if tests else ())}, set[str]()
        for _ in range(order.rules.reruns):
            if not failing or stop.is_set():
                break
            only = tuple(sorted({file_of(test) for test in failing} - {""}))
            again = self._runner.run(replace(order, network=network, only=only), stop)
            passed = failing & {*(again.tests.passed if again.tests else ())}
            flaky |= passed
            failing -= passed
        return replace(first, tests=_with_flaky(tests, flaky)) if tests and flaky else first

    def _plant_again(self, action: Prove, order: RoomOrder, first: RoomRun, stop: threading.Event) -> RoomRun:
        """Run the files of planted tests that did not fail again: one that fails then is flaky.

        A test that nobody can make fail is left out: one that does not fail with the same plant before the run either.
        So is what was replaced before the run as well.
        """
        if order.files.marks:
            return first
        tests = first.tests or CountedTests("")
        silent = fewer_cases(order.files.subject, tests.failed)
        only = tuple(sorted({*map(file_of, silent)}))
        run, failed = first, tests.failed
        if only and order.rules.reruns and not stop.is_set():
            again = self._runner.run(replace(order, files=order.files.with_planted(only), only=only), stop)
            failed = (*failed, *(test for test in _failed(again) if test not in failed))
            passed = {*tests.passed, *(again.tests.passed if again.tests else ())} - {*failed}
            tests = replace(tests, failed=failed, passed=tuple(sorted(passed)))
            run = replace(first, tests=tests, report=_with_seconds(first, again))
        replaced = [test for test in failed if replaced_in(test)]
        not_run = _not_run(order.files, tests)
        left = [test for test in fewer_cases(order.files.subject, failed) if test not in not_run]
        before = planted_on_base(self._checkouts, action, order.files, left, order.only if replaced else ())
        if not before.only or stop.is_set():
            return run
        base = self._runner.run(replace(order, files=before, only=before.only), stop)
        noticed = {*map(function_of, _failed(base))}
        tried = [test for test in before.subject if base.tests or test in before.added]
        left_out = frozenset(test for test in tried if test not in noticed)
        own = {*replaced} & {*_failed(base)}
        run = replace(run, left_out=left_out, report=_with_seconds(run, base))
        return _without_failed(run, own) if own else run


def _failed(run: RoomRun) -> tuple[str, ...]:
    return run.tests.failed if run.tests is not None else ()


def _without_failed(run: RoomRun, names: Collection[str]) -> RoomRun:
    tests = run.tests or CountedTests("")
    return replace(run, tests=replace(tests, failed=tuple(test for test in tests.failed if test not in names)))


def _with_seconds(run: RoomRun, other: RoomRun) -> RoomReport:
    return replace(run.report, seconds=run.report.seconds + other.report.seconds)


def _subject(action: Prove, files: StepFiles, run: RoomRun) -> tuple[str, ...]:
    """Of what was planted, only what can fail: a Makefile names scripts of other targets, new tests skip themselves.

    Tests of before the run were tried on the base, where product code that knows of plants has no say.
    """
    if not files.is_planted:
        return files.subject
    if files.marks:
        return tuple(path for mark, path in files.marks.items() if mark in run.marks)
    tests = run.tests or CountedTests("")
    known = files.added | {*map(function_of, action.before.passed if action.before else ())}
    # Nobody parses scripts before they are planted.
    unread = {file_of(test) for test in tests.failed if test.endswith(_UNREAD)}
    not_run = _not_run(files, tests)
    silent = {*tests.skipped, *(test for test in files.subject if file_of(test) in unread)} - tests.executed
    left_out = {*map(function_of, silent)} - known | run.left_out
    return tuple(test for test in files.subject if function_of(test) not in left_out and test not in not_run)


def _not_run(files: StepFiles, tests: CountedTests) -> set[str]:
    """cargo ends with the first file that has a failing test, and runs nothing if it cannot compile one of them."""
    return {test for test in files.subject if file_of(test).endswith(RUST)} - {*tests.passed, *tests.failed}


def _with_flaky(tests: CountedTests, flaky: set[str]) -> CountedTests:
    failed = tuple(test for test in tests.failed if test not in flaky)
    return replace(tests, failed=failed, flaky=(*tests.flaky, *(test for test in tests.failed if test in flaky)))


def _with_altered(run: RoomRun, names: list[str]) -> RoomRun:
    """A run in which product code has changed what steers the tests, while they ran: it fails."""
    told = f"(while the tests ran, these files were changed: {', '.join(names[:_MOST_NAMED])})"
    failed = tuple(f"{name}::(changed while the tests ran)" for name in names[:_MOST_NAMED])
    tests = replace(run.tests, failed=(*run.tests.failed, *failed)) if run.tests is not None else None
    return replace(run, exit_code=run.exit_code or 1, output=f"{run.output}\n{told}", tests=tests)
