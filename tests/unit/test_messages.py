"""What a person sends becomes one event, or is refused with a reason, wherever the driver dies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from logos.domain.events import (
    Event,
    GateDecided,
    GateOpened,
    Message,
    Noted,
    PermissionDecided,
    PersonEvent,
    PersonSaid,
    QuestionResolved,
    RunAbandoned,
    RunStarted,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnSent,
)
from logos.domain.gates import GateKind
from logos.domain.records import replace
from logos.domain.reports import Proposal
from logos.domain.specs import Question
from logos.domain.turns import AgentName, Outcome, RunId, TurnId
from logos.engine.journal import Journal
from logos.engine.messages import MessageTaker
from logos.errors import UsageError
from logos.flows.cycle.flow import Cycle
from logos.flows.fold import RunFold
from logos.flows.levels.flow import Levels
from logos.flows.persons import problem_with
from logos.testing import APPROVED, GOOD_ANALYSIS, MemoryInbox, MemoryLog
from tests.builders import a_quick_plan
from tests.levels_builders import a_levels_plan, read

RUN = RunId("k3ab2345")
GATE = TurnId("r1.gate.after_plan")
TURN = TurnId("r1.analyst.c1")
PLAN = a_quick_plan(gates=(GateKind.AFTER_PLAN,))
STARTED = RunStarted(PLAN)
ANALYSED: tuple[Event, ...] = (
    STARTED,
    *(TurnAsked(TURN, AgentName("analyst"), "prompt"), TurnSent(TURN), TurnAnswered(TURN, GOOD_ANALYSIS)),
    TurnAnswered(TurnId("r1.peer_analyst.c1"), APPROVED),
)
AT_GATE = (*ANALYSED, GateOpened(GATE, GateKind.AFTER_PLAN, "May the programmer begin?"))
APPROVE, REJECT = GateDecided(GATE, True), GateDecided(GATE, False, "it forgets the migration")


def fold_of(*events: Event) -> RunFold[Any]:
    log, fold = MemoryLog(), RunFold[Any](RUN, Cycle(PLAN))
    for number, event in enumerate(events):
        fold.add(log.append(RUN, event, number))
    return fold


# --- what fits


def test_an_open_gate_is_decided_once_and_who_comes_later_is_told_what_was_decided() -> None:
    fold = fold_of(*AT_GATE)
    assert fold.state.gate.id == GATE
    assert problem_with(APPROVE, fold) == problem_with(REJECT, fold) == ""
    later = fold_of(*AT_GATE, REJECT)
    assert problem_with(APPROVE, later) == (
        "somebody has already rejected r1.gate.after_plan: it forgets the migration"
    )
    assert problem_with(REJECT, fold_of(*AT_GATE, APPROVE)) == "somebody has already approved r1.gate.after_plan"


def test_a_gate_that_is_not_open_is_not_decided() -> None:
    assert "does not wait at a gate" in problem_with(APPROVE, fold_of(*ANALYSED))
    assert "does not wait at a gate" in problem_with(GateDecided(TurnId("r2.gate.after_plan"), True), fold_of(*AT_GATE))


@pytest.mark.parametrize("words", ["", "  \n"])
def test_a_rejection_needs_words(words: str) -> None:
    assert problem_with(GateDecided(GATE, False, words), fold_of(*AT_GATE)) == "a rejection needs a reason"


def test_a_permission_is_answered_only_while_the_agent_asks() -> None:
    asked = (STARTED, TurnAsked(TURN, AgentName("analyst"), "prompt"), TurnSent(TURN))
    asks = Noted(Topic.PERMISSION_ASKED, "terminal a1 waits for a person: run make?", TURN)
    answer = PermissionDecided(TURN, True)
    assert problem_with(answer, fold_of(*asked)) != ""
    assert problem_with(answer, fold_of(*asked, asks)) == ""
    assert problem_with(answer, fold_of(*asked, asks, answer)) != ""
    assert problem_with(PermissionDecided(TurnId("r1.tester.c1"), True), fold_of(*asked, asks)) != ""


def test_guidance_names_an_agent_that_exists() -> None:
    fold = fold_of(STARTED)
    for agent in (None, "analyst", "tester"):
        assert problem_with(PersonSaid("hello", agent and AgentName(agent)), fold) == ""
    assert "no agent 'L4': it has analyst, " in problem_with(PersonSaid("hello", AgentName("L4")), fold)
    assert problem_with(PersonSaid(" \n"), fold) == "the text is empty"


def test_guidance_is_for_levels_and_components_of_a_build() -> None:
    fold = RunFold[Any](RUN, Levels(a_levels_plan(), read))
    fold.add(MemoryLog().append(RUN, RunStarted(a_levels_plan()), 0))
    assert problem_with(PersonSaid("hello", AgentName("L4")), fold) == ""
    assert "no agent 'cart'" in problem_with(PersonSaid("hello", AgentName("cart")), fold)


def test_a_question_is_answered_by_one_of_its_options_or_in_words() -> None:
    fold = RunFold[Any](RUN, Levels(a_levels_plan(), read))
    assert problem_with(QuestionResolved("q1", 1, ""), fold) != ""
    question = Question("q1", "cents or euros?", (Proposal("cents"), Proposal("euros")))
    fold.state = replace(fold.state, question=question, outcome=Outcome.BLOCKED)
    assert problem_with(QuestionResolved("q1", 2, ""), fold) == ""
    assert problem_with(QuestionResolved("q1", 0, "neither"), fold) == ""
    assert problem_with(QuestionResolved("q1", 3, ""), fold).startswith("there is no option 3")
    assert problem_with(QuestionResolved("q1", 0, " "), fold) == "the decision is empty"
    assert problem_with(QuestionResolved("q0", 1, ""), fold) != ""
    assert "logos resolve" in problem_with(PersonSaid("use cents"), fold)


@pytest.mark.parametrize("event", [APPROVE, PersonSaid("hello"), PermissionDecided(TURN, True)])
def test_a_run_that_has_ended_takes_nothing(event: PersonEvent) -> None:
    assert problem_with(event, fold_of(*AT_GATE, RunAbandoned("reset"))) == f"run {RUN} has ended: ABANDONED"


# --- taking it


class Desk:
    """A run at its gate, its inbox, and drivers that take what is there."""

    def __init__(self) -> None:
        self.log, self.inbox = MemoryLog(), MemoryInbox()
        for number, event in enumerate(AT_GATE):
            self.log.append(RUN, event, number)

    def journal(self, run: RunId) -> Journal[Any]:
        if run not in self.log.runs():
            raise UsageError(f"there is no run {run}")
        fold = RunFold[Any](run, Cycle(PLAN))
        for record in self.log.read(run):
            fold.add(record)
        return Journal(self.log, fold)

    def take(self, inbox: Any = None, driven: RunId | None = RUN) -> None:
        MessageTaker(inbox or self.inbox, self.journal, driven).take()

    @property
    def said(self) -> list[Event]:
        return [record.event for record in self.log.read(RUN)][len(AT_GATE) :]


def test_a_message_becomes_an_event_with_its_id_and_is_removed() -> None:
    desk = Desk()
    message = desk.inbox.send(RUN, APPROVE)
    desk.take()
    assert desk.said == [replace(APPROVE, message=message.id)]
    assert desk.inbox.messages() == ()
    assert desk.inbox.refusal(message) is None


def test_of_two_persons_one_decides_and_the_other_is_told() -> None:
    desk = Desk()
    first, second = desk.inbox.send(RUN, REJECT), desk.inbox.send(RUN, APPROVE)
    desk.take()
    assert desk.said == [replace(REJECT, message=first.id)]
    assert desk.inbox.refusal(second) == "somebody has already rejected r1.gate.after_plan: it forgets the migration"


class Killed(Exception):
    pass


class DyingInbox:
    """An inbox whose driver is killed before or after it does something."""

    def __init__(self, real: MemoryInbox, act: str, *, after: bool) -> None:
        self._real, self._act, self._after = real, act, after

    def __getattr__(self, name: str) -> Callable[..., Any]:
        real = getattr(self._real, name)
        if name != self._act:
            return real

        def call(*values: Any) -> Any:
            if self._after:
                real(*values)
            raise Killed(name)

        return call


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("act", ["remove", "refuse", "messages"])
def test_a_driver_that_dies_anywhere_takes_nothing_twice_and_loses_nothing(act: str, after: bool) -> None:
    desk = Desk()
    sent = [desk.inbox.send(RUN, event) for event in (PersonSaid("one"), APPROVE, APPROVE, PersonSaid("two"))]
    deaths = 0
    while desk.inbox.messages():
        try:
            # Every driver dies at its first chance, until only another act is left to do.
            desk.take(DyingInbox(desk.inbox, act, after=after) if deaths < 2 * len(sent) else None)
        except Killed:
            deaths += 1
    assert deaths
    assert desk.said == [
        replace(cast("PersonSaid | GateDecided", message.event), message=message.id)
        for message in (sent[0], sent[1], sent[3])
    ]
    assert "already approved" in str(desk.inbox.refusal(sent[2]))


def test_a_message_for_a_run_that_is_not_there_is_refused() -> None:
    desk = Desk()
    message = desk.inbox.send(RunId("gone2345"), APPROVE)
    desk.take()
    assert desk.inbox.refusal(message) == "there is no run gone2345"
    assert desk.said == []


def test_a_permission_needs_the_driver_that_presses_the_key() -> None:
    desk = Desk()
    desk.log.append(RUN, Noted(Topic.PERMISSION_ASKED, "may I?", TURN), len(AT_GATE))
    message: Message = desk.inbox.send(RUN, PermissionDecided(TURN, True))
    desk.take(driven=None)
    assert "no driver is attached" in str(desk.inbox.refusal(message))
    message = desk.inbox.send(RUN, PermissionDecided(TURN, True))
    desk.take()
    assert desk.said[1:] == [PermissionDecided(TURN, True, message.id)]
