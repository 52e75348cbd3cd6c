"""Forks: from any event of any run another can go on, as the first would have, and nothing is asked of anybody twice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zlib import crc32

import pytest
from hypothesis import event as seen
from hypothesis import given
from hypothesis import strategies as st

from logos.adapters.store.sqlite import SqliteLog
from logos.domain.events import (
    CheckRan,
    Event,
    GateDecided,
    GateOpened,
    Noted,
    QuestionResolved,
    Recorded,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    TerminalClosed,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
    WorkCompared,
    WorkGathered,
    WorkMerged,
)
from logos.domain.ledger import Ledger
from logos.domain.levels import Level
from logos.domain.plans import CyclePlan, CycleSeed, OnExhausted, ReviewRules
from logos.domain.reports import ActionKind, NextAction, TurnKind
from logos.domain.roles import RESPONSE_FILES, ROLE_DEFS, Role
from logos.domain.specs import TouchedFile
from logos.domain.turns import (
    Action,
    AgentName,
    Check,
    Compare,
    FailureKind,
    Gather,
    Merge,
    OpenGate,
    Outcome,
    Prove,
    RunId,
    TerminalId,
    Turn,
    TurnId,
    Worktree,
)
from logos.domain.usage import Usage
from logos.errors import LogConflict, LogDamaged
from logos.flows import Flow
from logos.flows.cycle.briefing import EXPLORE_BACK_REFERENCE, UPSTREAM_BACK_REFERENCE
from logos.flows.cycle.flow import Cycle, CycleState
from logos.flows.gates import Gate
from logos.flows.levels.flow import Levels
from logos.flows.levels.state import MAIN, LevelsState, Stage
from logos.ports import Log
from logos.prompts import PLACEHOLDER, render, standing_rules
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, GOOD_PROGRAM, PASS, REVISE, MemoryLog
from logos.views import build_state
from tests.builders import a_plan, a_quick_plan, drive_purely, examples, proves, replay
from tests.levels_builders import World, a_component, a_levels_plan, drive_levels, flow_of, read, touched_by
from tests.unit.test_cycle_flow import POOL, outputs, seeds
from tests.unit.test_cycle_flow import plans as cycle_plans
from tests.unit.test_levels_properties import RunView, stories

PARENT = RunId("parent")
# What a person does not answer any more.
QUESTIONS = 3


# --- lives: runs with everything that may happen to them


@dataclass(frozen=True)
class Fate:
    """Chosen once, by name, whenever it happens."""

    fates: Mapping[int, int]

    def pick(self, what: str, among: Sequence[Any]) -> Any:
        return among[self.fates.get(crc32(what.encode()) % 61, 0) % len(among)]


fates = st.dictionaries(st.integers(0, 60), st.integers(1, 50), max_size=20).map(Fate)
MISHAPS = ("", "fails", "is lost", "is reminded", "waits", "")
Do = Callable[[Action], Event]
Looking = Callable[[Any, tuple[Action, ...]], None]
Watching = Callable[[Any, Ledger, Turn], None]


class Life:
    """A run that is driven purely, event by event, with its mishaps; a stalled one is resumed, a person answers."""

    def __init__(self, flow: Flow[Any], do: Do, fate: Fate, before: Sequence[Event]) -> None:
        self.flow, self.do, self.fate = flow, do, fate
        self.events: list[Event] = []
        self.state: Any = flow.start()
        self.ledger = Ledger()
        self.suffered: set[str] = set()
        for event in before:
            self.happen(event)

    def happen(self, event: Event) -> None:
        self.events.append(event)
        self.state, self.ledger = self.flow.apply(self.state, event), self.ledger.enter(event)

    def live(self, watch: Watching = lambda *_: None, look: Looking = lambda *_: None, at_most: int = 6000) -> Life:
        """To the end; `look` sees all that is due, `watch` every turn before it is asked."""
        while len(self.events) < at_most:
            due = self.flow.due(self.state)
            look(self.state, due)
            if self.state.outcome is not None:
                assert due == ()
                if not self._answered():
                    return self
            elif self.state.gate is not None:
                assert due == ()
                self._decide(self.state.gate)
            elif not due:
                assert self.state.stalled is not None, "no outcome, nothing due, and nobody stalled"
                self.happen(RunResumed(self.state.plan))
            else:
                self._go_on(self.fate.pick(f"next {len(self.events)}", due), watch)
        raise AssertionError(f"not done after {at_most} events")

    def _decide(self, gate: Gate) -> None:
        approved = self.fate.pick(gate.id, (True, False))
        self.happen(GateDecided(gate.id, approved, "" if approved else "not so"))

    def _answered(self) -> bool:
        """Whether a person's word made it go on."""
        question = getattr(self.state, "question", None)
        given = sum(isinstance(event, QuestionResolved) for event in self.events)
        if not isinstance(self.events[-1], RunEnded):
            self.happen(RunEnded(self.state.outcome))
        if question is None or given >= QUESTIONS:
            return False
        self.happen(QuestionResolved(question.id, self.fate.pick(question.id, (0, 1, 2)), "do it so"))
        self.happen(RunResumed(self.state.plan))
        return True

    def _go_on(self, action: Action, watch: Watching) -> None:
        if not isinstance(action, Turn):
            self.happen(self.do(action))
            return
        hand = self.ledger.in_flight.get(action.id)
        if action.agent not in self.ledger.terminals:
            self._open(action.agent)
        elif hand is None:
            watch(self.state, self.ledger, action)
            self.happen(TurnAsked(action.id, action.agent, f"prompt of {action.id}"))
        elif not hand.sent or hand.failed:
            self.happen(TurnSent(action.id))
        elif not self._suffers(action):
            self.happen(self.do(action))
            self._dismiss()

    def _open(self, agent: AgentName) -> None:
        self.happen(TerminalOpened(agent, TerminalId(f"t{len(self.events)}"), "codex", "s"))

    def _suffers(self, turn: Turn) -> bool:
        mishap = "" if turn.id in self.suffered else self.fate.pick(f"mishap of {turn.id}", MISHAPS)
        self.suffered.add(turn.id)
        match mishap:
            case "fails":
                self.happen(TurnFailed(turn.id, FailureKind.PROVIDER, "API Error: 500", Usage(1, 0, 1)))
            case "is lost":
                self.happen(TerminalClosed(turn.agent, self.ledger.terminals[turn.agent].id))
                self._open(turn.agent)
            case "is reminded":
                self.happen(Noted(Topic.REMINDED, "reminded", turn.id))
            case "waits":
                self.happen(Noted(Topic.PERMISSION_ASKED, "may I?", turn.id))
            case _:
                return False
        return True

    def _dismiss(self) -> None:
        """Agents of levels whose work is done are gone."""
        state = self.state
        if isinstance(state, LevelsState):
            needed = {ask.key for ask in state.pending_turns} | {done.pending.key for done in state.answered.values()}
            for name in [own for own in self.ledger.terminals if own not in needed]:
                self.happen(TerminalClosed(name, self.ledger.terminals[name].id))


