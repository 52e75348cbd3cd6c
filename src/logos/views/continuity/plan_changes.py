"""The settings that a new driver changed: a comparison of two plans, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, cast

from logos.views.text import number

_SHOWN = 60
_NONE = "none"


def changed_settings(before: object, after: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Each field that differs, by its whole name, and how: `review.max_cycles`, `3 → 5`."""
    if before == after:
        return
    parts, others = _parts(before), _parts(after)
    if parts is None or others is None:
        yield name, f"{_value(before, after)} → {_value(after, before)}"
        return
    for key in dict.fromkeys((*parts, *others)):
        yield from changed_settings(parts.get(key), others.get(key), f"{name}.{key}" if name else key)


def _parts(value: object) -> dict[str, object] | None:
    """The parts of a value by name; None for a value that has none."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    rows = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
    if rows and all(is_dataclass(row) and hasattr(row, "name") for row in rows):
        return {str(row.name): row for row in rows}
    if rows and all(isinstance(row, tuple) and len(cast("tuple[Any, ...]", row)) == 2 for row in rows):
        return {_value(key): text for key, text in rows}
    return None


def _value(value: object, beside: object = None) -> str:
    """Short values as they are; of long ones only the length."""
    if value is None or value == () or value == "":
        return _NONE
    if is_dataclass(value) and not isinstance(value, type):
        return ", ".join(_value(getattr(value, field.name)) for field in fields(value) if field.name != "name")
    if isinstance(value, tuple):
        return ", ".join(map(_value, cast("tuple[object, ...]", value)))
    if isinstance(value, Enum):
        return value.name if isinstance(value, int) else str(value.value)
    text = str(value)
    return f"{number(len(text))} characters" if max(len(text), len(str(beside))) > _SHOWN else text
