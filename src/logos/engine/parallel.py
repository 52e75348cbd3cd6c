"""Doing slow things at once, and hearing of each as it finishes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

Key = TypeVar("Key")
Result = TypeVar("Result")
Item = TypeVar("Item")

WAKE_SECONDS = 0.2


def at_once(jobs: Mapping[Key, Callable[[], Result]]) -> Iterator[tuple[Key, Result | Exception]]:
    """Run every job in a thread of its own; yields (key, result or exception) in order of completion."""
    done: SimpleQueue[tuple[Key, Result | Exception]] = SimpleQueue()

    def work(key: Key, job: Callable[[], Result]) -> None:
        try:
            done.put((key, job()))
        except Exception as error:  # noqa: BLE001 - handed to the caller, who raises what it does not expect
            done.put((key, error))

    for key, job in jobs.items():
        # Daemons: an interrupted driver does not wait for a request that may take minutes.
        threading.Thread(target=work, args=(key, job), daemon=True).start()
    for _ in jobs:
        yield _next(done)


def _next(done: SimpleQueue[Item]) -> Item:
    """Waits in short steps: a signal that comes just before a wait does not end that wait."""
    while True:
        with suppress(Empty):
            return done.get(timeout=WAKE_SECONDS)
