"""Terminals without a server: each is a folder, and each turn a process that can outlive its driver.

All state is on disk, so a new driver finds out whether a turn is running, has ended with a code, or was killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from logos.adapters.files import own_folder, private_folder, write_atomically
from logos.adapters.pids import noted_pid
from logos.errors import HostError, TerminalGone

# The shell writes the pid and the exit code, because no driver may be left to wait for the process.
_WRAPPER = 'folder=$1; shift; echo $$ >"$folder/pid"; "$@"; code=$?; echo $code >"$folder/exit"; exit $code'
END_SECONDS = 3.0
MARK = "LOGOS_TERMINAL"


class ProcessState(StrEnum):
    NEVER = "never"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """The process of a turn: command, standard input, folder and environment."""

    command: Sequence[str]
    stdin: Path | None
    cwd: Path
    env: Mapping[str, str]


class TurnProcesses:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        own_folder(root)

    def create(self, key: str, about: Mapping[str, Any]) -> str:
        """Create a terminal; the same key gives the same terminal."""
        name = uuid.uuid5(uuid.NAMESPACE_OID, key) if key else uuid.uuid4()
        terminal = name.hex[:8]
        private_folder(self._root / terminal)
        if not (self._root / terminal / "terminal.json").exists():
            self.note(terminal, about)
        return terminal

    def about(self, terminal: str) -> dict[str, Any]:
        try:
            return cast("dict[str, Any]", json.loads((self._root / terminal / "terminal.json").read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise TerminalGone(f"there is no terminal {terminal}") from error

    def note(self, terminal: str, about: Mapping[str, Any]) -> None:
        # Not durable: after a power cut there are no processes that would need the file.
        write_atomically(self._root / terminal / "terminal.json", json.dumps(about), durable=False)

    def turns(self, terminal: str) -> list[Path]:
        """The folders of the turns whose process started, in order."""
        self.about(terminal)
        folders = (self._root / terminal).glob("turn-*/pid")
        return sorted((pid.parent for pid in folders), key=lambda folder: int(folder.name[5:]))

    def next_turn(self, terminal: str) -> Path:
        folder = self._root / terminal / f"turn-{len(self.turns(terminal)) + 1}"
        private_folder(folder)
        return folder

    def begin(self, terminal: str, folder: Path, job: ProcessSpec) -> None:
        """Start the process of a turn in a new session, so that it continues when its driver dies."""
        source = job.stdin.open("rb") if job.stdin is not None else None
        try:
            with (folder / "out").open("ab") as out, (folder / "err").open("ab") as err:
                child = subprocess.Popen(
                    ["/bin/sh", "-c", _WRAPPER, "sh", str(folder), *job.command],
                    cwd=job.cwd,
                    env={**job.env, MARK: self._mark(terminal)},
                    stdin=source or subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
        except OSError as error:
            raise HostError(f"cannot start {job.command[0]}: {error.strerror}") from error
        finally:
            if source is not None:
                source.close()
        self._children[terminal] = child

    def status(self, terminal: str) -> str:
        """The status of a terminal, as an AgentHost reports it."""
        return {ProcessState.NEVER: "idle", ProcessState.RUNNING: "processing"}.get(
            self.stage(terminal)[0], "completed"
        )

    def stage(self, terminal: str) -> tuple[ProcessState, int | None]:
        """The stage of the latest turn, and the exit code if it has ended."""
        turns = self.turns(terminal)
        child = self._children.get(terminal)
        if child is not None and child.poll() is None:
            return ProcessState.RUNNING, None
        if not turns:
            return ProcessState.NEVER, None
        with suppress(OSError, ValueError):
            return ProcessState.ENDED, int((turns[-1] / "exit").read_text())
        if _alive(noted_pid(turns[-1] / "pid")):
            return ProcessState.RUNNING, None
        # It may have ended since its exit code was read.
        with suppress(OSError, ValueError):
            return ProcessState.ENDED, int((turns[-1] / "exit").read_text())
        return ProcessState.LOST, None

    def end(self, terminal: str) -> None:
        """End all processes of a terminal, first with SIGTERM, then with SIGKILL."""
        group = self._group(terminal)
        for signum, patience in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, END_SECONDS)):
            if group is None or not _alive(group):
                break
            with suppress(ProcessLookupError):
                os.killpg(group, signum)
            self._until_gone(terminal, group, patience)
        self._sweep(terminal)
        child = self._children.pop(terminal, None)
        if child is not None:
            child.poll()

    def _mark(self, terminal: str) -> str:
        return str(self._root / terminal)

    def _sweep(self, terminal: str) -> None:
        """End descendants that are in other sessions; they inherit the terminal's mark in their environment."""
        mark = f"{MARK}={self._mark(terminal)}".encode()
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError, ValueError):
                if mark in entry.read_bytes().split(b"\0"):
                    os.kill(int(entry.parent.name), signal.SIGKILL)

    def _group(self, terminal: str) -> int | None:
        """The process group that runs in a terminal."""
        child = self._children.get(terminal)
        if child is not None and child.poll() is None:
            return child.pid
        turns = self.turns(terminal)
        return noted_pid(turns[-1] / "pid") if turns and not (turns[-1] / "exit").exists() else None

    def end_all(self) -> None:
        """End the processes of all terminals in parallel, because each may take seconds."""

        def end(terminal: str) -> None:
            with suppress(TerminalGone):
                self.end(terminal)

        running = list(self._children)
        with ThreadPoolExecutor(max_workers=max(len(running), 1)) as threads:
            list(threads.map(end, running))

    def remove(self, terminal: str) -> None:
        """End a terminal; its folder is renamed and kept."""
        folder = self._root / terminal
        with suppress(TerminalGone):
            self.end(terminal)
        if folder.is_dir():
            folder.rename(folder.with_name(f"{terminal}.closed-{uuid.uuid4().hex[:6]}"))

    def _until_gone(self, terminal: str, group: int, seconds: float) -> None:
        until = time.monotonic() + seconds
        child = self._children.get(terminal)
        while time.monotonic() < until:
            if child is not None:
                child.poll()
            if not _alive(group):
                return
            time.sleep(0.02)


def exit_message(stage: ProcessState, code: int | None, output: str) -> str:
    """How a turn failed, with the end of its output."""
    message = "its process was killed" if stage is ProcessState.LOST else f"its process ended with {code}"
    return f"{message}: {output}" if output else message


def _alive(group: int | None) -> bool:
    """Whether any process of the group still runs."""
    if group is None:
        return False
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _has_more_than_zombies(group)


def _has_more_than_zombies(group: int) -> bool:
    """Zombies are still in their group. Without /proc they cannot be told apart, and the group counts as alive."""
    proc = Path("/proc")
    # The leader usually lives as long as the group, and reading all processes is slow.
    if _is_running(proc / str(group) / "stat", group):
        return True
    entries = list(proc.glob("[0-9]*/stat"))
    return not entries or any(_is_running(entry, group) for entry in entries)


def _is_running(stat: Path, group: int) -> bool:
    """Whether a process is in the group and is not a zombie."""
    with suppress(OSError, ValueError):
        # The command in parentheses may contain anything; then come state, parent and group.
        state, _, own_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
        return int(own_group) == group and state not in ("Z", "X")
    return False
