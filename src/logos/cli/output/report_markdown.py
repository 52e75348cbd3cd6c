"""A continuity report as Markdown that also reads well on a terminal. Texts of agents are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from logos.cli.output.report_page import by_part, load_template
from logos.views.continuity.report import HEADED, LISTED_ELSEWHERE, ContinuityReport, heading, lane_title
from logos.views.continuity.turns import Effort, TurnSpan
from logos.views.events import Severity
from logos.views.text import count, date, duration, number
from logos.views.usage import dollars, sum_in_words, tokens

_MARKS = {Severity.GOOD: "✓ ", Severity.BAD: "✗ ", Severity.WARNING: "! ", Severity.ALARM: "! "}
# An underscore inside a word, as in a turn's id, is no markup.
_MARKUP = re.compile(r"[\\*\[\]<>|~]|(?<!\w)_|_(?!\w)")
_MOST_TURNS = 30


def as_markdown(report: ContinuityReport) -> str:
    turns = report.changed.turns[-_MOST_TURNS:]
    return load_template("report.md.j2", escape=False).render(
        report=report,
        view=report.view,
        changed=report.changed,
        several=len(report.sessions) > 1,
        left_out=len(report.changed.turns) - len(turns),
        turns_table=_table(("turn", report.by, "answered", "took", "verdict"), map(_turn, turns)),
        efforts_table=_efforts_table(report),
        sessions_table=_sessions_table(report),
        marks=_MARKS,
        headed=HEADED,
        listed_elsewhere=LISTED_ELSEWHERE,
        by_part=by_part,
        code=code,
        count=count,
        date=date,
        duration=duration,
        escaped=escaped,
        heading=heading,
        number=number,
        sum_in_words=sum_in_words,
    )


def _turn(span: TurnSpan) -> tuple[str, ...]:
    verdict = f"{_MARKS.get(span.severity, '')}{span.verdict}" + (" (inherited)" if span.inherited else "")
    return span.turn, span.who, date(span.over[1]), duration(span.seconds), verdict


def _efforts_table(report: ContinuityReport) -> str:
    headers = (report.by, "turns", "time", "sent", "received", "tokens", "cost")
    rows = [_cells(row, lane_title(row.name)) for row in report.efforts]
    return _table(headers, [*rows, _cells(report.total, "all agents")])


def _cells(effort: Effort, title: str) -> tuple[str, ...]:
    asked = effort.bill.turns > 0 or effort.sent > 0
    usage = effort.bill.usage
    known = (number(effort.sent), number(effort.received), tokens(usage.tokens), dollars(usage.cost_usd))
    return (title, number(effort.turns), duration(effort.seconds), *(known if asked else ("-",) * 4))


def _sessions_table(report: ContinuityReport) -> str:
    rows = (
        (
            str(session.number),
            session.date,
            duration(session.seconds),
            number(len(session.answered)),
            number(len(session.checked)),
            session.end + (" (inherited)" if session.inherited else ""),
        )
        for session in report.sessions
    )
    return _table(("session", "began", "took", "turns", "checks", "how it ended"), rows)


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Aligned by spaces as well, for reading it unrendered."""
    lines = [[escaped(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(headers))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)


def escaped(text: str) -> str:
    """Escape markup. Pairs of backticks stay, they mark commands; a single one could swallow what follows."""
    plain = _MARKUP.sub(lambda found: f"\\{found[0]}", text)
    return plain if text.count("`") % 2 == 0 else plain.replace("`", "\\`")


def code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"
