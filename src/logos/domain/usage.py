"""Tokens and prices of turns. Unknown is not zero: missing usage is counted and shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Usage:
    """One turn's tokens and price, as far as its host reports them. Cached tokens are part of the input."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    cost_usd: float | None = None

    @property
    def tokens(self) -> int | None:
        return None if self.input is None or self.output is None else self.input + self.output

    def minus(self, before: Usage | None) -> Usage:
        """The difference to an earlier total."""
        if before is None:
            return self
        return Usage(
            _less(self.input, before.input),
            _less(self.cached, before.cached),
            _less(self.output, before.output),
            None if self.cost_usd is None else max(self.cost_usd - (before.cost_usd or 0.0), 0.0),
        )

    def plus(self, other: Usage) -> Usage:
        """The sum; a value that only one side knows is kept."""
        return Usage(
            _more(self.input, other.input),
            _more(self.cached, other.cached),
            _more(self.output, other.output),
            _more(self.cost_usd, other.cost_usd),
        )


def total_of(turns: Sequence[Usage | None]) -> Usage | None:
    """What turns cost together; None when the last one did not tell: unknown is not "nothing more than before"."""
    if not turns or turns[-1] is None:
        return None
    total = Usage()
    for usage in turns:
        total = total.plus(usage or Usage())
    return total


def _less(now: int | None, before: int | None) -> int | None:
    return None if now is None else max(now - (before or 0), 0)


Number = TypeVar("Number", int, float)


def _more(one: Number | None, other: Number | None) -> Number | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other


@dataclass(frozen=True, slots=True)
class Spent:
    """The sum over turns, with the number of turns without usage."""

    turns: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    cost_usd: float = 0.0
    tokens_unknown: int = 0
    cost_unknown: int = 0

    @property
    def tokens(self) -> int | None:
        """None when no turn reported tokens."""
        return None if self.turns == self.tokens_unknown else self.input + self.output

    @property
    def cost(self) -> float | None:
        return None if self.turns == self.cost_unknown else self.cost_usd

    def plus(self, usage: Usage | None) -> Spent:
        known = usage or Usage()
        return Spent(
            self.turns + 1,
            self.input + (known.input or 0),
            self.cached + (known.cached or 0),
            self.output + (known.output or 0),
            self.cost_usd + (known.cost_usd or 0.0),
            self.tokens_unknown + (known.tokens is None),
            self.cost_unknown + (known.cost_usd is None),
        )