def cuts(life: Life) -> list[int]:
    """Where a run can be forked: after these events."""
    state, found = life.flow.start(), list[int]()
    for number, event in enumerate(life.events, 1):
        state = life.flow.apply(state, event)
        if life.flow.outcome(state) in (None, Outcome.BLOCKED):
            found.append(number)
    return found


def forked(at: int, plan: Any, **changes: Any) -> RunForked:
    return RunForked(PARENT, at, plan, **changes)


def done_twice(events: Iterable[Event]) -> list[str]:
    done = [turn for event in events if (turn := _done(event))]
    return [turn for turn in done if done.count(turn) > 1]


def _done(event: Event) -> str:
    """The errand that an event ends."""
    match event:
        case TurnAnswered(turn) | CheckRan(turn) | WorkGathered(turn) | WorkMerged(turn):
            return turn
        case TurnFailed(turn, FailureKind.UNFIT):
            return turn
        case _:
            return ""


# --- the cycle


@dataclass(frozen=True)
class Play:
    """A plan of the cycle, and agents that answer a turn always the same."""

    plan: CyclePlan
    seed: CycleSeed | None
    fate: Fate

    @property
    def flow(self) -> Cycle:
        return Cycle(self.plan, self.seed)

    def do(self, action: Action) -> Event:
        if isinstance(action, Turn):
            said = self.fate.pick(f"says {action.id}", POOL[action.answer])
            return TurnAnswered(action.id, said, usage=self.fate.pick(f"costs {action.id}", (None, Usage(10, 0, 5))))
        if isinstance(action, Compare):
            return WorkCompared(action.id, self.fate.pick(action.id, (("a.py",), (), None)), "c0ffee1")
        if isinstance(action, OpenGate):
            return GateOpened(action.id, action.at, action.question)
        if isinstance(action, Prove):
            return proves(action, failed=self.fate.pick(action.id, ((), (), ("test_old.py::test_b",))))
        assert isinstance(action, Check)
        return CheckRan(action.id, action.command, self.fate.pick(action.id, (0, 1)), "output")

    def life(self, *before: Event) -> Life:
        return Life(self.flow, self.do, self.fate, before or (self.beginning,))

    @property
    def beginning(self) -> Event:
        names = [AgentName(role) for role in Role] if self.seed is not None else []
        opened = (TerminalOpened(name, TerminalId(f"old {name}"), "codex", "s") for name in names)
        return RunStarted(self.plan, self.seed, tuple(opened))


plays = st.builds(Play, cycle_plans, seeds, fates)


def as_cycle(state: CycleState, play: Play) -> CycleState:
    """What lasts of a state. Whoever takes over in an imported run is told what its file says."""
    memory = {} if play.seed is not None else state.memory
    none = frozenset[Role]()
    kept = MappingProxyType(dict(memory))
    return replace(state, plan=play.plan, briefed=none, begun=none, profiled=none, memory=kept)


