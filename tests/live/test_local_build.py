"""Builds without a server: real agent CLIs at the levels, authors at the same time in real git worktrees."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

from logos.adapters.reports import example
from logos.adapters.store.sqlite import SqliteLog
from logos.domain.events import Event, Recorded, RunEnded, RunStarted, TurnAnswered, TurnAsked, TurnSent, WorkGathered
from logos.domain.levels import Level
from logos.domain.reports import TurnKind
from logos.domain.turns import Outcome
from tests.live.clis import CLAUDE, CODEX, Home, all_gone, install, make_home, processes, sweep
from tests.live.model import TURN, Conversation, FakeModel, Script, Usage

Kept = TypeVar("Kept", bound=Event)

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


@cache
def why_not() -> str | None:
    return install()


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


class Works:
    """A repository, a home that both CLIs share, and drivers that build in it."""

    def __init__(self, home: Home, wd: Path, cast: Mapping[str, str]) -> None:
        self.home, self.wd, self.cast = home, wd, cast
        self.said = wd.with_name("driver.log")
        wd.mkdir()
        level_agents = {level: {"provider": provider} for level, provider in cast.items()}
        # Without user namespaces codex cannot keep its agents inside; then they must be let out.
        handoff = {"auto_accept_permissions": not self.confined}
        config = {"host": "local", "levels": "3,2", "level_agents": level_agents, "handoff": handoff}
        (wd / "logos.json").write_text(json.dumps(config))
        (wd / "telos.toml").write_text(TELOS)
        self.git("init", "-q", "-b", "trunk")
        self.git("add", "-A")
        self.git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "start")

    @property
    def confined(self) -> bool:
        return self.home.permissions == CODEX.mild

    def git(self, *arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=self.wd, capture_output=True, text=True, check=True).stdout

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "logos", "build", *arguments]
        with self.said.open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.wd, env=dict(self.home.env), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def cost(self) -> dict[str, Any]:
        command = [sys.executable, "-m", "logos", "cost", "--json"]
        return json.loads(subprocess.check_output(command, cwd=self.wd, env=dict(self.home.env)))

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
        return self.records()[0].run

    def worktree(self, name: str) -> Path:
        return self.wd / ".telos" / "worktrees" / self.run / name

    def answered(self) -> Counter[str]:
        return Counter(event.turn for event in self.events(TurnAnswered))

    def built(self) -> dict[str, str]:
        """What the build left as its branch, besides what was there before."""
        return self.changed("trunk", f"logos/{self.run}")

    def changed(self, before: str, after: str) -> dict[str, str]:
        names = self.git("diff", "--name-only", before, after).split()
        return {name: self.git("show", f"{after}:{name}") for name in names}

    def check_nothing_is_left(self) -> None:
        """Neither a process nor anything in the repository, but for the result."""
        assert all_gone(self.home)
        refs = self.git("for-each-ref", "--format=%(refname)", "refs/heads").split()
        assert refs == [f"refs/heads/logos/{self.run}", "refs/heads/trunk"]
        assert len(self.git("worktree", "list").splitlines()) == 1
        assert not (self.wd / ".telos" / "worktrees").exists()
        assert self.git("status", "--porcelain", "--untracked-files=all") == ""


def wait_for(condition: Callable[[], object], within: float = 60) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def turn_of(request: Conversation) -> str:
    found = TURN.search(request.prompts[-1].text)
    assert found is not None
    return found[1]


def prompts_seen(model: FakeModel) -> Counter[str]:
    """How often each turn's prompt came to the model, before a tool had run for it."""
    return Counter(turn_of(request) for request in model.work if not request.tool_answered)


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
    used = {event.turn: event.usage for event in works.events(TurnAnswered)}
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
    if reason := why_not():
        npm = shutil.which("npm") is not None and os.environ.get("CI") == "true"
        (pytest.fail if npm else pytest.skip)(reason)
    home = make_home(CODEX, tmp_path / "home", model)
    with (home.path / ".codex" / "config.toml").open("a") as config:
        config.write(NOTHING_BUT_THE_WORKTREE)
    home = replace(home, env={**home.env, **CLAUDE.env(model.url)})
    works = Works(home, tmp_path / "work", CASTS[request.param])
    yield works
    sweep(home)
    print(works.said.read_text() if works.said.exists() else "")


def test_a_build_passes_with_each_author_in_its_own_worktree(works: Works, model: FakeModel, dependencies: Path):
    assert works.start("a shop").wait(100) == 0
    assert [event.outcome for event in works.events(RunEnded)] == [Outcome.PASSED]
    assert works.answered() == prompts_seen(model) == TURNS
    assert works.built() == FILES

    gathered = {event.place: event for event in works.events(WorkGathered)}
    for name, turn in AUTHORS.items():
        work = gathered[name]
        assert [file.path for file in work.touched] == [f"{name}.py"]
        assert works.changed("trunk", work.commit) == {f"{name}.py": FILES[f"{name}.py"]}
        # Git works there, although what it reads lies outside.
        assert str(works.worktree(name)) in tools_said(model, turn)
    left = sorted(file.name for file in dependencies.iterdir())
    if works.confined and works.cast["L2"] == "codex":
        assert left == []
    else:
        # Claude may run any command, and so may everybody who is let out.
        assert left == ["from_cart.txt", "from_price.txt"]

    assert accounted(works) == billed(model)
    levels = works.cost()["levels"]
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
    driver = works.start("a shop")
    wait_for(lambda: {*AUTHORS.values()} <= {event.turn for event in works.events(TurnSent)})
    wait_for(lambda: {*AUTHORS.values()} <= prompts_seen(model).keys())
    driver.kill()
    driver.wait()
    at_work = {process.cwd() for process in processes(works.home)}
    assert {str(works.worktree(name)) for name in AUTHORS} <= at_work, "each goes on where it is"

    # One answers while nobody listens, the other when somebody does again.
    gates["L2.cart.author"].set()
    wait_for((works.worktree("cart") / ".tmp" / "agent-responses" / "s1.L2.cart.author.md").exists)
    driver = works.start("--resume")
    wait_for(lambda: AUTHORS["cart"] in works.answered())
    assert AUTHORS["price"] not in works.answered()
    gates["L2.price.author"].set()
    assert driver.wait(60) == 0

    assert [event.outcome for event in works.events(RunEnded)] == [Outcome.PASSED]
    assert len(works.events(RunStarted)) == 1
    assert works.answered() == prompts_seen(model) == TURNS
    assert Counter(event.turn for event in works.events(TurnAsked)) == TURNS
    assert accounted(works) == billed(model)
    assert works.built() == FILES
    works.check_nothing_is_left()
