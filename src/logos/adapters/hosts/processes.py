"""Terminals without a server: each is a folder, and each of its turns a process that outlives its driver.

What happened is on disk, so a driver that comes back finds a turn still running, ended with a code, or gone.
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

# The shell is only there to write down what nobody may be left to wait for: the pid, then the exit code.
_WRAPPER = 'folder=$1; shift; echo $$ >"$folder/pid"; "$@"; code=$?; echo $code >"$folder/exit"; exit $code'
END_SECONDS = 3.0
MARK = "LOGOS_TERMINAL"


class Stage(StrEnum):
    NEVER = "never"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Job:
    """A turn's process: what to run, on what input, where."""

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
        """A terminal; the same key gives the same one again."""
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
        # No power cut leaves a terminal that would need this: its processes are gone then.
        write_atomically(self._root / terminal / "terminal.json", json.dumps(about), durable=False)

    def turns(self, terminal: str) -> list[Path]:
        """The folders of the turns that really began, in order; a turn whose process never ran does not count."""
        self.about(terminal)
        folders = (self._root / terminal).glob("turn-*/pid")
        return sorted((pid.parent for pid in folders), key=lambda folder: int(folder.name[5:]))

    def next_turn(self, terminal: str) -> Path:
        folder = self._root / terminal / f"turn-{len(self.turns(terminal)) + 1}"
        private_folder(folder)
        return folder

    def begin(self, terminal: str, folder: Path, job: Job) -> None:
        """Start the process of a turn in a session of its own; it goes on when its driver dies."""
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

    def stage(self, terminal: str) -> tuple[Stage, int | None]:
        """How its latest turn stands, and its exit code once it ended."""
        turns = self.turns(terminal)
        child = self._children.get(terminal)
        if child is not None and child.poll() is None:
            return Stage.RUNNING, None
        if not turns:
            return Stage.NEVER, None
        with suppress(OSError, ValueError):
            return Stage.ENDED, int((turns[-1] / "exit").read_text())
        if _alive(noted_pid(turns[-1] / "pid")):
            return Stage.RUNNING, None
        # It may have ended between the two looks.
        with suppress(OSError, ValueError):
            return Stage.ENDED, int((turns[-1] / "exit").read_text())
        return Stage.LOST, None

    def end(self, terminal: str) -> None:
        """End whatever runs in a terminal, with all its children: politely, then not."""
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
        """End what an agent started in sessions of its own; every descendant carries the terminal's mark."""
        mark = f"{MARK}={self._mark(terminal)}".encode()
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError, ValueError):
                if mark in entry.read_bytes().split(b"\0"):
                    os.kill(int(entry.parent.name), signal.SIGKILL)

    def _group(self, terminal: str) -> int | None:
        """The process group of what runs in a terminal now."""
        child = self._children.get(terminal)
        if child is not None and child.poll() is None:
            return child.pid
        turns = self.turns(terminal)
        return noted_pid(turns[-1] / "pid") if turns and not (turns[-1] / "exit").exists() else None

    def end_all(self) -> None:
        """End what runs in all terminals, at once: each may need its time."""

        def end(terminal: str) -> None:
            with suppress(TerminalGone):
                self.end(terminal)

        running = list(self._children)
        with ThreadPoolExecutor(max_workers=max(len(running), 1)) as threads:
            list(threads.map(end, running))

    def remove(self, terminal: str) -> None:
        """End a terminal for good; what was said in it is kept under another name."""
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
    """A process that ended and was not waited for is still in its group; where nothing tells them apart, it lives."""
    everyone = Path("/proc")
    # The group's leader usually lives as long as the group, and a look at all processes is slow.
    if _is_at_work(everyone / str(group) / "stat", group):
        return True
    entries = list(everyone.glob("[0-9]*/stat"))
    return not entries or any(_is_at_work(entry, group) for entry in entries)


def _is_at_work(stat: Path, group: int) -> bool:
    """Whether a process is of the group and has not ended."""
    of, state = _group_and_state(stat)
    return of == group and state not in ("Z", "X")


def _group_and_state(stat: Path) -> tuple[int, str]:
    with suppress(OSError, ValueError, IndexError):
        # The name in brackets may have anything in it; what follows it is state, parent, group.
        state, _, group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
        return int(group), state
    return 0, ""