@given(plays, st.data(), st.booleans(), st.integers(1, 3))
@examples(25)
def test_a_fork_of_a_run_ends_as_the_run_did_and_repeats_nothing(
    play: Play, data: st.DataObject, driven: bool, generations: int
) -> None:
    whole = lineage = play.life().live()
    plan = replace(play.plan, wd="/elsewhere", response_dir="/elsewhere/.tmp")
    for _ in range(generations):
        at = data.draw(st.sampled_from(cuts(lineage)), label="at")
        fork = play.life(*lineage.events[:at], forked(at, plan), *([RunResumed(plan)] if driven else []))
        seen(f"forked at {fork.state.outcome or fork.state.phase}")
        assert fork.ledger == Ledger()
        lineage = fork.live(Newcomers(plan, fork))

        assert lineage.state.plan == plan
        assert as_cycle(lineage.state, play) == as_cycle(whole.state, play)
        assert not done_twice(lineage.events)


REVIEW = ("REVIEW_RESULT: APPROVED", "REVIEW_RESULT: REVISE", "REVIEW_NOTES:")
MARKERS = {
    Role.ANALYST: ("ANALYST_SUMMARY:",),
    Role.PEER_ANALYST: REVIEW,
    Role.PROGRAMMER: ("PROGRAMMER_SUMMARY:",),
    Role.PEER_PROGRAMMER: REVIEW,
    Role.TESTER: ("RESULT: PASS", "RESULT: FAIL", "EVIDENCE:"),
}


class Newcomers:
    """What agents of a cycle must and must not be told, conversation by conversation."""

    def __init__(self, plan: CyclePlan, life: Life) -> None:
        self.plan, self.life = plan, life
        self.told: dict[TerminalId, list[Mapping[str, Any]]] = {}
        self.prompts: dict[TerminalId, str] = {}

    def last_of(self, role: str) -> str:
        turns = (event.turn for event in reversed(self.life.events) if isinstance(event, TurnAnswered))
        return next((turn for turn in turns if f".{role}." in turn), "")

    def __call__(self, state: CycleState, ledger: Ledger, turn: Turn) -> None:
        facts = turn.facts
        earlier = self.told.setdefault(ledger.terminals[turn.agent].id, [])
        assert (facts["wd"], facts["response_path"]) == (
            self.plan.wd,
            f"{self.plan.response_dir}/{RESPONSE_FILES[turn.answer]}",
        )
        if earlier:
            assert facts["history"] == ""
        else:
            assert facts["explore"] == self.plan.explore
            assert self.last_of(turn.agent) in str(facts["history"])
            assert bool(facts["history"]) == bool(state.memory.get(state.role))
        if facts["explore"] == EXPLORE_BACK_REFERENCE:
            assert earlier[0]["explore"] == self.plan.explore
        if facts.get("handoff") == UPSTREAM_BACK_REFERENCE:
            round_ = [then["handoff"] for then in earlier if then["round"] == facts["round"]]
            assert round_[0] != UPSTREAM_BACK_REFERENCE
        referring = {name for name, fact in facts.items() if "conversation history" in str(fact)}
        assert referring <= {"explore", "handoff"}
        earlier.append(facts)
        self.check_prompt(ledger.terminals[turn.agent].id, turn, render(turn.document, turn.facts))

    def check_prompt(self, terminal: TerminalId, turn: Turn, prompt: str) -> None:
        """One conversation was told every rule; what an agent must not forget is in each of its prompts."""
        everything = self.prompts[terminal] = f"{self.prompts.get(terminal, '')}\n{prompt}"
        assert standing_rules(turn.agent) in everything
        assert self.plan.explore in everything
        assert self.plan.scenario_test in everything or turn.agent not in (Role.PROGRAMMER, Role.TESTER)
        assert set(MARKERS[Role(turn.agent)]) - set(re.findall(r"[A-Z_]+:(?: [A-Z]+)?", prompt)) == set()
        assert "Nobody answers questions" in prompt
        assert f"cat >{turn.facts['response_path']} <<'LOGOS_RESPONSE_END'\n{PLACEHOLDER}\n" in prompt


@pytest.mark.parametrize("role", list(Role))
def test_whoever_takes_over_in_a_fork_reads_what_was_said_before_and_the_summary_once(role: Role) -> None:
    flow, answers = Cycle(a_plan(max_rounds=3)), {Role.TESTER: FAIL, Role.PROGRAMMER: GOOD_PROGRAM}
    good = {ROLE_DEFS[own].answer: answers.get(own, APPROVED) for own in Role}
    until = drive_purely(flow, lambda _turn, name: good[name], until=lambda state: state.round == 2)
    forks = [*until.events, forked(len(until.events), flow.plan)]
    opened = [TerminalOpened(AgentName(own), TerminalId(f"new {own}"), "codex", "s") for own in Role]
    state = replace(replay(flow, [*forks, *opened]), role=role)

    (turn,) = flow.due(state)
    assert isinstance(turn, Turn)
    prompt = render(turn.document, turn.facts)
    again = flow.due(flow.apply(state, TurnAsked(turn.id, turn.agent, prompt)))[0]

    assert "You take over from another agent in this role" in prompt
    assert f"r1.{role}.c" in prompt
    assert flow.plan.explore in prompt
    assert "refer to your conversation history" not in prompt
    assert isinstance(again, Turn)
    assert "You take over" not in render(again.document, again.facts)
    assert again.facts["explore"] == EXPLORE_BACK_REFERENCE


