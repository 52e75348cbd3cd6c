"""Every AgentHost keeps the same promises; the one for CAO servers has traps of its own to handle."""

from __future__ import annotations

import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
import psutil
import pytest

from logos.adapters.hosts.cao import MAX_MESSAGE_BYTES, ApiClient
from logos.adapters.hosts.local import LocalHost
from logos.adapters.hosts.providers import Permission
from logos.adapters.hosts.scripted import ScriptedHost
from logos.domain.roles import RESPONSE_FILES, ROLE_DEFS
from logos.domain.turns import Agent, AgentName
from logos.errors import (
    ConfigError,
    DeliveryUnknown,
    HostError,
    HostUnreachable,
    InputRefused,
    TerminalGone,
    TerminalNotCreated,
)
from logos.ports import AgentHost, Screen
from logos.prompts import response_instruction
from logos.testing import ScriptedAgents
from logos.testing.cao_server import FakeCao
from tests.support.waiting import LAST_RESORT as PATIENCE
from tests.support.waiting import wait_for as until

SAID = ["first: grüße 語\n", "second\n"]


@dataclass
class Worktree:
    """A host, where its agents write, and a gate that holds them back until it is opened."""

    host: AgentHost
    responses: Path
    drop_lost: Callable[[], object]
    provider: str = "codex"
    # Whether its agents say on their screen what they write into their response.
    repeats_itself: bool = True
    # Where an agent really worked; for a server, where it was asked to have it work.
    worked_in: Callable[[str], str] = lambda _terminal: ""

    def prompt(self, answer: str = "analyst") -> str:
        return f"Do it.\n\n{response_instruction(self.responses / RESPONSE_FILES[answer])}"

    def response(self, answer: str = "analyst") -> str | None:
        path = self.responses / RESPONSE_FILES[answer]
        return path.read_text(encoding="utf-8") if path.exists() else None

    def finish(self, terminal: str) -> None:
        self.drop_lost()
        until(lambda: self.host.get_status(terminal) != "processing")


def scripted_agents(tmp_path: Path, _stack: ExitStack) -> Worktree:
    responses = tmp_path / ".tmp" / "responses"
    host = ScriptedAgents(responses, {"analyst": SAID})
    return Worktree(host, responses, lambda: None, worked_in=lambda terminal: host.agents[terminal].cwd)


def scripted_host(tmp_path: Path, stack: ExitStack) -> Worktree:
    responses = tmp_path / "responses"
    wait = f"pwd >'{tmp_path}/worked_in'; until [ -e '{tmp_path}/go' ]; do sleep 0.02; done"
    steps = [{"run": wait, "say": text} for text in SAID]
    host = ScriptedHost(tmp_path / "host", {"analyst": steps}, responses, tmp_path)
    stack.callback(host.close)
    # An agent that is still held back when a test fails must not wait for ever.
    stack.callback((tmp_path / "go").touch)
    return Worktree(host, responses, (tmp_path / "go").touch, worked_in=noted_in(tmp_path))


def noted_in(folder: Path) -> Callable[[str], str]:
    return lambda _terminal: (folder / "worked_in").read_text().strip()


def cao(tmp_path: Path, stack: ExitStack) -> Worktree:
    responses, gate = tmp_path / "responses", threading.Event()

    def held_back(text: str) -> Callable[[str], str]:
        return lambda _prompt: text if gate.wait(PATIENCE) else ""

    server = stack.enter_context(FakeCao(responses, {"analyst": [held_back(text) for text in SAID]}))
    client = stack.enter_context(closing(ApiClient(server.url, str(tmp_path), patience=5)))
    stack.callback(gate.set)
    return Worktree(client, responses, gate.set, worked_in=lambda terminal: server.agents[terminal].cwd)


# As codex: the prompt on its standard input, the conversation's name and the last word as JSON lines.
FAKE_CODEX = """#!{python}
import json, os, pathlib, re, sys, time
pathlib.Path({folder!r}, "worked_in").write_text(os.getcwd())
prompt = sys.stdin.read()
path = re.search(r"(?<=^cat >)/.*/analyst_summary.md(?= <<)", prompt, re.MULTILINE)
seen = pathlib.Path({folder!r}, "turns")
print(json.dumps({{"type": "thread.started", "thread_id": "thread-1"}}), flush=True)
while not pathlib.Path({folder!r}, "go").exists():
    time.sleep(0.02)
with seen.open("a") as turns:
    turns.write(" ".join(sys.argv[1:]) + chr(10))
said = {said!r}[min(len(seen.read_text().splitlines()), 2) - 1]
pathlib.Path(path[0]).parent.mkdir(parents=True, exist_ok=True)
pathlib.Path(path[0]).write_text(said, encoding="utf-8")
print(json.dumps({{"type": "item.completed", "item": {{"type": "agent_message", "text": said}}}}))
print(json.dumps({{"type": "turn.completed", "usage": {{"input_tokens": 5, "cached_input_tokens": 2, "output_tokens": 1}}}}))
"""


