"""Builders for tests: plans, events, and a run driven without threads, files or time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings

from logos.domain.events import (
    CheckRan,
    Event,
    GateDecided,
    GateOpened,
    ProofRan,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
    WorkCompared,
)
from logos.domain.ledger import Ledger
from logos.domain.plans import CURRENT_RULES, CyclePlan, ReviewRules
from logos.domain.proof import CountedTests, ProofRules, ProofStep
from logos.domain.roles import Role
from logos.domain.turns import Agent, AgentName, Check, Compare, FailureKind, OpenGate, Prove, Turn, TurnId
from logos.flows import Flow, State
from logos.flows.cycle.flow import Cycle, CycleState
from logos.flows.gates import Gate

# How many times as many examples as in the quick suite.
_MORE = {"default": 1, "long": 5, "fuzz": 100}


def examples(count: int = 100) -> settings:
    """How many examples Hypothesis tries in the quick suite; the profile (tests/conftest.py) decides about the rest."""
    return settings(max_examples=count * _MORE.get(settings.get_current_profile_name(), 1))


AGENTS = tuple(Agent(AgentName(role), "codex", f"{role}-profile") for role in Role)


def a_plan(**changes: Any) -> CyclePlan:
    plan = CyclePlan(
        prompt="*** ORIGINAL EXPLORE SUMMARY ***\ngreet by name\n*** SCENARIO TEST ***\nrun it",
        explore="greet by name",
        scenario_test="run it",
        wd="/repo",
        response_dir="/repo/.tmp/agent-responses",
        agents=AGENTS,
        rules=CURRENT_RULES,
    )
    return replace(plan, **changes)


def a_quick_plan(**changes: Any) -> CyclePlan:
    """A plan in which the first approval counts, whatever its notes say."""
    return a_plan(**{"review": ReviewRules(min_cycles_before_approval=1, require_evidence=False), **changes})


def replay(flow: Flow[State], events: Iterable[Event]) -> State:
    """Fold events into a state."""
    state = flow.start()
    for event in events:
        state = flow.apply(state, event)
    return state


Answer = Callable[[TurnId, str], str]
RunCheck = Callable[[Check], int]


Decide = Callable[[Gate], GateDecided]


def approves(gate: Gate) -> GateDecided:
    return GateDecided(gate.id, approved=True)


def no_check(check: Check) -> int:
    raise AssertionError(f"nobody asked for the check {check.id}")


def proves(action: Prove, *, failed: tuple[str, ...] = (), problem: str = "") -> ProofRan:
    """A step of a proof as it is after honest work, unless told otherwise."""
    planted = ("test_canary.py::test_planted",) if action.step is ProofStep.CANARY else ()
    red = ("test_new.py::test_new",) if action.step is ProofStep.RED else ()
    tests = CountedTests("pytest", ("test_old.py::test_old",), (*failed, *planted, *red))
    commit, code = action.result or action.base, 1 if tests.failed else 0
    command = action.rules.command
    return ProofRan(action.id, action.step, commit, "7ree", command, code, tests, "output", planted, problem)


BASELINE = proves(Prove(TurnId("baseline"), ProofStep.BASELINE, ProofRules("pytest"), "c0ffee0"))


class Endless(AssertionError):
    """A run that goes on past its bound."""


@dataclass(frozen=True, slots=True)
class Driven:
    """A run that was driven purely: every event of it, and the state after the last."""

    events: tuple[Event, ...]
    state: CycleState

    @property
    def asked(self) -> list[str]:
        return [event.turn for event in self.events if isinstance(event, TurnAsked)]

    @property
    def gates(self) -> list[str]:
        return [event.gate for event in self.events if isinstance(event, GateOpened)]

    @property
    def answered(self) -> dict[str, str]:
        return {event.turn: event.text for event in self.events if isinstance(event, TurnAnswered)}

    @property
    def checks(self) -> list[CheckRan]:
        return [event for event in self.events if isinstance(event, CheckRan)]


def drive_purely(
    flow: Cycle,
    answer: Answer,
    check: RunCheck = no_check,
    *,
    changed: Callable[[TurnId], tuple[str, ...] | None] = lambda _turn: None,
    tree: Callable[[TurnId], str] = lambda _turn: "",
    commit: Callable[[TurnId], str] = lambda _turn: "c0ffee1",
    prove: Callable[[Prove], ProofRan] = proves,
    decide: Decide = approves,
    prompt: Callable[[Turn], str] = lambda turn: f"prompt of {turn.id}",
    before: Iterable[Event] = (),
    at_most: int = 500,
    until: Callable[[CycleState], bool] = lambda _state: False,
) -> Driven:
    """Take what is due and apply what becomes of it, from after `before` to the outcome.

    `answer` gives an agent's text for (turn, answer name), `check` a command's exit code, `changed` the files of a
    comparison, `tree` their digest, `commit` their snapshot, `decide` what a person says at an open gate.
    """
    events = list(before)
    state = replay(flow, events)
    ledger = Ledger()
    for event in events:
        ledger = ledger.enter(event)

    def happen(event: Event) -> None:
        nonlocal state, ledger
        events.append(event)
        state, ledger = flow.apply(state, event), ledger.enter(event)

    errands = 0
    while state.outcome is None and not until(state):
        if state.gate is not None:
            assert flow.due(state) == ()
            happen(decide(state.gate))
            continue
        (action,) = flow.due(state)
        errands += 1
        if errands > at_most:
            raise Endless(f"not done after {at_most} errands; now at {action.id}")
        match action:
            case Check():
                happen(CheckRan(action.id, action.command, check(action), "the output of the check"))
            case Compare():
                happen(WorkCompared(action.id, changed(action.id), commit(action.id), tree(action.id)))
            case Prove():
                happen(prove(action))
            case OpenGate():
                happen(GateOpened(action.id, action.at, action.question))
            case Turn():
                hand = ledger.in_flight.get(action.id)
                if hand is None:
                    happen(TurnAsked(action.id, action.agent, prompt(action)))
                if hand is None or not hand.sent:
                    happen(TurnSent(action.id))
                happen(TurnAnswered(action.id, answer(action.id, action.answer)))
    return Driven(tuple(events), state)


def a_failure(turn: str, message: str = "its provider reports: API Error: 500") -> TurnFailed:
    return TurnFailed(TurnId(turn), FailureKind.PROVIDER, message)
