"""Whole cycles without a server: Logos runs the real agent CLIs itself, against the fake model."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from logos.domain.events import RunStarted, TurnAsked, TurnFailed
from logos.testing import PASS
from tests.live.clients import CLAUDE, CLIENTS, CODEX, OPENCODE
from tests.live.clis import all_gone, make_home, processes, sweep
from tests.live.conversation import usage_limit
from tests.live.cycles import ANSWERS, TURNS, LocalSandbox, check_a_whole_cycle, local_sandbox, prompts_seen
from tests.live.model import FakeModel, Script

pytestmark = pytest.mark.long
each = pytest.mark.parametrize("local", CLIENTS, ids=lambda client: client.name, indirect=True)
# The three that report most about themselves; the others are started and ended by the same code.
some = pytest.mark.parametrize("local", [CODEX, CLAUDE, OPENCODE], ids=lambda client: client.name, indirect=True)


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel(Script(ANSWERS)) as model:
        yield model


@pytest.fixture
def local(request: pytest.FixtureRequest, model: FakeModel, tmp_path: Path) -> Iterator[LocalSandbox]:
    home = make_home(request.param, tmp_path / "home", model)
    local = local_sandbox(home, tmp_path / "work")
    yield local
    local.close()
    sweep(home)


@each
def test_a_whole_cycle_is_run_in_conversations_that_go_on_and_every_token_is_counted(
    local: LocalSandbox, model: FakeModel
):
    check_a_whole_cycle(local, model)


@some
def test_kill_9_loses_and_repeats_nothing_and_ctrl_c_leaves_no_process(local: LocalSandbox, model: FakeModel):
    gates = {role: threading.Event() for role in ("programmer", "peer_programmer")}
    model.reply = Script({**ANSWERS, "tester": [PASS]}, holds=gates)
    driver = local.start_driver(START_AGENT="programmer")
    local.wait_until_sent("r1.programmer.c1", driver=driver)
    model.wait_for_work(1)
    local.kill(driver)
    assert processes(local.home), "the agent goes on working"

    gates["programmer"].set()
    driver = local.start_driver()
    local.wait_until_sent("r1.peer_programmer.c1", driver=driver)
    model.wait_for_work(3)
    assert prompts_seen(model)["r1.programmer.c1"] == 1
    driver.send_signal(signal.SIGINT)
    assert driver.wait() == 130
    assert all_gone(local.home)

    gates["peer_programmer"].set()
    assert local.drive() == 0
    assert local.turns_answered() == TURNS[2:5]
    assert len(local.all_of(RunStarted)) == 1
    assert {*Counter(event.turn for event in local.all_of(TurnAsked)).values()} == {1}
    # Only the turn that the person cancelled was worked on again.
    assert [turn for turn, times in prompts_seen(model).items() if times > 1] in ([], ["r1.peer_programmer.c1"])


@some
def test_a_usage_limit_stops_the_run_and_says_until_when(local: LocalSandbox, model: FakeModel):
    model.reply = Script(ANSWERS, faults=[usage_limit(int(time.time()) + 7200)] * 8)
    assert local.drive(START_AGENT="tester") == 4
    (failure,) = local.all_of(TurnFailed)
    assert failure.trouble == "limit"
    assert "limit" in failure.message
    # opencode does not tell when; the others do.
    assert ("until 20" in failure.message) == (local.home.client is not OPENCODE)
    assert all_gone(local.home)
