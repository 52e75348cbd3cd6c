"""Events as JSON and back, exactly."""

from __future__ import annotations

import json
from functools import cache
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from logos.domain.events import Event


@cache
def _adapter() -> TypeAdapter[Event]:
    """Built on first use: that takes longer than many commands that read no events."""
    return TypeAdapter(Annotated[Event, Field(discriminator="kind")])


class Undecodable(ValueError):
    """A stored event this version cannot read."""


def encode(event: Event) -> str:
    try:
        return _adapter().dump_json(event).decode("utf-8")
    except PydanticSerializationError:
        # A lone surrogate has no UTF-8 form; only this character is replaced.
        text = json.dumps(_adapter().dump_python(event), ensure_ascii=False)
        return text.encode("utf-8", "replace").decode("utf-8")


def decode(body: str | bytes) -> Event:
    try:
        return _adapter().validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        location = ".".join(str(part) for part in first["loc"])
        raise Undecodable(f"{location + ': ' if location else ''}{first['msg']}") from error
