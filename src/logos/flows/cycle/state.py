"""The state of a cycle: where it stands, what was said, and the proof that is due."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from logos.domain.events import ProofRan
from logos.domain.gates import GateKind
from logos.domain.plans import CyclePlan
from logos.domain.proof import AcceptanceTests, ProofStep
from logos.domain.roles import ACCEPTANCE_TESTER, ANSWERS, ROLE_DEFS, Phase, Role
from logos.domain.turns import FailureKind, Outcome, TurnId, Worktree
from logos.flows import Position
from logos.flows.cycle import findings as ledger
from logos.flows.cycle.progress import FailedRound
from logos.flows.gates import Gate, GateProgress
from logos.flows.guidance import Said
from logos.flows.proof.verdict import ProofProgress

NO_OUTPUTS = MappingProxyType(dict.fromkeys(ANSWERS, ""))


@dataclass(frozen=True, slots=True)
class BlindTests:
    """The acceptance tests of a run: due until they are written, and were run on the files before the run."""

    attempt: int = 1
    # What is wrong with the last attempt.
    problem: str = ""
    tests: AcceptanceTests | None = None
    before: ProofRan | None = None


@dataclass(frozen=True)
class CycleState:
    plan: CyclePlan
    round: int = 1
    phase: Phase = Phase.ANALYST
    role: Role = Role.ANALYST
    cycle: int = 1
    outputs: Mapping[str, str] = field(default_factory=lambda: NO_OUTPUTS)
    feedback: str = ""
    analyst_feedback: str = ""
    programmer_feedback: str = ""
    retry_context: str = ""
    briefed: frozenset[Role] = frozenset()
    # Roles that have answered in their conversation, and those whose profile has their standing rules.
    begun: frozenset[Role] = frozenset()
    profiled: frozenset[Role] = frozenset()
    # Roles whose agents do not remember their earlier turns: each prompt is their first.
    forgetful: frozenset[Role] = frozenset()
    memory: Mapping[Role, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    fresh: bool = True
    # How often the turn's agent was asked, and whether it changed files that it was to judge.
    attempt: int = 1
    overstepped: bool = False
    # Whether the reviewer approved the analysis; what it declares then counts.
    analysis_approved: bool = False
    # After the tester's PASS: Logos compares the work tree, then proves the result, or runs the test command.
    comparing: bool = False
    checking: bool = False
    # The tests before the run, and the proof that is due, or that the PASS rests on.
    baseline: ProofRan | None = None
    proof: ProofProgress | None = None
    # The files of this round, once they were compared; how it has failed, while they are; how earlier rounds have.
    tree: str | None = None
    failing: FailedRound | None = None
    failed_rounds: tuple[FailedRound, ...] = ()
    # What the programmer is told when a round ended as an earlier one did.
    no_progress: str = ""
    findings: ledger.Findings = ()
    # None: nobody has asked for blind acceptance tests, or they are not due yet.
    blind: BlindTests | None = None
    # Whether Logos itself has proven the result, or run the test command with exit code 0, after the tester's PASS.
    verified: bool = False
    # Where a person decides, and what people have said that no answered turn was told.
    gates: GateProgress = field(default_factory=GateProgress)
    guidance: Said = ()
    # A person's words about what they rejected, until they approve; the review cycles and rounds that this gave.
    rejected: str = ""
    given_cycles: int = 0
    given_rounds: int = 0
    # Why the result passes, once a person approves it; whether one has.
    passing: str = ""
    approved: bool = False
    stalled: str | None = None
    trouble: FailureKind | None = None
    outcome: Outcome | None = None
    reason: str = ""

    # A cycle asks a person nothing, and its agents work in the user's own work tree.
    question = result = head = merged = None
    uncommitted = MappingProxyType[TurnId, Worktree]({})
    unfinished_work = MappingProxyType[str, TurnId]({})

    def said(self, role: Role) -> str:
        return self.outputs[ROLE_DEFS[role].answer]

    @property
    def turn_id(self) -> TurnId:
        again = f".t{self.attempt}" if self.attempt > 1 else ""
        return TurnId(f"r{self.round}.{self.role}.c{self.cycle}{again}")

    @property
    def action_id(self) -> TurnId:
        """The agent's turn, what Logos does itself after a PASS, or the gate that the run has reached."""
        if self.gates.reached is not None:
            return self.gates.reached.id
        if self.writes_blind_tests:
            return self.blind_action
        if self.comparing:
            approvals = self.gates.count(f"r{self.round}", GateKind.BEFORE_PASS) if self.approved else 0
            return TurnId(f"r{self.round}.changes{f'.{approvals + 1}' if approvals else ''}")
        if self.proof is not None:
            return TurnId(f"r{self.round}.proof.{self.proof.step}")
        return TurnId(f"r{self.round}.verify") if self.checking else self.turn_id

    @property
    def writes_blind_tests(self) -> bool:
        return self.blind is not None and self.blind.before is None and self.outcome is None

    @property
    def blind_action(self) -> TurnId:
        assert self.blind is not None
        if self.blind.tests is not None:
            return TurnId(f"r{self.round}.proof.{ProofStep.BLIND_BASE}")
        return TurnId(f"r{self.round}.{ACCEPTANCE_TESTER}.c{self.blind.attempt}")

    @property
    def proving(self) -> bool:
        """Whether Logos itself is at work, not an agent."""
        return (self.comparing or self.checking or self.proof is not None) and self.gates.reached is None

    def awaits(self, turn: TurnId) -> bool:
        """Whether an agent works on this turn."""
        logos = self.proving or self.gates.reached is not None
        return turn == self.action_id and not logos and self.outcome is None

    @property
    def gate(self) -> Gate | None:
        """The open gate: only a person's decision lets the run go on."""
        return self.gates.open if self.outcome is None else None

    @property
    def last_cycle(self) -> int:
        return self.plan.review.max_cycles + self.given_cycles

    @property
    def last_round(self) -> int:
        return self.plan.max_rounds + self.given_rounds

    @property
    def position(self) -> Position:
        text = f"round {self.round}, phase {self.phase}"
        if self.writes_blind_tests:
            return Position(self.round, self.phase.value, ACCEPTANCE_TESTER, 1, f"round {self.round}, acceptance tests")
        return Position(self.round, self.phase.value, self.role.value, self.cycle, text)

    @property
    def next_turns(self) -> tuple[str, ...]:
        return () if self.outcome is not None else (self.action_id,)
