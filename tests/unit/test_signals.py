"""A signal as an exception: raised once, swallowed by nobody who handles errors, gone with its block."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from logos.app.signals import interruptible
from logos.errors import Interrupted

CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """What a test does to this process's signals ends with it."""
    before = {signum: signal.signal(signum, signal.SIG_DFL) for signum in CAUGHT}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def raise_where_errors_are_handled(signum: signal.Signals) -> None:
    with suppress(Exception):
        signal.raise_signal(signum)


@pytest.mark.parametrize("signum", CAUGHT)
def test_whoever_handles_errors_does_not_swallow_a_signal(signum: signal.Signals) -> None:
    with interruptible(), pytest.raises(Interrupted) as stop:
        raise_where_errors_are_handled(signum)
    assert stop.value.exit_code == 128 + signum


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_inherited_ignored_signal_to_stop_is_heard_and_ignored_again_afterwards(signum: signal.Signals) -> None:
    signal.signal(signum, signal.SIG_IGN)
    with interruptible(), pytest.raises(Interrupted):
        signal.raise_signal(signum)
    assert signal.getsignal(signum) is signal.SIG_IGN


def test_an_inherited_ignored_hangup_stays_ignored_even_after_another_signal() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interruptible():
        signal.raise_signal(signal.SIGHUP)
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_second_signal_ends_the_process() -> None:
    with interruptible():
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGTERM)
        assert [signal.getsignal(signum) for signum in CAUGHT] == [signal.SIG_DFL] * 3
