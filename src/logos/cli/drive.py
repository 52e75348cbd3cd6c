"""What `logos run`, `build` and `resume` share: their options, the hint how to resume, the end of a run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from logos.app.settings import Settings
from logos.app.workdir import default_config
from logos.cli.options import flag, value
from logos.cli.output import console as show
from logos.cli.output.live import View
from logos.errors import BudgetReached, Interrupted, LimitReached, LogosError, PromptError, UsageError
from logos.views.document import RunDocument
from logos.views.run import RunView
from logos.views.status import RunStatus

Overrides = Annotated[
    list[str] | None, Option("--set", metavar="KEY=VALUE", help="Override a setting; `logos schema --keys` lists them.")
]
Simulate = Annotated[Path | None, value("SCRIPT", "Agents follow this YAML script; no agent CLI, no model.")]
Recreate = Annotated[bool, flag("--recreate", "On resume, open new terminals for agents whose terminals are gone.")]
RECREATE = "handoff.recreate_terminals=1"


def repeated(settings: Sequence[str], simulate: Path | None) -> list[str]:
    """The options that a command to resume must repeat."""
    options = [part for setting in settings for part in ("--set", setting)]
    return [*options, *(("--simulate", str(simulate)) if simulate else ())]


def read_stdin() -> str:
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PromptError("the prompt on stdin is not UTF-8 text") from error
    if not text.strip():
        raise PromptError("the prompt on stdin is empty")
    return text


def named(config: Path | None) -> list[str]:
    """The configuration as a command must name it; ./logos.json is found without."""
    return [] if config is None or config == default_config() else [str(config)]


@contextmanager
def resume_hint(view: View, settings: Settings, command: Sequence[str]) -> Generator[None]:
    """Add to an error that stops a run how to resume it: with `command`, its `logos run` or `logos build`."""
    try:
        yield
    except (LogosError, Interrupted) as error:
        if view.run is not None and not isinstance(error, UsageError):
            error.add_note(_hint(f"{command[1]} {view.run}", error, settings, list(command)))
        raise


def _hint(name: str, error: LogosError | Interrupted, settings: Settings, command: list[str]) -> str:
    resume = shlex.join([*command, "--resume"])
    # A build opens terminals as it needs them; a run of the cycle needs those it had.
    if settings.cleanup_on_exit and name.startswith("run "):
        new = "resume it with new ones, which are told what the old ones said"
        return f"{name} ended its terminals (cleanup_on_exit); {new}: {resume} --recreate"
    if isinstance(error, BudgetReached):
        return f"{name} can be resumed with more: {shlex.join(_with_double_budget(command, error))} --resume"
    if isinstance(error, LimitReached):
        wait = "" if settings.handoff.on_limit == "wait" else "; --set handoff.on_limit=wait waits for that by itself"
        return f"{name} can be resumed when the limit has ended: {resume}{wait}"
    return f"{name} can be resumed: {resume}"


def _with_double_budget(command: list[str], error: BudgetReached) -> list[str]:
    """The command with twice the budget, and without an earlier `--set` of the same key."""
    names = (error.key, error.key.removeprefix("limits.").upper())
    kept: list[str] = []
    for word in command:
        if word.partition("=")[0].strip() in names and kept[-1] == "--set":
            kept.pop()
        else:
            kept.append(word)
    return [*kept, "--set", f"{error.key}={error.limit * 2}"]


def ended_document(settings: Settings, view: RunView, exit_code: int) -> dict[str, Any]:
    state_file = settings.state_path if view.build is None else settings.paths.build_state
    run = RunDocument.of(RunStatus(settings.work_dir, view, None))
    return {**run, "exit_code": exit_code, "state_file": str(state_file)}


def put_end(
    settings: Settings,
    view: RunView,
    exit_code: int,
    changed: Sequence[str],
    next_commands: Sequence[tuple[str, str]],
    *,
    as_json: bool,
) -> int:
    """The end of a run: its outcome, what changed, where to look next. Returns the exit code."""
    target = show.console(stderr=as_json)
    show.put_summary(target, view)
    for line in changed:
        show.put(target, line)
    show.put_next(target, next_commands)
    if as_json:
        show.document(ended_document(settings, view, exit_code))
    return exit_code
