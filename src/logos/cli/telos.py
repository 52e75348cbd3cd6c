"""`logos telos`: what telos.toml says per level, and which tools prove it."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from logos.app.telos_file import TELOS_FILE, Telos, read_telos
from logos.app.tool_detection import without_tools
from logos.app.trial import HINT, check_telos
from logos.app.workdir import place_of
from logos.cli.options import AsJson, WorkDir, command, flag
from logos.cli.output import console as show
from logos.domain.levels import ALL_LEVELS, LEVELS, Level
from logos.errors import UsageError
from logos.views.events import Severity
from logos.views.redact import one_line
from logos.views.text import duration

CHECK = "Run setup and every tool once, in a scratch worktree, as a build does before its first turn."


@command(
    "logos telos",
    "logos telos --check                  # can setup and tools run in a worktree? exit code 2 if not",
    "logos telos --wd ~/project --json",
)
def telos(
    check: Annotated[bool, flag("--check", CHECK)] = False, wd: WorkDir = None, as_json: AsJson = False
) -> int | None:
    """Show telos.toml by level, from the purpose (L9) to the syntax (L1): what it says, and which tools prove it.

    With --check the exit code is 0 if the setup succeeds and every tool runs, even one that fails; otherwise 2.
    """
    place = place_of(wd)
    if check:
        return _check(place, as_json=as_json)
    read = read_telos(place)
    levels = [_level(level, read) for level in ALL_LEVELS]
    if as_json:
        show.document({"file": str(place / TELOS_FILE), "levels": levels, "worktree": {"setup": read.setup}})
        return None
    target = show.console()
    for level in levels:
        tools = [f"{tool['name']}: {tool['command']}" for tool in level["tools"]] or [f"none: {level['instead']}"]
        show.put(target, f"{level['level']}  {level['title']}", "bold")
        show.put(target, f"    says   {one_line(level['says'] or '-')}")
        for label, tool in zip(("tools", *[""] * len(tools)), tools, strict=False):
            show.put(target, f"    {label:<7}{one_line(tool)}")
    show.put(target, "worktree", "bold")
    show.put(target, f"    setup  {one_line(read.setup) or '-'}")
    return None


def _check(place: Path, *, as_json: bool) -> int:
    trial = check_telos(place, show.tell)
    exit_code = UsageError.exit_code if trial.problems else 0
    if as_json:
        rows = [tried and {**asdict(tried), "runs": tried.runs} for tried in (trial.setup, *trial.tools)]
        document = {"file": str(place / TELOS_FILE), "commit": trial.commit, "setup": rows[0], "tools": rows[1:]}
        show.document({**document, "exit_code": exit_code})
        return exit_code
    target = show.console()
    for tried in (trial.setup, *trial.tools):
        if tried is not None:
            ran = f"runs, and fails (exit {tried.exit_code})" if tried.exit_code else "passes"
            result = tried.problem or ran
            style = Severity.BAD if tried.problem else Severity.WARNING if tried.exit_code else Severity.GOOD
            head = f"{f'{tried.level} {tried.name}'.strip()}: {result}, after {duration(tried.seconds)}"
            show.put(target, f"{head}  {one_line(tried.command)}", show.STYLES[style])
            for line in tried.output.splitlines() if tried.exit_code else ():
                show.put(target, f"    {line}")
    show.put(target, HINT if trial.problems else "a build can run its setup and all its tools", "bold")
    return exit_code


def _level(level: Level, read: Telos) -> dict[str, Any]:
    tools = [{"name": tool.name, "command": tool.command} for tool in read.tools if tool.level is level]
    says, instead = dict(read.hierarchy).get(level), None if tools else without_tools(level)
    return {"level": level.name, "title": LEVELS[level].title, "says": says, "tools": tools, "instead": instead}
