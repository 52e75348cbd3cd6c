"""The ledger: which terminals are open and which turns are in agents' hands, as the log tells it."""

from __future__ import annotations

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from logos.domain.events import (
    CheckRan,
    Event,
    GateDecided,
    Noted,
    PermissionDecided,
    PersonSaid,
    QuestionResolved,
    RunEnded,
    RunResumed,
    RunStarted,
    TerminalClosed,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnSent,
)
from logos.domain.ledger import InFlightTurn, Ledger
from logos.domain.turns import AgentName, Outcome, Terminal, TerminalId, TurnId
from tests.builders import a_failure, a_plan, examples

TURN = TurnId("r1.analyst.c1")
ANALYST, TESTER = AgentName("analyst"), AgentName("tester")
ASKED = TurnAsked(TURN, ANALYST, "a prompt")
SENT = TurnSent(TURN)
ANSWERED = TurnAnswered(TURN, "a response")
REMINDED = Noted(Topic.REMINDED, "reminded", TURN)
ALLOWED = Noted(Topic.PERMISSION_GIVEN, "allowed", TURN)


def opened(agent: AgentName = ANALYST, terminal: str = "a1", session: str = "s1") -> TerminalOpened:
    return TerminalOpened(agent, TerminalId(terminal), "codex", session)


def ledger_of(*events: Event) -> Ledger:
    return reduce(Ledger.enter, events, Ledger())


def test_an_opened_terminal_is_known_with_its_provider_and_session() -> None:
    ledger = ledger_of(opened())
    assert dict(ledger.terminals) == {ANALYST: Terminal(TerminalId("a1"), "codex")}
    assert ledger.session == "s1"


def test_a_terminal_opened_anew_replaces_the_old_one() -> None:
    assert ledger_of(opened(), opened(terminal="a2")).terminals[ANALYST].id == "a2"


def test_a_closed_terminal_is_gone_and_the_others_stay() -> None:
    ledger = ledger_of(opened(), opened(TESTER, "t1"), TerminalClosed(ANALYST, TerminalId("a1")))
    assert set(ledger.terminals) == {TESTER}


def test_closing_an_old_terminal_leaves_the_new_one_open() -> None:
    ledger = ledger_of(opened(), opened(terminal="a2"), TerminalClosed(ANALYST, TerminalId("a1")))
    assert ledger.terminals[ANALYST].id == "a2"


def test_an_imported_run_brings_its_terminals_in_its_first_event() -> None:
    ledger = ledger_of(RunStarted(a_plan(), None, (opened(), opened(TESTER, "t1"))))
    assert {name: terminal.id for name, terminal in ledger.terminals.items()} == {ANALYST: "a1", TESTER: "t1"}
    assert ledger.session == "s1"


def test_a_turn_is_in_hand_from_the_asking_to_the_answer() -> None:
    assert ledger_of(ASKED).in_flight[TURN] == InFlightTurn(ANALYST, "a prompt")
    assert ledger_of(ASKED, SENT).in_flight[TURN].sent
    assert dict(ledger_of(ASKED, SENT, ANSWERED).in_flight) == {}


def test_a_failed_turn_stays_in_hand_until_it_is_sent_again() -> None:
    failed = ledger_of(ASKED, SENT, a_failure(TURN))
    assert failed.in_flight[TURN].failed
    assert failed.in_flight[TURN].sent
    assert not failed.enter(SENT).in_flight[TURN].failed


def test_reminders_and_permissions_are_counted_for_their_turn() -> None:
    hand = ledger_of(ASKED, SENT, REMINDED, ALLOWED, ALLOWED, Noted(Topic.WARNING, "hm", TURN)).in_flight[TURN]
    assert (hand.reminders, hand.permissions) == (1, 2)


def test_notes_and_news_of_turns_that_are_not_in_hand_change_nothing() -> None:
    for event in (SENT, ANSWERED, REMINDED, ALLOWED, a_failure(TURN), Noted(Topic.REMINDED, "whose?")):
        ledger = ledger_of(event)
        assert (dict(ledger.in_flight), dict(ledger.terminals), ledger.briefed) == ({}, {}, frozenset())


def test_what_an_agent_was_told_is_remembered_and_counted() -> None:
    ledger = ledger_of(ASKED, ANSWERED, TurnAsked(TurnId("r1.tester.c1"), TESTER, "語" * 10))
    assert ledger.briefed == {ANALYST, TESTER}
    assert ledger.characters == len("a prompt") + 10


def test_events_of_the_flow_leave_the_ledger_alone() -> None:
    before = ledger_of(opened(), ASKED)
    for event in (RunResumed(a_plan()), CheckRan(TurnId("r1.verify"), "make", 1, ""), RunEnded(Outcome.PASSED)):
        assert before.enter(event) == before


@examples()
@given(
    st.lists(st.sampled_from([ASKED, SENT, ANSWERED, REMINDED, ALLOWED, a_failure(TURN), opened(TESTER)]), max_size=20)
)
def test_a_turn_is_in_hand_exactly_when_it_was_asked_after_its_last_answer(events: list[Event]) -> None:
    asked = max((n for n, event in enumerate(events) if event == ASKED), default=-1)
    answered = max((n for n, event in enumerate(events) if event == ANSWERED), default=-1)
    assert (TURN in ledger_of(*events).in_flight) == (asked > answered)


ASKING = Noted(Topic.PERMISSION_ASKED, "terminal a1 waits for a person: rm -rf?", TURN)


def test_a_permission_prompt_is_open_until_it_is_answered_or_the_turn_is_over() -> None:
    assert dict(ledger_of(ASKED, SENT, ASKING).asking) == {TURN: ASKING.text}
    for end in (ANSWERED, ALLOWED, a_failure(TURN), PermissionDecided(TURN, granted=False), RunResumed(a_plan())):
        assert dict(ledger_of(ASKED, SENT, ASKING, end).asking) == {}, end
    other = PermissionDecided(TurnId("r1.tester.c1"), granted=True)
    assert dict(ledger_of(ASKED, SENT, ASKING, other).asking) == {TURN: ASKING.text}


def test_what_persons_decided_and_the_messages_that_were_taken_are_remembered() -> None:
    gate = TurnId("r1.gate.after_plan")
    rejected = GateDecided(gate, approved=False, words="no", message="m1")
    taken = (rejected, PersonSaid("hello", None, "m2"), QuestionResolved("q", 1, "", "m3"))
    ledger = ledger_of(*taken, PermissionDecided(TURN, True, "m4"), PersonSaid("without a message"))
    assert dict(ledger.decided) == {gate: rejected}
    assert set(ledger.messages) == {"m1", "m2", "m3", "m4"}
    for moved in (False, True):
        again = ledger.enter(RunResumed(a_plan(), moved=moved))
        assert (again.decided, again.messages) == (ledger.decided, ledger.messages)
