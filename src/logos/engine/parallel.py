"""Runs slow jobs in parallel and yields each result as it arrives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

Key = TypeVar("Key")
Result = TypeVar("Result")

WAKE_SECONDS = 0.2


def run_parallel(jobs: Mapping[Key, Callable[[], Result]]) -> Iterator[tuple[Key, Result | Exception]]:
    """Run every job in its own thread; yields (key, result or exception) in order of completion."""
    done: SimpleQueue[tuple[Key, Result | Exception]] = SimpleQueue()

    def work(key: Key, job: Callable[[], Result]) -> None:
        try:
            done.put((key, job()))
        except Exception as error:  # noqa: BLE001 - the caller raises what it does not expect
            done.put((key, error))

    for key, job in jobs.items():
        # Daemon threads: an interrupted driver does not wait for a request that may take minutes.
        threading.Thread(target=work, args=(key, job), daemon=True).start()
    left = len(jobs)
    while left:
        # Wait in short steps: a signal that arrives just before a wait does not end it.
        with suppress(Empty):
            result = done.get(timeout=WAKE_SECONDS)
            left -= 1
            yield result
