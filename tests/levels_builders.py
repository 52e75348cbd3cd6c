"""Builders for tests of the levels: reports as texts, work that nobody did, and a build driven without threads or files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from logos.adapters.reports.records import MAX_COMPONENTS
from logos.domain.events import (
    CheckRan,
    Event,
    GateDecided,
    GateOpened,
    QuestionResolved,
    TurnAnswered,
    TurnAsked,
    TurnSent,
    WorkCompared,
    WorkGathered,
    WorkMerged,
)
from logos.domain.levels import LEVELS, Level
from logos.domain.plans import CURRENT_RULES, LevelsPlan
from logos.domain.reports import Change, Component, Finding, Proposal, Refused, Report, Section, TurnKind, Verdict
from logos.domain.specs import ContentConflict, Tool, TouchedFile
from logos.domain.turns import Action, Check, Compare, Gather, Merge, OpenGate, Prove, Turn
from logos.flows.levels.descent import HAND_BACKS
from logos.flows.levels.flow import ATTEMPTS, Levels
from logos.flows.levels.state import MAIN, LevelsState
from tests.builders import Decide, approves, proves, replay

TELOS = tuple((level, f"what is known at {level.name}") for level in sorted(Level, reverse=True))
TOOLS = (
    Tool(Level.L1, "ruff", "ruff check"),
    Tool(Level.L2, "pytest", "pytest -q"),
)


def a_levels_plan(*levels: Level, **changes: Any) -> LevelsPlan:
    """All nine levels unless some are named."""
    plan = LevelsPlan("greet by name", "/repo", "base", TELOS, tools=TOOLS, rules=CURRENT_RULES)
    return replace(plan, **({"levels": tuple(sorted(levels, reverse=True))} if levels else {}), **changes)


def turns_at_most(plan: LevelsPlan) -> int:
    """Upper bound of turns, whatever the agents answer; each answer of a person may add as many."""
    downward = len([level for level in plan.levels if level >= Level.L3]) * (1 + HAND_BACKS)
    dispute = len(plan.levels) + plan.max_rounds * (len(plan.levels) + 1)
    sweep = downward + MAX_COMPONENTS + 1 + len(plan.levels) + dispute
    return ATTEMPTS * sweep * (plan.max_reconciliations + 1)


def a_component(name: str, *depends_on: str, **changes: Any) -> Component:
    return Component(name, f"what {name} is for", (f"src/{name}.py",), depends_on=depends_on, **changes)


# A report as a text is its repr; every other text is no report.
_WRITTEN: dict[str, Report] = {}


def written(report: Report) -> str:
    _WRITTEN[repr(report)] = report
    return repr(report)


def read(kind: TurnKind, level: Level, text: str) -> Report | Refused:
    report = _WRITTEN.get(text)
    if report is None:
        return Refused((f"this is no report: {text}",))
    wrong = (report.kind, report.level) != (kind, level)
    return Refused((f"this is a report of {report.level.name} {report.kind}",)) if wrong else report


def flow_of(*levels: Level, **changes: Any) -> Levels:
    return Levels(a_levels_plan(*levels, **changes), read)


_VERDICTS = {TurnKind.VALIDATE: Verdict.PASS, TurnKind.AGREE: Verdict.AGREE, TurnKind.ALIGN: Verdict.ALIGNED}


def a_report(turn: Turn, **changes: Any) -> Report:
    """What a good agent answers a turn."""
    level, kind, name = Level[turn.agent_def], TurnKind(turn.document), str(turn.facts["component"])
    report = Report(kind, level, f"{turn.id} is done", results=(Finding("looked at", "pass", f"by {turn.id}"),))
    return replace(report, **{**_DEFAULTS[kind](turn, level, name), **changes})


def _decomposed(turn: Turn, level: Level, _name: str) -> dict[str, Any]:
    spec = tuple(Section(section, f"{section} by {turn.id}") for section in LEVELS[level].sections)
    verdict = {"verdict": Verdict.ALIGNED} if level is Level.L9 else {}
    return {"spec": spec, **verdict, **({"components": (a_component("one"),)} if level is Level.L3 else {})}


def _authored(turn: Turn, _level: Level, name: str) -> dict[str, Any]:
    return {
        "spec": (Section("behaviour", f"behaviour by {turn.id}"),),
        "files": (f"src/{name}.py",),
        "tests": (f"tests/test_{name}.py",),
    }


def _proposed(turn: Turn, level: Level, _name: str) -> dict[str, Any]:
    names = tuple(name for name in str(turn.facts["components"]).split(", ") if name)
    return {"proposal": Proposal(f"proposal of {turn.id}", (Change(level, f"changed by {turn.id}"),), names)}


def _judged(turn: Turn, _level: Level, _name: str) -> dict[str, Any]:
    return {"verdict": _VERDICTS[TurnKind(turn.document)]}


_DEFAULTS: Mapping[TurnKind, Callable[[Turn, Level, str], dict[str, Any]]] = {
    TurnKind.DECOMPOSE: _decomposed,
    TurnKind.AUTHOR: _authored,
    TurnKind.LINT: lambda _turn, _level, _name: {},
    TurnKind.VALIDATE: _judged,
    TurnKind.POSITION: lambda turn, _level, _name: {"position": f"position of {turn.id}"},
    TurnKind.PROPOSE: _proposed,
    TurnKind.AGREE: _judged,
    TurnKind.ALIGN: _judged,
}

Reply = str | Mapping[str, Any] | Callable[[Turn], str]


def touched_by(name: str) -> tuple[TouchedFile, ...]:
    """What an author of this component changes when it minds its own business."""
    return (TouchedFile(f"src/{name}.py", f"blob of {name}", (f"{name}_of",)),)


@dataclass(frozen=True)
class World:
    """What agents say and leave behind, by the id of the errand; whoever is not named does well.

    A reply is a raw text, changes to a good report, or a function of the turn.
    """

    replies: Mapping[str, Reply] = field(default_factory=dict)
    touched: Mapping[str, tuple[TouchedFile, ...]] = field(default_factory=dict)
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    clashes: Mapping[str, tuple[ContentConflict, ...]] = field(default_factory=dict)
    exits: Mapping[str, int] = field(default_factory=dict)
    division: tuple[Component, ...] = ()

    def answer(self, turn: Turn) -> str:
        divides = self.division and (turn.agent_def, turn.document) == (Level.L3.name, TurnKind.DECOMPOSE)
        reply = self.replies.get(turn.id, dividing(*self.division) if divides else {})
        if isinstance(reply, str):
            return reply
        return written(a_report(turn, **reply)) if isinstance(reply, Mapping) else reply(turn)

    def gather(self, gather: Gather) -> WorkGathered:
        name = gather.place.name
        touched = self.touched.get(gather.id, self.touched.get(name, () if name == MAIN else touched_by(name)))
        return WorkGathered(gather.id, name, f"work of {gather.id}", touched, self.problems.get(gather.id, ()))

    def merge(self, merge: Merge) -> WorkMerged:
        found = self.clashes.get(merge.id, ())
        return WorkMerged(merge.id, merge.onto if found else f"all of {merge.id}", found)

    def check(self, check: Check) -> CheckRan:
        return CheckRan(check.id, check.command, self.exits.get(check.id, 0), f"output of {check.id}")


def dividing(*components: Component) -> dict[str, Any]:
    """What L3 says to have these components built."""
    return {"components": components}


Order = Callable[[Sequence[str]], int]


def first(_waiting: Sequence[str]) -> int:
    return 0


def last(waiting: Sequence[str]) -> int:
    return len(waiting) - 1


class Endless(AssertionError):
    """A build that goes on past its bound."""


class Deadlock(AssertionError):
    """A build without an outcome in which nothing is due."""


@dataclass(frozen=True, slots=True)
class Built:
    """A build that was driven purely: its events, the errands it asked for as they first were, and its last state."""

    events: tuple[Event, ...]
    errands: Mapping[str, Action]
    state: LevelsState

    @property
    def gates(self) -> list[str]:
        return [event.gate for event in self.events if isinstance(event, GateOpened)]

    @property
    def asked(self) -> list[str]:
        return [event.turn for event in self.events if isinstance(event, TurnAsked)]

    @property
    def happened(self) -> list[str]:
        """The errand of each event, in the order in which they came."""
        return [str(getattr(event, "turn", "")) for event in self.events]

    def turn(self, turn: str) -> Turn:
        found = self.errands[turn]
        assert isinstance(found, Turn)
        return found

    def facts(self, turn: str) -> Mapping[str, Any]:
        return self.turn(turn).facts

    @property
    def turns(self) -> list[Turn]:
        return [action for action in self.errands.values() if isinstance(action, Turn)]

    @property
    def settled_state(self) -> LevelsState:
        """The state without what depends on the moment."""
        return lasting(self.state)


def lasting(state: LevelsState) -> LevelsState:
    return replace(state, started=frozenset(), stalled=None, trouble=None)


def drive_levels(
    flow: Levels,
    world: World | None = None,
    *,
    order: Order = first,
    before: Iterable[Event] = (),
    eager: bool = True,
    decide: Decide = approves,
    prompt: Callable[[Turn], str] = lambda _turn: "prompt",
    until: Callable[[LevelsState], bool] = lambda _state: False,
    watch: Callable[[LevelsState, tuple[Action, ...]], None] = lambda _state, _due: None,
) -> Built:
    """Start whatever is due and let `order` choose whose event comes next, from after `before` to the outcome.

    Eager: a turn counts as asked as soon as it is due; else being asked and being answered are events like others.
    """
    world, events = world or World(), list(before)
    state = replay(flow, events)
    asked = {event.turn for event in events if isinstance(event, TurnAsked)}
    errands: dict[str, Action] = {}
    busy: dict[str, Action] = {}

    def happen(*happened: Event) -> None:
        nonlocal state
        for event in happened:
            events.append(event)
            state = flow.apply(state, event)

    def ask(turn: Turn) -> None:
        asked.add(turn.id)
        persons = sum(isinstance(event, QuestionResolved | GateDecided) for event in events)
        bound = turns_at_most(flow.plan) * (1 + persons)
        if len(asked) > bound:
            raise Endless(f"{len(asked)} turns, and only {bound} are allowed; now {turn.id}")
        happen(TurnAsked(turn.id, turn.agent, prompt(turn)), TurnSent(turn.id))

    while state.outcome is None and state.stalled is None and not until(state):
        due = flow.due(state)
        watch(state, due)
        if state.gate is not None:
            assert due == ()
            happen(decide(state.gate))
            continue
        if not due:
            raise Deadlock(f"nothing is due in {state.stage} at {state.level.name} after {events[-3:]}")
        for action in due:
            busy.setdefault(action.id, action)
            errands.setdefault(action.id, action)
            if eager and isinstance(action, Turn) and action.id not in asked:
                ask(action)
        waiting = sorted(busy)
        chosen = busy[waiting[order(waiting) % len(waiting)]]
        if isinstance(chosen, Turn) and chosen.id not in asked:
            ask(chosen)
            continue
        del busy[chosen.id]
        happen(_done(chosen, world))
    return Built(tuple(events), errands, state)


def _done(action: Action, world: World) -> Event:
    match action:
        case Turn():
            return TurnAnswered(action.id, world.answer(action))
        case Gather():
            return world.gather(action)
        case Merge():
            return world.merge(action)
        case Check():
            return world.check(action)
        case Compare():
            return WorkCompared(action.id, ("a.py", "test_new.py"), "c0ffee1")
        case Prove():
            return proves(action)
        case OpenGate():
            return GateOpened(action.id, action.at, action.question)


def answered_by_a_person(state: LevelsState, text: str = "do as you think best", option: int = 0) -> QuestionResolved:
    assert state.question is not None
    return QuestionResolved(state.question.id, option, text)
