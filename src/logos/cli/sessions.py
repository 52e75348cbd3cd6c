"""`logos sessions`: list what each driver did of each run, here and in the forks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from logos.app.sessions import SessionList, SessionRow, list_sessions
from logos.cli.options import AsJson, WorkDir, examples
from logos.cli.output import console as show
from logos.views.document import session_document
from logos.views.document_shapes import VERSION, SessionRowDocument, SessionsDocument
from logos.views.events import Severity
from logos.views.text import date, duration

EXAMPLES = examples(
    "logos sessions                    # all of them, oldest first",
    "logos sessions k3                 # those of the run whose id begins with k3",
    "logos sessions --json | jq '.sessions[-1].last'",
)
HOW = (
    "a session's last event is a checkpoint: `logos rollback RUN@EVENT` returns to it, "
    "`logos fork RUN --at EVENT` continues from it in another worktree"
)
HEADERS = ("began", "run", "no.", "took", "events", "turns", "how it ended", "lineage", "folder")
SEVERITIES = {"PASSED": Severity.GOOD, "FAILED": Severity.BAD, "REJECTED": Severity.BAD, "BLOCKED": Severity.WARNING}


def sessions(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run id or its beginning; default: all.")] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """List the sessions of this work dir and of the forks of its repository, oldest first.

    A session is what one driver did of a run. What a fork inherited is listed with the run it was forked from.
    """
    found = list_sessions(run, wd=wd)
    for gap in found.unreadable:
        show.tell(f"warning: {gap.place}: {gap.why}")
    if as_json:
        show.document(as_document(found))
    elif not found.rows:
        show.put(show.console(), f"no sessions in {found.place} yet; `logos run` starts one")
    else:
        put_sessions(found)
    return 0


def put_sessions(found: SessionList) -> None:
    target = show.console()
    cells = [
        (
            *(date(session.began), row.run, session.number, duration(session.seconds)),
            *(f"{session.first}-{session.last}", len(session.answered), row.ending, row.lineage),
            "" if row.place == found.place else str(row.place),
        )
        for row in found.rows
        for session in (row.session,)
    ]
    severities = [SEVERITIES.get(row.ending, Severity.NORMAL) for row in found.rows]
    show.put_table(target, *_without_empty(HEADERS, cells), severities)
    show.put(target, f"\n{HOW}", "dim")


def _without_empty(
    headers: tuple[str, ...], rows: Sequence[tuple[object, ...]]
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Leave out columns in which every cell is empty."""
    kept = [column for column, _ in enumerate(headers) if any(row[column] != "" for row in rows)]
    return tuple(headers[column] for column in kept), [tuple(row[column] for column in kept) for row in rows]


def as_document(found: SessionList) -> SessionsDocument:
    return {
        "version": VERSION,
        "wd": str(found.place),
        "sessions": [_row_document(row) for row in found.rows],
        "unreadable": [{"wd": str(gap.place), "run": gap.run, "why": gap.why} for gap in found.unreadable],
    }


def _row_document(row: SessionRow) -> SessionRowDocument:
    origin = row.session.forked
    return {
        **session_document(row.run, row.session),
        "ended": row.ending,
        "flow": row.flow,
        "driver_pid": row.driver,
        "forked_from": origin.parent if origin else None,
        "forked_at": origin.at if origin else None,
        "forked_by": origin.way if origin else None,
        "given_up": row.session.given_up or None,
        "damage": row.damage or None,
        "wd": str(row.place),
    }
