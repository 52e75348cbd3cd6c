"""kill -9 at every instant of builds: no finished turn asked again, nothing lost, nothing left behind, the same end."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.hosts.processes import MARK
from logos.domain.events import (
    CheckRan,
    Event,
    RunEnded,
    RunStarted,
    TerminalClosed,
    TerminalOpened,
    TurnAnswered,
    TurnAsked,
    TurnSent,
)
from logos.domain.turns import Outcome, TerminalId
from tests.driver import name_of
from tests.support.drivers import KILLED, start_driver
from tests.support.isolation import bare_env
from tests.support.logs import read_log
from tests.support.repositories import git, make_repository
from tests.support.waiting import wait_for, wait_for_exit

Steps = Mapping[str, Sequence[dict[str, Any]]]

TELOS = """
purpose = "A shop that never sells what it does not have."
[[tools]]
level = 1
name = "tidy"
command = "! grep -rq TODO --include=*.py ."
[[tools]]
level = 2
name = "whole"
command = "cat *.py | grep -q 'return 2'"
"""

# What an agent does is known outside the repository: it says which turn it works on.
TELLS = """sed -sn '1s/^Turn: //p' "$LOGOS_TERMINAL"/turn-*/prompt.md | tail -1 >>"$HOME/worked" """


def component(name: str, *needs: str) -> dict[str, Any]:
    return {"name": name, "purpose": f"the {name}", "files": [f"{name}.py"], "provides": [], "depends_on": needs}


def code(name: str, *defined: str, gives: int = 2) -> dict[str, Any]:
    return {"edit": {f"{name}.py": "".join(f"def {own}():\n    return {gives}\n" for own in defined)}}


# Two authors side by side, and one that builds on both.
SMALL: Steps = {
    "L3.decompose": [
        {"report": {"components": [component("cart"), component("price"), component("shop", "cart", "price")]}}
    ],
    "L2.cart": [code("cart", "cart_total")],
    "L2.price": [code("price", "price_of")],
    "L2.shop": [code("shop", "sell")],
    "L3.validate": [{"report": {}}],
}
SMALL_LEVELS = "L3,L2"

# Both authors define `total`; the levels settle that in a second round; then a check fails, is settled, and reworked.
RENAMED = {"proposal": {"summary": "names differ", "changes": [{"level": "L3", "change": "own names"}], "rework": []}}
MENDED = {"proposal": {"summary": "give 2", "changes": [{"level": "L2", "change": "2, not 1"}], "rework": ["cart"]}}
LONG: Steps = {
    "L3.decompose": [{"say": "no report at all"}, {"report": {"components": [component("cart"), component("price")]}}],
    "L2.cart": [code("cart", "total"), code("cart", "cart_total", gives=1), code("cart", "cart_total")],
    "L2.price": [code("price", "total"), code("price", "price_of", gives=1)],
    "L3.propose": [{"report": RENAMED}],
    "L2.propose": [{"report": RENAMED}, {"report": MENDED}],
    "L2.agree": [{"report": {"verdict": "OBJECT", "objection": "which names?"}}, {"report": {}}],
    "L1.agree": [{"report": {}}],
    "L3.agree": [{"report": {}}],
    "L1.lint": [{"report": {}}],
    "L3.position": [{"report": {}}],
    "L2.position": [{"report": {}}],
    "L1.position": [{"report": {}}],
    "L3.validate": [{"report": {}}],
}
LONG_LEVELS = "3-1"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A person's repository as it is before anything is built in it."""
    files = {"telos.toml": TELOS, "notes.md": "mine\n"}
    return make_repository(tmp_path_factory.mktemp("template") / "repository", files, branch="trunk")


