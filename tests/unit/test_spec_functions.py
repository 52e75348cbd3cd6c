"""The spec's scenarios at the level of its functions, through the module that carries their names."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from logos.compat.run_orchestrator_loop import plain_host
from logos.domain.events import Event, Noted
from logos.domain.ledger import Ledger
from logos.domain.roles import Role
from logos.domain.turns import Agent, AgentName, RunId
from logos.engine.terminals import AgentTerminals
from logos.errors import HostError, TerminalGone
from logos.prompts import standing_rules
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, GOOD_PROGRAM
from tests.support.waiting import LAST_RESORT

ROLES = ("analyst", "peer_analyst", "programmer", "peer_programmer", "tester")
BACK_REFERENCE = "(Same as initial turn -- refer to your conversation history.)"


class Host:
    """The seven methods and nothing else; what is called is kept."""

    def __init__(self, status: str = "idle", broken: str | None = None, error: Exception | None = None) -> None:
        self.status = status
        self.broken = broken
        self.error = error or HostError("the agent did not start")
        self.created: list[tuple[str, str]] = []
        self.sent: list[tuple[str, str]] = []
        self.exited: list[str] = []
        self.gone: set[str] = set()
        self.output = "what the screen says"
        self.refuses_input = False
        self.on_input = lambda: None

    def create_session(self, agent_profile: str, provider: str) -> dict[str, str]:
        return self.create_terminal("cao-1", agent_profile, provider)

    def create_terminal(self, session_name: str, agent_profile: str, provider: str) -> dict[str, str]:
        if agent_profile == self.broken:
            raise self.error
        self.created.append((agent_profile, provider))
        return {"id": f"id-{agent_profile}", "session_name": session_name}

    def send_input(self, terminal_id: str, message: str) -> None:
        if self.refuses_input:
            raise self.error
        self.sent.append((terminal_id, message))
        self.on_input()

    def get_status(self, terminal_id: str) -> str:
        if terminal_id in self.gone:
            raise TerminalGone(f"there is no terminal {terminal_id}")
        return self.status

    def get_last_output(self, terminal_id: str) -> str:
        del terminal_id
        return self.output

    def exit_terminal(self, terminal_id: str) -> None:
        self.exited.append(terminal_id)

    def close(self) -> None:
        pass


def config(tmp_path: Path, **content: object) -> list[str]:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(content))
    return ["prog", str(path)]


# Configuration


@pytest.mark.scenario("CYC-01")
@pytest.mark.scenario("PRD-01")
def test_the_defaults_are_those_of_the_shell_script(loop: Any):
    values = loop.load_config(["prog"])
    assert {name: values[name] for name in ("MAX_ROUNDS", "MAX_REVIEW_CYCLES", "POLL_SECONDS")} == {
        "MAX_ROUNDS": 8,
        "MAX_REVIEW_CYCLES": 3,
        "POLL_SECONDS": 2,
    }
    assert values["MIN_REVIEW_CYCLES_BEFORE_APPROVAL"] == 2
    assert values["REVIEW_EVIDENCE_MIN_MATCH"] == 3
    assert values["RESPONSE_TIMEOUT"] == 1800
    assert values["STRICT_FILE_HANDOFF"] is True
    assert values["CONDENSE_CROSS_PHASE"] is True
    assert values["MAX_CROSS_PHASE_LINES"] == 40


@pytest.mark.scenario("PRD-02")
def test_the_config_file_applies_where_the_environment_is_silent(loop: Any, tmp_path: Path):
    assert loop.load_config(config(tmp_path, limits={"max_rounds": 3}))["MAX_ROUNDS"] == 3


@pytest.mark.scenario("PRD-02")
@pytest.mark.parametrize("name", ["config.json", "settings.conf"])
def test_main_reads_its_first_argument_whatever_its_name(
    loop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
):
    (tmp_path / name).write_text('{"limits": {"max_rounds": "many"}}')
    monkeypatch.setattr(sys, "argv", ["prog", str(tmp_path / name)])
    with pytest.raises(SystemExit) as stopped:
        loop.main()
    assert stopped.value.code == 1
    assert "max_rounds" in capsys.readouterr().err


def test_the_environment_wins_over_the_config_file(loop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MAX_ROUNDS", "5")
    assert loop.load_config(config(tmp_path, limits={"max_rounds": 3}))["MAX_ROUNDS"] == 5


def test_an_empty_environment_variable_counts_as_unset(loop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MAX_ROUNDS", "")
    assert loop.load_config(config(tmp_path, limits={"max_rounds": 3}))["MAX_ROUNDS"] == 3


@pytest.mark.scenario("PRD-03")
def test_a_run_starts_at_the_analyst_by_default(loop: Any):
    assert loop.load_config(["prog"])["START_AGENT"] == "analyst"


@pytest.mark.scenario("PRD-04")
def test_post_processing_is_off_by_default(loop: Any):
    values = loop.load_config(["prog"])
    assert values["POST_OPENSPEC_ARCHIVE"] is False
    assert values["POST_GIT_COMMIT"] is False


@pytest.mark.scenario("PRD-05")
def test_post_processing_is_switched_on_by_the_environment_whatever_the_file_says(
    loop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("POST_OPENSPEC_ARCHIVE", "1")
    values = loop.load_config(config(tmp_path, post_processing={"openspec_archive": False}))
    assert values["POST_OPENSPEC_ARCHIVE"] is True


def test_agents_are_configured_per_role_in_the_file(loop: Any, tmp_path: Path):
    agents = {"tester": {"provider": "claude_code", "profile": "strict_tester"}}
    values = loop.load_config(config(tmp_path, provider="kimi_cli", agents=agents))
    assert values["_agent_config"]["tester"] == {"provider": "claude_code", "profile": "strict_tester"}
    assert values["_agent_config"]["analyst"] == {"provider": "kimi_cli", "profile": "system_analyst"}


def test_a_bad_config_exits_with_1_and_names_the_key(loop: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit_:
        loop.load_config(config(tmp_path, limits={"max_round": 3}))
    assert exit_.value.code == 1
    assert "limits.max_round" in capsys.readouterr().err


# Reviews


NOTES = "REVIEW_RESULT: APPROVED\nREVIEW_NOTES:\n"
ENOUGH = (
    NOTES
    + "- the proposal artifact is complete\n- P1 traceability holds\n- downstream contract kept\n- handoff is actionable\n"
)


FAMILIES = ("the proposal artifact", "P1 traceability", "the downstream contract", "an actionable handoff")


def review(*evidence: str) -> str:
    return NOTES + "".join(f"- {words} is fine\n" for words in evidence)


@pytest.mark.scenario("CYC-04")
def test_an_approval_with_evidence_in_cycle_2_counts(loop: Any):
    assert loop.is_review_approved(ENOUGH, 2, "analyst") is True
    assert loop.is_review_approved(ENOUGH.replace("APPROVED", "REVISE"), 2, "analyst") is False
    # Every family counts: each three of the four are enough.
    assert [loop.is_review_approved(review(*three), 2, "analyst") for three in combinations(FAMILIES, 3)] == [True] * 4


@pytest.mark.scenario("CYC-05")
def test_an_approval_in_cycle_1_does_not_count(loop: Any):
    assert loop.is_review_approved(ENOUGH, 1, "analyst") is False
    loop.REQUIRE_REVIEW_EVIDENCE = False
    assert loop.is_review_approved(ENOUGH, 1, "analyst") is False
    loop.MIN_REVIEW_CYCLES_BEFORE_APPROVAL = 1
    assert loop.is_review_approved(ENOUGH, 1, "analyst") is True


@pytest.mark.scenario("CYC-06")
def test_an_approval_with_one_kind_of_evidence_does_not_count(loop: Any):
    assert loop.is_review_approved(NOTES + "- the proposal and the design are fine\n", 2, "analyst") is False
    assert not any(loop.is_review_approved(review(words), 2, "analyst") for words in FAMILIES)
    # The evidence must stand in the notes.
    assert loop.is_review_approved("".join(FAMILIES) + "\n" + NOTES, 2, "analyst") is False
    loop.REVIEW_EVIDENCE_MIN_MATCH = 1
    assert loop.is_review_approved(review(FAMILIES[0]), 2, "analyst") is True


@pytest.mark.scenario("CYC-07")
def test_an_approval_needs_no_evidence_when_none_is_required(loop: Any):
    loop.REQUIRE_REVIEW_EVIDENCE = False
    assert loop.is_review_approved("REVIEW_RESULT: APPROVED\n", 2, "analyst") is True
    assert loop.is_review_approved("REVIEW_RESULT: REVISE\n", 2, "analyst") is False


def test_a_programmers_review_is_measured_by_its_own_evidence(loop: Any):
    assert loop.is_review_approved(APPROVED, 2, "programmer") is True
    assert loop.is_review_approved(NOTES + "- P1, contract, handoff\n", 2, "programmer") is False


@pytest.mark.scenario("CYC-08")
def test_review_notes_are_cut_out_and_capped(loop: Any):
    text = "REVIEW_RESULT: REVISE\nchatter\nREVIEW_NOTES:\n" + "\n".join(f"- note {n}" for n in range(50))
    loop.MAX_FEEDBACK_LINES = 4
    assert loop.extract_review_notes(text).splitlines() == ["REVIEW_NOTES:", "- note 0", "- note 1", "- note 2"]


@pytest.mark.scenario("CYC-09")
def test_test_evidence_is_the_result_line_and_the_evidence_capped(loop: Any):
    text = "I ran things.\nRESULT: FAIL\nmore chatter\nEVIDENCE:\n" + "\n".join(f"- fact {n}" for n in range(50))
    loop.MAX_FEEDBACK_LINES = 4
    assert loop.extract_test_evidence(text).splitlines() == ["RESULT: FAIL", "EVIDENCE:", "- fact 0", "- fact 1"]


@pytest.mark.scenario("CYC-10")
@pytest.mark.scenario("CYC-11")
def test_a_terminal_gets_the_explore_summary_once_and_then_a_back_reference(loop: Any):
    assert loop.explore_block_for("t1") == "The login page forgets the user."
    assert loop.explore_block_for("t1") == BACK_REFERENCE
    assert loop.explore_block_for("t2") == "The login page forgets the user."


@pytest.mark.scenario("CYC-10")
@pytest.mark.scenario("CYC-11")
def test_a_prompt_has_the_explore_summary_once_for_each_terminal(loop: Any):
    loop.terminal_ids = {role: f"id-{role}" for role in ROLES}
    first, second = loop.build_analyst_prompt(1, 1), loop.build_analyst_prompt(1, 2)
    assert "The login page forgets the user." in first
    assert BACK_REFERENCE not in first
    assert "The login page forgets the user." not in second
    assert BACK_REFERENCE in second
    assert "The login page forgets the user." in loop.build_tester_prompt(GOOD_PROGRAM)


@pytest.mark.scenario("CYC-11")
def test_the_explore_summary_is_repeated_when_condensing_is_off(loop: Any):
    loop.CONDENSE_EXPLORE_ON_REPEAT = False
    loop.explore_block_for("t1")
    assert loop.explore_block_for("t1") == "The login page forgets the user."


# Prompts


@pytest.mark.scenario("CYC-12")
def test_the_analysts_prompt_has_everything_it_needs(loop: Any):
    loop.feedback, loop.analyst_feedback = "the button is red", "name the files"
    prompt = loop.build_analyst_prompt(1, 2)
    for part in ("The login page forgets the user.", "round 1", "cycle 2", "the button is red", "name the files"):
        assert part in prompt
    assert "GUARDS" in prompt
    assert "ANALYST_SUMMARY:" in prompt
    for section in ("PASS or REVISE", "P1", "P4", "hased delivery", "ownstream contract", "xplicit handoff"):
        assert section in prompt, section
    assert str(loop.response_path_for("analyst")) in prompt.split("RESPONSE FILE INSTRUCTION")[1]


@pytest.mark.scenario("CYC-13")
@pytest.mark.scenario("PRD-25")
def test_the_programmer_is_not_told_the_handoff_twice(loop: Any):
    assert "notes for programmer: as asked" in loop.build_programmer_prompt(1, 1, GOOD_ANALYSIS)
    again = loop.build_programmer_prompt(1, 2, GOOD_ANALYSIS)
    assert "notes for programmer: as asked" not in again
    assert "refer to your conversation history" in again


@pytest.mark.scenario("CYC-13")
@pytest.mark.scenario("PRD-25")
def test_the_programmer_is_told_the_handoff_again_when_condensing_is_off(loop: Any):
    loop.CONDENSE_UPSTREAM_ON_REPEAT = False
    assert "notes for programmer: as asked" in loop.build_programmer_prompt(1, 2, GOOD_ANALYSIS)


@pytest.mark.scenario("PRD-23")
def test_the_analyst_explores_and_writes_artifacts_in_round_1(loop: Any):
    prompt = loop.build_analyst_prompt(1, 1)
    assert "Explore the codebase" in prompt
    assert "Create/update all OpenSpec artifacts using the OpenSpec fast-forward skill" in prompt


@pytest.mark.scenario("PRD-24")
def test_the_analyst_investigates_the_failure_first_in_later_rounds(loop: Any):
    prompt = loop.build_analyst_prompt(2, 1)
    first = prompt.index("Use the OpenSpec explore skill to investigate the test failure")
    assert prompt.index("use the OpenSpec fast-forward skill to update the artifacts") > first


@pytest.mark.scenario("PRD-26")
def test_the_programmer_gets_the_test_failure_in_place_of_the_handoff_in_later_rounds(loop: Any):
    loop.feedback = "expected 2, observed 3"
    prompt = loop.build_programmer_prompt(2, 1, GOOD_ANALYSIS)
    assert "Test failure feedback:\nexpected 2, observed 3" in prompt
    assert "System analyst handoff" not in prompt
    assert "notes for programmer: as asked" not in prompt


def names_file(prompt: str, path: Path) -> bool:
    """Whether the instruction at the end tells the path and writes to it with a heredoc, and names no other."""
    before, title, block = prompt.partition("*** RESPONSE FILE INSTRUCTION ***\n")
    named = set(re.findall(r"/[\w./-]+\.md", block))
    return bool(title) and named == {str(path)} and f"cat >{path} <<'" in block and str(path) not in before


@pytest.mark.scenario("HND-10")
def test_the_analysts_prompt_names_its_response_file(loop: Any, tmp_path: Path):
    prompt = loop.build_analyst_prompt(1, 1)
    assert prompt.endswith(loop.response_file_instruction("analyst"))
    assert names_file(prompt, tmp_path / ".tmp" / "agent-responses" / "analyst_summary.md")
    loop.RESPONSE_DIR = tmp_path / "elsewhere"
    assert names_file(loop.build_analyst_prompt(1, 1), tmp_path / "elsewhere" / "analyst_summary.md")


@pytest.mark.scenario("HND-11")
def test_every_prompt_names_the_response_file_of_its_role(loop: Any, tmp_path: Path):
    prompts = {
        "analyst_summary.md": loop.build_analyst_prompt(1, 1),
        "analyst_review.md": loop.build_analyst_review_prompt(GOOD_ANALYSIS),
        "programmer_summary.md": loop.build_programmer_prompt(1, 1, GOOD_ANALYSIS),
        "programmer_review.md": loop.build_programmer_review_prompt(GOOD_PROGRAM),
        "test_result.md": loop.build_tester_prompt(GOOD_PROGRAM),
    }
    for name, prompt in prompts.items():
        assert names_file(prompt, tmp_path / ".tmp" / "agent-responses" / name), prompt


def test_every_prompt_has_the_rules_of_its_role_however_often_it_is_built(loop: Any):
    loop.terminal_ids = {role: f"id-{role}" for role in ROLES}
    for number in (1, 2):
        prompts = {
            Role.ANALYST: loop.build_analyst_prompt(1, number),
            Role.PEER_ANALYST: loop.build_analyst_review_prompt(GOOD_ANALYSIS),
            Role.PROGRAMMER: loop.build_programmer_prompt(1, number, GOOD_ANALYSIS),
            Role.PEER_PROGRAMMER: loop.build_programmer_review_prompt(GOOD_PROGRAM),
            Role.TESTER: loop.build_tester_prompt(GOOD_PROGRAM),
        }
        for role, prompt in prompts.items():
            assert standing_rules(role) in prompt, role


@pytest.mark.scenario("RTY-06")
def test_a_retry_tells_the_programmer_what_it_changed_before(loop: Any):
    loop.programmer_context_for_retry = "- Files changed: foo.py"
    prompt = loop.build_programmer_prompt(2, 1, "")
    assert "Your previous changes (context):\n- Files changed: foo.py" in prompt


@pytest.mark.scenario("RTY-07")
def test_round_1_tells_the_programmer_nothing_of_previous_changes(loop: Any):
    loop.programmer_context_for_retry = "- Files changed: foo.py"
    assert "Your previous changes" not in loop.build_programmer_prompt(1, 1, GOOD_ANALYSIS)


@pytest.mark.scenario("RTY-08")
def test_a_retry_without_context_has_no_block_for_it(loop: Any):
    loop.programmer_context_for_retry = ""
    assert "Your previous changes" not in loop.build_programmer_prompt(2, 1, "")


@pytest.mark.parametrize(
    "build",
    [
        pytest.param("build_tester_prompt", marks=pytest.mark.scenario("RTY-09")),
        pytest.param("build_programmer_review_prompt", marks=pytest.mark.scenario("RTY-10")),
        pytest.param("build_analyst_review_prompt", marks=pytest.mark.scenario("RTY-11")),
    ],
)
@pytest.mark.scenario("RTY-09")
@pytest.mark.scenario("RTY-10")
@pytest.mark.scenario("RTY-11")
def test_only_the_programmer_is_told_of_previous_changes(loop: Any, build: str):
    loop.current_round = 2
    loop.programmer_context_for_retry = "- Files changed: foo.py"
    prompt = getattr(loop, build)("what the author said")
    assert "what the author said" in prompt
    assert "Your previous changes" not in prompt
    assert "Previous round programmer changes" not in prompt


# Response files


@pytest.mark.scenario("HND-01")
def test_each_role_has_its_response_file(loop: Any):
    names = {role: loop.response_path_for(role) for role in loop.RESPONSE_FILES}
    assert names == {
        "analyst": loop.RESPONSE_DIR / "analyst_summary.md",
        "analyst_review": loop.RESPONSE_DIR / "analyst_review.md",
        "programmer": loop.RESPONSE_DIR / "programmer_summary.md",
        "programmer_review": loop.RESPONSE_DIR / "programmer_review.md",
        "tester": loop.RESPONSE_DIR / "test_result.md",
    }


@pytest.mark.scenario("HND-02")
def test_a_stale_response_is_deleted(loop: Any):
    loop.ensure_response_dir()
    path = loop.response_path_for("analyst")
    path.write_text("from another run")
    loop.clear_stale_response("analyst")
    assert not path.exists()


@pytest.mark.scenario("HND-03")
def test_clearing_what_is_not_there_is_no_error(loop: Any):
    loop.clear_stale_response("analyst")
    assert not loop.response_path_for("analyst").exists()


@pytest.mark.scenario("HND-04")
def test_the_response_directory_is_made_with_its_parents(loop: Any, tmp_path: Path):
    loop.RESPONSE_DIR = tmp_path / "a" / "b" / "responses"
    loop.ensure_response_dir()
    assert (tmp_path / "a" / "b" / "responses").is_dir()


@pytest.mark.scenario("HND-05")
def test_a_response_is_read_and_deleted_once_the_terminal_is_idle(loop: Any):
    loop.api = Host("processing")
    loop.ensure_response_dir()
    loop.response_path_for("analyst").write_text("my answer")
    threading.Timer(0.2, lambda: setattr(loop.api, "status", "idle")).start()
    assert loop.wait_for_response_file("analyst", "t1", timeout=LAST_RESORT) == "my answer"
    assert loop.api.status == "idle"
    assert not loop.response_path_for("analyst").exists()


@pytest.mark.scenario("HND-06")
def test_without_a_file_the_last_output_counts_when_not_strict(loop: Any):
    loop.api, loop.STRICT_FILE_HANDOFF = Host("idle"), False
    assert loop.wait_for_response_file("analyst", "t1", timeout=0.1) == "what the screen says"


@pytest.mark.scenario("HND-07")
def test_without_a_file_the_turn_fails_when_strict(loop: Any):
    loop.api = Host("idle")
    with pytest.raises(RuntimeError, match="analyst"):
        loop.wait_for_response_file("analyst", "t1", timeout=0.1)


@pytest.mark.scenario("HND-08")
def test_a_terminal_in_error_fails_the_turn_at_once(loop: Any):
    loop.api = Host("error")
    with pytest.raises(RuntimeError, match="analyst: no response from terminal t1"):
        loop.wait_for_response_file("analyst", "t1", timeout=3600)


@pytest.mark.scenario("HND-08")
def test_a_terminal_that_enters_error_fails_the_turn_whatever_its_file_says(loop: Any):
    loop.api = Host("processing")
    loop.ensure_response_dir()
    loop.response_path_for("analyst").write_text("half an answ")
    threading.Timer(0.1, lambda: setattr(loop.api, "status", "error")).start()
    with pytest.raises(RuntimeError):
        loop.wait_for_response_file("analyst", "t1", timeout=LAST_RESORT)


@pytest.mark.scenario("HND-08")
def test_the_output_of_a_terminal_in_error_is_not_waited_for(loop: Any):
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, json={"id": "t1", "status": "error"})

    loop.api = loop.ApiClient("http://127.0.0.1:9", transport=httpx.MockTransport(answer))
    with pytest.raises(RuntimeError):
        loop.wait_for_response_file("analyst", "t1", timeout=3600)
    assert asked == ["/terminals/t1"]


@pytest.mark.scenario("HND-09")
def test_a_terminal_still_at_work_at_the_timeout_is_a_timeout(loop: Any):
    loop.api = Host("processing")
    with pytest.raises(TimeoutError):
        loop.wait_for_response_file("analyst", "t1", timeout=0.1)


def test_the_configured_timeout_applies(loop: Any):
    loop.api, loop.RESPONSE_TIMEOUT = Host("processing"), 0.1
    with pytest.raises(TimeoutError):
        loop.wait_for_response_file("analyst", "t1")


@pytest.mark.scenario("HND-12")
def test_send_and_wait_clears_sends_and_waits(loop: Any):
    loop.ensure_response_dir()
    path = loop.response_path_for("tester")
    path.write_text("a stale PASS from another run")
    found_when_sent: list[bool] = []

    def answer() -> None:
        found_when_sent.append(path.exists())
        path.write_text("RESULT: FAIL")

    loop.api = Host("completed")
    loop.api.on_input = answer
    assert loop.send_and_wait("t5", "tester", "please test") == "RESULT: FAIL"
    assert found_when_sent == [False]
    assert loop.api.sent == [("t5", "please test")]


# State


def fill(loop: Any) -> dict[str, object]:
    values: dict[str, object] = {
        "session_name": "cao-7",
        "terminal_ids": {role: f"id-{role}" for role in ROLES},
        "current_round": 3,
        "current_phase": "tester",
        "final_status": "RUNNING",
        "feedback": "it failed",
        "analyst_feedback": "more detail",
        "programmer_feedback": "less code",
        "programmer_context_for_retry": "- Files changed: foo.py\n- Behavior implemented: bar",
        "outputs": {
            "analyst": "a",
            "analyst_review": "ar",
            "programmer": "p",
            "programmer_review": "pr",
            "tester": "t",
        },
    }
    for name, value in values.items():
        setattr(loop, name, value)
    return values


def forget(loop: Any) -> None:
    for name, value in {
        "session_name": "",
        "terminal_ids": {},
        "current_round": 1,
        "current_phase": "analyst",
        "final_status": "",
        "feedback": "",
        "analyst_feedback": "",
        "programmer_feedback": "",
        "programmer_context_for_retry": "",
        "outputs": {},
    }.items():
        setattr(loop, name, value)


def state_file(loop: Any, **changes: object) -> None:
    fill(loop)
    loop.save_state()
    path = Path(loop.STATE_FILE)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    forget(loop)


@pytest.mark.scenario("CYC-14")
def test_a_saved_state_comes_back_whole(loop: Any):
    values = fill(loop)
    loop.save_state()
    forget(loop)
    assert loop.load_state() is True
    assert {name: getattr(loop, name) for name in values} == values


@pytest.mark.scenario("CYC-14")
@pytest.mark.parametrize("status", ["RUNNING", "PASS", "FAIL"])
def test_the_final_status_comes_back(loop: Any, status: str):
    loop.final_status = status
    loop.save_state()
    forget(loop)
    loop.load_state()
    assert loop.final_status == status


@pytest.mark.scenario("CYC-14")
def test_server_provider_and_work_dir_come_back(loop: Any, tmp_path: Path):
    for name, value in {"API": "http://other:1", "PROVIDER": "kimi_cli", "WD": str(tmp_path / "repo")}.items():
        before = getattr(loop, name)
        setattr(loop, name, value)
        loop.save_state()
        setattr(loop, name, before)
        loop.load_state()
        assert getattr(loop, name) == value


@pytest.mark.parametrize("text", ["None yet.", " None yet.\n"])
def test_none_yet_means_no_feedback(loop: Any, text: str):
    state_file(loop, feedback=text, analyst_feedback=text, programmer_feedback=text)
    loop.load_state()
    assert (loop.feedback, loop.analyst_feedback, loop.programmer_feedback) == ("", "", "")


@pytest.mark.scenario("CYC-14")
def test_the_state_file_has_the_fields_of_the_shell_script(loop: Any):
    fill(loop)
    loop.save_state()
    state = json.loads(Path(loop.STATE_FILE).read_text())
    assert state["version"] == 1
    assert {"updated_at", "api", "provider", "wd", "prompt", "current_round", "current_phase", "final_status"} <= set(
        state
    )
    assert {"session_name", "terminals", "feedback", "analyst_feedback", "programmer_feedback", "outputs"} <= set(state)
    assert set(state["terminals"]) == set(ROLES)


@pytest.mark.scenario("CYC-15")
@pytest.mark.scenario("PRD-29")
@pytest.mark.parametrize("round_", ["three", None, -1, 0, 2.5, [], True])
def test_a_round_that_is_no_number_becomes_1(loop: Any, round_: object):
    state_file(loop, current_round=round_)
    loop.load_state()
    assert loop.current_round == 1


@pytest.mark.scenario("CYC-16")
@pytest.mark.scenario("PRD-30")
@pytest.mark.parametrize("phase", ["lunch", None, 7, ""])
def test_a_phase_that_is_none_becomes_the_analysts(loop: Any, phase: object):
    state_file(loop, current_phase=phase)
    loop.load_state()
    assert loop.current_phase == "analyst"


@pytest.mark.scenario("PRD-27")
def test_terminals_are_saved_with_their_own_providers(loop: Any):
    loop.AGENT_CONFIG = {
        role: {"provider": provider, "profile": role}
        for role, provider in zip(ROLES, ("codex", "claude_code", "codex", "kimi_cli", "claude_code"), strict=True)
    }
    fill(loop)
    loop.save_state()
    saved = json.loads(Path(loop.STATE_FILE).read_text())["terminals"]
    assert saved["peer_programmer"] == {"id": "id-peer_programmer", "provider": "kimi_cli"}
    forget(loop)
    loop.AGENT_CONFIG = {role: {"provider": "codex", "profile": role} for role in ROLES}
    loop.load_state()
    loop.save_state()
    assert json.loads(Path(loop.STATE_FILE).read_text())["terminals"] == saved


@pytest.mark.scenario("PRD-28")
def test_a_terminal_in_the_old_format_has_the_top_level_provider(loop: Any):
    state_file(loop, provider="kimi_cli", terminals=dict.fromkeys(ROLES, "da33cf00"))
    loop.load_state()
    assert loop.terminal_ids["analyst"] == "da33cf00"
    loop.save_state()
    saved = json.loads(Path(loop.STATE_FILE).read_text())["terminals"]
    assert saved["analyst"] == {"id": "da33cf00", "provider": "kimi_cli"}


@pytest.mark.scenario("RTY-04")
def test_the_retry_context_survives_saving_and_loading(loop: Any):
    state_file(loop)
    loop.load_state()
    assert loop.programmer_context_for_retry == "- Files changed: foo.py\n- Behavior implemented: bar"


@pytest.mark.scenario("RTY-05")
def test_a_state_without_retry_context_has_an_empty_one(loop: Any):
    state_file(loop)
    path = Path(loop.STATE_FILE)
    state = json.loads(path.read_text())
    del state["programmer_context_for_retry"]
    path.write_text(json.dumps(state))
    loop.programmer_context_for_retry = "left over"
    loop.load_state()
    assert loop.programmer_context_for_retry == ""


def test_no_state_file_is_no_state(loop: Any):
    assert loop.load_state() is False


def test_a_damaged_state_file_is_kept_aside_and_not_overwritten(loop: Any):
    path = Path(loop.STATE_FILE)
    path.parent.mkdir(parents=True)
    path.write_text('{"current_round": 4, "outp')
    assert loop.load_state() is False
    loop.save_state()
    (kept,) = path.parent.glob("*.damaged-*")
    assert kept.read_text() == '{"current_round": 4, "outp'


@pytest.mark.scenario("CYC-25")
@pytest.mark.scenario("CYC-26")
@pytest.mark.scenario("CYC-27")
@pytest.mark.parametrize(
    ("status", "resumes"), [("RUNNING", True), ("PASS", False), ("FAIL", False), ("BLOCKED", False)]
)
def test_only_a_running_state_is_resumed_by_itself(loop: Any, status: str, resumes: bool):
    state_file(loop, final_status=status)
    assert loop.should_auto_resume(loop.STATE_FILE) is resumes


# A FAIL


@pytest.mark.scenario("RTY-01")
def test_a_fail_keeps_what_the_programmer_changed(loop: Any):
    loop.outputs = {
        "analyst": "a",
        "analyst_review": "ar",
        "programmer": GOOD_PROGRAM,
        "programmer_review": "r",
        "tester": FAIL,
    }
    loop.handle_tester_fail()
    assert loop.programmer_context_for_retry == loop.condense_programmer_for_tester(GOOD_PROGRAM)
    assert loop.programmer_context_for_retry == "- Files changed: those in the script\n- Behavior implemented: as asked"
    assert loop.outputs == {
        "analyst": "a",
        "analyst_review": "ar",
        "programmer": "",
        "programmer_review": "",
        "tester": "",
    }
    assert (loop.current_round, loop.current_phase) == (2, loop.PHASE_PROGRAMMER)
    assert "expected 2, observed 3" in loop.feedback


@pytest.mark.scenario("RTY-03")
def test_a_fail_without_programmer_output_leaves_an_empty_context(loop: Any):
    loop.programmer_context_for_retry = "left over"
    loop.outputs = {**dict.fromkeys(loop.outputs, ""), "tester": FAIL}
    loop.handle_tester_fail()
    assert loop.programmer_context_for_retry == ""


# Terminals


IDS = {
    "analyst": "id-system_analyst",
    "peer_analyst": "id-peer_system_analyst",
    "programmer": "id-programmer",
    "peer_programmer": "id-peer_programmer",
    "tester": "id-tester",
}


@pytest.mark.scenario("CYC-23")
def test_a_new_run_has_five_terminals(loop: Any):
    loop.api = Host()
    loop.init_new_run()
    profiles = [profile for profile, _ in loop.api.created]
    assert profiles[0] == "system_analyst"
    assert sorted(profiles) == sorted(
        ["system_analyst", "peer_system_analyst", "programmer", "peer_programmer", "tester"]
    )
    assert loop.terminal_ids == IDS
    assert loop.session_name == "cao-1"
    saved = json.loads(Path(loop.STATE_FILE).read_text())
    assert {role: terminal["id"] for role, terminal in saved["terminals"].items()} == IDS
    assert saved["session_name"] == "cao-1"


@pytest.mark.scenario("PRD-09")
def test_each_terminal_has_the_provider_and_profile_of_its_role(loop: Any):
    loop.api = Host()
    loop.AGENT_CONFIG = {
        role: {"provider": provider, "profile": f"my_{role}"}
        for role, provider in zip(ROLES, ("codex", "claude_code", "codex", "kimi_cli", "claude_code"), strict=True)
    }
    loop.init_new_run()
    assert set(loop.api.created) == {
        ("my_analyst", "codex"),
        ("my_peer_analyst", "claude_code"),
        ("my_programmer", "codex"),
        ("my_peer_programmer", "kimi_cli"),
        ("my_tester", "claude_code"),
    }
    assert loop.terminal_ids == {role: f"id-my_{role}" for role in ROLES}
    saved = json.loads(Path(loop.STATE_FILE).read_text())["terminals"]
    assert saved["peer_programmer"] == {"id": "id-my_peer_programmer", "provider": "kimi_cli"}
    assert saved["tester"] == {"id": "id-my_tester", "provider": "claude_code"}


class NumberedHost(Host):
    """Gives the terminal ids the spec's examples use."""

    ids: ClassVar = {"system_analyst": "da33cf00", "peer_system_analyst": "fae0481d"}

    def create_terminal(self, session_name: str, agent_profile: str, provider: str) -> dict[str, str]:
        made = super().create_terminal(session_name, agent_profile, provider)
        return {**made, "id": self.ids.get(agent_profile, made["id"])}


