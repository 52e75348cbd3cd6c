"""`logos telos`: what telos.toml says per level, and which tools prove it."""

from __future__ import annotations

from typing import Any

from logos.app.telos_file import TELOS_FILE, Telos, read_telos
from logos.app.tool_detection import without_tools
from logos.app.workdir import place_of
from logos.cli.options import AsJson, WorkDir, command
from logos.cli.output import console as show
from logos.domain.levels import ALL_LEVELS, LEVELS, Level
from logos.views.redact import one_line


@command("logos telos", "logos telos --wd ~/project --json")
def telos(wd: WorkDir = None, as_json: AsJson = False) -> None:
    """Show telos.toml by level, from the purpose (L9) to the syntax (L1): what it says, and which tools prove it."""
    place = place_of(wd)
    read = read_telos(place)
    levels = [_level(level, read) for level in ALL_LEVELS]
    if as_json:
        show.document({"file": str(place / TELOS_FILE), "levels": levels, "worktree": {"setup": read.setup}})
        return
    target = show.console()
    for level in levels:
        tools = [f"{tool['name']}: {tool['command']}" for tool in level["tools"]] or [f"none: {level['instead']}"]
        show.put(target, f"{level['level']}  {level['title']}", "bold")
        show.put(target, f"    says   {one_line(level['says'] or '-')}")
        for label, tool in zip(("tools", *[""] * len(tools)), tools, strict=False):
            show.put(target, f"    {label:<7}{one_line(tool)}")
    show.put(target, "worktree", "bold")
    show.put(target, f"    setup  {one_line(read.setup) or '-'}")


def _level(level: Level, read: Telos) -> dict[str, Any]:
    tools = [{"name": tool.name, "command": tool.command} for tool in read.tools if tool.level is level]
    says, instead = dict(read.hierarchy).get(level), None if tools else without_tools(level)
    return {"level": level.name, "title": LEVELS[level].title, "says": says, "tools": tools, "instead": instead}
