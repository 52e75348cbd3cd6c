"""One run of the test command in a room of its own: check out, set up, check, run, count."""

import os
import posixpath
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from logos.adapters.commands import TIMED_OUT, UNKNOWN, SupervisedCommands
from logos.adapters.files import private_folder
from logos.adapters.git.contents import seen_from
from logos.adapters.proof import lending, runners
from logos.adapters.proof.bubblewrap import NAME, Bubblewrap, Lent, SandboxView
from logos.adapters.proof.checkout import Checkouts, NotAsStored, RoomTree
from logos.adapters.proof.compiled import CompiledModules
from logos.adapters.proof.environment import (
    Place,
    folders_on_path,
    named_installations,
    room_environment,
    setup_environment,
    write_home,
)
from logos.adapters.proof.lending import Borrowed
from logos.adapters.proof.rooms import Room, Rooms
from logos.adapters.proof.steps import StepFiles
from logos.adapters.store.mirror import state_folder
from logos.domain.proof import CountedTests, ProofRules, RoomReport
from logos.flows.proof.steering import Steering

# The end of a setup's output that is told when it fails.
_SETUP_END = 2_000


@dataclass(frozen=True, slots=True)
class RoomRun:
    """What one run of the command gave; `problem` says why it proves nothing."""

    exit_code: int
    output: str
    tests: CountedTests | None = None
    tree: str = ""
    report: RoomReport = field(default_factory=RoomReport)
    problem: str = ""
    altered: frozenset[str] = frozenset()
    # What planted scripts have left behind, and planted tests that do not fail before the run either.
    marks: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()

    @property
    def passes(self) -> tuple[bool, int]:
        """A run in which more passes is greater."""
        return self.exit_code == 0, len(self.tests.passed) if self.tests else 0


@dataclass(frozen=True, slots=True)
class RoomOrder:
    """What is to be run: the files of a step, the folders lent to it, and the test files if not all."""

    rules: ProofRules
    steering: Steering
    files: StepFiles
    borrowed: tuple[Borrowed, ...]
    network: bool
    only: tuple[str, ...] = ()
    # Whether no agent has worked yet.
    is_baseline: bool = False


class RoomRunner:
    """Makes a room for each run, and removes it afterwards."""

    def __init__(
        self, checkouts: Checkouts, rooms: Rooms, sandbox: Bubblewrap | None, environ: Mapping[str, str]
    ) -> None:
        self._checkouts = checkouts
        self._store = checkouts.store
        self._rooms = rooms
        self._sandbox = sandbox
        self._environ = environ
        self._running: set[SupervisedCommands] = set()
        self._compiled = CompiledModules(rooms.folder / "compiled", self._store.work_dir)

    @property
    def prefix(self) -> str:
        return self._store.prefix

    def run(self, order: RoomOrder, stop: threading.Event) -> RoomRun:
        """NotAsStored if the files in the room are not those of the snapshot."""
        with self._rooms.open() as room:
            commands = SupervisedCommands(room.commands)
            self._running.add(commands)
            try:
                ran = _InRoom(self, room, order, commands, stop).run()
                if order.is_baseline:
                    place = self.place(room, order.borrowed)
                    self._compiled.keep(room, place.top, [inside for _, inside in place.lent])
                return ran
            finally:
                self._running.discard(commands)

    def close(self) -> None:
        for commands in [*self._running]:
            commands.close()

    def fill(self, room: Room, files: StepFiles) -> RoomTree:
        visible = room.objects if self._sandbox or self._store.common is None else self._store.common / "objects"
        head = self._checkouts.parent(files.commit)
        write_home(room)
        self._compiled.lend(room)
        tree = self._checkouts.fill(room, files.entries, files.texts, head, visible)
        (room.tree / self._store.prefix).mkdir(parents=True, exist_ok=True)
        return tree

    def place(self, room: Room, borrowed: tuple[Borrowed, ...]) -> Place:
        outside = self._store.top
        top = outside if self._sandbox else room.tree
        lent = tuple((outside / folder.path, top / folder.path) for folder in borrowed)
        return Place(top, top / self._store.prefix, Path("/tmp") if self._sandbox else room.tmp, lent)

    def environment(self, room: Room, place: Place, rules: ProofRules) -> dict[str, str]:
        given = rules.env
        env = room_environment(room, place, self._store.top, given, self._environ, has_setup=bool(rules.setup))
        # Only for commands that name it: product code could behave differently where it is set.
        named = any("LOGOS_ROOT" in command for command in (rules.command, rules.setup))
        return {**env, "LOGOS_ROOT": str(place.work_dir)} if named else env

    def setup_environment(self, env: Mapping[str, str]) -> dict[str, str]:
        return setup_environment(env, self._environ)

    def words(self, order: RoomOrder, room: Room, place: Place, command: str, *, network: bool) -> list[str]:
        shell = ["/bin/sh", "-c", command]
        if self._sandbox is None:
            return shell
        env = self.environment(room, place, order.rules)
        homes = (Path(value) for name, value in env.items() if name.endswith(("_HOME", "_ROOT", "_DIR", "ROOT")))
        kept = (*folders_on_path(env), *homes, *named_installations(command), *lending.interpreters(order.borrowed))
        lent = tuple(
            Lent(folder.source, place.top / folder.path, folder.parts, folder.caches) for folder in order.borrowed
        )
        objects = self._store.common / "objects" if self._store.common else None
        view = SandboxView(room, place.top, place.work_dir, state_folder(), objects, lent, kept)
        return self._sandbox.words(view, shell, network=network)

    def lend(self, room: Room, borrowed: tuple[Borrowed, ...]) -> set[bytes]:
        """Copies, where they cannot be mounted; returns their paths."""
        for folder in () if self._sandbox else borrowed:
            lending.copy(folder, room.tree, self._store.work_dir)
        return {os.fsencode(folder.path) for folder in borrowed}

    def report(self, order: RoomOrder, setup_seconds: float, seconds: float) -> RoomReport:
        lent = tuple(folder.record for folder in order.borrowed)
        network = order.network or self._sandbox is None or not self._sandbox.cuts_network
        name = NAME if self._sandbox else ""
        return RoomReport(name, network, order.rules.setup, setup_seconds, seconds, lent)


