"""What passes between levels: specs, handoffs, changed files, conflicts, proofs and questions."""

from dataclasses import dataclass
from enum import StrEnum

from logos.domain.levels import Level
from logos.domain.reports import Proposal, Section
from logos.domain.turns import TurnId


@dataclass(frozen=True, slots=True)
class Spec:
    """A level's spec. A new version replaces the old one; both stay in the log."""

    level: Level
    version: int
    turn: TurnId
    parent: str
    summary: str
    sections: tuple[Section, ...]
    component: str = ""

    @property
    def id(self) -> str:
        who = f"{self.level.name}.{self.component}" if self.component else self.level.name
        return f"{who}.v{self.version}"


class Direction(StrEnum):
    DOWN = "down"
    BACK = "back"
    UP = "up"


@dataclass(frozen=True, slots=True)
class Handoff:
    from_level: Level
    to_level: Level
    toward: Direction
    turn: TurnId
    text: str

    @property
    def pattern(self) -> str:
        return f"{self.from_level.name}→{self.to_level.name}"


@dataclass(frozen=True, slots=True)
class TouchedFile:
    """A changed file: the hash of its content (empty: deleted) and its new top-level definitions."""

    path: str
    blob: str
    defines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContentConflict:
    kind: str
    components: tuple[str, ...]
    where: str
    detail: str = ""

    @property
    def words(self) -> str:
        return f"{self.kind}: {self.where} ({' and '.join(self.components)}){f': {self.detail}' if self.detail else ''}"


@dataclass(frozen=True, slots=True)
class Tool:
    """A command that Logos runs itself to prove a level."""

    level: Level
    name: str
    command: str


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a tool on the merged work."""

    level: Level
    tool: str
    command: str
    exit_code: int
    output: str

    @property
    def passed(self) -> bool:
        return self.exit_code == 0


@dataclass(frozen=True, slots=True)
class Question:
    """A question for a person; `options` are numbered from 1, `objections` argue against them.

    `evidence` is what led to it: commands that Logos ran, their exit codes and the end of their output.
    """

    id: str
    text: str
    options: tuple[Proposal, ...] = ()
    objections: tuple[str, ...] = ()
    evidence: str = ""