@pytest.mark.parametrize("wanted", ["r1.programmer.c1", "r1.programmer.c2"])
def test_a_programmer_of_a_fork_is_given_the_handoff_whichever_its_cycle(wanted: str) -> None:
    flow = Cycle(a_plan())
    good = {ROLE_DEFS[own].answer: APPROVED for own in Role} | {"analyst": GOOD_ANALYSIS, "programmer": GOOD_PROGRAM}
    until = drive_purely(flow, lambda _turn, name: good[name], until=lambda state: state.turn_id == wanted)
    (turn,) = flow.due(replay(flow, [*until.events, forked(len(until.events), flow.plan)]))
    assert isinstance(turn, Turn)
    assert "notes for programmer: as asked" in str(turn.facts["handoff"])


def test_a_programmer_of_a_fork_is_told_which_objections_stand() -> None:
    flow = Cycle(a_quick_plan())
    said = {"analyst": GOOD_ANALYSIS, "analyst_review": REVISE, "programmer": GOOD_PROGRAM, "programmer_review": REVISE}
    until = drive_purely(flow, lambda _turn, name: said[name], until=lambda state: state.turn_id == "r1.programmer.c2")
    (turn,) = flow.due(replay(flow, [*until.events, forked(len(until.events), flow.plan)]))
    assert isinstance(turn, Turn)
    assert "empty name" in str(turn.facts["objections"])


def test_a_fork_of_a_blocked_run_is_blocked_like_it() -> None:
    play = Play(a_plan(), CycleSeed(outputs=outputs(analyst="a")), Fate({}))
    state = replace(play.flow.start(), outcome=Outcome.BLOCKED, reason="nobody approved")
    after = play.flow.apply(state, forked(9, play.plan))
    assert (after.outcome, after.reason, play.flow.due(after)) == (Outcome.BLOCKED, "nobody approved", ())


@given(plays, cycle_plans, st.data())
@examples(15)
def test_a_fork_of_a_run_by_other_rules_ends(play: Play, plan: CyclePlan, data: st.DataObject) -> None:
    whole = play.life().live()
    at = data.draw(st.sampled_from(cuts(whole)), label="at")
    lineage = play.life(*whole.events[:at], forked(at, plan))
    lineage.live(Newcomers(plan, lineage))
    assert lineage.state.outcome is not None
    assert not done_twice(lineage.events)


# --- the levels


@dataclass(frozen=True)
class Build:
    """A plan of the levels, and agents that do an errand always the same."""

    story: RunView
    fate: Fate

    def do(self, action: Action) -> Event:
        world = self.story.world
        match action:
            case Turn() if self.fate.pick(f"unfit {action.id}", (False, False, False, True)):
                return TurnFailed(action.id, FailureKind.UNFIT, "its response cannot be taken")
            case Turn():
                return TurnAnswered(action.id, world.answer(action))
            case Gather():
                return world.gather(action)
            case Merge():
                return world.merge(action)
            case Check():
                return world.check(action)
            case Compare():
                return WorkCompared(action.id, ("a.py",), "c0ffee1")
            case Prove():
                return proves(action)
            case OpenGate():
                return GateOpened(action.id, action.at, action.question)

    def life(self, *before: Event) -> Life:
        return Life(self.story.flow, self.do, self.fate, before or (RunStarted(self.story.flow.plan),))


builds = st.builds(Build, stories(), fates)


def as_build(state: LevelsState) -> LevelsState:
    """What lasts of a state, wherever it was forked."""
    nothing = MappingProxyType(dict[str, str]())
    return replace(
        state,
        plan=a_levels_plan(),
        left=nothing,
        reassigned=frozenset(),
        started=frozenset(),
        stalled=None,
        trouble=None,
    )


def at_work(state: LevelsState) -> list[str]:
    """Agents that may have left something in their places."""
    return [ask.key for ask in state.pending_turns if ask.kind in (TurnKind.AUTHOR, TurnKind.LINT)]


def in_their_places(state: LevelsState, due: tuple[Action, ...]) -> None:
    """Whoever left something goes on from it, nobody else; all that is not in the head is looked at."""
    pending_turns = {ask.key: ask for ask in state.pending_turns}
    for action in due:
        match action:
            case Turn(agent=key, place=place):
                own = pending_turns[key].component
                usual = state.worktree_of(own) if own else state.main
                assert place == (Worktree(own or MAIN, (state.left[key],)) if key in state.left else usual)
            case Gather(place=place, since=since) if place.name != MAIN:
                assert since == state.begins_at(place.name)
            case Gather():
                assert state.stage is Stage.LINT
            case Check(place=place):
                assert place == state.main
            case Merge(onto=onto):
                assert onto == state.head


