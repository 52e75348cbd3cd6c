"""Whole runs on CAO servers: with the real codex, claude and opencode, and with terminals that are never done."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from logos.domain.events import TerminalClosed, TerminalOpened
from logos.domain.roles import RESPONSE_FILES
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, GOOD_PROGRAM, PASS
from logos.testing.cao_server import FakeCao
from tests.live.cao import BIN, CaoServer
from tests.live.clis import CLAUDE, CODEX, OPENCODE, Client, Home, install, make_home, processes, sweep
from tests.live.model import TURN, Conversation, FakeModel, Script
from tests.live.test_cycle import PROMPT, ROLES, ROOT, Shop, everybody_does_well, wait_for

pytestmark = pytest.mark.timeout(600)  # the first test may have to install the clients

ANSWERS = {
    "analyst": [GOOD_ANALYSIS],
    "peer_analyst": [APPROVED],
    "programmer": [GOOD_PROGRAM],
    "peer_programmer": [APPROVED],
    "tester": [FAIL, PASS],
}
# What each conversation holds whenever its agent is asked, in the order of asking.
CONVERSATIONS = [[f"r1.{role}.c1"] for role in ROLES] + [[f"r1.{role}.c1", f"r2.{role}.c1"] for role in ROLES[2:]]
TURNS = [turns[-1] for turns in CONVERSATIONS]


@dataclass(frozen=True, slots=True)
class Stage:
    """A client's server and model, and a run of Logos that is under way there."""

    cao: CaoServer
    home: Home
    model: FakeModel
    shop: Shop

    def exit_code(self) -> int:
        (driver,) = self.shop.drivers
        code = driver.wait(300)
        print(self.shop.said.read_text())
        return code

    def prompts(self) -> list[Conversation]:
        """The requests with which the client came to the model from us, and not from a tool."""
        return [request for request in self.model.work if not request.tool_answered]

    def left(self) -> list[str]:
        """What runs from the server's home, besides the server and its tmux."""
        names: list[str] = []
        for process in processes(self.home):
            with suppress(psutil.NoSuchProcess):
                if process.pid != self.cao.pid and not process.name().startswith("tmux"):
                    names.append(process.name())
        return names


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Stage]]:
    """The longest first, and all at once: most of their time is the server's waiting."""
    for needed in ("tmux", str(BIN / "cao-server")):
        if shutil.which(needed) is None:
            refuse(f"{needed} is not installed")
    if reason := install():
        refuse(reason)
    with ExitStack() as stack:
        yield {
            client.name: stack.enter_context(staged(client, tmp_path_factory.mktemp(client.name)))
            for client in (CLAUDE, CODEX, OPENCODE)
        }


def refuse(reason: str) -> None:
    # In CI a skip would look like a success.
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


@contextmanager
def staged(client: Client, wd: Path) -> Iterator[Stage]:
    cao = CaoServer()
    with FakeModel(Script(ANSWERS)) as model:
        home = make_home(client, cao.home, model, agent_def=wd)
        cao.agent_def(home.env)
        shop = Shop(cao, wd)
        try:
            with cao:
                ours = [BIN / "logos", "profiles", "install", "--force", "--api", cao.url]
                subprocess.run(ours, cwd=wd, check=True, capture_output=True)
                (only_the_tester if client is OPENCODE else everybody)(client, shop)
                yield Stage(cao, home, model, shop)
        finally:
            shop.close()
            sweep(home)


def everybody(client: Client, shop: Shop) -> None:
    shop.start(PROVIDER=client.provider, CLEANUP_ON_EXIT="1", IDLE_GRACE_SECONDS="5")


def only_the_tester(client: Client, shop: Shop) -> None:
    """Five of these need a minute to come up; the other four are scripted."""
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
    assert [turns_in(request) for request in stage.prompts()] == CONVERSATIONS
    again = stage.prompts()[TURNS.index("r2.programmer.c1")]
    assert "openspec-apply-change result: applied" in again.earlier
    everything_is_closed(stage)


def test_a_real_agent_that_looks_idle_while_it_works_is_waited_for(stages: Mapping[str, Stage]) -> None:
    """opencode is `idle` all through its first turn and `completed` all through its second, says the server."""
    stage = stages[OPENCODE.name]
    assert stage.exit_code() == 0
    assert stage.shop.answered() == TURNS
    assert [turns_in(request) for request in stage.prompts()] == [CONVERSATIONS[4], CONVERSATIONS[-1]]
    assert stage.shop.turns_asked() == Counter(turn for turn in TURNS if "tester" not in turn)
    everything_is_closed(stage)


def turns_in(conversation: Conversation) -> list[str]:
    return [turn for prompt in conversation.prompts for turn in TURN.findall(prompt.text)]


def everything_is_closed(stage: Stage) -> None:
    events = stage.shop.events()
    opened = [event.terminal for event in events if isinstance(event, TerminalOpened)]
    assert len(opened) == len(ROLES)
    assert sorted(opened) == sorted(event.terminal for event in events if isinstance(event, TerminalClosed))
    assert stage.shop.windows() == 0
    wait_for(lambda: not stage.left(), within=10)


class Stuck(FakeCao):
    """From an agent's first turn on, its terminal says the same thing for ever."""

    says = ""

    def answer(self, method: str, path: list[str], query: dict[str, str]) -> tuple[int, Any]:
        code, body = super().answer(method, path, query)
        match method, path:
            case "GET", ["terminals", terminal] if self.agents[terminal].turns:
                return code, {**body, "status": self.says}
            case _:
                return code, body


@pytest.mark.parametrize(
    ("says", "grace"),
    [
        ("completed", "3"),  # longer than a turn, or agents would be reminded
        ("processing", "0.3"),
    ],
)
def test_a_status_that_never_changes_does_not_stop_a_run(says: str, grace: str, tmp_path: Path) -> None:
    answers = dict(zip(RESPONSE_FILES, ANSWERS.values(), strict=True))
    cao = Stuck(tmp_path / ".tmp" / "agent-responses", answers, turn_seconds=0.3)
    cao.says = says
    with cao:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "API": cao.url,
            "WD": str(tmp_path),
            "PROMPT": PROMPT,
            "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1",
            "IDLE_GRACE_SECONDS": grace,
        }
        done = subprocess.run([sys.executable, "-m", "tests.driver"], cwd=ROOT, env=env, timeout=60)
    assert done.returncode == 0
    asked = (query.get("message", "") for method, _, query in cao.requests if method == "POST")
    assert [turn for message in asked for turn in TURN.findall(message)] == TURNS
