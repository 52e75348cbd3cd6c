"""Events as JSON and back, exactly."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from logos.domain.events import Event

_ADAPTER: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="kind")])


class Undecodable(ValueError):
    """A stored event this version cannot read."""


def encode(event: Event) -> str:
    return _ADAPTER.dump_json(event).decode("utf-8")


def decode(body: str | bytes) -> Event:
    try:
        return _ADAPTER.validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Undecodable(f"{place + ': ' if place else ''}{first['msg']}") from error