@given(builds, st.data(), st.booleans(), st.integers(1, 3))
@examples(20)
def test_a_fork_of_a_build_ends_as_the_build_did_and_repeats_nothing(
    build: Build, data: st.DataObject, driven: bool, generations: int
) -> None:
    whole = lineage = build.life().live()
    old = build.story.flow.plan
    plan = replace(old, wd="/elsewhere", feature="another", base="other", levels=(Level.L2,), max_parallel=2)
    for generation in range(generations):
        at = data.draw(st.sampled_from(cuts(lineage)), label="at")
        working = at_work(replay(build.story.flow, lineage.events[:at]))
        left = data.draw(st.lists(st.sampled_from(working), unique=True) if working else st.just([]), label="left")
        commits = tuple((key, f"left by {key} in {generation}") for key in left)
        fork = build.life(*lineage.events[:at], forked(at, plan, left=commits), *([RunResumed(plan)] if driven else []))
        seen(f"forked at {fork.state.outcome or fork.state.stage}")
        assert fork.ledger == Ledger()
        assert fork.state.started == frozenset()
        assert all(fork.state.left[key] == commit for key, commit in commits)
        lineage = fork.live(look=in_their_places)

        assert lineage.state.plan == replace(old, wd="/elsewhere", max_parallel=2)
        assert as_build(lineage.state) == as_build(whole.state)
        assert not done_twice(lineage.events)


@given(builds, st.data())
@examples(10)
def test_a_fork_of_a_build_by_other_rules_ends(build: Build, data: st.DataObject) -> None:
    whole = build.life().live()
    at = data.draw(st.sampled_from(cuts(whole)), label="at")
    other = replace(build.story.flow.plan, tools=(), max_parallel=1, max_rounds=1, telos=())
    lineage = build.life(*whole.events[:at], forked(at, other)).live(look=in_their_places)
    assert lineage.state.outcome is not None
    assert not done_twice(lineage.events)


def wanting(turn: str) -> Callable[[LevelsState], bool]:
    return lambda state: any(ask.turn == turn for ask in state.pending_turns)


def authoring(name: str, kept: World, *, sweep: int = 1) -> list[Event]:
    """A build up to where an author of this component works: `bee` is built on `ant`, `cat` on nothing."""
    plan = a_levels_plan(Level.L3, Level.L2, Level.L1)
    wanted = f"s{sweep}.L2.{name}.author"
    world = replace(kept, division=(a_component("ant"), a_component("bee", "ant"), a_component("cat")))
    built = drive_levels(Levels(plan, read), world, before=[RunStarted(plan)], until=wanting(wanted))
    asked = [ask for ask in built.state.pending_turns if ask.turn == wanted]
    assert asked
    return [*built.events, TurnAsked(asked[0].turn, AgentName(asked[0].key), "prompt"), TurnSent(asked[0].turn)]


# In the first sweep two components touch the same file, so that nothing is merged and both are gone on with.
CLASHING = World(
    touched={
        f"s1.L2.{name}.author.gather": (*touched_by(name), TouchedFile("shared.py", name)) for name in ("ant", "cat")
    }
)
LEVELS = (Level.L3, Level.L2, Level.L1)


def the_turn(flow: Levels, state: LevelsState, turn: str) -> Turn:
    found = next(action for action in flow.due(state) if action.id == turn)
    assert isinstance(found, Turn)
    return found


def the_gather(flow: Levels, state: LevelsState) -> Gather:
    (found,) = (action for action in flow.due(state) if isinstance(action, Gather))
    return found


def answered_well(flow: Levels, events: Sequence[Event], turn: str) -> list[Event]:
    return [*events, TurnAnswered(TurnId(turn), World().answer(the_turn(flow, replay(flow, events), turn)))]


def test_an_author_goes_on_from_what_was_left_and_all_of_it_is_gathered() -> None:
    flow, events = flow_of(*LEVELS), authoring("ant", World())
    fork = [*events, forked(len(events), flow.plan, left=(("s1.L2.ant.author", "half"),))]

    turns = {turn.id: turn for turn in flow.due(replay(flow, fork)) if isinstance(turn, Turn)}
    gather = the_gather(flow, replay(flow, answered_well(flow, fork, "s1.L2.ant.author")))

    assert {turn: own.place for turn, own in turns.items()} == {
        "s1.L2.ant.author": Worktree("ant", ("half",)),
        "s1.L2.cat.author": Worktree("cat", ("base",)),
    }
    assert (gather.place, gather.since, gather.must_change) == (Worktree("ant", ("half",)), ("base",), True)


def test_what_was_left_serves_every_attempt_and_no_later_visit() -> None:
    flow, events = flow_of(*LEVELS), authoring("ant", World())
    refused = TurnAnswered(TurnId("s1.L2.ant.author"), "no report")
    fork = [*events, forked(len(events), flow.plan, left=(("s1.L2.ant.author", "half"),)), refused]
    again = the_turn(flow, replay(flow, fork), "s1.L2.ant.author.t2")
    assert again.place == Worktree("ant", ("half",))

    stuck = World(replies={"s1.L2.ant.author.t2": {"next": NextAction(ActionKind.ASK_PERSON, why="which?")}})
    built = drive_levels(flow, stuck, before=fork)
    answer = QuestionResolved(str(built.state.question and built.state.question.id), 0, "this one")
    later = the_turn(flow, flow.apply(built.state, answer), "s1.L2.ant.author.v2")
    assert later.place == Worktree("ant", ("base",))


