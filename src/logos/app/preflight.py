"""What is checked before a run: its configuration, its prompt, and the command that tests its result."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from logos.adapters.hosts.cao import check_provider
from logos.app.hosts import known_providers
from logos.app.prompt import given_prompt, refuse_template, split_prompt
from logos.app.run_start import Continued
from logos.app.setting_sources import load_settings
from logos.app.settings import Settings
from logos.app.workdir import Tell
from logos.domain.plans import CyclePlan, OnExhausted
from logos.engine.checks import TIMED_OUT, run_command
from logos.errors import ConfigError, LogosError, PromptError, UsageError
from logos.flows.condense import tail
from logos.views.run import RunView

_OUTPUT_LINES = 15
_BY_EXIT_CODE = {
    0: "",
    126: "a program of it may not be executed (exit 126)",
    127: "a program of it was not found (exit 127)",
}
_MODULE = re.compile(r"(?<!\S)-m\s+([\w.]+)")
# How wrappers report that they have nothing to run.
_WRAPPERS = {
    re.compile(r"^make(?:\[\d+\])?: \*\*\* .*Error 12[67]\b", re.MULTILINE): "a command in the Makefile was not found",
    re.compile(r"^make(?:\[\d+\])?: \*\*\* No rule to make target", re.MULTILINE): "make has no such target",
    re.compile(r"Missing script:", re.IGNORECASE): "package.json has no such script",
}
_HINT = (
    "Name a command that works in this shell and this folder (--test CMD, or project_test_cmd in logos.json); "
    "a program of the project's own environment by its path, such as .venv/bin/pytest"
)


def why_it_cannot_run(command: str, exit_code: int, output: str) -> str:
    """Why a command failed before it tested anything; empty where it ran, whatever its result."""
    if exit_code in _BY_EXIT_CODE:
        return _BY_EXIT_CODE[exit_code]
    for module in _MODULE.findall(command):
        if re.search(rf"No module named '?{re.escape(module)}'?(?![\w.])", output):
            return f"its Python has no module {module} (exit {exit_code})"
    found = (why for pattern, why in _WRAPPERS.items() if pattern.search(output))
    return next((f"{why} (exit {exit_code})" for why in found), "")


def try_test_command(settings: Settings, resumed: RunView | None, tell: Tell) -> None:
    """Run the command that will verify a PASS once, unless an earlier driver of the run has: ConfigError if it cannot.

    It would waste every turn of the run. Failing tests are told, agents may mend them.
    """
    command, timeout = settings.project_test_cmd, settings.handoff.response_timeout
    known = resumed.state.plan if resumed is not None else None
    if not (command and settings.verify_pass) or (isinstance(known, CyclePlan) and known.test_command == command):
        return
    tell(f"running `{command}` once, before the first turn")
    exit_code, output = run_command(command, str(settings.work_dir), timeout, threading.Event())
    problem = why_it_cannot_run(command, exit_code, output)
    if exit_code == TIMED_OUT and not problem:
        problem = f"it did not end within {timeout:.0f} s (handoff.response_timeout)"
    if problem:
        for line in tail(output.strip(), _OUTPUT_LINES).splitlines():
            tell(f"  {line}")
        error = ConfigError(f"the test command `{command}` cannot run: {problem}; no agent was asked")
        error.add_note(_HINT)
        raise error
    tell(
        "the tests pass now" if exit_code == 0 else f"the tests fail now (exit {exit_code}); a PASS needs them to pass"
    )


def check_work_dir(settings: Settings) -> None:
    try:
        exists = settings.work_dir.is_dir()
    except OSError:
        # The path is too long for the file system.
        exists = False
    if not exists:
        raise ConfigError(f"wd = {str(settings.work_dir)[:200]!r}: there is no such directory")


def check_input(settings: Settings) -> None:
    """Check the work dir and the prompt before a lock, a log or a terminal exists."""
    check_work_dir(settings)
    given = given_prompt(settings)
    if given is not None:
        split_prompt(given)


def check_prompt(settings: Settings, continued: Continued, tell: Tell, *, strict: bool) -> None:
    """A prompt that differs from the unfinished run's; `strict`: it is an error unless --resume was given."""
    given = given_prompt(settings)
    if isinstance(continued, RunView):
        ours = cast(CyclePlan, continued.state.plan).prompt
    else:
        ours = continued.prompt if continued is not None else ""
    if given is None or not ours or given.strip() == ours.strip():
        return
    if strict and settings.resume is None:
        raise UsageError(
            "an unfinished run with another prompt is here: --resume continues it, --fresh starts the new prompt"
        )
    tell("warning: the given prompt differs from the unfinished run's; continuing with the run's own prompt")


def check_reviews(settings: Settings, tell: Tell) -> None:
    limits = settings.limits
    if limits.max_review_cycles >= limits.min_review_cycles_before_approval:
        return
    why = (
        f"limits.max_review_cycles = {limits.max_review_cycles} is below min_review_cycles_before_approval = "
        f"{limits.min_review_cycles_before_approval}: no review can approve"
    )
    if limits.on_review_exhausted is OnExhausted.BLOCK:
        raise ConfigError(f"{why}, and on_review_exhausted = block would end every run")
    tell(f"warning: {why}; their objections are passed on")


@dataclass(frozen=True, slots=True)
class Validation:
    """`problems` would stop a run, `warnings` would not."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def validate(config: Path, env: Mapping[str, str]) -> Validation:
    """Check a configuration as a run would use it, without starting one."""
    try:
        settings = load_settings(config, env)
    except LogosError as error:
        return Validation((str(error),))
    known = known_providers(settings)
    checks: list[Callable[[], None]] = [partial(check_work_dir, settings), partial(_check_prompt, settings)]
    checks += [partial(check_provider, agent.name, agent.provider, known) for agent in settings.role_agents()]
    problems: list[str] = []
    for check in checks:
        try:
            check()
        except LogosError as error:
            problems.append(str(error))
    warnings: list[str] = []
    if not settings.project_test_cmd:
        warnings.append("project_test_cmd is empty: no PASS can be verified by running the tests")
    elif settings.verify_pass is False:
        warnings.append("verify_pass is off: a tester's PASS is accepted without running project_test_cmd")
    return Validation(tuple(problems), tuple(warnings))


def _check_prompt(settings: Settings) -> None:
    given = given_prompt(settings)
    if given is None:
        raise PromptError("no prompt: neither prompt nor prompt_file is set; set one, or use `logos run --prompt FILE`")
    refuse_template(settings)
    split_prompt(given)
