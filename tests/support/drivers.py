"""Drivers and commands in processes of their own that can be told to die (tests/driver.py): really started, really killed."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests import driver
from tests.support.forked import PROCESSES

KILLED = -signal.SIGKILL


def start_driver(
    env: dict[str, str], log: Path, arguments: list[str] | None = None, out: Path | None = None
) -> BaseProcess:
    """A driver, or a command with these arguments, in a session of its own.

    `env` is its whole environment; in DRIVER it finds its own pid. What it says is added to `log`, and what it prints
    to `out`.
    """
    files = [(str(log), 2), *([(str(out), 1)] if out is not None else [])]
    process = PROCESSES.Process(target=_live, args=(env, arguments, files))
    process.start()
    return process


def _live(env: dict[str, str], arguments: list[str] | None, files: list[tuple[str, int]]) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(env, DRIVER=str(os.getpid()))
    for path, handle in files:
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), handle)
    sys.exit(driver.main() if arguments is None else driver.command(arguments))
