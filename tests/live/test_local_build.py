"""Builds without a server: real agent CLIs at the levels, authors at the same time in real git worktrees."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.reports import example
from logos.domain.events import RunEnded, RunStarted, TurnAnswered, TurnAsked, WorkGathered
from logos.domain.levels import Level
from logos.domain.reports import TurnKind
from logos.domain.turns import Outcome
from tests.live.clients import CLAUDE, CODEX
from tests.live.clis import Home, all_gone, make_home, processes, sweep
from tests.live.conversation import TURN, Conversation, Usage
from tests.live.cycles import prompts_seen, sandbox_works
from tests.live.driven import BuildSandbox
from tests.live.model import FakeModel, Script
from tests.support.repositories import make_repository
from tests.support.waiting import LAST_RESORT, wait_for

pytestmark = pytest.mark.long

TELOS = """
purpose = "A shop that never sells what it does not have."
[[tools]]
level = 2
name = "whole"
command = "test -f cart.py && test -f price.py"
"""
# Everything below /tmp is open to codex otherwise, and a worktree in a test would be writable wherever it lies.
NOTHING_BUT_THE_WORKTREE = """
[sandbox_workspace_write]
exclude_slash_tmp = true
exclude_tmpdir_env_var = true
"""
FILES = {"cart.py": "def cart_total():\n    return 2\n", "price.py": "def price_of():\n    return 1\n"}
AUTHORS = {"cart": "s1.L2.cart.author", "price": "s1.L2.price.author"}
TURNS = Counter(["s1.L3.decompose", *AUTHORS.values(), "s1.L3.validate"])
# Who designs, and who writes: each CLI is in each kind of folder once.
CASTS = {
    "claude designs and codex writes": {"L3": "claude_code", "L2": "codex"},
    "codex designs and claude writes": {"L3": "codex", "L2": "claude_code"},
}


def report(kind: TurnKind, level: Level, **changes: Any) -> list[str]:
    return [json.dumps({**example(kind, level), **changes})]


PARTS = [
    {"name": name, "purpose": f"the {name}", "files": [f"{name}.py"], "provides": [], "depends_on": []}
    for name in AUTHORS
]
REPORTS = {
    "L3.decompose": report(TurnKind.DECOMPOSE, Level.L3, components=PARTS),
    **{f"L2.{name}.author": report(TurnKind.AUTHOR, Level.L2, files=[f"{name}.py"]) for name in AUTHORS},
    "L3.validate": report(TurnKind.VALIDATE, Level.L3),
}


def author_work(name: str, dependencies: Path) -> str:
    """An author looks where it is, writes its file beside it, and tries to leave something outside."""
    return "\n".join(
        (
            "git rev-parse --show-toplevel && git status --short",
            f"cat >{name}.py <<'FILE_END'\n{FILES[f'{name}.py']}FILE_END",
            f"echo {name} >'{dependencies}/from_{name}.txt'",
        )
    )


@dataclass
class Works(BuildSandbox):
    """A repository, a home that both CLIs share, and drivers that build in it."""

    cast: Mapping[str, str] = field(default_factory=dict)
    home: Home = field(kw_only=True)

    def check_nothing_is_left(self) -> None:
        """Neither a process nor anything in the repository, but for the result."""
        assert all_gone(self.home)
        self.check_repository_is_clean()


def works_of(home: Home, wd: Path, cast: Mapping[str, str]) -> Works:
    level_agents = {level: {"provider": provider} for level, provider in cast.items()}
    # Without user namespaces codex cannot keep its agents inside; then they must be let out.
    handoff = {"auto_accept_permissions": not sandbox_works(), "idle_grace_seconds": LAST_RESORT}
    config = {"host": "local", "levels": "3,2", "level_agents": level_agents, "handoff": handoff}
    make_repository(wd, {"logos.json": json.dumps(config), "telos.toml": TELOS})
    return Works(wd, dict(home.env), cast=cast, home=home)


def turn_of(request: Conversation) -> str:
    found = TURN.search(request.prompts[-1].text)
    assert found is not None
    return found[1]


def tools_said(model: FakeModel, turn: str) -> str:
    """What the CLI's own tools answered in a turn."""
    (after,) = (request for request in model.work if turn_of(request) == turn and request.tool_answered)
    return "\n".join(message.text for message in after.messages if message.role == "tool")


def billed(model: FakeModel) -> dict[str, Usage]:
    """What the model says each turn cost."""
    total: dict[str, Usage] = {}
    for request, usage in model.bills:
        total[turn_of(request)] = total.get(turn_of(request), Usage()) + usage
    return total


