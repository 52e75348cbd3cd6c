"""Events as the bytes that a log stores and hashes, and the clock that stamps them."""

import json
import time
from collections.abc import Callable
from functools import cache
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from logos.adapters.store.chain import Row
from logos.domain.events import Event, Recorded
from logos.domain.turns import RunId
from logos.errors import LogDamaged

# Beyond these seconds there is no date to show.
END_OF_TIME = 250_000_000_000

Clock = Callable[[], float]


def _passed() -> float:
    """Seconds of a clock that cannot be set; with CLOCK_BOOTTIME they include the time of suspension."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


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


def recorded(run: RunId, expected: int, row: Row) -> Recorded:
    """A row that is read where event `expected` should be."""
    seq, at, body = row
    if seq != expected:
        raise LogDamaged(run, expected, "it is missing")
    if not abs(at) < END_OF_TIME:
        raise LogDamaged(run, seq, "its time is invalid")
    try:
        return Recorded(run, seq, at, decode(body))
    except Undecodable as error:
        raise LogDamaged(run, seq, str(error)) from error


def steady(wall: Clock = time.time, passed: Clock = _passed) -> Clock:
    """A clock that starts at the time of day, and is not affected if the system clock is set later."""
    began, start = wall(), passed()
    return lambda: began + (passed() - start)
