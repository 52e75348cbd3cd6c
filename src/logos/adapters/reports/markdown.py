"""Reading a report from Markdown: each known heading is a field, and the text below it is the field's value."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from logos.adapters.reports.text import (
    MAX_ITEMS,
    STANDARD,
    Json,
    decode_whole,
    field_name,
    headings,
    is_nothing,
    last_json_block,
)

_DEEPEST = 4
# CommonMark allows three spaces; reports with up to six were accepted from the start, and old logs are read again.
_HEADING = re.compile(r" {0,6}#+[ \t]")
_BULLET = re.compile(r"([ \t]*)(?:[-*+]|\d{1,3}[.)])[ \t]+(?=\S)")
_NUMBER = re.compile(r"\d{1,3}[.)][ \t]+")
_COLON = re.compile(r":(?:\*\*)?(?:[ \t]+|$)")
_QUOTED = re.compile(r"`([^`]+)`")
_LEVEL = re.compile(r"[Ll]\d+")
_LISTS = ("files", "provides", "depends_on", "affects", "conflicts_with")
_RESULT = re.compile(r"[*`_]*(pass|fail|skipped)[*`_]*[ \t]*(?:$|[(:;,.–—-])", re.IGNORECASE)


@dataclass(slots=True)
class _Section:
    name: str
    depth: int
    lines: list[str] = field(default_factory=list[str])
    parts: list[_Section] = field(default_factory=list["_Section"])

    @property
    def body(self) -> str:
        return "\n".join(self.lines).strip()


def read_headings(text: str, fields: Collection[str]) -> tuple[Json, dict[str, str]] | None:
    """The values of `fields`, and a line about each that cannot be read; None where there is no standard heading."""
    data: Json = {}
    problems: dict[str, str] = {}
    sections = list(_sections(text))
    if not any(section.name in STANDARD for section in sections):
        return None
    for section in sections:
        name = section.name
        if name in data or name in problems:
            problems[name] = f"{name}: the heading is repeated; give it once"
        elif name in fields:
            value, problem = _value(section)
            if problem:
                problems[name] = f"{name}: the json block under the heading cannot be read: {problem}"
            else:
                data[name] = value
    return data, problems


def _sections(text: str) -> Iterator[_Section]:
    """The known headings with the text below them; headings below `Spec updates` are its parts."""
    lines = text.split("\n")
    found = {number: (depth, title) for number, depth, title in headings(lines) if _HEADING.match(lines[number])}
    section: _Section | None = None
    for number, line in enumerate(lines):
        depth, name, rest = _heading(*found[number]) if number in found else (0, "", "")
        if section and section.name == "spec_updates" and depth > section.depth and name not in STANDARD:
            # Headings as deep as the first one are parts of the spec; deeper ones belong to a part's text.
            if not section.parts or depth <= section.parts[0].depth:
                section.parts.append(_Section(name, depth))
            else:
                section.parts[-1].lines.append(line)
        elif section and (not depth or (depth > section.depth and name not in _READERS)):
            (section.parts or [section])[-1].lines.append(line)
        elif depth:
            if section:
                yield section
            section = _Section(name, depth, [rest]) if name in _READERS else None
    if section:
        yield section


def _heading(depth: int, title: str) -> tuple[int, str, str]:
    """A heading's depth and name, and the text after a colon behind the name of a field."""
    if depth > _DEEPEST:
        return depth, "", ""
    title = _NUMBER.sub("", title.strip().rstrip("#").strip(), count=1)
    head, _, rest = title.partition(":")
    name = field_name(head)
    return (depth, name, rest.strip(" \t*")) if name in _READERS else (depth, field_name(title), "")


def _value(section: _Section) -> tuple[object, str]:
    """The value under a heading, or what is wrong with its json block."""
    body, read = section.body, _READERS[section.name]
    if read is str:
        return body, ""
    if section.parts:
        return [{"section": part.name, "text": part.body} for part in section.parts], ""
    if (block := last_json_block(body)) is not None:
        got = decode_whole(block)
        if isinstance(got, str):
            return None, got
        return got.value, f"the key {got.repeated[0][:80]} is repeated" if got.repeated else ""
    return (None if is_nothing(_bare(body)) else read(body)), ""


# CommonMark lists would split some of these texts differently, and a response in an old log must be read as it was.
def _items(body: str) -> list[list[str]]:
    """The bullets, each as its lines without marks. Text before the first bullet is dropped."""
    items: list[list[str]] = []
    indent = 0
    for line in body.split("\n"):
        bullet = _BULLET.match(line)
        if bullet and (not items or len(bullet[1]) <= indent):
            # One more than allowed is enough for the list to be refused.
            if len(items) > MAX_ITEMS:
                break
            indent = len(bullet[1])
            items.append([_bare(line)])
        elif items and line.strip():
            items[-1].append(_bare(line))
    return items


def _bare(line: str) -> str:
    bullet = _BULLET.match(line)
    return line[bullet.end() :].strip() if bullet else line.strip()


def _bare_lines(body: str) -> list[str]:
    return [_bare(line) for line in body.split("\n") if line.strip()]


