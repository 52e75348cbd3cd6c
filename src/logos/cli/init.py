"""`logos init`: logos.json, prompt.md and telos.toml to start from."""

import sys
from collections.abc import Sequence
from typing import Annotated

from logos.app.init import PROMPT, InitResult, first_of
from logos.app.init import init as write_files
from logos.app.telos_file import TELOS_FILE
from logos.app.workdir import CONFIG, place_of
from logos.cli.options import AsJson, WorkDir, command, flag, value
from logos.cli.output import console as show
from logos.errors import UsageError


@command("logos init", "logos init --provider claude", "logos init --wd ~/project --force")
def init(
    force: Annotated[bool, flag("--force", "Overwrite existing files; each is kept with the suffix .bak.")] = False,
    provider: Annotated[str, value("NAME", "The agents' CLI; default: the one installed, of several you choose.")] = "",
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Write logos.json, prompt.md and telos.toml into the work dir, with the test command and the tools found there."""
    ask = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    result = write_files(place_of(wd), force=force, provider=provider, choose=_asked if ask else first_of)
    detected = result.detected
    tools = [{"level": tool.level.name, "name": tool.name, "command": tool.command} for tool in detected.found]
    missing = [{"level": tool.level.name, "what": tool.what, "instead": tool.instead} for tool in detected.missing]
    if as_json:
        files = {"wd": str(result.wd), "written": result.written, "kept": result.kept}
        clients = {"provider": result.provider or None, "installed": result.installed}
        commands = {"project_test_cmd": result.test_command, "tools": tools, "missing": missing}
        show.document({**files, **clients, **commands, "setup": detected.setup, "notes": detected.notes})
        return
    target = show.console()
    for name in (CONFIG, PROMPT, TELOS_FILE):
        written = "written" if name in result.written else "exists, not overwritten (use --force)"
        show.put(target, f"{name}: {written}")
    if CONFIG in result.written:
        show.put(target, f"provider: {_provider_in_words(result)}")
        none = "none found; set project_test_cmd in logos.json, so that a PASS can be verified"
        show.put(target, f"test command: {result.test_command or none}")
    for note in detected.notes:
        show.put(target, f"note: {note}", "yellow")
    # The commands that Logos would run to prove a level, and what replaces those that are missing.
    for title, rows in (("tools that prove a level", tools), ("not found, and what replaces it", missing)):
        if rows and TELOS_FILE in result.written:
            show.put(target, f"{title}:")
            for (line,) in show.columns(("", "", ""), [[*row.values()] for row in rows])[1:]:
                show.put(target, f"  {line}")
    if detected.setup and TELOS_FILE in result.written:
        show.put(target, f"setup of a new worktree: {detected.setup}")
    show.put(target, f"next: describe the task in {PROMPT}, then `logos doctor` and `logos run`", "bold")
    show.put(target, f'or:   describe the project\'s purpose in {TELOS_FILE}, then `logos build "…"`', "bold")


def _provider_in_words(result: InitResult) -> str:
    if not result.provider:
        return "none found; install an agent CLI: `logos doctor` lists them"
    if result.provider not in result.installed:
        return f"{result.provider}, which is not installed here; `logos doctor` says how to install it"
    others = ", ".join(name for name in result.installed if name != result.provider)
    return f"{result.provider} (also installed: {others}; --provider NAME chooses)" if others else result.provider


def _asked(installed: Sequence[str]) -> str:
    """The provider that a person chooses by its number or name."""
    target = show.console()
    for number, name in enumerate(installed, 1):
        show.put(target, f"  {number}  {name}")
    while True:
        show.put(target, f"Which agent CLI? (1: {installed[0]})")
        line = sys.stdin.readline()
        if not line:
            raise UsageError("nothing was written: no agent CLI was chosen; --provider NAME chooses one")
        answer = line.strip() or "1"
        chosen = dict(zip(map(str, range(1, len(installed) + 1)), installed, strict=True)).get(answer, answer)
        if chosen in installed:
            return chosen
        show.put(target, f"{answer!r} is none of 1 to {len(installed)}")
