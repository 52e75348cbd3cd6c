"""The cycle on a real CAO server in tmux, driven by real processes that are really killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.store.sqlite import SqliteLog
from logos.domain.events import Event, Noted, RunStarted, Topic, TurnAnswered, TurnAsked, TurnFailed, TurnSent
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, GOOD_PROGRAM, PASS
from tests.live.cao import CaoServer

ROOT = Path(__file__).parents[2]
PROMPT = "*** ORIGINAL EXPLORE SUMMARY ***\nA greeting is missing.\n*** SCENARIO TEST ***\nRun it.\n"
ROLES = ("analyst", "peer_analyst", "programmer", "peer_programmer", "tester")
KILLED = -signal.SIGKILL


class Shop:
    """One work dir, driven by processes of its own."""

    def __init__(self, cao: CaoServer, wd: Path) -> None:
        self.cao = cao
        self.wd = wd
        self.said = wd / "driver.log"
        self.drivers: list[subprocess.Popen[bytes]] = []

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.wd),
            "API": self.cao.url,
            "PROVIDER": "mock_cli",
            "WD": str(self.wd),
            "PROMPT": PROMPT,
            "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1",
            "IDLE_GRACE_SECONDS": "3",
            **environment,
        }
        with self.said.open("ab") as log:
            driver = subprocess.Popen([sys.executable, "-m", "tests.driver"], cwd=ROOT, env=env, stderr=log)
        self.drivers.append(driver)
        return driver

    def drive(self, **environment: str) -> int:
        return self.start(**environment).wait(90)

    def events(self) -> list[Event]:
        if not (self.wd / ".telos" / "logos.db").exists():
            return []
        log = SqliteLog(self.wd / ".telos" / "logos.db")
        try:
            return [record.event for run in log.runs() for record in log.read(run)]
        finally:
            log.close()

    def answered(self) -> list[str]:
        return [event.turn for event in self.events() if isinstance(event, TurnAnswered)]

    def wait_until_sent(self, turn: str) -> None:
        wait_for(lambda: any(isinstance(event, TurnSent) and event.turn == turn for event in self.events()))

    @property
    def state(self) -> dict[str, Any]:
        return json.loads((self.wd / ".tmp" / "agnostic-3agents-loop-state.json").read_text())

    def turns_asked(self) -> Counter[str]:
        """What the agents themselves say they were asked."""
        return Counter(ask["turn"] for ask in self.cao.pending_turns() if ask["turn"])

    def windows(self) -> int:
        """The tmux windows of this run that still exist."""
        session = self.state["session_name"]
        listed = self.cao.tmux("list-windows", "-a", "-F", "#{session_name}")
        return listed.split().count(session)

    def close(self) -> None:
        for driver in self.drivers:
            if driver.poll() is None:
                driver.kill()
                driver.wait()


def wait_for(condition: Callable[[], bool], within: float = 60) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def shop(cao: CaoServer, tmp_path: Path):
    shop = Shop(cao, tmp_path)
    yield shop
    shop.close()
    if shop.said.exists():
        print(shop.said.read_text())


def everybody_does_well(cao: CaoServer, delay: float = 0.0, **steps: list[dict[str, Any]]) -> None:
    good = {
        "analyst": [{"say": GOOD_ANALYSIS, "delay": delay}],
        "peer_analyst": [{"say": APPROVED, "delay": delay}],
        "programmer": [{"say": GOOD_PROGRAM, "delay": delay}],
        "peer_programmer": [{"say": APPROVED, "delay": delay}],
        "tester": [{"say": PASS, "delay": delay}],
    }
    cao.script(**{**good, **steps})


def test_a_run_passes_at_once_and_cleans_up_after_itself(cao: CaoServer, shop: Shop):
    everybody_does_well(cao)
    assert shop.drive(CLEANUP_ON_EXIT="1") == 0
    assert shop.state["final_status"] == "PASS"
    assert shop.answered() == [f"r1.{role}.c1" for role in ROLES]
    assert shop.turns_asked() == Counter(shop.answered())
    wait_for(lambda: shop.windows() == 0)


def test_a_run_killed_in_every_roles_turn_and_between_turns_is_resumed_exactly(cao: CaoServer, shop: Shop):
    slow = [{"say": FAIL, "delay": 2.0}, {"say": PASS}]
    everybody_does_well(cao, delay=2.0, tester=slow)
    for role in ROLES:
        driver = shop.start()
        shop.wait_until_sent(f"r1.{role}.c1")
        driver.kill()
        assert driver.wait() == KILLED
    # Between turns: after the second-round programmer's answer, before its reviewer is asked.
    wait_for(lambda: driver.poll() is not None)
    assert shop.drive(DIE_AFTER="turn_answered:2") == KILLED
    assert isinstance(shop.events()[-1], TurnAnswered)

    assert shop.drive() == 0

    turns = [f"r1.{role}.c1" for role in ROLES] + [f"r2.{role}.c1" for role in ROLES[2:]]
    assert shop.answered() == turns
    assert shop.turns_asked() == Counter(turns)
    assert sum(isinstance(event, RunStarted) for event in shop.events()) == 1


def test_a_server_restarted_in_mid_run_does_not_end_it(cao: CaoServer, shop: Shop):
    everybody_does_well(cao, programmer=[{"say": GOOD_PROGRAM, "delay": 4.0}])
    driver = shop.start()
    shop.wait_until_sent("r1.programmer.c1")
    cao.restart()
    assert driver.wait(90) == 0
    # A server that was away for long may cost a reminder, and only that.
    notes = [event for event in shop.events() if isinstance(event, Noted) and event.topic is Topic.REMINDED]
    reminded = Counter(str(note.turn) for note in notes)
    assert shop.turns_asked() - reminded == Counter(f"r1.{role}.c1" for role in ROLES)
    assert Counter(event.turn for event in shop.events() if isinstance(event, TurnAsked)).most_common(1)[0][1] == 1


def test_a_second_driver_is_refused_and_ctrl_c_leaves_a_run_that_can_be_resumed(cao: CaoServer, shop: Shop):
    everybody_does_well(cao, analyst=[{"say": GOOD_ANALYSIS, "delay": 5.0}])
    first = shop.start()
    shop.wait_until_sent("r1.analyst.c1")

    assert shop.drive() == 1
    assert f"pid {first.pid}" in shop.said.read_text()

    first.send_signal(signal.SIGINT)
    assert first.wait(20) == 130
    assert shop.state["final_status"] == "RUNNING"
    assert shop.drive() == 0
    assert shop.turns_asked() == Counter(f"r1.{role}.c1" for role in ROLES)


def test_a_prompt_of_200_kb_arrives_whole(cao: CaoServer, shop: Shop):
    everybody_does_well(cao)
    long = PROMPT.replace("missing.", "missing. " + "The quick brown fox. " * 10_000)
    (shop.wd / "prompt.md").write_text(long)
    assert len(long) > 200_000
    assert shop.drive(PROMPT="", PROMPT_FILE=str(shop.wd / "prompt.md")) == 0
    first = next(ask for ask in cao.pending_turns() if ask["turn"] == "r1.analyst.c1")
    assert first["by_file"] is True
    assert first["chars"] > 200_000


def test_an_agent_that_dies_stops_the_run_with_its_name(cao: CaoServer, shop: Shop):
    everybody_does_well(cao, analyst=[{"die": True}], peer_analyst=[{"say": APPROVED}])
    assert shop.drive() == 1
    failure = shop.events()[-2]
    assert isinstance(failure, TurnFailed)
    assert failure.trouble == "died"
    assert re.search(r"analyst \(r1\.analyst\.c1, terminal [0-9a-f]{8}, mock_cli\)", shop.said.read_text())
    assert shop.state["final_status"] == "RUNNING"

    # A prompt sent to the dead agent would be run by its shell: at resume it is noticed before.
    pending_turns = len(cao.pending_turns())
    assert shop.drive() == 1
    assert len(cao.pending_turns()) == pending_turns
    assert not list((shop.wd / ".tmp" / "agent-responses").glob("*.md"))


def test_an_agent_that_writes_no_file_is_reminded_and_then_stops_a_strict_run(cao: CaoServer, shop: Shop):
    everybody_does_well(cao, tester=[{"no_file": True, "say": "RESULT: PASS"}])
    assert shop.drive(START_AGENT="tester") == 1
    assert any(isinstance(event, Noted) and event.topic == "reminded" for event in shop.events())
    assert "without writing its response file" in shop.said.read_text()


def test_an_agent_that_writes_no_file_is_read_from_its_screen_when_not_strict(cao: CaoServer, shop: Shop):
    everybody_does_well(cao, tester=[{"no_file": True, "say": "RESULT: PASS"}])
    assert shop.drive(START_AGENT="tester", STRICT_FILE_HANDOFF="0") == 0
    (answer,) = [event for event in shop.events() if isinstance(event, TurnAnswered)]
    assert (answer.text.strip(), answer.source) == ("RESULT: PASS", "screen")


def test_a_permission_prompt_is_shown_and_answered_only_when_allowed(cao: CaoServer, shop: Shop):
    pending_turns = [{"say": PASS, "ask_permission": "Allow the tests to run?"}]
    everybody_does_well(cao, tester=pending_turns)
    driver = shop.start(START_AGENT="tester")
    wait_for(lambda: any(isinstance(e, Noted) and e.topic == "permission_asked" for e in shop.events()))
    (note,) = [e for e in shop.events() if isinstance(e, Noted) and e.topic == "permission_asked"]
    assert "Allow the tests to run?" in note.text
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(20) == 143

    # The person comes back and allows it.
    assert shop.drive(AUTO_ACCEPT_PERMISSIONS="1") == 0
    assert sum(isinstance(e, Noted) and e.topic == "permission_given" for e in shop.events()) == 1
    assert sum(isinstance(e, TurnAsked) for e in shop.events()) == 1
