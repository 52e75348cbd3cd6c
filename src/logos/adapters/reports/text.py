"""Responses as text: JSON values, read strictly, and the headings and fenced blocks of Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

Json = dict[str, Any]

STANDARD = ("work_summary", "spec_updates", "validation_results", "tool_usage", "next_recommended_action")
"""The fields of every report, as JSON keys or as headings."""

NOTHING = ("", "-", "–", "—", "none", "none.", "n/a", "null", "nothing")
"""How agents write an empty value."""

MAX_ITEMS = 1000
"""The longest list that is accepted."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A JSON value, the keys that are repeated in one of its objects, and the position of its end."""

    value: object
    repeated: tuple[str, ...] = ()
    end: int = 0

    @property
    def mapping(self) -> Json | None:
        value = self.value
        return cast(Json, value) if isinstance(value, dict) else None

    @property
    def is_report(self) -> bool:
        """An object with two of the standard keys is meant as a report, even if it is not a valid one."""
        return self.mapping is not None and len(self.mapping.keys() & STANDARD) > 1


def field_name(text: str) -> str:
    """A heading or key as the name of a field: case, emphasis and the signs between words do not matter."""
    return re.sub(r"[\s_-]+", "_", text.strip(" \t*_`:").lower())


def is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in NOTHING)


def decode(text: str, start: int = 0) -> Decoded | str:
    """The JSON value that begins at `start`, or the reason why it cannot be read."""
    repeated: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> Json:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            seen: set[str] = set()
            repeated.extend(key for key, _ in pairs if key in seen or seen.add(key))
        return mapping

    # strict=False: raw line breaks within strings are a common slip and unambiguous.
    decoder = json.JSONDecoder(object_pairs_hook=collect, parse_constant=_refuse_constant, strict=False)
    try:
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return f"{error.msg[0].lower()}{error.msg[1:]} (line {error.lineno}, column {error.colno})"
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return str(error).partition(";")[0]
    return Decoded(value, tuple(dict.fromkeys(repeated)), end)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON value")


def decode_whole(text: str) -> Decoded | str:
    """The JSON value that is the whole text, or the reason why it cannot be read."""
    text = text.strip()
    got = decode(text)
    return got if isinstance(got, str) or got.end == len(text) else "there is more text after the JSON value"


@cache
def _parser() -> MarkdownIt:
    # Imported on use: it takes 17 ms, and most reports are plain JSON.
    from markdown_it import MarkdownIt  # noqa: PLC0415

    return MarkdownIt("zero").enable(["fence", "heading"]).disable(["normalize", "inline", "text_join"])


def _tokens(lines: list[str]) -> list[Token]:
    # Agents indent fences below bullets by any width, so the tokeniser sees the lines without their indentation.
    return _parser().parse("\n".join(line.lstrip(" \t") for line in lines))


def headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """The line number, depth and title of every heading."""
    for token, title in pairwise(_tokens(lines)):
        if token.type == "heading_open" and token.map:
            yield token.map[0], len(token.markup), title.content


def last_json_block(text: str) -> str | None:
    """The content of the last fenced block that is marked as JSON."""
    # Tokenising is slow, and most texts below headings have no fence.
    if "```" not in text and "~~~" not in text:
        return None
    lines = text.split("\n")
    blocks = [token for token in _tokens(lines) if token.type == "fence" and token.map]
    for token in reversed(blocks):
        if re.split(r"[\s`]", token.info.lower().lstrip(" \t"), maxsplit=1)[0] in ("json", "jsonc", "json5"):
            start, end = token.map or (0, 0)
            last = lines[end - 1].strip(" \t")
            closed = end - start > 1 and last.startswith(token.markup) and not last.strip(token.markup[0])
            return "\n".join(lines[start + 1 : end - 1 if closed else end])
    return None
