"""SIGINT and SIGTERM as an exception in the main thread, raised once; a second one ends the process."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from logos.errors import Interrupted

CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Generator[None]:
    def caught(signum: int, _frame: FrameType | None) -> None:
        for other in CAUGHT:
            signal.signal(other, signal.SIG_DFL)
        raise Interrupted(signum)

    before = {signum: signal.signal(signum, caught) for signum in CAUGHT}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
