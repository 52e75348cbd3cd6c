"""After a PASS: the OpenSpec change is archived, the work is committed, a person is told; each only where asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from logos.domain.events import Noted, Topic
from logos.domain.turns import Outcome
from logos.testing import FAIL, PASS, ScriptedAgents, script
from tests.support.repositories import make_repository
from tests.support.sandbox import Sandbox
from tests.support.waiting import wait_for

CHANGE = "openspec/changes/add-greeting/proposal.md"
OPENSPEC = '#!/bin/sh\necho "$@" >> "$OPENSPEC_CALLS"\nexit ${OPENSPEC_EXIT:-0}\n'


@pytest.fixture
def repository(tmp_path: Path) -> Sandbox:
    shop = Sandbox(make_repository(tmp_path / "repo", {"README.md": "A shop.\n", CHANGE: "Greet.\n"}))
    shop.hire(tester=[_passing(shop.wd)])
    return shop


def _passing(wd: Path) -> Any:
    """A tester in whose turn the programmer's file is there."""

    def test(_prompt: str) -> str:
        (wd / "greet.py").write_text("print('hello')\n")
        return PASS

    return test


@pytest.fixture
def openspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program `openspec` that notes how it was called."""
    program = tmp_path / "bin" / "openspec"
    program.parent.mkdir()
    program.write_text(OPENSPEC)
    program.chmod(0o755)
    calls = tmp_path / "calls"
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("OPENSPEC_CALLS", str(calls))
    return calls


def notes(shop: Sandbox) -> list[str]:
    return [event.text for event in shop.events(Noted) if event.topic is Topic.AFTERWARDS]


def committed(shop: Sandbox) -> list[str]:
    return shop.git("show", "--format=", "--name-only", "HEAD").splitlines()


@pytest.mark.scenario("PRD-04")
def test_nothing_is_archived_or_committed_by_default(repository: Sandbox, openspec: Path):
    before = repository.git("rev-parse", "HEAD")
    assert repository.run().outcome is Outcome.PASSED
    assert repository.git("rev-parse", "HEAD") == before
    assert not openspec.exists()
    assert notes(repository) == []


@pytest.mark.scenario("PRD-05")
def test_the_one_change_is_archived_when_the_environment_says_so(repository: Sandbox, openspec: Path):
    assert repository.run(POST_OPENSPEC_ARCHIVE="1").outcome is Outcome.PASSED
    assert openspec.read_text() == "archive add-greeting --yes\n"
    assert notes(repository) == ["openspec change add-greeting archived"]


def test_the_work_is_committed_when_asked_for(repository: Sandbox):
    assert repository.run(POST_GIT_COMMIT="1").outcome is Outcome.PASSED
    assert committed(repository) == ["greet.py"]
    assert repository.git("log", "-1", "--format=%s") == "A greeting is missing."
    assert repository.state["final_status"] == "PASS"


def test_a_commit_has_the_comment_that_was_given(repository: Sandbox):
    repository.run(POST_GIT_COMMIT="1", POST_GIT_COMMIT_COMMENT="Greets")
    assert repository.git("log", "-1", "--format=%s") == "Greets"


def test_a_failed_archive_stops_the_commit_and_not_the_run(
    repository: Sandbox, openspec: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENSPEC_EXIT", "1")
    before = repository.git("rev-parse", "HEAD")
    ended = repository.run(POST_OPENSPEC_ARCHIVE="1", POST_GIT_COMMIT="1")
    assert (ended.outcome, ended.exit_code) == (Outcome.PASSED, 0)
    assert openspec.exists()
    assert repository.git("rev-parse", "HEAD") == before
    assert notes(repository)[-1] == "git commit skipped: archiving failed"


def test_a_fail_is_neither_archived_nor_committed(repository: Sandbox, openspec: Path):
    repository.hire(tester=[FAIL])
    before = repository.git("rev-parse", "HEAD")
    ended = repository.run(POST_OPENSPEC_ARCHIVE="1", POST_GIT_COMMIT="1", MAX_ROUNDS="1")
    assert ended.outcome is Outcome.FAILED
    assert repository.git("rev-parse", "HEAD") == before
    assert not openspec.exists()


@pytest.mark.parametrize(
    ("work_dir", "state_file"),
    [
        pytest.param(".", "state.json", id="beside the work"),
        pytest.param(".", "notes/run [1]*.json", id="with characters that git reads as a pattern"),
        pytest.param("part", "../state.json", id="above the work dir"),
        pytest.param(".", "../outside.json", id="outside the repository"),
    ],
)
@pytest.mark.parametrize(
    "staged", ["tracked", *(pytest.param(how, marks=pytest.mark.long) for how in ("untracked", "staged"))]
)
def test_the_state_file_is_never_committed(tmp_path: Path, work_dir: str, state_file: str, staged: str):
    top = make_repository(tmp_path / "repo", {"README.md": "A shop.\n"})
    shop = Sandbox(top / work_dir)
    shop.wd.mkdir(exist_ok=True)
    state = shop.wd / state_file
    state.parent.mkdir(exist_ok=True)
    inside = "outside" not in state_file

    def test(_prompt: str) -> str:
        (shop.wd / "greet.py").write_text("print('hello')\n")
        if staged == "staged" and inside:
            shop.git("add", "--force", "--", str(state))
        return PASS

    if staged == "tracked" and inside:
        state.write_text("{}")
        shop.git("add", "--all")
        shop.git("commit", "--quiet", "--message", "a state of old")
    shop.hire(tester=[test])
    assert shop.run(POST_GIT_COMMIT="1", STATE_FILE=state_file, RESUME="0").outcome is Outcome.PASSED
    assert '"PASS"' in state.read_text()
    assert [Path(name).name for name in committed(shop)] == ["greet.py"]


def test_a_work_dir_without_git_is_not_committed(tmp_path: Path):
    shop = Sandbox(tmp_path)
    assert shop.run(POST_GIT_COMMIT="1").outcome is Outcome.PASSED
    assert notes(shop) == ["git commit skipped: not a git repository"]


class Inbox(BaseHTTPRequestHandler):
    """A ntfy server."""

    messages: list[tuple[str, str]]

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.messages.append((self.headers["Title"], text))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def inbox() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    handler = type("Handler", (Inbox,), {"messages": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/topic", handler.messages
        server.shutdown()


@pytest.mark.parametrize(("verdict", "word"), [(PASS, "PASS, unverified"), (FAIL, "FAIL")])
def test_the_person_is_told_how_a_run_ended(
    tmp_path: Path, inbox: tuple[str, list[tuple[str, str]]], verdict: str, word: str
):
    topic, messages = inbox
    shop = Sandbox(tmp_path)
    shop.hire(tester=[verdict])
    ended = shop.run(NTFY_TOPIC=topic, MAX_ROUNDS="1")
    assert messages == [(f"Logos: {word}", f"{ended.reason}\nrun {ended.run} in {tmp_path}")]


class Asking(ScriptedAgents):
    """Its tester asks for permission before it answers."""

    asked = False

    def get_status(self, terminal_id: str) -> str:
        if not self.asked and self.profiles.get(terminal_id) == "tester" and self.prompts("tester"):
            self.asked = True
            return "waiting_user_answer"
        return super().get_status(terminal_id)


def test_the_person_is_told_that_an_agent_waits(tmp_path: Path, inbox: tuple[str, list[tuple[str, str]]]):
    topic, messages = inbox
    shop = Sandbox(tmp_path)
    host = Asking(shop.wd / ".tmp" / "agent-responses", script())
    assert shop.run(host, NTFY_TOPIC=topic, START_AGENT="tester").outcome is Outcome.PASSED
    (asked,) = wait_for(lambda: [text for title, text in messages if title == "Logos: an agent waits for you"])
    assert "waits for a person" in asked
