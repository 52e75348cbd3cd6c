"""Parses turn ids of the levels strictly: a log can hold any text."""

import re
from dataclasses import dataclass
from functools import lru_cache

from logos.domain.levels import Level
from logos.domain.reports import TurnKind
from logos.domain.turns import TurnId

NUMBER = r"[1-9][0-9]{0,5}"
COMPONENT = r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}"
_LEVEL_TURN = re.compile(
    rf"(?P<key>s(?P<sweep>{NUMBER})(?:\.q{NUMBER})?\.(?P<level>L[1-9])(?:\.(?P<component>{COMPONENT}))?"
    rf"\.(?P<kind>{'|'.join(TurnKind)})(?:\.(?P<again>[rv]{NUMBER}))?)(?:\.t(?P<attempt>{NUMBER}))?"
)
GATHER = ".gather"


def turn_of(key: str, attempt: int) -> TurnId:
    return TurnId(key if attempt == 1 else f"{key}.t{attempt}")


@dataclass(frozen=True, slots=True)
class LevelTurn:
    """`first`: the same was not asked before in this run; `key` is shared by all attempts."""

    id: str
    level: Level
    kind: TurnKind
    component: str = ""
    first: bool = True
    sweep: int = 1
    key: str = ""
    attempt: int = 1

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys under which a script may name it, most specific first."""
        own = (f"{self.level.name}.{self.component}",) if self.component else ()
        return (self.id, *own, f"{self.level.name}.{self.kind}", self.level.name)

    @property
    def who(self) -> str:
        """The agent's name for people."""
        return f"{self.level.name} {self.component}".rstrip()

    @property
    def before(self) -> str:
        """The previous attempt; empty for the first."""
        return turn_of(self.key, self.attempt - 1) if self.attempt > 1 else ""


# A turn is named by several events, and looked at by several readers.
@lru_cache(maxsize=1024)
def level_turn(turn: str) -> LevelTurn | None:
    """Parse a turn id such as s1.L2.cart.author; only authors have components."""
    found = _LEVEL_TURN.fullmatch(turn)
    if found is None or (found["component"] and found["level"] != Level.L2.name):
        return None
    level, kind, component = Level[found["level"]], TurnKind(found["kind"]), found["component"] or ""
    first, sweep = found["sweep"] == "1" and found["again"] is None, int(found["sweep"])
    return LevelTurn(turn, level, kind, component, first, sweep, found["key"], int(found["attempt"] or 1))