@pytest.mark.scenario("PRD-16")
@pytest.mark.scenario("PRD-17")
def test_terminals_are_renamed_after_their_role(loop: Any):
    loop.api = NumberedHost()
    loop.init_new_run()
    assert sorted(loop.api.sent) == sorted(
        [
            ("da33cf00", "/rename analyst-da33cf00"),
            ("fae0481d", "/rename peer_analyst-fae0481d"),
            ("id-programmer", "/rename programmer-id-programmer"),
            ("id-peer_programmer", "/rename peer_programmer-id-peer_programmer"),
            ("id-tester", "/rename tester-id-tester"),
        ]
    )


# Also those that are not ours: of the caller's own host, or of its HTTP library.
ERRORS = [HostError("no"), RuntimeError("no"), OSError("no"), httpx.ConnectError("no"), httpx.InvalidURL("no")]


@pytest.mark.scenario("PRD-18")
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_rename_that_fails_is_a_warning(loop: Any, capsys: pytest.CaptureFixture[str], error: Exception):
    loop.api = Host(error=error)
    loop.api.refuses_input = True
    loop.init_new_run()
    assert loop.terminal_ids == IDS
    assert loop.api.exited == []
    said = capsys.readouterr().err
    assert [role for role in ROLES if f" {role}: renaming its terminal failed" in said] == list(ROLES)


