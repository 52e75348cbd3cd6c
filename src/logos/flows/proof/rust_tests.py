"""Tests inside of Rust source files: modules marked `#[cfg(test)]`."""

import re
from collections.abc import Iterator

_MODULE = re.compile(
    r"^[ \t]*#\[cfg\(test\)\]\s*(?:#\[[^\]\n]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+(?P<name>\w+)\s*\{", re.MULTILINE
)
# Braces, and what may contain braces that are none.
TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|b?r(?P<hashes>#*)\".*?\"(?P=hashes)|b?\"(?:\\.|[^\"\\])*\"|b?'(?:\\.[^']*|[^'\\\n])'|[{}]",
    re.DOTALL,
)


def put_back_tests(base: str, result: str) -> str:
    """The result's source with the test modules of base; ValueError where a module has no end."""
    before = {name: base[start:end] for name, start, end in _modules(base)}
    parts: list[str] = []
    done = 0
    for name, start, end in _modules(result):
        parts += [result[done:start], before.pop(name, "")]
        done = end
    text = "".join([*parts, result[done:]])
    return "\n\n".join([text.rstrip("\n"), *before.values()]) + "\n" if before else text


def _modules(text: str) -> Iterator[tuple[str, int, int]]:
    """Each test module: its name, start and end."""
    place = 0
    while match := _MODULE.search(text, place):
        place = _end(text, match.end())
        yield match["name"], match.start(), place


def _end(text: str, place: int) -> int:
    depth = 1
    for token in TOKEN.finditer(text, place):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    raise ValueError("a module has no end")
