"""A signal as an exception: raised once, swallowed by nobody who handles errors, gone with its block."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from logos.domain.events import Event, Noted, Recorded, Topic
from logos.domain.turns import RunId
from logos.engine.journal import Journal
from logos.errors import Interrupted
from logos.flows.cycle.flow import Cycle
from logos.flows.fold import RunFold
from logos.signals import interruptible, uninterrupted
from logos.testing import MemoryLog
from tests.builders import a_quick_plan

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


class SignalledLog(MemoryLog):
    """A log whose process is told to stop right after an event became durable."""

    signum: signal.Signals | None = signal.SIGTERM

    def append(self, run: RunId, event: Event, after: int) -> Recorded:
        record = super().append(run, event, after)
        if self.signum is not None:
            signum, self.signum = self.signum, None
            signal.raise_signal(signum)
        return record


def test_a_signal_does_not_separate_the_log_from_its_watchers() -> None:
    log, watched = SignalledLog(), list[int]()
    journal = Journal(log, RunFold(RunId("run"), Cycle(a_quick_plan())))
    journal.watch(lambda record, _state, _ledger: watched.append(record.seq))
    with interruptible(), pytest.raises(Interrupted):
        journal.record(Noted(Topic.WARNING, "one"))
    journal.record(Noted(Topic.INTERRUPTED, "stopped by SIGTERM"))
    assert watched == [1, 2]


def hold_two_blocks(done: list[str]) -> None:
    with uninterrupted():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append("inner")
        done.append("outer")


def test_a_signal_that_waits_is_raised_when_the_outer_block_ends() -> None:
    done = list[str]()
    with interruptible(), pytest.raises(Interrupted):
        hold_two_blocks(done)
    assert done == ["inner", "outer"]


def handlers_after_a_signal_that_waits(found: list[object]) -> None:
    with uninterrupted():
        signal.raise_signal(signal.SIGTERM)
        found.extend(signal.getsignal(signum) for signum in CAUGHT)


def test_a_second_signal_ends_the_process_also_where_the_first_one_waits() -> None:
    found = list[object]()
    with interruptible(), pytest.raises(Interrupted):
        handlers_after_a_signal_that_waits(found)
    assert found == [signal.SIG_DFL] * 3


@pytest.fixture
def pythons_own() -> Iterator[None]:
    """Ctrl-C as a script has it that was started on a terminal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("pythons_own")
def test_ctrl_c_in_a_script_that_imports_logos_does_not_separate_the_log_from_its_watchers() -> None:
    log, watched = SignalledLog(), list[int]()
    log.signum = signal.SIGINT
    journal = Journal(log, RunFold(RunId("run"), Cycle(a_quick_plan())))
    journal.watch(lambda record, _state, _ledger: watched.append(record.seq))
    with pytest.raises(KeyboardInterrupt):
        journal.record(Noted(Topic.WARNING, "one"))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    journal.record(Noted(Topic.INTERRUPTED, "stopped by Ctrl-C"))
    assert watched == [1, 2]


def press_ctrl_c_twice(done: list[str]) -> None:
    with uninterrupted():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
        done.append("the first one waits")
        signal.raise_signal(signal.SIGINT)
        done.append("the second one does not")


@pytest.mark.usefixtures("pythons_own")
def test_a_second_ctrl_c_in_such_a_script_does_not_wait() -> None:
    done = list[str]()
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c_twice(done)
    assert done == ["the first one waits"]
    with uninterrupted():
        done.append("and nothing is left behind")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
