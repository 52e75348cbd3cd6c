"""A work dir in which whole runs are driven, with agents that answer at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.store.sqlite import SqliteLog
from logos.app.settings import load_settings
from logos.app.wiring import run_here
from logos.domain.events import Event, Recorded
from logos.engine.runner import RunResult
from logos.ports import AgentHost
from logos.testing import ScriptedAgents, script

PROMPT = "*** ORIGINAL EXPLORE SUMMARY ***\nA greeting is missing.\n*** SCENARIO TEST ***\nRun it: expect 2.\n"


@dataclass
class Shop:
    """Whole runs in one work dir. `told` is what a person was told."""

    wd: Path
    told: list[str] = field(default_factory=list)
    _agents: ScriptedAgents | None = None

    @property
    def agents(self) -> ScriptedAgents:
        return self._agents or self.hire()

    def hire(self, **said: Sequence[Any]) -> ScriptedAgents:
        self._agents = ScriptedAgents(self.wd / ".tmp" / "agent-responses", script(**said))
        return self._agents

    def run(
        self,
        host: AgentHost | None = None,
        *,
        strict_prompt: bool = True,
        watchers: Sequence[Any] = (),
        prompt: str = PROMPT,
        **environment: Any,
    ) -> RunResult:
        host = host or self.agents
        env = {"WD": str(self.wd), "PROMPT": prompt, "POLL_SECONDS": "0.02", "IDLE_GRACE_SECONDS": "0.2", **environment}
        settings = load_settings(None, env)
        return run_here(
            settings,
            strict_prompt=strict_prompt,
            make_host=lambda _settings, _tell: host,
            watchers=watchers,
            tell=self.told.append,
        )

    @property
    def state_path(self) -> Path:
        return self.wd / ".tmp" / "agnostic-3agents-loop-state.json"

    @property
    def state(self) -> dict[str, Any]:
        return json.loads(self.state_path.read_text())

    def edit_state(self, changes: Mapping[str, Any], *, mark: bool = False) -> None:
        """Write the state file as another tool would; the log's mark stays only if asked for."""
        state = {**self.state, **changes} if self.state_path.exists() else dict(changes)
        if not mark:
            state.pop("logos", None)
        self.state_path.parent.mkdir(parents=True, exist_ok=True)
        self.state_path.write_text(json.dumps(state))

    def records(self) -> list[list[Recorded]]:
        log = SqliteLog(self.wd / ".telos" / "logos.db")
        try:
            return [list(log.read(run)) for run in log.runs()]
        finally:
            log.close()

    def events(self, run: int = -1) -> list[Event]:
        return [record.event for record in self.records()[run]]

    def asked(self, run: int = -1) -> list[str]:
        return [event.turn for event in self.events(run) if event.kind == "turn_asked"]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)
