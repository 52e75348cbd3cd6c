"""The values in reports: agents may write them loosely; the result is exact, and errors say what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field, ValidationInfo

from logos.adapters.reports.schema import ANNOTATED, LITERAL, wrong
from logos.adapters.reports.text import MAX_ITEMS, field_name, is_nothing
from logos.domain.levels import ALL_LEVELS, Level
from logos.domain.reports import ActionKind

_MAX_PATH = 1000
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_LEVELS: dict[object, Level] = {key: level for level in Level for key in (level.name, level.value)}
_FLAGS = {"true": True, "yes": True, "false": False, "no": False}
# Files of Logos and git, which agents must not change; file systems may ignore case.
_PROTECTED = (".telos", "telos.toml")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_ACTION = re.compile(
    r"(proceed|hand[ _-]back|ask[ _-]person)(?:\s+to\s+(\w+))?\s*(?:[:;.–—-]\s*(.*))?",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
_OTHER_ACTION = re.compile("hand[ _-]back|ask[ _-]person", re.IGNORECASE)


def _clean(value: object) -> str:
    if not isinstance(value, str):
        raise wrong("must be text")
    # Neither a file nor the log can hold these characters.
    return _UNSTORABLE.sub("\ufffd", value).strip()


def _remark(value: object) -> str:
    return "" if is_nothing(value) else _clean(value)


def _text(value: object) -> str:
    if not (text := _clean(value)):
        raise wrong("must not be empty")
    return text


def _section_name(value: object) -> str:
    name = field_name(_text(value))
    if not name or len(name) > 80:
        raise wrong("must be a section's name of at most 80 characters")
    return name


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value.strip()):
        raise wrong("must be a name like cart or price_list: a-z, then a-z, 0-9, _ or -, at most 40 characters")
    return value.strip()


def _path(value: object) -> str:
    if not isinstance(value, str):
        raise wrong("must be text: a path inside the repository")
    path = value.strip()
    parts = [part for part in path.split("/") if part not in ("", ".")]
    is_outside = path.startswith("/") or ".." in parts or "\\" in path or re.match(r"[A-Za-z]:", path)
    if not parts or is_outside or not path.isprintable() or len(path) > _MAX_PATH:
        raise wrong("must be a path inside the repository")
    if parts[0].lower() in _PROTECTED or ".git" in (part.lower() for part in parts):
        raise wrong("must be a path inside the repository, and not in .git, .telos or telos.toml")
    return "/".join(parts)


def _level(value: object) -> Level:
    key = value.strip().upper() if isinstance(value, str) and value.isascii() else value
    # A list has no hash, and true is 1.
    level = None if isinstance(key, bool | list | dict) else _LEVELS.get(key)
    if level is None:
        raise wrong("there is no such level; the levels are L1 to L9")
    return level


def _flag(value: object) -> bool:
    flag = _FLAGS.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise wrong("must be true or false")
    return flag


def _one_of(*words: str) -> Callable[[object], str]:
    """Exactly one of the words, in any case and emphasis; a text that names several is refused."""
    allowed = f"{', '.join(words[:-1])} or {words[-1]}"

    def check(value: object) -> str:
        given = value.strip(" \t\n*_`.").lower() if isinstance(value, str) and value.isascii() else None
        word = next((word for word in words if word.lower() == given), None)
        if word is None:
            raise wrong(f"must be {allowed}, that word alone")
        return word

    return check


def choice(enum: type[str], *words: str, before: Callable[[object], object] = lambda value: value) -> Any:
    """A type for exactly one of the words."""
    check = _one_of(*words)
    written = LITERAL[tuple(str(word) for word in words)]
    return ANNOTATED[enum, BeforeValidator(lambda value: check(before(value)), json_schema_input_type=written)]


def _list(value: object) -> object:
    """Every way to write nothing is an empty list; a list that is too long is refused before its entries are read."""
    if is_nothing(value):
        return []
    if not isinstance(value, list):
        return value
    items = cast(list[object], value)
    if len(items) > MAX_ITEMS:
        raise wrong(f"must have at most {MAX_ITEMS:,} entries")
    return [] if len(items) == 1 and is_nothing(items[0]) else items


def section_rows(value: object, required: tuple[str, ...]) -> object:
    """Spec updates as rows; a required section that is missing gets a row without a text."""
    if isinstance(value, dict):
        mapping = cast(dict[str, object], value)
        is_row = mapping.keys() == {"section", "text"}
        value = [mapping] if is_row else [{"section": name, "text": text} for name, text in mapping.items()]
    value = _list(value)
    if not isinstance(value, list):
        return value
    rows = cast(list[object], value)
    names = {row_name(row) for row in rows}
    return rows + [{"section": name} for name in required if name not in names]


def required_sections(value: object, info: ValidationInfo) -> object:
    """Spec updates as rows; the context of the validation is the sections that the spec must have."""
    return section_rows(value, info.context or ())


def row_name(row: object) -> str:
    name = cast(dict[str, object], row).get("section") if isinstance(row, dict) else None
    return field_name(name) if isinstance(name, str) else ""


def tool_of(value: object) -> object:
    return {"tool": value} if isinstance(value, str) else value


def next_of(value: object) -> object:
    """`proceed`, or `hand_back to L4: why`, as an object."""
    if not isinstance(value, str):
        return value
    found = _ACTION.fullmatch(value.strip(" \t\n*_`"))
    # A text that goes on to name the other actions lists them and chooses none.
    if not found or (found[1].lower() == ActionKind.PROCEED and _OTHER_ACTION.search(found[3] or "")):
        raise wrong('must be "proceed", "hand_back to L4: why", "ask_person: the question", or an object that says so')
    return {"action": found[1].lower(), "to": found[2], "why": found[3] or ""}


def _underscored(value: object) -> object:
    return re.sub("[ -]", "_", value) if isinstance(value, str) else value


def _or_none(value: object) -> object:
    return None if is_nothing(value) else value


Remark = Annotated[str, BeforeValidator(_remark, json_schema_input_type=str | None)]
Text = Annotated[str, Field(min_length=1), BeforeValidator(_text)]
SectionName = Annotated[str, Field(min_length=1, max_length=80), BeforeValidator(_section_name)]
Name = Annotated[str, Field(pattern=f"^{_NAME.pattern}$"), BeforeValidator(_name)]
Path = Annotated[str, Field(min_length=1, max_length=_MAX_PATH), BeforeValidator(_path)]
Flag = Annotated[bool, BeforeValidator(_flag)]
_LEVEL_KEYS = LITERAL[(*(level.name for level in ALL_LEVELS), *(level.value for level in ALL_LEVELS))]
LevelName = Annotated[Level, BeforeValidator(_level, json_schema_input_type=_LEVEL_KEYS)]
Action = choice(ActionKind, *ActionKind, before=_underscored)

AsList = BeforeValidator(_list)
OrNone = BeforeValidator(_or_none)
Few = Field(max_length=MAX_ITEMS)
Levels = Annotated[tuple[LevelName, ...], Few, AsList]
Texts = Annotated[tuple[Text, ...], Few, AsList]
Paths = Annotated[tuple[Path, ...], Few, AsList]
Names = Annotated[tuple[Name, ...], Few, AsList]
