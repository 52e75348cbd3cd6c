"""The cycle under the names of the spec, the way the `random` module fronts a default `Random`.

Module attributes read and write one default run; running this file with a config path is a full run.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from logos.adapters.files import set_aside
from logos.adapters.hosts.cao import ApiClient
from logos.adapters.notifications import notify as _notify
from logos.adapters.responses import FileWatcher
from logos.adapters.state_files import read_cycle_state, write_cycle_state
from logos.app import post_processing
from logos.app.debug_log import configure_logging
from logos.app.hosts import Tell
from logos.app.settings import Settings, as_environment, load_settings
from logos.app.signals import interruptible
from logos.app.start import run_here
from logos.app.workdir import stamp
from logos.compat.default_run import DefaultRun
from logos.domain.events import Event, Recorded
from logos.domain.ledger import Ledger
from logos.domain.plans import CondenseRules
from logos.domain.roles import Phase, Role, phase_def_of
from logos.domain.turns import FailureKind, RunId, TerminalId
from logos.engine.runner import new_run_id, rules_for
from logos.engine.terminals import AgentTerminals
from logos.engine.waiter import NoResponse, PendingResponse, ResponseWaiter
from logos.errors import Interrupted, LogosError
from logos.flows import condense
from logos.flows.cycle.flow import EXPLORE_BACK_REFERENCE, CycleState, failed, turn_for
from logos.flows.cycle.verdicts import is_approved
from logos.ports import AgentHost
from logos.prompts import render, response_instruction
from logos.views.cycle_state import RUNNING, StateDamaged, project
from logos.waiting.rules import WaitState

__all__ = ["ApiClient"]

_default = DefaultRun()


class _DefaultRunModule(ModuleType):
    """A module whose attributes are those of the default run."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_default, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _default.__dict__:
            setattr(_default, name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name not in _default.__dict__:
            super().__delattr__(name)


sys.modules[__name__].__class__ = _DefaultRunModule


def log(msg: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {msg}", file=sys.stderr, flush=True)


def _exit(error: LogosError | Interrupted) -> NoReturn:
    log(f"ERROR: {error}")
    raise SystemExit(error.exit_code) from error


def notify(title: str, message: str, priority: int = 3) -> None:
    problem = _notify(str(_default.settings().notifications.ntfy_topic), title, message, priority)
    if problem:
        log(problem)


def load_config(argv: list[str] | None = None) -> dict[str, Any]:
    """The configuration under its environment names, plus `_agent_config`; the file is the first argument."""
    arguments = sys.argv if argv is None else argv
    file = next(iter(arguments[1:] or [a for a in arguments if a.endswith(".json")]), None)
    try:
        return as_environment(load_settings(Path(file) if file else None, os.environ))
    except LogosError as error:
        _exit(error)


# Response files.


def response_path_for(role: str) -> Path:
    return _default.responses().path(role)


def ensure_response_dir() -> None:
    _default.responses().ensure()


def clear_stale_response(role: str) -> None:
    _default.responses().clear(role)


def response_file_instruction(role: str) -> str:
    return response_instruction(str(response_path_for(role)))


def wait_for_response_file(role: str, terminal_id: str, timeout: float | None = None) -> str:
    seconds = _default.settings().handoff.response_timeout if timeout is None else timeout
    ensure_response_dir()
    change_signal = FileWatcher(Path(_default.RESPONSE_DIR))
    host = _default.host()
    waiter = ResponseWaiter(
        host,
        _default.responses(),
        change_signal,
        rules_for(_default.settings().run_options().rules, host),
        time.monotonic,
    )
    try:
        pending = PendingResponse(TerminalId(terminal_id), role, reminder=response_file_instruction(role))
        response = waiter.wait(pending, WaitState.begin(time.monotonic(), seconds), _on_event)
    except NoResponse as lost:
        kind = TimeoutError if lost.trouble is FailureKind.TIMEOUT else RuntimeError
        raise kind(f"{role}: no response from terminal {terminal_id}: {lost}") from lost
    finally:
        change_signal.close()
    clear_stale_response(role)
    return response.text


def send_and_wait(terminal_id: str, role: str, message: str) -> str:
    clear_stale_response(role)
    _default.host().send_input(terminal_id, message)
    return wait_for_response_file(role, terminal_id)


# Verdicts and condensation.


def is_review_approved(review_text: str, review_cycle: int, review_role: str) -> bool:
    return is_approved(review_text, review_cycle, Phase(review_role), _default.plan().review)


def _with_rules(condense_text: Callable[[str, CondenseRules], str]) -> Callable[[str], str]:
    return lambda text: condense_text(text, _default.plan().condense)


extract_review_notes = _with_rules(condense.review_notes)
extract_test_evidence = _with_rules(condense.test_evidence)
condense_analyst_for_programmer = _with_rules(condense.analyst_for_programmer)
condense_programmer_for_tester = _with_rules(condense.programmer_for_tester)


# Prompts.


def explore_block_for(terminal_id: str) -> str:
    """The explore summary, in full the first time a terminal is given it."""
    repeat = terminal_id in _default.briefed and _default.plan().condense.explore_on_repeat
    if terminal_id:
        _default.briefed.add(terminal_id)
    return EXPLORE_BACK_REFERENCE if repeat else _default.EXPLORE_SUMMARY


def _prompt(state: CycleState) -> str:
    turn = turn_for(state)
    explore = explore_block_for(_default.terminal_ids.get(state.role, ""))
    return render(turn.document, {**turn.facts, "explore": explore})


def build_analyst_prompt(round_num: int, analyst_cycle: int) -> str:
    return _prompt(_default.state(Role.ANALYST, analyst_cycle, round_num))


def build_analyst_review_prompt(analyst_out: str) -> str:
    return _prompt(_default.state(Role.PEER_ANALYST, analyst=analyst_out))


def build_programmer_prompt(round_num: int, programmer_cycle: int, analyst_out: str) -> str:
    return _prompt(_default.state(Role.PROGRAMMER, programmer_cycle, round_num, analyst=analyst_out))


def build_programmer_review_prompt(programmer_out: str) -> str:
    return _prompt(_default.state(Role.PEER_PROGRAMMER, programmer=programmer_out))


def build_tester_prompt(programmer_out: str) -> str:
    return _prompt(_default.state(Role.TESTER, programmer=programmer_out))


# State.


def save_state() -> None:
    projection = project(_default.state(), _default.ledger(), RunId(""), 0, _default.API, _default.PROVIDER)
    del projection["logos"]
    write_cycle_state(Path(_default.STATE_FILE), {**projection, "final_status": _default.final_status}, time.time())


def load_state() -> bool:
    path = Path(_default.STATE_FILE)
    try:
        saved = read_cycle_state(path, _default.PROVIDER)
    except StateDamaged as damage:
        log(f"{damage}; kept as {set_aside(path, stamp())}")
        return False
    if saved is None:
        return False
    seed = saved.seed
    _default.show(
        CycleState(
            _default.plan(),
            round=seed.round,
            phase=seed.phase,
            outputs=dict(seed.outputs),
            feedback=seed.feedback,
            analyst_feedback=seed.analyst_feedback,
            programmer_feedback=seed.programmer_feedback,
            retry_context=seed.retry_context,
        )
    )
    _default.final_status = saved.final_status or RUNNING
    _default.session_name = saved.session
    _default.terminal_ids = {name: terminal.id for name, terminal in saved.terminals.items()}
    _default.terminal_providers = {terminal.id: terminal.provider for terminal in saved.terminals.values()}
    if saved.prompt:
        _default.PROMPT, _default.PROMPT_FILE = saved.prompt, ""
        _default.take_prompt()
    return True


def should_auto_resume(state_file: str | Path) -> bool:
    try:
        saved = read_cycle_state(Path(state_file), _default.PROVIDER)
    except LogosError:
        return False
    return saved is not None and saved.final_status == RUNNING


def handle_tester_fail() -> None:
    """A FAIL: the next round, at the programmer, with the evidence as feedback."""
    _default.show(failed(_default.state(Role.TESTER), extract_test_evidence(_default.outputs["tester"])))


# Terminals.


def _on_event(event: Event) -> None:
    text = _default.apply(event)
    if text:
        log(text)


def _agent_terminals() -> AgentTerminals:
    return AgentTerminals(_default.host(), _on_event, time.monotonic, time.sleep)


def init_new_run() -> None:
    _default.reset()
    _default.current_phase = phase_def_of(Role(_default.START_AGENT)).phase.value
    try:
        _agent_terminals().open(new_run_id(), _default.agents(), Ledger())
    except LogosError as error:
        _exit(error)
    save_state()


def verify_resume_terminals() -> None:
    missing = [role for role in Role if not _default.terminal_ids.get(role)]
    if missing:
        _exit(LogosError(f"cannot resume: the state file has no terminal for {', '.join(missing)}"))
    try:
        _agent_terminals().verify(_default.ledger())
        _agent_terminals().compare(_default.agents(), _default.ledger())
    except LogosError as error:
        _exit(error)


def cleanup() -> None:
    if _default.settings().cleanup_on_exit:
        _agent_terminals().close(_default.ledger())


# After a PASS.


def detect_active_change(wd: str | Path) -> str | None:
    return post_processing.detect_active_change(Path(wd))


def post_openspec_archive(wd: str | Path) -> post_processing.Done:
    return post_processing.archive(Path(wd), log)


def post_git_commit(wd: str | Path) -> post_processing.Done:
    comment = _default.POST_GIT_COMMIT_COMMENT or post_processing.comment_for(_default.EXPLORE_SUMMARY)
    return post_processing.commit(Path(wd), comment, log)


def run_post_processing(wd: str | Path) -> None:
    post = _default.settings().post_processing
    post_processing.post_process(
        Path(wd),
        archiving=post.openspec_archive,
        committing=post.git_commit,
        comment=post.git_commit_comment or post_processing.comment_for(_default.EXPLORE_SUMMARY),
        tell=log,
    )


def _assigned_host(_settings: Settings, _tell: Tell) -> AgentHost:
    return _default.host()


def main() -> NoReturn:
    """Run or resume a cycle; the globals follow it. Exits with the run's exit code."""

    def show(record: Recorded, state: CycleState, ledger: Ledger) -> None:
        _default.apply(record.event)
        _default.session_name = ledger.session
        _default.terminal_ids = {name: terminal.id for name, terminal in ledger.terminals.items()}
        _default.show(state)

    try:
        configure_logging(0, os.environ)
        with interruptible():
            if sys.argv[1:] and sys.argv[1].endswith(".json"):
                _default.configure(load_config())
            make_host = None if _default.api is None else _assigned_host
            result = run_here(_default.settings(), strict_prompt=False, make_host=make_host, watchers=[show], tell=log)
    except (LogosError, Interrupted) as error:
        _exit(error)
    log(f"{result.outcome}: {result.reason}")
    raise SystemExit(result.exit_code)


if __name__ == "__main__":
    main()