def test_a_fork_of_a_fork_goes_on_from_what_was_left_last() -> None:
    flow, events = flow_of(*LEVELS), authoring("ant", World())
    first = [*events, forked(len(events), flow.plan, left=(("s1.L2.ant.author", "half"),))]
    same = [*first, forked(len(first), flow.plan)]
    more = [*first, forked(len(first), flow.plan, left=(("s1.L2.ant.author", "most"),))]
    before = [*first[: len(events)], forked(len(events), flow.plan)]
    places = {}
    for name, lineage in {"same": same, "more": more, "before": before}.items():
        places[name] = the_turn(flow, replay(flow, lineage), "s1.L2.ant.author").place
    assert places == {
        "same": Worktree("ant", ("half",)),
        "more": Worktree("ant", ("most",)),
        "before": Worktree("ant", ("base",)),
    }


def test_whoever_was_built_on_work_that_only_grew_in_a_fork_keeps_its_own() -> None:
    flow, events = flow_of(*LEVELS), authoring("ant", CLASHING, sweep=2)
    fork = [*events, forked(len(events), flow.plan, left=(("s2.L2.ant.author", "half"),))]
    places = {}
    for name, before in {"parent": events, "fork": fork}.items():
        built = drive_levels(flow, CLASHING, before=before, until=wanting("s2.L2.bee.author"))
        places[name] = the_turn(flow, built.state, "s2.L2.bee.author").place
    assert places["parent"] == Worktree("bee", ("work of s1.L2.bee.author.gather", "work of s2.L2.ant.author.gather"))
    assert places["fork"] == places["parent"]


def test_work_that_was_answered_and_not_gathered_is_gathered_from_what_was_left() -> None:
    flow = flow_of(*LEVELS)
    events = answered_well(flow, authoring("ant", World()), "s1.L2.ant.author")
    fork = [*events, forked(len(events), flow.plan, left=(("s1.L2.ant.author", "all of it"),))]
    gather = the_gather(flow, replay(flow, fork))
    assert (gather.place, gather.since) == (Worktree("ant", ("all of it",)), ("base",))


def linting() -> tuple[Levels, list[Event]]:
    plan = a_levels_plan(*LEVELS)
    flow = Levels(plan, read)
    built = drive_levels(flow, World(), before=[RunStarted(plan)], until=wanting("s1.L1.lint"))
    return flow, [*built.events]


def test_a_linter_goes_on_from_what_was_left() -> None:
    flow, events = linting()
    fork = [*events, forked(len(events), flow.plan, left=(("s1.L1.lint", "tidier"),))]
    assert the_turn(flow, replay(flow, fork), "s1.L1.lint").place == Worktree(MAIN, ("tidier",))
    assert the_gather(flow, replay(flow, answered_well(flow, fork, "s1.L1.lint"))).place == Worktree(MAIN, ("tidier",))


def test_all_that_a_linter_did_is_looked_at_also_before_the_fork() -> None:
    flow, events = linting()
    fork = [*events, forked(len(events), flow.plan, left=(("s1.L1.lint", "tidier"),))]
    state = replay(flow, answered_well(flow, fork, "s1.L1.lint"))
    assert the_gather(flow, state).since == (state.head,)


# --- a second attempt in the hands of somebody new


def prompt_of(turn: Turn) -> str:
    return render(turn.document, {**turn.facts, "wd": "/fork", "response_path": f"/fork/{turn.answer}.md"})


@pytest.mark.parametrize(
    ("turn", "reply", "told"),
    [
        ("s1.L8.decompose", "no report", ("TELOS", "FEATURE", "SPECS ABOVE", "HANDOFF")),
        ("s1.L3.decompose", "no report", ("TELOS", "FEATURE", "SPECS ABOVE", "HANDOFF")),
        ("s1.L2.ant.author", "no report", ("TELOS", "FEATURE", "SPECS ABOVE", "COMPONENT", "TOOLS", "HANDOFF")),
        ("s1.L1.lint", "no report", ("TELOS", "FEATURE", "SPECS ABOVE", "TOOLS", "HANDOFF")),
        ("s1.L3.validate", "no report", ("TELOS", "FEATURE", "SPECS ABOVE", "YOUR SPEC", "HANDOFF", "EVIDENCE")),
    ],
)
def test_a_second_attempt_tells_a_newcomer_the_task_the_specs_and_what_was_wrong(
    turn: str, reply: str, told: tuple[str, ...]
) -> None:
    plan = a_levels_plan()
    flow, world = Levels(plan, read), World(replies={turn: reply}, division=(a_component("ant"),))
    built = drive_levels(flow, world, before=[RunStarted(plan)], until=wanting(f"{turn}.t2"))
    state = replay(flow, [*built.events, forked(len(built.events), plan)])
    prompt = prompt_of(the_turn(flow, state, f"{turn}.t2"))
    anew = "\n\n*** THE PREVIOUS TRY, BY ANOTHER AGENT ***\n| no report"
    assert prompt.replace(anew, "") == prompt_of(the_turn(flow, built.state, f"{turn}.t2"))
    assert anew in prompt
    assert [heading for heading in told if f"*** {heading} ***" not in prompt] == []
    assert "*** PROBLEMS OF THE PREVIOUS TRY ***\n| - this is no report: no report" in prompt
    assert plan.feature in prompt


BY_ANOTHER = "BY ANOTHER AGENT ***"


