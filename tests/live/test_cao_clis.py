"""Whole runs on CAO servers: with the real codex, claude and opencode, and with terminals that are never done."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from logos.domain.events import TerminalClosed, TerminalOpened
from logos.domain.roles import RESPONSE_FILES
from logos.testing.cao_server import FakeCao
from tests.live.cao import CaoServer
from tests.live.clients import CLAUDE, CODEX, OPENCODE, Client
from tests.live.clis import Home, make_home, processes, sweep
from tests.live.conftest import require_server
from tests.live.conversation import TURN, Conversation
from tests.live.cycles import ANSWERS, CONVERSATIONS, ROLES, TURNS, cao_sandbox, everybody_does_well
from tests.live.driven import DrivenSandbox
from tests.live.model import FakeModel, Script
from tests.support.isolation import bare_env
from tests.support.sandbox import PROMPT
from tests.support.waiting import LAST_RESORT, wait_for

pytestmark = pytest.mark.long


@dataclass(frozen=True, slots=True)
class Stage:
    """A client's server and model, and a sandbox for runs there."""

    cao: CaoServer
    home: Home
    model: FakeModel
    shop: DrivenSandbox

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


@contextmanager
def staged(client: Client, wd: Path) -> Iterator[Stage]:
    require_server()
    cao = CaoServer()
    with FakeModel(Script(ANSWERS)) as model:
        home = make_home(client, cao.home, model, agent_def=wd)
        cao.agent_def(home.env)
        try:
            with cao:
                shop = cao_sandbox(cao, wd, PROVIDER=client.provider, CLEANUP_ON_EXIT="1", IDLE_GRACE_SECONDS="60")
                assert shop("profiles", "install", "--force", "--api", cao.url).code == 0
                try:
                    yield Stage(cao, home, model, shop)
                finally:
                    shop.close()
        finally:
            sweep(home)


@pytest.mark.parametrize("client", [CODEX, CLAUDE], ids=lambda client: client.name)
def test_five_real_agents_complete_a_cycle(client: Client, tmp_path: Path) -> None:
    with staged(client, tmp_path / "work") as stage:
        assert stage.shop.drive() == 0
        assert stage.shop.state["final_status"] == "PASS"
        assert stage.shop.turns_answered() == TURNS
        assert [turns_in(request) for request in stage.prompts()] == CONVERSATIONS
        again = stage.prompts()[TURNS.index("r2.programmer.c1")]
        assert "openspec-apply-change result: applied" in again.earlier
        check_everything_is_closed(stage)


def test_a_real_agent_that_looks_idle_while_it_works_is_waited_for(tmp_path: Path) -> None:
    """opencode is `idle` all through its first turn and `completed` all through its second, says the server."""
    with staged(OPENCODE, tmp_path / "work") as stage:
        # Five of these need a minute to come up: the other four are scripted.
        stage.cao.install("tester", OPENCODE.provider)
        everybody_does_well(stage.cao)
        agents = {"tester": {"provider": OPENCODE.provider}}
        (stage.shop.wd / "logos.json").write_text(json.dumps({"agents": agents}))
        stage.shop.set(PROVIDER="mock_cli")
        assert stage.shop.start_logos("run", "logos.json").wait() == 0
        assert stage.shop.turns_answered() == TURNS
        assert [turns_in(request) for request in stage.prompts()] == [CONVERSATIONS[4], CONVERSATIONS[-1]]
        assert stage.cao.turns_asked() == Counter(turn for turn in TURNS if "tester" not in turn)
        check_everything_is_closed(stage)


def turns_in(conversation: Conversation) -> list[str]:
    return [turn for prompt in conversation.prompts for turn in TURN.findall(prompt.text)]


def check_everything_is_closed(stage: Stage) -> None:
    opened = [event.terminal for event in stage.shop.all_of(TerminalOpened)]
    assert len(opened) == len(ROLES)
    assert sorted(opened) == sorted(event.terminal for event in stage.shop.all_of(TerminalClosed))
    assert stage.cao.windows(stage.shop.state["session_name"]) == 0
    wait_for(lambda: not stage.left(), lambda: f"the end of {stage.left()}")


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


# How long a terminal that rests without a file is left alone, and how long one that works is after its file came.
@pytest.mark.parametrize(("says", "grace"), [("completed", str(LAST_RESORT)), ("processing", "0.3")])
def test_a_status_that_never_changes_does_not_stop_a_run(says: str, grace: str, tmp_path: Path) -> None:
    answers = dict(zip(RESPONSE_FILES, ANSWERS.values(), strict=True))
    cao = Stuck(tmp_path / ".tmp" / "agent-responses", answers, turn_seconds=0.3)
    cao.says = says
    env = {"WD": str(tmp_path), "PROMPT": PROMPT, "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1", "IDLE_GRACE_SECONDS": grace}
    with cao:
        assert DrivenSandbox(tmp_path, bare_env(API=cao.url, **env)).drive() == 0
    asked = (query.get("message", "") for method, _, query in cao.requests if method == "POST")
    assert [turn for message in asked for turn in TURN.findall(message)] == TURNS
