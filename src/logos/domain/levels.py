"""The nine levels from purpose to syntax, as a table."""

from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """Higher is nearer to the purpose."""

    L1 = 1
    L2 = 2
    L3 = 3
    L4 = 4
    L5 = 5
    L6 = 6
    L7 = 7
    L8 = 8
    L9 = 9


@dataclass(frozen=True, slots=True)
class LevelDef:
    """One row of the table: a level's mandate and the required sections of its spec."""

    level: Level
    title: str
    mandate: str
    sections: tuple[str, ...]
    document: str

    @property
    def name(self) -> str:
        return self.level.name

    @property
    def profile(self) -> str:
        return self.title.lower().replace("-", "_")


_MANDATES = {
    9: "guards the project's purpose: decides whether a request serves it, and in the end whether the result does",
    8: "states why the feature is worth having and how anybody will see that it was",
    7: "states which needs of which users the feature serves, and on what evidence",
    6: "states what using the feature is like, for everybody, with every error a user can meet",
    5: "states the user journeys as end-to-end checks that can be run",
    4: "states the interfaces and contracts between the parts, with their errors",
    3: "divides the work into components and says what each needs, so that the independent are built in parallel",
    2: "writes the code of one component, its tests first",
    1: "fixes lint and format errors without changing what the code does",
}
_ROWS: tuple[tuple[Level, str, tuple[str, ...], str], ...] = (
    (Level.L9, "Telos-Guardian", ("purpose", "boundaries"), "decompose"),
    (Level.L8, "Market-Analyst", ("business_case", "success_measures"), "decompose"),
    (Level.L7, "Insight-Synthesizer", ("user_needs", "evidence"), "decompose"),
    (Level.L6, "UX-Simulator", ("experience", "accessibility"), "decompose"),
    (Level.L5, "Journey-Validator", ("journeys", "end_to_end_checks"), "decompose"),
    (Level.L4, "Integration-Contractor", ("interfaces", "contracts"), "decompose"),
    (Level.L3, "Component-Architect", ("architecture",), "decompose"),
    (Level.L2, "Function-Author", ("behaviour",), "author"),
    (Level.L1, "Syntax-Linter", (), "lint"),
)
LEVELS = {
    level: LevelDef(level, title, _MANDATES[level], sections, document) for level, title, sections, document in _ROWS
}

ALL_LEVELS: tuple[Level, ...] = tuple(LEVELS)
"""From purpose to syntax."""

# Levels proven by tools alone; the levels above judge.
PROVEN_BY_TOOLS = (Level.L1, Level.L2)


def above(level: Level, taking_part: tuple[Level, ...]) -> Level | None:
    """The nearest level above that takes part."""
    return min((other for other in taking_part if other > level), default=None)


def below(level: Level, taking_part: tuple[Level, ...]) -> Level | None:
    return max((other for other in taking_part if other < level), default=None)
