"""The five roles of the cycle and the three phases they work in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    ANALYST = "analyst"
    PEER_ANALYST = "peer_analyst"
    PROGRAMMER = "programmer"
    PEER_PROGRAMMER = "peer_programmer"
    TESTER = "tester"


class Phase(StrEnum):
    ANALYST = "analyst"
    PROGRAMMER = "programmer"
    TESTER = "tester"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Seat:
    """One role's place at the table: what its response is called and which profile it has by default."""

    role: Role
    answer: str
    response_file: str
    profile: str


@dataclass(frozen=True, slots=True)
class Stage:
    """A phase and who works in it: an author, and a reviewer where there is one."""

    phase: Phase
    author: Role
    reviewer: Role | None
    upstream: Role | None


SEATS: dict[Role, Seat] = {
    seat.role: seat
    for seat in (
        Seat(Role.ANALYST, "analyst", "analyst_summary.md", "system_analyst"),
        Seat(Role.PEER_ANALYST, "analyst_review", "analyst_review.md", "peer_system_analyst"),
        Seat(Role.PROGRAMMER, "programmer", "programmer_summary.md", "programmer"),
        Seat(Role.PEER_PROGRAMMER, "programmer_review", "programmer_review.md", "peer_programmer"),
        Seat(Role.TESTER, "tester", "test_result.md", "tester"),
    )
}

ANSWERS: tuple[str, ...] = tuple(seat.answer for seat in SEATS.values())
RESPONSE_FILES: dict[str, str] = {seat.answer: seat.response_file for seat in SEATS.values()}

STAGES: tuple[Stage, ...] = (
    Stage(Phase.ANALYST, Role.ANALYST, Role.PEER_ANALYST, upstream=None),
    Stage(Phase.PROGRAMMER, Role.PROGRAMMER, Role.PEER_PROGRAMMER, upstream=Role.ANALYST),
    Stage(Phase.TESTER, Role.TESTER, None, upstream=Role.PROGRAMMER),
)


def stage_of(phase: Phase) -> Stage:
    return next(stage for stage in STAGES if stage.phase is phase)


def stage_with(role: Role) -> Stage:
    return next(stage for stage in STAGES if role in (stage.author, stage.reviewer))


def phase_after(phase: Phase) -> Phase:
    order = [*(stage.phase for stage in STAGES), Phase.DONE]
    return order[order.index(phase) + 1]
