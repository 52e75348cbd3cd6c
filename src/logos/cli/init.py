"""`logos init`: logos.json, prompt.md and telos.toml to start from."""

from __future__ import annotations

from typing import Annotated

from logos.app.init import PROMPT
from logos.app.init import init as write_files
from logos.app.telos_file import TELOS_FILE
from logos.app.workdir import CONFIG, place_of
from logos.cli.options import AsJson, WorkDir, command, flag
from logos.cli.output import console as show


@command("logos init", "logos init --wd ~/project --force")
def init(
    force: Annotated[bool, flag("--force", "Overwrite existing files; each is kept with the suffix .bak.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Write logos.json, prompt.md and telos.toml into the work dir, with the test command and the tools found there."""
    result = write_files(place_of(wd), force=force)
    detected = result.detected
    tools = [{"level": tool.level.name, "name": tool.name, "command": tool.command} for tool in detected.found]
    missing = [{"level": tool.level.name, "what": tool.what, "instead": tool.instead} for tool in detected.missing]
    if as_json:
        files = {"wd": str(result.wd), "written": result.written, "kept": result.kept}
        show.document({**files, "project_test_cmd": result.test_command, "tools": tools, "missing": missing})
        return
    target = show.console()
    for name in (CONFIG, PROMPT, TELOS_FILE):
        written = "written" if name in result.written else "exists, not overwritten (use --force)"
        show.put(target, f"{name}: {written}")
    if CONFIG in result.written:
        none = "none found; set project_test_cmd in logos.json, so that a PASS can be verified"
        show.put(target, f"test command: {result.test_command or none}")
    # The commands that Logos would run to prove a level, and what replaces those that are missing.
    for title, rows in (("tools that prove a level", tools), ("not found, and what replaces it", missing)):
        if rows and TELOS_FILE in result.written:
            show.put(target, f"{title}:")
            for line in show.columns(("", "", ""), [[*row.values()] for row in rows])[1:]:
                show.put(target, f"  {line}")
    show.put(target, f"next: describe the task in {PROMPT}, then `logos doctor` and `logos run`", "bold")
    show.put(target, f'or:   describe the project\'s purpose in {TELOS_FILE}, then `logos build "…"`', "bold")
