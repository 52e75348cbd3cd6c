"""The levels, whatever the agents say and in whatever order: they end, they agree with themselves, nothing is asked twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from hypothesis import event as seen
from hypothesis import example, given
from hypothesis import strategies as st

from logos.domain.events import (
    CheckRan,
    Event,
    GateDecided,
    Noted,
    QuestionResolved,
    RunEnded,
    RunResumed,
    RunStarted,
    TerminalClosed,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
    WorkGathered,
    WorkMerged,
)
from logos.domain.gates import GateKind
from logos.domain.levels import Level
from logos.domain.plans import CURRENT_RULES, LevelsPlan
from logos.domain.reports import (
    ActionKind,
    Change,
    Component,
    Constraint,
    Failure,
    NextAction,
    Proposal,
    TurnKind,
    Verdict,
)
from logos.domain.specs import ContentConflict, Tool, TouchedFile
from logos.domain.turns import Action, AgentName, Check, FailureKind, Gather, Merge, Outcome, TerminalId, Turn, TurnId
from logos.flows.gates import Gate
from logos.flows.levels.flow import Levels
from logos.flows.levels.state import LevelsState
from tests.builders import examples, replay
from tests.levels_builders import (
    TELOS,
    Built,
    World,
    a_component,
    a_report,
    answered_by_a_person,
    drive_levels,
    read,
    touched_by,
    written,
)

# The first is what a good agent does.
_BEHAVIOURS: dict[TurnKind, tuple[str, ...]] = {
    TurnKind.DECOMPOSE: ("well", "refused", "hand_back", "hand_back", "ask_person", "divide", "divide", "useless"),
    TurnKind.AUTHOR: ("well", "refused", "ask_person", "constraint", "clash", "useless"),
    TurnKind.LINT: ("well", "refused", "ask_person", "useless"),
    TurnKind.VALIDATE: ("well", "refused", "ask_person", "fail", "fail", "fail", "useless"),
    TurnKind.POSITION: ("well", "refused", "ask_person", "useless"),
    TurnKind.PROPOSE: ("well", "refused", "ask_person", "code", "purpose", "nobody", "little", "little"),
    TurnKind.AGREE: ("well", "refused", "ask_person", "object", "object", "useless"),
    TurnKind.ALIGN: ("well", "refused", "ask_person", "misaligned", "misaligned", "useless"),
}
_FATES = 61


@dataclass(frozen=True)
class Fated(World):
    """A world in which everything is chosen once, by the id of the errand, whenever it happens."""

    plan: LevelsPlan = field(kw_only=True)
    divisions: tuple[tuple[Component, ...], ...] = field(kw_only=True)
    fates: Mapping[int, int] = field(kw_only=True)

    def pick(self, what: str, among: Sequence[Any]) -> Any:
        return among[self.fates.get(crc32(what.encode()) % _FATES, 0) % len(among)]

    def answer(self, turn: Turn) -> str:
        behaviour = self.pick(turn.id, _BEHAVIOURS[TurnKind(turn.document)])
        if behaviour == "refused" or self.pick(turn.agent, _BEHAVIOURS[TurnKind(turn.document)]) == "useless":
            return f"{turn.id} says nothing of use"
        level = Level[turn.agent_def]
        divided = {"components": self.divisions[0]} if level is Level.L3 and turn.document == TurnKind.DECOMPOSE else {}
        return written(a_report(turn, **{**divided, **self.changes(behaviour, turn, level)}))

    def changes(self, behaviour: str, turn: Turn, level: Level) -> dict[str, Any]:
        names = tuple(name for name in str(turn.facts["components"]).split(", ") if name)
        some = self.plan.levels
        match behaviour:
            case "hand_back" if level is Level.L9:
                return {"verdict": Verdict.MISALIGNED, "violation": "not this", "alternatives": ("that",)}
            case "hand_back":
                return {"next": NextAction(ActionKind.HAND_BACK, self.pick(f"{turn.id} to", tuple(Level)), "unclear")}
            case "ask_person":
                return {"next": NextAction(ActionKind.ASK_PERSON, why=f"{turn.id} wants to know")}
            case "divide" if level is Level.L3:
                return {"components": self.pick(f"{turn.id} into", self.divisions)}
            case "constraint":
                journeys = self.pick(f"{turn.id} journeys", (False, True))
                affects = self.pick(f"{turn.id} affects", ((), (Level.L8,), (Level.L3, Level.L6)))
                return {"constraint": Constraint("it cannot be", affects, journeys), "files": (), "tests": ()}
            case "clash":
                return {"provides": ("the same",)}
            case "fail":
                against = self.pick(f"{turn.id} against", ((), (Level.L4,), (Level.L9, Level.L1)))
                return {"verdict": Verdict.FAIL, "failures": (Failure("it is not so", conflicts_with=against),)}
            case "code":
                return {"proposal": Proposal("code", (Change(Level.L2, "other"),), names[:1])}
            case "purpose":
                return {"proposal": Proposal("purpose", (Change(some[0], "new"), Change(some[-1], "new")), names)}
            case "nobody":
                return {"proposal": Proposal("nobody", (Change(Level.L1, "x"), Change(Level.L7, "x")), ("ghost",))}
            case "little":
                return {"proposal": Proposal("little", (Change(self.pick(f"{turn.id} at", some), "new"),), ())}
            case "object":
                return {"verdict": Verdict.OBJECT, "objection": f"{turn.id} objects"}
            case "misaligned":
                return {"verdict": Verdict.MISALIGNED, "violation": "no", "alternatives": ("other",)}
            case _:
                return {}

    def gather(self, gather: Gather) -> WorkGathered:
        what = self.pick(gather.id, ("well", "problems", "same path"))
        told = super().gather(gather)
        if what == "problems":
            return replace(told, problems=("nothing was changed",))
        if what == "same path" and told.touched:
            return replace(told, touched=(*touched_by(gather.place.name), TouchedFile("shared.py", f"by {gather.id}")))
        return told

    def merge(self, merge: Merge) -> WorkMerged:
        clash = ContentConflict("merge", tuple(name for name, _ in merge.contributions[:2]), "a.py")
        found = self.pick(merge.id, ((), (clash,)))
        return WorkMerged(merge.id, merge.onto if found else f"all of {merge.id}", found)

    def check(self, check: Check) -> CheckRan:
        return CheckRan(check.id, check.command, self.pick(check.id, (0, 1)), "output")


_NAMES = ("ant", "bee", "cat", "dog", "elk", "fox")


@st.composite
def divisions(draw: st.DrawFn) -> tuple[Component, ...]:
    """One to six components that depend on each other without a circle, named in any order."""
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=6, unique=True))
    made = [a_component(name, *draw(_some_of(names[:place]))) for place, name in enumerate(names)]
    return tuple(draw(st.permutations(made)))


def _some_of(names: Sequence[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), max_size=3, unique=True) if names else st.just([])


@st.composite
def plans(draw: st.DrawFn) -> LevelsPlan:
    taking = {Level.L2, *draw(st.one_of(st.just(list(Level)), st.lists(st.sampled_from(list(Level)), unique=True)))}
    tools = draw(st.sampled_from(((), _TOOLS[:2], _TOOLS)))
    return LevelsPlan(
        "greet",
        "/repo",
        "base",
        draw(st.sampled_from(((), TELOS))),
        levels=tuple(sorted(taking, reverse=True)),
        tools=tools,
        max_parallel=draw(st.integers(1, 4)),
        max_reconciliations=draw(st.integers(0, 3)),
        max_rounds=draw(st.integers(1, 3)),
        gates=tuple(draw(st.lists(st.sampled_from(GateKind), unique=True))),
        rules=CURRENT_RULES,
    )


_TOOLS = (
    Tool(Level.L1, "ruff", "ruff check"),
    Tool(Level.L2, "pytest", "pytest"),
    Tool(Level.L2, "mypy", "mypy"),
    Tool(Level.L5, "playwright", "playwright"),
)


@dataclass(frozen=True)
class RunView:
    """A plan with a world that answers it the same way in whatever order it is asked."""

    flow: Levels
    world: Fated

    def told(self, **how: Any) -> Built:
        return drive_levels(self.flow, self.world, decide=self.decide, **how)

    def decide(self, gate: Gate) -> GateDecided:
        approved = self.world.pick(gate.id, (True, False))
        return GateDecided(gate.id, approved, "" if approved else "not so")


@st.composite
def stories(draw: st.DrawFn) -> RunView:
    plan = draw(plans())
    divided = tuple(draw(st.lists(divisions(), min_size=1, max_size=3)))
    fates = draw(st.dictionaries(st.integers(0, _FATES - 1), st.integers(1, 50), max_size=25))
    world = Fated(plan=plan, divisions=divided, fates=fates)
    return RunView(Levels(plan, read), world)


orders = st.lists(st.integers(0, 1000), min_size=1, max_size=30).map(
    lambda turns: lambda waiting: turns[(len(waiting) * 7 + sum(map(len, waiting))) % len(turns)]
)


# One component, one round, and two levels that object to the proposal.
_ONE_ROUND = LevelsPlan("greet", "/repo", "base", (), max_reconciliations=1, max_rounds=1, rules=CURRENT_RULES)
THE_LAST_ROUND_ENDS_IN_A_QUESTION = RunView(
    Levels(_ONE_ROUND, read),
    Fated(plan=_ONE_ROUND, divisions=((a_component("ant"),),), fates={0: 1, 1: 1, 27: 1, 2: 1, 52: 27}),
)


# Without L9, the last vote ends a reconciliation.
_WITHOUT_L9 = LevelsPlan(
    *("greet", "/repo", "base", ()),
    levels=(Level.L6, Level.L5, Level.L2, Level.L1),
    tools=_TOOLS,
    max_parallel=2,
    max_reconciliations=1,
    max_rounds=1,
    rules=CURRENT_RULES,
)
THE_LAST_VOTE_DECIDES = RunView(
    Levels(_WITHOUT_L9, read), Fated(plan=_WITHOUT_L9, divisions=((a_component("ant"),),), fates={7: 1})
)


class WaitState:
    """What must hold whenever something is due."""

    def __init__(self, flow: Levels) -> None:
        self.flow = flow
        self.in_flight: set[TurnId] = set()
        self.done: set[TurnId] = set()
        self.keys: set[frozenset[str]] = set()

    def __call__(self, state: LevelsState, due: tuple[Action, ...]) -> None:
        ids = [action.id for action in due]
        turns = [action for action in due if isinstance(action, Turn)]
        assert len(ids) == len(set(ids))
        assert len(turns) <= state.plan.max_parallel
        now = {turn.id for turn in turns}
        answered = {ask.turn for ask in state.pending_turns}
        assert not now & self.done, "due again after it was answered"
        assert {turn for turn in self.in_flight if turn in answered} <= now, "in hand, wanted, and not due"
        self.done |= self.in_flight - now
        self.in_flight = now
        for turn in turns:
            self.keys.add(frozenset(turn.facts))
            assert all(isinstance(fact, str | int | bool) for fact in turn.facts.values())
        assert len(self.keys) <= 1


@given(stories(), orders)
@examples(50)
def test_whatever_agents_say_a_build_ends_within_its_bound_and_asks_nothing_twice(story: RunView, order: Any) -> None:
    built = story.told(order=order, watch=WaitState(story.flow))

    seen(f"{built.state.outcome} in sweep {built.state.sweep}")
    assert built.state.outcome is not None
    assert len(built.asked) == len(set(built.asked))
    assert story.flow.due(built.state) == ()
    if built.state.outcome is Outcome.PASSED:
        _everything_is_in(built.state)
        _what_was_decided_was_done(built)


def _everything_is_in(state: LevelsState) -> None:
    assert all(contribution.merged for contribution in state.contributions.values())
    assert {name: contribution.component for name, contribution in state.contributions.items()} == {
        component.name: component for component in state.components
    }


def _what_was_decided_was_done(built: Built) -> None:
    for sweep, settled in enumerate(built.state.settled, start=2):
        for name in {*settled.proposal.rework, *settled.parties} & {own.name for own in built.state.components}:
            later = {f"s{after}.L2.{name}.author" for after in range(sweep, built.state.sweep + 1)}
            assert later & {*built.asked}, f"{name} was to be worked on again since sweep {sweep}"


@example(story=THE_LAST_ROUND_ENDS_IN_A_QUESTION, order=lambda _waiting: 1, eager=True)
@example(story=THE_LAST_VOTE_DECIDES, order=lambda _waiting: 1, eager=False)
@given(stories(), orders, st.booleans())
@examples(30)
def test_in_whatever_order_agents_answer_the_final_state_is_the_same(story: RunView, order: Any, eager: bool) -> None:
    one, other = story.told(), story.told(order=order, eager=eager)

    assert other.settled_state == one.settled_state
    assert sorted(other.asked) == sorted(one.asked)


@given(stories(), orders, st.integers(0, 10_000))
@examples(20)
def test_a_driver_that_dies_anywhere_changes_nothing(story: RunView, order: Any, at: int) -> None:
    whole = story.told()
    events = story.told(order=order).events
    resumed = RunResumed(story.flow.plan)

    again = story.told(order=order, before=(*events[: at % (len(events) + 1)], resumed))

    assert again.settled_state == whole.settled_state


@given(stories(), orders, st.integers(0, 10_000))
@examples(20)
def test_a_turn_that_fails_and_is_resumed_changes_nothing(story: RunView, order: Any, at: int) -> None:
    whole = story.told(order=order)
    asked = [place for place, event in enumerate(whole.events) if isinstance(event, TurnAsked)]
    place = asked[at % len(asked)]
    event = whole.events[place]
    assert isinstance(event, TurnAsked)
    failed = TurnFailed(event.turn, FailureKind.PROVIDER, "API Error: 500")
    before = (*whole.events[: place + 1], failed)

    stalled = replay(story.flow, before)
    assert stalled.stalled == "API Error: 500"
    assert story.flow.due(stalled) == ()
    again = story.told(order=order, before=(*before, RunResumed(story.flow.plan)))

    assert again.settled_state == whole.settled_state


@given(stories(), orders, st.integers(0, 3), st.sampled_from(("", "do it so")))
@examples(25)
def test_a_blocked_build_goes_on_when_a_person_answers(story: RunView, order: Any, option: int, text: str) -> None:
    built, watch = story.told(), WaitState(story.flow)
    for _ in range(4):
        state = built.state
        if state.outcome is not Outcome.BLOCKED:
            return
        assert state.question is not None
        assert state.question.text
        wrong = QuestionResolved(f"{state.question.id}x", option, text)
        assert story.flow.apply(state, wrong) == state
        answer = answered_by_a_person(state, text, option)
        after = story.flow.apply(state, answer)
        assert after.outcome is not Outcome.BLOCKED
        assert story.flow.due(after) or after.outcome is not None
        assert story.flow.apply(after, answer) == after
        built = story.told(order=order, watch=watch, before=(*built.events, RunEnded(Outcome.BLOCKED), answer))
        assert len(built.asked) == len(set(built.asked))


_UNKNOWN = TurnId("s0.nobody")
_STRAY: tuple[Event, ...] = (
    TurnSent(_UNKNOWN),
    TurnAnswered(_UNKNOWN, "a word"),
    TurnFailed(_UNKNOWN, FailureKind.DIED, "it died"),
    CheckRan(_UNKNOWN, "true", 0, ""),
    CheckRan(_UNKNOWN, "false", 1, ""),
    WorkGathered(_UNKNOWN, "ant", "c1"),
    WorkGathered(_UNKNOWN, "main", "c1"),
    WorkGathered(TurnId("s1.L2.ant.author.gather"), "nowhere", "c1"),
    WorkMerged(_UNKNOWN, "c1"),
    WorkMerged(_UNKNOWN, "c1", (ContentConflict("merge", ("ant",), "a.py"),)),
    QuestionResolved("s0.q0", 1, "no"),
    Noted(Topic.WARNING, "look"),
    TerminalOpened(AgentName("a"), TerminalId("t"), "codex", "s"),
    TerminalClosed(AgentName("a"), TerminalId("t")),
    RunEnded(Outcome.FAILED),
)


@given(stories(), orders)
@examples(8)
def test_what_nobody_waits_for_changes_nothing(story: RunView, order: Any) -> None:
    def undisturbed(state: LevelsState, _due: tuple[Action, ...]) -> None:
        for event in (*_STRAY, RunStarted(story.flow.plan), RunResumed(story.flow.plan)):
            after = story.flow.apply(state, event)
            assert after is state or after == state, event

    built = story.told(order=order, watch=undisturbed)

    known = [event for event in built.events if not isinstance(event, TurnAsked | TurnSent)]
    for event in (*_STRAY, *known):
        assert story.flow.apply(built.state, event) == built.state, event


@given(stories(), orders, st.integers(0, 10_000))
@examples(12)
def test_settings_changed_at_a_resume_never_leave_a_build_with_nothing_to_do(
    story: RunView, order: Any, at: int
) -> None:
    events = story.told(order=order).events
    other = replace(story.flow.plan, tools=(), max_parallel=1, max_rounds=1, telos=())

    again = story.told(order=order, before=(*events[: at % (len(events) + 1)], RunResumed(other)))

    assert again.state.outcome is not None
