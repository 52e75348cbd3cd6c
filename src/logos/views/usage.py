"""The usage of turns in words. A value that no agent reported is unknown, never zero."""

from logos.domain.usage import Spent, Usage
from logos.views.text import count, number

UNKNOWN = "unknown"


def tokens(many: int | None) -> str:
    return UNKNOWN if many is None else number(many)


def dollars(cost: float | None) -> str:
    if cost is None:
        return UNKNOWN
    return f"${cost:,.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"


def price(usage: Usage) -> str:
    """The cost; `~` marks one that is estimated, or contains an estimate."""
    return f"~{dollars(usage.cost_usd)}" if usage.estimated else dollars(usage.cost_usd)


def in_words(usage: Usage | None) -> str:
    """One turn: `1,500 tokens (1,200 in, 300 of them cached, 300 out), $0.0120`."""
    known = usage or Usage()
    if known.tokens is None:
        return ", ".join(["tokens unknown", *filter(None, [in_short(usage)])])
    cached = f", {number(known.cached)} of them cached" if known.cached is not None else ""
    parts = f"({tokens(known.input)} in{cached}, {tokens(known.output)} out)"
    return f"{number(known.tokens)} tokens {parts}, cost {price(known)}"


def in_short(usage: Usage | None) -> str:
    """The same, as part of a longer line; empty where nothing is known."""
    known = usage or Usage()
    parts = [f"{number(known.tokens)} tokens"] if known.tokens is not None else []
    parts += [price(known)] if known.cost_usd is not None else []
    return ", ".join(parts + ([_requests(known.premium_requests)] if known.premium_requests is not None else []))


def _requests(many: float) -> str:
    return f"{many:g} premium request{'' if many == 1 else 's'}"


def sum_in_words(spent: Spent, characters: int) -> str:
    """Tokens where they are known, characters otherwise."""
    sent, usage = f"{number(characters)} characters sent", spent.usage
    if usage.premium_requests is not None:
        sent = f"{_requests(usage.premium_requests)}, {sent}"
    if usage.tokens is None and usage.cost_usd is None:
        return f"{sent}, tokens unknown" if spent.turns else sent
    known = f"{sent}, tokens unknown" if usage.tokens is None else f"{number(usage.tokens)} tokens"
    cost = f", {price(usage)}" if usage.cost_usd is not None else ""
    some_unknown = spent.tokens_unknown and usage.tokens is not None
    rest = f" (unknown for {spent.tokens_unknown} of {count(spent.turns, 'turn')})" if some_unknown else ""
    return f"{known}{cost}{rest}"
