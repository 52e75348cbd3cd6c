"""Signals that stop a command, as an exception in the main thread, raised once; a second one ends the process."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from logos.errors import Interrupted


@contextmanager
def interruptible() -> Generator[None]:
    """SIGINT and SIGTERM always: a shell starts its background jobs with SIGINT ignored. SIGHUP unless it is ignored.

    Every entry point has this around everything it does, once.
    """
    stopping = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # Ignored by `nohup`: then the command goes on when its terminal is closed.
        stopping.append(signal.SIGHUP)

    def caught(signum: int, _frame: FrameType | None) -> None:
        for other in stopping:
            signal.signal(other, signal.SIG_DFL)
        raise Interrupted(signum)

    before = {signum: signal.signal(signum, caught) for signum in stopping}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
