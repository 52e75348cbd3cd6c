"""The form of the settings, made from their JSON Schema: every setting with its meaning and what it may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from logos.domain.levels import LEVELS
from logos.domain.roles import Role

# Asked for on their own above the settings, or of no use in a form.
_ELSEWHERE = frozenset(("wd", "prompt", "prompt_file", "project_test_cmd", "resume", "state_file", "$schema"))
# One object per role, level or provider: shown as a row each.
_TABLES: Mapping[str, tuple[str, ...]] = {
    "agents": tuple(Role),
    "level_agents": tuple(level.name for level in LEVELS),
    "prices": (),
}
_TITLES = {"": "General", "agents": "Agents", "level_agents": "Agents of levels"}
_COLUMNS = ("provider", "model")


@dataclass(frozen=True, slots=True)
class Field:
    """One setting. `kind`: choice, switch, number, lines (a list, one item per line) or text."""

    key: str
    label: str
    kind: str
    about: str
    default: str
    choices: tuple[str, ...] = ()
    least: str = ""
    most: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class FormSection:
    title: str
    fields: tuple[Field, ...]


Schema = Mapping[str, Any]


def sections(schema: Schema) -> tuple[FormSection, ...]:
    """The settings in sections: those without a section first."""
    found: dict[str, list[Field]] = {"": []}
    for key, own in schema["properties"].items():
        inner = _resolved(own, schema)
        if key in _ELSEWHERE:
            continue
        if key in _TABLES:
            found[key] = [*_table(key, schema)]
        elif "properties" in inner:
            found[key] = [_field(f"{key}.{name}", name, sub, schema) for name, sub in inner["properties"].items()]
        else:
            found[""].append(_field(key, key, own, schema))
    titled = ((_TITLES.get(key, key.replace("_", " ").capitalize()), fields) for key, fields in found.items())
    return tuple(FormSection(title, tuple(fields)) for title, fields in titled if fields)


def _table(key: str, schema: Schema) -> Iterator[Field]:
    for name in _TABLES[key]:
        for column in _COLUMNS:
            about = schema["$defs"]["AgentSettings"]["properties"][column]
            yield _field(f"{key}.{name}.{column}", f"{name.replace('_', ' ')}: {column}", about, schema)


def _resolved(own: Schema, schema: Schema) -> Schema:
    """A property without its reference and without `null`: leaving a field empty is null."""
    if "$ref" in own:
        return {**schema["$defs"][own["$ref"].rpartition("/")[2]], **own}
    others = [one for one in own.get("anyOf", ()) if one.get("type") != "null"]
    return {**own, **_resolved(others[0], schema)} if len(others) == 1 else own


def _field(key: str, name: str, own: Schema, schema: Schema) -> Field:
    full = _resolved(own, schema)
    kind = full.get("type")
    default = own.get("default")
    return Field(
        key,
        name.replace("_", " "),
        _kind(full, own),
        own.get("description") or full.get("description", ""),
        _shown(default),
        tuple(map(str, full.get("enum", ()))) or (("true", "false") if kind == "boolean" else ()),
        _shown(full.get("ge", full.get("minimum"))),
        _shown(full.get("le", full.get("maximum"))),
        kind == "integer",
    )


def _kind(full: Schema, own: Schema) -> str:
    if "enum" in full or full.get("type") == "boolean":
        return "choice"
    kinds = {"integer": "number", "number": "number", "array": "lines", "object": "lines"}
    return kinds.get(str(full.get("type", own.get("type"))), "text")


def _shown(value: object) -> str:
    if value is None or value == () or value == [] or value == {}:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, cast("list[object]", value))) if isinstance(value, list | tuple) else str(value)
