"""A continuity report as Markdown that also reads well on a terminal. Texts of agents are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from logos.views.continuity.entries import Entry
from logos.views.continuity.report import HEADED, LISTED_ELSEWHERE, ContinuityReport, heading, lane_title, newest
from logos.views.continuity.turns import Effort, TurnSpan
from logos.views.events import Severity
from logos.views.text import count, date, duration, number
from logos.views.usage import dollars, sum_in_words, tokens

_MARKS = {Severity.GOOD: "✓ ", Severity.BAD: "✗ ", Severity.WARNING: "! ", Severity.ALARM: "! "}
# An underscore inside a word, as in a turn's id, is no markup.
_MARKUP = re.compile(r"[\\*\[\]<>|~]|(?<!\w)_|_(?!\w)")
_MOST_TURNS = 30
_NOTHING = "Nothing."


def as_markdown(report: ContinuityReport) -> str:
    sections = report.sections
    effort = "tokens" if report.view.bill.tokens is not None else "characters"
    chapters: tuple[tuple[str, Iterable[str]], ...] = (
        ("", _head(report)),
        ("Blocked dependencies", _listed(report, sections.blocked)),
        ("Pending validations", _grouped(report, sections.pending)),
        (f"What changed since {report.since.name}", _changed(report)),
        ("Completed phases", _grouped(report, sections.completed)),
        ("Decisions and reconciliations", _listed(report, sections.decisions)),
        (f"Time and {effort} per {report.by}", _effort(report)),
        ("Sessions", _sessions(report)),
    )
    return "\n".join(line for title, lines in chapters for line in _section(title, lines))


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    if title:
        yield from (f"## {title}", "")
    text = [*lines] or [_NOTHING]
    yield from text if text[-1] else text[:-1]
    yield ""


def _head(report: ContinuityReport) -> Iterator[str]:
    simulated = " (simulated)" if report.view.simulated else ""
    yield f"# Continuity report: {report.view.words.run} {escaped(report.run)}{simulated}, {report.status.word}"
    yield ""
    yield f"> {escaped(report.asked_for)}"
    yield ""
    yield f"- {report.status.word}: {escaped(report.reason)}"
    if report.origin:
        yield f"- {escaped(report.origin)}; {count(report.view.inherited, 'turn')} inherited, not counted here"
    if report.damage:
        yield f"- the log is damaged: {escaped(report.damage)}"
    yield f"- began {date(report.view.started)}, last event {date(report.view.last)}"
    spent = sum_in_words(report.view.bill, report.view.characters)
    sessions = f"{count(len(report.sessions), 'session')} on {count(report.days, 'day')}"
    yield f"- {sessions}, {duration(report.driven)} driven, {count(report.view.answered, 'turn')} answered, {spent}"
    for span in report.in_flight:
        yield f"- {code(span.turn)} is with {escaped(span.who)} since {date(span.begun[1])}"
    yield f"- next: {code(report.next)}"


def _grouped(report: ContinuityReport, entries: Sequence[Entry]) -> Iterator[str]:
    """Under the headings of their parts: a round, a sweep, specs, components."""
    for part, group in groupby(entries, lambda entry: entry.part):
        yield from (f"**{escaped(heading(part))}**", "")
        yield from _listed(report, [replace(entry, part="") for entry in group])
        yield ""


def _listed(report: ContinuityReport, entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        part = "" if entry.part in HEADED else entry.part
        what = ", ".join(word for word in (part, entry.what) if word)
        how = f": {escaped(entry.how)}" if entry.how else ""
        yield f"- {_MARKS.get(entry.severity, '')}{escaped(what)}{how}{_origin(report, entry)}"
        if entry.about:
            yield f"  {escaped(entry.about)}"


def _origin(report: ContinuityReport, entry: Entry) -> str:
    """The turn and session of an entry; a single session is not named."""
    several = len(report.sessions) > 1
    turn = code(entry.turn) if entry.turn and entry.turn != entry.what else ""
    session = f"session {entry.session}" if several and entry.session is not None else ""
    when = date(entry.at) if several and entry.at is not None else ""
    parts = [part for part in (turn, session, when, "inherited" if entry.inherited else "") if part]
    return f" ({', '.join(parts)})" if parts else ""


def _changed(report: ContinuityReport) -> Iterator[str]:
    changed = report.changed
    if report.all_new and not changed.nothing:
        yield from ("First session: everything below is new.", "")
    for title, entries in changed.lists:
        if not (report.all_new and title in LISTED_ELSEWHERE):
            yield from (f"### {title}", "", *_listed(report, entries), "")
    if changed.turns:
        left_out, turns = newest(changed.turns, _MOST_TURNS)
        yield from ("### Turns", "")
        yield from _table(("turn", report.by, "answered", "took", "verdict"), [_turn(span) for span in turns])
        if left_out:
            yield from ("", f"{number(left_out)} earlier ones are left out; `logos show {report.run}` lists them all.")
        yield ""
    if changed.files:
        yield from ("### Files", "", "```text", *(line.replace("`", "'") for line in changed.files), "```")


def _turn(span: TurnSpan) -> tuple[str, ...]:
    verdict = f"{_MARKS.get(span.severity, '')}{span.verdict}" + (" (inherited)" if span.inherited else "")
    return span.turn, span.who, date(span.over[1]), duration(span.seconds), verdict


def _effort(report: ContinuityReport) -> Iterator[str]:
    if not report.efforts:
        return
    headers = (report.by, "turns", "time", "sent", "received", "tokens", "cost")
    rows = [_cells(row, lane_title(row.name)) for row in report.efforts]
    yield from _table(headers, [*rows, _cells(report.total, "all agents")])
    yield ""
    yield "Time counts while a turn was in flight and a driver attached; sent and received are characters."


def _cells(effort: Effort, title: str) -> tuple[str, ...]:
    asked = effort.bill.turns > 0 or effort.sent > 0
    usage = effort.bill.usage
    known = (number(effort.sent), number(effort.received), tokens(usage.tokens), dollars(usage.cost_usd))
    return (title, number(effort.turns), duration(effort.seconds), *(known if asked else ("-",) * 4))


def _sessions(report: ContinuityReport) -> Iterator[str]:
    headers = ("session", "began", "took", "turns", "checks", "how it ended")
    yield from _table(
        headers,
        [
            (
                str(session.number),
                session.date,
                duration(session.seconds),
                number(len(session.answered)),
                number(len(session.checked)),
                session.end + (" (inherited)" if session.inherited else ""),
            )
            for session in report.sessions
        ],
    )


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned by spaces as well, for reading it unrendered."""
    lines = [[escaped(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(headers))]
    head, *body = ("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)
    yield head
    yield "| " + " | ".join("-" * width for width in widths) + " |"
    yield from body


def escaped(text: str) -> str:
    """Escape markup. Pairs of backticks stay, they mark commands; a single one could swallow what follows."""
    plain = _MARKUP.sub(lambda found: f"\\{found[0]}", text)
    return plain if text.count("`") % 2 == 0 else plain.replace("`", "\\`")


def code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"