def outside(tmp_path: Path) -> Path:
    """A folder for programs: one below the work dir is not used."""
    return tmp_path.with_name(f"{tmp_path.name}-bin")


def local_host(tmp_path: Path, stack: ExitStack) -> Worktree:
    responses, program = tmp_path / "responses", outside(tmp_path) / "codex"
    program.parent.mkdir(exist_ok=True)
    program.write_text(FAKE_CODEX.format(python=sys.executable, folder=str(tmp_path), said=SAID))
    program.chmod(0o755)
    host = LocalHost(
        tmp_path / "host",
        tmp_path,
        {"PATH": str(program.parent)},
        permission_of=lambda _profile: Permission.RUN,
        profile_text=lambda name: f"You are the {name}.",
    )
    stack.callback(host.close)
    stack.callback((tmp_path / "go").touch)
    return Worktree(host, responses, (tmp_path / "go").touch, worked_in=noted_in(tmp_path))


@pytest.fixture(params=[scripted_agents, scripted_host, local_host, cao], ids=lambda build: build.__name__)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Worktree]:
    with ExitStack() as stack:
        yield request.param(tmp_path, stack)


# --- what every host promises


def test_a_new_session_has_a_terminal_and_a_name(place: Worktree) -> None:
    made = place.host.create_session("system_analyst", provider=place.provider)
    assert made["id"]
    assert made["session_name"]
    assert place.host.get_status(made["id"]) == "idle"


def test_more_terminals_join_the_session(place: Worktree) -> None:
    first = place.host.create_session("system_analyst", provider=place.provider)
    second = place.host.create_terminal(first["session_name"], "tester", provider=place.provider)
    assert second["session_name"] == first["session_name"]
    assert second["id"] != first["id"]


def test_the_same_key_gives_the_same_terminal(place: Worktree) -> None:
    first = place.host.create_session("system_analyst", provider=place.provider, idempotency_key="run-analyst")
    again = place.host.create_session("system_analyst", provider=place.provider, idempotency_key="run-analyst")
    assert dict(again) == dict(first)
    made = [
        place.host.create_terminal(first["session_name"], "tester", provider=place.provider, idempotency_key=key)["id"]
        for key in ("run-tester", "run-tester", "run-other")
    ]
    assert made[0] == made[1]
    assert len({first["id"], *made}) == 3


def test_without_a_key_every_terminal_is_new(place: Worktree) -> None:
    made = [place.host.create_session("tester", provider=place.provider)["id"] for _ in range(3)]
    assert len(set(made)) == 3


def test_an_agent_works_in_the_folder_it_is_given_and_otherwise_in_the_hosts_own(
    place: Worktree, tmp_path: Path
) -> None:
    (tmp_path / "a worktree").mkdir()
    place.drop_lost()
    first = place.host.create_session("system_analyst", provider=place.provider)
    made = [
        place.host.create_terminal(
            first["session_name"], "tester", provider=place.provider, idempotency_key="k", working_directory=folder
        )["id"]
        # The same key gives the same terminal, which stays where it is.
        for folder in (str(tmp_path / "a worktree"), str(tmp_path / "a worktree"))
    ]
    assert made[0] == made[1]
    for terminal, folder in ((first["id"], tmp_path), (made[0], tmp_path / "a worktree")):
        place.host.send_input(terminal, place.prompt())
        place.finish(terminal)
        assert place.worked_in(terminal) == str(folder)


