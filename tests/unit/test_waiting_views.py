"""What waits for a person, as status, documents and the next command tell it."""

from __future__ import annotations

from pathlib import Path

from logos.app.runs import load_run, read_report
from logos.domain.events import (
    Event,
    GateDecided,
    GateOpened,
    Noted,
    PermissionDecided,
    PersonSaid,
    Recorded,
    RunEnded,
    RunStarted,
    Topic,
    TurnAnswered,
    TurnAsked,
)
from logos.domain.gates import GateKind
from logos.domain.levels import Level
from logos.domain.turns import AgentName, Outcome, RunId, TurnId
from logos.testing import APPROVED, GOOD_ANALYSIS, MemoryLog
from logos.views.document import RunDocument, iso
from logos.views.events import EventFormatter, Severity
from logos.views.status import RunStatus, next_command
from logos.views.waiting import Waiting, WaitingKind
from tests.builders import a_quick_plan
from tests.levels_builders import a_levels_plan
from tests.unit.test_cli_levels import Talk, built

RUN = RunId("k3xyz")
GATE = TurnId("r1.gate.after_plan")
QUESTION = "May the programmer begin?"
REACHED = (
    RunStarted(a_quick_plan(gates=(GateKind.AFTER_PLAN,))),
    TurnAnswered(TurnId("r1.analyst.c1"), GOOD_ANALYSIS),
    TurnAnswered(TurnId("r1.peer_analyst.c1"), APPROVED),
)
OPENED = GateOpened(GATE, GateKind.AFTER_PLAN, QUESTION)


def status(*events: Event, driver: int | None = None) -> RunStatus:
    """Each event a second after the one before it."""
    log = MemoryLog(iter(float(at) for at in range(1, len(events) + 1)).__next__)
    for after, event in enumerate(events):
        log.append(RUN, event, after)
    return RunStatus(Path("/repo"), load_run(log, RUN), driver)


def test_an_open_gate_waits_with_a_driver_and_without() -> None:
    for driver in (None, 4711):
        found = status(*REACHED, OPENED, driver=driver)
        assert found.word == "WAITING FOR YOU"
        assert found.severity is Severity.ALARM
        asked = found.view.state.gate
        assert asked is not None
        assert found.reason == asked.question
        assert found.waiting == (Waiting(WaitingKind.GATE, GATE, asked.question, ("approve", "reject"), 4.0),)
        assert next_command(found, "") == "logos approve k3xyz"
        assert next_command(found, " --wd /repo") == "logos approve k3xyz --wd /repo"


def test_a_gate_that_is_not_open_yet_or_is_decided_waits_for_nobody() -> None:
    for events in (REACHED, (*REACHED, OPENED, GateDecided(GATE, approved=True))):
        found = status(*events)
        assert (found.word, found.waiting) == ("STOPPED", ())
        assert next_command(found, "") == "logos run --resume"
        assert status(*events, driver=4711).word == "RUNNING"


def test_a_permission_prompt_waits_until_it_is_decided() -> None:
    turn = TurnId("r1.analyst.c1")
    events: list[Event] = [
        RunStarted(a_quick_plan()),
        TurnAsked(turn, AgentName("analyst"), "prompt"),
        Noted(Topic.PERMISSION_ASKED, "Run rm -rf build?", turn),
    ]
    found = status(*events, driver=4711)
    assert found.waiting == (Waiting(WaitingKind.PERMISSION, turn, "Run rm -rf build?", ("approve", "reject"), 3.0),)
    assert found.word == "WAITING FOR YOU"
    assert status(*events).waiting == ()
    assert status(*events, PermissionDecided(turn, granted=True), driver=4711).waiting == ()


ASKS = {"next_recommended_action": {"action": "ask_person", "why": "which currency?"}}


def test_a_question_of_a_build_waits_since_it_was_asked() -> None:
    events = built(a_levels_plan(Level.L3, Level.L2), Talk(replies={"s1.L3.decompose": ASKS}))
    assert events[-1] == RunEnded(Outcome.BLOCKED)
    found = status(*events)
    (waiting,) = found.waiting
    assert (waiting.kind, waiting.options) == (WaitingKind.QUESTION, ())
    assert "which currency?" in waiting.text
    # The answer that asked it, not the end of the driver.
    assert waiting.since == len(events) - 1
    assert found.word == "BLOCKED"


def test_documents_tell_what_waits() -> None:
    (waiting,) = RunDocument.of(status(*REACHED, OPENED))["waiting"]
    question = status(*REACHED, OPENED).reason
    assert waiting == {
        "kind": "gate",
        "id": GATE,
        "text": question,
        "options": ["approve", "reject"],
        "since": iso(4.0),
    }
    assert RunDocument.of(status(*REACHED))["waiting"] == []


def test_events_say_who_waits_and_what_was_decided() -> None:
    events = (
        *REACHED,
        OPENED,
        GateDecided(GATE, approved=False, words="prices in cents"),
        PersonSaid("use the old names", AgentName("peer_analyst")),
    )
    formatter = EventFormatter(read_report)
    said = [formatter.lines(Recorded(RUN, n, float(n), event)) for n, event in enumerate(events, 1)]
    lines = [(line.text, line.severity) for told in said[-3:] for line in told]
    assert lines == [
        (f"{GATE} waits for you: {QUESTION}", Severity.ALARM),
        ('`logos approve k3xyz` lets it go on, `logos reject k3xyz "why"` sends it back', Severity.NORMAL),
        (f"a person rejected {GATE}: prices in cents", Severity.NORMAL),
        ("a person says to the peer analyst: use the old names", Severity.NORMAL),
    ]