class Yard:
    """A copy of the repository, scripted agents, and drivers that may be told when to die."""

    def __init__(self, home: Path, repository: Path, steps: Steps, levels: str) -> None:
        self.home, self.wd = home, home / "repository"
        shutil.copytree(repository, self.wd)
        self.levels = levels
        self.index = (self.wd / ".git" / "index").read_bytes()
        self.deaths = home / "deaths"
        self.tell(steps)

    def tell(self, steps: Steps) -> None:
        """What the agents are to do from now on."""
        told = {key: [{**step, "run": TELLS} for step in own] for key, own in steps.items()}
        (self.home / "script.json").write_text(json.dumps({"agents": told, "otherwise": "error"}))

    def start(self, **environment: str) -> BaseProcess:
        env = {
            **bare_env(),
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "WD": str(self.wd),
            "FEATURE": "a shop",
            "LEVELS": self.levels,
            "SCRIPT": str(self.home / "script.json"),
            "DEATHS": str(self.deaths),
            "POLL_SECONDS": "0.05",
            **environment,
        }
        return start_driver(env, self.home / "driver.log")

    def drive(self, **environment: str) -> int:
        return wait_for_exit(self.start(**environment))

    def drive_to_the_end(self, **environment: str) -> int:
        """Resume until a driver lives through to the end; says how many did not."""
        for lives in range(200):
            code = self.drive(RESUME="1", **environment)
            if code != KILLED:
                # One that finds the build ended has nothing to resume, and says so.
                assert code == 0 or "has ended (PASSED)" in self.said, self.said
                return lives
        raise AssertionError("it never came to an end")

    @property
    def said(self) -> str:
        return (self.home / "driver.log").read_text()

    def events(self) -> list[Event]:
        return [record.event for records in read_log(self.wd).values() for record in records]

    @property
    def answers(self) -> dict[str, str]:
        return {event.turn: event.text for event in self.events() if isinstance(event, TurnAnswered)}

    @property
    def worked(self) -> Counter[str]:
        """How often agents really worked on each turn."""
        return Counter((self.home / "worked").read_text().split())

    @property
    def terminals_left_open(self) -> set[TerminalId]:
        events = self.events()
        opened = {event.terminal for event in events if isinstance(event, TerminalOpened)}
        return opened - {event.terminal for event in events if isinstance(event, TerminalClosed)}

    @property
    def agents_at_work(self) -> list[str]:
        mark, found = f"{MARK}={self.wd}/".encode(), list[str]()
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                found += [environ.parent.name] if mark in environ.read_bytes() else []
        return found

    @property
    def branches(self) -> list[str]:
        return git(self.wd, "for-each-ref", "--format=%(refname)").split()

    @property
    def built(self) -> str:
        """The tree that was merged."""
        (branch,) = (ref for ref in self.branches if ref.startswith("refs/heads/logos/"))
        return git(self.wd, "rev-parse", f"{branch}^{{tree}}").strip()

    @property
    def state(self) -> dict[str, Any]:
        """The state file without what depends on the moment."""
        text = (self.wd / ".telos" / "state.json").read_text()
        state = json.loads(re.sub(r'("(?:commit|head)": )"[0-9a-f]{40}"', r'\1"a commit"', text))
        return {key: value for key, value in state.items() if key not in ("updated_at", "logos", "wd")}


def check_it_ended_as_if_undisturbed(yard: Yard, undisturbed: Yard) -> None:
    check_nothing_was_lost_or_repeated(yard, undisturbed)
    check_nothing_is_left(yard)
    assert yard.built == undisturbed.built
    assert yard.state == undisturbed.state


def check_nothing_was_lost_or_repeated(yard: Yard, undisturbed: Yard) -> None:
    events = yard.events()
    kinds = Counter(type(event) for event in events)
    assert kinds[RunStarted] == 1, "a second build was started"
    assert [event.outcome for event in events if isinstance(event, RunEnded)] == [Outcome.PASSED]
    answered: set[str] = set()
    for event in events:
        if isinstance(event, TurnAsked | TurnSent | TurnAnswered):
            assert event.turn not in answered, f"{event.turn} was asked again after it was answered"
        if isinstance(event, TurnAnswered):
            answered.add(event.turn)
    # The agents' own count: each turn was worked on exactly once, and what was said is in the log, whole.
    assert yard.worked == Counter(answered)
    assert Counter(event.turn for event in events if isinstance(event, TurnAsked)) == Counter(answered)
    assert yard.answers == undisturbed.answers


