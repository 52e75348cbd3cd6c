"""Where a build stands: the state of the levels, and what can be read off it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from logos.domain.levels import LEVELS, Level
from logos.domain.plans import LevelsPlan
from logos.domain.reports import Component, Constraint, Report, TurnKind
from logos.domain.specs import Direction, Handoff, Proof, Question, Spec, Tool
from logos.domain.turns import FailureKind, Outcome, TurnId, Worktree
from logos.flows import Position
from logos.flows.levels.components import needs
from logos.flows.levels.overlap import Contribution
from logos.flows.levels.reconcile import Dispute, Settled

MAIN = "main"
# What is built where nobody divides the work.
WHOLE = "feature"
# Kinds of turns whose agents leave work in their places.
GATHERED = (TurnKind.AUTHOR, TurnKind.LINT)


class Stage(StrEnum):
    """Which way the work goes now."""

    DOWN = "down"
    BUILD = "build"
    MERGE = "merge"
    LINT = "lint"
    UP = "up"
    DISPUTE = "reconcile"


class LevelStatus(StrEnum):
    """What is known of a level's validity in this sweep."""

    PROVEN = "proven"
    UNPROVEN = "unproven"
    PASSED = "passed"
    FAILED = "failed"


def turn_of(key: str, attempt: int) -> TurnId:
    return TurnId(key if attempt == 1 else f"{key}.t{attempt}")


@dataclass(frozen=True, slots=True)
class PendingTurn:
    """A turn that is wanted of a level; another attempt, with the errors of the last, goes to the same agent.

    `said` is what the last attempt answered.
    """

    key: str
    level: Level
    kind: TurnKind
    component: str = ""
    attempt: int = 1
    errors: tuple[str, ...] = ()
    said: str = ""

    @property
    def turn(self) -> TurnId:
        return turn_of(self.key, self.attempt)

    @property
    def before(self) -> TurnId | None:
        """The attempt that was sent back."""
        return turn_of(self.key, self.attempt - 1) if self.attempt > 1 else None

    @property
    def agent_def(self) -> str:
        """Whom a person's answer is for."""
        return self.component or self.level.name


@dataclass(frozen=True, slots=True)
class Answered:
    """A turn whose report is accepted and whose work is still to be gathered."""

    ask: PendingTurn
    report: Report
    place: Worktree


