"""Commands that a run depends on, tried before the first turn: one that cannot run would waste every turn after it."""

from __future__ import annotations

import re
import threading

from logos.app.workdir import Tell
from logos.engine.checks import TIMED_OUT, run_command
from logos.errors import ConfigError
from logos.flows.condense import tail

_OUTPUT_LINES = 15
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
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
    if exit_code == 0:
        return ""
    if exit_code == _NOT_FOUND:
        return "a program of it was not found (exit 127)"
    if exit_code == _NOT_EXECUTABLE:
        return "a program of it may not be executed (exit 126)"
    for module in _MODULE.findall(command):
        if re.search(rf"No module named '?{re.escape(module)}'?(?![\w.])", output):
            return f"its Python has no module {module} (exit {exit_code})"
    found = (why for pattern, why in _WRAPPERS.items() if pattern.search(output))
    return next((f"{why} (exit {exit_code})" for why in found), "")


def try_test_command(command: str, folder: str, timeout: float, tell: Tell) -> None:
    """Run the test command once; ConfigError when it cannot run. Failing tests are told, agents may mend them."""
    tell(f"running `{command}` once, before the first turn")
    exit_code, output = run_command(command, folder, timeout, threading.Event())
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