def accounted(works: Works) -> dict[str, Usage]:
    """What the log says each turn cost."""
    used = {event.turn: event.usage for event in works.all_of(TurnAnswered)}
    return {turn: Usage(use.input or 0, use.cached or 0, use.output or 0) for turn, use in used.items() if use}


@pytest.fixture
def dependencies(tmp_path: Path) -> Path:
    """A folder that is nobody's worktree."""
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


@pytest.fixture
def model(dependencies: Path) -> Iterator[FakeModel]:
    work = {f"L2.{name}.author": author_work(name, dependencies) for name in AUTHORS}
    with FakeModel(Script(REPORTS, work=work)) as model:
        yield model


@pytest.fixture(params=CASTS)
def works(request: pytest.FixtureRequest, model: FakeModel, tmp_path: Path) -> Iterator[Works]:
    home = make_home(CODEX, tmp_path / "home", model)
    with (home.path / ".codex" / "config.toml").open("a") as config:
        config.write(NOTHING_BUT_THE_WORKTREE)
    home = replace(home, env={**home.env, **CLAUDE.env(model.url)})
    works = works_of(home, tmp_path / "work", CASTS[request.param])
    yield works
    works.close()
    sweep(home)


def test_a_build_passes_with_each_author_in_its_own_worktree(works: Works, model: FakeModel, dependencies: Path):
    assert works.start_build("a shop").wait() == 0
    assert [event.outcome for event in works.all_of(RunEnded)] == [Outcome.PASSED]
    assert Counter(works.turns_answered()) == prompts_seen(model) == TURNS
    assert works.built() == FILES

    gathered = {event.place: event for event in works.all_of(WorkGathered)}
    for name, turn in AUTHORS.items():
        work = gathered[name]
        assert [file.path for file in work.touched] == [f"{name}.py"]
        assert works.changed("main", work.commit) == {f"{name}.py": FILES[f"{name}.py"]}
        # Git works there, although what it reads lies outside.
        assert str(works.worktree(name)) in tools_said(model, turn)
    left = sorted(file.name for file in dependencies.iterdir())
    if sandbox_works() and works.cast["L2"] == "codex":
        assert left == []
    else:
        # Claude may run any command, and so may everybody who is let out.
        assert left == ["from_cart.txt", "from_price.txt"]

    assert accounted(works) == billed(model)
    levels = works("cost", "--json").json["usage_by"]["levels"]
    for level in ("L3", "L2"):
        parts = [usage for turn, usage in billed(model).items() if f".{level}." in turn]
        told = levels[level]
        assert told["turns"] == len(parts) == 2
        assert told["tokens_unknown_turns"] == 0
        assert Usage(told["input"], told["cached"], told["output"]) == sum(parts, Usage())
    works.check_nothing_is_left()
    assert model.dependencies == []


def test_authors_outlive_a_killed_driver_and_are_not_asked_twice(works: Works, model: FakeModel):
    assert isinstance(model.reply, Script)
    gates = {f"L2.{name}.author": threading.Event() for name in AUTHORS}
    model.reply.holds = gates
    driver = works.start_build("a shop")
    works.wait_until_sent(*AUTHORS.values(), driver=driver)
    wait_for(lambda: {*AUTHORS.values()} <= prompts_seen(model).keys(), "both authors' prompts", process=driver)
    works.kill(driver)
    at_work = {process.cwd() for process in processes(works.home)}
    assert {str(works.worktree(name)) for name in AUTHORS} <= at_work, "each goes on where it is"

    # One answers while nobody listens, the other when somebody does again.
    gates["L2.cart.author"].set()
    wait_for(works.response("cart", AUTHORS["cart"]).exists)
    driver = works.start_build("--resume")
    wait_for(lambda: AUTHORS["cart"] in works.turns_answered(), "the answer of cart", process=driver)
    assert AUTHORS["price"] not in works.turns_answered()
    gates["L2.price.author"].set()
    assert driver.wait() == 0

    assert [event.outcome for event in works.all_of(RunEnded)] == [Outcome.PASSED]
    assert len(works.all_of(RunStarted)) == 1
    assert Counter(works.turns_answered()) == prompts_seen(model) == TURNS
    assert Counter(event.turn for event in works.all_of(TurnAsked)) == TURNS
    assert accounted(works) == billed(model)
    assert works.built() == FILES
    works.check_nothing_is_left()
