"""Drivers that die in this process: at a named instant everything a driver holds stops working, as if it were killed.

`Life` is one driver's. Its log, host, response files and workspace are wrapped: each call that changes something is an
instant before and an instant after it. At the chosen instant the life ends; from then on every call raises `Killed`,
in whichever thread. What the next driver finds is what a killed process would have left: the log, the files, and the
agents, which live on. Time is virtual, so that nobody waits.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from logos.domain.events import Event, Recorded, RunForked
from logos.domain.turns import RunId
from logos.testing import ManualSignal, MemoryLog
from tests.support.waiting import wait_for


class Killed(Exception):
    """The driver is dead."""


@dataclass
class Life:
    """One driver's life; it ends at the first of `deaths` that it meets."""

    deaths: Collection[str] = ()
    instants: list[str] = field(default_factory=list)
    died_at: str = ""
    _others: frozenset[int | None] = field(
        default_factory=lambda: frozenset(thread.ident for thread in threading.enumerate())
    )
    _met: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def meet(self, instant: str) -> None:
        with self._lock:
            if self.died_at:
                raise Killed(self.died_at)
            self._met[instant] += 1
            named = f"{instant} #{self._met[instant]}" if self._met[instant] > 1 else instant
            self.instants.append(named)
            if named in self.deaths:
                self.died_at = named
                raise Killed(named)

    def check(self) -> None:
        if self.died_at:
            raise Killed(self.died_at)

    def after_event(self, record: Recorded, *_: object) -> None:
        """A watcher: the event is durable, applied and projected."""
        self.meet(f"after {name_of(record.event)}")

    def lead(self, driver: Callable[[], Any]) -> bool:
        """Run a driver; whether it died. Its threads have come to rest afterwards."""
        try:
            driver()
        except Exception:
            if not self.died_at:
                raise
        finally:
            if self.died_at:
                wait_for(lambda: not self._at_work(), "the end of the dead driver's threads")
        return bool(self.died_at)

    def _at_work(self) -> list[int]:
        """Threads of this life that could still do something: one that waits in vain for its event to be recorded cannot."""
        mine = [thread.ident for thread in threading.enumerate() if thread.ident not in self._others]
        frames = sys._current_frames()
        return [ident for ident in mine if ident in frames and not _waits_for_the_loop(frames[ident])]


def _waits_for_the_loop(frame: Any) -> bool:
    """Whether a thread is in the call that hands an event to the loop, and the loop has not taken it."""
    while frame is not None:
        handed = [getattr(value, "recorded", None) for value in frame.f_locals.values()]
        if mine := [recorded for recorded in handed if isinstance(recorded, threading.Event)]:
            return not mine[0].is_set()
        frame = frame.f_back
    return False


def name_of(event: Event) -> str:
    """An event by what it is about: in which order parallel agents' events come does not matter."""
    return f"{event.kind} {getattr(event, 'turn', None) or getattr(event, 'agent', None) or ''}".strip()


@dataclass
class Mortal:
    """Something whose calls are instants of a life: those in `acts` are met, all others only need it to be alive.

    `name` says what a call is about, from its name and arguments.
    """

    _real: Any
    _life: Life
    _acts: Collection[str]
    _name: Callable[..., str]

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if not callable(real):
            return real

        def call(*values: Any, **named: Any) -> Any:
            if name not in self._acts:
                self._life.check()
                return real(*values, **named)
            about = f"{name} {self._name(*values, **named)}".strip()
            self._life.meet(f"before {about}")
            result = real(*values, **named)
            self._life.meet(f"after {about}")
            return result

        return call


@dataclass
class MortalLog:
    """A log in memory that survives its drivers, as one of them sees it."""

    real: MemoryLog
    life: Life

    def append(self, run: RunId, event: Event, after: int) -> Recorded:
        self.life.meet(f"before {name_of(event)}")
        record = self.real.append(run, event, after)
        # Between the log and everybody who hears of the event.
        self.life.meet(f"between {name_of(event)}")
        return record

    def fork(self, run: RunId, history: Iterable[Recorded], event: RunForked) -> Recorded:
        return self.real.fork(run, history, event)

    def __getattr__(self, name: str) -> Any:
        self.life.check()
        return getattr(self.real, name)


@dataclass
class VirtualTime:
    """A clock that moves when somebody waits."""

    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.seconds += seconds


class VirtualBell(ManualSignal):
    """A bell whose waiting takes no time."""

    def __init__(self, time: VirtualTime) -> None:
        super().__init__()
        self._time = time

    def wait(self, heard: int, seconds: float) -> None:
        if self.wakeups <= heard:
            self._time.sleep(seconds)
