"""`logos init`: write a configuration, a prompt and a telos.toml to start from."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from logos.app import init as use_case
from logos.app.init import PROMPT, InitResult
from logos.app.telos_file import TELOS_FILE
from logos.app.tool_detection import Detected
from logos.app.workdir import CONFIG, place_of
from logos.cli.options import AsJson, WorkDir, examples
from logos.cli.output import console as show

EXAMPLES = examples("logos init", "logos init --wd ~/project --force")


def init(
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite existing files; each is kept with the suffix .bak.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Write logos.json, prompt.md and telos.toml into the work dir, with the test command and the tools found there."""
    result = use_case.init(place_of(wd), force=force)
    if as_json:
        show.document(as_document(result))
    else:
        put(show.console(), result)
    return 0


def as_document(result: InitResult) -> dict[str, Any]:
    found, missing = result.detected.found, result.detected.missing
    return {
        "wd": str(result.wd),
        "written": list(result.written),
        "kept": list(result.kept),
        "project_test_cmd": result.test_command,
        "tools": [{"level": tool.level.name, "name": tool.name, "command": tool.command} for tool in found],
        "missing": [{"level": tool.level.name, "what": tool.what, "instead": tool.instead} for tool in missing],
    }


def put(target: Console, result: InitResult) -> None:
    for name in (CONFIG, PROMPT, TELOS_FILE):
        show.put(target, f"{name}: {'written' if name in result.written else 'exists, not overwritten (use --force)'}")
    if CONFIG in result.written:
        none = "none found; set project_test_cmd in logos.json, so that a PASS can be verified"
        show.put(target, f"test command: {result.test_command or none}")
    if TELOS_FILE in result.written:
        _put_tools(target, result.detected)
    show.put(target, f"next: describe the task in {PROMPT}, then `logos doctor` and `logos run`", "bold")
    show.put(target, f'or:   describe the project\'s purpose in {TELOS_FILE}, then `logos build "…"`', "bold")


def _put_tools(target: Console, detected: Detected) -> None:
    """The commands that Logos would run to prove a level, and what replaces those that are missing."""
    found = [(tool.level.name, tool.name, tool.command) for tool in detected.found]
    missing = [(tool.level.name, tool.what, tool.instead) for tool in detected.missing]
    for title, rows in (("tools that prove a level", found), ("not found, and what replaces it", missing)):
        if rows:
            show.put(target, f"{title}:")
            for line in show.columns(("", "", ""), rows)[1:]:
                show.put(target, f"  {line}")
