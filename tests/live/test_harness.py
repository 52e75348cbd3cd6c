"""The harness itself, over plain HTTP: what a client of the real server may count on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.live.cao import CaoServer
from tests.support.waiting import LAST_RESORT, wait_for

pytestmark = pytest.mark.long


class Agent:
    """A scripted programmer in a session of its own."""

    def __init__(self, cao: CaoServer, responses: Path) -> None:
        self.response = responses / "programmer_summary.md"
        self.http = httpx.Client(base_url=cao.url, timeout=LAST_RESORT)
        created = self.http.post(
            "/sessions",
            params={
                "agent_profile": "programmer",
                "provider": "mock_cli",
                "working_directory": str(responses),
            },
        )
        assert created.status_code == 201, created.text
        self.id = created.json()["id"]
        self.session = created.json()["session_name"]

    def prompt(self, turn: str, text: str = "Do the work.") -> str:
        return f"Turn: {turn}\n\n{text}\n\nRESPONSE FILE INSTRUCTION\nWrite your answer to {self.response}\n"

    def send(self, message: str) -> None:
        sent = self.http.post(f"/terminals/{self.id}/input", params={"message": message})
        assert sent.status_code == 200, sent.text

    @property
    def status(self) -> str:
        return self.http.get(f"/terminals/{self.id}").json()["status"]

    @property
    def screen(self) -> str:
        return self.http.get(f"/terminals/{self.id}/output", params={"mode": "full"}).json()["output"]

    def close(self) -> None:
        self.http.delete(f"/sessions/{self.session}")
        self.http.close()


@pytest.fixture
def agent(cao: CaoServer, tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(cao, tmp_path)
    yield agent
    agent.close()


def test_a_prompt_is_worked_on_and_answered_in_the_response_file(cao: CaoServer, agent: Agent):
    cao.script(programmer=[{"say": "the work is done\n", "hold": "go", "hold_after": "end"}])
    prompt = agent.prompt("r1.programmer.c1")

    assert agent.status == "idle"
    agent.send(prompt)
    wait_for(lambda: agent.status == "processing")
    assert not agent.response.exists()

    cao.release("go")
    wait_for(agent.response.exists)
    assert agent.status == "processing"
    cao.release("end")
    wait_for(lambda: agent.status == "completed")
    assert agent.response.read_text() == "the work is done\n"

    (ask,) = cao.pending_turns()
    assert (ask["role"], ask["turn"], ask["chars"], ask["reminder"]) == (
        "programmer",
        "r1.programmer.c1",
        len(prompt.strip()),
        False,
    )


def test_a_prompt_near_the_url_limit_arrives_whole(cao: CaoServer, agent: Agent):
    cao.script()
    prompt = agent.prompt("r1.programmer.c1", "line of sixty characters, more or less, a few thousand times\n" * 700)

    agent.send(prompt)

    wait_for(lambda: len(cao.pending_turns()) == 1)
    assert cao.pending_turns()[0]["chars"] == len(prompt.strip())


def test_a_prompt_can_be_a_file_that_the_message_names(cao: CaoServer, agent: Agent, tmp_path: Path):
    cao.script(programmer=[{"say": "read and done"}])
    file = tmp_path / "the prompt.md"
    file.write_text(agent.prompt("r2.programmer.c1", "字" * 40_000))

    agent.send(f"Your instructions are in a file. Read the file '{file}' completely and follow it.")

    wait_for(agent.response.exists)
    (ask,) = cao.pending_turns()
    assert (ask["turn"], ask["by_file"], ask["chars"]) == ("r2.programmer.c1", True, len(file.read_text()))


def test_an_agent_without_its_file_answers_the_reminder(cao: CaoServer, agent: Agent):
    cao.script(programmer=[{"say": "only on the screen", "no_file": True}, {"say": "now in the file"}])

    agent.send(agent.prompt("r1.programmer.c1"))
    wait_for(lambda: agent.status == "completed")
    assert not agent.response.exists()

    agent.send(f"Please write your answer to {agent.response} now.")
    wait_for(lambda: agent.response.exists() and agent.response.read_text() == "now in the file")
    assert [ask["reminder"] for ask in cao.pending_turns()] == [False, True]


def test_a_long_silent_turn_stays_processing(cao: CaoServer, agent: Agent):
    # The server looks at the screen itself after a few quiet seconds: an old prompt there would fool it.
    cao.script(programmer=[{"say": "first"}, {"say": "second", "hold": "second"}])
    agent.send(agent.prompt("r1.programmer.c1"))
    wait_for(lambda: agent.status == "completed")
    agent.send(agent.prompt("r2.programmer.c1"))
    wait_for(lambda: agent.status == "processing")

    seen = set()
    until = time.monotonic() + 6.5
    while time.monotonic() < until:
        seen.add(agent.status)
        time.sleep(0.05)
    assert seen == {"processing"}
    cao.release("second")
    wait_for(lambda: agent.status == "completed")


def test_a_dead_agent_leaves_a_shell_that_still_takes_input(cao: CaoServer, agent: Agent, tmp_path: Path):
    cao.script(programmer=[{"die": True}])
    agent.send(agent.prompt("r1.programmer.c1"))
    pane = ("list-panes", "-t", agent.session, "-F", "#{pane_current_command}")
    wait_for(lambda: cao.tmux(*pane).strip() == "bash", lambda: cao.tmux(*pane))

    agent.send(f"touch {tmp_path}/run-by-bash")

    wait_for((tmp_path / "run-by-bash").exists)
    assert agent.status == "processing"
    assert not agent.screen.endswith("❯ ")


def test_a_permission_prompt_waits_for_an_answer(cao: CaoServer, agent: Agent):
    cao.script(programmer=[{"ask_permission": "Allow writing?", "say": "allowed"}])
    agent.send(agent.prompt("r1.programmer.c1"))

    wait_for(lambda: agent.status == "waiting_user_answer")
    assert "APPROVAL_REQUIRED: Allow writing?" in agent.screen
    assert not agent.response.exists()

    agent.http.post(f"/terminals/{agent.id}/key", params={"key": "Enter"})
    wait_for(lambda: agent.status == "completed")
    assert agent.response.read_text() == "allowed"
    assert [answer["answer"] for answer in cao.answers()] == [""]


def test_an_error_of_the_provider_blocks_further_input(cao: CaoServer, agent: Agent):
    cao.script(programmer=[{"screen": "API Error: 500 overloaded", "error": True}])
    agent.send(agent.prompt("r1.programmer.c1"))

    wait_for(lambda: agent.status == "error")
    assert "API Error: 500 overloaded" in agent.screen
    refused = agent.http.post(f"/terminals/{agent.id}/input", params={"message": "go on"})
    assert refused.status_code == 409


def test_after_a_server_restart_the_status_is_unknown_and_input_works(cao: CaoServer, agent: Agent):
    cao.script(programmer=[{"say": "after the restart"}])

    cao.restart()

    assert agent.status == "unknown"
    agent.send(agent.prompt("r1.programmer.c1"))
    wait_for(agent.response.exists)
    wait_for(lambda: agent.screen.rstrip().endswith("❯"), lambda: agent.screen)
    assert agent.status == "unknown"
