"""What agents of the levels hand in: reports, parsed from their responses, and what they say in them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from logos.domain.levels import Level


class TurnKind(StrEnum):
    """What a turn of a level is for; each kind asks for fields of its own."""

    DECOMPOSE = "decompose"
    AUTHOR = "author"
    LINT = "lint"
    VALIDATE = "validate"
    POSITION = "position"
    PROPOSE = "propose"
    AGREE = "agree"
    ALIGN = "align"


class Verdict(StrEnum):
    """A verdict."""

    ALIGNED = "ALIGNED"
    MISALIGNED = "MISALIGNED"
    PASS = "PASS"
    FAIL = "FAIL"
    AGREE = "AGREE"
    OBJECT = "OBJECT"


class ActionKind(StrEnum):
    """What an agent recommends to do next."""

    PROCEED = "proceed"
    HAND_BACK = "hand_back"
    ASK_PERSON = "ask_person"


@dataclass(frozen=True, slots=True)
class NextAction:
    """`to` names a level (hand_back), `why` the reason or, for ask_person, the question."""

    step: ActionKind = ActionKind.PROCEED
    to: Level | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a spec."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One validation result: something looked at, and how it was found."""

    what: str
    result: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ToolUse:
    tool: str
    result: str = ""


@dataclass(frozen=True, slots=True)
class Component:
    """A part of the work that one author can do alone."""

    name: str
    purpose: str
    files: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraint:
    """A technical fact that the specs above did not know."""

    statement: str
    affects: tuple[Level, ...] = ()
    touches_journeys: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """What a spec asks for and the work does not do; `conflicts_with` names levels whose specs it contradicts."""

    what: str
    expected: str = ""
    observed: str = ""
    conflicts_with: tuple[Level, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What a proposal changes in one level's spec."""

    level: Level
    change: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """A way out of a conflict: what changes at which levels, and which components are worked on again."""

    summary: str
    changes: tuple[Change, ...] = ()
    rework: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A parsed response. The fields after `next` belong to some kinds only."""

    kind: TurnKind
    level: Level
    work_summary: str
    spec: tuple[Section, ...] = ()
    results: tuple[Finding, ...] = ()
    tools: tuple[ToolUse, ...] = ()
    next: NextAction = NextAction()
    verdict: Verdict | None = None
    violation: str = ""
    alternatives: tuple[str, ...] = ()
    components: tuple[Component, ...] = ()
    files: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    constraint: Constraint | None = None
    failures: tuple[Failure, ...] = ()
    position: str = ""
    proposal: Proposal | None = None
    objection: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """A response that is no report, with every reason, each a line the agent can act on."""

    errors: tuple[str, ...]
