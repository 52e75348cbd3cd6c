"""How often a command reads a run from its log, and folds it: counted by the interpreter's profiler, nothing is patched."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from logos.adapters.store.sqlite import SqliteLog
from logos.flows.fold import RunFold


@dataclass
class Counted:
    """The runs that were folded, and those that were read from their first event on, in order."""

    folds: list[str] = field(default_factory=list[str])
    reads: list[str] = field(default_factory=list[str])
    # A generator has one frame, however often it is resumed.
    _frames: list[FrameType] = field(default_factory=list[FrameType])

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        if frame.f_code is RunFold.__init__.__code__:
            self.folds.append(frame.f_locals["run"])
        elif frame.f_code is SqliteLog.read.__code__ and not any(frame is seen for seen in self._frames):
            self._frames.append(frame)
            if frame.f_locals["from_seq"] <= 1:
                self.reads.append(frame.f_locals["run"])


@contextmanager
def counting() -> Generator[Counted]:
    """Count in this thread."""
    counted, before = Counted(), sys.getprofile()
    sys.setprofile(counted.see)
    try:
        yield counted
    finally:
        sys.setprofile(before)