@pytest.mark.scenario("PRD-18")
def test_a_rename_is_waited_for_5_seconds_at_most():
    host, notes, clock = Host("processing"), list[Event](), Clock()
    agent = Agent(AgentName("analyst"), "codex", "system_analyst")
    AgentTerminals(plain_host(host), notes.append, clock.now, clock.pause).open(RunId("r"), [agent], Ledger())
    assert 5.0 <= clock.at < 5.5
    assert [event.text for event in notes if isinstance(event, Noted)] == [
        "analyst: renaming its terminal failed (not idle within 5 s); going on"
    ]
    assert host.exited == []


@pytest.mark.scenario("PRD-18")
def test_a_rename_ends_with_an_idle_terminal():
    host, notes, clock = Host("processing"), list[Event](), Clock()
    clock.at_pause = lambda: setattr(host, "status", "idle") if clock.at > 4 else None
    agent = Agent(AgentName("analyst"), "codex", "system_analyst")
    AgentTerminals(plain_host(host), notes.append, clock.now, clock.pause).open(RunId("r"), [agent], Ledger())
    assert 4.0 < clock.at < 5.0
    assert not [event for event in notes if isinstance(event, Noted)]


class Clock:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.at = 0.0
        self.at_pause: Callable[[], object] = lambda: None

    def now(self) -> float:
        return self.at

    def pause(self, seconds: float) -> None:
        self.at += seconds
        self.at_pause()


