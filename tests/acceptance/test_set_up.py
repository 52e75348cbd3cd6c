"""The set-up of a run on a server whose agents take time to start: who is asked first does not wait for the others."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from logos import testing
from logos.adapters.hosts.cao import ApiClient
from logos.domain.events import Noted, TerminalClosed, TerminalOpened, TurnAnswered, TurnAsked
from logos.domain.turns import Outcome
from logos.errors import Interrupted, TerminalNotCreated
from logos.testing import APPROVED, FAIL, PASS, Says
from logos.testing.cao_server import FakeCao
from tests.acceptance.test_cycle_runs import StopAfter
from tests.support.sandbox import PROMPT, Sandbox
from tests.support.waiting import LAST_RESORT

ONE_CYCLE = {"MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1"}
PROFILES = {
    "analyst": "system_analyst",
    "peer_analyst": "peer_system_analyst",
    "programmer": "programmer",
    "peer_programmer": "peer_programmer",
    "tester": "tester",
}


@dataclass(slots=True)
class SlowCao(FakeCao):
    """All terminals but that of `quick` are created when `go` is set, by default once a prompt has come."""

    quick: str = "analyst"
    go: threading.Event = field(default_factory=threading.Event)
    at_prompt: bool = True

    def create_terminal(self, session_name: str, agent_profile: str, **options: Any) -> Mapping[str, str]:
        if agent_profile != PROFILES[self.quick]:
            assert self.go.wait(LAST_RESORT), "the first prompt waits for the other terminals"
        return super(SlowCao, self).create_terminal(session_name, agent_profile, **options)

    def send_input(self, terminal_id: str, message: str) -> None:
        super(SlowCao, self).send_input(terminal_id, message)
        if message.startswith("Turn: ") and self.at_prompt:
            self.go.set()

    def got(self, role: str) -> list[str]:
        """What the terminals of a role were sent: turns by their name, other messages without their argument."""
        of_role = {terminal for terminal, profile in self.profiles.items() if profile == PROFILES[role]}
        return [_in_short(message) for terminal, message in self.sent if terminal in of_role]


def _in_short(message: str) -> str:
    return message.splitlines()[0].removeprefix("Turn: ").split(" ")[0]


class Start:
    """A work dir, and a server whose agents start slowly."""

    def __init__(self, wd: Path) -> None:
        self.shop = Sandbox(wd, {"PROMPT": PROMPT})
        self.cao = self.server()

    def server(self, **responses: Sequence[Says]) -> SlowCao:
        return SlowCao(self.shop.wd / ".tmp" / "agent-responses", testing.script(**responses))

    def run(self, stop_after: str = "", **environment: Any) -> Any:
        """`stop_after`: the kind of an event, a colon, and which of them ends the driver as Ctrl-C would."""
        kind, _, number = stop_after.partition(":")
        watchers = [StopAfter(kind, int(number))] if stop_after else []
        # Agents of a server in this process read at once.
        host = ApiClient(self.cao.url, str(self.shop.wd), settle_seconds=0)
        given: dict[str, Any] = {**ONE_CYCLE, **environment}
        return self.shop.run(host, watchers=watchers, **given)

    def of(self, kind: type[Any]) -> list[Any]:
        return self.shop.events(kind)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return Start(tmp_path)


@pytest.mark.parametrize("role", PROFILES)
def test_the_first_prompt_leaves_while_the_other_terminals_are_opened(start: Start, role: str):
    start.cao.quick = role
    with start.cao as cao:
        assert start.run(START_AGENT=role).outcome is Outcome.PASSED
        assert len(cao.profiles) == 5
    kinds = [event.kind for event in start.of(object)]
    assert kinds[:3] == ["run_started", "terminal_opened", "turn_asked"]
    assert next(event.agent for event in start.of(TerminalOpened)) == role


@pytest.mark.scenario("PRD-16")
def test_no_terminal_is_renamed_during_a_turn(start: Start):
    with start.cao as cao:
        assert start.run(MIN_REVIEW_CYCLES_BEFORE_APPROVAL="2").outcome is Outcome.PASSED
    assert cao.got("analyst") == ["r1.analyst.c1", "/rename", "r1.analyst.c2"]
    assert cao.got("peer_analyst") == ["/rename", "r1.peer_analyst.c1", "r1.peer_analyst.c2"]
    assert cao.got("tester") == ["/rename", "r1.tester.c1"]
    assert [event.text for event in start.of(Noted) if "renaming" in event.text] == []


@pytest.mark.scenario("PRD-16")
def test_an_agent_that_is_asked_again_at_once_is_renamed_before(start: Start):
    start.cao = start.server(tester=["no verdict at all", PASS])
    start.cao.quick = "tester"
    with start.cao as cao:
        assert start.run(START_AGENT="tester").outcome is Outcome.PASSED
    assert cao.got("tester") == ["r1.tester.c1", "/rename", "r1.tester.c2"]


@pytest.mark.scenario("PRD-16")
@pytest.mark.scenario("CYC-22")
def test_a_run_that_ends_with_its_first_turn_still_knows_all_its_terminals(start: Start):
    """The others are opened although nobody will be asked there: only terminals that are known can be ended."""
    start.cao.quick, start.cao.at_prompt = "tester", False
    with start.cao as cao:
        threading.Thread(target=lambda: _set_when(cao, "ready"), daemon=True).start()
        assert start.run(START_AGENT="tester", CLEANUP_ON_EXIT="1").outcome is Outcome.PASSED
        assert sorted(cao.exited) == sorted(cao.profiles)
    assert len(cao.profiles) == 5
    assert cao.got("tester") == ["r1.tester.c1", "/rename"]


def _set_when(cao: SlowCao, what: str) -> None:
    while not getattr(cao, what):
        threading.Event().wait(0.01)
    cao.go.set()


@pytest.mark.scenario("PRD-19")
@pytest.mark.parametrize("answered", [False, True], ids=["asked", "answered"])
def test_a_terminal_that_cannot_be_opened_after_the_first_prompt_ends_all_and_a_resume_opens_them_anew(
    start: Start, answered: bool
):
    gate = threading.Event()
    start.cao = start.server(analyst=[testing.GOOD_ANALYSIS if answered else lambda _prompt: _after(gate)])
    start.cao.refuse_profiles = frozenset({"programmer"})
    with start.cao as cao:
        if answered:
            cao.at_prompt = False
            threading.Thread(target=lambda: _set_when(cao, "ready"), daemon=True).start()
        with pytest.raises(TerminalNotCreated, match="programmer") as error:
            start.run()
        assert error.value.exit_code == 1
        assert cao.agents == {}
        assert {event.agent for event in start.of(TerminalOpened)} == {e.agent for e in start.of(TerminalClosed)}
        assert "r1.analyst.c1" in [event.turn for event in start.of(TurnAsked)]
        done = [event.turn for event in start.of(TurnAnswered)]

        gate.set()
        cao.refuse_profiles = frozenset()
        before = len(cao.sent)
        assert start.run().outcome is Outcome.PASSED
    prompts = [message for _, message in cao.sent[before:] if message.startswith("Turn: ")]
    assert not {*done} & {_in_short(prompt) for prompt in prompts}, "a turn was repeated"
    assert all("refer to your conversation history" not in prompt for prompt in prompts)
    turns = [event.turn for event in start.of(TurnAnswered)]
    assert len(turns) == len(set(turns)) == 5
    assert len(start.shop.logs()) == 1


def _after(gate: threading.Event) -> str:
    gate.wait(LAST_RESORT)
    return testing.GOOD_ANALYSIS


def test_a_driver_that_stops_during_the_set_up_is_followed_by_one_that_opens_the_rest(start: Start):
    start.cao.at_prompt = False
    with start.cao as cao:
        with pytest.raises(Interrupted):
            start.run(stop_after="turn_sent:1")
        assert [event.agent for event in start.of(TerminalOpened)] == ["analyst"]
        cao.go.set()
        assert start.run().outcome is Outcome.PASSED
    assert cao.got("analyst").count("r1.analyst.c1") == 1
    # The key of a request that the first driver had sent gives the same terminal.
    assert len(cao.profiles) == 5


def test_a_terminal_that_died_during_the_set_up_is_opened_anew(start: Start):
    start.cao.at_prompt = False
    with start.cao as cao:
        with pytest.raises(Interrupted):
            start.run(stop_after="turn_sent:1")
        cao.exit_terminal(next(iter(cao.agents)))
        cao.go.set()
        assert start.run().outcome is Outcome.PASSED


@pytest.mark.long
def test_an_agent_whose_terminal_is_opened_while_it_waits_for_its_turn_is_told_everything(start: Start):
    """Its turn is due before its new conversation begins."""
    start.cao.at_prompt = False
    start.cao.go.set()
    start.cao = start.server(analyst_review=[testing.REVISE, APPROVED], tester=[FAIL, PASS])
    with start.cao as cao:
        cao.go.set()
        with pytest.raises(Interrupted):
            start.run(stop_after="turn_answered:2")
        for terminal in list(cao.agents):
            cao.exit_terminal(terminal)
        cao.go.clear()
        before = len(cao.sent)
        assert start.run(RECREATE_TERMINALS="1").outcome is Outcome.PASSED
    prompts = [message for _, message in cao.sent[before:] if message.startswith("Turn: ")]
    assert [_in_short(prompt) for prompt in prompts[:2]] == ["r1.analyst.c2", "r1.peer_analyst.c2"]
    assert all("refer to your conversation history" not in prompt for prompt in prompts[:2])
    assert "You take over from another agent" in prompts[1]
