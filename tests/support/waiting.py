"""Waiting for something that must happen: by looking for it, with one time-out that only a hanging test reaches."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from typing import TypeVar

from tests.support.forked import Forked

# Far beyond what any wait needs on a loaded machine: reaching it means that nothing more will happen.
LAST_RESORT = 300.0
_LOOK_SECONDS = 0.01

Found = TypeVar("Found")
AnyProcess = subprocess.Popen[str] | subprocess.Popen[bytes] | Forked | BaseProcess


def wait_for(
    condition: Callable[[], Found], what: object = "the condition", *, process: AnyProcess | None = None
) -> Found:
    """Wait until `condition` returns something true, and return that.

    `what` is said when it never comes; a callable is called then. If `process` ends first, nothing more can happen and
    the test fails at once.
    """
    end = time.monotonic() + LAST_RESORT
    while True:
        # A process that ends between the two looks may have done its work: its end is asked for first.
        ended = process is not None and exit_code(process) is not None
        if found := condition():
            return found
        if ended:
            assert process is not None
            words = _last_words(process)
            raise AssertionError(f"the process ended with {exit_code(process)} before {_said(what)}: {words}")
        assert time.monotonic() < end, f"{_said(what)} did not happen within {LAST_RESORT:.0f} s"
        time.sleep(_LOOK_SECONDS)


def wait_for_exit(process: AnyProcess) -> int:
    """Wait until a process has ended; its exit code, negative for a signal."""
    if isinstance(process, BaseProcess):
        process.join(LAST_RESORT)
    else:
        process.wait(LAST_RESORT)
    code = exit_code(process)
    assert code is not None, f"process {process.pid} did not end within {LAST_RESORT:.0f} s"
    return code


def exit_code(process: AnyProcess) -> int | None:
    return process.exitcode if isinstance(process, BaseProcess) else process.poll()


def _last_words(process: AnyProcess) -> str:
    """What an ended process has on stderr that nobody has read; a child of it may hold that open."""
    stream = getattr(process, "stderr", None)
    if stream is None or stream.closed:
        return ""
    os.set_blocking(stream.fileno(), False)
    with suppress(BlockingIOError):
        return os.read(stream.fileno(), 100_000).decode(errors="replace")
    return ""


def _said(what: object) -> str:
    return str(what() if callable(what) else what)


def until_exists(path: object) -> str:
    """A shell command that ends when there is such a file, or when the test that should make it is long over."""
    looks = int(LAST_RESORT / 0.02)
    # A loop of the shell would start a program for each look.
    wait = f"any(os.path.exists('{path}') or time.sleep(0.02) for _ in range({looks}))"
    return f'{sys.executable} -IS -c "import os, time; {wait}"'