@pytest.mark.scenario("PRD-19")
@pytest.mark.parametrize("broken", ["programmer", "tester"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_terminals_created_before_a_failure_are_ended(
    loop: Any, capsys: pytest.CaptureFixture[str], broken: str, error: Exception
):
    loop.api = Host(broken=broken, error=error)
    with pytest.raises(SystemExit) as exit_:
        loop.init_new_run()
    assert exit_.value.code == 1
    assert "no" in capsys.readouterr().err
    assert {"id-system_analyst", "id-peer_system_analyst"} <= set(loop.api.exited)
    assert sorted(loop.api.exited) == sorted(f"id-{profile}" for profile, _ in loop.api.created)


@pytest.mark.scenario("CYC-24")
@pytest.mark.scenario("PRD-20")
@pytest.mark.parametrize("role", ROLES)
def test_a_terminal_that_cannot_be_reached_stops_a_resume(loop: Any, capsys: pytest.CaptureFixture[str], role: str):
    fill(loop)
    loop.api = Host()
    loop.api.gone = {f"id-{role}"}
    with pytest.raises(SystemExit) as exit_:
        loop.verify_resume_terminals()
    assert exit_.value.code == 1
    said = capsys.readouterr().err
    assert "ERROR: cannot resume" in said
    assert f" {role} (id-{role})" in said


@pytest.mark.scenario("CYC-24")
@pytest.mark.scenario("PRD-20")
def test_terminals_that_answer_let_a_resume_go_on(loop: Any):
    fill(loop)
    loop.api = Host()
    assert loop.verify_resume_terminals() is None


@pytest.mark.scenario("PRD-21")
def test_another_provider_than_configured_is_a_warning_at_resume(loop: Any, capsys: pytest.CaptureFixture[str]):
    state_file(loop)
    loop.load_state()
    loop.api = Host()
    loop.AGENT_CONFIG["analyst"]["provider"] = "claude_code"
    loop.verify_resume_terminals()
    (warning,) = capsys.readouterr().err.splitlines()
    assert " analyst: terminal id-analyst runs codex, the configuration says claude_code" in warning


@pytest.mark.scenario("CYC-22")
def test_cleanup_exits_all_five_terminals_when_enabled(loop: Any):
    fill(loop)
    loop.api, loop.CLEANUP_ON_EXIT = Host(), True
    loop.cleanup()
    assert sorted(loop.api.exited) == sorted(f"id-{role}" for role in ROLES)


@pytest.mark.scenario("CYC-22")
def test_cleanup_leaves_the_terminals_alone_by_default(loop: Any):
    fill(loop)
    loop.api = Host()
    loop.cleanup()
    assert loop.api.exited == []


# After a PASS


def test_a_commit_that_is_not_asked_for_is_none(loop: Any, tmp_path: Path):
    """A unit test starts no process: git is not called."""
    loop.POST_GIT_COMMIT = False
    assert loop.post_git_commit(tmp_path) is True


# Names


def test_the_host_is_readable_from_the_start(loop: Any, tmp_path: Path):
    assert isinstance(loop.api, loop.ApiClient)
    assert (loop.api.base_url, loop.api.working_directory) == ("http://localhost:9889", str(tmp_path))
    assert loop.api is loop.api
    loop.API = "http://other:1/"
    assert loop.api.base_url == "http://other:1"
    fake = Host()
    loop.api = fake
    assert loop.api is fake
    loop.api = None
    assert isinstance(loop.api, loop.ApiClient)


def test_every_name_of_the_spec_is_there(loop: Any):
    functions = """load_config main init_new_run should_auto_resume verify_resume_terminals save_state load_state cleanup
        response_path_for ensure_response_dir clear_stale_response response_file_instruction wait_for_response_file
        send_and_wait is_review_approved extract_review_notes extract_test_evidence condense_analyst_for_programmer
        condense_programmer_for_tester explore_block_for build_analyst_prompt build_analyst_review_prompt
        build_programmer_prompt build_programmer_review_prompt build_tester_prompt handle_tester_fail
        detect_active_change post_openspec_archive post_git_commit run_post_processing notify log ApiClient"""
    assert [name for name in functions.split() if not callable(getattr(loop, name))] == []
    attributes = """api AGENT_CONFIG RESPONSE_DIR RESPONSE_FILES EXPLORE_SUMMARY SCENARIO_TEST PHASE_ANALYST
        PHASE_PROGRAMMER PHASE_TESTER PHASE_DONE session_name terminal_ids current_round current_phase final_status
        feedback analyst_feedback programmer_feedback programmer_context_for_retry outputs API PROVIDER WD PROMPT
        PROMPT_FILE MAX_ROUNDS POLL_SECONDS MAX_REVIEW_CYCLES PROJECT_TEST_CMD RESUME STATE_FILE NTFY_TOPIC"""
    for name in attributes.split():
        before = getattr(loop, name)
        setattr(loop, name, "assigned")
        assert getattr(loop, name) == "assigned"
        setattr(loop, name, before)