def test_a_session_may_begin_in_a_folder_of_its_own(place: Worktree, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    place.drop_lost()
    made = place.host.create_session("tester", provider=place.provider, working_directory=str(tmp_path / "own"))
    place.host.send_input(made["id"], place.prompt())
    place.finish(made["id"])
    assert place.worked_in(made["id"]) == str(tmp_path / "own")


def test_a_terminal_nobody_opened_is_gone(place: Worktree) -> None:
    for ask in (place.host.get_status, place.host.get_last_output, lambda t: place.host.send_input(t, "hello")):
        with pytest.raises(TerminalGone, match="deadbeef"):
            ask("deadbeef")


def test_a_prompt_is_worked_on_and_leaves_its_response(place: Worktree) -> None:
    terminal = place.host.create_session("system_analyst", provider=place.provider)["id"]
    place.host.send_input(terminal, place.prompt())
    assert place.host.get_status(terminal) == "processing"
    place.finish(terminal)
    assert place.host.get_status(terminal) == "completed"
    assert place.response() == SAID[0]
    assert place.host.get_last_output(terminal) == SAID[0] or not place.repeats_itself


def test_a_conversation_goes_on_in_the_same_terminal(place: Worktree) -> None:
    terminal = place.host.create_session("system_analyst", provider=place.provider)["id"]
    for expected in [*SAID, SAID[-1]]:
        place.host.send_input(terminal, place.prompt())
        place.finish(terminal)
        assert place.response() == expected
        assert place.host.get_last_output(terminal) == expected or not place.repeats_itself


def test_a_message_that_asks_for_no_response_gets_none(place: Worktree) -> None:
    terminal = place.host.create_session("system_analyst", provider=place.provider)["id"]
    place.host.send_input(terminal, f"/rename analyst-{terminal}")
    until(lambda: place.host.get_status(terminal) in ("idle", "completed"))
    assert place.response() is None


def test_a_terminal_that_is_ended_is_gone_and_the_others_stay(place: Worktree) -> None:
    first = place.host.create_session("system_analyst", provider=place.provider)
    second = place.host.create_terminal(first["session_name"], "tester", provider=place.provider)
    place.host.exit_terminal(first["id"])
    with pytest.raises(TerminalGone):
        place.host.get_status(first["id"])
    assert place.host.get_status(second["id"]) == "idle"


def test_a_terminal_that_works_can_be_ended(place: Worktree) -> None:
    terminal = place.host.create_session("system_analyst", provider=place.provider)["id"]
    place.host.send_input(terminal, place.prompt())
    place.host.exit_terminal(terminal)
    with pytest.raises(TerminalGone):
        place.host.get_status(terminal)


def test_ending_a_terminal_twice_is_no_error(place: Worktree) -> None:
    terminal = place.host.create_session("system_analyst", provider=place.provider)["id"]
    place.host.exit_terminal(terminal)
    place.host.exit_terminal(terminal)
    place.host.exit_terminal("deadbeef")


# --- agents as processes of their own


def test_a_scripted_agent_outlives_its_host_and_is_found_again(tmp_path: Path) -> None:
    steps = {"analyst": [{"run": "until [ -e go ]; do sleep 0.02; done", "say": "done"}]}
    responses = tmp_path / "responses"
    with ExitStack() as stack:
        stack.callback((tmp_path / "go").touch)
        first = stack.enter_context(closing(ScriptedHost(tmp_path / "host", steps, responses, tmp_path)))
        terminal = first.create_session("system_analyst", provider="codex")["id"]
        first.send_input(terminal, response_instruction(responses / RESPONSE_FILES["analyst"]))
        second = ScriptedHost(tmp_path / "host", steps, responses, tmp_path)
        until(lambda: second.get_status(terminal) == "processing")
        (tmp_path / "go").touch()
        until(lambda: second.get_status(terminal) == "completed")
        assert (responses / RESPONSE_FILES["analyst"]).read_text() == "done"
        until(lambda: first.get_status(terminal) == "completed")


def test_a_scripted_agent_that_crashes_has_ended_and_says_how(tmp_path: Path) -> None:
    responses = tmp_path / "responses"
    host = ScriptedHost(tmp_path / "host", {"analyst": [{"fault": "crash"}]}, responses, tmp_path)
    terminal = host.create_session("system_analyst", provider="codex")["id"]
    host.send_input(terminal, response_instruction(responses / RESPONSE_FILES["analyst"]))
    until(lambda: host.get_status(terminal) != "processing")
    assert host.get_status(terminal) == "completed"
    assert host.provider_error(terminal) == "its process ended with 1: crashed, as the script says"
    assert not (responses / RESPONSE_FILES["analyst"]).exists()


def processes_of(tmp_path: Path) -> list[str]:
    """What this test started and still runs."""
    running = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            command = " ".join(child.cmdline())
            running += [command] if str(tmp_path) in command else []
    return running


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_scripted_agent_whose_terminal_is_ended_leaves_no_process_behind(tmp_path: Path, has_begun: bool) -> None:
    steps = {"analyst": [{"run": "touch began; until [ -e go ]; do sleep 0.02; done", "say": "done"}]}
    responses = tmp_path / "responses"
    with ExitStack() as stack:
        stack.callback((tmp_path / "go").touch)
        host = stack.enter_context(closing(ScriptedHost(tmp_path / "host", steps, responses, tmp_path)))
        terminal = host.create_session("system_analyst", provider="codex")["id"]
        host.send_input(terminal, response_instruction(responses / RESPONSE_FILES["analyst"]))
        if has_begun:
            until((tmp_path / "began").exists)
        host.exit_terminal(terminal)
        until(lambda: not processes_of(tmp_path))


@pytest.mark.parametrize("build", [scripted_host, local_host], ids=lambda build: build.__name__)
def test_a_new_driver_finds_an_agent_in_its_own_folder(
    build: Callable[[Path, ExitStack], Worktree], tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    with ExitStack() as stack:
        first = build(tmp_path, stack)
        first.drop_lost()
        terminal = first.host.create_session("tester", provider="codex", working_directory=str(tmp_path / "own"))["id"]
        second = build(tmp_path, stack)
        second.host.send_input(terminal, second.prompt())
        second.finish(terminal)
        assert second.worked_in(terminal) == str(tmp_path / "own")


@pytest.mark.parametrize("folder", ["tree", ""])
def test_a_prompt_too_long_for_an_argument_lies_where_its_agent_may_read(tmp_path: Path, folder: str) -> None:
    program, tree = outside(tmp_path) / "kimi", tmp_path / "tree"
    program.parent.mkdir()
    tree.mkdir()
    program.write_text(f"""#!/bin/sh\nfor last; do :; done\nprintf %s "$last" >'{tmp_path}/heard'\n""")
    program.chmod(0o755)
    host = LocalHost(
        tmp_path / "host",
        tmp_path,
        {"PATH": f"{program.parent}:/usr/bin:/bin"},
        permission_of=lambda _profile: Permission.RUN,
        profile_text=lambda _name: "You test.",
    )
    with closing(host):
        made = host.create_session("tester", provider="kimi_cli", working_directory=str(tree) if folder else "")
        host.send_input(made["id"], "語" * 50_000)
        until(lambda: host.get_status(made["id"]) == "completed")
    file = Path((tmp_path / "heard").read_text().split("'")[1])
    assert file.read_text() == "You test.\n\n" + "語" * 50_000
    assert file.is_relative_to(tree if folder else tmp_path / "host")


# --- a CAO server: the calls


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeCao]:
    with FakeCao(tmp_path / "responses", {"analyst": SAID}) as fake:
        yield fake


@pytest.fixture
def client(server: FakeCao, tmp_path: Path) -> Iterator[ApiClient]:
    with closing(ApiClient(server.url, str(tmp_path), patience=5)) as api:
        yield api


@pytest.mark.scenario("CYC-02")
def test_creating_a_session_posts_provider_profile_and_work_dir(
    server: FakeCao, client: ApiClient, tmp_path: Path
) -> None:
    made = client.create_session("system_analyst", provider="codex")
    assert server.requests == [
        (
            "POST",
            "/sessions",
            {"provider": "codex", "agent_profile": "system_analyst", "working_directory": str(tmp_path)},
        )
    ]
    assert isinstance(made, dict)
    assert made["id"] in server.agents
    assert made["session_name"] == "cao-fake"


@pytest.mark.scenario("PRD-06")
def test_a_session_is_created_with_the_provider_it_is_given(server: FakeCao, client: ApiClient, tmp_path: Path) -> None:
    client.create_session("system_analyst", provider="claude_code")
    ((method, path, query),) = server.requests
    assert (method, path) == ("POST", "/sessions")
    assert query["provider"] == "claude_code"
    assert query["agent_profile"] == "system_analyst"
    assert query["working_directory"] == str(tmp_path)


@pytest.mark.scenario("PRD-07")
def test_a_terminal_is_created_with_the_provider_it_is_given(server: FakeCao, client: ApiClient) -> None:
    client.create_terminal("cao-my session", "peer_system_analyst", provider="codex")
    ((method, path, query),) = server.requests
    assert (method, path) == ("POST", "/sessions/cao-my%20session/terminals")
    assert query["provider"] == "codex"
    assert query["agent_profile"] == "peer_system_analyst"


@pytest.mark.scenario("CYC-03")
@pytest.mark.scenario("PRD-08")
@pytest.mark.parametrize("message", ["hello", "two\nlines & more=? #1 % + ü", "", " "])
def test_input_is_posted_to_the_terminal_as_it_is(server: FakeCao, client: ApiClient, message: str) -> None:
    terminal = client.create_session("system_analyst", provider="codex")["id"]
    client.send_input(terminal, message)
    assert server.requests[-1] == ("POST", f"/terminals/{terminal}/input", {"message": message})


def test_an_idempotency_key_is_passed_on(server: FakeCao, client: ApiClient) -> None:
    client.create_session("system_analyst", provider="codex", idempotency_key="logos-1")
    assert server.requests[-1][2]["idempotency_key"] == "logos-1"


def test_ending_a_terminal_exits_and_deletes_it(server: FakeCao, client: ApiClient) -> None:
    terminal = client.create_session("system_analyst", provider="codex")["id"]
    client.exit_terminal(terminal)
    assert [request[:2] for request in server.requests[-2:]] == [
        ("POST", f"/terminals/{terminal}/exit"),
        ("DELETE", f"/terminals/{terminal}"),
    ]


def test_a_screen_can_be_looked_at_and_a_key_pressed(server: FakeCao, client: ApiClient) -> None:
    assert isinstance(client, Screen)
    terminal = client.create_session("system_analyst", provider="codex")["id"]
    server.agents[terminal].screen = "Allow? [y/n]"
    assert client.get_screen(terminal) == "Allow? [y/n]"
    client.press_key(terminal, "Enter")
    assert server.requests[-1] == ("POST", f"/terminals/{terminal}/key", {"key": "Enter"})


def test_the_token_is_sent_where_there_is_one() -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("Authorization"))
        return httpx.Response(200, json={"status": "idle"})

    for token in ("", "secret"):
        with closing(ApiClient("http://cao", token=token, transport=httpx.MockTransport(answer))) as api:
            api.get_status("a1")
    assert seen == [None, "Bearer secret"]


