"""The two forms that keep the spec's letter, as processes: `python -m logos.cycle` and the compat module."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logos.domain.events import Noted, Topic
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, GOOD_PROGRAM, PASS, REVISE, script
from logos.testing.cao_server import FakeCao
from tests.support.sandbox import PROMPT, QUICK, Done, Sandbox, Started, ended
from tests.support.waiting import LAST_RESORT, wait_for

CYCLE, COMPAT = "logos.cycle", "logos.compat.run_orchestrator_loop"
ROLES = ("analyst", "peer_analyst", "programmer", "peer_programmer", "tester")
ONE_CYCLE = {"MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1"}


class Cao(FakeCao):
    """A server that can refuse to rename terminals."""

    refuses_names = False

    def answer(self, method: str, path: list[str], query: dict[str, str]) -> tuple[int, Any]:
        if self.refuses_names and query.get("message", "").startswith("/rename"):
            return 500, {"detail": "no renaming here"}
        return super().answer(method, path, query)


class BareForm(Sandbox):
    """One of the two modules, with agents on a server in this process."""

    module: str
    cao: Cao

    def begin(self, *arguments: str, **environment: str) -> Started:
        given = {"WD": str(self.wd), "PROMPT": PROMPT, "API": self.cao.url, **QUICK, **environment}
        return self.start_module(self.module, *arguments, **given)

    def call(self, *arguments: str, **environment: str) -> Done:
        return ended(self.begin(*arguments, **environment))

    def config(self, name: str, **content: Any) -> str:
        (self.wd / name).write_text(json.dumps(content))
        return str(self.wd / name)

    def imported_state(self, **changes: Any) -> None:
        """A state file as another tool leaves it, with terminals that the server knows."""
        terminals = {
            role: {"id": self.cao.create_terminal("cao-1", role, provider="codex")["id"], "provider": "codex"}
            for role in ROLES
        }
        outputs = {"analyst": GOOD_ANALYSIS, "analyst_review": APPROVED, "programmer": GOOD_PROGRAM}
        state = {"final_status": "RUNNING", "current_phase": "tester", "current_round": 1, "prompt": PROMPT}
        self.edit_state({**state, "session_name": "cao-1", "terminals": terminals, "outputs": outputs, **changes})


@pytest.fixture(params=[CYCLE, pytest.param(COMPAT, marks=pytest.mark.long)])
def form(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BareForm]:
    made = BareForm(tmp_path)
    made.module = request.param
    made.cao = Cao(tmp_path / ".tmp" / "agent-responses", script())
    with made.cao:
        yield made
        made.close()


# Clauses that only these tests prove for the compat module, so that its own run is quick, too.
both = pytest.mark.parametrize("form", [CYCLE, COMPAT], indirect=True)


def answers(form: BareForm, **responses: list[Any]) -> None:
    form.cao.script = script(**responses)


@pytest.mark.scenario("CYC-17")
def test_a_pass_exits_with_0(form: BareForm):
    done = form.call(**ONE_CYCLE)
    assert done.code == 0, done.err
    assert form.state["final_status"] == "PASS"


@pytest.mark.scenario("CYC-17")
@pytest.mark.parametrize(("verify", "verified"), [("", False), ("1", True)])
def test_a_pass_is_verified_only_if_asked_for_and_said_to_be_unverified(form: BareForm, verify: str, verified: bool):
    done = form.call(VERIFY_PASS=verify, PROJECT_TEST_CMD="true", START_AGENT="tester")
    assert done.code == 0, done.err
    assert ("PASSED, unverified" in done.err) != verified
    assert (form.state["final_status"], form.state["verified"]) == ("PASS", verified)


@pytest.mark.long
@pytest.mark.scenario("CYC-19")
def test_no_pass_in_any_round_exits_with_1(form: BareForm):
    answers(form, tester=[FAIL])
    done = form.call(MAX_ROUNDS="2", **ONE_CYCLE)
    assert done.code == 1
    assert "no PASS in 2 rounds" in done.err
    assert (form.state["final_status"], form.state["current_round"]) == ("FAIL", 2)


@pytest.mark.scenario("PRD-02")
@pytest.mark.parametrize("name", ["config.json", "settings.conf"])
def test_the_first_argument_is_the_configuration_whatever_its_name(form: BareForm, name: str):
    answers(form, tester=[FAIL])
    done = form.call(form.config(name, limits={"max_rounds": 3}), START_AGENT="tester", **ONE_CYCLE)
    assert done.code == 1
    assert "no PASS in 3 rounds" in done.err


@pytest.mark.parametrize("name", ["absent.json", "absent"])
def test_a_configuration_that_is_not_there_exits_with_1(form: BareForm, name: str):
    done = form.call(name)
    assert done.code == 1
    assert name in done.err
    assert form.cao.sent == []


@pytest.mark.scenario("CYC-21")
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_the_state_and_sets_the_exit_code(form: BareForm, signum: int, code: int):
    gate = threading.Event()
    answers(form, analyst=[lambda _prompt: str(gate.wait(LAST_RESORT))])
    process = form.begin()
    form.wait_for_event("turn_sent", process=process)
    process.send_signal(signum)
    assert ended(process).code == code
    gate.set()
    assert form.state["final_status"] == "RUNNING"
    assert form.state["current_phase"] == "analyst"
    assert form.state["logos"]["seq"] == len(form.all_events())


@pytest.mark.scenario("CYC-25")
def test_a_running_state_is_resumed_by_itself(form: BareForm):
    form.imported_state()
    done = form.call()
    assert done.code == 0, done.err
    assert "resuming from the state file" in done.err
    assert form.asked == ["r1.tester.c1"]


# What a person must hear


@both
@pytest.mark.scenario("PRD-21")
def test_another_provider_than_configured_is_said_at_a_resume(form: BareForm):
    form.imported_state()
    done = form.call(form.config("c.json", agents={"analyst": {"provider": "claude_code"}}))
    assert done.code == 0, done.err
    assert "runs codex, the configuration says claude_code" in done.err


@both
@pytest.mark.scenario("PRD-18")
def test_a_rename_that_fails_is_said(form: BareForm):
    form.cao.refuses_names = True
    done = form.call(START_AGENT="tester")
    assert done.code == 0, done.err
    assert done.err.count("renaming its terminal failed") == 5


def test_an_agent_that_waits_for_a_person_is_said(form: BareForm):
    gate = threading.Event()
    answers(form, tester=[lambda _prompt: PASS if gate.wait(LAST_RESORT) else ""])
    process = form.begin(START_AGENT="tester")
    form.wait_for_event("turn_sent", "tester", process=process)
    agent = form.cao.agents[form.state["terminals"]["tester"]["id"]]
    agent.status = "waiting_user_answer"
    asked = wait_for(
        lambda: [event for event in form.events(Noted) if event.topic is Topic.PERMISSION_ASKED], process=process
    )
    gate.set()
    done = ended(process)
    assert done.code == 0, done.err
    assert asked[0].text in done.err


def test_post_processing_is_said(form: BareForm):
    done = form.call(START_AGENT="tester", POST_GIT_COMMIT="1", POST_OPENSPEC_ARCHIVE="1")
    assert done.code == 0, done.err
    assert "openspec archive skipped" in done.err
    assert "git commit skipped: not a git repository" in done.err


@pytest.mark.long
def test_reviews_without_approval_are_said(form: BareForm):
    answers(form, analyst_review=[REVISE])
    done = form.call(MAX_REVIEW_CYCLES="1", **ONE_CYCLE)
    assert done.code == 0, done.err
    assert "not approved by the peer analyst in 1 cycle; its objections go along" in done.err
    assert "not approved by the peer programmer" not in done.err


# State files


def test_resume_1_on_a_pass_says_so_and_asks_nobody(form: BareForm):
    form.imported_state(final_status="PASS")
    before = form.state_path.read_text()
    done = form.call(RESUME="1")
    assert done.code == 0
    assert "says PASS" in done.err
    assert form.cao.sent == []
    assert form.state_path.read_text() == before


def test_none_yet_in_the_feedback_of_an_older_tool_means_none(form: BareForm):
    nothing = dict.fromkeys(("feedback", "analyst_feedback", "programmer_feedback"), "None yet.")
    form.imported_state(current_phase="programmer", outputs={"analyst": GOOD_ANALYSIS}, **nothing)
    done = form.call(**ONE_CYCLE)
    assert done.code == 0, done.err
    prompt = form.prompts["r1.programmer.c1"]
    assert "None yet." not in prompt
    assert "Unresolved objections" not in prompt


def test_resume_0_starts_anew(form: BareForm):
    form.imported_state()
    done = form.call(form.config("c.json", resume=False), START_AGENT="tester")
    assert done.code == 0, done.err
    assert form.asked == ["r1.tester.c1"]
    # The agents of the old run were not asked.
    assert form.state["session_name"] == "cao-fake"


def test_two_arguments_are_too_many(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", CYCLE, "a", "b"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "usage: python -m logos.cycle [config.json]" in done.stderr