def _split(line: str) -> tuple[str, str]:
    """`key: value`; a colon without a space behind it splits nothing."""
    found = _COLON.search(line)
    return (line[: found.start()], line[found.end() :].strip()) if found else ("", line)


def _by_key(lines: Iterable[str], keys: tuple[str, ...]) -> Json:
    """The texts by key: a line `key: value` starts a key; text before the first one belongs to the first key."""
    found: dict[str, list[str]] = {}
    current = keys[0]
    for line in lines:
        key, value = _split(line)
        if field_name(key) in keys:
            current, line = field_name(key), value
        found.setdefault(current, []).extend([line] if line else [])
    texts = {key: "\n".join(lines) for key, lines in found.items()}
    return {key: _listed(text) if key in _LISTS else text for key, text in texts.items()}


def _listed(text: str) -> list[str]:
    """Names separated by line breaks or commas; of a name in backticks, the quoted part."""
    lines = (_bare(line) for line in text.split("\n"))
    # Many write a list as `[a, b]`.
    inner = (line[1:-1] if line[:1] == "[" and line[-1:] == "]" else line for line in lines)
    names = (name.strip(" \t\"'") for line in inner for name in line.split(","))
    return [_quoted(name) for name in names if not is_nothing(name)]


def _quoted(text: str) -> str:
    found = _QUOTED.match(text)
    return found[1] if found else text


def _names(body: str) -> list[str]:
    items = _items(body)
    return [_quoted(item[0]) for item in items] if items else _listed(body)


def _row(lines: list[str], keys: tuple[str, ...], *, pairs: bool = True) -> Json:
    """A bullet as an object: `key: value` lines, or a head that is the first key or, with `pairs`, the first two."""
    key, value = _split(lines[0])
    if pairs and key and field_name(key) not in keys:
        lines = [f"{keys[0]}: {_quoted(key.strip('*'))}", f"{keys[1]}: {value}", *lines[1:]]
    return _by_key(lines, keys)


def _finding(lines: list[str], keys: tuple[str, ...]) -> Json:
    """A bullet `what: pass (detail)`, where `what` may have colons of its own."""
    head = lines[0]
    colon = next((colon for colon in _COLON.finditer(head) if _RESULT.match(head, colon.end())), None)
    if colon and field_name(head[: colon.start()]) not in keys:
        lines = [f"what: {head[: colon.start()].strip('*')}", f"result: {head[colon.end() :]}", *lines[1:]]
    row = _row(lines, keys)
    found = _RESULT.match(row.get("result", ""))
    if not found:
        return row
    detail = row["result"][found.end(1) :].strip(" \t*`_:;,.–—-")
    in_brackets = detail.startswith("(") and detail.endswith(")")
    details = [part for part in (detail[1:-1] if in_brackets else detail, row.get("detail", "")) if part]
    return {**row, "result": found[1], "detail": "\n".join(details)}


def _rows(*keys: str, row: Callable[[list[str], tuple[str, ...]], Json] = _row) -> Callable[[str], list[Json] | str]:
    """Reads bullets as objects; a text without bullets is left for the validation to refuse."""
    return lambda body: [row(item, keys) for item in _items(body)] or body


def _object(*keys: str, bare: str = "") -> Callable[[str], Json | str]:
    """Reads an object from `key: value` lines; if the first line is not one, the lines as they are, as `bare`."""

    def read(body: str) -> Json | str:
        lines = _bare_lines(body)
        if field_name(_split(lines[0])[0]) in keys:
            return _by_key(lines, keys)
        return {bare: "\n".join(lines)} if bare else "\n".join(lines)

    return read


def _proposal(body: str) -> Json:
    """A summary, `L4: change` lines, and `rework: names`."""
    found: dict[str, Any] = {"summary": [], "changes": [], "rework": []}
    current = "summary"
    for line in _bare_lines(body):
        key, value = _split(line)
        if field_name(key) in found:
            current, line = field_name(key), value
        elif _LEVEL.fullmatch(key.strip(" *`")):
            current = "changes"
            found["changes"].append({"level": key.strip(" *`"), "change": value})
            continue
        if line and current == "changes" and found["changes"]:
            found["changes"][-1]["change"] += "\n" + line
        elif line:
            found[current].append(line)
    return {**found, "summary": "\n".join(found["summary"]), "rework": _listed("\n".join(found["rework"]))}


_READERS: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(("work_summary", "verdict", "violation", "position", "objection", "why_no_tests"), str),
    **dict.fromkeys(("files", "tests", "provides"), _names),
    "spec_updates": _rows("section", "text"),
    "validation_results": _rows("what", "result", "detail", row=_finding),
    "tool_usage": _rows("tool", "result"),
    "next_recommended_action": _object("action", "to", "why"),
    "alternatives": lambda body: ["\n".join(item) for item in _items(body)] or [body],
    "components": _rows("name", "purpose", "files", "provides", "depends_on"),
    "constraint": _object("statement", "affects", "touches_journeys", bare="statement"),
    "failures": _rows("what", "expected", "observed", "conflicts_with", row=partial(_row, pairs=False)),
    "proposal": _proposal,
}
"""How the text under each known heading is read."""
