"""Turning signals that stop a command into an exception in the main thread; a second signal ends the process."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from logos.errors import Interrupted


@dataclass(slots=True)
class _Interrupts:
    """The signal that waits until the main thread has done what a signal must not tear apart."""

    holders: int = 0
    waiting: BaseException | None = None

    def arrive(self, interrupt: BaseException) -> None:
        if self.holders:
            self.waiting = interrupt
        else:
            raise interrupt

    def release(self) -> None:
        self.holders -= 1
        if not self.holders and (interrupt := self.waiting) is not None:
            self.waiting = None
            raise interrupt


# Signals belong to the process, and Python handles them in the main thread only.
_INTERRUPTS = _Interrupts()


@contextmanager
def interruptible() -> Generator[None]:
    """Raise Interrupted on SIGINT and SIGTERM, and on SIGHUP unless it is ignored; every entry point uses this once.

    SIGINT is handled even if it is ignored: shells start background jobs that way.
    """
    stopping = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # `nohup` ignores it, so that a command continues after its terminal is closed.
        stopping.append(signal.SIGHUP)

    def caught(signum: int, _frame: FrameType | None) -> None:
        for other in stopping:
            signal.signal(other, signal.SIG_DFL)
        _INTERRUPTS.arrive(Interrupted(signum))

    before = {signum: signal.signal(signum, caught) for signum in stopping}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextmanager
def uninterrupted() -> Generator[None]:
    """Let a signal wait until this block ends. A second one still ends the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _ctrl_c_can_wait():
        _INTERRUPTS.holders += 1
        try:
            yield
        finally:
            _INTERRUPTS.release()


@contextmanager
def _ctrl_c_can_wait() -> Generator[None]:
    """Where only Python handles Ctrl-C, as in a script that imports Logos, KeyboardInterrupt could come anywhere."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _caught_for_python)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _caught_for_python(_signum: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _INTERRUPTS.arrive(KeyboardInterrupt())
