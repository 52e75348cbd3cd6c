"""What turns cost, in words and numbers. What nobody told is unknown, never zero."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from logos.domain.usage import Spent, Usage
from logos.views.text import count, number

if TYPE_CHECKING:
    from logos.views.run import TurnView

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Bill:
    """The sum over turns: what was told, and how many turns left something untold."""

    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    tokens_unknown: int = 0
    cost_unknown: int = 0

    def plus(self, told: TurnView) -> Bill:
        total = self.usage
        for usage in told.bills:
            total = total.plus(usage or Usage())
        return Bill(
            self.turns + 1,
            total,
            self.tokens_unknown + any(usage is None or usage.tokens is None for usage in told.bills),
            self.cost_unknown + any(usage is None or usage.cost_usd is None for usage in told.bills),
        )


def bill_for(turns: Iterable[TurnView]) -> Bill:
    """Every turn that ended, well or not. Checks cost nothing."""
    bill = Bill()
    for told in turns:
        bill = bill.plus(told) if told.bills else bill
    return bill


def tokens(many: int | None) -> str:
    return UNKNOWN if many is None else number(many)


def dollars(cost: float | None) -> str:
    if cost is None:
        return UNKNOWN
    return f"${cost:,.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"


def in_words(usage: Usage | None) -> str:
    """One turn: `1,500 tokens (1,200 in, 300 of them cached, 300 out), $0.0120`."""
    known = usage or Usage()
    if known.tokens is None:
        return "tokens unknown" if known.cost_usd is None else f"tokens unknown, {dollars(known.cost_usd)}"
    cached = f", {number(known.cached)} of them cached" if known.cached is not None else ""
    parts = f"({tokens(known.input)} in{cached}, {tokens(known.output)} out)"
    return f"{number(known.tokens)} tokens {parts}, cost {dollars(known.cost_usd)}"


def in_short(usage: Usage | None) -> str:
    """The same for a line that says more than this; nothing where nothing is known."""
    known = usage or Usage()
    told = [f"{number(known.tokens)} tokens"] if known.tokens is not None else []
    return ", ".join(told + ([dollars(known.cost_usd)] if known.cost_usd is not None else []))


def sum_in_words(bill: Bill, characters: int) -> str:
    return _sum(bill.usage.tokens, bill.usage.cost_usd, bill.turns, bill.tokens_unknown, characters)


def spent_in_words(spent: Spent, characters: int) -> str:
    return _sum(spent.tokens, spent.cost, spent.turns, spent.tokens_unknown, characters)


def _sum(used: int | None, cost: float | None, turns: int, unknown: int, characters: int) -> str:
    """Tokens where they are known, characters otherwise."""
    sent = f"{number(characters)} characters sent"
    if used is None and cost is None:
        return f"{sent}, tokens unknown" if turns else sent
    told = f"{sent}, tokens unknown" if used is None else f"{number(used)} tokens"
    price = f", {dollars(cost)}" if cost is not None else ""
    rest = f" (unknown for {unknown} of {count(turns, 'turn')})" if unknown and used is not None else ""
    return f"{told}{price}{rest}"


def usage_as_json(usage: Usage | None) -> dict[str, Any] | None:
    """One turn's usage; null where its host does not tell."""
    if usage is None or usage == Usage():
        return None
    return {
        "input": usage.input,
        "cached": usage.cached,
        "output": usage.output,
        "tokens": usage.tokens,
        "cost_usd": _exact(usage.cost_usd),
    }


def bill_as_json(bill: Bill) -> dict[str, Any]:
    usage = bill.usage
    return {
        "turns": bill.turns,
        "input": usage.input,
        "cached": usage.cached,
        "output": usage.output,
        "tokens": usage.tokens,
        "cost_usd": _exact(usage.cost_usd),
        "tokens_unknown_turns": bill.tokens_unknown,
        "cost_unknown_turns": bill.cost_unknown,
    }


def _exact(cost: float | None) -> float | None:
    """Without the dust of adding floats."""
    return None if cost is None else round(cost, 6)