def check_nothing_is_left(yard: Yard, builds: int = 1) -> None:
    wd, shared = yard.wd, yard.wd / ".git"
    of_builds = [ref for ref in yard.branches if re.fullmatch(r"refs/heads/logos/\w+", ref)]
    others = [ref for ref in yard.branches if not ref.startswith("refs/logos/")]
    assert sorted(others) == sorted([*of_builds, "refs/heads/trunk"])
    assert len(of_builds) == builds
    assert len(git(wd, "worktree", "list").splitlines()) == 1
    assert not (shared / "worktrees").exists()
    assert not list((wd / ".telos").glob("worktrees/*"))
    assert not list(shared.rglob("*.lock"))
    assert not yard.terminals_left_open
    assert not yard.agents_at_work
    # What is the person's is as it was.
    assert git(wd, "symbolic-ref", "HEAD").strip() == "refs/heads/trunk"
    assert git(wd, "status", "--porcelain", "--untracked-files=all") == ""
    assert (shared / "index").read_bytes() == yard.index
    assert sorted(entry.name for entry in wd.iterdir()) == [".git", ".telos", "notes.md", "telos.toml"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Yard:
    yard = Yard(tmp_path_factory.mktemp("small"), repository, SMALL, SMALL_LEVELS)
    assert yard.drive() == 0, yard.said
    check_it_ended_as_if_undisturbed(yard, yard)
    return yard


def test_the_undisturbed_build_has_the_events_the_kills_are_aimed_at(undisturbed: Yard) -> None:
    names = [name_of(event) for event in undisturbed.events()]
    # 5 agents × (opened, asked, sent, answered, closed), 3 gathered; started, merged, checked, ended; and the proof:
    # its baseline, what was compared, and three steps.
    assert len(names) == len(set(names)) == 5 * 5 + 3 + 4 + 5


# Every event of the build is met three times: before it is in the log, between log and state file, after both.
PARTS = 3
SOME = [
    "between run_started",
    "after turn_sent s1.L2.cart.author",
    "before work_gathered s1.L2.price.author.gather",
    "between work_merged s1.merge",
]


@pytest.mark.scenario("LOG-01")
@pytest.mark.parametrize(
    ("when", "part"),
    [
        ("some", 0),
        *(
            pytest.param(when, part, marks=pytest.mark.long)
            for when in ("before", "between", "after")
            for part in range(PARTS)
        ),
    ],
)
def test_a_driver_killed_at_any_event_is_resumed_without_loss(
    when: str, part: int, tmp_path: Path, repository: Path, undisturbed: Yard
) -> None:
    instants = [f"{when} {name_of(event)}" for event in undisturbed.events()][part::PARTS] if when != "some" else SOME
    yard = Yard(tmp_path, repository, SMALL, SMALL_LEVELS)
    yard.deaths.write_text("\n".join(instants))

    lives = yard.drive_to_the_end()

    check_it_ended_as_if_undisturbed(yard, undisturbed)
    # A turn on its way when the driver died of its neighbour's is not sent again: that is no instant any more.
    missed = [instant for instant in yard.deaths.read_text().splitlines() if " turn_sent " in instant]
    assert lives + len(missed) == len(instants), yard.deaths.read_text()


@pytest.fixture(scope="module")
def long_undisturbed(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Yard:
    yard = Yard(tmp_path_factory.mktemp("long"), repository, LONG, LONG_LEVELS)
    assert yard.drive() == 0, yard.said
    check_it_ended_as_if_undisturbed(yard, yard)
    return yard


@pytest.mark.long
@pytest.mark.scenario("LOG-01")
def test_a_long_build_killed_in_every_turn_still_gets_to_the_same_end(
    tmp_path: Path, repository: Path, long_undisturbed: Yard
) -> None:
    yard = Yard(tmp_path, repository, LONG, LONG_LEVELS)

    lives = yard.drive_to_the_end(DIE_AFTER="turn_sent:1")

    check_it_ended_as_if_undisturbed(yard, long_undisturbed)
    # A turn that was sent beside the one at which the driver died is not sent again, so nobody dies of it.
    assert lives >= len(yard.answers) - 6
    events = yard.events()
    assert [event.exit_code for event in events if isinstance(event, CheckRan)].count(1) == 1
    assert sum(".propose" in turn for turn in yard.answers) == 3


@pytest.mark.long
def test_what_a_driver_killed_after_the_end_left_behind_is_cleared_away_by_the_next_build(
    tmp_path: Path, repository: Path
) -> None:
    yard = Yard(tmp_path, repository, SMALL, SMALL_LEVELS)
    yard.deaths.write_text("after run_ended")
    assert yard.drive() == KILLED
    (left,) = (yard.wd / ".telos" / "worktrees").iterdir()
    # What a git that is killed in the middle of pointing refs leaves; nobody will make that commit again.
    kept = yard.wd / ".git" / "refs" / "logos" / left.name
    (kept / f"{'0' * 40}.lock").touch()

    assert yard.drive() == 0

    check_nothing_is_left(yard, builds=2)


# --- inside git

# What a driver calls when it opens, gathers, merges and checks; at the n-th of these calls it dies.
WRITING = "worktree update-ref read-tree update-index write-tree commit-tree merge-tree clean"
GIT = """#!/bin/sh
case " {writing} " in *" $1 "*)
    echo >>"$HOME/writes"
    if [ "$(wc -l <"$HOME/writes")" -ge "$DIES_AT" ]; then kill -9 "$DRIVER"; {then}; fi
esac
exec {git} "$@"
"""


GOES_ON = ":"
# As one that is killed when it has taken its locks.
DIES_TOO = """
        if [ "$1" = update-ref ]; then
            while read -r _ ref _; do mkdir -p "$GIT_DIR/${ref%/*}"; : >"$GIT_DIR/$ref.lock"; done
        fi
        exit 1"""


@pytest.mark.long
@pytest.mark.parametrize("then", [GOES_ON, DIES_TOO], ids=["git-goes-on", "git-dies-too"])
def test_a_driver_killed_while_git_writes_is_resumed_without_loss(
    then: str, tmp_path: Path, repository: Path, undisturbed: Yard
) -> None:
    yard = Yard(tmp_path, repository, SMALL, SMALL_LEVELS)
    (tmp_path / "bin").mkdir()
    ours = tmp_path / "bin" / "git"
    ours.write_text(GIT.format(writing=WRITING, then=then, git=shutil.which("git")))
    ours.chmod(0o755)
    path = f"{ours.parent}:{os.environ['PATH']}"

    # Each driver gets one call further than the one before: a step that takes many is not begun for ever.
    dies_at = 1
    while yard.drive(RESUME="1", PATH=path, DIES_AT=str(dies_at)) == KILLED:
        dies_at += 1
        (tmp_path / "writes").unlink()

    assert dies_at > 5
    check_it_ended_as_if_undisturbed(yard, undisturbed)


# --- from outside

MANY = [f"part{number}" for number in range(6)]
BROAD: Steps = {
    "L3.decompose": [{"report": {"components": [component(name) for name in MANY]}}],
    **{f"L2.{name}": [{**code(name, f"{name}_of"), "delay": 0.2}] for name in MANY},
    "L3.validate": [{"report": {}}],
}


@pytest.mark.long
def test_drivers_killed_at_any_time_with_everything_they_run_are_resumed_without_loss(
    tmp_path: Path, repository: Path
) -> None:
    yard = Yard(tmp_path, repository, BROAD, SMALL_LEVELS)
    moments, kills = random.Random(4), 0
    while kills < 10:
        driver = yard.start(RESUME="1", BUILD_MAX_PARALLEL="6")
        begin(driver)
        driver.join(moments.uniform(0.05, 0.6))
        if driver.exitcode is not None:
            break
        os.killpg(driver.pid or 0, signal.SIGKILL)
        driver.join()
        kills += 1
    assert kills >= 3

    yard.drive_to_the_end()

    check_nothing_was_lost_or_repeated(yard, yard)
    check_nothing_is_left(yard)


def begin(driver: BaseProcess) -> None:
    """Wait until it leads a group of its own."""
    wait_for(lambda: os.getpgid(driver.pid or 0) == driver.pid, "a group of its own", process=driver)


@pytest.mark.long
@pytest.mark.scenario("LOG-01")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_driver_told_to_stop_while_authors_work_says_so_and_is_resumed(
    signum: signal.Signals, tmp_path: Path, repository: Path, undisturbed: Yard
) -> None:
    slow = {
        key: [{**step, "delay": 600} if ".decompose" not in key else step for step in own] for key, own in SMALL.items()
    }
    yard = Yard(tmp_path, repository, slow, SMALL_LEVELS)
    driver = yard.start()
    wait_for(lambda: sent(yard, "cart") and sent(yard, "price"), "two authors at work", process=driver)

    os.kill(driver.pid or 0, signum)

    assert wait_for_exit(driver) == 128 + signum
    yard.tell(SMALL)
    yard.drive_to_the_end()
    check_it_ended_as_if_undisturbed(yard, undisturbed)


def sent(yard: Yard, name: str) -> bool:
    return any(isinstance(event, TurnSent) and f".{name}." in event.turn for event in yard.events())
