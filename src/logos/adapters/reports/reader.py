"""From the text of a response to a report: find the JSON object or the Markdown headings, validate, explain errors."""

import re
from collections.abc import Collection, Mapping
from typing import cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from logos.adapters.reports.markdown import read_headings
from logos.adapters.reports.records import NESTED, STOPPED, keys_of, sections_of, validator, variant_of
from logos.adapters.reports.text import STANDARD, Decoded, Json, decode, decode_whole, last_json_block
from logos.adapters.reports.values import Key, row_name, section_rows
from logos.domain.levels import Level
from logos.domain.reports import ActionKind, Refused, Report, TurnKind, Verdict
from logos.validation import Location, Wording, dotted, explain, shown

MAX_REPORT_CHARACTERS = 200_000
MAX_ENTRIES = 10_000
_MAX_ERRORS = 20
# Each failed attempt to decode an object may read the whole response, so their number is limited.
_MAX_ATTEMPTS = 10
_LINE_BRACE = re.compile(r"^[ \t]*\{", re.MULTILINE)
_WANTED = (
    f"answer with one JSON object with the keys {', '.join(STANDARD)} and those that this turn asks for, "
    "or with Markdown that has them as headings"
)


def read_report(kind: TurnKind, level: Level, text: str) -> Report | Refused:
    """The report in a response. Never raises: every text is a report or is refused with the reasons."""
    if len(text) > MAX_REPORT_CHARACTERS:
        size = f"the response has {len(text):,} characters, and at most {MAX_REPORT_CHARACTERS:,} are read"
        return Refused((f"{size}; write a shorter report and leave long output in files",))
    variant = variant_of(kind, level)
    keys = keys_of(variant)
    found = _find(text, keys)
    if isinstance(found, str):
        return Refused((found,))
    data, problems = found
    # Every entry takes a character.
    if len(text) > MAX_ENTRIES and (entries := _count_entries(data)) > MAX_ENTRIES:
        return Refused((f"the lists of the report have {entries:,} entries, and at most {MAX_ENTRIES:,} are read",))
    # An agent that rejects a request, or found a constraint that prevents the work, has no spec to give.
    rejects = str(data.get("verdict")).strip().upper() == Verdict.MISALIGNED
    sections = () if rejects or isinstance(data.get("constraint"), dict) else sections_of(kind, level)
    try:
        fields = validator(variant).validate_python(data, context=sections)
    except ValidationError as error:
        stopped = None if problems else _read_stopped(kind, level, data)
        return stopped or _refused(problems, *_explain_all(error, keys, data, problems, sections))
    return _refused(problems) if problems else Report(kind, level, **fields)


def _read_stopped(kind: TurnKind, level: Level, data: Json) -> Report | None:
    """The report of an agent that hands back or asks a person: only the common fields are required of it."""
    try:
        report = Report(kind, level, **validator(STOPPED).validate_python(data, context=()))
    except ValidationError:
        return None
    return report if report.next.step is not ActionKind.PROCEED else None


