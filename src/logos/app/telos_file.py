"""telos.toml: a project's purpose, what is known per level, and the tools that prove a level. A person writes it."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError
from pydantic_core import PydanticCustomError

from logos.adapters.files import bytes_of_file
from logos.domain.levels import ALL_LEVELS, Level
from logos.domain.specs import Tool
from logos.errors import ConfigError
from logos.validation import Location, Wording, dotted, explain, explain_first, one_line

TELOS_FILE = "telos.toml"
MAX_BYTES = 200_000
TEMPLATE_PURPOSE = "Write here what this project is for, and what it must never become."
# L9 is not listed: the purpose is the key `purpose`.
KNOWN = tuple(level for level in ALL_LEVELS if level is not Level.L9)


@dataclass(frozen=True, slots=True)
class Telos:
    """The content of telos.toml; `known` holds only levels that it describes."""

    purpose: str
    known: tuple[tuple[Level, str], ...] = ()
    tools: tuple[Tool, ...] = ()
    setup: str = ""

    @property
    def hierarchy(self) -> tuple[tuple[Level, str], ...]:
        return (Level.L9, self.purpose), *self.known


def _text(text: str) -> str:
    if "\x00" in text:
        raise PydanticCustomError("text", "must be text without NUL characters")
    return text.strip()


def _filled(text: str) -> str:
    if not text:
        raise PydanticCustomError("filled", "must not be empty")
    return text


Text = Annotated[StrictStr, AfterValidator(_text)]
Filled = Annotated[Text, AfterValidator(_filled)]
LevelKey = Annotated[StrictStr, Field(pattern="^L[1-8]$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Tool(_Part):
    level: Annotated[StrictInt, Field(ge=1, le=9)] = Field(description="The level that the tool proves, 1 to 9.")
    name: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,39}$")] = Field(
        description="The tool's name, unique in its level."
    )
    command: Filled = Field(description="A shell command; exit code 0 is a pass.")


class _Worktree(_Part):
    setup: Text = Field(
        "", description="Command to run in every new worktree; LOGOS_ROOT is the path of the repository."
    )


class _Telos(_Part):
    purpose: Filled = Field(description="The purpose of the project, and what it must never become (L9).")
    levels: dict[LevelKey, Text] = Field({}, description="What is already known per level, L8 to L1.")
    tools: tuple[_Tool, ...] = Field((), description="Commands that Logos runs itself to prove a level.")
    worktree: _Worktree = Field(default_factory=lambda: _Worktree.model_validate({}))


def telos_schema() -> dict[str, Any]:
    """The JSON Schema of telos.toml."""
    schema = _Telos.model_json_schema()
    return {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Telos"}


def worktree_setup(wd: Path) -> str:
    """The command that prepares a worktree, also of a telos.toml that is not good enough for a build yet."""
    path = wd / TELOS_FILE
    given = parse_telos(path, telos_text(path)).get("worktree", {})
    try:
        return _Telos.model_validate({"purpose": "any", "worktree": given}).worktree.setup
    except ValidationError as error:
        raise ConfigError(f"{path}: {explain_first(error, _WORDING)}") from error


def read_telos(wd: Path) -> Telos:
    """What telos.toml says, or ConfigError with one line: the file, the key, its value and what is allowed."""
    path = wd / TELOS_FILE
    data = parse_telos(path, telos_text(path))
    for _, problem in telos_problems(data):
        raise ConfigError(f"{path}: {problem}")
    told = _Telos.model_validate(data)
    if one_line(told.purpose) == TEMPLATE_PURPOSE:
        raise ConfigError(f"{path} still says {TEMPLATE_PURPOSE!r}: write what the project is for")
    tools = [Tool(Level(tool.level), tool.name, tool.command) for tool in told.tools]
    described = tuple((level, told.levels[level.name]) for level in KNOWN if told.levels.get(level.name))
    return Telos(told.purpose, described, (*tools,), told.worktree.setup)


def telos_problems(data: dict[str, Any]) -> list[tuple[Location, str]]:
    """Everything that is wrong with the content of a telos.toml: where, and what."""
    try:
        tools, found = _Telos.model_validate(data).tools, list[tuple[Location, str]]()
    except ValidationError as error:
        errors = error.errors(include_url=False)
        places = [tuple(part for part in each["loc"] if part != "[key]") for each in errors]
        return [(place, one_line(explain(each, _WORDING))) for place, each in zip(places, errors, strict=True)]
    seen: set[tuple[int, str]] = set()
    for number, tool in enumerate(tools):
        if (tool.level, tool.name) in seen:
            same = f"tools: L{tool.level} has two tools called {tool.name!r}; rename one"
            found.append((("tools", number, "name"), same))
        seen.add((tool.level, tool.name))
    return found


def telos_text(path: Path) -> str:
    try:
        if not path.exists():
            raise ConfigError(f"there is no {TELOS_FILE} in {path.parent}; `logos init` writes one")
        return bytes_of_file(path, limit=MAX_BYTES, follow=True).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot read {path}: {why}") from error


def parse_telos(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        why = str(error)[:200] if isinstance(error, ValueError) else "nested too deeply"
        raise ConfigError(one_line(f"{path} is not valid TOML: {why}")) from error


_LEVEL_NUMBER = "must be a whole number from 1 (L1) to 9 (L9)"
_KEYS: dict[str, list[str]] = {
    "levels": [*(level.name for level in KNOWN[:-1]), "L1 (the purpose has a key of its own, `purpose`)"],
    "tools": list(_Tool.model_fields),
    "worktree": list(_Worktree.model_fields),
}


def _place(place: Location) -> str:
    """A place as a person counts: `tools, number 2: level`."""
    if place[:1] == ("tools",) and len(place) > 1:
        return f"tools, number {int(place[1]) + 1}" + "".join(f": {part}" for part in place[2:])
    return dotted(place)


_WORDING = Wording(
    lambda place: _KEYS[str(place[0])] if place else list(_Telos.model_fields),
    _place,
    object_name="a table",
    key_names={"levels": "level"},
    messages={
        "string_type": "must be text (put it in quotes)",
        "int_type": _LEVEL_NUMBER,
        "greater_than_equal": _LEVEL_NUMBER,
        "less_than_equal": _LEVEL_NUMBER,
        "string_pattern_mismatch": "must be a word of letters, digits and . _ + -, at most 40 long",
        "tuple_type": "must be written as [[tools]]",
    },
)
