"""Whole runs on a real CAO server with the real codex, claude and opencode, and with terminals whose status lies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from logos.domain.events import TerminalClosed, TerminalOpened
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, GOOD_PROGRAM, PASS
from logos.testing.cao_server import FakeCao
from tests.live.cao import BIN, CaoServer
from tests.live.clis import CLAUDE, CODEX, OPENCODE, Client, Home, install, make_home, processes, sweep
from tests.live.model import TURN, Conversation, FakeModel, Script
from tests.live.test_cycle import PROMPT, ROLES, ROOT, Shop, everybody_does_well, wait_for

pytestmark = pytest.mark.timeout(600)  # the first test may have to install the clients

WORDS = {
    "analyst": [GOOD_ANALYSIS],
    "peer_analyst": [APPROVED],
    "programmer": [GOOD_PROGRAM],
    "peer_programmer": [APPROVED],
    "tester": [FAIL, PASS],
}
TURNS = [f"r1.{role}.c1" for role in ROLES] + [f"r2.{role}.c1" for role in ROLES[2:]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One client, a server and a model of its own, and a run of Logos under way."""

    cao: CaoServer
    home: Home
    model: FakeModel
    shop: Shop

    def exit_code(self) -> int:
        (driver,) = self.shop.drivers
        return driver.wait(300)

    def left(self) -> list[psutil.Process]:
        """What still runs from the server's home, besides the server and its tmux."""
        found: list[psutil.Process] = []
        for process in processes(self.home):
            if process.pid != self.cao.pid and not process.name().startswith("tmux"):
                found.append(process)
        return found


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Stage]]:
    """All three at once: their time is mostly the server's waiting."""
    for needed in ("tmux", str(BIN / "cao-server")):
        if shutil.which(needed) is None:
            unavailable(f"{needed} is not installed")
    if reason := install():
        unavailable(reason)
    with ExitStack() as stack:
        yield {c.name: stack.enter_context(staged(c, tmp_path_factory.mktemp(c.name))) for c in (CLAUDE, CODEX, OPENCODE)}


def unavailable(reason: str) -> None:
    # In CI a skip would look like a success.
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


@contextmanager
def staged(client: Client, wd: Path) -> Iterator[Stage]:
    with FakeModel(Script(WORDS)) as model:
        cao = CaoServer()
        home = make_home(client, cao.home, model, seat=wd)
        cao.seat(home.env)
        shop = Shop(cao, wd)
        try:
            with cao:
                install_ours = [BIN / "logos", "profiles", "install", "--force", "--api", cao.url]
                subprocess.run(install_ours, cwd=wd, check=True, capture_output=True)
                start = only_the_tester if client is OPENCODE else everybody
                start(client, shop)
                yield Stage(cao, home, model, shop)
                shop.close()
        finally:
            shop.close()
            sweep(home)
        if shop.said.exists():
            print(shop.said.read_text())


def everybody(client: Client, shop: Shop) -> None:
    shop.start(PROVIDER=client.provider, CLEANUP_ON_EXIT="1", IDLE_GRACE_SECONDS="5")


def only_the_tester(client: Client, shop: Shop) -> None:
    """Five opencodes would need a minute to come up: the other four are scripted."""
    shop.cao.install("tester", client.provider)
    everybody_does_well(shop.cao)
    config = {
        "api": shop.cao.url,
        "provider": "mock_cli",
        "agents": {"tester": {"provider": client.provider}},
        "wd": str(shop.wd),
        "prompt": PROMPT,
        "cleanup_on_exit": True,
        "limits": {"min_review_cycles_before_approval": 1},
        "handoff": {"idle_grace_seconds": 5},
    }
    file = shop.wd / "logos.json"
    file.write_text(json.dumps(config))
    env = {"PATH": os.environ["PATH"], "HOME": str(shop.wd)}
    with shop.said.open("ab") as log:
        command = [sys.executable, "-m", "logos", "run", file]
        shop.drivers.append(subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log))


@pytest.mark.parametrize("client", [CODEX, CLAUDE], ids=lambda client: client.name)
def test_five_real_agents_complete_a_cycle(client: Client, stages: Mapping[str, Stage]) -> None:
    stage = stages[client.name]
    assert stage.exit_code() == 0
    assert stage.shop.state["final_status"] == "PASS"
    assert stage.shop.answered() == TURNS
    assert heard(stage.model) == HISTORIES
    (again,) = [request for request in opening(stage.model) if turns_in(request)[-1] == "r2.programmer.c1"]
    assert "openspec-apply-change result: applied" in again.earlier
    everything_is_closed(stage)


def test_a_real_agent_that_looks_idle_while_it_works_is_waited_for(stages: Mapping[str, Stage]) -> None:
    """opencode is said to be `idle` all through its first turn and `completed` all through its second."""
    stage = stages[OPENCODE.name]
    assert stage.exit_code() == 0
    assert stage.shop.answered() == TURNS
    assert heard(stage.model) == [turns for turns in HISTORIES if "r1.tester.c1" in turns]
    assert stage.shop.turns_asked() == Counter(turn for turn in TURNS if "tester" not in turn)
    everything_is_closed(stage)


def opening(model: FakeModel) -> list[Conversation]:
    """The requests with which a client came from us to the model: one for each prompt."""
    return [request for request in model.work if not request.tool_answered]


def turns_in(conversation: Conversation) -> list[str]:
    return [turn for prompt in conversation.prompts for turn in TURN.findall(prompt.text)]


def heard(model: FakeModel) -> list[list[str]]:
    return [turns_in(request) for request in opening(model)]


def everything_is_closed(stage: Stage) -> None:
    events = stage.shop.events()
    opened = [event.terminal for event in events if isinstance(event, TerminalOpened)]
    assert len(opened) == len(ROLES)
    assert sorted(opened) == sorted(event.terminal for event in events if isinstance(event, TerminalClosed))
    assert stage.shop.windows() == 0
    wait_for(lambda: not stage.left(), within=10)


@pytest.mark.parametrize("says", ["completed", "processing"])
def test_a_status_that_never_changes_does_not_stop_a_run(says: str, tmp_path: Path) -> None:
    responses = tmp_path / ".tmp" / "agent-responses"
    with Stuck(responses, ANSWERS, turn_seconds=0.5) as cao:
        cao.says = says
        shop = Shop(cao, tmp_path)
