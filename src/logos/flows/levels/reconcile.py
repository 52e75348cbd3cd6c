"""Middle out: a conflict between levels, from positions over proposals to an agreement, in bounded rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from logos.domain.levels import Level, above, below
from logos.domain.reports import Proposal, Report, TurnKind, Verdict
from logos.domain.specs import Question


class Cause(StrEnum):
    """What opens a reconciliation."""

    FAILURE = "failure"
    CONFLICT = "conflict"
    CONSTRAINT = "constraint"
    LOOP = "loop"


@dataclass(frozen=True, slots=True)
class Dispute:
    """A conflict that is being settled. `participants` come in the order in which the pen goes round."""

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

    @property
    def proposer(self) -> Level:
        """Who writes this round's proposal: the level in conflict first, then its neighbours."""
        return self.participants[(self.round - 1) % len(self.participants)]

    @property
    def proposal(self) -> Proposal:
        return self.proposals[-1]

    @property
    def asked(self) -> tuple[Level, ...]:
        """Who has a say now."""
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
class Settled:
    """How a conflict ended: what was decided, and by whom."""

    id: str
    cause: Cause
    level: Level
    question: str
    evidence: str
    parties: tuple[str, ...]
    proposal: Proposal
    by: str
    rounds: int


@dataclass(frozen=True, slots=True)
class Agreed:
    proposal: Proposal


@dataclass(frozen=True, slots=True)
class Undecided:
    """The last round ended without an agreement: a person decides between the proposals."""

    dispute: Dispute

    @property
    def question(self) -> Question:
        last = self.dispute
        return Question(last.id, last.question, tuple(dict.fromkeys(last.proposals)), last.objections)


def participants(
    cause: Cause, level: Level, others: Iterable[Level], taking_part: tuple[Level, ...]
) -> tuple[Level, ...]:
    """The level in conflict with its neighbours; a late constraint and a loop bring their own."""
    neighbours = (below(level, taking_part), above(level, taking_part))
    wanted = tuple(others) if cause in (Cause.CONSTRAINT, Cause.LOOP) else neighbours
    named = (level, *(other for other in wanted if other is not None))
    return tuple(dict.fromkeys(other for other in named if other in taking_part))


def hear(
    dispute: Dispute, level: Level, report: Report, *, guarded: bool, max_rounds: int
) -> Dispute | Agreed | Undecided:
    """The dispute after a report; `guarded`: L9 has the last word on a decision."""
    match report.kind:
        case TurnKind.POSITION:
            dispute = replace(dispute, positions=_with(dispute.positions, level, report.position))
            return replace(dispute, kind=TurnKind.PROPOSE) if _all_in(dispute, dispute.positions) else dispute
        case TurnKind.PROPOSE if report.proposal is not None:
            dispute = replace(dispute, kind=TurnKind.AGREE, proposals=(*dispute.proposals, report.proposal))
            return dispute if dispute.asked else _unanimous(dispute, guarded=guarded)
        case TurnKind.AGREE:
            objection = (report.objection or "objects, without a reason") if report.verdict is Verdict.OBJECT else ""
            return _voted(
                replace(dispute, votes=_with(dispute.votes, level, objection)), guarded=guarded, max_rounds=max_rounds
            )
        case TurnKind.ALIGN if report.verdict is Verdict.ALIGNED:
            return Agreed(dispute.proposal)
        case TurnKind.ALIGN:
            said = f"L9: {report.violation}; instead: {'; '.join(report.alternatives)}"
            return _next_round(dispute, (said,), max_rounds)
        case _:
            return dispute


def _voted(dispute: Dispute, *, guarded: bool, max_rounds: int) -> Dispute | Agreed | Undecided:
    if not _all_in(dispute, dispute.votes):
        return dispute
    objections = tuple(f"{level.name}: {dispute.votes[level]}" for level in dispute.asked if dispute.votes[level])
    return _next_round(dispute, objections, max_rounds) if objections else _unanimous(dispute, guarded=guarded)


def _unanimous(dispute: Dispute, *, guarded: bool) -> Dispute | Agreed:
    return replace(dispute, kind=TurnKind.ALIGN) if guarded else Agreed(dispute.proposal)


def _next_round(dispute: Dispute, objections: tuple[str, ...], max_rounds: int) -> Dispute | Undecided:
    dispute = replace(dispute, objections=(*dispute.objections, *objections), votes=MappingProxyType({}))
    if dispute.round >= max_rounds:
        return Undecided(dispute)
    return replace(dispute, kind=TurnKind.PROPOSE, round=dispute.round + 1)


def _all_in(dispute: Dispute, said: Mapping[Level, str]) -> bool:
    return all(level in said for level in dispute.asked)


def _with(said: Mapping[Level, str], level: Level, text: str) -> Mapping[Level, str]:
    # In one order, whoever answered first.
    return MappingProxyType({key: ({**said, level: text})[key] for key in sorted({*said, level}, reverse=True)})
