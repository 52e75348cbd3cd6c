"""Validation errors of pydantic as messages for the user: the location, the value, and what is allowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

Location = tuple[int | str, ...]
CONTRADICTION = "contradiction"
"""The type of an error about several keys of one object: its message has no value."""

_MAX_SHOWN = 80
_NO_OBJECT = ("dict_type", "model_type", "model_attributes_type", "dataclass_type")


def dotted(location: Location) -> str:
    """`failures[0].conflicts_with[1]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


@dataclass(frozen=True, slots=True)
class Wording:
    """How the errors of one format are worded.

    `keys` lists the known keys of the object at a location, `locate` writes a location, `object_name` and `key_names`
    (by the first part of the location) are the format's names for an object and its keys. `messages` has the text per
    type of error; `message` returns the text of an error that needs more than its type, or an empty one.
    """

    keys: Callable[[Location], Sequence[str]]
    locate: Callable[[Location], str] = dotted
    object_name: str = "an object"
    key_names: Mapping[str, str] = field(default_factory=dict[str, str])
    messages: Mapping[str, str] = field(default_factory=dict[str, str])
    message: Callable[[ErrorDetails], str] = lambda _: ""


def explain_first(error: ValidationError, wording: Wording) -> str:
    """One line about the first problem, for files that a user corrects."""
    return one_line(explain(error.errors(include_url=False)[0], wording))


def explain(error: ErrorDetails, wording: Wording) -> str:
    loc, kind = error["loc"], error["type"]
    location: Location = tuple(_cut(part) if isinstance(part, str) else part for part in loc if part != "[key]")
    where = wording.locate(location)
    message = wording.message(error) or wording.messages.get(kind, "")
    if kind == "missing":
        return f"{where}: is missing" + (f"; it {message}" if message else "")
    if kind == CONTRADICTION:
        return f"{where}: {error['msg']}" if where else error["msg"]
    if kind == "extra_forbidden" or ("[key]" in loc and loc[0] in wording.key_names):
        name = wording.key_names.get(str(loc[0]), "key") if "[key]" in loc else "key"
        return f"{where}: unknown {name}; known here: {', '.join(wording.keys(location[:-1]))}"
    if not message and kind in _NO_OBJECT:
        message = f"must be {wording.object_name} with the keys {', '.join(wording.keys(location))}"
    elif not message and kind == "enum":
        # pydantic lists the choices as 'a', 'b' or 'c'.
        choices = str(error.get("ctx", {}).get("expected", "")).replace("'", "").replace(" or ", ", ")
        message = f"must be one of {choices}"
    return f"{where} = {shown(error['input'])}: {message or error['msg'][0].lower() + error['msg'][1:]}"


def shown(value: object) -> str:
    """A value as JSON on one printable line of limited length."""
    try:
        text = json.dumps(value[:100] if isinstance(value, str) else value, default=str, ensure_ascii=False)
    except (RecursionError, ValueError):
        return "…"
    return _cut("".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text[:100]))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def one_line(text: str) -> str:
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
