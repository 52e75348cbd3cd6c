"""kill -9 at every instant of a FAIL-then-PASS run: no finished turn asked again, no response lost, the same end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from logos import testing
from logos.domain.events import Event, RunResumed, RunStarted, TurnAnswered, TurnAsked, TurnSent
from logos.domain.roles import RESPONSE_FILES, ROLE_DEFS, Role
from tests.support.drivers import KILLED, PROCESSES, start_driver
from tests.support.isolation import bare_env
from tests.support.logs import read_log
from tests.support.waiting import wait_for, wait_for_exit

# PROCESSES: for test_damage.py.
__all__ = ["PROCESSES", "PROMPT"]

PROMPT = "*** ORIGINAL EXPLORE SUMMARY ***\nA greeting is missing.\n*** SCENARIO TEST ***\nRun it.\n"

SCRIPT: dict[str, list[dict[str, Any]]] = {
    "analyst": [{"say": testing.GOOD_ANALYSIS}],
    "peer_analyst": [{"say": testing.REVISE}, {"say": testing.APPROVED}],
    "programmer": [{"say": testing.GOOD_PROGRAM}],
    "peer_programmer": [{"say": testing.APPROVED}],
    "tester": [{"say": testing.FAIL}, {"say": testing.PASS}],
}
# 14 turns: two review cycles in the analyst's phase and in each of two programmer phases, two tests.
TURNS = 14


class Workshop:
    """A work dir with scripted agents, and drivers that may be told when to die."""

    def __init__(self, wd: Path, script: dict[str, list[dict[str, Any]]] = SCRIPT) -> None:
        self.wd = wd
        self.script = wd / "script.json"
        self.script.write_text(json.dumps(script))

    def drive(self, **environment: str) -> int:
        return wait_for_exit(self.start(**environment))

    def start(self, **environment: str) -> BaseProcess:
        env = bare_env(
            WD=str(self.wd), PROMPT=PROMPT, SCRIPT=str(self.script), POLL_SECONDS="0.05", IDLE_GRACE_SECONDS="0.6"
        )
        return start_driver(env | environment, self.wd / "driver.log")

    def events(self) -> list[Event]:
        return [record.event for records in read_log(self.wd).values() for record in records]

    def state(self) -> dict[str, object]:
        state = json.loads((self.wd / ".tmp" / "agnostic-3agents-loop-state.json").read_text())
        return {key: value for key, value in state.items() if key not in ("updated_at", "logos", "wd")}

    def turns_run_by_agents(self) -> int:
        return sum(1 for _ in (self.wd / ".telos" / "scripted").glob("*/turn-*/pid"))


def check_nothing_was_lost_or_repeated(shop: Workshop) -> None:
    events = shop.events()
    assert sum(isinstance(event, RunStarted) for event in events) == 1, "a second run was started"
    answered: set[str] = set()
    for event in events:
        if isinstance(event, TurnAsked | TurnSent):
            assert event.turn not in answered, f"{event.turn} was asked again after it was answered"
        if isinstance(event, TurnAnswered):
            assert event.turn not in answered, f"{event.turn} was answered twice"
            answered.add(event.turn)
    assert len(answered) == TURNS
    # The agents' own count: each turn was worked on exactly once, and what was said is in the log, whole.
    assert shop.turns_run_by_agents() == TURNS
    said = Counter(event.text for event in events if isinstance(event, TurnAnswered))
    assert said == Counter(
        {
            testing.GOOD_ANALYSIS: 2,
            testing.REVISE: 1,
            testing.APPROVED: 5,
            testing.GOOD_PROGRAM: 4,
            testing.FAIL: 1,
            testing.PASS: 1,
        }
    )


def without_terminals(state: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in state.items() if key != "terminals"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    shop = Workshop(tmp_path_factory.mktemp("undisturbed"))
    assert shop.drive() == 0
    check_nothing_was_lost_or_repeated(shop)
    return shop


# 1 start, 5 terminals, 14 × (asked, sent, answered), 1 end.
EVENTS = 1 + 5 + 3 * TURNS + 1


def test_the_undisturbed_run_has_the_events_the_kills_are_aimed_at(undisturbed: Workshop):
    assert len(undisturbed.events()) == EVENTS


def long_but_for(values: Iterable[Any], *quick: Any) -> list[Any]:
    return [value if value in quick else pytest.param(value, marks=pytest.mark.long) for value in values]


# Quick: the start, a terminal, each event of a turn, the last answer, the end.
@pytest.mark.parametrize("seq", long_but_for(range(1, EVENTS + 1), 1, 4, 8, EVENTS))
def test_a_driver_killed_after_any_event_is_resumed_without_loss(seq: int, tmp_path: Path, undisturbed: Workshop):
    # Every other kill falls between the log and the state file.
    where = "DIE_AFTER" if seq % 2 else "DIE_BETWEEN"
    shop = Workshop(tmp_path)

    assert shop.drive(**{where: str(seq)}) == KILLED
    # The last event leaves nothing to resume unless the state file has not heard of it yet.
    if seq < EVENTS or where == "DIE_BETWEEN":
        assert shop.drive() == 0

    check_nothing_was_lost_or_repeated(shop)
    assert without_terminals(shop.state()) == without_terminals(undisturbed.state())


@pytest.mark.parametrize("role", long_but_for(Role, Role.ANALYST))
@pytest.mark.parametrize("answered", [False, True], ids=["before-the-answer", "after-the-answer"])
def test_a_driver_killed_inside_a_wait_is_resumed_without_loss(role: Role, answered: bool, tmp_path: Path):
    """The agent is held back until the driver is dead, or goes on for a while after its answer."""
    held_back = {"run": f"until [ -e '{tmp_path}/go' ]; do sleep 0.02; done"}
    script = {name: [{**step} for step in steps] for name, steps in SCRIPT.items()}
    script[role][0] |= {"after": 0.5} if answered else held_back
    shop = Workshop(tmp_path, script)
    response = tmp_path / ".tmp" / "agent-responses" / RESPONSE_FILES[ROLE_DEFS[role].answer]
    driver = shop.start()
    wait_for(lambda: response.exists() if answered else asked(shop, role), role, process=driver)
    driver.kill()
    assert wait_for_exit(driver) == KILLED

    (tmp_path / "go").touch()
    assert shop.drive() == 0
    check_nothing_was_lost_or_repeated(shop)


@pytest.mark.long
def test_a_driver_killed_at_every_step_of_one_run_still_gets_to_the_end(tmp_path: Path):
    shop = Workshop(tmp_path)
    lives = 0
    while shop.drive(DIE_AFTER="turn_sent:1") == KILLED:
        lives += 1
        assert lives < 3 * TURNS
    assert lives >= TURNS - 1
    check_nothing_was_lost_or_repeated(shop)
    assert sum(isinstance(event, RunResumed) for event in shop.events()) == lives


def asked(shop: Workshop, role: Role) -> bool:
    return any(isinstance(event, TurnSent) and f".{role}." in event.turn for event in shop.events())
