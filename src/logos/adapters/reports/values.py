"""Types of the values and objects in reports: agents may write them loosely; the result is exact, errors are plain."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from logos.adapters.reports.text import MAX_ITEMS, Json, field_name, is_nothing
from logos.domain.levels import ALL_LEVELS, Level
from logos.domain.reports import ActionKind

# For types that are built at run time; type checkers accept these only in type expressions.
ANNOTATED: Any = Annotated
LITERAL: Any = Literal
TUPLE: Any = tuple

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


def wrong(why: str) -> PydanticCustomError:
    return PydanticCustomError("wrong", "{why}", {"why": why})


def wrong_lines(*lines: str) -> PydanticCustomError:
    """An error of whole lines, each of which names its location."""
    return PydanticCustomError("lines", "{lines}", {"lines": lines})


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a JSON object: the type it is read as, and what may stand there.

    `field` is the name of the dataclass's field, where it differs. An optional key has the default of the field, unless
    it is needed: `needed_when` has the values of an earlier key that forbid this one to be empty.
    """

    reads: Any
    about: str
    optional: bool = False
    needed_when: tuple[tuple[str, str], ...] = ()
    field: str = ""

    def check_needed(self, value: Any, info: ValidationInfo) -> Any:
        for key, needing in self.needed_when:
            # `data` has the valid fields before this one. Only a verdict or an action is this very member of an enum.
            if not value and any(earlier is needing for earlier in info.data.values()):
                raise wrong(f"must not be empty when {key} is {needing}")
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """How a dataclass is read from a JSON object: an annotation that replaces the schema pydantic derives from it.

    `make` gets the values of the fields; without it, the dataclass itself does.
    """

    cls: type[Any]
    keys: Mapping[str, Key]
    make: Callable[..., Any] | None = None

    @property
    def type(self) -> Any:
        return ANNOTATED[self.cls, self]

    def or_text(self, parse: Callable[[object], object]) -> Any:
        """The type of an object that may also be written as a text, which `parse` turns into an object."""
        return ANNOTATED[self.type, BeforeValidator(parse, json_schema_input_type=self.type | Text)]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        defaults = {field.name: field.default for field in dataclasses.fields(self.cls)}
        fields: dict[str, core_schema.TypedDictField] = {}
        for name, key in self.keys.items():
            field, needed = key.field or name, (AfterValidator(key.check_needed),) if key.needed_when else ()
            schema = handler.generate_schema(ANNOTATED[(key.reads, *needed, Field(description=key.about))])
            if key.optional:
                schema = core_schema.with_default_schema(schema, default=defaults[field], validate_default=True)
            fields[field] = core_schema.typed_dict_field(schema, required=not key.optional, validation_alias=name)
        values = core_schema.typed_dict_schema(fields, cls_name=self.cls.__name__)
        make = self.make or self.cls
        return core_schema.no_info_after_validator_function(lambda fields: make(**fields), values)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
        """With the conditions under which a key is there and not empty."""
        json = handler(schema)
        full: Json = {"not": {"enum": [None, "", []]}}
        needs = [
            {
                "if": {"properties": {key: {"const": str(needing)}}, "required": [key]},
                "then": {"properties": {name: full}, "required": [name]},
            }
            for name, row in self.keys.items()
            for key, needing in row.needed_when
        ]
        # pydantic asks again for every validator around the record.
        return {**json, "allOf": needs} if needs and "properties" in json else json


def record(cls: type[Any], **keys: Key) -> Record:
    return Record(cls, keys)


def _clean(value: object) -> str:
    if not isinstance(value, str):
        raise wrong("must be text")
    # Neither a file nor the log can hold these characters.
    return _UNSTORABLE.sub("\ufffd", value).strip()


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


def choice(enum: type[str], *words: str, between_words: str = "_") -> Any:
    """A type for exactly one of the words, in any case and emphasis; a text that names several is refused.

    `between_words` are the signs that may stand for an underscore.
    """
    allowed = f"{', '.join(words[:-1])} or {words[-1]}"

    def check(value: object) -> str:
        text = value if isinstance(value, str) and value.isascii() else ""
        given = re.sub(f"[{between_words}]", "_", text).strip(" \t\n*_`.").lower()
        word = next((word for word in words if word.lower() == given), None)
        if word is None:
            raise wrong(f"must be {allowed}, that word alone")
        return word

    return ANNOTATED[enum, BeforeValidator(check, json_schema_input_type=LITERAL[tuple(str(word) for word in words)])]


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


def row_name(row: object) -> str:
    name = cast(dict[str, object], row).get("section") if isinstance(row, dict) else None
    return field_name(name) if isinstance(name, str) else ""


def next_of(value: object) -> object:
    """`proceed`, or `hand_back to L4: why`, as an object."""
    if not isinstance(value, str):
        return value
    found = _ACTION.fullmatch(value.strip(" \t\n*_`"))
    # A text that goes on to name the other actions lists them and chooses none.
    if not found or (found[1].lower() == ActionKind.PROCEED and _OTHER_ACTION.search(found[3] or "")):
        raise wrong('must be "proceed", "hand_back to L4: why", "ask_person: the question", or an object that says so')
    return {"action": found[1].lower(), "to": found[2], "why": found[3] or ""}


_OPTIONAL_TEXT = BeforeValidator(lambda text: "" if is_nothing(text) else _clean(text), str | None)
Remark = Annotated[str, _OPTIONAL_TEXT]
Text = Annotated[str, Field(min_length=1), BeforeValidator(_text)]
SectionName = Annotated[str, Field(min_length=1, max_length=80), BeforeValidator(_section_name)]
Name = Annotated[str, Field(pattern=f"^{_NAME.pattern}$"), BeforeValidator(_name)]
Path = Annotated[str, Field(min_length=1, max_length=_MAX_PATH), BeforeValidator(_path)]
Flag = Annotated[bool, BeforeValidator(_flag)]
_LEVEL_KEYS = LITERAL[(*(level.name for level in ALL_LEVELS), *(level.value for level in ALL_LEVELS))]
LevelName = Annotated[Level, BeforeValidator(_level, json_schema_input_type=_LEVEL_KEYS)]
OrNone = BeforeValidator(lambda value: None if is_nothing(value) else value)
Few = Field(max_length=MAX_ITEMS)


def each(item: Any, length: Any = Few) -> Any:
    return ANNOTATED[TUPLE[item, ...], length, BeforeValidator(_list)]


Levels, Texts, Paths, Names = each(LevelName), each(Text), each(Path), each(Name)
