"""The levels on a real CAO server in tmux: authors in real worktrees, a driver that is really killed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.reports import example
from logos.domain.events import CheckRan, RunEnded, RunStarted, TerminalOpened, TurnAsked
from logos.domain.levels import Level
from logos.domain.reports import TurnKind
from logos.domain.turns import Outcome
from tests.live.cao import CaoServer
from tests.live.driven import KILLED, NO_REMINDER, BuildSandbox
from tests.support.isolation import bare_env
from tests.support.repositories import make_repository
from tests.support.waiting import wait_for

pytestmark = pytest.mark.long

ActionKind = dict[str, Any]

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


@dataclass
class Site(BuildSandbox):
    """A repository, and drivers that build in it with agents on the server."""

    cao: CaoServer = field(kw_only=True)

    @property
    def terminals(self) -> dict[str, TerminalOpened]:
        return {event.agent: event for event in self.all_of(TerminalOpened)}

    def ask(self, turn: str) -> dict[str, Any]:
        """What an agent noted when it was asked a turn."""
        (noted,) = (ask for ask in self.cao.pending_turns() if ask["turn"] == turn)
        return noted

    def panes(self) -> dict[str, str]:
        """Where each session of tmux is, by its name."""
        listed = self.cao.tmux("list-panes", "-a", "-F", "#{session_name} #{pane_current_path}").splitlines()
        return dict(line.split(" ", 1) for line in listed)

    def told_folder(self, terminal: str) -> str:
        """Where the server finds a terminal's agent."""
        answer = self.cao.get(f"/terminals/{terminal}/working-directory")
        return answer.raise_for_status().json()["working_directory"]

    def check_nothing_is_left(self) -> None:
        """Neither on the server nor in tmux nor in the repository, but for the result."""
        assert self.cao.get("/sessions").json() == []
        assert self.panes() == {}
        gone = [self.cao.get(f"/terminals/{terminal.terminal}").status_code for terminal in self.all_of(TerminalOpened)]
        assert {*gone} == {404}
        self.check_repository_is_clean()


def a_site(cao: CaoServer, wd: Path) -> Site:
    make_repository(wd, {"telos.toml": TELOS})
    env = bare_env(API=cao.url, PROVIDER="mock_cli", POLL_SECONDS="0.2", **NO_REMINDER)
    return Site(wd, env, cao=cao)


@pytest.fixture(scope="module")
def built(cao: CaoServer, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A build of four levels: two authors side by side, one that needs both, and a report that is none."""
    cao.script(
        **{
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
        }
    )
    site = a_site(cao, tmp_path_factory.mktemp("built") / "repository")
    try:
        assert site.start_build("a shop", "--levels", "9,3,2,1").wait() == 0
    finally:
        site.close()
    return site


def test_a_build_passes_from_purpose_to_syntax_and_back(built: Site):
    assert [event.outcome for event in built.all_of(RunEnded)] == [Outcome.PASSED]
    assert built.cao.turns_asked() == Counter(built.turns_answered())
    assert {*built.turns_answered()} == {
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
    for asked in built.all_of(TurnAsked):
        assert built.ask(asked.turn)["chars"] == len(asked.prompt.strip())
    agents = {event.agent for event in built.all_of(TurnAsked)}
    opened = built.all_of(TerminalOpened)
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
    ran = {event.command: event.exit_code for event in built.all_of(CheckRan)}
    assert ran == {"! grep -q TODO cart.py": 0, "test -f cart.py && test -f price.py": 0}


def test_an_invalid_report_is_asked_again_in_the_same_conversation(built: Site):
    first, again = built.ask("s1.L2.price.author"), built.ask("s1.L2.price.author.t2")
    assert again["pid"] == first["pid"]
    # What was written at the first try is still there.
    assert "price.py" in again["sees"]
    (prompt,) = (event.prompt for event in built.all_of(TurnAsked) if event.turn == again["turn"])
    assert "PROBLEMS OF THE PREVIOUS TRY" in prompt


def test_a_build_leaves_nothing_but_its_branch(built: Site):
    built.check_nothing_is_left()


@pytest.fixture
def site(cao: CaoServer, tmp_path: Path) -> Iterator[Site]:
    site = a_site(cao, tmp_path / "repository")
    yield site
    site.close()


def test_a_driver_killed_while_authors_work_is_resumed_without_asking_twice(cao: CaoServer, site: Site):
    authors = {"cart": "s1.L2.cart.author", "price": "s1.L2.price.author"}
    cao.script(
        **{
            "L3.decompose": [divides_into(cart=(), price=())],
            "L2.cart": [writes("cart", CART, hold="cart")],
            "L2.price": [writes("price", PRICE, hold="price")],
            "L3.validate": [reports(TurnKind.VALIDATE, Level.L3)],
        }
    )
    # The first time it dies when the server has opened an author's terminal, and nobody knows of it yet.
    deaths = site.wd.with_name("deaths")
    deaths.write_text(f"before terminal_opened {authors['cart']}\n")
    assert site.drive(FEATURE="a shop", LEVELS="L3,L2", WD=str(site.wd), DEATHS=str(deaths)) == KILLED
    assert str(site.worktree("cart")) in site.panes().values()
    assert authors["cart"] not in site.terminals

    # The second time while both are at work, each in its own worktree.
    driver = site.start_build("--resume")
    site.wait_until_sent(*authors.values(), driver=driver)
    site.kill(driver)
    for name, turn in authors.items():
        terminal, folder = site.terminals[turn], str(site.worktree(name))
        assert site.told_folder(terminal.terminal) == folder
        assert site.panes()[terminal.session] == folder

    # One answers while nobody listens, the other when somebody does again.
    cao.release("cart")
    wait_for(site.response("cart", authors["cart"]).exists)
    driver = site.start_build("--resume")
    wait_for(lambda: authors["cart"] in site.turns_answered(), "the answer of cart", process=driver)
    assert authors["price"] not in site.turns_answered()
    cao.release("price")
    assert driver.wait() == 0

    assert [event.outcome for event in site.all_of(RunEnded)] == [Outcome.PASSED]
    assert len(site.all_of(RunStarted)) == 1
    turns = Counter(["s1.L3.decompose", *authors.values(), "s1.L3.validate"])
    assert cao.turns_asked() == Counter(site.turns_answered()) == turns
    assert Counter(event.turn for event in site.all_of(TurnAsked)) == turns
    assert site.built() == {"cart.py": CART, "price.py": PRICE}
    site.check_nothing_is_left()
