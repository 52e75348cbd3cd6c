"""Hosts without a server: each terminal is a folder, and each turn a process that can outlive its driver.

All state is on disk, so a new driver finds out whether a turn is running, has ended with a code, or was killed.
"""

import json
import signal
import subprocess
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Unpack, cast

from logos.adapters.commands import end, end_marked, exit_code, start, supervisor_of
from logos.adapters.files import bytes_of_file, open_regular, own_folder, private_folder, write_atomically
from logos.adapters.hosts.steps import OutputFollower, Reader, plain_steps
from logos.domain.steps import Step
from logos.errors import HostError, TerminalGone
from logos.ports import TerminalOptions

Json = dict[str, Any]

MARK = "LOGOS_TERMINAL"


class ProcessHost(ABC):
    """What such hosts have in common; a kind of host adds `send_input` and reads what its processes print."""

    session_name: str

    def __init__(self, root: Path, wd: Path, *, is_supervised: Callable[[Path], object] = supervisor_of) -> None:
        self._root = root
        self._wd = wd
        self._is_supervised = is_supervised
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._followed: dict[str, OutputFollower] = {}
        own_folder(root)

    def create_session(self, agent_profile: str, **options: Unpack[TerminalOptions]) -> Mapping[str, str]:
        return self.create_terminal(self.session_name, agent_profile, **options)

    def create_terminal(
        self, session_name: str, agent_profile: str, **options: Unpack[TerminalOptions]
    ) -> Mapping[str, str]:
        """Create a terminal; the same key gives the same terminal."""
        key, folder = options.get("idempotency_key", ""), options.get("working_directory", "")
        about = {"profile": agent_profile, "provider": options["provider"], "cwd": folder}
        about |= {"agent": name} if (name := options.get("agent", "")) else {}
        details = self._details(about)
        terminal = (uuid.uuid5(uuid.NAMESPACE_OID, key) if key else uuid.uuid4()).hex[:8]
        private_folder(self._root / terminal)
        if not (self._root / terminal / "terminal.json").exists():
            self._note(terminal, {**about, **details})
        return {"id": terminal, "session_name": session_name}

    @abstractmethod
    def _details(self, about: Mapping[str, str]) -> Json:
        """What a kind of host also notes about a new terminal; an error if the agent cannot start."""

    def get_status(self, terminal_id: str) -> str:
        if self._is_running(terminal_id):
            return "processing"
        return "completed" if self._turns(terminal_id) else "idle"

    def exit_of(self, terminal_id: str) -> tuple[int, int] | None:
        """How and when the process of the latest turn ended."""
        for turn in self._turns(terminal_id)[-1:]:
            if (code := exit_code(turn)) is not None:
                return code, (turn / "exit").stat().st_ctime_ns
        return None

    def new_steps(self, terminal_id: str) -> tuple[Step, ...]:
        """What the agent did since this was asked last, from what its latest turn has printed."""
        for turn in self._turns(terminal_id)[-1:]:
            followed = self._followed.get(terminal_id)
            if followed is None or followed.turn != turn:
                followed = self._followed[terminal_id] = OutputFollower(turn, self._step_reader(terminal_id))
            return followed.new()
        return ()

    def _step_reader(self, terminal_id: str) -> Reader:  # noqa: ARG002
        return plain_steps

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
            return read_about(self._root / terminal / "terminal.json")
        except (OSError, ValueError) as error:
            raise TerminalGone(f"there is no terminal {terminal}") from error

    def _note(self, terminal: str, about: Mapping[str, Any]) -> None:
        # Not durable: after a power cut there are no processes that would need the file.
        write_atomically(self._root / terminal / "terminal.json", json.dumps(about), durable=False)

    def _turns(self, terminal: str) -> list[Path]:
        """The folders of the turns whose process started, in order."""
        self._about(terminal)
        folders = [pid.parent for pid in (self._root / terminal).glob("turn-*/pid")]
        return sorted((f for f in folders if f.name[5:].isdecimal()), key=lambda folder: int(folder.name[5:]))

    def _next_turn(self, terminal: str, prompt: str) -> Path:
        folder = self._root / terminal / f"turn-{len(self._turns(terminal)) + 1}"
        write_atomically(folder / "prompt.md", prompt, durable=False)
        return folder

    def _begin(
        self, folder: Path, command: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: Path | None = None
    ) -> None:
        """Start the process of a turn in a new session, so that it continues when its driver dies."""
        marked = {**env, MARK: str(folder.parent)}
        try:
            with open_regular(stdin) if stdin is not None else nullcontext() as source:
                self._children[folder.parent.name] = start(folder, command, cwd, marked, stdin=source)
        except OSError as error:
            raise HostError(f"cannot start {command[0]}: {error.strerror}") from error

    def _is_running(self, terminal: str) -> bool:
        turns, child = self._turns(terminal), self._children.get(terminal)
        if child is not None and child.poll() is None:
            return True
        if not turns or exit_code(turns[-1]) is not None:
            return False
        if child is not None:
            # An agent has killed its supervisor.
            end_marked(turns[-1])
            self._children.pop(terminal, None)
        return bool(self._is_supervised(turns[-1]))

    def _end(self, terminal: str) -> None:
        """End all processes of the latest turn, first with SIGTERM, then with SIGKILL."""
        child = self._children.get(terminal)
        with suppress(TerminalGone):
            turns = self._turns(terminal)
            if child is not None or (turns and exit_code(turns[-1]) is None):
                end(turns[-1] if turns else self._root / terminal / "turn-1", child)
        self._children.pop(terminal, None)


def read_about(path: Path) -> Json:
    """What a terminal.json says; a ValueError where it is not one of ours."""
    try:
        about = json.loads(bytes_of_file(path))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(about, dict) or not all(isinstance(value, str | int) for value in cast(Json, about).values()):
        raise ValueError("not an object with texts")
    if not {"profile", "provider"} <= cast(Json, about).keys():
        raise ValueError("no profile or no provider")
    return cast(Json, about)


def exit_message(code: int | None, output: str) -> str:
    """How a turn failed that does not run any more, with the end of its output."""
    if code is None:
        message = "its process was killed"
    else:
        message = f"its process ended with {code}" if code >= 0 else f"its process was ended by {_signal_name(-code)}"
    return f"{message}: {output}" if output else message


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
