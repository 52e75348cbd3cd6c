"""Deterministic agents from a script, as real processes that write real files and outlive their driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from logos.adapters.files import own_folder, private_folder, write_atomically
from logos.domain.roles import RESPONSE_FILES
from logos.errors import TerminalGone

Script = Mapping[str, list[dict[str, Any]]]


class ScriptedHost:
    """An AgentHost. A terminal is a folder: its prompts, what its agent printed, how each turn ended."""

    def __init__(self, root: Path, script: Script, response_dir: Path, wd: Path) -> None:
        self._root = root
        self._response_dir = response_dir
        self._wd = wd
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        own_folder(root)
        self._script = root / "script.json"
        write_atomically(self._script, json.dumps(script))

    def create_session(self, agent_profile: str, *, provider: str, idempotency_key: str = "") -> Mapping[str, str]:
        return self.create_terminal("scripted", agent_profile, provider=provider, idempotency_key=idempotency_key)

    def create_terminal(
        self, session_name: str, agent_profile: str, *, provider: str, idempotency_key: str = ""
    ) -> Mapping[str, str]:
        name = uuid.uuid5(uuid.NAMESPACE_OID, idempotency_key) if idempotency_key else uuid.uuid4()
        terminal = name.hex[:8]
        private_folder(self._root / terminal)
        about = {"profile": agent_profile, "provider": provider}
        write_atomically(self._root / terminal / "terminal.json", json.dumps(about))
        return {"id": terminal, "session_name": session_name}

    def send_input(self, terminal_id: str, message: str) -> None:
        folder = self._folder(terminal_id)
        answer = next((a for a, name in RESPONSE_FILES.items() if f"/{name}" in message), None)
        if answer is None:
            return
        turn = self._turns(folder) + 1
        write_atomically(folder / f"prompt-{turn}.md", message)
        with (folder / "screen.txt").open("ab") as screen:
            self._children[terminal_id] = subprocess.Popen(
                [
                    *(sys.executable, "-m", "logos.adapters.scripted_agent"),
                    *(str(folder), str(turn), answer, str(self._script)),
                    str(self._response_dir / RESPONSE_FILES[answer]),
                ],
                cwd=self._wd,
                stdin=subprocess.DEVNULL,
                stdout=screen,
                stderr=subprocess.STDOUT,
                # An agent goes on working when its driver dies.
                start_new_session=True,
            )

    def get_status(self, terminal_id: str) -> str:
        folder = self._folder(terminal_id)
        child = self._children.get(terminal_id)
        if child is not None and child.poll() is None:
            return "processing"
        turn = self._turns(folder)
        if turn == 0:
            return "idle"
        try:
            return "completed" if (folder / f"exit-{turn}").read_text() == "0" else "error"
        except FileNotFoundError:
            return "processing" if _alive(folder / f"pid-{turn}") else "error"

    def get_last_output(self, terminal_id: str) -> str:
        folder = self._folder(terminal_id)
        try:
            return (folder / f"said-{self._turns(folder)}.md").read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def exit_terminal(self, terminal_id: str) -> None:
        folder = self._root / terminal_id
        child = self._children.pop(terminal_id, None)
        if child is not None and child.poll() is None:
            child.kill()
            child.wait()
        if folder.is_dir():
            folder.rename(folder.with_name(f"{terminal_id}.closed-{uuid.uuid4().hex[:6]}"))

    def close(self) -> None:
        for child in self._children.values():
            child.poll()

    def _folder(self, terminal_id: str) -> Path:
        folder = self._root / terminal_id
        if not (folder / "terminal.json").is_file():
            raise TerminalGone(f"there is no terminal {terminal_id}")
        return folder

    def _turns(self, folder: Path) -> int:
        """How many turns have begun; an agent writes its pid file itself, so a turn that never ran does not count."""
        return sum(1 for _ in folder.glob("pid-*"))


def _alive(pid_file: Path) -> bool:
    try:
        os.kill(int(pid_file.read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def load_script(path: Path) -> Script:
    return cast(Script, json.loads(path.read_text(encoding="utf-8")))