def _find(text: str, fields: Collection[str]) -> tuple[Json, dict[str, str]] | str:
    """The report as data and a line about each unreadable field, or a line on why there is no report.

    JSON that looks like a report is preferred to headings.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").strip()
    if not text:
        return f"the response is empty; {_WANTED}"
    whole = decode_whole(text)
    if isinstance(whole, Decoded):
        return _as_object(whole)
    block = last_json_block(text)
    fenced = None if block is None else decode_whole(block)
    # An unreadable report is not replaced by an example of a report that stands before it.
    if isinstance(fenced, str) and sum(f'"{name}"' in (block or "") for name in STANDARD) > 1:
        return _unreadable(fenced)
    candidates = [*([] if fenced is None else [fenced]), *_in_prose(text)]
    report = next((got for got in candidates if isinstance(got, Decoded) and got.is_report), None)
    if report:
        return _as_object(report)
    if by_heading := read_headings(text, fields):
        return by_heading
    if isinstance(fenced, Decoded):
        return _as_object(fenced)
    why = next((got for got in candidates if isinstance(got, str)), "")
    return _unreadable(why) if why else f"there is no report; {_WANTED}"


def _unreadable(why: str) -> str:
    return f"the JSON in the response cannot be read: {why}; {_WANTED}"


def _as_object(got: Decoded) -> tuple[Json, dict[str, str]] | str:
    if got.mapping is None:
        return f"the response is JSON, but not an object; {_WANTED}"
    return got.mapping, {key: f"{shown(key)[1:-1]}: the key is repeated; give it once" for key in got.repeated}


def _in_prose(text: str) -> list[Decoded | str]:
    """The objects at the first brace and at braces that begin a line: the reports, last first, then the errors."""
    attempts: list[Decoded | str] = []
    end = 0
    for start in (text.find("{"), *(found.end() - 1 for found in _LINE_BRACE.finditer(text))):
        if start >= end and len(attempts) < _MAX_ATTEMPTS:
            got = decode(text, start)
            attempts.append(got)
            end = start + 1 if isinstance(got, str) else got.end
    reports = [got for got in reversed(attempts) if isinstance(got, Decoded) and got.is_report]
    return [*reports, *(got for got in attempts if isinstance(got, str))]


def _count_entries(data: Json) -> int:
    """The number of entries of all lists, at any depth: each may cost a line about it."""
    count, left = 0, list[object]([data])
    while left:
        value = left.pop()
        if isinstance(value, list):
            entries = cast(list[object], value)
            count += len(entries)
            left.extend(entries)
        elif isinstance(value, dict):
            left.extend(cast(Json, value).values())
    return count


def _refused(problems: Mapping[str, str], lines: Collection[str] = (), omitted: int = 0) -> Refused:
    every = [*problems.values(), *lines]
    omitted += max(0, len(every) - _MAX_ERRORS)
    if omitted:
        every[_MAX_ERRORS - 1 :] = [f"and {omitted + 1:,} more problems"]
    return Refused(tuple(every))


def _explain_all(
    error: ValidationError, keys: dict[str, Key], data: Json, problems: Mapping[str, str], sections: tuple[str, ...]
) -> tuple[list[str], int]:
    """The lines about the first problems, and the number of the others, for which no lines are made."""

    def message(detail: ErrorDetails) -> str:
        """The value that is required at the location of an error."""
        here = f", here {' and '.join(sections)}" if detail["loc"] == ("spec_updates",) and sections else ""
        if detail["type"] == "wrong":
            return detail["msg"] + here
        if isinstance(detail["loc"][-1], int):
            return ""
        *outer, name = [part for part in detail["loc"] if isinstance(part, str)]
        return f"must be {(NESTED[outer[-1]].keys if outer else keys)[name].about}{here}"

    def keys_at(location: Location) -> list[str]:
        return list(NESTED[next(part for part in reversed(location) if isinstance(part, str))].keys)

    def locate(location: Location) -> str:
        """`failures[0].conflicts_with[1]`; the sections of a spec are named."""
        if location[:1] != ("spec_updates",) or location[2:] != ("text",):
            return dotted(location)
        rows = cast(list[object], section_rows(data["spec_updates"], sections))
        return f"spec_updates.{shown(row_name(rows[int(location[1])]))[1:-1]}"

    details = [
        detail
        for detail in error.errors(include_url=False)
        # Only valid entries were counted; invalid ones have lines of their own.
        if detail["loc"][0] not in problems and not (detail["type"] == "too_short" and detail["input"])
    ]
    wording, lines = Wording(keys_at, locate, message=message), list[str]()
    for detail in details[:_MAX_ERRORS]:
        lines.extend(detail.get("ctx", {})["lines"] if detail["type"] == "lines" else [explain(detail, wording)])
    return lines, max(0, len(details) - _MAX_ERRORS)
