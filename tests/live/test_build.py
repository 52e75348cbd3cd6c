"""The levels on a real CAO server in tmux: authors in real worktrees, a driver that is really killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from logos.adapters.reports import example
from logos.adapters.store.sqlite import SqliteLog
from logos.domain.events import (
    CheckRan,
    Event,
    Recorded,
    RunEnded,
    RunStarted,
    TerminalOpened,
    TurnAnswered,
    TurnAsked,
    TurnSent,
)
from logos.domain.levels import Level
from logos.domain.reports import TurnKind
from logos.domain.turns import Outcome
from tests.live.cao import CaoServer

Kept = TypeVar("Kept", bound=Event)
ActionKind = dict[str, Any]
KILLED = -signal.SIGKILL

TELOS = """
purpose = "A shop that never sells what it does not have."
[[tools]]
level = 1
name = "tidy"
command = "! grep -q TODO cart.py"
[[tools]]
level = 2
name = "whole"
command = "test -f cart.py && test -f price.py"
"""
CART = "def cart_total():\n    return 2\n"
PRICE = "def price_of():\n    return 1\n"
SHOP = "def sell():\n    return True\n"


def reports(kind: TurnKind, level: Level, **changes: Any) -> ActionKind:
    """An agent hands in a good report, but for what is changed in it."""
    return {"say": json.dumps({**example(kind, level), **changes})}


def writes(name: str, text: str, **more: Any) -> ActionKind:
    """An author writes its component's file and says so."""
    return {**reports(TurnKind.AUTHOR, Level.L2, files=[f"{name}.py"]), "edit": {f"{name}.py": text}, **more}


def divides_into(**parts: Sequence[str]) -> ActionKind:
    """L3 names components, each with those it needs."""
    rows = [
        {"name": name, "purpose": f"the {name}", "files": [f"{name}.py"], "provides": [], "depends_on": list(needs)}
        for name, needs in parts.items()
    ]
    return reports(TurnKind.DECOMPOSE, Level.L3, components=rows)


