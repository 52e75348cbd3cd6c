"""A continuity report as JSON: the same keys for both flows, times as ISO 8601."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from logos.views.continuity.entries import Entry
from logos.views.continuity.report import Changes, ContinuityReport
from logos.views.continuity.turns import Effort, SessionSpan, TurnSpan
from logos.views.run import iso
from logos.views.usage import bill_as_json

Json = dict[str, Any]


def as_document(report: ContinuityReport) -> Json:
    parts = report.parts
    return {
        "run": report.run,
        "flow": report.flow,
        "wd": report.wd,
        "asked_for": report.asked_for,
        "status": report.word,
        "outcome": report.outcome or None,
        "reason": report.reason,
        "next": report.next,
        "simulated": report.simulated,
        "damage": report.damage or None,
        "forked_from": report.forked.parent if report.forked else None,
        "forked_at": report.forked.at if report.forked else None,
        "forked_by": report.forked.way if report.forked else None,
        "started_at": iso(report.started),
        "last_event_at": iso(report.last),
        "events": report.events,
        "turns": report.answered,
        "inherited_turns": report.inherited,
        "seconds_driven": round(report.driven, 3),
        "characters": report.characters,
        "usage": bill_as_json(report.bill),
        "sessions": [_session(session) for session in report.sessions],
        "since": {"session": report.since.number, "began_at": iso(report.since.began)},
        "completed": _entries(parts.completed),
        "pending": _entries(parts.pending),
        "blocked": _entries(parts.blocked),
        "decisions": _entries(parts.decisions),
        "in_hand": [_act(act) for act in report.in_flight],
        "changed": _changes(report.changed),
        "effort": {
            "by": report.by,
            "rows": [_effort(row) for row in report.efforts],
            "total": _effort(report.total),
        },
    }


def _changes(changed: Changes) -> Json:
    return {
        "outcomes": _entries(changed.outcomes),
        "completed": _entries(changed.completed),
        "turns": [_act(act) for act in changed.turns],
        "checks": _entries(changed.checks),
        "merges": _entries(changed.merges),
        "specs": _entries(changed.specs),
        "decisions": _entries(changed.decisions),
        "settings": _entries(changed.settings),
        "files": list(changed.files),
    }


def _entries(entries: Iterable[Entry]) -> list[Json]:
    return [_entry(entry) for entry in entries]


def _entry(entry: Entry) -> Json:
    return {
        "part": entry.part,
        "what": entry.what,
        "how": entry.how,
        "about": entry.about or None,
        "turn": entry.turn or None,
        "at": None if entry.at is None else iso(entry.at),
        "session": entry.session,
        "inherited": entry.inherited,
    }


def _session(session: SessionSpan) -> Json:
    return {
        "session": session.number,
        "began_at": iso(session.began),
        "ended_at": iso(session.ended),
        "seconds": round(session.seconds, 3),
        "turns": session.turns,
        "checks": session.checks,
        "first": session.first,
        "last": session.last,
        "ended": session.end,
        "inherited": session.inherited,
    }


def _act(act: TurnSpan) -> Json:
    return {
        "turn": act.turn,
        "agent": act.who,
        "asked_in_session": act.begun[0],
        "asked_at": iso(act.begun[1]),
        "session": None if act.in_flight else act.over[0],
        "answered_at": None if act.in_flight else iso(act.over[1]),
        "seconds": round(act.seconds, 3),
        "verdict": act.verdict or None,
        "characters_sent": act.sent,
        "characters_received": act.received,
        "usage": bill_as_json(act.bill),
        "inherited": act.inherited,
    }


def _effort(effort: Effort) -> Json:
    return {
        "name": effort.name,
        "turns": effort.turns,
        "seconds": round(effort.seconds, 3),
        "characters_sent": effort.sent,
        "characters_received": effort.received,
        "usage": bill_as_json(effort.bill),
    }