@dataclass(frozen=True, slots=True)
class _InRoom:
    """One run, in its room."""

    by: RoomRunner
    room: Room
    order: RoomOrder
    commands: SupervisedCommands
    stop: threading.Event

    def run(self) -> RoomRun:
        order, by, room = self.order, self.by, self.room
        place = by.place(room, order.borrowed)
        tree = by.fill(room, order.files)
        env = by.environment(room, place, order.rules)
        lent = by.lend(room, order.borrowed)
        began = time.monotonic()
        problem, output = self._set_up(place, by.setup_environment(env))
        setup_seconds = time.monotonic() - began
        if problem:
            return RoomRun(UNKNOWN, output, None, tree.hash, by.report(order, setup_seconds, 0.0), problem)
        reports = room.report / "tests"
        private_folder(reports)
        planted, probe = order.files.is_planted, order.files.probe
        watched = order.files.watched
        env |= runners.instrument(
            reports, order.only, env, place.work_dir, is_planted=planted, probe=probe, watched=watched
        )
        self._check(tree, lent)
        began = time.monotonic()
        words = by.words(order, room, place, order.rules.command, network=order.network)
        code, output = self._execute(words, place, env)
        report = by.report(order, setup_seconds, time.monotonic() - began)
        tests = runners.counted(reports, order.rules.command, output)
        altered, marks = self._altered(tree), runners.marks(reports)
        return RoomRun(code, output, tests, tree.hash, report, altered=altered, marks=marks)

    def _altered(self, tree: RoomTree) -> frozenset[str]:
        """Files that steer the tests and that the command has changed or removed while it ran, and new programs."""
        prefix, steering = self.by.prefix, self.order.steering
        folders = [os.fsencode(posixpath.join(prefix, folder)) for folder in steering.program_folders]
        paths = (*tree.altered(), *tree.added(folders))
        return frozenset(name for path in paths if steering.is_guarded(name := seen_from(prefix, path)))

    def _set_up(self, place: Place, env: Mapping[str, str]) -> tuple[str, str]:
        """The problem with the setup, if any, and its output."""
        setup = self.order.rules.setup
        if not setup:
            return "", ""
        words = self.by.words(self.order, self.room, place, setup, network=True)
        code, output = self._execute(words, place, env)
        if code == 0:
            return "", output
        how = "took too long" if code == TIMED_OUT else f"failed with exit code {code}"
        return f"the setup {setup!r} {how}: {output[-_SETUP_END:].strip()}", output

    def _check(self, tree: RoomTree, lent: set[bytes]) -> None:
        """Directly before the command: nobody has changed the files since they were checked out."""
        try:
            tree.check(lent, others=bool(self.order.rules.setup))
        except NotAsStored as error:
            if self.order.rules.setup:
                raise NotAsStored(f"after the setup {self.order.rules.setup!r}: {error}") from error
            raise

    def _execute(self, words: list[str], place: Place, env: Mapping[str, str]) -> tuple[int, str]:
        # In a sandbox the work dir is only there once the command runs.
        cwd = place.work_dir if place.top == self.room.tree else self.room.folder
        return self.commands.execute(words, cwd, env, self.order.rules.timeout, self.stop)
