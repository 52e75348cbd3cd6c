"""Reading agents' responses as reports: untrusted text in, a frozen report or every reason against it out."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from logos.adapters.report_markdown import read_sections
from logos.adapters.report_models import AT_LEVEL, INNER, MODELS, AnyReport, Row
from logos.adapters.report_text import STANDARD, Decoded, Found, Json, decoded, decoded_whole, last_json_block, shown
from logos.adapters.report_values import row_name, section_rows
from logos.domain.levels import ALL_LEVELS, LEVELS, Level
from logos.domain.reports import ActionKind, Refused, Report, TurnKind, Verdict

MAX_REPORT_CHARACTERS = 200_000
MAX_ENTRIES = 10_000
_MAX_ERRORS = 20
# A response is searched for its object at so many places at most: failing at each costs a whole read.
_MAX_PLACES = 10
_LINE_BRACE = re.compile(r"^[ \t]*\{", re.MULTILINE)
_WANTED = (
    f"answer with one JSON object with the keys {', '.join(STANDARD)} and those that this turn asks for, "
    "or with Markdown that has them as headings"
)
# The kinds whose report is a spec, complete in its sections.
_SPEC_KINDS = (TurnKind.DECOMPOSE, TurnKind.AUTHOR)


def read_report(kind: TurnKind, level: Level, text: str) -> Report | Refused:
    """The report in a response. Never raises: whatever the text is, it is a report or refused with the reasons."""
    if len(text) > MAX_REPORT_CHARACTERS:
        size = f"the response has {len(text):,} characters, and at most {MAX_REPORT_CHARACTERS:,} are read"
        return Refused((f"{size}; write a shorter report and leave long output in files",))
    model = _model(kind, level)
    found = _find(text, model.model_fields)
    if isinstance(found, str):
        return Refused((found,))
    if (entries := _entries(found.data)) > MAX_ENTRIES:
        return Refused((f"the lists of the report have {entries:,} entries, and at most {MAX_ENTRIES:,} are read",))
    sections = () if _delivers_nothing(found.data) else _sections(kind, level)
    try:
        report = model.model_validate(found.data, context=sections).report(kind, level)
    except ValidationError as error:
        stopped = _stopped(kind, level, found)
        return stopped or _refused(found, *_explained(error, model, found, sections))
    return _refused(found, []) if found.problems else report


def _stopped(kind: TurnKind, level: Level, found: Found) -> Report | None:
    """The report of an agent that hands back or asks a person: it owes the common fields and no others."""
    try:
        report = AnyReport.model_validate(found.data, context=()).report(kind, level)
    except ValidationError:
        return None
    return report if report.next.step is not ActionKind.PROCEED and not found.problems else None


def _delivers_nothing(data: Json) -> bool:
    """Whoever rejects a request, or found a constraint in the way of the work, has no spec to give."""
    return str(data.get("verdict")).strip().upper() == Verdict.MISALIGNED or isinstance(data.get("constraint"), dict)


def _model(kind: TurnKind, level: Level) -> type[AnyReport]:
    return AT_LEVEL.get((kind, level), MODELS[kind])


def _sections(kind: TurnKind, level: Level) -> tuple[str, ...]:
    return LEVELS[level].sections if kind in _SPEC_KINDS else ()


def _find(text: str, fields: Collection[str]) -> Found | str:
    """The report as data, or a line on why there is none: JSON that looks like one goes before headings."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").strip()
    if not text:
        return f"the response is empty; {_WANTED}"
    alone = decoded_whole(text)
    if isinstance(alone, Decoded):
        return _as_object(alone)
    block = last_json_block(text)
    fenced = None if block is None else decoded_whole(block)
    # A report that cannot be read is not replaced by an example of one that stands before it.
    if isinstance(fenced, str) and sum(f'"{name}"' in (block or "") for name in STANDARD) > 1:
        return _unreadable(fenced)
    tried = [] if fenced is None else [fenced]
    tried += _in_prose(text)
    report = next((got for got in tried if isinstance(got, Decoded) and got.is_report), None)
    if report:
        return _as_object(report)
    if sections := read_sections(text, fields):
        return sections
    if isinstance(fenced, Decoded):
        return _as_object(fenced)
    why = next((got for got in tried if isinstance(got, str)), "")
    return _unreadable(why) if why else f"there is no report; {_WANTED}"


def _unreadable(why: str) -> str:
    return f"the JSON in the response cannot be read: {why}; {_WANTED}"


def _as_object(got: Decoded) -> Found | str:
    if got.mapping is None:
        return f"the response is JSON, but not an object; {_WANTED}"
    return Found(got.mapping, got.problems)


def _in_prose(text: str) -> list[Decoded | str]:
    """What begins at the first brace, and at those that begin a line: the last report, then why others are none."""
    tried: list[Decoded | str] = []
    end = 0
    for start in (text.find("{"), *(found.end() - 1 for found in _LINE_BRACE.finditer(text))):
        if start >= end and len(tried) < _MAX_PLACES:
            got = decoded(text, start)
            tried.append(got)
            end = start + 1 if isinstance(got, str) else got.end
    reports = [got for got in reversed(tried) if isinstance(got, Decoded) and got.is_report]
    return [*reports, *(got for got in tried if isinstance(got, str))]


def _entries(data: Json) -> int:
    """How many entries all lists have together, however deep they lie: each may cost a line about it."""
    count, left = 0, list[object]([data])
    while left:
        value = left.pop()
        if isinstance(value, list):
            inner = cast(list[object], value)
            count += len(inner)
            left.extend(inner)
        elif isinstance(value, dict):
            left.extend(cast(Json, value).values())
    return count


