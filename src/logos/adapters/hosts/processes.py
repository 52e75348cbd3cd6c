"""Hosts without a server: each terminal is a folder, and each turn a process that can outlive its driver.

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
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Unpack, cast

from logos.adapters.files import own_folder, private_folder, write_atomically
from logos.adapters.lock import noted_pid
from logos.errors import HostError, TerminalGone
from logos.ports import TerminalOptions

Json = dict[str, Any]

# The shell writes the pid and the exit code, because no driver may be left to wait for the process.
_WRAPPER = 'folder=$1; shift; echo $$ >"$folder/pid"; "$@"; code=$?; echo $code >"$folder/exit"; exit $code'
END_SECONDS = 3.0
MARK = "LOGOS_TERMINAL"


class ProcessHost:
    """What such hosts have in common; a kind of host adds `send_input` and reads what its processes print."""

    session_name: str

    def __init__(self, root: Path, wd: Path) -> None:
        self._root = root
        self._wd = wd
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        own_folder(root)

    def create_session(self, agent_profile: str, **options: Unpack[TerminalOptions]) -> Mapping[str, str]:
        return self.create_terminal(self.session_name, agent_profile, **options)

    def create_terminal(
        self, session_name: str, agent_profile: str, **options: Unpack[TerminalOptions]
    ) -> Mapping[str, str]:
        """Create a terminal; the same key gives the same terminal."""
        key, folder = options.get("idempotency_key", ""), options.get("working_directory", "")
        about = {"profile": agent_profile, "provider": options["provider"], "cwd": folder}
        details = self._details(about)
        terminal = (uuid.uuid5(uuid.NAMESPACE_OID, key) if key else uuid.uuid4()).hex[:8]
        private_folder(self._root / terminal)
        if not (self._root / terminal / "terminal.json").exists():
            self._note(terminal, {**about, **details})
        return {"id": terminal, "session_name": session_name}

    def _details(self, about: Mapping[str, str]) -> Json:
        """What a kind of host also notes about a new terminal; an error if the agent cannot start."""
        raise NotImplementedError

    def get_status(self, terminal_id: str) -> str:
        if self._is_running(terminal_id):
            return "processing"
        return "completed" if self._turns(terminal_id) else "idle"

    def exit_terminal(self, terminal_id: str) -> None:
        """End a terminal; its folder is renamed and kept."""
        folder = self._root / terminal_id
        self._end(terminal_id)
        if folder.is_dir():
            folder.rename(folder.with_name(f"{terminal_id}.closed-{uuid.uuid4().hex[:6]}"))

    def close(self) -> None:
        """End the agents' processes in parallel, because each may take seconds; those of a killed driver continue."""
        with ThreadPoolExecutor(max_workers=max(len(self._children), 1)) as threads:
            list(threads.map(self._end, list(self._children)))

    def _about(self, terminal: str) -> Json:
        try:
            return cast(Json, json.loads((self._root / terminal / "terminal.json").read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise TerminalGone(f"there is no terminal {terminal}") from error

    def _note(self, terminal: str, about: Mapping[str, Any]) -> None:
        # Not durable: after a power cut there are no processes that would need the file.
        write_atomically(self._root / terminal / "terminal.json", json.dumps(about), durable=False)

    def _turns(self, terminal: str) -> list[Path]:
        """The folders of the turns whose process started, in order."""
        self._about(terminal)
        folders = (self._root / terminal).glob("turn-*/pid")
        return sorted((pid.parent for pid in folders), key=lambda folder: int(folder.name[5:]))

    def _next_turn(self, terminal: str, prompt: str) -> Path:
        folder = self._root / terminal / f"turn-{len(self._turns(terminal)) + 1}"
        write_atomically(folder / "prompt.md", prompt, durable=False)
        return folder

    def _begin(
        self, folder: Path, command: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: Path | None = None
    ) -> None:
        """Start the process of a turn in a new session, so that it continues when its driver dies."""
        files = ((stdin or Path(os.devnull), "rb"), (folder / "out", "ab"), (folder / "err", "ab"))
        wrapped, marked = ["/bin/sh", "-c", _WRAPPER, "sh", str(folder), *command], {**env, MARK: str(folder.parent)}
        try:
            with ExitStack() as stack:
                source, out, err = (stack.enter_context(path.open(mode)) for path, mode in files)
                self._children[folder.parent.name] = subprocess.Popen(
                    wrapped, cwd=cwd, env=marked, stdin=source, stdout=out, stderr=err, start_new_session=True
                )
        except OSError as error:
            raise HostError(f"cannot start {command[0]}: {error.strerror}") from error

    def _is_running(self, terminal: str) -> bool:
        turns, child = self._turns(terminal), self._children.get(terminal)
        if child is not None and child.poll() is None:
            return True
        return bool(turns) and exit_code(turns[-1]) is None and _alive(noted_pid(turns[-1] / "pid"))

    def _end(self, terminal: str) -> None:
        """End all processes of a terminal, first with SIGTERM, then with SIGKILL."""
        child, group = self._children.get(terminal), None
        if child is not None and child.poll() is None:
            group = child.pid
        else:
            with suppress(TerminalGone):
                running = [turn for turn in self._turns(terminal)[-1:] if not (turn / "exit").exists()]
                group = noted_pid(running[0] / "pid") if running else None
        for signum in (signal.SIGTERM, signal.SIGKILL):
            if group is None or not _alive(group):
                break
            with suppress(ProcessLookupError):
                os.killpg(group, signum)
            until = time.monotonic() + END_SECONDS
            while _alive(group) and time.monotonic() < until:
                time.sleep(0.02)
                if child is not None:
                    child.poll()
        # Descendants in other sessions inherit the terminal's mark in their environment.
        mark = f"{MARK}={self._root / terminal}".encode()
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError, ValueError):
                if mark in entry.read_bytes().split(b"\0"):
                    os.kill(int(entry.parent.name), signal.SIGKILL)
        self._children.pop(terminal, None)
        if child is not None:
            child.poll()


def exit_code(turn: Path) -> int | None:
    """The exit code of a turn's process; None if it runs or was killed."""
    with suppress(OSError, ValueError):
        return int((turn / "exit").read_text())
    return None


def exit_message(code: int | None, output: str) -> str:
    """How a turn failed that does not run any more, with the end of its output."""
    message = "its process was killed" if code is None else f"its process ended with {code}"
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
    # The leader usually lives as long as the group, and reading all processes is slow.
    if _is_running(Path(f"/proc/{group}/stat"), group):
        return True
    # Zombies are still in their group; without /proc they cannot be told apart, and the group counts as alive.
    entries = list(Path("/proc").glob("[0-9]*/stat"))
    return not entries or any(_is_running(entry, group) for entry in entries)


def _is_running(stat: Path, group: int) -> bool:
    """Whether a process is in the group and is not a zombie."""
    with suppress(OSError, ValueError):
        # The command in parentheses may contain anything; then come state, parent and group.
        state, _, own_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
        return int(own_group) == group and state not in ("Z", "X")
    return False
