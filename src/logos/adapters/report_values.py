"""The values in reports: loose in how an agent may write them, exact in what comes out, plain in what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from logos.adapters.report_markdown import MAX_ITEMS, is_nothing, named
from logos.domain.levels import Level
from logos.domain.reports import ActionKind, Verdict

_MAX_PATH = 1000
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_LEVELS: dict[object, Level] = {key: level for level in Level for key in (level.name, level.value)}
_FLAGS = {"true": True, "yes": True, "false": False, "no": False}
# Where Logos and git keep what agents must not touch; file systems may ignore case.
_OURS = (".telos", "telos.toml")
_UNFIT = re.compile("[\0\ud800-\udfff]")
_ACTION = re.compile(
    r"(proceed|hand[ _-]back|ask[ _-]person)(?:\s+to\s+(\w+))?\s*(?:[:;.–—-]\s*(.*))?",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
_OTHER_ACTION = re.compile("hand[ _-]back|ask[ _-]person", re.IGNORECASE)


def wrong(why: str) -> PydanticCustomError:
    """This value is wrong."""
    return PydanticCustomError("wrong", "{why}", {"why": why})


def says(*lines: str) -> PydanticCustomError:
    """Whole lines, each naming its own place."""
    return PydanticCustomError("says", "{lines}", {"lines": lines})


def _clean(text: str) -> str:
    """What no file and no log can hold is shown as such."""
    return _UNFIT.sub("\ufffd", text).strip()


def _remark(value: object) -> object:
    if is_nothing(value):
        return ""
    if not isinstance(value, str):
        raise wrong("must be text")
    return _clean(value)


def _text(value: object) -> object:
    if not isinstance(value, str):
        raise wrong("must be text")
    if not (text := _clean(value)):
        raise wrong("must not be empty")
    return text


def _section_name(value: object) -> object:
    name = named(cast(str, _text(value)))
    if not name or len(name) > 80:
        raise wrong("must be a section's name of at most 80 characters")
    return name


def _name(value: object) -> object:
    if not isinstance(value, str) or not _NAME.fullmatch(value.strip()):
        raise wrong("must be a name like cart or price_list: a-z, then a-z, 0-9, _ or -, at most 40 characters")
    return value.strip()


def _path(value: object) -> object:
    if not isinstance(value, str):
        raise wrong("must be text: a path inside the repository")
    path = value.strip()
    parts = [part for part in path.split("/") if part not in ("", ".")]
    dependencies = path.startswith("/") or ".." in parts or "\\" in path or re.match(r"[A-Za-z]:", path)
    if not parts or dependencies or not path.isprintable() or len(path) > _MAX_PATH:
        raise wrong("must be a path inside the repository")
    if parts[0].lower() in _OURS or ".git" in (part.lower() for part in parts):
        raise wrong("must be a path inside the repository, and not in .git, .telos or telos.toml")
    return "/".join(parts)


def _level(value: object) -> object:
    key = value.strip().upper() if isinstance(value, str) and value.isascii() else value
    # A list has no hash, and true is 1.
    level = None if isinstance(key, bool | list | dict) else _LEVELS.get(key)
    if level is None:
        raise wrong("there is no such level; the levels are L1 to L9")
    return level


def _flag(value: object) -> object:
    flag = _FLAGS.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise wrong("must be true or false")
    return flag


def _one_of(*words: str) -> Callable[[object], object]:
    """Exactly one of the words; case and emphasis make no difference, and both words are neither."""
    allowed = f"{', '.join(words[:-1])} or {words[-1]}"

    def check(value: object) -> object:
        said = value.strip(" \t\n*_`.").lower() if isinstance(value, str) and value.isascii() else None
        word = next((word for word in words if word.lower() == said), None)
        if word is None:
            raise wrong(f"must be {allowed}, that word alone")
        return word

    return check


def _list(value: object) -> object:
    """Nothing, in any of the ways to say it, is an empty list; a long one is refused before its entries are read."""
    if is_nothing(value):
        return []
    if not isinstance(value, list):
        return value
    items = cast(list[object], value)
    if len(items) > MAX_ITEMS:
        raise wrong(f"must have at most {MAX_ITEMS:,} entries")
    return [] if len(items) == 1 and is_nothing(items[0]) else items


def _or_none(value: object) -> object:
    return None if is_nothing(value) else value


def tool_of(value: object) -> object:
    return {"tool": value} if isinstance(value, str) else value


def next_of(value: object) -> object:
    """`proceed`, or `hand_back to L4: why`, as an object."""
    if not isinstance(value, str):
        return value
    found = _ACTION.fullmatch(value.strip(" \t\n*_`"))
    # A text that goes on to the other actions names all and chooses none.
    if not found or (found[1].lower() == ActionKind.PROCEED and _OTHER_ACTION.search(found[3] or "")):
        raise wrong('must be "proceed", "hand_back to L4: why", "ask_person: the question", or an object that says so')
    return {"action": found[1].lower(), "to": found[2], "why": found[3] or ""}


def _action(value: object) -> object:
    return _one_of(*ActionKind)(re.sub("[ -]", "_", value) if isinstance(value, str) else value)


def section_rows(value: object, required: tuple[str, ...]) -> object:
    """Spec updates as rows; a required section that is not there gets a row that lacks its text."""
    if isinstance(value, dict):
        own = cast(dict[str, object], value)
        is_row = own.keys() == {"section", "text"}
        value = [own] if is_row else [{"section": name, "text": text} for name, text in own.items()]
    value = _list(value)
    if not isinstance(value, list):
        return value
    rows = cast(list[object], value)
    names = {row_name(row) for row in rows}
    return rows + [{"section": name} for name in required if name not in names]


def rows_of(value: object, info: ValidationInfo) -> object:
    return section_rows(value, info.context or ())


def row_name(row: object) -> str:
    name = cast(dict[str, object], row).get("section") if isinstance(row, dict) else None
    return named(name) if isinstance(name, str) else ""


def cycles(needs: dict[str, tuple[str, ...]]) -> list[str]:
    """A line per cycle, found by taking away what depends on nothing that is left."""
    left = dict(needs)
    while free := [name for name, others in left.items() if not any(other in left for other in others)]:
        for name in free:
            del left[name]
    lines: list[str] = []
    while left:
        trail = [next(iter(left))]
        while (then := next((other for other in left[trail[-1]] if other in left), None)) and then not in trail:
            trail.append(then)
        if then:
            cycle = [*trail[trail.index(then) :], then]
            lines.append(f"components: {' → '.join(cycle)} is a cycle; something must be first")
        for name in trail:
            del left[name]
    return lines


# What nothing may be said of can be null, too.
Remark = Annotated[str, BeforeValidator(_remark, json_schema_input_type=str | None)]
Text = Annotated[str, Field(min_length=1), BeforeValidator(_text)]
SectionName = Annotated[str, Field(min_length=1, max_length=80), BeforeValidator(_section_name)]
Name = Annotated[str, Field(pattern=f"^{_NAME.pattern}$"), BeforeValidator(_name)]
Path = Annotated[str, Field(min_length=1, max_length=_MAX_PATH), BeforeValidator(_path)]
Flag = Annotated[bool, BeforeValidator(_flag)]
LevelName = Annotated[
    Level,
    BeforeValidator(
        _level,
        json_schema_input_type=Literal["L9", "L8", "L7", "L6", "L5", "L4", "L3", "L2", "L1", 9, 8, 7, 6, 5, 4, 3, 2, 1],
    ),
]
Result = Annotated[
    str,
    BeforeValidator(_one_of("pass", "fail", "skipped"), json_schema_input_type=Literal["pass", "fail", "skipped"]),
]
Action = Annotated[
    ActionKind, BeforeValidator(_action, json_schema_input_type=Literal["proceed", "hand_back", "ask_person"])
]
Alignment = Annotated[
    Verdict,
    BeforeValidator(
        _one_of(Verdict.ALIGNED, Verdict.MISALIGNED), json_schema_input_type=Literal["ALIGNED", "MISALIGNED"]
    ),
]
Passing = Annotated[
    Verdict, BeforeValidator(_one_of(Verdict.PASS, Verdict.FAIL), json_schema_input_type=Literal["PASS", "FAIL"])
]
Agreement = Annotated[
    Verdict, BeforeValidator(_one_of(Verdict.AGREE, Verdict.OBJECT), json_schema_input_type=Literal["AGREE", "OBJECT"])
]

AsList = BeforeValidator(_list)
OrNone = BeforeValidator(_or_none)
Few = Field(max_length=MAX_ITEMS)
Levels = Annotated[tuple[LevelName, ...], Few, AsList]
Texts = Annotated[tuple[Text, ...], Few, AsList]
Paths = Annotated[tuple[Path, ...], Few, AsList]
Names = Annotated[tuple[Name, ...], Few, AsList]
