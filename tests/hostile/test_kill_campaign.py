"""A counted campaign: KILLS random `kill -9` of drivers over both flows; nothing lost, nothing repeated, no false PASS.

KILLS=400 .venv/bin/pytest -m long tests/hostile/test_kill_campaign.py
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from logos import testing
from logos.domain.events import RunEnded, RunStarted, TurnAnswered, TurnAsked, TurnSent
from logos.domain.turns import Outcome
from tests.acceptance.test_kill_anywhere import SCRIPT, Workshop
from tests.acceptance.test_kill_builds import SMALL, SMALL_LEVELS, TELOS, Yard
from tests.support.drivers import KILLED
from tests.support.logs import read_log
from tests.support.repositories import make_repository
from tests.support.waiting import wait_for_exit

KILLS = int(os.environ.get("KILLS", "100"))
# So many drivers of one run are killed at most; the next is left alone.
MOST_PER_RUN = 12

Place = Workshop | Yard
Make = Callable[[Path], Place]
NEVER: dict[str, list[dict[str, Any]]] = {**SCRIPT, "tester": [{"say": testing.FAIL}]}
DEATHS = ("DIE_BEFORE", "DIE_MIRRORED", "DIE_BETWEEN", "DIE_AFTER", "DIE_AT_ACT", "from outside")


def passing(home: Path) -> Place:
    return Workshop(home)


def failing(home: Path) -> Place:
    return Workshop(home, NEVER)


def building(home: Path) -> Place:
    repository = make_repository(home / "template", {"telos.toml": TELOS, "notes.md": "mine\n"}, branch="trunk")
    return Yard(home, repository, SMALL, SMALL_LEVELS)


FLOWS: dict[str, tuple[tuple[Make, Outcome], ...]] = {
    "cycle": ((passing, Outcome.PASSED), (failing, Outcome.FAILED)),
    "build": ((building, Outcome.PASSED),),
}


def drive(place: Place, death: str, rng: random.Random) -> bool:
    """One driver; whether it was killed."""
    said = place.wd.parent / "driver.log" if isinstance(place, Yard) else place.wd / "driver.log"
    seq = max((len(records) for records in read_log(place.wd).values()), default=0)
    # A run that has ended is not begun again.
    environment = {"MAX_ROUNDS": "2", **({"RESUME": "1"} if seq else {})}
    if death.startswith("DIE_"):
        at = int(2 ** rng.uniform(0, 8)) if death == "DIE_AT_ACT" else seq + rng.randint(1, 8)
        environment[death] = str(at)
    driver = place.start(**environment)
    if death == "from outside":
        driver.join(rng.uniform(0.02, 0.8))
        driver.kill()
    code = wait_for_exit(driver)
    assert code in (KILLED, 0, 1) or "has ended (" in said.read_text(), said.read_text()
    return code == KILLED


def worked(place: Place) -> int:
    """How many turns agents really worked on, by their own count."""
    return place.worked.total() if isinstance(place, Yard) else place.turns_run_by_agents()


def check(place: Place, undisturbed: Place, outcome: Outcome) -> None:
    events, answers = place.events(), Counter[str]()
    assert sum(isinstance(event, RunStarted) for event in events) == 1, "a second run was started"
    for event in events:
        if isinstance(event, TurnAsked | TurnSent | TurnAnswered):
            assert event.turn not in answers, f"{event.turn} was asked again after it was answered"
        if isinstance(event, TurnAnswered):
            answers[event.turn] += 1
    assert said_in(place) == said_in(undisturbed), "something that was said is lost"
    assert worked(place) == worked(undisturbed) == answers.total(), "a turn was worked on twice"
    assert [event.outcome for event in events if isinstance(event, RunEnded)] == [outcome]


def said_in(place: Place) -> dict[str, str]:
    return {event.turn: event.text for event in place.events() if isinstance(event, TurnAnswered)}


def has_ended(place: Place) -> bool:
    return any(isinstance(event, RunEnded) for event in place.events())


def folders(under: Path) -> Iterator[Path]:
    number = 0
    while True:
        number += 1
        (under / str(number)).mkdir()
        yield under / str(number)


@pytest.mark.long
@pytest.mark.parametrize("flow", FLOWS)
def test_drivers_killed_at_random_lose_and_repeat_nothing(flow: str, tmp_path: Path) -> None:
    rng, homes, kills, runs = random.Random(f"kills of a {flow}"), folders(tmp_path), Counter[str](), 0
    undisturbed: dict[Make, Place] = {}
    for make, outcome in FLOWS[flow]:
        undisturbed[make] = make(next(homes))
        drive(undisturbed[make], "", rng)
        check(undisturbed[make], undisturbed[make], outcome)
    while kills.total() < KILLS // len(FLOWS):
        make, outcome = FLOWS[flow][runs % len(FLOWS[flow])]
        place, mine = make(next(homes)), 0
        while not has_ended(place):
            spared = mine == MOST_PER_RUN or kills.total() == KILLS // len(FLOWS)
            death = "" if spared else rng.choice(DEATHS)
            if drive(place, death, rng):
                kills[death] += 1
                mine += 1
        # Whatever the last one left behind is cleared away by a driver that finds nothing to do.
        drive(place, "", rng)
        check(place, undisturbed[make], outcome)
        runs += 1
    print(f"{flow}: {kills.total()} kills over {runs} runs: {dict(kills)}; 0 lost, 0 repeated, 0 false PASS")
