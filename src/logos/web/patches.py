"""A patch as rows of a table: files, hunks and lines, side by side or one below the other, highlighted by file name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from markupsafe import Markup

from logos.views.redact import clean
from logos.views.text import number
from logos.web.marking import highlighted_lines

# Of a larger patch, the page shows the beginning.
LONGEST = 2_000_000
MOST_LINES = 4_000
_HUNK = re.compile(r"@@ -(?P<old>\d+)(?:,\d+)? \+(?P<new>\d+)(?:,\d+)? @@(?P<about>.*)")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_WORDS = {"GIT binary": "binary", "rename from": "renamed", "new file": "new", "deleted file": "deleted"}


@dataclass(frozen=True, slots=True)
class Line:
    """`sign` is `+`, `-`, or a space; a number is None on the side that does not have the line."""

    sign: str
    old: int | None
    new: int | None
    code: Markup

    @property
    def kind(self) -> str:
        return {"+": "added", "-": "deleted"}.get(self.sign, "same")


@dataclass(frozen=True, slots=True)
class Hunk:
    about: str
    lines: tuple[Line, ...]

    @property
    def where(self) -> str:
        """The lines of the new file, or of the old one where all were deleted, and what they are part of."""
        numbers = [line.new for line in self.lines if line.new is not None]
        numbers = numbers or [line.old for line in self.lines if line.old is not None]
        if not numbers:
            return self.about
        lines = f"line {numbers[0]}" if numbers[0] == numbers[-1] else f"lines {numbers[0]} to {numbers[-1]}"
        return f"{lines}: {self.about}" if self.about else lines

    @property
    def pairs(self) -> Iterator[tuple[Line | None, Line | None]]:
        """The lines side by side: what was deleted beside what was added in its place."""
        deleted, added = list[Line](), list[Line]()
        for line in self.lines:
            if line.sign == " ":
                yield from zip_longest(deleted, added)
                deleted, added = [], []
                yield line, line
            else:
                (deleted if line.sign == "-" else added).append(line)
        yield from zip_longest(deleted, added)


@dataclass(frozen=True, slots=True)
class PatchedFile:
    path: str
    was: str
    what: str
    hunks: tuple[Hunk, ...]
    added: int
    deleted: int
    # What is not shown of it, in words.
    left: str = ""


@dataclass(frozen=True, slots=True)
class Patch:
    files: tuple[PatchedFile, ...]
    left: str = ""

    @property
    def added(self) -> int:
        return sum(file.added for file in self.files)

    @property
    def deleted(self) -> int:
        return sum(file.deleted for file in self.files)


def patch_of(text: str) -> Patch:
    """A patch as git writes it; of one that is too large, its beginning, and what is left out in words."""
    left = f"{number(len(text) - LONGEST)} more characters of this diff are not shown" if len(text) > LONGEST else ""
    kept = text[:LONGEST]
    starts = [found.start() for found in re.finditer(r"^diff --git ", kept, re.MULTILINE)]
    return Patch(tuple(_file(kept[start:end]) for start, end in pairwise([*starts, len(kept)])), left)


def _file(text: str) -> PatchedFile:
    lines = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")
    first = next((place for place, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    was, path, what = _names(lines[:first])
    body = lines[first : first + MOST_LINES] if what != "binary" else []
    more = len(lines) - first - len(body) if what != "binary" else 0
    signs = [line[:1] for line in lines[first:]] if what != "binary" else []
    return PatchedFile(
        path,
        was,
        what,
        tuple(_hunk(part, path) for part in _parts(body)),
        signs.count("+"),
        signs.count("-"),
        f"{number(more)} more lines are not shown" if more > 0 else "",
    )


def _names(header: list[str]) -> tuple[str, str, str]:
    """The old and the new path, and what happened to the file."""
    named = {line[:4]: _path(line[4:]) for line in header if line.startswith(("--- ", "+++ "))}
    moved = {line.split(" ", 2)[1]: _unquoted(line.split(" ", 2)[2]) for line in header if line.startswith("rename ")}
    both = header[0].removeprefix("diff --git ")
    # The same path twice, as `a/PATH b/PATH`.
    same = _path(both[len(both) // 2 + 1 :])
    what = next((word for start, word in _WORDS.items() if any(line.startswith(start) for line in header)), "changed")
    old, new = moved.get("from") or named.get("--- ") or same, moved.get("to") or named.get("+++ ") or same
    return clean(old), clean(old if new == "/dev/null" else new), what


def _path(text: str) -> str:
    path = _unquoted(text.rstrip("\t"))
    return path[2:] if path.startswith(("a/", "b/")) else path


def _unquoted(text: str) -> str:
    """A path as git writes it: in quotes and with escapes where it has other bytes than those of plain ASCII text."""
    if len(text) < 2 or not (text.startswith('"') and text.endswith('"')):
        return text
    inner = text[1:-1].encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(_meant, inner).decode("utf-8", "replace")


def _meant(found: re.Match[bytes]) -> bytes:
    escaped = found[1]
    return bytes([int(escaped, 8) & 255]) if len(escaped) == 3 else _LETTERS.get(escaped, escaped)


def _parts(lines: list[str]) -> Iterable[list[str]]:
    starts = [place for place, line in enumerate(lines) if line.startswith("@@ ")]
    return [lines[start:end] for start, end in pairwise([*starts, len(lines)])]


def _hunk(lines: list[str], path: str) -> Hunk:
    """Each side is highlighted as one text: a string or comment may go over several lines."""
    begin = _HUNK.match(lines[0])
    body = [clean(line) for line in lines[1:] if not line.startswith("\\")]
    before = _code([line[1:] for line in body if not line.startswith("+")], path)
    after = _code([line[1:] for line in body if not line.startswith("-")], path)
    old, new = (int(begin["old"]), int(begin["new"])) if begin else (1, 1)
    rows = list[Line]()
    for line in body:
        sign = line[:1] if line.startswith(("+", "-")) else " "
        gone = next(before) if sign != "+" else Markup()
        here = next(after) if sign != "-" else gone
        rows.append(Line(sign, old if sign != "+" else None, new if sign != "-" else None, here))
        old, new = old + (sign != "+"), new + (sign != "-")
    return Hunk(clean(begin["about"]).strip() if begin else "", tuple(rows))


def _code(lines: list[str], path: str) -> Iterator[Markup]:
    return iter(highlighted_lines("\n".join(lines), path))
