"""Tokens and prices of turns. Unknown is not zero: missing usage is counted and shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import attrgetter
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens; without a price of their own, cached tokens cost what others do."""

    input: float
    output: float
    cached: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """One turn's tokens and price, as far as its host reports them. Cached tokens are part of the input.

    `premium_requests` is what a plan is charged for, where a CLI counts that instead of tokens.
    `estimated_usd` is the part of the cost that Logos has estimated from tokens.
    """

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    cost_usd: float | None = None
    premium_requests: float | None = None
    estimated_usd: float | None = None

    @property
    def estimated(self) -> bool:
        return self.estimated_usd is not None

    @property
    def reported(self) -> Usage:
        """Without what was estimated."""
        rest = (self.cost_usd or 0.0) - (self.estimated_usd or 0.0)
        return replace(self, cost_usd=rest or None, estimated_usd=None) if self.estimated else self

    def priced(self, price: Price | None) -> Usage:
        """With a cost estimated from the tokens, where there is a price and no cost was reported."""
        if price is None or self.cost_usd is not None or self.input is None or self.output is None:
            return self
        cached = min(self.cached or 0, self.input)
        read = (self.input - cached) * price.input
        read += cached * (price.input if price.cached is None else price.cached)
        cost = (read + self.output * price.output) / 1_000_000
        return replace(self, cost_usd=cost, estimated_usd=cost)

    @property
    def tokens(self) -> int | None:
        return None if self.input is None or self.output is None else self.input + self.output

    def minus(self, before: Usage | None) -> Usage:
        return self if before is None else Usage(*map(_less, _values(self), _values(before)))

    def plus(self, other: Usage) -> Usage:
        """The sum; a value that only one side knows is kept."""
        return Usage(*map(_more, _values(self), _values(other)))


# `dataclasses.astuple` copies what it finds, which takes twenty times as long.
_values = attrgetter(*(field.name for field in fields(Usage)))


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

    def plus(self, *attempts: Usage | None) -> Spent:
        """With one more turn, which may have taken several attempts."""
        known = [usage for usage in attempts if usage is not None]
        untold = len(known) < len(attempts)
        return Spent(
            self.turns + 1,
            reduce(Usage.plus, known, self.usage),
            self.tokens_unknown + (untold or any(usage.tokens is None for usage in known)),
            self.cost_unknown + (untold or any(usage.cost_usd is None for usage in known)),
        )
