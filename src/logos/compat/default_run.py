"""The default run behind `run_orchestrator_loop`: the state that a script would keep in module globals."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from logos.adapters.hosts.cao import ApiClient
from logos.adapters.responses import ResponseFiles
from logos.app.prompt import Prompt, split_prompt
from logos.app.run_start import given_prompt, plan_from
from logos.app.settings import LEAVES, Settings, as_environment, load_settings
from logos.domain.events import Event, Noted, TerminalClosed, TerminalOpened
from logos.domain.ledger import Ledger
from logos.domain.plans import CyclePlan
from logos.domain.roles import ANSWERS, RESPONSE_FILES, Phase, Role, phase_def_of
from logos.domain.turns import Agent, AgentName, Terminal, TerminalId
from logos.errors import PromptError
from logos.flows.cycle.flow import CycleState
from logos.ports import AgentHost
from logos.views.cycle_state import FINAL

OUTCOMES = {word: outcome for outcome, word in FINAL.items()}


class DefaultRun:
    """Attributes may be read and assigned like module globals."""

    API: str
    WD: str
    PROVIDER: str
    PROMPT: str
    PROMPT_FILE: str
    STATE_FILE: str
    START_AGENT: str
    POST_GIT_COMMIT_COMMENT: str

    def __init__(self, values: dict[str, Any] | None = None) -> None:
        self.configure(values or as_environment(load_settings(None, os.environ)))
        self.api: Any = None
        self.RESPONSE_FILES = dict(RESPONSE_FILES)
        self.PHASE_ANALYST, self.PHASE_PROGRAMMER, self.PHASE_TESTER, self.PHASE_DONE = (p.value for p in Phase)
        self.reset()

    def configure(self, values: dict[str, Any]) -> None:
        self.__dict__.update({name: value for name, value in values.items() if not name.startswith("_")})
        self.AGENT_CONFIG: dict[str, dict[str, str]] = values["_agent_config"]
        self.RESPONSE_DIR = Path(values["WD"]) / ".tmp" / "agent-responses"
        self.EXPLORE_SUMMARY = self.SCENARIO_TEST = ""
        self.take_prompt()

    def take_prompt(self) -> None:
        """Split PROMPT or PROMPT_FILE, if set; `main` reports a prompt without its parts."""
        try:
            given = given_prompt(self.settings())
            parts = split_prompt(given) if given else Prompt("", "", "")
        except PromptError:
            return
        if given:
            self.__dict__.update(PROMPT=parts.whole, EXPLORE_SUMMARY=parts.explore, SCENARIO_TEST=parts.scenario_test)

    def reset(self) -> None:
        """Reset the globals to those of a new run."""
        self.session_name = ""
        self.terminal_ids: dict[str, str] = {}
        self.terminal_providers: dict[str, str] = {}
        self.briefed: set[str] = set()
        self.current_round = 1
        self.current_phase: str = Phase.ANALYST.value
        self.final_status = "RUNNING"
        self.feedback = self.analyst_feedback = self.programmer_feedback = ""
        self.programmer_context_for_retry = ""
        self.outputs: dict[str, str] = dict.fromkeys(ANSWERS, "")

    def settings(self) -> Settings:
        """The constants as settings; assigned values are validated like any other source."""
        nested: dict[str, Any] = {"agents": {role: dict(agent) for role, agent in self.AGENT_CONFIG.items()}}
        for leaf in LEAVES:
            value = self.__dict__[leaf.env]
            section = nested
            for part in leaf.path[:-1]:
                section = section.setdefault(part, {})
            section[leaf.path[-1]] = str(value) if isinstance(value, Path) else value
        return Settings.model_validate(nested)

    def plan(self) -> CyclePlan:
        parts = Prompt(self.PROMPT, self.EXPLORE_SUMMARY, self.SCENARIO_TEST)
        return plan_from(self.settings(), parts, str(self.RESPONSE_DIR))

    def agents(self) -> tuple[Agent, ...]:
        return tuple(Agent(AgentName(role), row["provider"], row["profile"]) for role, row in self.AGENT_CONFIG.items())

    def host(self) -> AgentHost:
        if self.api is None:
            self.api = ApiClient(self.API, str(self.WD))
        return self.api if isinstance(self.api, ApiClient) else PlainHost(self.api)

    def responses(self) -> ResponseFiles:
        return ResponseFiles(Path(self.RESPONSE_DIR), self.RESPONSE_FILES)

    def ledger(self) -> Ledger:
        terminals = {
            AgentName(role): Terminal(TerminalId(id_), self.terminal_providers.get(id_) or self._provider(role))
            for role, id_ in self.terminal_ids.items()
            if id_
        }
        return Ledger(self.session_name, MappingProxyType(terminals))

    def _provider(self, role: str) -> str:
        return self.AGENT_CONFIG.get(role, {}).get("provider", self.PROVIDER)

    def state(self, role: Role | None = None, cycle: int = 1, round_: int | None = None, **outputs: str) -> CycleState:
        """The globals as a state in which `role` is due; `outputs` replace those in the globals."""
        phase = phase_def_of(role).phase if role else Phase(self.current_phase)
        return CycleState(
            self.plan(),
            round=self.current_round if round_ is None else round_,
            phase=phase,
            role=role or Role.ANALYST,
            cycle=cycle,
            outputs=MappingProxyType({**dict.fromkeys(ANSWERS, ""), **self.outputs, **outputs}),
            feedback=self.feedback,
            analyst_feedback=self.analyst_feedback,
            programmer_feedback=self.programmer_feedback,
            retry_context=self.programmer_context_for_retry,
            # A role in a later cycle has had its first prompt.
            briefed=frozenset({role} if role and cycle > 1 else ()),
            outcome=OUTCOMES.get(self.final_status),
        )

    def show(self, state: CycleState) -> None:
        """Set the globals from `state`."""
        self.current_round, self.current_phase = state.round, state.phase.value
        self.final_status = FINAL[state.outcome]
        self.feedback, self.analyst_feedback = state.feedback, state.analyst_feedback
        self.programmer_feedback, self.programmer_context_for_retry = state.programmer_feedback, state.retry_context
        self.outputs = dict(state.outputs)

    def apply(self, event: Event) -> str | None:
        """Update the globals from an event; returns a line to log, if any."""
        match event:
            case TerminalOpened(agent, terminal, provider, session):
                self.session_name = session
                self.terminal_ids[agent] = terminal
                self.terminal_providers[terminal] = provider
                return f"{agent}: terminal {terminal} ({provider})"
            case TerminalClosed(agent, terminal):
                return f"{agent}: terminal {terminal} ended"
            case Noted(_, text):
                return text
            case _:
                return None


class PlainHost:
    """Adapts a host that has only the seven methods and takes no idempotency keys."""

    def __init__(self, api: Any) -> None:
        self._api = api

    def create_session(
        self, agent_profile: str, *, provider: str, idempotency_key: str = "", working_directory: str = ""
    ) -> Mapping[str, str]:
        del idempotency_key
        return self._api.create_session(agent_profile, provider=provider, **_folder(working_directory))

    def create_terminal(
        self,
        session_name: str,
        agent_profile: str,
        *,
        provider: str,
        idempotency_key: str = "",
        working_directory: str = "",
    ) -> Mapping[str, str]:
        del idempotency_key
        return self._api.create_terminal(session_name, agent_profile, provider=provider, **_folder(working_directory))

    def send_input(self, terminal_id: str, message: str) -> None:
        self._api.send_input(terminal_id, message)

    def get_status(self, terminal_id: str) -> str:
        return self._api.get_status(terminal_id)

    def get_last_output(self, terminal_id: str) -> str:
        return self._api.get_last_output(terminal_id)

    def exit_terminal(self, terminal_id: str) -> None:
        self._api.exit_terminal(terminal_id)

    def close(self) -> None:
        self._api.close()


def _folder(working_directory: str) -> dict[str, str]:
    """Pass the parameter only when it is set: such a host may not accept it."""
    return {"working_directory": working_directory} if working_directory else {}