def test_a_second_attempt_tells_a_newcomer_what_the_first_said() -> None:
    flow, nowhere = flow_of(), NextAction(ActionKind.HAND_BACK, Level.L1, "unclear")
    world = World(replies={"s1.L7.decompose": {"next": nowhere, "work_summary": "an idea that was sound"}})
    built = drive_levels(flow, world, until=wanting("s1.L7.decompose.t2"))
    state = replay(flow, [*built.events, forked(len(built.events), flow.plan)])
    assert "an idea that was sound" in prompt_of(the_turn(flow, state, "s1.L7.decompose.t2"))


def test_an_answer_whose_work_is_refused_only_in_a_fork_is_told_to_whoever_mends_it() -> None:
    flow = flow_of(*LEVELS)
    events = answered_well(flow, authoring("ant", World()), "s1.L2.ant.author")
    fork = [*events, forked(len(events), flow.plan, left=(("s1.L2.ant.author", "all of it"),))]
    refused = WorkGathered(TurnId("s1.L2.ant.author.gather"), "ant", "c1", problems=("src/ant.py is not there",))
    prompt = prompt_of(the_turn(flow, replay(flow, [*fork, refused]), "s1.L2.ant.author.t2"))
    assert BY_ANOTHER in prompt
    assert "s1.L2.ant.author is done" in prompt


def test_who_is_sent_back_in_a_fork_knows_its_own_words() -> None:
    flow = flow_of(*LEVELS)
    built = drive_levels(flow, World(replies={"s1.L3.decompose": "nonsense"}), until=wanting("s1.L3.decompose.t2"))
    fork = [*built.events, forked(len(built.events), flow.plan)]
    asked = TurnAsked(TurnId("s1.L3.decompose.t2"), AgentName("s1.L3.decompose"), "prompt")
    more = [*fork, asked, TurnAnswered(asked.turn, "more nonsense")]
    assert BY_ANOTHER in prompt_of(the_turn(flow, replay(flow, fork), "s1.L3.decompose.t2"))
    assert BY_ANOTHER not in prompt_of(the_turn(flow, replay(flow, more), "s1.L3.decompose.t3"))


def test_a_second_attempt_tells_a_newcomer_what_a_person_answered() -> None:
    flow = flow_of(*LEVELS)
    world = World(
        replies={"s1.L2.ant.author": {"next": NextAction(ActionKind.ASK_PERSON, why="which currency?")}},
        problems={"s1.L2.ant.author.v2.gather": ("nothing was changed",)},
        division=(a_component("ant"),),
    )
    asking = drive_levels(flow, world)
    assert asking.state.question is not None
    answer = QuestionResolved(asking.state.question.id, 0, "prices in cents")
    built = drive_levels(flow, world, before=[*asking.events, answer], until=wanting("s1.L2.ant.author.v2.t2"))
    assert "prices in cents" in prompt_of(built.turn("s1.L2.ant.author.v2"))
    state = replay(flow, [*built.events, forked(len(built.events), flow.plan)])
    assert "prices in cents" in prompt_of(the_turn(flow, state, "s1.L2.ant.author.v2.t2"))


# --- given up


@given(st.one_of(plays, builds), st.data(), st.text(max_size=20))
@examples(25)
def test_of_a_run_that_was_given_up_nothing_is_due_whatever_comes_later(
    of: Play | Build, data: st.DataObject, why: str
) -> None:
    life = of.life().live()
    at = data.draw(st.integers(1, len(life.events)), label="at")
    before = replay(life.flow, life.events[:at])
    given_up = life.flow.apply(before, RunAbandoned(why))
    open_ = before.outcome in (None, Outcome.BLOCKED)
    seen(f"{before.outcome} → {given_up.outcome}")

    assert given_up.outcome == (Outcome.ABANDONED if open_ else before.outcome)
    assert given_up.reason == (why if open_ else before.reason)
    question = getattr(before, "question", None)
    later: list[Event] = [RunResumed(given_up.plan), *life.events[at:], *life.events[:at], RunAbandoned("again")]
    later += [QuestionResolved(question.id, 0, "so")] if question else []
    later += [QuestionResolved("", 0, "so"), RunResumed(given_up.plan)]
    state = given_up
    for event in later:
        state = life.flow.apply(state, event)
        assert life.flow.due(state) == ()
        assert (state.outcome, state.reason) == (given_up.outcome, given_up.reason), event
    assert _still(state) == _still(given_up)


def _still(state: Any) -> Any:
    """But for what says who was asked, and what a driver that comes back makes of a run that stalled."""
    state = replace(state, stalled=None, trouble=None)
    if isinstance(state, LevelsState):
        return replace(state, started=frozenset())
    none = frozenset[Role]()
    return replace(state, briefed=none, begun=none, profiled=none, memory=MappingProxyType({}))


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_check_that_ends_after_a_run_was_given_up_does_not_pass_or_fail_it(exit_code: int) -> None:
    flow = Cycle(a_quick_plan(start=Role.TESTER, max_rounds=1, verify_pass=True, test_command="make test"))
    checking = drive_purely(flow, lambda _turn, _name: PASS, until=lambda state: state.checking)
    given_up = flow.apply(checking.state, RunAbandoned("enough"))
    assert flow.apply(given_up, CheckRan(given_up.action_id, "make test", exit_code, "")) == given_up


