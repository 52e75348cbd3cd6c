"""Where keys stand in a JSON or TOML text that has been parsed already; a place without a key has its holder's."""

import json
import re
from bisect import bisect_right

from logos.validation import Location

# No key of ours is nested deeper; the length of a path must not make a hostile file slow.
_DEEPEST = 5
_JSON_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],]', re.DOTALL)
_TOML_TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|' + r"'''.*?'''|" + r'"(?:[^"\\\n]|\\.)*+"|' + r"'[^'\n]*+'|#[^\n]*+", re.DOTALL
)
_TOML_KEY = re.compile(
    r"^[ \t]*+(?:(\[\[?)([^\]\n]*+)\]|((?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+'|[ \t]*+\.)++)[ \t]*+=)", re.MULTILINE
)


class Positions:
    """Line and column, from 1, of every key of a text."""

    def __init__(self, text: str, offsets: dict[Location, int]) -> None:
        self._offsets = offsets
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]

    def of(self, place: Location) -> tuple[int, int]:
        """Where a key stands, or else the nearest object around it that has a key, or the beginning."""
        for length in range(len(place), 0, -1):
            offset = self._offsets.get(place[:length])
            if offset is not None:
                line = bisect_right(self._lines, offset)
                return line, offset - self._lines[line - 1] + 1
        return 1, 1


def json_positions(text: str) -> Positions:
    offsets: dict[Location, int] = {}
    # Of every open object its key, of every open list the number of the entry.
    path: list[int | str] = []
    in_object: list[bool] = []
    wants_key = False
    for token in _JSON_TOKEN.finditer(text):
        match token[0][0]:
            case "{" | "[" as opened:
                in_object.append(opened == "{")
                path.append("" if in_object[-1] else 0)
                wants_key = in_object[-1]
            case "}" | "]":
                in_object.pop()
                path.pop()
                wants_key = False
            case ",":
                wants_key = in_object[-1]
                if not wants_key:
                    path[-1] = int(path[-1]) + 1
            case _ if wants_key:
                path[-1], wants_key = json.loads(token[0], strict=False), False
                if len(path) <= _DEEPEST:
                    offsets[tuple(path)] = token.start()
            case _:
                pass
    return Positions(text, offsets)


def toml_positions(text: str) -> Positions:
    """Of keys on lines of their own; those of an inline table have the position of its key."""
    offsets: dict[Location, int] = {}
    table: Location = ()
    counts: dict[Location, int] = {}
    for line in _TOML_KEY.finditer(_TOML_TEXT.sub(_without_lines, text)):
        brackets, header, key = line.groups()
        names = tuple(part.strip().strip("\"'") for part in (key if header is None else header).split("."))
        start = line.start(2 if key is None else 3)
        if key is not None:
            offsets.setdefault((*table, *names)[:_DEEPEST], start)
            continue
        table = names
        if brackets == "[[":
            offsets.setdefault(names[:_DEEPEST], start)
            table = (*names, counts.setdefault(names, 0))
            counts[names] += 1
        offsets[table[:_DEEPEST]] = start
    return Positions(text, offsets)


def _without_lines(found: re.Match[str]) -> str:
    """A text or comment of the same length in which nothing looks like a key; a quoted key stays."""
    whole = found[0]
    return re.sub(r"[^\n]", " ", whole) if whole[0] == "#" or whole[:3] in ('"""', "'''") else whole
