"""The cycle under the names of the spec, the way the `random` module fronts a default `Random`.

This module is itself a `DefaultRun`: its attributes are the constants and the state of one run, and its functions are
the methods below. Running this file with a config path is a full run.
"""

import os
import sys
import time
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, NoReturn, cast

from logos.adapters import notifications
from logos.adapters.files import set_aside
from logos.adapters.hosts.cao import ApiClient
from logos.adapters.responses import FileWatcher, ResponseFiles
from logos.adapters.state_files import read_cycle_state, write_cycle_state
from logos.app import post_processing
from logos.app.debug_log import configure_logging
from logos.app.hosts import MakeHost
from logos.app.prompt import Prompt, given_prompt, split_prompt
from logos.app.run_start import plan_from
from logos.app.runs import progress
from logos.app.setting_sources import LEAVES, as_environment, load_settings
from logos.app.settings import Settings
from logos.app.start import run_here
from logos.app.workdir import stamp
from logos.domain import roles
from logos.domain.events import Event, Noted, Recorded, TerminalClosed, TerminalOpened
from logos.domain.ledger import Ledger
from logos.domain.plans import CyclePlan, CycleSeed
from logos.domain.roles import ANSWERS, Phase, Role, phase_def_of
from logos.domain.turns import AgentName, FailureKind, RunId, Terminal, TerminalId
from logos.engine.runner import new_run_id
from logos.engine.terminals import AgentTerminals
from logos.engine.waiter import NoResponse, PendingResponse, ResponseWaiter
from logos.errors import AlreadyPassed, HostError, Interrupted, LogosError, PromptError
from logos.flows import condense
from logos.flows.cycle.briefing import EXPLORE_BACK_REFERENCE, turn_for
from logos.flows.cycle.flow import CycleState, failed
from logos.flows.cycle.verdicts import is_approved
from logos.ports import AgentHost
from logos.prompts import render, response_instruction
from logos.signals import interruptible
from logos.views.cycle_state import FINAL, RUNNING, StateDamaged, project
from logos.waiting.rules import WaitState

_METHODS = [name for name in vars(AgentHost) if not name.startswith("_")]


def plain_host(api: Any) -> AgentHost:
    """Adapts a host that has only the seven methods and takes no idempotency keys; all its errors are HostErrors."""

    def call(method: str, *arguments: str, provider: str = "", working_directory: str = "", **_key: str) -> Any:
        # The working directory is passed only when it is set: such a host may not accept it.
        told = {"provider": provider, "working_directory": working_directory}
        try:
            return getattr(api, method)(*arguments, **{name: value for name, value in told.items() if value})
        except LogosError:
            raise
        except Exception as error:
            raise HostError(f"{method}: {type(error).__name__}: {error}") from error

    return cast(AgentHost, SimpleNamespace(**{method: partial(call, method) for method in _METHODS}))