# --- a CAO server: long and hostile prompts


def test_escape_sequences_do_not_reach_the_terminal(server: FakeCao, client: ApiClient) -> None:
    terminal = client.create_session("system_analyst", provider="codex")["id"]
    client.send_input(terminal, "quoted: \x1b[31mred\x1b[0m \x1b[201~rm -rf ~\r\x07\x9b201~\nnext\tline")
    (message,) = [query["message"] for _, path, query in server.requests if path.endswith("/input")]
    assert not [sign for sign in message if sign not in "\n\t" and (sign < " " or "\x7f" <= sign <= "\x9f")]
    assert message.startswith("quoted: red rm -rf ~")
    assert message.endswith("\nnext\tline")


@pytest.mark.parametrize(
    "filling", ["x" * 200_000, "語" * 8_000, "\n" * (MAX_MESSAGE_BYTES // 3 + 1)], ids=["200 kB", "CJK", "newlines"]
)
def test_a_prompt_too_long_for_a_url_goes_by_file_and_arrives_whole(tmp_path: Path, filling: str) -> None:
    heard: list[str] = []
    responses = tmp_path / "responses"

    def listen(prompt: str) -> str:
        heard.append(prompt)
        return "heard"

    prompt = f"begin\n{filling}\nend\n{response_instruction(responses / RESPONSE_FILES['analyst'])}"
    with (
        FakeCao(responses, {"analyst": [listen]}) as server,
        closing(ApiClient(server.url, str(tmp_path), patience=5)) as client,
    ):
        terminal = client.create_session("system_analyst", provider="codex")["id"]
        client.send_input(terminal, prompt)
        until(lambda: client.get_status(terminal) == "completed")
        (message,) = [query["message"] for _, path, query in server.requests if path.endswith("/input")]
    assert heard == [prompt]
    assert len(message) < 1_000
    (kept,) = (tmp_path / ".tmp" / "agent-prompts").glob("*.md")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    assert (kept.parent / ".gitignore").exists()


def a_worktree(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / ".git").write_text("gitdir: elsewhere")
    return folder


LONG = "語" * MAX_MESSAGE_BYTES


def test_a_long_prompt_lies_in_the_folder_of_the_agent_it_is_for(client: ApiClient, tmp_path: Path) -> None:
    tree = a_worktree(tmp_path / "trees" / "cart")
    terminal = client.create_session("tester", provider="codex", working_directory=str(tree))["id"]
    client.send_input(terminal, LONG)
    (kept,) = (tree / ".tmp" / "agent-prompts").glob("*.md")
    assert kept.read_text() == LONG
    assert (tree / ".tmp" / ".gitignore").exists()
    assert not (tmp_path / ".tmp").exists()


@pytest.mark.parametrize(
    ("found_in", "kept_in"),
    [
        ("trees/cart", "trees/cart"),
        ("trees/cart/src/deep", "trees/cart"),
        ("src", "."),
        ("../elsewhere", "."),
        ("trees/cart/../../../elsewhere", "."),
        ("trees/cart\0", "."),
        ("", "."),
    ],
)
def test_a_driver_that_did_not_start_an_agent_asks_the_server_where_it_is_and_writes_nothing_outside(
    server: FakeCao, client: ApiClient, tmp_path: Path, found_in: str, kept_in: str
) -> None:
    a_worktree(tmp_path / "trees" / "cart")
    terminal = client.create_session("tester", provider="codex", working_directory=str(tmp_path / "trees/cart"))["id"]
    server.agents[terminal].cwd = str(tmp_path / found_in) if found_in else ""
    with closing(ApiClient(server.url, str(tmp_path), patience=5)) as restarted:
        restarted.send_input(terminal, LONG)
    assert len(list((tmp_path / kept_in / ".tmp" / "agent-prompts").glob("*.md"))) == 1


def test_a_prompt_just_short_enough_goes_as_it_is(server: FakeCao, client: ApiClient) -> None:
    terminal = client.create_session("system_analyst", provider="codex")["id"]
    for message in ("x" * MAX_MESSAGE_BYTES, "\n" * (MAX_MESSAGE_BYTES // 3), "語" * (MAX_MESSAGE_BYTES // 9)):
        assert len(quote(message, safe="")) <= MAX_MESSAGE_BYTES
        client.send_input(terminal, message)
        assert server.requests[-1][2]["message"] == message


def test_half_a_character_from_the_server_is_replaced_before_it_gets_any_further() -> None:
    body = b'{"output": "before \\ud800 after", "status": "idle"}'
    transport = httpx.MockTransport(lambda _request: httpx.Response(200, content=body))
    with closing(ApiClient("http://cao", transport=transport)) as client:
        for text in (client.get_last_output("a1"), client.get_screen("a1")):
            assert text.encode("utf-8").startswith(b"before ")
            assert text.endswith(" after")


@pytest.mark.parametrize("length", [1, 100_000])
def test_half_a_character_in_a_prompt_does_not_keep_it_from_being_sent(
    server: FakeCao, client: ApiClient, length: int
) -> None:
    terminal = client.create_session("system_analyst", provider="codex")["id"]
    client.send_input(terminal, "before \ud800 after" * length)
    assert server.requests[-1][:2] == ("POST", f"/terminals/{terminal}/input")


# --- a CAO server: away, slow, broken


def an_address_nobody_answers_at(tmp_path: Path) -> str:
    with FakeCao(tmp_path, {}) as short_lived:
        return short_lived.url


def test_a_server_that_is_away_is_waited_for_until_it_is_back(server: FakeCao, tmp_path: Path) -> None:
    with closing(ApiClient(server.url, str(tmp_path))) as first:
        terminal = first.create_session("system_analyst", provider="codex")["id"]
    server.stop()
    told, statuses = threading.Event(), []
    with closing(ApiClient(server.url, str(tmp_path), patience=PATIENCE, tell=lambda _text: told.set())) as client:
        asking = threading.Thread(target=lambda: statuses.append(client.get_status(terminal)), daemon=True)
        asking.start()
        assert told.wait(PATIENCE), "nobody was told that the server is away"
        assert statuses == []
        server.start()
        asking.join(PATIENCE)
        assert statuses == ["idle"]


def test_a_prompt_for_a_server_that_is_away_arrives_once_when_it_is_back(server: FakeCao, tmp_path: Path) -> None:
    with closing(ApiClient(server.url, str(tmp_path))) as first:
        terminal = first.create_session("system_analyst", provider="codex")["id"]
    server.stop()
    told = threading.Event()
    with closing(ApiClient(server.url, str(tmp_path), patience=PATIENCE, tell=lambda _text: told.set())) as client:
        sending = threading.Thread(target=client.send_input, args=(terminal, "hello"), daemon=True)
        sending.start()
        assert told.wait(PATIENCE)
        server.start()
        sending.join(PATIENCE)
    assert [query["message"] for _, path, query in server.requests if path.endswith("/input")] == ["hello"]


def test_after_a_restart_terminals_live_on_with_unknown_status(server: FakeCao, client: ApiClient) -> None:
    terminal = client.create_session("system_analyst", provider="codex")["id"]
    server.restart()
    assert client.get_status(terminal) == "unknown"
    client.send_input(terminal, "hello")
    assert [query["message"] for _, path, query in server.requests if path.endswith("/input")] == ["hello"]


def test_a_fake_server_that_was_stopped_answers_nobody_not_even_whom_it_knows(server: FakeCao, tmp_path: Path) -> None:
    with closing(ApiClient(server.url, str(tmp_path), patience=0.2)) as client:
        terminal = client.create_session("system_analyst", provider="codex")["id"]
        server.stop()
        with pytest.raises(HostUnreachable):
            client.get_status(terminal)


CALLS: dict[str, Callable[[ApiClient], object]] = {
    "get_status": lambda api: api.get_status("a1"),
    "get_last_output": lambda api: api.get_last_output("a1"),
    "get_screen": lambda api: api.get_screen("a1"),
    "press_key": lambda api: api.press_key("a1", "Enter"),
    "send_input": lambda api: api.send_input("a1", "hello"),
    "exit_terminal": lambda api: api.exit_terminal("a1"),
    "profiles": lambda api: api.profiles(),
    "profile_text": lambda api: api.profile_text("tester", "codex"),
    "install_profile": lambda api: api.install_profile("tester", "..."),
    "preflight": lambda api: api.preflight([], patience=0.1),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_stays_away_is_unreachable(tmp_path: Path, call: str) -> None:
    url = an_address_nobody_answers_at(tmp_path)
    with closing(ApiClient(url, str(tmp_path), patience=0.1)) as client, pytest.raises(HostUnreachable):
        CALLS[call](client)


def test_a_profile_is_told_as_the_server_has_it_and_empty_where_nobody_knows(tmp_path: Path) -> None:
    with (
        FakeCao(tmp_path, {}, profile_texts={"tester": "Test it.\n"}) as server,
        closing(ApiClient(server.url, str(tmp_path))) as client,
    ):
        assert client.profile_text("tester", "codex") == "Test it.\n"
        assert client.profile_text("../x", "codex") == ""
        # The server starts its agents with copies that were made when the profile was installed.
        assert client.profile_text("tester", "opencode_cli") == ""


def test_a_server_that_stays_away_creates_nothing_and_is_named(tmp_path: Path) -> None:
    url = an_address_nobody_answers_at(tmp_path)
    with closing(ApiClient(url, str(tmp_path), patience=0.1)) as client:
        with pytest.raises(HostError):
            client.create_session("system_analyst", provider="codex", idempotency_key="k")
        with pytest.raises(HostUnreachable, match=url):
            client.preflight([], patience=0.1)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_gateway_that_says_later_is_asked_again(status: int) -> None:
    answers = iter([httpx.Response(status), httpx.Response(status), httpx.Response(200, json={"status": "idle"})])
    with closing(ApiClient("http://cao", transport=httpx.MockTransport(lambda _request: next(answers)))) as client:
        assert client.get_status("a1") == "idle"


class Hanging(socketserver.BaseRequestHandler):
    """Takes a request and hangs up without a word."""

    def handle(self) -> None:
        heard = self.request.recv(65_536)
        if heard:
            self.server.heard.append(heard)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.fixture
def hanging() -> Iterator[socketserver.ThreadingTCPServer]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Hanging) as server:
        server.heard = []  # pyright: ignore[reportAttributeAccessIssue]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def test_a_prompt_whose_connection_breaks_is_unknown_and_not_repeated(hanging, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{hanging.server_address[1]}"
    with closing(ApiClient(url, str(tmp_path), patience=1)) as client, pytest.raises(DeliveryUnknown, match="a1"):
        client.send_input("a1", "hello")
    assert len(hanging.heard) == 1


@pytest.mark.parametrize(("key", "repeated"), [("", False), ("logos-1", True)])
def test_only_a_key_makes_creation_safe_to_repeat(hanging, tmp_path: Path, key: str, repeated: bool) -> None:
    url = f"http://127.0.0.1:{hanging.server_address[1]}"
    with (
        closing(ApiClient(url, str(tmp_path), patience=0.5)) as client,
        pytest.raises(HostError, match="system_analyst"),
    ):
        client.create_session("system_analyst", provider="codex", idempotency_key=key)
    assert (len(hanging.heard) > 1) is repeated


def test_a_terminal_that_was_not_created_names_the_cause(tmp_path: Path) -> None:
    with (
        FakeCao(tmp_path, {}, refuse_profiles=frozenset({"tester", "home_made"})) as server,
        closing(ApiClient(server.url, str(tmp_path))) as client,
    ):
        with pytest.raises(TerminalNotCreated, match=r"tester.*claude_code.*the agent did not start.*PATH"):
            client.create_session("tester", provider="claude_code")
        with pytest.raises(TerminalNotCreated, match=r"home_made.*no profile 'home_made'.*profiles install"):
            client.create_terminal("cao-fake", "home_made", provider="codex")


def test_a_terminal_in_error_refuses_input(server: FakeCao, client: ApiClient) -> None:
    terminal = client.create_session("system_analyst", provider="codex")["id"]
    server.agents[terminal].status = "error"
    with pytest.raises(InputRefused, match=terminal):
        client.send_input(terminal, "hello")


def test_a_terminal_that_was_deleted_behind_our_back_is_gone(server: FakeCao, client: ApiClient) -> None:
    terminal = client.create_session("system_analyst", provider="codex")["id"]
    del server.agents[terminal]
    for call in (client.get_status, client.get_screen, lambda t: client.press_key(t, "Enter")):
        with pytest.raises(TerminalGone, match=terminal):
            call(terminal)


ODD_SERVERS: dict[str, httpx.Response] = {
    "a web page": httpx.Response(200, html="<h1>Welcome</h1>"),
    "a list": httpx.Response(200, json=["status"]),
    "a number": httpx.Response(201, json=5),
    "a list of texts": httpx.Response(200, json=["tester", "analyst"]),
    "nothing": httpx.Response(204),
    "an error page": httpx.Response(500, html="<h1>Oops</h1>"),
    "an odd error": httpx.Response(400, json=["no", {"detail": 5}]),
    "a redirect": httpx.Response(302, headers={"Location": "http://elsewhere/"}),
}
ODD_CALLS: dict[str, Callable[[ApiClient], object]] = {
    **CALLS,
    "create_session": lambda api: api.create_session("tester", provider="codex"),
    "create_terminal": lambda api: api.create_terminal("s", "tester", provider="codex"),
    "preflight": lambda api: api.preflight([Agent(AgentName("tester"), "codex", "tester")], patience=0.1),
}


@pytest.mark.parametrize("odd", ODD_SERVERS)
@pytest.mark.parametrize("call", ODD_CALLS)
def test_a_server_that_is_no_cao_server_raises_nothing_but_errors_we_name(call: str, odd: str) -> None:
    transport = httpx.MockTransport(lambda _request: ODD_SERVERS[odd])
    with closing(ApiClient("http://cao", patience=0.1, transport=transport)) as client:
        try:
            ODD_CALLS[call](client)
        except (HostError, ConfigError) as error:
            assert str(error)  # noqa: PT017 - an error is allowed here, not required


@pytest.mark.parametrize("call", ["create_session", "create_terminal"])
@pytest.mark.parametrize("odd", ["a web page", "a list", "a number", "nothing", "a redirect"])
def test_a_terminal_without_an_id_was_not_created(call: str, odd: str) -> None:
    transport = httpx.MockTransport(lambda _request: ODD_SERVERS[odd])
    with closing(ApiClient("http://cao", patience=0.1, transport=transport)) as client, pytest.raises(HostError):
        ODD_CALLS[call](client)


@pytest.mark.parametrize("url", ["http://[::1", "http://localhost:port", "http://x\x00y"])
def test_an_address_that_is_none_is_a_config_error(url: str) -> None:
    with pytest.raises(ConfigError, match="api"):
        ApiClient(url)


# --- a CAO server: what it says beforehand


def agent_terminals(provider: str = "codex", profile: str | None = None) -> list[Agent]:
    return [
        Agent(AgentName(agent_def.role), provider, profile or agent_def.profile) for agent_def in ROLE_DEFS.values()
    ]


def test_a_crew_the_server_can_start_passes(client: ApiClient) -> None:
    assert client.preflight(agent_terminals()) == []


def test_an_unknown_provider_is_named_before_anything_is_started(server: FakeCao, client: ApiClient) -> None:
    with pytest.raises(ConfigError, match=r"analyst.*'codecs'.*claude_code"):
        client.preflight(agent_terminals("codecs"))
    assert server.agents == {}


def test_a_missing_profile_is_named_before_anything_is_started(server: FakeCao, client: ApiClient) -> None:
    with pytest.raises(ConfigError, match=r"analyst.*'home_made'.*profiles install"):
        client.preflight(agent_terminals(profile="home_made"))
    assert server.agents == {}
