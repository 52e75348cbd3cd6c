"""A continuity report as a JSON document: the run, and what the report adds to it."""

from __future__ import annotations

from collections.abc import Iterable

from logos.views.continuity.entries import Entry
from logos.views.continuity.report import Changes, ContinuityReport
from logos.views.continuity.turns import Effort, TurnSpan
from logos.views.document import iso, run_document, spent_document, turn_document
from logos.views.document_shapes import (
    ChangedDocument,
    EffortRowDocument,
    EntryDocument,
    ReportDocument,
    SpanDocument,
)


def report_document(report: ContinuityReport) -> ReportDocument:
    sections = report.sections
    return {
        **run_document(report.status),
        "next": report.next,
        "in_flight": [_span(span) for span in report.in_flight],
        "completed": _entries(sections.completed),
        "pending": _entries(sections.pending),
        "blocked": _entries(sections.blocked),
        "decisions": _entries(sections.decisions),
        "since": {"session": report.since.number, "began_at": iso(report.since.began)},
        "changed": _changed(report.changed),
        "effort": {
            "by": report.by,
            "rows": [_effort(row) for row in report.efforts],
            "total": _effort(report.total),
        },
    }


def _changed(changed: Changes) -> ChangedDocument:
    sections = changed.sections
    return {
        "outcomes": _entries(sections.outcomes),
        "completed": _entries(sections.completed),
        "timeline": [_span(span) for span in changed.turns],
        "checks": _entries(sections.checks),
        "merges": _entries(sections.merges),
        "specs": _entries(sections.specs),
        "decisions": _entries(sections.decisions),
        "settings": _entries(sections.settings),
        "files": list(changed.files),
    }


def _entries(entries: Iterable[Entry]) -> list[EntryDocument]:
    return [
        {
            "part": line.part,
            "what": line.what,
            "how": line.how,
            "about": line.about or None,
            "turn": line.turn or None,
            "at": None if line.at is None else iso(line.at),
            "session": line.session,
            "inherited": line.inherited,
        }
        for line in entries
    ]


def _span(span: TurnSpan) -> SpanDocument:
    return {
        **turn_document(span.view),
        "asked_in_session": span.begun[0],
        "answered_in_session": None if span.in_flight else span.over[0],
        "seconds_driven": round(span.seconds, 3),
    }


def _effort(effort: Effort) -> EffortRowDocument:
    return {
        "name": effort.name,
        "turns": effort.turns,
        "seconds": round(effort.seconds, 3),
        "characters_sent": effort.sent,
        "characters_received": effort.received,
        "usage": spent_document(effort.bill),
    }