class DefaultRun(ModuleType):
    """Attributes may be read and assigned like the globals of a script."""

    API: str
    WD: str
    PROVIDER: str
    PROMPT: str
    PROMPT_FILE: str
    STATE_FILE: str
    START_AGENT: str

    def begin(self) -> None:
        """Set all attributes, from the environment and to those of a new run."""
        self.configure(as_environment(load_settings(None, os.environ, bare=True)))
        self.api = None
        self.RESPONSE_FILES = dict(roles.RESPONSE_FILES)
        self.PHASE_ANALYST, self.PHASE_PROGRAMMER, self.PHASE_TESTER, self.PHASE_DONE = (p.value for p in Phase)
        self.reset()

    @property
    def api(self) -> Any:
        """The host that was assigned, else a client of the CAO server at API."""
        if self._assigned is not None:
            return self._assigned
        wanted = (self.API.rstrip("/"), str(self.WD))
        if self._client is None or (self._client.base_url, self._client.working_directory) != wanted:
            self._client = ApiClient(*wanted)
        return self._client

    @api.setter
    def api(self, host: Any) -> None:
        self._assigned: Any = host
        self._client: ApiClient | None = None

    def configure(self, values: dict[str, Any]) -> None:
        self.__dict__.update({name: value for name, value in values.items() if not name.startswith("_")})
        self.AGENT_CONFIG: dict[str, dict[str, str]] = values["_agent_config"]
        self.RESPONSE_DIR = Path(values["WD"]) / ".tmp" / "agent-responses"
        self.EXPLORE_SUMMARY = self.SCENARIO_TEST = ""
        self.take_prompt()

    def take_prompt(self) -> None:
        """Split PROMPT or PROMPT_FILE, if set; `main` reports a prompt without its parts."""
        with suppress(PromptError):
            if given := given_prompt(self.settings()):
                told = split_prompt(given)
                self.__dict__.update(PROMPT=told.whole, EXPLORE_SUMMARY=told.explore, SCENARIO_TEST=told.scenario_test)

    def reset(self) -> None:
        self.session_name = ""
        self.terminal_ids: dict[str, str] = {}
        self.terminal_providers: dict[str, str] = {}
        self.briefed: set[str] = set()
        self.current_round = 1
        self.current_phase: str = Phase.ANALYST.value
        self.final_status = RUNNING
        self.feedback = self.analyst_feedback = self.programmer_feedback = ""
        self.programmer_context_for_retry = ""
        self.outputs: dict[str, str] = dict.fromkeys(ANSWERS, "")

    # The attributes as values of Logos, and back.

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

    def host(self) -> AgentHost:
        api = self.api
        return api if isinstance(api, ApiClient) else plain_host(api)

    def responses(self) -> ResponseFiles:
        return ResponseFiles(Path(self.RESPONSE_DIR), self.RESPONSE_FILES)

    def ledger(self) -> Ledger:
        terminals: dict[AgentName, Terminal] = {}
        for role, id_ in self.terminal_ids.items():
            if id_:
                configured = self.AGENT_CONFIG.get(role, {}).get("provider", self.PROVIDER)
                terminals[AgentName(role)] = Terminal(TerminalId(id_), self.terminal_providers.get(id_) or configured)
        return Ledger(self.session_name, MappingProxyType(terminals))

    def state(self, role: Role | None = None, cycle: int = 1, round_: int | None = None, **outputs: str) -> CycleState:
        """The attributes as a state in which `role` is due; `outputs` replace those in the attributes."""
        return CycleState(
            self.plan(),
            round=self.current_round if round_ is None else round_,
            phase=phase_def_of(role).phase if role else Phase(self.current_phase),
            role=role or Role.ANALYST,
            cycle=cycle,
            outputs=MappingProxyType({**dict.fromkeys(ANSWERS, ""), **self.outputs, **outputs}),
            feedback=self.feedback,
            analyst_feedback=self.analyst_feedback,
            programmer_feedback=self.programmer_feedback,
            retry_context=self.programmer_context_for_retry,
            # A role in a later cycle has had its first prompt.
            briefed=frozenset({role} if role and cycle > 1 else ()),
            outcome={word: outcome for outcome, word in FINAL.items()}.get(self.final_status),
        )

    def show(self, state: CycleState | CycleSeed, final_status: str) -> None:
        self.current_round, self.current_phase, self.final_status = state.round, state.phase.value, final_status
        self.feedback, self.analyst_feedback = state.feedback, state.analyst_feedback
        self.programmer_feedback, self.programmer_context_for_retry = state.programmer_feedback, state.retry_context
        self.outputs = dict(state.outputs)

    def _on_event(self, event: Event) -> None:
        """Keep a terminal that was opened, and log what people are told."""
        match event:
            case TerminalOpened(agent, terminal, provider, session):
                self.session_name, self.terminal_ids[agent] = session, terminal
                self.terminal_providers[terminal] = provider
                self.log(f"{agent}: terminal {terminal} ({provider})")
            case TerminalClosed(agent, terminal):
                self.log(f"{agent}: terminal {terminal} ended")
            case Noted(_, text):
                self.log(text)
            case _:
                pass

    def log(self, msg: str) -> None:
        print(f"[{time.strftime('%H:%M:%S')}] {msg}", file=sys.stderr, flush=True)

    def _exit(self, error: LogosError | Interrupted) -> NoReturn:
        self.log(f"ERROR: {error}")
        raise SystemExit(error.exit_code) from error

    def notify(self, title: str, message: str, priority: int = 3) -> None:
        topic = str(self.settings().notifications.ntfy_topic)
        if problem := notifications.notify(topic, title, message, priority):
            self.log(problem)

    def load_config(self, argv: list[str] | None = None) -> dict[str, Any]:
        """The configuration under its environment names, plus `_agent_config`; the file is the first argument."""
        arguments = sys.argv if argv is None else argv
        file = next(iter(arguments[1:] or [a for a in arguments if a.endswith(".json")]), None)
        try:
            return as_environment(load_settings(Path(file) if file else None, os.environ, bare=True))
        except LogosError as error:
            self._exit(error)

    # Response files.

    def response_path_for(self, role: str) -> Path:
        return self.responses().path(role)

    def ensure_response_dir(self) -> None:
        self.responses().ensure()

    def clear_stale_response(self, role: str) -> None:
        self.responses().clear(role)

    def response_file_instruction(self, role: str) -> str:
        return response_instruction(str(self.response_path_for(role)))

    def wait_for_response_file(self, role: str, terminal_id: str, timeout: float | None = None) -> str:
        # By the spec, status and file decide alone; the screen of a terminal in error could take long to read.
        settings, host = self.settings(), plain_host(self.api)
        seconds = settings.handoff.response_timeout if timeout is None else timeout
        rules = replace(settings.run_options().rules, confirm_error=False)
        pending = PendingResponse(TerminalId(terminal_id), role, reminder=self.response_file_instruction(role))
        self.ensure_response_dir()
        with closing(FileWatcher(Path(self.RESPONSE_DIR))) as change_signal:
            waiter = ResponseWaiter(host, self.responses(), change_signal, rules, time.monotonic, self._on_event)
            try:
                text, _ = waiter.wait(pending, WaitState.begin(time.monotonic(), seconds))
            except NoResponse as lost:
                kind = TimeoutError if lost.trouble is FailureKind.TIMEOUT else RuntimeError
                raise kind(f"{role}: no response from terminal {terminal_id}: {lost}") from lost
        self.clear_stale_response(role)
        return text

    def send_and_wait(self, terminal_id: str, role: str, message: str) -> str:
        self.clear_stale_response(role)
        self.host().send_input(terminal_id, message)
        return self.wait_for_response_file(role, terminal_id)

    # Verdicts and condensation.

    def is_review_approved(self, review_text: str, review_cycle: int, review_role: str) -> bool:
        return is_approved(review_text, review_cycle, Phase(review_role), self.plan().review)

    def extract_review_notes(self, text: str) -> str:
        return condense.review_notes(text, self.plan().condense)

    def extract_test_evidence(self, text: str) -> str:
        return condense.test_evidence(text, self.plan().condense)

    def condense_analyst_for_programmer(self, text: str) -> str:
        return condense.analyst_for_programmer(text, self.plan().condense)

    def condense_programmer_for_tester(self, text: str) -> str:
        return condense.programmer_for_tester(text, self.plan().condense)

    # Prompts.

    def explore_block_for(self, terminal_id: str) -> str:
        """The explore summary, in full the first time a terminal is given it."""
        repeat = terminal_id in self.briefed and self.plan().condense.explore_on_repeat
        if terminal_id:
            self.briefed.add(terminal_id)
        return EXPLORE_BACK_REFERENCE if repeat else self.EXPLORE_SUMMARY

    def _prompt(self, state: CycleState) -> str:
        turn = turn_for(state)
        explore = self.explore_block_for(self.terminal_ids.get(state.role, ""))
        return render(turn.document, {**turn.facts, "explore": explore})

    def build_analyst_prompt(self, round_num: int, analyst_cycle: int) -> str:
        return self._prompt(self.state(Role.ANALYST, analyst_cycle, round_num))

    def build_analyst_review_prompt(self, analyst_out: str) -> str:
        return self._prompt(self.state(Role.PEER_ANALYST, analyst=analyst_out))

    def build_programmer_prompt(self, round_num: int, programmer_cycle: int, analyst_out: str) -> str:
        return self._prompt(self.state(Role.PROGRAMMER, programmer_cycle, round_num, analyst=analyst_out))

    def build_programmer_review_prompt(self, programmer_out: str) -> str:
        return self._prompt(self.state(Role.PEER_PROGRAMMER, programmer=programmer_out))

    def build_tester_prompt(self, programmer_out: str) -> str:
        return self._prompt(self.state(Role.TESTER, programmer=programmer_out))

    # State.

    def save_state(self) -> None:
        projection = project(self.state(), self.ledger(), RunId(""), 0, self.API, self.PROVIDER)
        del projection["logos"]
        write_cycle_state(Path(self.STATE_FILE), {**projection, "final_status": self.final_status}, time.time())

    def load_state(self) -> bool:
        path = Path(self.STATE_FILE)
        try:
            saved = read_cycle_state(path, self.PROVIDER)
        except StateDamaged as damage:
            self.log(f"{damage}; kept as {set_aside(path, stamp())}")
            return False
        if saved is None:
            return False
        self.show(saved.seed, saved.final_status or RUNNING)
        self.session_name = saved.session
        self.terminal_ids = {name: terminal.id for name, terminal in saved.terminals.items()}
        self.terminal_providers = {terminal.id: terminal.provider for terminal in saved.terminals.values()}
        kept = {"API": saved.api, "PROVIDER": saved.provider, "WD": saved.wd}
        self.__dict__.update({name: value for name, value in kept.items() if value})
        if saved.prompt:
            self.__dict__.update(PROMPT=saved.prompt, PROMPT_FILE="")
            self.take_prompt()
        return True

    def should_auto_resume(self, state_file: str | Path) -> bool:
        try:
            saved = read_cycle_state(Path(state_file), self.PROVIDER)
        except LogosError:
            return False
        return saved is not None and saved.final_status == RUNNING

    def handle_tester_fail(self) -> None:
        """A FAIL: the next round, at the programmer, with the evidence as feedback."""
        state = failed(self.state(Role.TESTER), self.extract_test_evidence(self.outputs["tester"]))
        self.show(state, FINAL[state.outcome])

    # Terminals.

    def _agent_terminals(self) -> AgentTerminals:
        return AgentTerminals(self.host(), self._on_event, time.monotonic, time.sleep)

    def init_new_run(self) -> None:
        self.reset()
        self.current_phase = phase_def_of(Role(self.START_AGENT)).phase.value
        try:
            self._agent_terminals().open(new_run_id(), self.plan().agents, Ledger())
        except LogosError as error:
            self._exit(error)
        self.save_state()

    def verify_resume_terminals(self) -> None:
        missing = [role for role in Role if not self.terminal_ids.get(role)]
        if missing:
            self._exit(LogosError(f"cannot resume: the state file has no terminal for {', '.join(missing)}"))
        try:
            self._agent_terminals().verify(self.ledger())
            self._agent_terminals().compare(self.plan().agents, self.ledger())
        except LogosError as error:
            self._exit(error)

    def cleanup(self) -> None:
        if self.settings().cleanup_on_exit:
            self._agent_terminals().close(self.ledger())

    # After a PASS.

    def detect_active_change(self, wd: str | Path) -> str | None:
        return post_processing.detect_active_change(Path(wd))

    def post_openspec_archive(self, wd: str | Path) -> bool:
        return post_processing.archive(Path(wd), self.log)

    def post_git_commit(self, wd: str | Path) -> bool:
        """True also when POST_GIT_COMMIT is off."""
        settings = self.settings()
        wanted = settings.post_processing.git_commit
        return not wanted or post_processing.commit(Path(wd), settings, self.EXPLORE_SUMMARY, self.log)

    def run_post_processing(self, wd: str | Path) -> None:
        post_processing.post_process(Path(wd), self.settings(), self.EXPLORE_SUMMARY, self.log)

    def main(self) -> NoReturn:
        """Run or resume a cycle; the attributes follow it. Exits with the run's exit code."""

        def follow(_record: Recorded, state: CycleState, ledger: Ledger) -> None:
            self.session_name = ledger.session
            self.terminal_ids = {name: terminal.id for name, terminal in ledger.terminals.items()}
            self.terminal_providers |= {terminal.id: terminal.provider for terminal in ledger.terminals.values()}
            self.show(state, FINAL[state.outcome])

        try:
            configure_logging(0, os.environ)
            with interruptible():
                if sys.argv[1:]:
                    self.configure(self.load_config())
                make_host: MakeHost | None = None if self._assigned is None else lambda _settings, _tell: self.host()
                watchers = [follow, progress(self.log)]
                result = run_here(self.settings(), bare=True, make_host=make_host, watchers=watchers, tell=self.log)
        except AlreadyPassed as passed:
            self.load_state()
            self.log(str(passed))
            raise SystemExit(passed.exit_code) from passed
        except (LogosError, Interrupted) as error:
            self._exit(error)
        self.log(result.in_words)
        raise SystemExit(result.exit_code)


sys.modules[__name__].__class__ = DefaultRun
_default = cast(DefaultRun, sys.modules[__name__])
_default.begin()

if __name__ == "__main__":
    _default.main()
