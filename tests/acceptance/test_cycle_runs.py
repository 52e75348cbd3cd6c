"""Whole runs of the cycle, as a person meets them: verdicts, rounds, where it starts, how it is resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from logos import testing
from logos.adapters.hosts.cao import ApiClient
from logos.adapters.store.mirror import discard
from logos.domain.events import Noted, Recorded, RunResumed, TurnAnswered, TurnAsked
from logos.domain.ledger import Ledger
from logos.domain.turns import Outcome
from logos.errors import (
    AlreadyPassed,
    Busy,
    HostUnreachable,
    Interrupted,
    PromptError,
    RunPaused,
    StateError,
    TerminalGone,
    TerminalNotCreated,
    UsageError,
)
from logos.flows.cycle.flow import CycleState
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, GOOD_PROGRAM, PASS, REVISE, ScriptedAgents
from logos.testing.cao_server import FakeCao
from tests.support.isolation import bare_env
from tests.support.sandbox import PROMPT, Sandbox
from tests.support.waiting import wait_for, wait_for_exit

ROOT = Path(__file__).parents[2]
ONE_CYCLE: dict[str, Any] = {"MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1"}
NO_UPSTREAM = "There is no upstream output: this run started at the"


def client_of(cao: FakeCao, shop: Sandbox) -> ApiClient:
    """For agents of a server in this process, which read at once."""
    return ApiClient(cao.url, str(shop.wd), settle_seconds=0)


class StopAfter:
    """A watcher that ends the driver at an event, as Ctrl-C would."""

    def __init__(self, kind: str, count: int = 1) -> None:
        self.kind, self.left = kind, count

    def __call__(self, record: Recorded, state: CycleState, ledger: Ledger) -> None:
        del state, ledger
        self.left -= record.event.kind == self.kind
        if self.left == 0:
            self.left = -1
            raise Interrupted(signal.SIGINT)


# Verdicts


@pytest.mark.scenario("CYC-17")
@pytest.mark.scenario("RTY-02")
def test_a_pass_ends_the_run_with_code_0(shop: Sandbox):
    ended = shop.run()
    assert (ended.outcome, ended.exit_code) == (Outcome.PASSED, 0)
    assert shop.state["final_status"] == "PASS"
    assert shop.state["programmer_context_for_retry"] == ""


@pytest.mark.scenario("CYC-18")
def test_a_fail_starts_the_next_round_at_the_programmer_with_the_evidence(shop: Sandbox):
    agents = shop.hire(tester=[FAIL, PASS])
    seen: list[CycleState] = []
    ended = shop.run(watchers=[lambda _record, state, _ledger: seen.append(state)], **ONE_CYCLE)

    assert ended.exit_code == 0
    after_fail = next(state for state in seen if state.round == 2)
    assert after_fail.phase == "programmer"
    assert dict(after_fail.outputs) == {
        "analyst": GOOD_ANALYSIS,
        "analyst_review": APPROVED,
        "programmer": "",
        "programmer_review": "",
        "tester": "",
    }
    assert "expected 2, observed 3" in after_fail.feedback
    assert "Test failure feedback:\nRESULT: FAIL" in agents.prompts("programmer")[1]
    assert [turn for turn in shop.asked if turn.startswith("r2.")] == [
        "r2.programmer.c1",
        "r2.peer_programmer.c1",
        "r2.tester.c1",
    ]


@pytest.mark.scenario("CYC-19")
def test_no_pass_in_any_round_ends_with_code_1(shop: Sandbox):
    shop.hire(tester=[FAIL])
    ended = shop.run(MAX_ROUNDS="3", **ONE_CYCLE)
    assert (ended.outcome, ended.exit_code, ended.reason) == (Outcome.FAILED, 1, "no PASS in 3 rounds")
    assert shop.state["final_status"] == "FAIL"
    assert shop.state["current_round"] == 3


def test_reviews_go_on_until_the_limit_and_then_the_objections_are_handed_on(shop: Sandbox):
    agents = shop.hire(analyst_review=[REVISE], programmer_review=[REVISE])
    assert shop.run().exit_code == 0
    assert len(agents.prompts("analyst")) == 3
    objection = "the design does not say what happens with an empty name"
    assert objection in agents.prompts("analyst")[1]
    assert objection in agents.prompts("programmer")[0].split("Unresolved objections")[1]
    assert objection in agents.prompts("tester")[0]


def test_reviews_that_never_approve_block_when_told_to(shop: Sandbox):
    shop.hire(analyst_review=[REVISE])
    ended = shop.run(ON_REVIEW_EXHAUSTED="block")
    assert (ended.outcome, ended.exit_code) == (Outcome.BLOCKED, 3)
    assert "peer_analyst" in ended.reason
    assert shop.state["final_status"] == "BLOCKED"


# Lying agents


@pytest.mark.parametrize(
    ("said", "asked_again"),
    [
        pytest.param("RESULT: PASS\nRESULT: FAIL\n", False, id="both verdicts"),
        pytest.param("RESULT: FAIL\nlater: \nRESULT: PASS or RESULT: FAIL\n", False, id="fail and the format line"),
        pytest.param("RESULT: PASS|FAIL\n", True, id="the format line echoed"),
        pytest.param("RESULT: PASS or RESULT: FAIL\nEVIDENCE:\nnone", True, id="the long format line echoed"),
        pytest.param("Everything works, I would say PASS.", True, id="no verdict"),
        pytest.param("> RESULT: PASS\n", True, id="somebody else's verdict"),
    ],
)
def test_a_tester_that_gives_no_clean_pass_ends_in_fail(shop: Sandbox, said: str, asked_again: bool):
    agents = shop.hire(tester=[said])
    ended = shop.run(MAX_ROUNDS="1", **ONE_CYCLE)
    assert ended.outcome is Outcome.FAILED
    assert len(agents.prompts("tester")) == (2 if asked_again else 1)


def test_a_tester_asked_again_may_still_give_a_verdict(shop: Sandbox):
    agents = shop.hire(tester=["It is fine.", PASS])
    assert shop.run(**ONE_CYCLE).outcome is Outcome.PASSED
    assert "no clear verdict" in agents.prompts("tester")[1]


def test_an_approval_without_evidence_is_not_one(shop: Sandbox):
    agents = shop.hire(analyst_review=["REVIEW_RESULT: APPROVED\nREVIEW_NOTES:\n- fine\n"])
    shop.run()
    assert len(agents.prompts("analyst")) == 3


class Liar(ScriptedAgents):
    """Writes something that is no response first, and the response only when reminded."""

    first = ""

    def send_input(self, terminal_id: str, message: str) -> None:
        if "test_result.md" in message and "not complete until" not in message:
            self.sent.append((terminal_id, message))
            (self.folder / "test_result.md").write_text(self.first)
            return
        super().send_input(terminal_id, message)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param("[LOGOS: replace this line with your complete final response]\n", id="the placeholder"),
        pytest.param("", id="an empty file"),
        pytest.param(" \n\n", id="blank lines"),
    ],
)
def test_a_file_without_a_response_is_not_taken(shop: Sandbox, first: str):
    liar = Liar(shop.wd / ".tmp" / "agent-responses", testing.script())
    liar.first = first
    assert shop.run(liar, START_AGENT="tester").outcome is Outcome.PASSED
    answers = [event.text for event in shop.all_events() if isinstance(event, TurnAnswered)]
    assert answers == [PASS]
    assert any(isinstance(event, Noted) and event.topic == "reminded" for event in shop.all_events())


class Mute(ScriptedAgents):
    """Never writes a response file."""

    def send_input(self, terminal_id: str, message: str) -> None:
        self.sent.append((terminal_id, message))


def test_a_stale_pass_from_another_run_is_never_taken(shop: Sandbox):
    responses = shop.wd / ".tmp" / "agent-responses"
    responses.mkdir(parents=True)
    (responses / "test_result.md").write_text(PASS)
    with pytest.raises(RunPaused, match="tester"):
        shop.run(Mute(responses, testing.script()), START_AGENT="tester")
    assert shop.state["final_status"] == "RUNNING"


def test_a_pass_that_the_test_command_does_not_confirm_is_a_fail(shop: Sandbox):
    agents = shop.hire(tester=[PASS])
    ended = shop.run(VERIFY_PASS="1", PROJECT_TEST_CMD="echo 3 of 4 tests broken; exit 7", MAX_ROUNDS="2", **ONE_CYCLE)
    assert ended.outcome is Outcome.FAILED
    repair = agents.prompts("programmer")[1]
    assert "exited 7" in repair
    assert "3 of 4 tests broken" in repair


def test_a_pass_that_the_test_command_confirms_is_a_pass(shop: Sandbox):
    ended = shop.run(VERIFY_PASS="1", PROJECT_TEST_CMD="test -d .", **ONE_CYCLE)
    assert ended.outcome is Outcome.PASSED
    assert "`test -d .` passes in a clean room" in ended.reason


# Where a run starts


@pytest.mark.parametrize(
    ("start", "first"),
    [
        pytest.param("analyst", "r1.analyst.c1"),
        pytest.param("peer_analyst", "r1.peer_analyst.c1"),
        pytest.param("programmer", "r1.programmer.c1"),
        pytest.param("peer_programmer", "r1.peer_programmer.c1"),
        pytest.param("tester", "r1.tester.c1"),
    ],
)
@pytest.mark.scenario("PRD-10")
@pytest.mark.scenario("PRD-11")
@pytest.mark.scenario("PRD-12")
@pytest.mark.scenario("PRD-13")
def test_a_fresh_run_starts_at_the_chosen_role(shop: Sandbox, start: str, first: str):
    assert shop.run(START_AGENT=start).outcome is Outcome.PASSED
    assert shop.asked[0] == first


@pytest.mark.parametrize(
    ("start", "answer"), [("peer_analyst", "analyst_review"), ("peer_programmer", "programmer_review")]
)
@pytest.mark.scenario("PRD-14")
@pytest.mark.scenario("PRD-15")
def test_a_reviewer_that_starts_is_told_that_there_is_nothing_upstream(shop: Sandbox, start: str, answer: str):
    shop.run(START_AGENT=start)
    assert f"{NO_UPSTREAM} {start.replace('_', ' ')}" in shop.agents.prompts(answer)[0]
    author = start.removeprefix("peer_")
    # What was never written cannot be approved: its author is asked next.
    assert shop.asked[:2] == [f"r1.{start}.c1", f"r1.{author}.c2"]


# Resuming


def interrupt(shop: Sandbox, kind: str = "turn_sent", count: int = 1, **environment: Any) -> None:
    with pytest.raises(Interrupted):
        shop.run(watchers=[StopAfter(kind, count)], **environment)


@pytest.mark.scenario("CYC-25")
def test_a_running_state_is_resumed_by_itself(shop: Sandbox):
    interrupt(shop, "turn_answered", 3)
    assert shop.state["final_status"] == "RUNNING"
    assert shop.run(prompt="").outcome is Outcome.PASSED
    assert len(shop.logs()) == 1
    assert sum(isinstance(event, RunResumed) for event in shop.all_events()) == 1
    assert any("resuming run" in line for line in shop.told)
    assert len(set(shop.asked)) == len(shop.asked)


@pytest.mark.scenario("CYC-25")
def test_a_running_state_whose_terminal_is_gone_is_not_resumed(shop: Sandbox):
    interrupt(shop, "turn_answered", 3)
    shop.agents.exit_terminal(shop.state["terminals"]["tester"]["id"])
    sent = len(shop.agents.sent)
    with pytest.raises(StateError, match=r"not reachable: tester"):
        shop.run(prompt="")
    assert len(shop.agents.sent) == sent


@pytest.mark.parametrize("status", ["PASS", "FAIL"])
@pytest.mark.scenario("CYC-26")
@pytest.mark.scenario("CYC-27")
def test_a_finished_state_is_not_resumed(shop: Sandbox, status: str):
    shop.hire(tester=[PASS if status == "PASS" else FAIL])
    shop.run(MAX_ROUNDS="1", **ONE_CYCLE)
    assert shop.state["final_status"] == status
    shop.hire()
    shop.run(**ONE_CYCLE)
    assert len(shop.logs()) == 2
    assert shop.events(TurnAsked, 1)[0].turn == "r1.analyst.c1"


@pytest.mark.scenario("CYC-28")
def test_without_a_state_file_a_new_run_starts(shop: Sandbox):
    interrupt(shop)
    shop.state_path.unlink()
    assert shop.run().outcome is Outcome.PASSED
    assert len(shop.logs()) == 2


@pytest.mark.scenario("CYC-20")
def test_a_resumed_programmer_phase_without_analysis_falls_back_to_the_analyst(shop: Sandbox):
    interrupt(shop)
    shop.edit_state({"current_phase": "programmer"})
    assert shop.run(from_state=True).outcome is Outcome.PASSED
    assert shop.asked[0] == "r1.analyst.c1"


def test_a_resumed_tester_phase_without_a_program_falls_back_to_the_programmer(shop: Sandbox):
    interrupt(shop)
    outputs = {"analyst": GOOD_ANALYSIS, "analyst_review": APPROVED}
    shop.edit_state({"current_phase": "tester", "outputs": outputs})
    assert shop.run(from_state=True).outcome is Outcome.PASSED
    assert shop.asked[0] == "r1.programmer.c1"


@pytest.mark.scenario("PRD-22")
def test_a_resume_goes_on_where_the_state_says_whatever_the_start_agent(shop: Sandbox):
    interrupt(shop)
    outputs = {"analyst": GOOD_ANALYSIS, "programmer": GOOD_PROGRAM}
    shop.edit_state({"current_phase": "tester", "current_round": 2, "outputs": outputs})
    assert shop.run(bare=True, RESUME="1", START_AGENT="analyst").outcome is Outcome.PASSED
    assert shop.asked == ["r2.tester.c1"]


def test_an_edited_state_file_is_believed_where_a_person_says_so_and_a_new_log_begins(shop: Sandbox):
    interrupt(shop, "turn_answered", 2)
    shop.edit_state({"current_phase": "analyst", "outputs": {"analyst": "my own analysis"}}, mark=True)
    assert shop.run(prompt="", from_state=True).outcome is Outcome.PASSED
    assert len(shop.logs()) == 2
    assert any("edited" in line for line in shop.told)
    # An author whose work is there and unreviewed is not asked again.
    assert shop.asked[0] == "r1.peer_analyst.c1"


def test_a_state_file_of_an_older_tool_starts_a_run(shop: Sandbox):
    interrupt(shop)
    ids = {role: terminal["id"] for role, terminal in shop.state["terminals"].items()}
    shop.edit_state({"terminals": ids, "current_phase": "analyst"})
    assert shop.run(prompt="", from_state=True).outcome is Outcome.PASSED


@pytest.mark.scenario("CYC-28")
def test_the_first_run_in_a_work_dir_is_a_new_one(shop: Sandbox):
    assert shop.run().outcome is Outcome.PASSED
    assert len(shop.logs()) == 1
    assert not any("resuming" in line for line in shop.told)
    assert shop.asked[0] == "r1.analyst.c1"


def test_resume_0_starts_anew_beside_an_unfinished_run(shop: Sandbox):
    interrupt(shop)
    assert shop.run(RESUME="0").outcome is Outcome.PASSED
    assert len(shop.logs()) == 2


def test_resume_1_without_a_state_file_finds_the_run_in_the_log(shop: Sandbox):
    interrupt(shop)
    shop.state_path.unlink()
    assert shop.run(RESUME="1", prompt="").outcome is Outcome.PASSED
    assert len(shop.logs()) == 1


@pytest.mark.parametrize("mark", [True, False], ids=["of this log", "of an older tool"])
def test_resume_1_on_a_state_that_says_pass_asks_nobody(shop: Sandbox, mark: bool):
    shop.run(**ONE_CYCLE)
    shop.edit_state({}, mark=mark)
    before, sent = shop.all_events(), len(shop.agents.sent)
    with pytest.raises(AlreadyPassed, match="says PASS") as passed:
        shop.run(bare=True, RESUME="1")
    assert passed.value.exit_code == 0
    assert shop.all_events() == before
    assert len(shop.agents.sent) == sent


def test_resume_1_with_nothing_to_resume_says_so(shop: Sandbox):
    with pytest.raises(StateError, match="no unfinished run"):
        shop.run(RESUME="1")


def test_another_prompt_than_the_unfinished_runs_stops_and_names_the_flags(shop: Sandbox):
    interrupt(shop)
    other = PROMPT.replace("greeting", "farewell")
    with pytest.raises(UsageError, match=r"--resume.*--fresh"):
        shop.run(prompt=other)
    assert shop.run(prompt=other, bare=True).outcome is Outcome.PASSED
    assert any("differs" in line for line in shop.told)
    assert "A greeting is missing." in shop.agents.prompts("analyst")[0]


def test_a_resumed_run_may_be_given_more_rounds(shop: Sandbox):
    shop.hire(tester=[FAIL, FAIL, PASS])
    interrupt(shop, "turn_sent", 6, MAX_ROUNDS="2", **ONE_CYCLE)
    assert shop.run(MAX_ROUNDS="5", **ONE_CYCLE).outcome is Outcome.PASSED


@pytest.mark.parametrize("damage", ['{"version": 1, "current_ro', "", "[1, 2]", "\x00\x00"])
def test_a_damaged_state_file_is_kept_and_the_log_restores_the_run(shop: Sandbox, damage: str):
    interrupt(shop, "turn_answered", 3)
    shop.state_path.write_text(damage)
    assert shop.run().outcome is Outcome.PASSED
    assert len(shop.logs()) == 1
    (kept,) = shop.state_path.parent.glob("*.damaged-*")
    assert kept.read_text() == damage
    assert any(kept.name in line for line in shop.told)


def test_a_damaged_state_file_without_a_log_stops_and_is_kept(shop: Sandbox):
    shop.state_path.parent.mkdir()
    shop.state_path.write_text("{")
    with pytest.raises(StateError, match=r"--fresh"):
        shop.run()
    (kept,) = shop.state_path.parent.glob("*.damaged-*")
    assert kept.read_text() == "{"


def test_an_unreadable_tail_of_the_log_is_kept_and_the_run_goes_on_before_it(shop: Sandbox):
    import sqlite3

    interrupt(shop, "turn_answered", 3)
    last = len(shop.all_events())
    db = sqlite3.connect(shop.wd / ".telos" / "logos.db")
    with db:
        db.execute('UPDATE events SET body = \'{"kind": "turn_ans\' WHERE seq = ?', (last,))
    db.close()
    discard(shop.wd / ".telos" / "logos.db")
    assert shop.run().outcome is Outcome.PASSED
    assert list((shop.wd / ".telos").glob("logos.db.damaged-*"))
    assert any("dropped, not in the mirror or unreadable" in line for line in shop.told)


def test_a_log_that_is_no_database_any_more_is_kept_and_the_state_file_is_believed(shop: Sandbox):
    interrupt(shop, "turn_answered", 3)
    (shop.wd / ".telos" / "logos.db").write_bytes(b"this is not a database, " * 100)
    for leftover in (shop.wd / ".telos").glob("logos.db-*"):
        leftover.unlink()
    discard(shop.wd / ".telos" / "logos.db")
    assert shop.run().outcome is Outcome.PASSED
    assert list((shop.wd / ".telos").glob("logos.db.damaged-*"))


def test_a_second_driver_is_refused_and_told_who_is_first(shop: Sandbox):
    errors: list[Exception] = []

    def intrude(record: Recorded, state: CycleState, ledger: Ledger) -> None:
        del state, ledger
        if record.seq == 8:
            with pytest.raises(Busy) as busy:
                shop.run(shop.agents)
            errors.append(busy.value)

    assert shop.run(watchers=[intrude]).outcome is Outcome.PASSED
    assert f"pid {os.getpid()}" in str(errors[0])
    assert len(shop.logs()) == 1


# Ends


@pytest.mark.scenario("CYC-22")
@pytest.mark.parametrize("verdict", [PASS, FAIL], ids=["passed", "failed"])
def test_cleanup_ends_all_five_terminals_of_a_run_that_ends(shop: Sandbox, verdict: str):
    agents = shop.hire(tester=[verdict])
    shop.run(CLEANUP_ON_EXIT="1", MAX_ROUNDS="1", **ONE_CYCLE)
    assert sorted(agents.exited) == sorted(agents.profiles)
    assert len(agents.exited) == 5


@pytest.mark.scenario("CYC-22")
def test_cleanup_ends_the_terminals_and_a_resume_says_that_they_are_gone(shop: Sandbox):
    agents = shop.hire()
    interrupt(shop, CLEANUP_ON_EXIT="1")
    assert len(agents.exited) == 5
    before = len(agents.sent)
    with pytest.raises(StateError, match=r"terminals.*closed"):
        shop.run()
    assert len(agents.sent) == before


def test_the_error_of_a_resume_without_terminals_names_the_way_out(shop: Sandbox):
    interrupt(shop, CLEANUP_ON_EXIT="1")
    with pytest.raises(StateError, match="--recreate"):
        shop.run()


@pytest.mark.scenario("LOG-15")
@pytest.mark.parametrize("cleanup", ["1", ""], ids=["closed", "gone"])
def test_terminals_that_are_gone_are_recreated_and_their_agents_told_what_they_said(shop: Sandbox, cleanup: str):
    """After a reboot, say: the host knows none of the terminals any more."""
    agents = shop.hire(analyst=["ANALYST_SUMMARY:\n- Scope: the word is marmalade\n"])
    interrupt(shop, "turn_answered", 2, CLEANUP_ON_EXIT=cleanup)
    before = dict(shop.state["terminals"])
    if not cleanup:
        for terminal in list(agents.profiles):
            agents.exit_terminal(terminal)
        with pytest.raises(StateError, match=r"not reachable.*--recreate"):
            shop.run()
    asked, sent = shop.asked, len(agents.sent)

    assert shop.run(RECREATE_TERMINALS="1").outcome is Outcome.PASSED

    now = {own["id"] for own in shop.state["terminals"].values()}
    assert now.isdisjoint(own["id"] for own in before.values() if own["id"])
    first = next(prompt for _, prompt in agents.sent[sent:] if prompt.startswith("Turn: "))
    assert first.startswith("Turn: r1.analyst.c2\n")
    assert "marmalade" in first
    assert "refer to your conversation history" not in first
    assert shop.asked[: len(asked)] == asked
    assert len(set(shop.asked)) == len(shop.asked)


@pytest.mark.long
def test_a_host_that_is_away_as_a_whole_is_not_a_lost_terminal(shop: Sandbox):
    interrupt(shop)
    with pytest.raises(HostUnreachable):
        shop.run(ApiClient("http://127.0.0.1:1", str(shop.wd), patience=0), RECREATE_TERMINALS="1")
    assert shop.run(**ONE_CYCLE).outcome is Outcome.PASSED


@pytest.mark.scenario("CYC-22")
def test_nothing_is_ended_without_cleanup(shop: Sandbox):
    shop.run()
    assert shop.agents.exited == []


def test_a_set_up_that_failed_half_way_is_undone_and_can_be_tried_again(shop: Sandbox):
    with FakeCao(shop.wd / ".tmp" / "agent-responses", testing.script()) as cao:
        cao.refuse_profiles = frozenset({"programmer"})
        with pytest.raises(TerminalNotCreated, match="programmer"):
            shop.run(client_of(cao, shop))
        assert cao.agents == {}
        cao.refuse_profiles = frozenset()
        assert shop.run(client_of(cao, shop), **ONE_CYCLE).outcome is Outcome.PASSED
        assert len(cao.agents) == 5
    assert len(shop.logs()) == 1


def test_terminals_without_their_tmux_are_gone(shop: Sandbox):
    with FakeCao(shop.wd / ".tmp" / "agent-responses", testing.script()) as cao:
        with pytest.raises(Interrupted):
            # All terminals are open when the last agent is asked.
            shop.run(client_of(cao, shop), watchers=[StopAfter("turn_sent", 9)])
        cao.kill_tmux()
        with pytest.raises(StateError, match=r"no window any more.*--recreate"):
            shop.run(client_of(cao, shop), prompt="", **ONE_CYCLE)
        again = {**ONE_CYCLE, "RECREATE_TERMINALS": "1"}
        assert shop.run(client_of(cao, shop), prompt="", **again).outcome is Outcome.PASSED
        assert len({terminal for terminal in cao.agents if terminal not in cao.windowless}) == 5


def test_a_turn_whose_tmux_is_killed_does_not_wait_for_its_time_out(shop: Sandbox):
    def kill(record: Any, *_: object) -> None:
        if record.event.kind == "turn_sent":
            cao.kill_tmux()

    gone = pytest.raises(TerminalGone, match="no window any more")
    with FakeCao(shop.wd / ".tmp" / "agent-responses", testing.script(), turn_seconds=0.3) as cao, gone:
        shop.run(client_of(cao, shop), watchers=[kill], **ONE_CYCLE)


@pytest.mark.long
@pytest.mark.parametrize("what", ["status", "input", "output", "working-directory", "profiles"])
def test_one_failure_of_the_server_does_not_end_the_run(shop: Sandbox, what: str):
    def fail(record: Any, *_: object) -> None:
        if record.event.kind == "turn_answered":
            cao.failing = {what: 1}

    with FakeCao(shop.wd / ".tmp" / "agent-responses", testing.script()) as cao:
        cao.failing = {what: 1} if what != "input" else {}
        assert shop.run(client_of(cao, shop), watchers=[fail], **ONE_CYCLE).outcome is Outcome.PASSED


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.scenario("CYC-21")
def test_a_signal_saves_the_state_and_ends_the_process(tmp_path: Path, signum: int, code: int):
    script = {role: [{"say": "x", "delay": 600}] for role in ("analyst", "peer_analyst")}
    (tmp_path / "script.json").write_text(json.dumps(script))
    env = bare_env(WD=str(tmp_path), PROMPT=PROMPT, SCRIPT=str(tmp_path / "script.json"))
    driver = subprocess.Popen([sys.executable, "-m", "tests.driver"], cwd=ROOT, env=env, stderr=subprocess.DEVNULL)
    shop = Sandbox(tmp_path)
    shop.wait_for_event("turn_sent", process=driver)
    noted = (tmp_path / ".telos" / "scripted").glob
    # A supervisor notes itself after the prompt was sent.
    pids = wait_for(lambda: [*noted("*/turn-*/pid")], "an agent at work", process=driver)
    groups = {int(pid.read_text().split()[0]) for pid in pids}
    driver.send_signal(signum)
    assert wait_for_exit(driver) == code
    assert shop.state["final_status"] == "RUNNING"
    assert shop.state["logos"]["seq"] == len(shop.all_events())
    # What has ended and was not waited for yet is not running.
    running = [process for process in psutil.process_iter(["status"]) if process.info["status"] != psutil.STATUS_ZOMBIE]
    assert not [process for process in running if process.pid in groups]


def test_no_prompt_and_nothing_to_resume_is_an_error_before_anything_exists(shop: Sandbox):
    with pytest.raises(PromptError, match="no prompt"):
        shop.run(prompt="")
    assert shop.agents.profiles == {}


@pytest.mark.parametrize("missing", ["*** SCENARIO TEST ***", "*** ORIGINAL EXPLORE SUMMARY ***"])
def test_a_prompt_without_one_of_its_parts_is_an_error_before_anything_exists(shop: Sandbox, missing: str):
    with pytest.raises(PromptError) as error:
        shop.run(prompt=PROMPT.replace(missing, "---"))
    assert missing in str(error.value)
    assert not (shop.wd / ".telos").exists()
