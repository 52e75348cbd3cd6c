"""Tokens and prices of turns. Unknown is not zero: missing usage is counted and shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import reduce
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Usage:
    """One turn's tokens and price, as far as its host reports them. Cached tokens are part of the input.

    `premium_requests` is what a plan is charged for, where a CLI counts that instead of tokens.
    """

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    cost_usd: float | None = None
    premium_requests: float | None = None

    @property
    def tokens(self) -> int | None:
        return None if self.input is None or self.output is None else self.input + self.output

    def minus(self, before: Usage | None) -> Usage:
        """The difference to an earlier total."""
        return self if before is None else Usage(*map(_less, astuple(self), astuple(before)))

    def plus(self, other: Usage) -> Usage:
        """The sum; a value that only one side knows is kept."""
        return Usage(*map(_more, astuple(self), astuple(other)))


def total_of(turns: Sequence[Usage | None]) -> Usage | None:
    """What turns cost together; None when the last one did not tell: unknown is not "nothing more than before"."""
    if not turns or turns[-1] is None:
        return None
    return reduce(Usage.plus, (usage or Usage() for usage in turns), Usage())


Number = TypeVar("Number", int, float)


def _less(now: Number | None, before: Number | None) -> Number | None:
    # Zero of the same type: a price stays a float.
    return None if now is None else max(now - (before or 0), type(now)())


def _more(one: Number | None, other: Number | None) -> Number | None:
    return other if one is None else one if other is None else one + other


@dataclass(frozen=True, slots=True)
class Spent:
    """The sum over turns, with the number of turns that left something unknown."""

    turns: int = 0
    usage: Usage = Usage()
    tokens_unknown: int = 0
    cost_unknown: int = 0

    @property
    def tokens(self) -> int | None:
        """None when no turn reported its tokens."""
        return self.usage.tokens

    @property
    def cost(self) -> float | None:
        return self.usage.cost_usd

    def plus(self, *attempts: Usage | None) -> Spent:
        """With one more turn, which may have taken several attempts."""
        known = [usage or Usage() for usage in attempts]
        return Spent(
            self.turns + 1,
            reduce(Usage.plus, known, self.usage),
            self.tokens_unknown + any(usage.tokens is None for usage in known),
            self.cost_unknown + any(usage.cost_usd is None for usage in known),
        )

    def merged(self, other: Spent) -> Spent:
        return Spent(
            self.turns + other.turns,
            self.usage.plus(other.usage),
            self.tokens_unknown + other.tokens_unknown,
            self.cost_unknown + other.cost_unknown,
        )
