"""The real codex, claude and opencode, each driven for real against the fake model: what LocalHost relies on."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import psutil
import pytest

from logos.prompts import response_instruction
from tests.live.clis import (
    CLAUDE,
    CLIENTS,
    CODEX,
    OPENCODE,
    Client,
    Home,
    all_gone,
    json_lines,
    make_home,
    processes,
    run_turn,
    start,
    sweep,
)
from tests.live.conversation import FINISHED, Conversation, Fault, Reply, Run, Usage, Verdict, usage_limit
from tests.live.model import FakeModel, Script
from tests.support.waiting import LAST_RESORT, wait_for

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("clis")]
each = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


class Repo:
    """A work dir with its response file, and a home for each client."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.wd = path / "work tree"
        self.response = self.wd / ".telos" / "test_result.md"
        self.response.parent.mkdir(parents=True)
        self.homes: list[Home] = []

    def home(self, client: Client, model: FakeModel) -> Home:
        self.homes.append(make_home(client, self.path / "home", model))
        return self.homes[-1]

    def prompt(self, turn: str, words: str = "Test it.") -> str:
        return f"Turn: {turn}\n{words}\n\n{response_instruction(self.response)}"


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Repo]:
    context = Repo(tmp_path)
    yield context
    for home in context.homes:
        sweep(home)


@each
def test_a_conversation_goes_on_in_a_second_process(client: Client, context: Repo) -> None:
    script = Script({"tester": ["RESULT: FAIL\nIt's `$(not)` there.", "RESULT: PASS"]}, faults=[Fault(500)])
    with FakeModel(script) as model:
        home = context.home(client, model)
        first = run_turn(home, context.wd, context.prompt("r1.tester", "The apple is red."))
        assert context.response.read_text() == "RESULT: FAIL\nIt's `$(not)` there.\n"
        long = "The pear is green. " * 20_000  # more than an argument may hold
        second = run_turn(home, context.wd, context.prompt("r2.tester", long), first.said.session)
        assert context.response.read_text() == "RESULT: PASS\n"

    assert first.exit_code == second.exit_code == 0
    assert first.said.final_text == second.said.final_text == FINISHED
    assert first.said.session == second.said.session is not None
    refused, command, word, *later = model.work
    assert not any(asked.earlier for asked in (refused, command, word))
    assert all("The apple is red." in asked.earlier and "RESULT: FAIL" in asked.earlier for asked in later)
    before, after = model.billed[:2], model.billed[2:]
    assert first.said.usage == sum(before, Usage())
    # codex sums up the whole conversation, the others one turn.
    assert second.said.usage == sum(before + after if client is CODEX else after, Usage())
    assert model.dependencies == []


@each
def test_a_refused_key_is_an_error(client: Client, context: Repo) -> None:
    with FakeModel(Script(faults=repeat(Fault(401)))) as model:
        turn = run_turn(context.home(client, model), context.wd, context.prompt("r1.tester"))
    assert turn.exit_code == 1
    expected = {"codex": "401 Unauthorized", "claude": "Not logged in", "opencode": "Incorrect API key"}
    assert expected[client.name] in (turn.said.error or "")
    assert turn.said.usage is None
    assert not context.response.exists()


@pytest.mark.parametrize(
    ("client", "message"),
    [(CODEX, "We’re currently experiencing high demand"), (CLAUDE, "API Error: 500 Internal server error")],
    ids=["codex", "claude"],
)
def test_an_error_of_the_server_that_stays_is_an_error(client: Client, message: str, context: Repo) -> None:
    with FakeModel(Script(faults=repeat(Fault(500)))) as model:
        turn = run_turn(context.home(client, model), context.wd, context.prompt("r1.tester"))
    assert turn.exit_code == 1
    assert turn.said.error is not None
    assert turn.said.error.startswith(message)
    assert len(model.work) > 2


def test_codex_says_the_time_of_a_usage_limit_in_words(context: Repo) -> None:
    with FakeModel(Script(faults=repeat(usage_limit(int(time.time()) + 3600)))) as model:
        turn = run_turn(context.home(CODEX, model), context.wd, context.prompt("r1.tester"))
    assert turn.exit_code == 1
    assert re.match(r"You’ve hit your usage limit\. .* try again at .*\d?\d:\d\d [AP]M\.$", turn.said.error or "")
    assert len(model.work) == 1


def test_claude_says_the_time_of_a_usage_limit_as_a_number(context: Repo) -> None:
    resets_at = int(time.time()) + 3600
    with FakeModel(Script(faults=repeat(usage_limit(resets_at)))) as model:
        turn = run_turn(context.home(CLAUDE, model), context.wd, context.prompt("r1.tester"))
    assert turn.exit_code == 1
    assert turn.said.resets_at == resets_at
    assert (turn.said.error or "").startswith("You've hit your 5-hour limit · resets ")
    assert len(model.work) == 1


def test_opencode_sits_out_a_usage_limit_and_only_its_log_says_so(context: Repo) -> None:
    troubles = chain([Fault(500)], repeat(usage_limit(int(time.time()) + 3600)))
    with FakeModel(Script(faults=troubles)) as model:
        process = start(context.home(OPENCODE, model), context.wd, context.prompt("r1.tester"))
        assert process.stderr is not None
        told = (found[1] for line in process.stderr if (found := re.search(r'AI_APICallError: (.*?)"', line)))
        assert [next(told), next(told)] == [
            "The server had an error while processing your request.",
            "The usage limit has been reached",
        ]
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
    assert json_lines(stdout) == []
    assert "AI_APICallError" not in stderr


@each
def test_a_turn_killed_while_the_model_thinks_is_gone_and_its_conversation_is_not(
    client: Client, context: Repo
) -> None:
    script = Script(delay=LAST_RESORT)
    with FakeModel(script) as model:
        home = context.home(client, model)
        process = start(home, context.wd, context.prompt("r1.tester", "The apple is red."))
        model.wait_for_work()
        wait_for(lambda: home.remembers("The apple is red."))  # which claude writes down a little later
        os.killpg(process.pid, signal.SIGKILL)
        stdout, _ = process.communicate()
        assert all_gone(home)
        session = client.read(json_lines(stdout)).session
        assert (session is None) == (client is OPENCODE)  # which names it when the model has answered
        if session is not None:
            script.delay = 0
            assert run_turn(home, context.wd, context.prompt("r1.tester"), session).exit_code == 0
            assert "The apple is red." in model.work[-1].earlier


@each
def test_a_command_outlives_the_group_of_its_killed_agent_and_is_known_by_its_home(
    client: Client, context: Repo
) -> None:
    def reply(conversation: Conversation) -> Reply:
        # Not a bare sleep: claude refuses that.
        return Verdict("A title") if conversation.shell is None else Run("sh -c 'sleep 3600; :'")

    with FakeModel(reply) as model:
        home = context.home(client, model)
        process = start(home, context.wd, context.prompt("r1.tester"))
        wait_for(lambda: "sleep" in names(home))
        sleeper = next(one for one in processes(home) if one.name() == "sleep")
        assert os.getsid(sleeper.pid) != os.getsid(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=LAST_RESORT)
        if client is not CODEX:  # whose sandbox dies with it, where there is one
            assert "sleep" in names(home)
        sweep(home)
        assert all_gone(home)
        assert not sleeper.is_running()


def names(home: Home) -> list[str]:
    found: list[str] = []
    for process in processes(home):
        try:
            found.append(process.name())
        except psutil.NoSuchProcess:
            continue
    return found