def test_a_failure_that_comes_after_the_end_of_a_run_does_not_stall_it() -> None:
    flow = Cycle(a_plan())
    given_up = flow.apply(flow.start(), RunAbandoned("enough"))
    late = flow.apply(given_up, TurnFailed(TurnId("r1.analyst.c1"), FailureKind.DIED, "the agent has ended"))
    assert late == given_up


def test_a_build_that_waits_for_a_person_can_be_given_up_and_asks_no_more() -> None:
    flow = flow_of(*LEVELS)
    asking = drive_levels(
        flow, World(replies={"s1.L3.decompose": {"next": NextAction(ActionKind.ASK_PERSON, why="which?")}})
    )
    assert asking.state.question is not None
    question = asking.state.question
    given_up = flow.apply(asking.state, RunAbandoned("enough"))
    assert (given_up.outcome, given_up.reason, given_up.question) == (Outcome.ABANDONED, "enough", None)
    assert flow.apply(given_up, QuestionResolved(question.id, 0, "this one")) == given_up
    # What was given up is still there to be forked from before that.
    fork = [*asking.events, forked(len(asking.events), flow.plan), QuestionResolved(question.id, 0, "this one")]
    assert drive_levels(flow, World(), before=fork).state.outcome is Outcome.PASSED


def test_a_blocked_run_of_the_cycle_can_be_given_up_like_a_build() -> None:
    flow = Cycle(a_plan(review=ReviewRules(max_cycles=1, on_exhausted=OnExhausted.BLOCK)))
    blocked = drive_purely(flow, lambda _turn, _name: REVISE)
    assert blocked.state.outcome is Outcome.BLOCKED
    assert flow.apply(blocked.state, RunAbandoned("enough")).outcome is Outcome.ABANDONED


def test_a_stalled_build_that_was_given_up_says_why_it_was() -> None:
    flow = flow_of(*LEVELS)
    built = drive_levels(flow, until=wanting("s1.L3.decompose"))
    stalled = flow.apply(built.state, TurnFailed(TurnId("s1.L3.decompose"), FailureKind.LIMIT, "its limit is reached"))
    given_up = flow.apply(stalled, RunAbandoned("enough"))
    assert build_state.project(given_up, Ledger(), PARENT, 9, 1.0)["reason"] == "enough"


# --- the log


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    ticks = count(100)
    made = (
        MemoryLog(lambda: float(next(ticks)))
        if request.param == "memory"
        else SqliteLog(tmp_path / "telos" / "logos.db", lambda: float(next(ticks)))
    )
    yield made
    made.close()


def kept(log: Log, run: RunId, *texts: str) -> list[Recorded]:
    return [log.append(run, Noted(Topic.WARNING, text), after) for after, text in enumerate(texts)]


FORK = RunId("fork")


def test_a_fork_is_a_copy_up_to_an_event_and_its_own_from_there(log: Log) -> None:
    history = kept(log, PARENT, "a", "b", "c")
    event = forked(2, a_plan(), way="rollback", commit="c0", left=(("k", "c1"),))
    record = log.fork(FORK, history[:2], event)
    assert record == Recorded(FORK, 3, 103.0, event)
    assert list(log.read(FORK)) == [*(replace(own, run=FORK) for own in history[:2]), record]
    assert log.append(FORK, Noted(Topic.WARNING, "d"), 3).seq == 4
    assert list(log.read(PARENT)) == history
    assert log.runs() == [PARENT, FORK]


def test_a_fork_can_be_made_of_what_is_being_read_and_of_a_fork(log: Log) -> None:
    kept(log, PARENT, "a", "b")
    log.fork(FORK, log.read(PARENT), forked(2, a_plan()))
    grandchild = RunId("grandchild")
    log.fork(grandchild, log.read(FORK), forked(3, a_plan()))
    assert [record.seq for record in log.read(grandchild)] == [1, 2, 3, 4]
    assert {record.run for record in log.read(grandchild)} == {grandchild}
    assert log.runs() == [PARENT, FORK, grandchild]


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_run_that_is_there_is_not_forked_over(log: Log, length: int) -> None:
    history, other = kept(log, PARENT, "a", "b", "c"), kept(log, FORK, "x")
    with pytest.raises(LogConflict, match=FORK):
        log.fork(FORK, history[:length], forked(length, a_plan()))
    assert list(log.read(FORK)) == other
    assert log.append(FORK, Noted(Topic.WARNING, "y"), 1).seq == 2
    assert log.runs() == [PARENT, FORK]


def test_a_history_that_cannot_be_read_to_its_end_makes_no_fork(log: Log) -> None:
    history = kept(log, PARENT, "a", "b")

    def torn() -> Iterator[Recorded]:
        yield history[0]
        raise LogDamaged(PARENT, 2, "it is missing")

    with pytest.raises(LogDamaged):
        log.fork(FORK, torn(), forked(2, a_plan()))
    assert list(log.read(FORK)) == []
    assert log.runs() == [PARENT]
    assert log.fork(FORK, history, forked(2, a_plan())).seq == 3
