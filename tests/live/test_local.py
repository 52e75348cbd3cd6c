"""Whole cycles without a server: Logos runs the real codex, claude and opencode itself, against the fake model."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from logos.adapters.store.sqlite import SqliteLog
from logos.domain.events import Event, RunStarted, TurnAnswered, TurnAsked, TurnFailed, TurnSent
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, GOOD_PROGRAM, PASS
from tests.live.clis import (
    BIN,
    CLAUDE,
    CODEX,
    OPENCODE,
    Client,
    Home,
    all_gone,
    install,
    make_home,
    processes,
    sweep,
)
from tests.live.model import TURN, FakeModel, Script, usage_limit

ROOT = Path(__file__).parents[2]
PROMPT = "*** ORIGINAL EXPLORE SUMMARY ***\nA greeting is missing.\n*** SCENARIO TEST ***\nRun it.\n"
PROVIDERS = {"codex": CODEX, "claude_code": CLAUDE, "opencode_cli": OPENCODE}
TURNS = [f"r1.{role}.c1" for role in ("analyst", "peer_analyst", "programmer", "peer_programmer", "tester")] + [
    f"r2.{role}.c1" for role in ("programmer", "peer_programmer", "tester")
]
ROLES = {
    "analyst": [GOOD_ANALYSIS],
    "peer_analyst": [APPROVED],
    "programmer": [GOOD_PROGRAM],
    "peer_programmer": [APPROVED],
    "tester": [FAIL, PASS],
}


@cache
def why_not() -> str | None:
    return install()


@cache
def sandbox_works() -> bool:
    done = subprocess.run([BIN / "codex", "sandbox", "--", "true"], capture_output=True, check=False)
    return done.returncode == 0


class Shop:
    """A work dir, a home for the client, and drivers that run in it."""

    def __init__(self, provider: str, home: Home, wd: Path) -> None:
        self.provider = provider
        self.home = home
        self.wd = wd
        self.said = wd / "driver.log"

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        env = {
            **self.home.env,
            "PYTHONPATH": str(ROOT),
            "WD": str(self.wd),
            "PROMPT": PROMPT,
            "LOGOS_HOST": "local",
            "PROVIDER": self.provider,
            "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1",
            # Without user namespaces codex cannot keep its agents inside; then they must be let out.
            **({"AUTO_ACCEPT_PERMISSIONS": "1"} if self.provider == "codex" and not sandbox_works() else {}),
            **environment,
        }
        with self.said.open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", "tests.driver"], cwd=ROOT, env=env, stderr=log)

    def drive(self, **environment: str) -> int:
        return self.start(**environment).wait(110)

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


def wait_for(condition: Callable[[], bool], within: float = 60) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel(Script(ROLES)) as model:
        yield model


@pytest.fixture(params=PROVIDERS)
def shop(request: pytest.FixtureRequest, model: FakeModel, tmp_path: Path) -> Iterator[Shop]:
    if reason := why_not():
        npm = shutil.which("npm") is not None and os.environ.get("CI") == "true"
        (pytest.fail if npm else pytest.skip)(reason)
    client: Client = PROVIDERS[request.param]
    wd = tmp_path / "work"
    wd.mkdir()
    home = make_home(client, tmp_path / "home", model)
    shop = Shop(request.param, home, wd)
    yield shop
    sweep(home)
    print(shop.said.read_text() if shop.said.exists() else "")


def prompts_seen(model: FakeModel) -> Counter[str]:
    """How often each turn's prompt came to the model as the newest one, before a tool had run for it."""
    newest = (request.prompts[-1].text for request in model.work if not request.tool_answered)
    return Counter(found[1] for text in newest if (found := TURN.search(text)))


def test_a_whole_cycle_is_run_in_conversations_that_go_on_and_every_token_is_counted(shop: Shop, model: FakeModel):
    assert shop.drive() == 0
    assert shop.answered() == TURNS
    assert prompts_seen(model) == Counter(TURNS)
    second = next(request for request in model.work if "Turn: r2.programmer.c1" in request.prompts[-1].text)
    assert "r1.programmer.c1" in second.earlier
    # The profile comes once, before the first prompt of a conversation.
    assert second.prompts[0].text != second.prompts[-1].text
    used = [event.usage for event in shop.events() if isinstance(event, TurnAnswered)]
    assert all(usage is not None for usage in used)
    assert sum(usage.input or 0 for usage in used if usage) == sum(bill.input for bill in model.billed)
    assert sum(usage.output or 0 for usage in used if usage) == sum(bill.output for bill in model.billed)
    assert all_gone(shop.home)
    assert model.dependencies == []


def test_kill_9_loses_and_repeats_nothing_and_ctrl_c_leaves_no_process(shop: Shop, model: FakeModel):
    assert isinstance(model.reply, Script)
    model.reply.delay, model.reply.roles = 3.0, {**ROLES, "tester": [PASS]}
    driver = shop.start(START_AGENT="programmer")
    shop.wait_until_sent("r1.programmer.c1")
    model.wait_for_work(1)
    driver.kill()
    driver.wait()
    assert processes(shop.home), "the agent goes on working"

    driver = shop.start()
    shop.wait_until_sent("r1.peer_programmer.c1")
    model.wait_for_work(3)
    assert prompts_seen(model)["r1.programmer.c1"] == 1
    driver.send_signal(signal.SIGINT)
    assert driver.wait(30) == 130
    assert all_gone(shop.home)

    model.reply.delay = 0.0
    assert shop.drive() == 0
    assert shop.answered() == TURNS[2:5]
    assert sum(isinstance(event, RunStarted) for event in shop.events()) == 1
    asked = Counter(event.turn for event in shop.events() if isinstance(event, TurnAsked))
    assert set(asked.values()) == {1}
    # Only the turn that the person cancelled was worked on again.
    assert [turn for turn, times in prompts_seen(model).items() if times > 1] in ([], ["r1.peer_programmer.c1"])


def test_a_usage_limit_stops_the_run_and_says_until_when(shop: Shop, model: FakeModel):
    assert isinstance(model.reply, Script)
    model.reply.faults = iter([usage_limit(int(time.time()) + 7200)] * 8)
    assert shop.drive(START_AGENT="tester") == 4
    (failure,) = [event for event in shop.events() if isinstance(event, TurnFailed)]
    assert failure.trouble == "limit"
    assert "limit" in failure.message
    # opencode does not tell when; the others do.
    assert ("until 20" in failure.message) == (shop.provider != "opencode_cli")
    assert all_gone(shop.home)
