"""When an agent can be asked whose terminal was renamed just now."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any

import pytest

from logos.domain.ledger import Ledger
from logos.domain.turns import TurnId
from logos.engine.loop import Stopped, WorkerContext
from logos.engine.opening import Opening
from logos.engine.terminals import AgentTerminals
from logos.flows.cycle.flow import Cycle
from logos.testing import ScriptedAgents
from tests.builders import AGENTS, a_quick_plan
from tests.support.mortal import VirtualTime


class Screens(ScriptedAgents):
    """Agents whose terminals show a screen, so that those who are asked later get theirs in the background."""

    def get_screen(self, terminal_id: str) -> str:
        return self.get_last_output(terminal_id)

    def press_key(self, terminal_id: str, key: str) -> None:
        raise AssertionError((terminal_id, key))


class Typed(Screens):
    """Agents that take their time to read a line."""

    settle_seconds = 1.5


def opened(host: Any, time: VirtualTime) -> tuple[Opening, WorkerContext]:
    """Everybody but the analyst has a terminal that was renamed just now."""
    flow, context = Cycle(a_quick_plan()), WorkerContext(TurnId("r1.peer_analyst.c1"), SimpleQueue(), threading.Event())
    terminals = AgentTerminals(host, lambda _event: None, time.now, time.sleep)
    due = flow.due(flow.start())
    opening = Opening.begin("run", AGENTS, due, lambda _post: terminals, terminals, Ledger)
    for job in list(opening.jobs.values())[:1]:
        job(context)
    return opening, context


@pytest.mark.parametrize(("kind", "waited"), [(Typed, 1.5), (Screens, 0.0)])
def test_a_prompt_waits_until_a_client_has_read_its_new_name(kind: Any, waited: float, tmp_path: Any) -> None:
    time = VirtualTime()
    opening, context = opened(kind(tmp_path, {}), time)
    opening.wait_for(AGENTS[1].name, context)
    assert time.now() == pytest.approx(waited)
    opening.wait_for(AGENTS[1].name, context)
    assert time.now() == pytest.approx(waited)


def test_a_client_that_was_slow_to_start_gets_more_time_to_read(tmp_path: Any) -> None:
    time = VirtualTime()

    class Slow(Typed):
        def create_terminal(self, session_name: str, agent_profile: str, **options: Any) -> Any:
            # Only one is slow: the terminals are opened in parallel, and all move the same clock.
            if agent_profile == AGENTS[1].profile:
                time.sleep(20)
            return super().create_terminal(session_name, agent_profile, **options)

    opening, context = opened(Slow(tmp_path, {}), time)
    begun = time.now()
    opening.wait_for(AGENTS[1].name, context)
    assert time.now() - begun == pytest.approx(8, abs=1)


def test_a_client_that_had_time_to_read_is_not_waited_for(tmp_path: Any) -> None:
    time = VirtualTime()
    opening, context = opened(Typed(tmp_path, {}), time)
    time.sleep(10)
    opening.wait_for(AGENTS[1].name, context)
    assert time.now() == 10


def test_a_driver_that_stops_does_not_wait_for_a_client(tmp_path: Any) -> None:
    time = VirtualTime()
    opening, context = opened(Typed(tmp_path, {}), time)
    context.stop.set()
    with pytest.raises(Stopped):
        opening.wait_for(AGENTS[1].name, context)
    assert time.now() < 1
