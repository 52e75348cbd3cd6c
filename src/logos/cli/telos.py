"""`logos telos`: the project's purpose, and what telos.toml says of each level."""

from __future__ import annotations

from typing import Any

from logos.app.telos_file import TELOS_FILE, Telos, read_telos
from logos.app.tool_detection import without_tools
from logos.app.workdir import place_of
from logos.cli.options import AsJson, WorkDir, examples
from logos.cli.output import console as show
from logos.domain.levels import ALL_LEVELS, LEVELS, Level

EXAMPLES = examples("logos telos", "logos telos --wd ~/project --json")


def telos(wd: WorkDir = None, as_json: AsJson = False) -> int:
    """Show telos.toml by level, from the purpose (L9) to the syntax (L1): what it says, and which tools prove it."""
    place = place_of(wd)
    read = read_telos(place)
    levels = [_level(level, read) for level in ALL_LEVELS]
    if as_json:
        show.document({"file": str(place / TELOS_FILE), "levels": levels, "worktree": {"setup": read.setup}})
        return 0
    target = show.console()
    for level in levels:
        show.put(target, f"{level['level']}  {level['title']}", "bold")
        for label, text in _lines(level):
            show.put(target, f"    {label:<7}{show.one_line(text)}")
    show.put(target, "worktree", "bold")
    show.put(target, f"    setup  {show.one_line(read.setup) or '-'}")
    return 0


def _level(level: Level, read: Telos) -> dict[str, Any]:
    tools = [{"name": tool.name, "command": tool.command} for tool in read.tools if tool.level is level]
    return {
        "level": level.name,
        "title": LEVELS[level].title,
        "says": dict(read.hierarchy).get(level),
        "tools": tools,
        "instead": None if tools else without_tools(level),
    }


def _lines(level: dict[str, Any]) -> list[tuple[str, str]]:
    """What telos.toml says of a level, and the tools that prove it."""
    tools = [f"{tool['name']}: {tool['command']}" for tool in level["tools"]] or [f"none: {level['instead']}"]
    return [("says", level["says"] or "-"), *zip(("tools", *[""] * len(tools)), tools, strict=False)]