class Site:
    """A repository, and drivers that build in it with agents on the server."""

    def __init__(self, cao: CaoServer, home: Path) -> None:
        self.cao, self.home, self.wd = cao, home, home / "repository"
        self.drivers: list[subprocess.Popen[bytes]] = []
        self.wd.mkdir()
        (self.wd / "telos.toml").write_text(TELOS)
        self.git("init", "-q", "-b", "trunk")
        self.git("add", "-A")
        self.git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "start")

    def git(self, *arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=self.wd, capture_output=True, text=True, check=True).stdout

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """`logos build`, in a process of its own."""
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "API": self.cao.url,
            "PROVIDER": "mock_cli",
            "IDLE_GRACE_SECONDS": "5",
            "POLL_SECONDS": "0.2",
        }
        command = [sys.executable, "-m", "logos", "build", *arguments]
        with (self.home / "driver.log").open("ab") as log:
            driver = subprocess.Popen(command, cwd=self.wd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.drivers.append(driver)
        return driver

    def kill(self, driver: subprocess.Popen[bytes]) -> None:
        driver.kill()
        assert driver.wait() == KILLED

    def close(self) -> None:
        for driver in self.drivers:
            if driver.poll() is None:
                driver.kill()
                driver.wait()

    @property
    def said(self) -> str:
        return (self.home / "driver.log").read_text()

    # -- what the log says

    def records(self) -> list[Recorded]:
        if not (self.wd / ".telos" / "logos.db").exists():
            return []
        log = SqliteLog(self.wd / ".telos" / "logos.db")
        try:
            return [record for run in log.runs() for record in log.read(run)]
        finally:
            log.close()

    def events(self, kind: type[Kept]) -> list[Kept]:
        return [record.event for record in self.records() if isinstance(record.event, kind)]

    @property
    def run(self) -> str:
        """The build of this repository; empty before one has begun."""
        return next((record.run for record in self.records()), "")

    @property
    def answered(self) -> list[str]:
        return [event.turn for event in self.events(TurnAnswered)]

    def sent(self, *turns: str) -> bool:
        return {*turns} <= {event.turn for event in self.events(TurnSent)}

    @property
    def terminals(self) -> dict[str, TerminalOpened]:
        return {event.agent: event for event in self.events(TerminalOpened)}

    # -- what the agents and the server say

    def ask(self, turn: str) -> dict[str, Any]:
        """What an agent noted when it was asked a turn."""
        (noted,) = (ask for ask in self.cao.pending_turns() if ask["turn"] == turn)
        return noted

    def turns_asked(self) -> Counter[str]:
        """What the agents themselves say they were asked."""
        return Counter(ask["turn"] for ask in self.cao.pending_turns() if ask["turn"])

    def worktree(self, name: str) -> Path:
        return self.wd / ".telos" / "worktrees" / self.run / name

    def response(self, name: str, turn: str) -> Path:
        return self.worktree(name) / ".tmp" / "agent-responses" / f"{turn}.md"

    def panes(self) -> dict[str, str]:
        """Where each session of tmux is, by its name."""
        listed = self.cao.tmux("list-panes", "-a", "-F", "#{session_name} #{pane_current_path}").splitlines()
        return dict(line.split(" ", 1) for line in listed)

    def told_folder(self, terminal: str) -> str:
        """Where the server finds a terminal's agent."""
        answer = httpx.get(f"{self.cao.url}/terminals/{terminal}/working-directory", timeout=30)
        return answer.raise_for_status().json()["working_directory"]

    # -- what is there

    def built(self) -> dict[str, str]:
        """What the build left as its branch, besides what was there before."""
        branch = f"logos/{self.run}"
        names = self.git("diff", "--name-only", "trunk", branch).split()
        return {name: self.git("show", f"{branch}:{name}") for name in names}

    def check_nothing_is_left(self) -> None:
        """Neither on the server nor in tmux nor in the repository, but for the result."""
        assert httpx.get(f"{self.cao.url}/sessions", timeout=30).json() == []
        assert self.panes() == {}
        gone = [
            httpx.get(f"{self.cao.url}/terminals/{terminal.terminal}", timeout=30).status_code
            for terminal in self.events(TerminalOpened)
        ]
        assert {*gone} == {404}
        refs = self.git("for-each-ref", "--format=%(refname)", "refs/heads").split()
        assert refs == [f"refs/heads/logos/{self.run}", "refs/heads/trunk"]
        assert len(self.git("worktree", "list").splitlines()) == 1
        assert not (self.wd / ".telos" / "worktrees").exists()
        assert self.git("status", "--porcelain", "--untracked-files=all") == ""


def wait_for(condition: Callable[[], object], driver: subprocess.Popen[bytes] | None = None) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert driver is None or driver.poll() is None, "the driver has ended"
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def script(cao: CaoServer, steps: Mapping[str, Sequence[ActionKind]]) -> None:
    cao.script(**steps)


@pytest.fixture(scope="module")
def built(cao: CaoServer, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A build of four levels: two authors side by side, one that needs both, and a report that is none."""
    script(
        cao,
        {
            "L9.decompose": [reports(TurnKind.DECOMPOSE, Level.L9)],
            "L3.decompose": [divides_into(cart=(), price=(), shop=("cart", "price"))],
            "L2.cart": [writes("cart", f"# TODO: tidy up\n{CART}")],
            "L2.price": [
                {"say": "All done, trust me.", "edit": {"price.py": PRICE}},
                reports(TurnKind.AUTHOR, Level.L2, files=["price.py"]),
            ],
            "L2.shop": [writes("shop", SHOP)],
            "L1.lint": [{**reports(TurnKind.LINT, Level.L1), "edit": {"cart.py": CART}}],
            "L3.validate": [reports(TurnKind.VALIDATE, Level.L3)],
            "L9.validate": [reports(TurnKind.VALIDATE, Level.L9)],
        },
    )
    site = Site(cao, tmp_path_factory.mktemp("built"))
    try:
        driver = site.start("a shop", "--levels", "9,3,2,1")
        assert driver.wait(100) == 0, site.said
    finally:
        site.close()
    return site


def test_a_build_passes_from_purpose_to_syntax_and_back(built: Site):
    assert [event.outcome for event in built.events(RunEnded)] == [Outcome.PASSED]
    assert built.turns_asked() == Counter(built.answered)
    assert {*built.answered} == {
        "s1.L9.decompose",
        "s1.L3.decompose",
        "s1.L2.cart.author",
        "s1.L2.price.author",
        "s1.L2.price.author.t2",
        "s1.L2.shop.author",
        "s1.L1.lint",
        "s1.L3.validate",
        "s1.L9.validate",
    }
    assert built.built() == {"cart.py": CART, "price.py": PRICE, "shop.py": SHOP}


def test_every_prompt_arrives_whole_in_a_terminal_of_its_own(built: Site):
    for asked in built.events(TurnAsked):
        assert built.ask(asked.turn)["chars"] == len(asked.prompt.strip())
    agents = {event.agent for event in built.events(TurnAsked)}
    opened = built.events(TerminalOpened)
    assert Counter(event.agent for event in opened) == Counter(agents)
    assert len({event.session for event in opened}) == len(agents)


def test_an_author_works_in_a_worktree_with_what_it_depends_on(built: Site):
    for name in ("cart", "price", "shop"):
        ask = built.ask(f"s1.L2.{name}.author")
        assert ask["cwd"] == str(built.worktree(name))
        assert ask["answer"] == str(built.response(name, ask["turn"]))
    seen = {name: {*built.ask(f"s1.L2.{name}.author")["sees"]} for name in ("cart", "price", "shop")}
    assert not {"cart.py", "price.py"} & (seen["cart"] | seen["price"])
    assert {"cart.py", "price.py"} <= seen["shop"]


def test_tools_are_run_by_logos_on_what_was_merged(built: Site):
    ran = {event.command: event.exit_code for event in built.events(CheckRan)}
    assert ran == {"! grep -q TODO cart.py": 0, "test -f cart.py && test -f price.py": 0}


def test_an_invalid_report_is_asked_again_in_the_same_conversation(built: Site):
    first, again = built.ask("s1.L2.price.author"), built.ask("s1.L2.price.author.t2")
    assert again["pid"] == first["pid"]
    # What was written at the first try is still there.
    assert "price.py" in again["sees"]
    (prompt,) = (event.prompt for event in built.events(TurnAsked) if event.turn == again["turn"])
    assert "PROBLEMS OF THE PREVIOUS TRY" in prompt


def test_a_build_leaves_nothing_but_its_branch(built: Site):
    built.check_nothing_is_left()


@pytest.fixture
def site(cao: CaoServer, tmp_path: Path) -> Iterator[Site]:
    site = Site(cao, tmp_path)
    yield site
    site.close()
    print(site.said)


def test_a_driver_killed_while_authors_work_is_resumed_without_asking_twice(cao: CaoServer, site: Site):
    authors = {"cart": "s1.L2.cart.author", "price": "s1.L2.price.author"}
    script(
        cao,
        {
            "L3.decompose": [divides_into(cart=(), price=())],
            "L2.cart": [writes("cart", CART, hold="cart")],
            "L2.price": [writes("price", PRICE, hold="price")],
            "L3.validate": [reports(TurnKind.VALIDATE, Level.L3)],
        },
    )
    driver = site.start("a shop", "--levels", "L3,L2")
    # The first time it dies while the server is still opening the authors' terminals.
    wait_for(lambda: {str(site.worktree(name)) for name in authors} <= {*site.panes().values()}, driver)
    site.kill(driver)
    assert not site.terminals.keys() & {*authors.values()}

    # The second time while both are at work, each in its own worktree.
    driver = site.start("--resume")
    wait_for(lambda: site.sent(*authors.values()), driver)
    site.kill(driver)
    for name, turn in authors.items():
        terminal, folder = site.terminals[turn], str(site.worktree(name))
        assert site.told_folder(terminal.terminal) == folder
        assert site.panes()[terminal.session] == folder

    # One answers while nobody listens, the other when somebody does again.
    cao.release("cart")
    wait_for(site.response("cart", authors["cart"]).exists)
    driver = site.start("--resume")
    wait_for(lambda: authors["cart"] in site.answered, driver)
    assert authors["price"] not in site.answered
    cao.release("price")
    assert driver.wait(60) == 0

    assert [event.outcome for event in site.events(RunEnded)] == [Outcome.PASSED]
    assert len(site.events(RunStarted)) == 1
    turns = Counter(["s1.L3.decompose", *authors.values(), "s1.L3.validate"])
    assert site.turns_asked() == Counter(site.answered) == turns
    assert Counter(event.turn for event in site.events(TurnAsked)) == turns
    assert site.built() == {"cart.py": CART, "price.py": PRICE}
    site.check_nothing_is_left()
