"""Reading a report from Markdown: each standard heading is a field, and what stands under it the field's value."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from logos.adapters.report_text import STANDARD, Found, Json, decoded_whole, last_json_block, lines_of

EXTRA = (
    "verdict",
    "violation",
    "alternatives",
    "components",
    "files",
    "tests",
    "provides",
    "constraint",
    "failures",
    "position",
    "proposal",
    "objection",
)

MAX_ITEMS = 1000
"""How long a list may be."""

NOTHING = ("", "-", "–", "—", "none", "none.", "n/a", "null", "nothing")
"""How agents write that there is nothing to say."""

_KNOWN = frozenset((*STANDARD, *EXTRA))
_DEEPEST = 4
_BULLET = re.compile(r"([ \t]*)(?:[-*+]|\d{1,3}[.)])[ \t]+(?=\S)")
_NUMBER = re.compile(r"\d{1,3}[.)][ \t]+")
_SPLIT = re.compile(r":(?:\*\*)?(?:[ \t]+|$)")
_QUOTED = re.compile(r"`([^`]+)`")
_LEVEL = re.compile(r"[Ll]\d+")
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

    def take(self, line: str) -> None:
        (self.parts[-1] if self.parts else self).lines.append(line)

    def part(self, depth: int, name: str, line: str) -> None:
        """Headings as deep as the first one are parts of the spec; deeper ones belong to a part's text."""
        if self.parts and depth > self.parts[0].depth:
            self.take(line)
        else:
            self.parts.append(_Section(name, depth))


def named(text: str) -> str:
    """A heading or key as a field's name: case, emphasis, and what joins the words make no difference."""
    return re.sub(r"[\s_-]+", "_", text.strip(" \t*_`:").lower())


def is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in NOTHING)


def read_sections(text: str, fields: Collection[str]) -> Found | None:
    """The values of `fields`, or None where no standard heading is there."""
    data: Json = {}
    problems: dict[str, str] = {}
    sections = list(_sections(text))
    if not any(section.name in STANDARD for section in sections):
        return None
    for section in sections:
        if section.name not in fields:
            continue
        if section.name in data or section.name in problems:
            problems[section.name] = f"{section.name}: the heading is there twice; give it once"
            continue
        value, problem = _value(section)
        if problem:
            problems[section.name] = f"{section.name}: the json block under the heading cannot be read: {problem}"
        else:
            data[section.name] = value
    return Found(data, tuple(problems.items()))


def _sections(text: str) -> Iterator[_Section]:
    """The known headings with what stands under them; under `Spec updates`, headings below it are its parts."""
    section: _Section | None = None
    for line in lines_of(text):
        heading = None if line.block else _heading(line.text)
        if heading is None:
            if section:
                section.take(line.text)
            continue
        depth, name, rest = heading
        if section and section.name == "spec_updates" and depth > section.depth and name not in STANDARD:
            section.part(depth, name, line.text)
        elif section and depth > section.depth and name not in _KNOWN:
            section.take(line.text)
        else:
            if section:
                yield section
            section = _Section(name, depth, [rest]) if name in _KNOWN else None
    if section:
        yield section


def _heading(line: str) -> tuple[int, str, str] | None:
    """A heading's depth and name, and what follows a colon behind the name of a field."""
    line = line.removeprefix("   ").removeprefix("  ").removeprefix(" ")
    depth = len(line) - len(line.lstrip("#"))
    if not depth or line[depth : depth + 1] not in (" ", "\t"):
        return None
    if depth > _DEEPEST:
        return depth, "", ""
    title = _NUMBER.sub("", line[depth:].strip().rstrip("#").strip(), count=1)
    head, _, rest = title.partition(":")
    return (depth, named(head), rest.strip(" \t*")) if named(head) in _KNOWN else (depth, named(title), "")


def _value(section: _Section) -> tuple[object, str]:
    """The value under a heading, or what is wrong with its json block."""
    body = section.body
    if section.name in _TEXTS:
        return body, ""
    if section.parts:
        return [{"section": part.name, "text": part.body} for part in section.parts], ""
    if (block := last_json_block(body)) is not None:
        got = decoded_whole(block)
        if isinstance(got, str):
            return None, got
        return got.value, f"the key {got.twice[0][:80]} is there twice" if got.twice else ""
    return (None if is_nothing(_bare(body)) else _READERS[section.name](body)), ""


def _items(body: str) -> list[list[str]]:
    """The bullets: each a list of its lines, without marks. What stands before the first bullet is dropped."""
    items: list[list[str]] = []
    indent = 0
    for line in body.split("\n"):
        bullet = _BULLET.match(line)
        if bullet and (not items or len(bullet[1]) <= indent):
            # One too many is enough to be refused.
            if len(items) > MAX_ITEMS:
                break
            indent = len(bullet[1])
            items.append([line[bullet.end() :].strip()])
        elif items and line.strip():
            items[-1].append(_bare(line))
    return items


def _bare(line: str) -> str:
    bullet = _BULLET.match(line)
    return line[bullet.end() :].strip() if bullet else line.strip()


def _split(line: str) -> tuple[str, str]:
    """`key: value`; a colon without a space behind it splits nothing."""
    found = _SPLIT.search(line)
    return (line[: found.start()], line[found.end() :].strip()) if found else ("", line)


