"""Single turns of the real agent CLIs on the local host, against the fake model: what they do well and how they fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from threading import Event

import psutil
import pytest

from logos.adapters.hosts.local import LocalHost
from logos.adapters.hosts.providers import RESPONSES, Permission
from logos.domain.turns import FailureKind
from logos.prompts import response_instruction
from logos.waiting.provider_errors import failure_kind_of
from tests.live.clients import CLAUDE, CLIENTS, CODEX, COPILOT, GOOSE, KIMI, OPENCODE, QWEN, Client
from tests.live.clis import all_gone, make_home, processes, sweep
from tests.live.conversation import FINISHED, Conversation, Fault, Message, Reply, Run, Save, Usage, Verdict
from tests.live.cycles import sandbox_works
from tests.live.model import FakeModel, Script
from tests.support.waiting import wait_for

pytestmark = pytest.mark.long
each = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
# Their prompts are arguments; a longer one is a file that a real model would read.
AS_ARGUMENT = (COPILOT, KIMI)


class Agent:
    """A terminal of a client on the local host, in a work dir of its own; by default it may run commands."""

    def __init__(self, client: Client, path: Path, model: FakeModel) -> None:
        self.client = client
        self.home = make_home(client, path / "home", model)
        self.wd = path / "work tree"
        self.response = self.wd / RESPONSES / "test_result.md"
        self.response.parent.mkdir(parents=True)
        self.permission = Permission.RUN
        self.host = self.new_host(path / "host")
        created = self.host.create_terminal("local", "tester", provider=client.provider, idempotency_key="one")
        self.terminal = created["id"]

    def new_host(self, root: Path) -> LocalHost:
        return LocalHost(
            root,
            self.wd,
            self.home.env,
            permission_of=lambda _: self.permission if sandboxed(self.client) else Permission.ALL,
            profile_text=lambda _: "You test.",
        )

    def send(self, turn: str, words: str = "Test it.") -> None:
        self.host.send_input(self.terminal, f"Turn: {turn}\n{words}\n\n{response_instruction(self.response)}")

    def turn(self, turn: str, words: str = "Test it.") -> None:
        self.send(turn, words)
        wait_for(lambda: self.host.get_status(self.terminal) == "completed", f"the end of {turn}")

    @property
    def error(self) -> str:
        return self.host.provider_error(self.terminal)

    @property
    def usage(self) -> Usage | None:
        used = self.host.usage(self.terminal)
        return Usage(used.input or 0, used.cached or 0, used.output or 0) if used and used.tokens is not None else None

    def names(self) -> list[str]:
        found: list[str] = []
        for process in processes(self.home):
            try:
                found.append(process.name())
            except psutil.NoSuchProcess:
                continue
        return found


def sandboxed(client: Client) -> bool:
    """Without user namespaces codex cannot keep its agents inside; then they must be let out."""
    return client is not CODEX or sandbox_works()


Start = Callable[[Client, FakeModel], Agent]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    agents: list[Agent] = []

    def start(client: Client, model: FakeModel) -> Agent:
        agents.append(Agent(client, tmp_path, model))
        return agents[-1]

    yield start
    for agent in agents:
        agent.host.close()
        sweep(agent.home)


@each
def test_a_conversation_goes_on_in_a_second_process(client: Client, start: Start) -> None:
    script = Script({"tester": ["RESULT: FAIL\nIt's `$(not)` there.", "RESULT: PASS"]}, faults=[Fault(500)])
    with FakeModel(script) as model:
        agent = start(client, model)
        agent.turn("r1.tester", "The apple is red.")
        assert agent.error == ""
        assert agent.response.read_text() == "RESULT: FAIL\nIt's `$(not)` there.\n"
        assert agent.host.get_last_output(agent.terminal) == FINISHED
        before = list(model.billed)
        assert agent.usage == (sum(before, Usage()) if client.counts_tokens else None)
        # More than an argument may hold.
        agent.turn("r2.tester", "The pear is green. " * (200 if client in AS_ARGUMENT else 20_000))
        assert agent.error == ""
        assert agent.response.read_text() == "RESULT: PASS\n"
        assert agent.host.get_last_output(agent.terminal) == FINISHED

    first = [asked for asked in model.work if "Turn: r2.tester" not in asked.prompts[-1].text]
    later = model.work[len(first) :]
    assert len(later) == 2
    assert not any(asked.earlier for asked in first)
    assert all("The apple is red." in asked.earlier and "RESULT: FAIL" in asked.earlier for asked in later)
    assert agent.usage == (sum(model.billed, Usage()) if client.counts_tokens else None)
    assert model.dependencies == []


@each
def test_a_slow_start_is_waited_for(client: Client, start: Start) -> None:
    gate = Event()
    with FakeModel(Script({"tester": ["RESULT: PASS"]}, holds={"tester": gate})) as model:
        agent = start(client, model)
        agent.send("r1.tester")
        model.wait_for_work()
        assert agent.host.get_status(agent.terminal) == "processing"
        assert agent.error == ""
        gate.set()
        wait_for(lambda: agent.host.get_status(agent.terminal) == "completed")
        assert agent.response.read_text() == "RESULT: PASS\n"
        assert agent.error == ""


REFUSED_KEY = {
    "codex": "401 Unauthorized",
    "claude": "Not logged in",
    "opencode": "Incorrect API key",
    "gemini": "401 API key not valid",
    "qwen": "[API Error: 401 Incorrect API key",
    "copilot": "(HTTP 401)",
    "kimi": "Error code: 401",
    "goose": "Status: 401 Unauthorized",
}


@each
def test_a_refused_key_is_an_error_that_a_person_must_fix(client: Client, start: Start) -> None:
    with FakeModel(Script(faults=repeat(Fault(401)))) as model:
        agent = start(client, model)
        agent.turn("r1.tester")
    assert REFUSED_KEY[client.name] in agent.error
    assert failure_kind_of(agent.error) is FailureKind.PROVIDER
    assert "{" not in agent.error or client is KIMI, "a sentence, not a document"
    assert agent.usage in (None, Usage())
    assert not agent.response.exists()


@each
def test_a_limit_is_told_as_a_limit(client: Client, start: Start) -> None:
    with FakeModel(Script(faults=repeat(client.limit()))) as model:
        agent = start(client, model)
        agent.send("r1.tester")
        # opencode waits until the limit ends and says so on its error stream only.
        wait_for(lambda: agent.error or agent.host.get_status(agent.terminal) == "completed")
        assert (agent.host.get_status(agent.terminal) == "processing") == (client is OPENCODE)
        assert failure_kind_of(agent.error) is FailureKind.LIMIT


@pytest.mark.parametrize("client", [one for one in CLIENTS if one is not OPENCODE], ids=lambda client: client.name)
def test_an_error_of_the_server_that_stays_is_worth_another_try(client: Client, start: Start) -> None:
    """opencode tries for ever."""
    with FakeModel(Script(faults=repeat(client.server_error))) as model:
        agent = start(client, model)
        agent.turn("r1.tester")
    assert failure_kind_of(agent.error) is FailureKind.TRANSIENT
    assert len(model.work) > 1
    assert not agent.response.exists()


def without(answers: Sequence[Message], conversation: Conversation) -> Conversation:
    """The conversation as if these tools had not been called: what the prompt asks for comes next."""
    known = {id(answer) for answer in answers}
    return replace(conversation, messages=tuple(m for m in conversation.messages if id(m) not in known))


class Analyst(Script):
    """Writes a spec in a new folder first: with the file tool, after the shell made the folder if there is one."""

    def __init__(self, spec: Path) -> None:
        super().__init__({"tester": ["RESULT: PASS"]})
        self.spec = spec

    def __call__(self, conversation: Conversation) -> Reply:
        if not conversation.prompts:
            return super().__call__(conversation)
        steps: list[Reply] = [Run(f"mkdir -p '{self.spec.parent}'")] if conversation.shell else []
        # codex writes files in its shell.
        steps.append(Save(str(self.spec), "spec") if conversation.file_tool else Run(f"echo spec >'{self.spec}'"))
        if len(conversation.ran) < len(steps):
            return steps[len(conversation.ran)]
        return super().__call__(without(conversation.ran[: len(steps)], conversation))


@each
def test_an_analyst_writes_a_spec_in_a_new_folder(client: Client, start: Start, tmp_path: Path) -> None:
    spec = tmp_path / "work tree" / "openspec" / "changes" / "new" / "spec.md"
    with FakeModel(Analyst(spec)) as model:
        agent = start(client, model)
        agent.permission = Permission.PLAN
        agent.turn("r1.tester")
    assert agent.error == ""
    assert spec.read_text().strip() == "spec"
    assert agent.response.read_text().strip() == "RESULT: PASS"


# What keeps an agent from changing files that are not its own, whichever tool it uses.
NARROW = (CODEX, CLAUDE, OPENCODE)


@pytest.mark.parametrize("permission", [Permission.RESPOND, Permission.PLAN], ids=lambda one: one.name)
@pytest.mark.parametrize("client", NARROW, ids=lambda client: client.name)
def test_source_is_out_of_reach_of_who_plans_or_judges(
    client: Client, permission: Permission, start: Start, tmp_path: Path
) -> None:
    file = tmp_path / "work tree" / "source.py"
    with FakeModel(Reviewer(file, "shell" if client is CODEX else "")) as model:
        agent = start(client, model)
        file.write_text("mine")
        agent.permission = permission
        agent.turn("r1.tester")
    assert agent.response.read_text().strip() == "RESULT: PASS"
    assert (file.read_text() == "mine") == sandboxed(client)
    assert bool(agent.host.refused_calls(agent.terminal)) == sandboxed(client)


class Reviewer(Script):
    """Tries to change a file first, with a shell that it may not be offered, or with the file tool if `tool` is empty."""

    def __init__(self, file: Path, tool: str) -> None:
        super().__init__({"tester": ["RESULT: PASS"]})
        self.file = file
        self.tool = tool

    def __call__(self, conversation: Conversation) -> Reply:
        if not conversation.prompts or not conversation.ran:
            # codex does not report a command that ends at once.
            change = Run(f'sleep 1; python3 -c \'open("{self.file}", "w")\'', self.tool)
            return change if self.tool else Save(str(self.file), "changed")
        return super().__call__(without(conversation.ran[:1], conversation))


# What a client calls its shell, where reviewers are not offered it.
SHELLS = {"gemini": "run_shell_command", "qwen": "run_shell_command", "kimi": "Shell", "opencode": ""}


# goose knows no permissions.
@pytest.mark.parametrize("client", [one for one in CLIENTS if one is not GOOSE], ids=lambda client: client.name)
def test_a_reviewer_writes_its_response_and_what_else_it_tries_is_refused_and_told(
    client: Client, start: Start, tmp_path: Path
) -> None:
    file = tmp_path / "work tree" / "changed"
    with FakeModel(Reviewer(file, SHELLS.get(client.name, "shell"))) as model:
        agent = start(client, model)
        agent.permission = Permission.RESPOND
        agent.turn("r1.tester")
    assert agent.error == ""
    assert agent.response.read_text().strip() == "RESULT: PASS"
    assert file.exists() != sandboxed(client)
    assert bool(agent.host.refused_calls(agent.terminal)) == sandboxed(client)


def test_codex_where_no_sandbox_can_be_made_is_found_before_a_turn(tmp_path: Path) -> None:
    with FakeModel() as model:
        home = make_home(CODEX, tmp_path / "home", model)
    doctor = (sys.executable, "-m", "logos", "doctor")
    inside = ("unshare", "-Ur", "sh", "-c", 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', "sh")
    # Where no namespace can be made at all, codex cannot make one either.
    can_be_taken_away = subprocess.run((*inside, "true"), capture_output=True, check=False).returncode == 0
    command = (*inside, *doctor) if can_be_taken_away else doctor
    env = {**home.env, "LOGOS_HOST": "local", "PROVIDER": "codex"}
    told = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert told.returncode == 1, told.stdout
    assert "its sandbox does not work here (bwrap:" in told.stdout
    assert "AUTO_ACCEPT_PERMISSIONS=1" in told.stdout


@each
def test_a_turn_killed_while_the_model_thinks_is_gone_and_its_conversation_is_not(client: Client, start: Start) -> None:
    gate = Event()
    with FakeModel(Script({"tester": ["RESULT: PASS"]}, holds={"tester": gate})) as model:
        agent = start(client, model)
        agent.send("r1.tester", "The apple is red.")
        model.wait_for_work()
        wait_for(lambda: agent.home.remembers("The apple is red."))  # which claude writes down a little later
        os.killpg(next(one for one in processes(agent.home) if one.pid == os.getpgid(one.pid)).pid, signal.SIGKILL)
        wait_for(lambda: agent.host.get_status(agent.terminal) == "completed")
        assert "killed" in agent.error
        gate.set()
        agent.turn("r1.tester")
        assert agent.response.read_text() == "RESULT: PASS\n"
        # The others tell the name of a conversation at its end.
        known = any("The apple is red." in message.text for message in model.work[-1].messages)
        assert known == (client in (CODEX, CLAUDE, QWEN, GOOSE))


@each
def test_a_command_outlives_its_killed_agent_and_ends_with_the_terminal(client: Client, start: Start) -> None:
    def reply(conversation: Conversation) -> Reply:
        # Not sleep: claude and qwen refuse that.
        return Run("sh -c 'tail -f /dev/null; :'") if conversation.tools else Verdict("A title")

    with FakeModel(reply) as model:
        agent = start(client, model)
        agent.send("r1.tester")
        wait_for(lambda: "tail" in agent.names())
        agent.host.exit_terminal(agent.terminal)
        assert all_gone(agent.home)
