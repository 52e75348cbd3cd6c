"""A driver dies at every instant of a run and of a build, in this process: no turn is lost, asked twice or left behind.

Each event is met three times (before it is in the log, between the log and whoever hears of it, after all have), each
act on the host, the response files and the worktrees twice. `test_kill_anywhere.py` and `test_kill_builds.py` do the
same with real processes and real kills.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from logos.adapters.commands import ShellCommands
from logos.adapters.responses import ResponseFiles
from logos.app.run_start import build_to_resume, run_to_continue, start_build, start_run
from logos.app.run_state import state_file_writer
from logos.app.setting_sources import load_settings
from logos.app.start import responses_in
from logos.app.telos_file import Telos
from logos.domain.events import (
    Event,
    RunStarted,
    TerminalClosed,
    TerminalOpened,
    TurnAnswered,
    TurnAsked,
    TurnSent,
    WorkCompared,
    WorkGathered,
    WorkMerged,
)
from logos.domain.specs import TouchedFile
from logos.domain.turns import Gather, Merge, TurnId, Worktree
from logos.engine.build_run import BuildRun
from logos.engine.cycle_run import CycleRun
from logos.engine.runner import Dependencies
from logos.errors import AlreadyPassed, StateError
from logos.testing import APPROVED, FAIL, PASS, REVISE, MemoryLog, ScriptedAgents, script
from tests.support.mortal import Life, Mortal, MortalLog, VirtualBell, VirtualTime
from tests.support.sandbox import PROMPT

CHANGES_ON_A_HOST = {"create_session", "create_terminal", "send_input", "exit_terminal"}


@dataclass
class SlowAgents:
    """Agents that are seen at work a few times before they answer; they work on when their driver is dead."""

    agents: ScriptedAgents
    looks: int = 2
    _at_work: dict[str, tuple[int, str]] = field(default_factory=dict)

    def send_input(self, terminal_id: str, message: str) -> None:
        self._at_work[terminal_id] = (self.looks, message)

    def get_status(self, terminal_id: str) -> str:
        if terminal_id not in self._at_work:
            return self.agents.get_status(terminal_id)
        left, message = self._at_work.pop(terminal_id)
        if left > 0:
            self._at_work[terminal_id] = (left - 1, message)
        else:
            self.agents.send_input(terminal_id, message)
        return "processing"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.agents, name)


@dataclass
class World:
    """What outlives a driver: the log, the agents, the files, the time.

    `screens`: its agents have terminals that take time to start, so that they are opened while the first turn is on.
    """

    wd: Path
    agents: ScriptedAgents
    slow: bool = False
    screens: bool = False
    log: MemoryLog = field(default_factory=MemoryLog)
    time: VirtualTime = field(default_factory=VirtualTime)
    sent: Counter[str] = field(default_factory=Counter)
    host: Any = None

    def __post_init__(self) -> None:
        self.agents.change_signal = VirtualBell(self.time)
        self.host = SlowAgents(self.agents) if self.slow else self.agents

    def host_of(self, life: Life) -> Any:
        def about(first: str = "", second: str = "", **named: Any) -> str:
            """Terminals get their names in the order in which they come: they are called by whose they are."""
            if not second:
                return self.agents.profiles.get(first, first) or str(named.get("idempotency_key"))
            turn = re.match(r"Turn: (\S+)", second)
            return turn[1] if turn else self.agents.profiles.get(first, second)

        kind = _MortalScreens if self.screens else Mortal
        return kind(_Counted(self.host, self.sent), life, CHANGES_ON_A_HOST, about)

    def dependencies(self, life: Life) -> Dependencies:
        log = cast("Any", MortalLog(self.log, life))
        time, host = self.time, self.host_of(life)
        commands = ShellCommands(self.wd / ".telos" / "checks", self.wd)
        return Dependencies(host, log, lambda _: None, time.now, lambda: 0.0, time.sleep, commands=commands)

    @property
    def events(self) -> list[Event]:
        return [record.event for run in self.log.runs() for record in self.log.read(run)]

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def answers(self) -> dict[str, str]:
        return {event.turn: event.text for event in self.of(TurnAnswered)}


@dataclass
class _Counted:
    """A host that counts how often each turn reached an agent."""

    host: Any
    sent: Counter[str]

    def send_input(self, terminal_id: str, message: str) -> None:
        turn = re.match(r"Turn: (\S+)", message)
        self.sent[turn[1] if turn else ""] += turn is not None
        self.host.send_input(terminal_id, message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)


class _MortalScreens(Mortal):
    settle_seconds = 1.5

    def get_screen(self, terminal_id: str) -> str:
        self._life.check()
        return self._real.get_last_output(terminal_id)

    def press_key(self, terminal_id: str, key: str) -> None:
        raise AssertionError((terminal_id, key))


def check_nothing_was_lost_or_repeated(world: World, undisturbed: World, why: str) -> None:
    events = world.events
    assert len(world.of(RunStarted)) == 1, f"{why}: a second run was started"
    answered: set[str] = set()
    for event in events:
        if isinstance(event, TurnAsked | TurnSent | TurnAnswered):
            assert event.turn not in answered, f"{why}: {event.turn} was asked again after it was answered"
        if isinstance(event, TurnAnswered):
            answered.add(event.turn)
    assert +world.sent == Counter(answered), f"{why}: not every turn reached its agent exactly once"
    assert Counter(event.turn for event in world.of(TurnAsked)) == Counter(answered), why
    assert world.answers == undisturbed.answers, why
    assert len(world.agents.profiles) == len(undisturbed.agents.profiles), f"{why}: a second terminal was opened"


# --- the cycle

# A review that is refused, a FAIL and a PASS.
CYCLE = script(analyst_review=[REVISE, APPROVED], tester=[FAIL, PASS])
TURNS = 10


def cycle_world(wd: Path, *, slow: bool = False) -> World:
    wd.mkdir(parents=True)
    return World(wd, ScriptedAgents(wd / ".tmp" / "agent-responses", CYCLE), slow)


def screens_world(wd: Path, *, slow: bool = False) -> World:
    world = cycle_world(wd, slow=slow)
    world.screens = True
    return world


def drive_cycle(world: World, life: Life) -> bool:
    environment = {"WD": str(world.wd), "PROMPT": PROMPT, "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1"}
    # The files of a round that failed are compared with those of earlier rounds.
    environment |= {"ON_NO_PROGRESS": "block"}
    # A run that is going on is gone on with; one whose state file is not there yet, or says that it is over, on request.
    asked_for = bool(world.events) and final_status(world) != "RUNNING"
    settings = load_settings(None, {**environment, "RESUME": "1" if asked_for else ""})

    def driver() -> None:
        dependencies = world.dependencies(life)
        log = cast("Any", dependencies.log)
        try:
            continued = run_to_continue(settings, log, dependencies.tell)
        except AlreadyPassed:
            return
        start_plan = start_run(settings, continued, log, ())
        files = cast("Any", Mortal(ResponseFiles(settings.response_dir), life, {"clear"}, str))
        watchers = [state_file_writer(settings), life.after_event]
        journal, mode, options = start_plan.journal, start_plan.mode, settings.run_options()
        looks: Any = {"changed_files": lambda _run, _base: (("cart.py",), "c0ffee1", "the same tree")}
        run = CycleRun(journal, mode, options, dependencies, files, world.agents.change_signal, watchers, **looks)
        run.run(start_plan.first)

    return life.lead(driver)


def state_path(world: World) -> Path:
    return world.wd / ".tmp" / "agnostic-3agents-loop-state.json"


def final_status(world: World) -> str:
    return json.loads(state_path(world).read_text())["final_status"] if state_path(world).exists() else ""


def state_of(world: World) -> dict[str, Any]:
    state = json.loads(state_path(world).read_text())
    return {key: value for key, value in state.items() if key not in ("updated_at", "logos", "wd", "terminals")}


def check_cycle(world: World, undisturbed: World, why: str) -> None:
    check_nothing_was_lost_or_repeated(world, undisturbed, why)
    assert len(world.answers) == TURNS
    assert [event.turn for event in world.of(WorkCompared)] == ["r1.changes"], why
    assert state_of(world) == state_of(undisturbed), why


# --- a build


@dataclass
class MemoryWorkspace:
    """Worktrees as plain folders and commits in memory: what an agent left is kept, and merged file by file."""

    folder: Path
    commits: dict[str, dict[str, str]] = field(default_factory=lambda: {"base": {}})
    closed_with: list[str | None] = field(default_factory=list)

    def open(self, place: Worktree, *, anew: bool) -> str:
        folder = self.folder / place.name
        if anew or not folder.exists():
            self._check_out(folder, self._files(place.commits))
        return str(folder)

    def ready(self, place: Worktree) -> str:
        self._check_out(self.folder / place.name, self._files(place.commits))
        return str(self.folder / place.name)

    def gather(self, action: Gather) -> WorkGathered:
        before, now = self._files(action.place.commits), self._lying(self.folder / action.place.name)
        touched = tuple(
            TouchedFile(path, _hash(text)) for path, text in sorted(now.items()) if before.get(path) != text
        )
        return WorkGathered(action.id, action.place.name, self._commit(now), touched)

    def merge(self, action: Merge) -> WorkMerged:
        return WorkMerged(
            action.id, self._commit(self._files((action.onto, *(commit for _, commit in action.contributions))))
        )

    def keep(self, place: Worktree, turn: TurnId) -> None:
        del place, turn

    def give_up(self, result: str | None) -> None:
        self.close(result)

    def close(self, result: str | None) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.closed_with.append(result)

    def _files(self, commits: Iterable[str]) -> dict[str, str]:
        return {path: text for commit in commits for path, text in self.commits[commit].items()}

    def _commit(self, files: dict[str, str]) -> str:
        name = _hash(json.dumps(files, sort_keys=True))
        self.commits[name] = files
        return name

    def _check_out(self, folder: Path, files: dict[str, str]) -> None:
        # An agent of an earlier driver may write while the folder is being removed.
        while folder.exists():
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            (folder / path).write_text(text)

    def _lying(self, folder: Path) -> dict[str, str]:
        return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def _hash(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


def component(name: str, *needs: str) -> dict[str, Any]:
    return {"name": name, "purpose": f"the {name}", "files": [f"{name}.py"], "provides": [], "depends_on": list(needs)}


# Two authors side by side, one that builds on both, and a report that is sent back.
BUILD: dict[str, Any] = {
    "L3.decompose": [
        "no report at all",
        {"components": [component("cart"), component("price"), component("shop", "cart", "price")]},
    ],
    **{f"L2.{name}": [({f"{name}.py": f"def {name}(): ...\n"}, {})] for name in ("cart", "price", "shop")},
}


@dataclass
class BuildWorld(World):
    workspace: MemoryWorkspace = field(default_factory=lambda: MemoryWorkspace(Path()))


def build_world(wd: Path, *, slow: bool = False) -> BuildWorld:
    wd.mkdir(parents=True)
    agents = ScriptedAgents(wd / ".tmp" / "agent-responses", BUILD)
    return BuildWorld(wd, agents, slow, workspace=MemoryWorkspace(wd))


def drive_build(world: BuildWorld, life: Life) -> bool:
    environment = {"WD": str(world.wd), "LEVELS": "3,2", "RESUME": "1" if world.events else ""}
    settings = load_settings(None, environment)
    telos = Telos("A shop that never sells what it does not have.")

    def driver() -> None:
        dependencies = world.dependencies(life)
        log = cast("Any", dependencies.log)
        try:
            view = build_to_resume(settings, "a shop", log, dependencies.tell)
        except StateError as error:
            if "has ended (PASSED)" in str(error):
                return
            raise
        start_plan = start_build(settings, "a shop", telos, "base", log, view, ())
        world.workspace.folder = settings.telos_dir / "worktrees" / start_plan.journal.run
        acts = {"open", "gather", "merge", "ready", "close"}
        workspace = cast("Any", Mortal(world.workspace, life, acts, about_place))
        change_signals: Callable[[Path], Any] = lambda _folder: world.agents.change_signal  # noqa: E731
        watchers = [state_file_writer(settings), life.after_event]
        journal, options = start_plan.journal, settings.run_options()
        run = BuildRun(journal, options, dependencies, workspace, responses_in, change_signals, watchers)
        run.run(start_plan.first)

    return life.lead(driver)


def about_place(what: Any = "", **_: Any) -> str:
    return str(getattr(what, "id", None) or getattr(what, "name", ""))


def check_build(world: BuildWorld, undisturbed: BuildWorld, why: str) -> None:
    check_nothing_was_lost_or_repeated(world, undisturbed, why)
    opened = {event.terminal for event in world.of(TerminalOpened)}
    assert opened == {event.terminal for event in world.of(TerminalClosed)}, f"{why}: a terminal was left open"
    assert {*world.agents.exited} == opened, why
    built, wanted = world.workspace.closed_with[-1], undisturbed.workspace.closed_with[-1]
    assert (built, wanted) == (wanted, built), f"{why}: something else was built"
    assert not world.workspace.folder.exists(), why


FLOWS: dict[str, tuple[Any, Any, Any]] = {
    "run": (cycle_world, drive_cycle, check_cycle),
    "run-on-screens": (screens_world, drive_cycle, check_cycle),
    "build": (build_world, drive_build, check_build),
}


# --- at every instant

ACTS = CHANGES_ON_A_HOST | {"clear", "open", "gather", "merge", "ready", "close"}
KINDS: dict[str, Callable[[str], bool]] = {
    "before-events": lambda instant: instant.startswith("before ") and not is_act(instant),
    "between": lambda instant: instant.startswith("between "),
    "after-events": lambda instant: instant.startswith("after ") and not is_act(instant),
    "acts": lambda instant: is_act(instant),
}
# With agents that answer at once a driver finds responses when it comes back; with slow ones, agents at work.
CASES = [*((kind, False) for kind in KINDS), ("after-events", True), ("acts", True)]
IDS = [f"{kind}-{'slow' if slow else 'quick'}" for kind, slow in CASES]


def every_case(*quick: tuple[str, bool]) -> pytest.MarkDecorator:
    marked = [pytest.param(*case, marks=[] if case in quick else pytest.mark.long) for case in CASES]
    return pytest.mark.parametrize(("kind", "slow"), marked, ids=IDS)


def is_act(instant: str) -> bool:
    return instant.split()[1] in ACTS


def instants_of(undisturbed: Life, kind: str) -> list[str]:
    """Where to die; nothing happens between the removal of a response and the next instant."""
    found = [it for it in undisturbed.instants if KINDS[kind](it) and not it.startswith("after clear")]
    assert len(found) > 20
    return found


@pytest.mark.scenario("LOG-01")
@every_case(("between", False))
@pytest.mark.parametrize("flow", [*FLOWS])
def test_a_driver_that_dies_at_any_instant_is_followed_by_one_that_loses_and_repeats_nothing(
    flow: str, kind: str, slow: bool, tmp_path: Path
) -> None:
    make, drive, check = FLOWS[flow]
    whole, alive = make(tmp_path / "undisturbed", slow=slow), Life()
    drive(whole, alive)
    check(whole, whole, "undisturbed")

    for number, instant in enumerate(instants_of(alive, kind)):
        world = make(tmp_path / str(number), slow=slow)
        if drive(world, Life({instant})):
            assert not drive(world, Life())
        else:
            # At the end of a build two threads may close the last terminal: there is one such call, or there are two.
            assert flow == "build", f"nobody died {instant}"
            assert "exit_terminal" in instant, f"nobody died {instant}"
        check(world, whole, f"died {instant}")


@pytest.mark.scenario("LOG-01")
@every_case(("between", False), ("acts", False))
@pytest.mark.parametrize("flow", [*FLOWS])
def test_drivers_that_die_at_every_instant_of_one_run_or_build_get_to_its_end(
    flow: str, kind: str, slow: bool, tmp_path: Path
) -> None:
    make, drive, check = FLOWS[flow]
    whole, alive = make(tmp_path / "undisturbed", slow=slow), Life()
    drive(whole, alive)
    left = {*instants_of(alive, kind)}

    world, lives, life = make(tmp_path / "world", slow=slow), 0, Life(left)
    while drive(world, life):
        left.discard(life.died_at)
        lives, life = lives + 1, Life(left)

    assert lives > 20
    check(world, whole, f"died {lives} times")
