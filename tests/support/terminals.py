"""Programs on a terminal: everything that they write there."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.waiting import LAST_RESORT

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
