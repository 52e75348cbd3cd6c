"""Limits: a provider's, which end some day, and the person's own."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.domain.turns import FailureKind
from logos.domain.usage import Spent, Usage
from logos.engine.budgets import (
    LONGEST_SECONDS,
    MARGIN_SECONDS,
    UNSAID_SECONDS,
    Budget,
    ends_at,
    seconds_to_wait,
    until_words,
)
from logos.errors import BudgetReached
from logos.waiting.provider_errors import OnLimit, Recovery, Retry, failure_kind_of, recovery_for
from tests.builders import examples

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC).timestamp()
HOUR = 3600.0


@pytest.mark.parametrize(
    ("message", "trouble"),
    [
        ("You've hit your 5-hour limit · resets 12:19am (UTC)", FailureKind.LIMIT),
        ("Claude AI usage limit reached|1762952400", FailureKind.LIMIT),
        ("unexpected status 429 Too Many Requests: slow down", FailureKind.LIMIT),
        ("exceeded retry limit, last status: 429 Too Many Requests", FailureKind.LIMIT),
        ("The usage limit has been reached", FailureKind.LIMIT),
        ("insufficient_quota", FailureKind.LIMIT),
        ('API Error: 500 {"type":"error"}', FailureKind.TRANSIENT),
        ("API Error: 529 overloaded_error", FailureKind.TRANSIENT),
        ("stream disconnected before completion", FailureKind.TRANSIENT),
        ("connect ECONNREFUSED 127.0.0.1:1", FailureKind.TRANSIENT),
        ("No conversation found with session ID: x", FailureKind.TRANSIENT),
        ("We’re currently experiencing high demand, which may cause temporary errors.", FailureKind.TRANSIENT),
        ("temporary failure: Connection lost", FailureKind.TRANSIENT),
        ("temporary failure: Error code: 429 - {'message': 'slow down'}", FailureKind.LIMIT),
        ("Invalid API key · Please run /login", FailureKind.PROVIDER),
        ("its process ended with 1: no such option", FailureKind.PROVIDER),
    ],
)
def test_a_complaint_is_a_limit_a_hiccup_or_something_a_person_must_mend(message: str, trouble: FailureKind) -> None:
    assert failure_kind_of(message) is trouble


def test_a_hiccup_is_tried_again_twice_with_more_and_more_time() -> None:
    tries = [recovery_for(FailureKind.TRANSIENT, n, OnLimit.STOP, 5.0) for n in range(3)]
    assert tries == [Retry(5.0), Retry(30.0), Recovery.STOP]


def test_a_limit_stops_waits_or_calls_a_spare_as_told() -> None:
    assert [recovery_for(FailureKind.LIMIT, 0, choice, 5.0) for choice in OnLimit] == [
        Recovery.STOP,
        Retry(None),
        Recovery.FAILOVER,
    ]


RETRIED = (FailureKind.LIMIT, FailureKind.TRANSIENT, FailureKind.CUT_OFF)


@pytest.mark.parametrize("trouble", [trouble for trouble in FailureKind if trouble not in RETRIED])
def test_nothing_else_is_tried_again(trouble: FailureKind) -> None:
    assert all(recovery_for(trouble, 0, choice, 5.0) == Recovery.STOP for choice in OnLimit)


@pytest.mark.parametrize(
    ("message", "hours"),
    [
        (f"Claude AI usage limit reached|{int(NOW + HOUR)}", 1),
        ("try again in 3 days 4 hours.", 76),
        ("Rate limit reached, try again in 1h30m", 1.5),
        ("retry after 1800", 0.5),
        ("Please try again in 90 seconds", 0.025),
        ("resets at 2026-03-10T14:00:00Z", 2),
        ("resets at 2026-03-10T14:00:00+01:00", 1),
        ("You've hit your limit · resets 10pm (America/New_York)", 14),
        ("You've hit your session limit · resets 8:30am (Asia/Tokyo)", 11.5),
        ("Your limit will reset at 9am (UTC)", 21),
    ],
)
def test_the_end_of_a_limit_is_read_from_its_message(message: str, hours: float) -> None:
    assert ends_at(message, NOW) == pytest.approx(NOW + hours * HOUR)


def test_an_end_given_as_a_date_is_in_our_own_time() -> None:
    end = ends_at("You've hit your usage limit. Try again at Mar 17th, 2026 10:09 PM.", NOW)
    assert end == datetime(2026, 3, 17, 22, 9).astimezone().timestamp()


def test_a_clock_without_a_zone_is_ours() -> None:
    end = ends_at("try again at 10:33 PM.", NOW)
    assert end is not None
    assert 0 < end - NOW <= 24 * HOUR
    assert datetime.fromtimestamp(end).strftime("%H:%M") == "22:33"


@pytest.mark.parametrize("message", ["", "slow down", "limit reached", "resets at 99pm", "resets 10pm (Nowhere/Land)"])
def test_a_message_that_does_not_say_is_waited_for_a_while_or_read_in_our_zone(message: str) -> None:
    end = ends_at(message, NOW)
    assert end is None or end > NOW
    if end is None:
        assert until_words(message, NOW) == ""
        assert seconds_to_wait(message, NOW) == UNSAID_SECONDS


def test_a_limit_that_is_over_is_waited_for_a_moment_only() -> None:
    assert seconds_to_wait(f"limit reached|{int(NOW - HOUR)}", NOW) == MARGIN_SECONDS


def test_the_person_is_told_until_when() -> None:
    here = datetime.fromtimestamp(NOW + HOUR).strftime("%Y-%m-%d %H:%M")
    assert until_words(f"limit|{int(NOW + HOUR)}", NOW) == f"until {here}"
    assert ZoneInfo("UTC")


@pytest.mark.parametrize(
    "message",
    [
        "resets at 2026-99-99T10:00",
        "resets at 2026-02-30 10:00",
        "resets at 0000-01-01T00:00",
        "resets at 2026-03-10T14:00:00+99:99",
        "try again at Feb 30th, 2026 10:09 PM",
        "try again at Jan 1st, 0001 10:09 PM",
        "try again at Dec 31st, 9999 11:59 PM",
        "resets at 9999-12-31T23:59",
        f"retry after {'9' * 50}",
        f"try again in {'9' * 50} weeks",
    ],
)
def test_a_moment_that_cannot_be_meant_is_as_good_as_none(message: str) -> None:
    assert ends_at(message, NOW) is None
    assert until_words(message, NOW) == ""
    assert seconds_to_wait(message, NOW) == UNSAID_SECONDS


def test_an_impossible_date_does_not_hide_what_else_the_message_says() -> None:
    assert ends_at("since 2026-99-99T10:00; try again in 2 hours", NOW) == NOW + 2 * HOUR


@pytest.mark.parametrize("zone", ["America", "Nowhere/Land", "/etc/passwd", "x" * 5000])
def test_a_zone_that_is_none_is_ours(zone: str) -> None:
    assert ends_at(f"resets 10pm ({zone})", NOW) == ends_at("resets 10pm", NOW)


# What the readers look for, with any digits in it.
_DIGITS = st.text("0123456789٣९", max_size=5)
_SHAPES = st.sampled_from(
    (
        "resets at {}-{}-{}T{}:{}",
        "resets at {:0>4.4}-{:0>2.2}-{:0>2.2}T{:0>2.2}:{:0>2.2}",
        "resets at 2026-03-1{:0>1.1} {:0>2.2}:{:0>2.2}+{:0>2.2}:{:0>2.2}",
        "try again at Mar {:0>2.2}th, {:0>4.4} {:0>2.2}:{:0>2.2} PM {}",
        "try again in {}{}{} days {}.{} hours",
        "retry after {}{}{}{}{}",
        "resets {:0>2.2}:{:0>2.2}pm (Etc/GMT+{}) {} {}",
        "limit reached|1{:0>5.5}{:0>4.4}{}{}{}",
    )
)


@examples(300)
@given(st.text() | st.builds(str.format, _SHAPES, _DIGITS, _DIGITS, _DIGITS, _DIGITS, _DIGITS))
def test_any_message_can_be_read(message: str) -> None:
    assert 0 <= seconds_to_wait(message, NOW) <= LONGEST_SECONDS + MARGIN_SECONDS
    assert isinstance(until_words(message, NOW), str)
    assert isinstance(failure_kind_of(message), FailureKind)


# --- the person's own limits


SPENT = Spent().plus(Usage(900, 100, 100, 1.5)).plus(Usage(400, 0, 100, 0.5))


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(max_tokens=1500), "limits.max_tokens reached: 1,500 tokens of 1,500 tokens"),
        (Budget(max_cost_usd=2.0), "limits.max_cost_usd reached: $2.00 of $2.00"),
        (Budget(max_minutes=10), "limits.max_minutes reached: 10.0 minutes of 10.0 minutes"),
    ],
)
def test_a_budget_that_is_used_up_stops_the_run_and_says_how_to_go_on(budget: Budget, words: str) -> None:
    with pytest.raises(BudgetReached, match="--resume") as stop:
        budget.check(SPENT, 600)
    assert words in str(stop.value)
    assert stop.value.exit_code == 4


def test_a_budget_that_is_not_used_up_stops_nothing() -> None:
    assert Budget(1501, 2.01, 10.1).check(SPENT, 600) is None
    assert Budget().check(SPENT, 1e9) is None


def test_what_nobody_counted_is_not_zero_and_breaks_no_budget() -> None:
    silent = Spent().plus(None).plus(Usage())
    assert (silent.usage.tokens, silent.usage.cost_usd) == (None, None)
    assert (silent.turns, silent.tokens_unknown, silent.cost_unknown) == (2, 2, 2)
    assert Budget(max_tokens=1, max_cost_usd=0.01).check(silent, 0) is None


def test_a_conversations_total_less_what_is_accounted_for_is_the_turns() -> None:
    before = Usage(100, 50, 10, 0.5)
    assert Usage(300, 120, 30, 0.75).minus(before) == Usage(200, 70, 20, 0.25)
    assert Usage(300, None, 30, None).minus(before) == Usage(300 - 100, None, 20, None)
    assert Usage(300).minus(None) == Usage(300)


def test_usage_adds_up_and_what_only_one_tells_is_told() -> None:
    assert Usage(1, None, 2, 0.5).plus(Usage(10, 5, None, 0.25)) == Usage(11, 5, 2, 0.75)
