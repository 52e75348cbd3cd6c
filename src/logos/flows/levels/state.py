"""The state of a build, what can be derived from it, and the steps that the stages share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Self, TypeVar

from logos.domain.events import ProofRan
from logos.domain.levels import LEVELS, Level, above
from logos.domain.plans import LevelsPlan
from logos.domain.records import replace
from logos.domain.reports import Component, Constraint, Report, TurnKind
from logos.domain.specs import Direction, Handoff, Proof, Question, Spec, Tool
from logos.domain.turns import FailureKind, Outcome, TurnId, Worktree
from logos.flows import Position
from logos.flows.gates import Gate, GateProgress
from logos.flows.guidance import Said
from logos.flows.levels.components import Contribution, needs
from logos.flows.levels.reconcile import Cause, Dispute, participants
from logos.flows.levels.turn_ids import turn_of
from logos.flows.proof.verdict import ProofProgress

Value = TypeVar("Value")
Key = TypeVar("Key", str, Level)

MAIN = "main"
# The single component of a build without L3.
WHOLE = "feature"
# Kinds of turns that leave work in a worktree.
GATHERED = (TurnKind.AUTHOR, TurnKind.LINT)
RECONCILING = (TurnKind.POSITION, TurnKind.PROPOSE, TurnKind.AGREE, TurnKind.ALIGN)


class Stage(StrEnum):
    DOWN = "down"
    BUILD = "build"
    MERGE = "merge"
    LINT = "lint"
    UP = "up"
    PROVE = "prove"
    DISPUTE = "reconcile"


class LevelStatus(StrEnum):
    """The validation status of a level in this sweep."""

    PROVEN = "proven"
    UNPROVEN = "unproven"
    PASSED = "passed"
    FAILED = "failed"


def with_item(table: Mapping[Key, Value], key: Key, value: Value) -> Mapping[Key, Value]:
    return MappingProxyType({**table, key: value})


def without(table: Mapping[Key, Value], key: Key) -> Mapping[Key, Value]:
    return MappingProxyType({other: value for other, value in table.items() if other != key})


@dataclass(frozen=True)
class PendingTurn:
    """A turn that a level has to answer; another attempt, with the errors of the last, goes to the same agent.

    `said` is the answer of the last attempt.
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
        """The previous attempt, which was refused."""
        return turn_of(self.key, self.attempt - 1) if self.attempt > 1 else None

    @property
    def agent_def(self) -> str:
        """The name under which a person's answer is stored."""
        return self.component or self.level.name

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which a person may tell it something."""
        return (self.level.name, *((self.component,) if self.component else ()))


@dataclass(frozen=True, slots=True)
class Answered:
    """A turn whose report is accepted and whose work is not gathered yet."""

    pending: PendingTurn
    report: Report
    place: Worktree


@dataclass(frozen=True)
class LevelsState:
    plan: LevelsPlan
    head: str
    sweep: int = 1
    stage: Stage = Stage.DOWN
    level: Level = Level.L9
    entering: bool = False
    pending_turns: tuple[PendingTurn, ...] = ()
    # Pending turns whose agents were asked.
    started: frozenset[TurnId] = frozenset()
    # How often each question was asked in this sweep.
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
    # The tests before the build, the proof of the merged work, and what the levels said before it.
    baseline: ProofRan | None = None
    proof: ProofProgress | None = None
    satisfied: str = ""
    dispute: Dispute | None = None
    settled: tuple[Dispute, ...] = ()
    question: Question | None = None
    # The result of the tool that could not run, while a person is asked about it.
    cannot_run: Proof | None = None
    answers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # Commits of unfinished work of the parent run, by key of the turn.
    left: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # Attempts that go to another agent than the previous attempt.
    reassigned: frozenset[TurnId] = frozenset()
    # Where a person decides, and what people have said that no finished turn was told.
    gates: GateProgress = field(default_factory=GateProgress)
    guidance: Said = ()
    # A person's words about the plan they rejected, until they approve one.
    rejected: str = ""
    # Why the build passes, once a person approves it; whether one has.
    passing: str = ""
    approved: bool = False
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
        if self.gates.reached is not None:
            return (self.gates.reached.id,)
        return tuple(pending.turn for pending in self.in_progress) or (f"{self.stage} at {self.level.name}",)

    @property
    def gate(self) -> Gate | None:
        """The open gate: only a person's decision lets the build go on."""
        return self.gates.open if self.outcome is None else None

    @property
    def levels(self) -> tuple[Level, ...]:
        return self.plan.levels

    @property
    def skipped(self) -> tuple[Level, ...]:
        return tuple(level for level in LEVELS if level not in self.plan.levels)

    @property
    def sent_back(self) -> tuple[PendingTurn, ...]:
        """Turns whose agents continue with the work in their worktrees."""
        return tuple(pending for pending in self.pending_turns if pending.attempt > 1 and pending.kind in GATHERED)

    @property
    def uncommitted(self) -> Mapping[TurnId, Worktree]:
        """Turns whose work is in no commit that the log names, with their worktrees."""
        back = {pending.before: self.worktree_for(pending) for pending in self.sent_back if pending.before is not None}
        return {**back, **{done.pending.turn: done.place for done in self.answered.values()}}

    @property
    def unfinished_work(self) -> Mapping[str, TurnId]:
        """By key: the turn whose work is continued, or whose accepted work is not gathered yet."""
        back = {pending.key: pending.before for pending in self.sent_back if pending.before is not None}
        return {**back, **{done.pending.key: done.pending.turn for done in self.answered.values()}}

    @property
    def held(self) -> tuple[PendingTurn, ...]:
        """The turns that were started and are not answered."""
        return tuple(pending for pending in self.pending_turns if pending.turn in self.started)

    @property
    def in_progress(self) -> tuple[PendingTurn, ...]:
        """The turns that agents should work on now: those started, and as many more as `max_parallel` allows."""
        held = self.held
        waiting = [pending for pending in self.pending_turns if pending.turn not in self.started]
        free = max(self.plan.max_parallel - len(held), 0)
        return (*held, *waiting[:free])

    def spec_of(self, level: Level, component: str = "") -> Spec | None:
        fitting = (spec for spec in reversed(self.specs) if spec.component == component and spec.level == level)
        return next(fitting, None)

    def tools_of(self, level: Level) -> tuple[Tool, ...]:
        return tuple(tool for tool in self.plan.tools if tool.level is level)

    def unproven_tools(self, level: Level) -> tuple[Tool, ...]:
        """The tools of a level that have not run on the current head."""
        ran = {(proof.level, proof.tool) for proof in self.proofs}
        return tuple(tool for tool in self.tools_of(level) if (tool.level, tool.name) not in ran)

    def component(self, name: str) -> Component:
        return next(component for component in self.components if component.name == name)

    @property
    def unmerged(self) -> tuple[Contribution, ...]:
        """Finished work that is not merged yet, dependencies first."""
        done = (self.contributions.get(own.name) for own in self.components)
        return tuple(contribution for contribution in done if contribution is not None and not contribution.merged)

    @property
    def main(self) -> Worktree:
        return Worktree(MAIN, (self.head,))

    @property
    def handoffs_now(self) -> tuple[Handoff, ...]:
        return tuple(handoff for handoff in self.handoffs if handoff.turn.startswith(f"s{self.sweep}."))

    def foundation(self, component: str) -> tuple[Contribution, ...]:
        """The unmerged work that a component depends on."""
        wanted = needs(component, self.components)
        return tuple(own for own in self.unmerged if own.component.name in wanted) if wanted else ()

    def begins_at(self, component: str) -> tuple[str, ...]:
        """The commits a component starts from: the head and the unmerged work it depends on."""
        return (self.head, *(contribution.commit for contribution in self.foundation(component)))

    def worktree_for(self, pending: PendingTurn) -> Worktree:
        if pending.key in self.left:
            return Worktree(pending.component or MAIN, (self.left[pending.key],))
        return self.worktree_of(pending.component) if pending.component else self.main

    def worktree_of(self, component: str) -> Worktree:
        """The worktree of an author: based on its own unmerged work when that is still valid."""
        own, begin = self.contributions.get(component), self.begins_at(component)
        if own is None or own.merged or not self._still_stands(own):
            return Worktree(component, begin)
        return Worktree(component, (own.commit, *begin[1:]))

    def _still_stands(self, own: Contribution) -> bool:
        """Whether the work it was based on only grew since, and not in files of this contribution."""
        under = {contribution.component.name: contribution for contribution in self.foundation(own.component.name)}
        grew = all(
            name in under and commit in (under[name].commit, *under[name].previous) for name, commit in own.based_on
        )
        moved = [under[name] for name, commit in own.based_on if name in under and commit != under[name].commit]
        theirs = {touched.path for contribution in moved for touched in contribution.touched}
        return own.head == self.head and grew and not any(touched.path in theirs for touched in own.touched)

    @property
    def verified(self) -> bool:
        """Whether Logos itself has proven what was built: in clean rooms or, without a baseline, by its tools."""
        if self.plan.proof is not None and self.baseline is not None:
            return self.outcome is Outcome.PASSED
        return self.standing.get(Level.L2) is LevelStatus.PROVEN

    @property
    def result(self) -> str | None:
        """The commit a build leaves behind as its branch; None when nothing was merged."""
        return self.merged if self.outcome in (Outcome.PASSED, Outcome.FAILED) else None

    @property
    def merged(self) -> str | None:
        """The head, if anything was merged."""
        return self.head if self.head != self.plan.base else None

    @property
    def loops(self) -> tuple[str, ...]:
        """Patterns of the hand-backs in this sweep."""
        return tuple(handoff.pattern for handoff in self.handoffs_now if handoff.toward is Direction.BACK)

    def enter_stage(self, stage: Stage, level: Level) -> Self:
        """Switch to a stage; the flow enters it next."""
        return replace(self, stage=stage, level=level, pending_turns=(), entering=True)

    def down_to(self, level: Level | None) -> Self:
        """Go down to the next level that writes a spec; below the last one the build stage starts."""
        if level is None or level < Level.L3:
            return self.enter_stage(Stage.BUILD, Level.L2)
        return self.enter_stage(Stage.DOWN, level)

    def ask_for(self, level: Level, kind: TurnKind, component: str = "") -> Self:
        """Ask a level; the same question again in a sweep goes to a new agent under a new turn id."""
        key = ".".join(part for part in (f"s{self.sweep}", level.name, component, kind.value) if part)
        visit = self.visits.get(key, 0) + 1
        pending = PendingTurn(key if visit == 1 else f"{key}.v{visit}", level, kind, component)
        return replace(self, visits=with_item(self.visits, key, visit), pending_turns=(*self.pending_turns, pending))

    def specified(self, level: Level, turn: TurnId, report: Report, component: str = "") -> Self:
        """Store a level's new spec."""
        return replace(self, specs=(*self.specs, self.new_spec(level, turn, report, component)))

    def new_spec(self, level: Level, turn: TurnId, report: Report, component: str = "") -> Spec:
        """The next version of a level's spec, linked to the spec above it."""
        higher = above(level, self.levels)
        over = self.spec_of(higher) if higher is not None else None
        held = self.spec_of(level, component)
        version = held.version + 1 if held is not None else 1
        parent = over.id if over is not None else "telos"
        return Spec(level, version, turn, parent, report.work_summary, report.spec, component)

    def hand_off(self, giver: Level, taker: Level, toward: Direction, turn: TurnId, text: str) -> Self:
        return replace(self, handoffs=(*self.handoffs, Handoff(giver, taker, toward, turn, text)))

    @property
    def reconciled(self) -> tuple[Dispute, ...]:
        """The reconciliations so far; what a person rejected is none."""
        return tuple(dispute for dispute in self.settled if dispute.cause is not Cause.REJECTED)

    @property
    def next_dispute(self) -> str:
        return f"s{self.sweep}.q{len(self.settled) + 1}"

    def dispute_over(
        self,
        cause: Cause,
        level: Level,
        question: str,
        *,
        evidence: str = "",
        others: Iterable[Level] = (),
        parties: tuple[str, ...] = (),
    ) -> Self:
        """Open a reconciliation, or fail when there were too many."""
        if len(self.reconciled) >= self.plan.max_reconciliations:
            reason = f"after {len(self.reconciled)} reconciliations: {question}"
            return replace(self, pending_turns=(), outcome=Outcome.FAILED, reason=reason)
        invited = participants(cause, level, others, self.levels)
        dispute = Dispute(self.next_dispute, cause, level, invited, question, evidence, parties)
        return replace(self, dispute=dispute).enter_stage(Stage.DISPUTE, level)

    def blocked(self, question: Question) -> Self:
        return replace(self, question=question, pending_turns=(), outcome=Outcome.BLOCKED, reason=question.text)

    def blocked_by_stuck(self) -> Self:
        """Block on a person's answer once the other agents have finished."""
        if self.pending_turns or self.answered or not self.stuck:
            return self
        asked: list[str] = []
        for name in sorted(self.stuck):
            # The turn in which an agent got stuck; components are stored by name only.
            key = f"s{self.sweep}.{Level.L2.name}.{name}.{TurnKind.AUTHOR.value}"
            visit = self.visits.get(key, 0)
            asked.append(name if not visit else key if visit == 1 else f"{key}.v{visit}")
        return self.blocked(Question("+".join(asked), "\n".join(self.stuck[name] for name in sorted(self.stuck))))
