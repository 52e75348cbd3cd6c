"""What turns cost, where a CLI counts the requests of a plan instead of tokens."""

from __future__ import annotations

from logos.domain.usage import Spent, Usage
from logos.views.usage import in_short, in_words, sum_in_words


def test_premium_requests_are_counted_and_shown_where_tokens_are_unknown() -> None:
    first, second = Usage(premium_requests=1), Usage(premium_requests=3.5)
    turn = second.minus(first)
    assert in_words(first) == "tokens unknown, 1 premium request"
    assert in_short(turn) == "2.5 premium requests"
    spent = Spent().plus(first).plus(turn)
    assert sum_in_words(spent, 1200) == "3.5 premium requests, 1,200 characters sent, tokens unknown"


def test_a_turn_about_which_nothing_is_known_says_so() -> None:
    assert (in_words(None), in_short(None)) == ("tokens unknown", "")
    assert in_words(Usage(cost_usd=0.5)) == "tokens unknown, $0.5000"
