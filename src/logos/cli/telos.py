"""`logos telos`: what the project is for, and what is known and proven per level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logos.app.workdir import place_of
from logos.cli.options import AsJson, WorkDir, examples

if TYPE_CHECKING:
    from logos.app.telos_file import Telos
    from logos.domain.levels import Level

EXAMPLES = examples("logos telos", "logos telos --wd ~/project --json")


def telos(wd: WorkDir = None, as_json: AsJson = False) -> int:
    """Show telos.toml as the nine levels, from the purpose to the syntax: what is known, and which tools prove it."""
    from logos.app.telos_file import TELOS_FILE, read_telos
    from logos.cli.output import console as show
    from logos.domain.levels import ALL_LEVELS

    place = place_of(wd)
    told = read_telos(place)
    levels = [_level(level, told) for level in ALL_LEVELS]
    if as_json:
        show.document({"file": str(place / TELOS_FILE), "levels": levels, "worktree": {"setup": told.setup}})
        return 0
    target = show.console()
    for level in levels:
        show.put(target, f"{level['level']}  {level['title']}", "bold")
        for label, text in _lines(level):
            show.put(target, f"    {label:<7}{show.one_line(text)}")
    show.put(target, "worktree", "bold")
    show.put(target, f"    setup  {show.one_line(told.setup) or '-'}")
    return 0


def _level(level: Level, told: Telos) -> dict[str, Any]:
    from logos.app.tool_detection import without_tools
    from logos.domain.levels import LEVELS

    tools = [{"name": tool.name, "command": tool.command} for tool in told.tools if tool.level is level]
    return {
        "level": level.name,
        "title": LEVELS[level].title,
        "says": dict(told.hierarchy).get(level),
        "tools": tools,
        "instead": None if tools else without_tools(level),
    }


def _lines(level: dict[str, Any]) -> list[tuple[str, str]]:
    """What is said of a level, and its proof."""
    tools = [f"{tool['name']}: {tool['command']}" for tool in level["tools"]] or [f"none: {level['instead']}"]
    return [("says", level["says"] or "-"), *zip(("tools", *[""] * len(tools)), tools, strict=False)]
