"""Runs the steps of a proof in clean rooms and reports what happened; it never decides what that means."""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from logos.adapters.commands import UNKNOWN
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
from logos.adapters.proof.steps import StepFiles, differing, files_of
from logos.domain.events import ProofRan
from logos.domain.proof import CountedTests, Network, ProofStep, RoomReport
from logos.domain.turns import Prove
from logos.flows.proof.test_ids import file_of

# In the other steps tests are meant to fail.
_RERUN = (ProofStep.BASELINE, ProofStep.RESULT, ProofStep.GUARDED)
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
        # The runs on results with their own tests, by commit.
        self._results: dict[str, RoomRun] = {}

    def changed(self, base: str, result: str) -> tuple[str, ...]:
        return tuple(differing(self._checkouts, base, result))

    def run(self, action: Prove, stop: threading.Event) -> ProofRan:
        """Run one step. A step with nothing to run has exit code 0, no tests, and an output that says why.

        Where no guarded file differs, the result was run on the same tree: that run is told again, if it is known.
        """
        commit = action.base if action.step in (ProofStep.BASELINE, ProofStep.RED) else action.result
        files = StepFiles(commit, {})
        try:
            files = files_of(self._checkouts, action)
            run = self._known(action, files) or self._run(action, files, stop)
        except NotAsStored as error:
            run = RoomRun(
                UNKNOWN, "", report=RoomReport(self._name), problem=f"the files are not to be trusted: {error}"
            )
        output = f"{run.output}{self._missing(files)}" if action.step is ProofStep.BASELINE else run.output
        return ProofRan(
            *(action.id, action.step, commit, run.tree, action.rules.command, run.exit_code, run.tests, output),
            *(files.subject, run.problem, run.report),
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

    def _missing(self, files: StepFiles) -> str:
        missing = not_in_rooms(self._checkouts, files.entries)
        return f"\n(not in the room, because snapshots do not have it: {missing})" if missing else ""

    def _run(self, action: Prove, files: StepFiles, stop: threading.Event) -> RoomRun:
        borrowed = () if action.rules.setup else self._borrow(action, files)
        if problem := self._problem(action, borrowed):
            report = RoomReport(self._name, lent=tuple(folder.record for folder in borrowed))
            return RoomRun(UNKNOWN, "", report=report, problem=problem)
        is_baseline = action.step is ProofStep.BASELINE
        order = RoomOrder(action.rules, files, borrowed, action.network, files.only, is_baseline)
        run = self._first(action, order, stop)
        run = self._rerun(order, run, stop) if action.step in _RERUN else run
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


def _with_flaky(tests: CountedTests, flaky: set[str]) -> CountedTests:
    failed = tuple(test for test in tests.failed if test not in flaky)
    return replace(tests, failed=failed, flaky=(*tests.flaky, *(test for test in tests.failed if test in flaky)))
