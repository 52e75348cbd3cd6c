"""Runs the steps of a proof in clean rooms and reports what happened; it never decides what that means."""

import os
import threading
from collections.abc import Mapping
from dataclasses import replace

from logos.adapters.commands import UNKNOWN
from logos.adapters.git.command import text_of
from logos.adapters.proof import lending
from logos.adapters.proof.bubblewrap import NAME, Bubblewrap
from logos.adapters.proof.checkout import Checkouts, NotAsStored, SnapshotStore
from logos.adapters.proof.environment import folders_on_path
from logos.adapters.proof.lending import Borrowed, Lender
from logos.adapters.proof.missing import not_in_rooms
from logos.adapters.proof.rooms import Rooms, rooms_folder
from logos.adapters.proof.running import RoomOrder, RoomRun, RoomRunner
from logos.adapters.proof.steps import StepFiles, files_of
from logos.domain.events import ProofRan
from logos.domain.proof import CountedTests, Network, ProofStep, RoomReport
from logos.domain.turns import Prove
from logos.flows.proof.test_ids import file_of

# In the other steps tests are meant to fail.
_RERUN = (ProofStep.BASELINE, ProofStep.RESULT, ProofStep.GUARDED)
_HINT = "set proof.setup to a command that makes the dependencies in the room"


class RoomProver:
    """The port Prover. Without a sandbox, rooms are plain folders, and the network cannot be turned off.

    What provers of killed drivers have left, rooms and processes, is removed first.
    """

    def __init__(
        self, store: SnapshotStore, sandbox: Bubblewrap | None, environ: Mapping[str, str] | None = None
    ) -> None:
        self._store = store
        self._sandbox = sandbox
        self._environ = dict(os.environ if environ is None else environ)
        self._rooms = Rooms(rooms_folder())
        self._checkouts = Checkouts(store, self._rooms.folder / "git")
        self._runner = RoomRunner(self._checkouts, self._rooms, sandbox, self._environ)
        self._lender = Lender(store)

    def changed(self, base: str, result: str) -> tuple[str, ...]:
        before, after = (self._checkouts.entries(commit, "") for commit in (base, result))
        prefix = os.fsencode(self._store.prefix)
        paths = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
        return tuple(text_of(path.removeprefix(prefix)) for path in paths)

    def run(self, action: Prove, stop: threading.Event) -> ProofRan:
        """Run one step. A step with nothing to run has exit code 0, no tests, and an output that says why."""
        commit = action.base if action.step in (ProofStep.BASELINE, ProofStep.RED) else action.result
        files = StepFiles(commit, {})
        try:
            files = files_of(self._checkouts, action)
            run = RoomRun(0, files.skipped) if files.skipped else self._run(action, files, stop)
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

    def _missing(self, files: StepFiles) -> str:
        missing = not_in_rooms(self._checkouts, files.entries)
        return f"\n(not in the room, because snapshots do not have it: {missing})" if missing else ""

    def _run(self, action: Prove, files: StepFiles, stop: threading.Event) -> RoomRun:
        borrowed = () if action.rules.setup else self._borrow(action, files)
        if problem := self._problem(action, borrowed):
            report = RoomReport(self._name, lent=tuple(folder.record for folder in borrowed))
            return RoomRun(UNKNOWN, "", report=report, problem=problem)
        order = RoomOrder(action.rules, files, borrowed, action.network, files.only)
        run = self._first(action, order, stop)
        return self._rerun(order, run, stop) if action.step in _RERUN else run

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
