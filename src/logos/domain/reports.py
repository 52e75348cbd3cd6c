"""Reports: the parsed responses of the levels' agents."""

from dataclasses import dataclass
from enum import StrEnum

from logos.domain.levels import Level


class TurnKind(StrEnum):
    """The purpose of a level's turn; each kind has its own report fields."""

    DECOMPOSE = "decompose"
    AUTHOR = "author"
    LINT = "lint"
    VALIDATE = "validate"
    POSITION = "position"
    PROPOSE = "propose"
    AGREE = "agree"
    ALIGN = "align"


class Verdict(StrEnum):
    ALIGNED = "ALIGNED"
    MISALIGNED = "MISALIGNED"
    PASS = "PASS"
    FAIL = "FAIL"
    AGREE = "AGREE"
    OBJECT = "OBJECT"


class ActionKind(StrEnum):
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
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    result: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ToolUse:
    tool: str
    result: str = ""


@dataclass(frozen=True, slots=True)
class Component:
    """A part of the work for one author."""

    name: str
    purpose: str
    files: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraint:
    """A technical fact that the specs above do not consider."""

    statement: str
    affects: tuple[Level, ...] = ()
    touches_journeys: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A requirement that the work does not meet; `conflicts_with` names levels whose specs contradict it."""

    what: str
    expected: str = ""
    observed: str = ""
    conflicts_with: tuple[Level, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    level: Level
    change: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed resolution: spec changes per level, and components to rework."""

    summary: str
    changes: tuple[Change, ...] = ()
    rework: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A parsed response. The fields after `next` are used by some kinds only."""

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
    why_no_tests: str = ""
    provides: tuple[str, ...] = ()
    constraint: Constraint | None = None
    failures: tuple[Failure, ...] = ()
    position: str = ""
    proposal: Proposal | None = None
    objection: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """An invalid response, with every reason as a line that the agent can act on."""

    errors: tuple[str, ...]
