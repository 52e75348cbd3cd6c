"""A model and further arguments per role: passed to the agent CLI or the server, or refused before anything starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.hosts.providers import PROVIDERS, Grant
from logos.domain.turns import Agent, AgentName
from logos.testing import script
from logos.testing.cao_server import FakeCao
from tests.fake_cli import calls, install_fake_cli
from tests.support.sandbox import PROMPT, Sandbox

TEAM = {
    "provider": "codex",
    "agents": {
        "tester": {"model": "small-1", "args": ["-c", "a b=$(touch /tmp/x)"]},
        "programmer": {"model": "large-2", "profile": "tester"},
    },
}


@pytest.fixture
def person(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    sandbox.set(LOGOS_PROMPT=PROMPT, LOGOS_MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1", LOGOS_HOST="local")
    return sandbox


def configure(place: Sandbox, team: Any) -> None:
    (place.wd / "logos.json").write_text(json.dumps(team))


def arguments_of(notes: Path) -> dict[str, str]:
    """Of each role's only call."""
    made = {"analyst_summary.md": "analyst", "programmer_summary.md": "programmer", "test_result.md": "tester"}
    found = {}
    for call in calls(notes):
        role = next((made[name] for name in made if f"/{name} <<" in str(call["prompt"])), "a reviewer")
        found[role] = " ".join(call["argv"])  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("row", PROVIDERS.values(), ids=lambda row: row.name)
@pytest.mark.parametrize("again", [False, True])
def test_every_client_has_a_way_to_name_a_model(row: Any, again: bool) -> None:
    agent = Agent(AgentName("tester"), row.name, "tester", model="small-1", args=("--more", "x y"))
    arguments = row.arguments(Grant(), "s", again, row.wishes(agent))
    at = arguments.index("--model")
    assert arguments[at : at + 4] == ["--model", "small-1", "--more", "x y"]
    assert row.refusal(agent) == ""


def test_each_role_gets_its_own_model_and_arguments(person: Sandbox, tmp_path: Path) -> None:
    notes = install_fake_cli(tmp_path / "bin", "codex")
    configure(person, TEAM)
    done = person("run")
    assert done.code == 0, done.err
    given = arguments_of(notes)
    assert "--model small-1 -c a b=$(touch /tmp/x) -" in given["tester"]
    assert "--model large-2 -" in given["programmer"]
    assert "--model" not in given["analyst"]
    assert "warning: tester gets more arguments for codex (-c 'a b=$(touch /tmp/x)')" in done.err


def test_a_resumed_run_keeps_what_it_was_started_with(person: Sandbox, tmp_path: Path) -> None:
    notes = install_fake_cli(tmp_path / "bin", "codex", tester="RESULT: nothing")
    configure(person, TEAM)
    assert person("run", "--set", "limits.max_minutes=0").code == 4
    configure(person, {**TEAM, "agents": {"tester": {"args": ["--dangerously-bypass-approvals-and-sandbox"]}}})
    done = person("run", "--resume", "--set", "limits.max_minutes=60", "--set", "limits.max_rounds=1")
    assert (done.code, "ended: FAILED" in done.err) == (1, True), done.err
    assert "--dangerously" not in notes.read_text()
    assert '"--model", "small-1"' in notes.read_text()


def test_a_model_can_be_given_with_set(person: Sandbox, tmp_path: Path) -> None:
    notes = install_fake_cli(tmp_path / "bin", "codex")
    more = ("--set", "agents.tester.model=tiny", "--set", "agents.tester.args=--one,--two", "--set", "provider=codex")
    assert person("run", *more).code == 0
    assert "--model tiny --one --two -" in arguments_of(notes)["tester"]
    wrong = person("run", "--set", "agents.nobody.model=tiny")
    assert (wrong.code, "analyst, peer_analyst" in wrong.err) == (1, True), wrong.err


def test_a_client_that_cannot_be_told_is_an_error_before_anything_starts(person: Sandbox, tmp_path: Path) -> None:
    notes = install_fake_cli(tmp_path / "bin", "my-agent")
    person.set(LOGOS_AGENT_COMMAND="my-agent --file '{prompt_file}'")
    for wish in ({"model": "small-1"}, {"args": ["--more"]}):
        configure(person, {"provider": "command", "agents": {"tester": wish}})
        done = person("run")
        assert done.code == 1
        assert f"agents.tester.{next(iter(wish))}" in done.err
        assert "write it into agent_command" in done.err
    assert (person.logs(), calls(notes)) == ({}, [])


def test_arguments_are_a_list_and_never_a_shells(person: Sandbox) -> None:
    configure(person, {"agents": {"tester": {"args": "--one --two"}}})
    assert "agents.tester.args" in person("run").err


@pytest.fixture
def cao(sandbox: Sandbox) -> Iterator[FakeCao]:
    with FakeCao(sandbox.wd / ".tmp" / "agent-responses", script(), turn_seconds=0.02) as server:
        sandbox.set(LOGOS_API=server.url, LOGOS_PROMPT=PROMPT, LOGOS_MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1")
        yield server


def test_a_server_is_asked_for_the_model(sandbox: Sandbox, cao: FakeCao) -> None:
    cao.takes_models = True
    configure(sandbox, {"agents": {"tester": {"model": "small-1"}}})
    done = sandbox("run")
    assert done.code == 0, done.err
    made = {query["agent_profile"]: query.get("model") for method, _, query in cao.requests if "agent_profile" in query}
    assert (made["tester"], made["programmer"]) == ("small-1", None)


@pytest.mark.parametrize("wish", [{"model": "small-1"}, {"args": ["--more"]}])
def test_a_server_that_takes_none_refuses_before_anything_starts(sandbox: Sandbox, cao: FakeCao, wish: Any) -> None:
    cao.takes_models = False
    configure(sandbox, {"agents": {"tester": wish}})
    done = sandbox("run")
    assert done.code == 1
    assert f"agents.tester.{next(iter(wish))}" in done.err
    assert sandbox.logs() == {}
