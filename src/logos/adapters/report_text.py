"""What a response is made of: JSON values, strictly read, and lines inside and outside of fenced blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

Json = dict[str, Any]

STANDARD = ("work_summary", "spec_updates", "validation_results", "tool_usage", "next_recommended_action")
"""What every report says; as headings, too."""

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^\s`]*)")


@dataclass(frozen=True, slots=True)
class Found:
    """A report as data. `problems` are fields that could not be read: the field, and a line about it."""

    data: Json
    problems: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Decoded:
    """A JSON value, the keys that one of its objects has twice, and where it ended."""

    value: object
    twice: tuple[str, ...] = ()
    end: int = 0

    @property
    def mapping(self) -> Json | None:
        value = self.value
        return cast(Json, value) if isinstance(value, dict) else None

    @property
    def is_report(self) -> bool:
        """Two of the standard keys make an object a report, if perhaps a bad one."""
        return self.mapping is not None and len(self.mapping.keys() & STANDARD) > 1

    @property
    def problems(self) -> tuple[tuple[str, str], ...]:
        return tuple((key, f"{shown(key)[1:-1]}: the key is there twice; give it once") for key in self.twice)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a response, and in which fenced block it stands (0: in none). Fences belong to their block."""

    text: str
    block: int = 0
    language: str = ""
    is_fence: bool = False


def decoded(text: str, start: int = 0) -> Decoded | str:
    """The JSON value that begins at `start`, or why there is none."""
    twice: list[str] = []

    def collected(pairs: list[tuple[str, Any]]) -> Json:
        own = dict(pairs)
        if len(own) < len(pairs):
            seen: set[str] = set()
            twice.extend(key for key, _ in pairs if key in seen or seen.add(key))
        return own

    # Not strict: raw line breaks within strings are a slip that changes nothing.
    decoder = json.JSONDecoder(object_pairs_hook=collected, parse_constant=_no_number, strict=False)
    try:
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return f"{error.msg[0].lower()}{error.msg[1:]} (line {error.lineno}, column {error.colno})"
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return str(error).partition(";")[0]
    return Decoded(value, tuple(dict.fromkeys(twice)), end)


def shown(value: object) -> str:
    """A value as JSON on one printable line, cut where it is long."""
    try:
        text = json.dumps(value[:100] if isinstance(value, str) else value, ensure_ascii=False)
    except (RecursionError, ValueError):
        return "…"
    text = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text[:100])
    return text if len(text) <= 80 else text[:77] + "..."


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is not a JSON value")


def decoded_whole(text: str) -> Decoded | str:
    """The JSON value that is all of the text."""
    text = text.strip()
    got = decoded(text)
    return got if isinstance(got, str) or got.end == len(text) else "there is more text after the JSON value"


def lines_of(text: str) -> Iterator[Line]:
    fence, block, language = "", 0, ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if not fence and mark and "`" not in line[mark.end() :]:
            fence, language = mark[1], mark[2].lower()
            block += 1
            yield Line(line, block, language, is_fence=True)
        elif fence and mark and mark[1].startswith(fence) and not line.strip(" \t" + fence[0]):
            fence = ""
            yield Line(line, block, language, is_fence=True)
        else:
            yield Line(line, block, language) if fence else Line(line)


def last_json_block(text: str) -> str | None:
    inside: dict[int, list[str]] = {}
    for line in lines_of(text):
        if line.language in ("json", "jsonc", "json5"):
            inside.setdefault(line.block, []).extend([] if line.is_fence else [line.text])
    return "\n".join(inside[max(inside)]) if inside else None
