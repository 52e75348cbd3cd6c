"""What waits for a person, as status, documents and the next command tell it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from logos.app.runs import load_run, read_report
from logos.cli.output.live import LiveView
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
from logos.domain.ledger import Ledger
from logos.domain.levels import Level
from logos.domain.turns import AgentName, Outcome, RunId, TurnId
from logos.flows.levels.flow import Levels
from logos.testing import APPROVED, GOOD_ANALYSIS, MemoryLog
from logos.views import build_state, cycle_state
from logos.views.continuity.report import continuity
from logos.views.document import RunDocument, iso
from logos.views.events import EventFormatter, Severity
from logos.views.status import RunStatus, next_command
from logos.views.waiting import Waiting, WaitingKind
from tests.builders import a_quick_plan
from tests.levels_builders import World, a_levels_plan, drive_levels, read
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


# --- reports, state files and the live view


def entries(found: RunStatus, name: str) -> list[tuple[str, str, str]]:
    sections = continuity(found, 1, "next").sections
    return [(entry.part, entry.what, entry.how) for entry in getattr(sections, name)]


def test_a_report_says_what_waits_and_what_a_person_decided() -> None:
    waiting = status(*REACHED, OPENED)
    asked = waiting.reason
    assert entries(waiting, "completed") == [
        ("round 1", "analyst's work", "approved by the peer analyst in cycle 1"),
    ]
    assert entries(waiting, "blocked") == [("gate", GATE, f"waits for you: {asked}")]
    assert entries(waiting, "pending")[0] == ("round 1", f"a person's decision about {GATE}", "due now")
    assert not any("analyst" in what for _, what, _ in entries(waiting, "pending")[1:])
    rejected = status(*REACHED, OPENED, GateDecided(GATE, approved=False, words="no"), PersonSaid("hm"))
    assert entries(rejected, "blocked") == []
    assert entries(rejected, "decisions") == [
        ("person", GATE, "rejected: no"),
        ("person", "guidance for the next agent", "hm"),
    ]
    assert (
        "round 1",
        "review of the analyst's work by the peer analyst",
        "after the analyst's turn, cycle 2 of at most 4",
    ) in entries(rejected, "pending")


def test_the_state_file_of_a_run_has_its_open_gate() -> None:
    found = status(*REACHED, OPENED).view
    gate = cycle_state.project(found.state, found.ledger, RUN, 4, "", "")["gate"]  # type: ignore[arg-type]
    assert gate == {"id": GATE, "at": "after_plan", "question": found.state.gate.question}  # type: ignore[union-attr]
    before = status(*REACHED).view
    assert cycle_state.project(before.state, before.ledger, RUN, 3, "", "")["gate"] is None  # type: ignore[arg-type]


def test_the_state_file_of_a_build_has_its_open_gate_and_what_was_rejected() -> None:
    flow = Levels(a_levels_plan(Level.L3, Level.L2, gates=tuple(GateKind)), read)
    done = drive_levels(flow, World(), until=lambda state: state.gate is not None)
    gate = build_state.project(done.state, Ledger(), RUN, 9, 0.0)["gate"]
    assert (gate["id"], gate["at"]) == ("s1.gate.after_plan", "after_plan")
    once = iter([True, False])
    again = drive_levels(flow, World(), decide=lambda own: GateDecided(own.id, next(once, True), "in cents"))
    state = build_state.project(again.state, Ledger(), RUN, 9, 0.0)
    assert (state["gate"], [own["cause"] for own in state["reconciliations"]]) == (None, ["rejected"])


def test_the_live_view_shows_the_question_and_who_is_done() -> None:
    console = Console(file=StringIO(), width=120, force_terminal=False)
    view = LiveView(console)
    found = status(*REACHED, OPENED).view
    for record, state in zip(found.records, found.states, strict=True):
        view.watch(record, state, found.ledger)
    with console.capture() as shown:
        console.print(view.frame())
    view.__exit__()
    text = shown.get()
    assert "waits for you · round 1 of 8" in text
    assert "✓ analyst → ✓ peer analyst → ○ programmer" in text
    assert f"{GATE} waits for you" in text
    assert "May the programmer begin?" in text
