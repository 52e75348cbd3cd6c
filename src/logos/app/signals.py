"""Turning signals that stop a command into an exception in the main thread; a second signal ends the process."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from logos.errors import Interrupted


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
        raise Interrupted(signum)

    before = {signum: signal.signal(signum, caught) for signum in stopping}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
