"""Commands under a supervisor: started, found again by a new driver, and ended with everything they started.

A pid in a file counts only if the process that has it now is the supervisor that wrote it (decision 028).
"""

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from logos.adapters import supervisor
from logos.adapters.files import end_of_file, folder_below, open_to_append, private_folder, remove, text_of_file
from logos.adapters.programs import own_environment
from logos.adapters.supervisor import END_SECONDS, GRACE_SECONDS, end_children, identity, send, stat_of
from logos.errors import HostError

# In the environment of every process of a command, unless it removes it.
MARK = "LOGOS_PROCESS"
# Keep only the end of the output: it holds the summary of a test run.
KEEP_BYTES = 200_000
TIMED_OUT = 124
UNKNOWN = 125
_OPTIONS = ("-I", "-S")
_LOOK_SECONDS = 0.02


def start(
    folder: Path,
    command: Sequence[str],
    cwd: Path | str,
    env: Mapping[str, str],
    *,
    stdin: IO[bytes] | None = None,
    mixed: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a command in a new session, so that it continues when its driver dies; its output goes to `out` and `err`.

    `mixed`: both to `out`, in the order in which they are written. Its supervisor notes itself in the file `pid`, and
    in `exit` how the command ended.
    """
    token = secrets.token_hex(16)
    wrapped = [sys.executable, *_OPTIONS, supervisor.__file__, token, str(folder), *command]
    with open_to_append(folder / "out") as out, open_to_append(folder / "err") as err:
        return subprocess.Popen(
            wrapped,
            cwd=cwd,
            env={**env, MARK: token},
            stdin=stdin or subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT if mixed else err,
            start_new_session=True,
        )


def exit_code(folder: Path) -> int | None:
    """The exit code of a command, negative for a signal; None while it runs, or if how it ended is unknown."""
    with suppress(ValueError):
        return int(text_of_file(folder / "exit"))
    return None


def supervisor_of(folder: Path) -> int | None:
    """The pid of the live supervisor of a command; None where it has ended, or where its pid is another process's.

    It counts with the same boot, pid namespace and start, and with the token that only its own arguments contain.
    """
    words = text_of_file(folder / "pid").split()
    if len(words) != 5 or not words[0].isdigit():
        return None
    pid, token = int(words[0]), words[1]
    if identity(pid) != (*words[2:],):
        return None
    arguments = _arguments(pid)
    ours = [*_OPTIONS, Path(supervisor.__file__).name, token]
    with suppress(OSError):
        if [*arguments[1:3], Path(arguments[3]).name, arguments[4]] == ours and folder.samefile(arguments[5]):
            return pid
    return None


def _arguments(pid: int) -> list[str]:
    """The first arguments of a process, or as many empty texts."""
    try:
        said = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")
    except OSError:
        if Path("/proc/self").exists():
            return [""] * 6
        # A path with spaces is not recognised here; then the command counts as ended, and nobody is signalled.
        listed = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, check=False)
        said = os.fsdecode(listed.stdout).split()
    return [*said, *[""] * 6][: max(len(said), 6)]


def end(folder: Path, child: subprocess.Popen[bytes] | None = None) -> None:
    """End a command and everything it started: its supervisor does, and if that cannot, this process.

    `child` is its supervisor where this process has started it; that may not have noted itself yet.
    """
    running = child is not None and child.poll() is None
    pid = child.pid if child is not None and running else supervisor_of(folder)
    if pid is not None:
        begun = identity(pid)[2]
        for signum in (signal.SIGTERM, signal.SIGCONT):
            send(pid, begun, signum)
        if not _gone(pid, begun, child, GRACE_SECONDS + END_SECONDS):
            # Somebody keeps it from working. What it started stays below it as long as it lives.
            send(pid, begun, signal.SIGSTOP)
            until = time.monotonic() + END_SECONDS
            while end_children(pid) and time.monotonic() < until:
                time.sleep(0.001)
            send(pid, begun, signal.SIGKILL)
            _gone(pid, begun, child, END_SECONDS)
    if exit_code(folder) is None:
        end_marked(folder)


def _gone(pid: int, begun: str, child: subprocess.Popen[bytes] | None, seconds: float) -> bool:
    """Wait until a process has ended; one that only waits to be reaped has."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if (child.poll() is not None) if child is not None else not _alive(pid, begun):
            return True
        time.sleep(_LOOK_SECONDS)
    return False


def _alive(pid: int, begun: str) -> bool:
    if begun == "-":
        # Without /proc, a zombie cannot be told apart and counts as alive.
        return send(pid, begun, 0)
    fields = stat_of(pid)
    return bool(fields) and fields[19] == begun and fields[0] not in ("Z", "X")


def end_marked(folder: Path) -> None:
    """End what a killed supervisor has left: every process with its token in the environment."""
    words = text_of_file(folder / "pid").split()
    if len(words) != 5 or (*identity(os.getpid())[:2],) != (*words[2:4],):
        return
    mark = f"{MARK}={words[1]}".encode()
    until = time.monotonic() + END_SECONDS
    # Again, until none is left: a process that is looked at may just have started another.
    while _kill_marked(mark) and time.monotonic() < until:
        time.sleep(0.001)


def _kill_marked(mark: bytes) -> bool:
    """Kill every process with this variable in its environment; returns whether there was one."""
    found = False
    for entry in Path("/proc").glob("[0-9]*/environ"):
        begun = identity(pid := int(entry.parent.name))[2]
        # What has ended has no environment.
        with suppress(OSError):
            if mark in entry.read_bytes().split(b"\0") and pid != os.getpid():
                found |= send(pid, begun, signal.SIGKILL)
    return found


class SupervisedCommands:
    """Runs commands, each with a folder below `root`; nothing that a command started outlives it."""

    def __init__(self, root: Path, below: Path | None = None) -> None:
        """`below`: agents write there, so no link from there to `root` is followed."""
        self._root, self._below = root, below or root
        self._running: dict[Path, subprocess.Popen[bytes]] = {}

    def execute(
        self, words: Sequence[str], cwd: Path | str, env: Mapping[str, str], timeout: float, stop: threading.Event
    ) -> tuple[int, str]:
        """Its exit code, negative for a signal, and the end of its output; TIMED_OUT if it was ended here."""
        folder = self._root / uuid.uuid4().hex[:8]
        private_folder(folder)
        child = self._running[folder] = start(folder, words, cwd, env, mixed=True)
        waited, was_over = 0.0, False
        try:
            while not was_over and not stop.is_set() and waited < timeout:
                try:
                    child.wait(0.1)
                    was_over = True
                except subprocess.TimeoutExpired:
                    waited += 0.1
        finally:
            # A signal may raise in the main thread, where a command is tried before a run.
            end(folder, child)
            self._running.pop(folder, None)
            code, output = exit_code(folder), end_of_file(folder / "out", KEEP_BYTES)
            with suppress(HostError):
                remove(folder, self._below)
        if not was_over:
            return TIMED_OUT, f"{output}\n(ended by Logos after {waited:.0f} s)"
        return (UNKNOWN, f"{output}\n(its supervisor was killed)") if code is None else (code, output)

    def close(self) -> None:
        """End what runs: at its end, a driver does not wait for its workers."""
        for folder, child in [*self._running.items()]:
            end(folder, child)


class ShellCommands(SupervisedCommands):
    """Runs shell commands with the environment of this process, but for the secrets of Logos.

    LOGOS_ROOT is the work dir: a worktree lacks what git ignores, such as the project's environment.
    """

    def __init__(self, root: Path, work_dir: Path) -> None:
        super().__init__(root, work_dir)
        self._env = {**own_environment(), "LOGOS_ROOT": str(work_dir)}

    def run(self, command: str, cwd: str, timeout: float, stop: threading.Event) -> tuple[int, str]:
        return self.execute(["/bin/sh", "-c", command], cwd, self._env, timeout, stop)


def end_left_over(root: Path, below: Path) -> int:
    """End the commands that a killed driver has left; called by the only driver. Returns how many still ran."""
    names: list[str] = []
    # Where a link leads elsewhere, what is there is not ours.
    with suppress(OSError), folder_below(below, root) as handle:
        names = [entry.name for entry in os.scandir(handle) if entry.is_dir(follow_symlinks=False)]
    found = 0
    for folder in (root / name for name in names):
        found += supervisor_of(folder) is not None
        end(folder)
        with suppress(HostError):
            remove(folder, below)
    return found
