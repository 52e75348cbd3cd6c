"""Runs commands and records their exit codes: an exit code is evidence, an agent's word is not."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress
from subprocess import DEVNULL, STDOUT

from logos.domain.events import CheckRan
from logos.domain.turns import Check
from logos.engine.loop import WorkerContext

# Keep only the end of the output: it holds the summary of a test run.
KEEP_BYTES = 200_000
TIMED_OUT = 124


def run_check(check: Check, cwd: str, timeout: float, context: WorkerContext) -> None:
    exit_code, output = run_command(check.command, cwd, timeout, context.stop)
    context.check()
    context.post(CheckRan(check.id, check.command, exit_code, output))


def run_command(command: str, cwd: str, timeout: float, stop: threading.Event) -> tuple[int, str]:
    """Run a configured shell command in its own process group, which is killed before this returns."""
    with tempfile.TemporaryFile() as sink:
        process = subprocess.Popen(
            command, shell=True, cwd=cwd, stdin=DEVNULL, stdout=sink, stderr=STDOUT, start_new_session=True
        )
        exit_code, waited = None, 0.0
        try:
            while exit_code is None and not stop.is_set() and waited < timeout:
                try:
                    exit_code = process.wait(0.1)
                except subprocess.TimeoutExpired:
                    waited += 0.1
        finally:
            # A signal may raise in the main thread, where a command is tried before a run.
            if exit_code is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        size = sink.seek(0, os.SEEK_END)
        sink.seek(max(0, size - KEEP_BYTES))
        output = sink.read().decode("utf-8", "replace")
    if exit_code is None:
        return TIMED_OUT, f"{output}\n(ended by Logos after {waited:.0f} s)"
    return exit_code, output
