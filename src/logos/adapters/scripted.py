"""Deterministic agents from a script, as real processes that write real files and outlive their driver."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from logos.adapters.files import write_atomically
from logos.adapters.processes import Job, Stage, TurnProcesses
from logos.domain.roles import RESPONSE_FILES

Script = Mapping[str, list[dict[str, Any]]]


class ScriptedHost:
    """An AgentHost: every turn is one step of the script, carried out by `scripted_agent`."""

    def __init__(self, root: Path, script: Script, response_dir: Path, wd: Path) -> None:
        self._turns = TurnProcesses(root)
        self._response_dir = response_dir
        self._wd = wd
        self._script = root / "script.json"
        write_atomically(self._script, json.dumps(script))

    def create_session(self, agent_profile: str, *, provider: str, idempotency_key: str = "") -> Mapping[str, str]:
        return self.create_terminal("scripted", agent_profile, provider=provider, idempotency_key=idempotency_key)

    def create_terminal(
        self, session_name: str, agent_profile: str, *, provider: str, idempotency_key: str = ""
    ) -> Mapping[str, str]:
        terminal = self._turns.create(idempotency_key, {"profile": agent_profile, "provider": provider})
        return {"id": terminal, "session_name": session_name}

    def send_input(self, terminal_id: str, message: str) -> None:
        answer = next((a for a, name in RESPONSE_FILES.items() if f"/{name}" in message), None)
        folder = self._turns.next_turn(terminal_id)
        if answer is None:
            return
        write_atomically(folder / "prompt.md", message)
        command = [
            *(sys.executable, "-m", "logos.adapters.scripted_agent"),
            *(str(self._script), answer, folder.name.removeprefix("turn-")),
            *(str(self._response_dir / RESPONSE_FILES[answer]), str(folder / "said.md")),
        ]
        self._turns.begin(terminal_id, folder, Job(command, None, self._wd, os.environ))

    def get_status(self, terminal_id: str) -> str:
        match self._turns.stage(terminal_id):
            case Stage.NEVER, _:
                return "idle"
            case Stage.RUNNING, _:
                return "processing"
            case Stage.ENDED, 0:
                return "completed"
            case _:
                return "error"

    def get_last_output(self, terminal_id: str) -> str:
        turns = self._turns.turns(terminal_id)
        try:
            return (turns[-1] / "said.md").read_text(encoding="utf-8") if turns else ""
        except FileNotFoundError:
            return ""

    def exit_terminal(self, terminal_id: str) -> None:
        self._turns.remove(terminal_id)

    def close(self) -> None:
        pass
