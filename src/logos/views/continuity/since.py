"""The session that `--since` names: by its number, by a date, or the last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from logos.errors import UsageError
from logos.views.sessions import Session
from logos.views.text import count

LAST = "last"
_NAMED = 5


def session_since(sessions: Sequence[Session], wanted: str, run: str) -> Session:
    """The session from which on things count as new; for a date, the first that began on it or later."""
    by_number = {str(session.number): session for session in sessions}
    if wanted == LAST:
        return sessions[-1]
    if wanted in by_number:
        return by_number[wanted]
    day = _day(wanted)
    later = (session for session in sessions if day is not None and datetime.fromtimestamp(session.began).date() >= day)
    found = next(later, None)
    if found is None:
        wrong = f"no session began on {wanted} or later" if day else f"--since {wanted} names no session"
        allowed = f"a number, a date such as {_example(sessions)}, or {LAST}"
        raise UsageError(f"{wrong} ({allowed}): run {run} has {_all(sessions)}")
    return found


def _day(wanted: str) -> date | None:
    try:
        return date.fromisoformat(wanted)
    except ValueError:
        return None


def _example(sessions: Sequence[Session]) -> str:
    return sessions[-1].date.partition(" ")[0]


def _all(sessions: Sequence[Session]) -> str:
    """`2 sessions: 1 (2026-11-14 21:03), 2 (2026-11-15 09:12)`."""
    named = ", ".join(f"{session.number} ({session.date})" for session in sessions[-_NAMED:])
    return f"{count(len(sessions), 'session')}: {'…, ' if len(sessions) > _NAMED else ''}{named}"