@dataclass(frozen=True, slots=True)
class LevelsState:
    plan: LevelsPlan
    head: str
    sweep: int = 1
    stage: Stage = Stage.DOWN
    level: Level = Level.L9
    entering: bool = False
    pending_turns: tuple[PendingTurn, ...] = ()
    started: frozenset[TurnId] = frozenset()
    visits: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    specs: tuple[Spec, ...] = ()
    handoffs: tuple[Handoff, ...] = ()
    # Dependencies first.
    components: tuple[Component, ...] = ()
    todo: tuple[str, ...] = ()
    owed: frozenset[str] = frozenset()
    answered: Mapping[str, Answered] = field(default_factory=lambda: MappingProxyType({}))
    gathered: frozenset[str] = frozenset()
    contributions: Mapping[str, Contribution] = field(default_factory=lambda: MappingProxyType({}))
    constraints: Mapping[str, Constraint] = field(default_factory=lambda: MappingProxyType({}))
    stuck: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    proofs: tuple[Proof, ...] = ()
    standing: Mapping[Level, LevelStatus] = field(default_factory=lambda: MappingProxyType({}))
    dispute: Dispute | None = None
    settled: tuple[Settled, ...] = ()
    question: Question | None = None
    answers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # What agents of the run that this one was forked from left unfinished, by ask.
    left: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # Further attempts that go to agents which did not make the one before.
    reassigned: frozenset[TurnId] = frozenset()
    violation: str = ""
    alternatives: tuple[str, ...] = ()
    stalled: str | None = None
    trouble: FailureKind | None = None
    outcome: Outcome | None = None
    reason: str = ""

    @property
    def position(self) -> Position:
        text = f"sweep {self.sweep}, {self.stage} at {self.level.name}"
        cycle = self.dispute.round if self.dispute is not None else None
        return Position(self.sweep, self.stage.value, self.level.name, cycle, text)

    @property
    def next_turns(self) -> tuple[str, ...]:
        if self.outcome is not None:
            return ()
        return tuple(ask.turn for ask in self.at_hand) or (f"{self.stage} at {self.level.name}",)

    @property
    def levels(self) -> tuple[Level, ...]:
        return self.plan.levels

    @property
    def skipped(self) -> tuple[Level, ...]:
        return tuple(level for level in LEVELS if level not in self.plan.levels)

    @property
    def decision(self) -> Settled | None:
        """What began this sweep, unless it is the first."""
        return self.settled[-1] if self.settled else None

    @property
    def sent_back(self) -> tuple[PendingTurn, ...]:
        """Asks whose agents are to go on with what lies in their places."""
        return tuple(ask for ask in self.pending_turns if ask.attempt > 1 and ask.kind in GATHERED)

    @property
    def unkept(self) -> Mapping[TurnId, Worktree]:
        """Turns whose work lies in their places and is in no commit that the log names, and these places."""
        back = {ask.before: self.place_for(ask) for ask in self.sent_back if ask.before is not None}
        return {**back, **{done.ask.turn: done.place for done in self.answered.values()}}

    @property
    def at_hand(self) -> tuple[PendingTurn, ...]:
        """The asks that should be with an agent now: those that are, and as many more as may be at work."""
        held = [ask for ask in self.pending_turns if ask.turn in self.started]
        waiting = [ask for ask in self.pending_turns if ask.turn not in self.started]
        free = max(self.plan.max_parallel - len(held), 0)
        return (*held, *waiting[:free])

    def spec_of(self, level: Level, component: str = "") -> Spec | None:
        """The spec that holds now."""
        fitting = (spec for spec in reversed(self.specs) if (spec.level, spec.component) == (level, component))
        return next(fitting, None)

    def specs_above(self, level: Level) -> tuple[Spec, ...]:
        held = (self.spec_of(other) for other in self.levels if other > level)
        return tuple(spec for spec in held if spec is not None)

    def tools_of(self, level: Level) -> tuple[Tool, ...]:
        return tuple(tool for tool in self.plan.tools if tool.level is level)

    def unproven_tools(self, level: Level) -> tuple[Tool, ...]:
        """The tools of a level that were not run on what is merged now."""
        ran = {(proof.level, proof.tool) for proof in self.proofs}
        return tuple(tool for tool in self.tools_of(level) if (tool.level, tool.name) not in ran)

    def component(self, name: str) -> Component:
        return next(component for component in self.components if component.name == name)

    @property
    def unmerged(self) -> tuple[Contribution, ...]:
        """Work that is done and not in the head yet, dependencies first."""
        done = (self.contributions.get(own.name) for own in self.components)
        return tuple(contribution for contribution in done if contribution is not None and not contribution.merged)

    def handed_to(self, level: Level, *toward: Direction) -> Handoff | None:
        """The last handoff to a level in this sweep."""
        fitting = (h for h in reversed(self.handoffs) if h.to_level is level and h.toward in toward and self.is_now(h))
        return next(fitting, None)

    def is_now(self, handoff: Handoff) -> bool:
        return handoff.turn.startswith(f"s{self.sweep}.")

    @property
    def main(self) -> Worktree:
        return Worktree(MAIN, (self.head,))

    def foundation(self, component: str) -> tuple[Contribution, ...]:
        """The unmerged work that a component depends on."""
        wanted = needs(component, self.components)
        return (
            tuple(contribution for contribution in self.unmerged if contribution.component.name in wanted)
            if wanted
            else ()
        )

    def begins_at(self, component: str) -> tuple[str, ...]:
        """What a component is built upon: the head, and the unmerged work it depends on."""
        return (self.head, *(contribution.commit for contribution in self.foundation(component)))

    def place_for(self, ask: PendingTurn) -> Worktree:
        """Where the agent of an ask works."""
        if ask.key in self.left:
            return Worktree(ask.component or MAIN, (self.left[ask.key],))
        return self.place_of(ask.component) if ask.component else self.main

    def place_of(self, component: str) -> Worktree:
        """Where an author works: on its own unmerged work where that still stands, with its foundation."""
        own, begin = self.contributions.get(component), self.begins_at(component)
        if own is None or own.merged or not self._still_stands(own):
            return Worktree(component, begin)
        return Worktree(component, (own.commit, *begin[1:]))

    def _still_stands(self, own: Contribution) -> bool:
        """Whether what a piece was built on is there and only grew since, and not where the piece itself is."""
        under = {contribution.component.name: contribution for contribution in self.foundation(own.component.name)}
        grew = all(
            name in under and commit in (under[name].commit, *under[name].previous) for name, commit in own.based_on
        )
        moved = [under[name] for name, commit in own.based_on if name in under and commit != under[name].commit]
        theirs = {touched.path for contribution in moved for touched in contribution.touched}
        return own.head == self.head and grew and not any(touched.path in theirs for touched in own.touched)

    @property
    def result(self) -> str | None:
        """The commit a build leaves behind as its branch; None when nothing was merged."""
        kept = self.outcome in (Outcome.PASSED, Outcome.FAILED) and self.head != self.plan.base
        return self.head if kept else None

    @property
    def loops(self) -> tuple[str, ...]:
        """Handoffs that went back, as patterns, in this sweep."""
        return tuple(h.pattern for h in self.handoffs if h.toward is Direction.BACK and self.is_now(h))