def _under_keys(lines: Iterable[str], keys: Collection[str], first: str) -> dict[str, list[str]]:
    """The lines by the key they stand under: a line `key: value` begins one; what comes before belongs to `first`."""
    found: dict[str, list[str]] = {}
    current = first
    for line in lines:
        key, value = _split(line)
        if named(key) in keys:
            current, line = named(key), value
        under = found.setdefault(current, [])
        if line:
            under.append(line)
    return found


def _joined(found: dict[str, list[str]], lists: Collection[str]) -> Json:
    return {key: _listed("\n".join(lines)) if key in lists else "\n".join(lines) for key, lines in found.items()}


def _listed(text: str) -> list[str]:
    """Names from lines or commas; one in backticks is what they quote."""
    lines = (_bare(line) for line in text.split("\n"))
    # `[a, b]` is how many write a list.
    inner = (line[1:-1] if line[:1] == "[" and line[-1:] == "]" else line for line in lines)
    names = (name.strip(" \t\"'") for line in inner for name in line.split(","))
    return [_quoted(name) for name in names if not is_nothing(name)]


def _quoted(text: str) -> str:
    found = _QUOTED.match(text)
    return found[1] if found else text


@dataclass(frozen=True, slots=True)
class _Row:
    """How a bullet becomes an object: `name: …` lines, or a head that is the first key, or the first two."""

    keys: tuple[str, ...]
    head: int = 1
    lists: tuple[str, ...] = ()

    def read(self, body: str) -> list[Json] | str:
        return [self.object(item) for item in _items(body)] or body

    def object(self, lines: list[str]) -> Json:
        key, value = _split(lines[0])
        if self.head > 1 and key and named(key) not in self.keys:
            lines = [f"{self.keys[0]}: {_quoted(key.strip('*'))}", f"{self.keys[1]}: {value}", *lines[1:]]
        return _joined(_under_keys(lines, self.keys, self.keys[0]), self.lists)


_FINDING = _Row(("what", "result", "detail"), head=2)


def _results(body: str) -> list[Json] | str:
    return [_result(item) for item in _items(body)] or body


def _result(lines: list[str]) -> Json:
    """`what: pass (detail)`, where `what` may have colons of its own."""
    head = lines[0]
    said = next((colon for colon in _SPLIT.finditer(head) if _RESULT.match(head, colon.end())), None)
    if said and named(head[: said.start()]) not in _FINDING.keys:
        lines = [f"what: {head[: said.start()].strip('*')}", f"result: {head[said.end() :]}", *lines[1:]]
    return _with_detail(_FINDING.object(lines))


def _with_detail(row: Json) -> Json:
    found = _RESULT.match(row.get("result", ""))
    if not found:
        return row
    detail = row["result"][found.end(1) :].strip(" \t*`_:;,.–—-")
    whole = detail.startswith("(") and detail.endswith(")")
    said = [part for part in (detail[1:-1] if whole else detail, row.get("detail", "")) if part]
    return {**row, "result": found[1], "detail": "\n".join(said)}


def _texts(body: str) -> list[str]:
    return ["\n".join(item) for item in _items(body)] or [body]


def _names(body: str) -> list[str]:
    items = _items(body)
    return [_quoted(item[0]) for item in items] if items else _listed(body)


def _keyed(
    keys: tuple[str, ...], lists: tuple[str, ...], otherwise: Callable[[str], object]
) -> Callable[[str], object]:
    """An object from `key: value` lines; where the first line is none, `otherwise` reads the text."""

    def read(body: str) -> object:
        lines = [_bare(line) for line in body.split("\n") if line.strip()]
        if named(_split(lines[0])[0]) not in keys:
            return otherwise("\n".join(lines))
        return _joined(_under_keys(lines, keys, keys[0]), lists)

    return read


def _proposal(body: str) -> Json:
    """A summary, `L4: change` lines, and `rework: names`."""
    found: dict[str, Any] = {"summary": [], "changes": [], "rework": []}
    current = "summary"
    for line in (_bare(line) for line in body.split("\n") if line.strip()):
        key, value = _split(line)
        if named(key) in found:
            current, line = named(key), value
        elif _LEVEL.fullmatch(key.strip(" *`")):
            current = "changes"
            found["changes"].append({"level": key.strip(" *`"), "change": value})
            continue
        if line and current == "changes" and found["changes"]:
            found["changes"][-1]["change"] += "\n" + line
        elif line:
            found[current].append(line)
    return {**found, "summary": "\n".join(found["summary"]), "rework": _listed("\n".join(found["rework"]))}


def _parts(body: str) -> object:
    return _Row(("section", "text"), head=2).read(body)


_TEXTS = ("work_summary", "verdict", "violation", "position", "objection")

_READERS: dict[str, Callable[[str], object]] = {
    "spec_updates": _parts,
    "validation_results": _results,
    "tool_usage": _Row(("tool", "result"), head=2).read,
    "next_recommended_action": _keyed(("action", "to", "why"), (), str),
    "alternatives": _texts,
    "components": _Row(
        ("name", "purpose", "files", "provides", "depends_on"), head=2, lists=("files", "provides", "depends_on")
    ).read,
    "files": _names,
    "tests": _names,
    "provides": _names,
    "constraint": _keyed(("statement", "affects", "touches_journeys"), ("affects",), lambda text: {"statement": text}),
    "failures": _Row(("what", "expected", "observed", "conflicts_with"), lists=("conflicts_with",)).read,
    "proposal": _proposal,
}
