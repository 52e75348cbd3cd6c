"""A reconciliation between levels: positions, proposals, votes, in bounded rounds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from logos.domain.levels import Level, above, below
from logos.domain.records import replace
from logos.domain.reports import Proposal, Report, TurnKind, Verdict
from logos.domain.specs import Question


class Cause(StrEnum):
    FAILURE = "failure"
    CONFLICT = "conflict"
    CONSTRAINT = "constraint"
    LOOP = "loop"
    # A person rejected the result: settled at once, and no reconciliation that counts.
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Dispute:
    """A conflict between levels. `participants` are in the order in which they propose.

    When it is settled, the last proposal is the decision, and `by` says who made it.
    """

    id: str
    cause: Cause
    level: Level
    participants: tuple[Level, ...]
    question: str
    evidence: str = ""
    parties: tuple[str, ...] = ()
    kind: TurnKind = TurnKind.POSITION
    round: int = 1
    positions: Mapping[Level, str] = field(default_factory=lambda: MappingProxyType({}))
    proposals: tuple[Proposal, ...] = ()
    votes: Mapping[Level, str] = field(default_factory=lambda: MappingProxyType({}))
    objections: tuple[str, ...] = ()
    by: str = ""

    @property
    def proposer(self) -> Level:
        """The level that writes this round's proposal: the level in conflict first, then its neighbours."""
        return self.participants[(self.round - 1) % len(self.participants)]

    @property
    def proposal(self) -> Proposal:
        return self.proposals[-1]

    @property
    def decision(self) -> str | None:
        return self.proposal.summary if self.by else None

    @property
    def asked(self) -> tuple[Level, ...]:
        """The levels whose answers are needed now."""
        match self.kind:
            case TurnKind.POSITION:
                return self.participants
            case TurnKind.PROPOSE:
                return (self.proposer,)
            case TurnKind.AGREE:
                return tuple(level for level in self.participants if level is not self.proposer)
            case _:
                return (Level.L9,)


@dataclass(frozen=True, slots=True)
class Agreed:
    """The levels agree on the last proposal."""

    dispute: Dispute


@dataclass(frozen=True, slots=True)
class Undecided:
    """The last round ended without agreement: a person decides."""

    dispute: Dispute

    @property
    def question(self) -> Question:
        last = self.dispute
        return Question(last.id, last.question, tuple(dict.fromkeys(last.proposals)), last.objections, last.evidence)


def participants(
    cause: Cause, level: Level, others: Iterable[Level], taking_part: tuple[Level, ...]
) -> tuple[Level, ...]:
    """The level in conflict and its neighbours; constraints and loops name further levels."""
    neighbours = (below(level, taking_part), above(level, taking_part))
    wanted = tuple(others) if cause in (Cause.CONSTRAINT, Cause.LOOP) else neighbours
    named = (level, *(other for other in wanted if other is not None))
    return tuple(dict.fromkeys(other for other in named if other in taking_part))


def after_report(
    dispute: Dispute, level: Level, report: Report, *, guarded: bool, max_rounds: int
) -> Dispute | Agreed | Undecided:
    """The dispute after a report; `guarded`: L9 confirms every decision."""
    match report.kind:
        case TurnKind.POSITION:
            dispute = replace(dispute, positions=_with_answer(dispute.positions, level, report.position))
            return replace(dispute, kind=TurnKind.PROPOSE) if _complete(dispute, dispute.positions) else dispute
        case TurnKind.PROPOSE if report.proposal is not None:
            dispute = replace(dispute, kind=TurnKind.AGREE, proposals=(*dispute.proposals, report.proposal))
            return dispute if dispute.asked else _unanimous(dispute, guarded=guarded)
        case TurnKind.AGREE:
            objection = (report.objection or "objects, without a reason") if report.verdict is Verdict.OBJECT else ""
            votes = _with_answer(dispute.votes, level, objection)
            dispute = replace(dispute, votes=votes)
            if not _complete(dispute, votes):
                return dispute
            objections = tuple(f"{voter.name}: {votes[voter]}" for voter in dispute.asked if votes[voter])
            return _next_round(dispute, objections, max_rounds) if objections else _unanimous(dispute, guarded=guarded)
        case TurnKind.ALIGN if report.verdict is Verdict.ALIGNED:
            return Agreed(dispute)
        case TurnKind.ALIGN:
            said = f"L9: {report.violation}; instead: {'; '.join(report.alternatives)}"
            return _next_round(dispute, (said,), max_rounds)
        case _:
            return dispute


def _unanimous(dispute: Dispute, *, guarded: bool) -> Dispute | Agreed:
    return replace(dispute, kind=TurnKind.ALIGN) if guarded else Agreed(dispute)


def _next_round(dispute: Dispute, objections: tuple[str, ...], max_rounds: int) -> Dispute | Undecided:
    dispute = replace(dispute, objections=(*dispute.objections, *objections), votes=MappingProxyType({}))
    if dispute.round >= max_rounds:
        return Undecided(dispute)
    return replace(dispute, kind=TurnKind.PROPOSE, round=dispute.round + 1)


def _complete(dispute: Dispute, said: Mapping[Level, str]) -> bool:
    return all(level in said for level in dispute.asked)


def _with_answer(said: Mapping[Level, str], level: Level, text: str) -> Mapping[Level, str]:
    # Sorted, so that the result does not depend on who answered first.
    return MappingProxyType(dict(sorted({**said, level: text}.items(), reverse=True)))
