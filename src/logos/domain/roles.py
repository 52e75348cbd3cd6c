"""The five roles of the cycle and the three phases they work in."""

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
class RoleDef:
    role: Role
    answer: str
    response_file: str
    profile: str


@dataclass(frozen=True, slots=True)
class PhaseDef:
    phase: Phase
    author: Role
    reviewer: Role | None
    upstream: Role | None


ROLE_DEFS: dict[Role, RoleDef] = {
    role_def.role: role_def
    for role_def in (
        RoleDef(Role.ANALYST, "analyst", "analyst_summary.md", "system_analyst"),
        RoleDef(Role.PEER_ANALYST, "analyst_review", "analyst_review.md", "peer_system_analyst"),
        RoleDef(Role.PROGRAMMER, "programmer", "programmer_summary.md", "programmer"),
        RoleDef(Role.PEER_PROGRAMMER, "programmer_review", "programmer_review.md", "peer_programmer"),
        RoleDef(Role.TESTER, "tester", "test_result.md", "tester"),
    )
}

# Writes acceptance tests without seeing the implementation; it is not one of the roles of the cycle.
ACCEPTANCE_TESTER = "acceptance_tester"
ACCEPTANCE_ANSWER = "acceptance_tests"
ACCEPTANCE_FILE = "acceptance_tests.md"

ANSWERS: tuple[str, ...] = tuple(role_def.answer for role_def in ROLE_DEFS.values())
RESPONSE_FILES: dict[str, str] = {role_def.answer: role_def.response_file for role_def in ROLE_DEFS.values()}

PHASE_DEFS: tuple[PhaseDef, ...] = (
    PhaseDef(Phase.ANALYST, Role.ANALYST, Role.PEER_ANALYST, upstream=None),
    PhaseDef(Phase.PROGRAMMER, Role.PROGRAMMER, Role.PEER_PROGRAMMER, upstream=Role.ANALYST),
    PhaseDef(Phase.TESTER, Role.TESTER, None, upstream=Role.PROGRAMMER),
)


_BY_PHASE = {stage.phase: stage for stage in PHASE_DEFS}
_BY_ROLE = {role: stage for stage in PHASE_DEFS for role in (stage.author, stage.reviewer) if role is not None}


def phase_def(phase: Phase) -> PhaseDef:
    return _BY_PHASE[phase]


def phase_def_of(role: Role) -> PhaseDef:
    return _BY_ROLE[role]


def phase_after(phase: Phase) -> Phase:
    order = [*(stage.phase for stage in PHASE_DEFS), Phase.DONE]
    return order[order.index(phase) + 1]
