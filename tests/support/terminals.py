"""Programs on a terminal: everything that they write there."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.waiting import LAST_RESORT, wait_for_exit

ROWS, COLUMNS = 40, 100


def on_a_terminal(
    command: Sequence[str | Path],
    cwd: Path,
    env: Mapping[str, str],
    *,
    piped_stdout: bool = False,
    on_output: Callable[[str], None] = lambda _seen: None,
    typed: str = "",
    columns: int = COLUMNS,
) -> tuple[str, str]:
    """Run a program that must succeed; what it wrote on its terminal, and what went to its piped standard output.

    `on_output` is called with everything seen so far whenever there is more. `typed` waits for whoever reads.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    out = subprocess.PIPE if piped_stdout else theirs
    process = subprocess.Popen(
        command, cwd=cwd, env=env, stdin=theirs, stdout=out, stderr=theirs, text=True, start_new_session=True
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    seen = b""
    # The terminal is gone when the last process that had it has ended.
    with suppress(OSError):
        while new := os.read(ours, 65536):
            seen += new
            on_output(seen.decode(errors="replace"))
    os.close(ours)
    piped, _ = process.communicate(timeout=LAST_RESORT)
    assert process.returncode == 0, seen.decode()
    return seen.decode(), piped or ""


class Attended:
    """A program on a terminal at which a person may be, while the test goes on; what it writes there is kept."""

    def __init__(self, command: Sequence[str | Path], cwd: Path, env: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self._seen = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):
            while new := os.read(self._ours, 65536):
                self._seen += new

    @property
    def seen(self) -> str:
        return self._seen.decode(errors="replace")

    def end(self) -> int:
        """Wait for its end; its exit code."""
        code = wait_for_exit(self.process)
        self._reader.join(LAST_RESORT)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.end()
        os.close(self._ours)
