"""The cycle on a real CAO server in tmux, driven by real processes that are really killed."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from logos.domain.events import Noted, RunStarted, Topic, TurnAnswered, TurnAsked, TurnFailed
from logos.testing import APPROVED, GOOD_ANALYSIS, GOOD_PROGRAM, PASS
from tests.live.cao import CaoServer
from tests.live.cycles import ANSWERS, ROLES, cao_sandbox, everybody_does_well
from tests.live.driven import KILLED, DrivenSandbox
from tests.support.sandbox import PROMPT
from tests.support.waiting import wait_for

pytestmark = pytest.mark.long

ROUND_1 = Counter(f"r1.{role}.c1" for role in ROLES)
# Idle without a response file for so many seconds, an agent is reminded.
SOON = {"IDLE_GRACE_SECONDS": "3"}


@pytest.fixture
def shop(cao: CaoServer, tmp_path: Path) -> Iterator[DrivenSandbox]:
    shop = cao_sandbox(cao, tmp_path / "work")
    yield shop
    shop.close()


def test_a_run_killed_in_every_roles_turn_and_between_turns_is_resumed_exactly(cao: CaoServer, shop: DrivenSandbox):
    everybody_does_well(
        cao,
        **{role: [{"say": answers[0], "hold": role}, {"say": answers[-1]}] for role, answers in ANSWERS.items()},
    )
    for role in ROLES:
        driver = shop.start_driver()
        shop.wait_until_sent(f"r1.{role}.c1", driver=driver)
        shop.kill(driver)
        cao.release(role)
    # Between turns: after the second-round programmer's answer, before its reviewer is asked.
    assert shop.drive(DIE_AFTER="turn_answered:2") == KILLED
    assert isinstance(shop.all_events()[-1], TurnAnswered)

    assert shop.drive() == 0

    turns = [f"r1.{role}.c1" for role in ROLES] + [f"r2.{role}.c1" for role in ROLES[2:]]
    assert shop.turns_answered() == turns
    assert cao.turns_asked() == Counter(turns)
    assert len(shop.all_of(RunStarted)) == 1


def test_a_server_restarted_in_mid_run_does_not_end_it(cao: CaoServer, shop: DrivenSandbox):
    everybody_does_well(cao, programmer=[{"say": GOOD_PROGRAM, "hold": "programmer"}])
    driver = shop.start_driver()
    shop.wait_until_sent("r1.programmer.c1", driver=driver)
    cao.restart()
    cao.release("programmer")
    assert driver.wait() == 0
    assert cao.turns_asked() == Counter(shop.asked) == ROUND_1


def test_a_second_driver_is_refused_and_ctrl_c_leaves_a_run_that_can_be_resumed(cao: CaoServer, shop: DrivenSandbox):
    everybody_does_well(cao, analyst=[{"say": GOOD_ANALYSIS, "hold": "analyst"}])
    first = shop.start_driver()
    shop.wait_until_sent("r1.analyst.c1", driver=first)

    assert shop.drive() == 1
    assert f"pid {first.pid}" in shop.said

    first.send_signal(signal.SIGINT)
    assert first.wait() == 130
    assert shop.state["final_status"] == "RUNNING"
    cao.release("analyst")
    assert shop.drive() == 0
    assert cao.turns_asked() == ROUND_1


def test_a_prompt_of_200_kb_arrives_whole(cao: CaoServer, shop: DrivenSandbox):
    everybody_does_well(cao)
    long = PROMPT.replace("missing.", "missing. " + "The quick brown fox. " * 10_000)
    (shop.wd / "prompt.md").write_text(long)
    assert len(long) > 200_000
    assert shop.drive(PROMPT="", PROMPT_FILE=str(shop.wd / "prompt.md")) == 0
    first = next(ask for ask in cao.pending_turns() if ask["turn"] == "r1.analyst.c1")
    assert first["by_file"] is True
    assert first["chars"] > 200_000


def test_an_agent_that_dies_stops_the_run_with_its_name(cao: CaoServer, shop: DrivenSandbox):
    everybody_does_well(cao, analyst=[{"die": True}], peer_analyst=[{"say": APPROVED}])
    assert shop.drive() == 1
    (failure,) = shop.all_of(TurnFailed)
    assert failure.trouble == "died"
    assert re.search(r"analyst \(r1\.analyst\.c1, terminal [0-9a-f]{8}, mock_cli\)", shop.said)
    assert shop.state["final_status"] == "RUNNING"

    # A prompt sent to the dead agent would be run by its shell: at resume it is noticed before.
    pending_turns = len(cao.pending_turns())
    assert shop.drive() == 1
    assert len(cao.pending_turns()) == pending_turns
    assert not list((shop.wd / ".tmp" / "agent-responses").glob("*.md"))


def test_an_agent_that_writes_no_file_is_reminded_and_then_stops_a_strict_run(cao: CaoServer, shop: DrivenSandbox):
    everybody_does_well(cao, tester=[{"no_file": True, "say": "RESULT: PASS"}])
    assert shop.drive(START_AGENT="tester", **SOON) == 1
    assert any(note.topic is Topic.REMINDED for note in shop.all_of(Noted))
    assert "without writing its response file" in shop.said


def test_an_agent_that_writes_no_file_is_read_from_its_screen_when_not_strict(cao: CaoServer, shop: DrivenSandbox):
    everybody_does_well(cao, tester=[{"no_file": True, "say": "RESULT: PASS"}])
    assert shop.drive(START_AGENT="tester", STRICT_FILE_HANDOFF="0", **SOON) == 0
    (answer,) = shop.all_of(TurnAnswered)
    assert (answer.text.strip(), answer.source) == ("RESULT: PASS", "screen")


def test_a_permission_prompt_is_shown_and_answered_only_when_allowed(cao: CaoServer, shop: DrivenSandbox):
    pending_turns = [{"say": PASS, "ask_permission": "Allow the tests to run?"}]
    everybody_does_well(cao, tester=pending_turns)
    driver = shop.start_driver(START_AGENT="tester")
    wait_for(lambda: noted(shop, Topic.PERMISSION_ASKED), "a permission prompt", process=driver)
    (note,) = noted(shop, Topic.PERMISSION_ASKED)
    assert "Allow the tests to run?" in note.text
    driver.send_signal(signal.SIGTERM)
    assert driver.wait() == 143

    # The person comes back and allows it.
    assert shop.drive(AUTO_ACCEPT_PERMISSIONS="1") == 0
    assert len(noted(shop, Topic.PERMISSION_GIVEN)) == 1
    assert len(shop.all_of(TurnAsked)) == 1


def noted(shop: DrivenSandbox, topic: Topic) -> list[Noted]:
    return [note for note in shop.all_of(Noted) if note.topic is topic]