def _refused(found: Found, lines: list[str], unsaid: int = 0) -> Refused:
    every = [*(line for _, line in found.problems), *lines]
    unsaid += max(0, len(every) - _MAX_ERRORS)
    if unsaid:
        every[_MAX_ERRORS - 1 :] = [f"and {unsaid + 1:,} more problems"]
    return Refused(tuple(every))


def _explained(
    error: ValidationError, model: type[AnyReport], found: Found, sections: tuple[str, ...]
) -> tuple[list[str], int]:
    """The lines about the first problems, and how many more there are: only what is said is worded."""
    unread = {field for field, _ in found.problems}
    details = [
        detail
        for detail in error.errors(include_url=False)
        # Only the good entries were counted; those that are there and bad have lines of their own.
        if detail["loc"][0] not in unread and not (detail["type"] == "too_short" and detail["input"])
    ]
    lines: list[str] = []
    for detail in details[:_MAX_ERRORS]:
        own = detail.get("ctx", {})["lines"] if detail["type"] == "says" else ()
        lines.extend(own or [_line(detail, model, found.data, sections)])
    return lines, max(0, len(details) - _MAX_ERRORS)


def _line(error: ErrorDetails, model: type[Row], data: Json, sections: tuple[str, ...]) -> str:
    """One line for the agent that must repair it: where, what is there, what must be there."""
    loc = error["loc"]
    place, must = _place(loc, data, sections), _must(error, model)
    if loc == ("spec_updates",) and sections:
        must += f", here {' and '.join(sections)}"
    if error["type"] == "missing":
        return f"{place}: is missing; it {must}"
    return f"{place} = {shown(error['input'])}: {must}"


def _must(error: ErrorDetails, model: type[Row]) -> str:
    if error["type"] == "wrong":
        return error["msg"]
    names = [part for part in error["loc"] if isinstance(part, str)]
    if isinstance(error["loc"][-1], int):
        return f"must be an object with the keys {', '.join(INNER[names[-1]].model_fields)}"
    for name in names[:-1]:
        model = INNER[name]
    return f"must be {model.model_fields[names[-1]].description}"


def _place(loc: tuple[int | str, ...], data: Json, sections: tuple[str, ...]) -> str:
    """`failures[0].conflicts_with[1]`; the parts of a spec are called by their names."""
    match loc:
        case ("spec_updates", int(number), "text"):
            rows = cast(list[object], section_rows(data["spec_updates"], sections))
            return f"spec_updates.{shown(row_name(rows[number]))[1:-1]}"
        case _:
            return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")


def report_schema(kind: TurnKind, level: Level) -> Json:
    """The JSON Schema of a kind's report at a level. What it allows is read; the reader forgives a little more."""
    return _schema(_model(kind, level), _sections(kind, level), f"{kind} at {level.name}")


def report_schemas() -> dict[str, Json]:
    """All of them: by kind, and for specs by kind and level; `decompose` alone is what those have in common."""
    common = {kind.value: _schema(model, (), kind.value) for kind, model in MODELS.items()}
    specs = {
        f"{TurnKind.DECOMPOSE}.{level.name}": report_schema(TurnKind.DECOMPOSE, level)
        for level in ALL_LEVELS
        if LEVELS[level].document == TurnKind.DECOMPOSE
    }
    return {**common, TurnKind.AUTHOR.value: report_schema(TurnKind.AUTHOR, Level.L2), **specs}


def _schema(model: type[AnyReport], sections: tuple[str, ...], title: str) -> Json:
    schema = model.model_json_schema()
    by_list, by_name = schema["properties"]["spec_updates"]["anyOf"]
    if sections:
        by_list["allOf"] = [
            {"contains": {"properties": {"section": {"const": name}}, "required": ["section"]}} for name in sections
        ]
        by_name["required"] = list(sections)
    about = {"title": f"Logos report: {title}", "description": "What an agent of a level hands in."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, **about}


def example(kind: TurnKind, level: Level) -> Json:
    """The least that is a good report of a kind at a level."""
    return {
        "work_summary": f"{LEVELS[level].title}: {kind} done.",
        "spec_updates": [
            {"section": name, "text": f"The {name.replace('_', ' ')} of the feature."}
            for name in _sections(kind, level)
        ],
        "validation_results": [],
        "tool_usage": [],
        "next_recommended_action": {"action": "proceed", "to": None, "why": ""},
        **_own(_model(kind, level), level, kind),
    }


def _own(model: type[AnyReport], level: Level, kind: TurnKind) -> Json:
    """What a kind's example says besides, as far as its model has the field."""
    says: dict[str, Any] = {
        "verdict": _GOOD.get(kind, "ALIGNED"),
        "violation": "",
        "alternatives": [],
        "components": [
            {"name": "feature", "purpose": "The whole feature.", "files": [], "provides": [], "depends_on": []}
        ],
        "files": ["feature.py"],
        "tests": [],
        "provides": [],
        "constraint": None,
        "failures": [],
        "position": f"{level.name} holds to its spec.",
        "proposal": {
            "summary": "Say it more exactly.",
            "changes": [{"level": level.name, "change": "It says what was missing."}],
            "rework": [],
        },
        "objection": "",
    }
    return {name: value for name, value in says.items() if name in model.model_fields}


_GOOD = {TurnKind.VALIDATE: "PASS", TurnKind.AGREE: "AGREE"}
