"""`logos sessions`: who drove which run, when, and how it ended."""

from pathlib import Path
from typing import Annotated

from logos.app.sessions import SessionRow, list_sessions
from logos.cli.options import AsJson, WorkDir, argument, command
from logos.cli.output import console as show
from logos.views.document import SessionsDocument
from logos.views.events import Severity
from logos.views.text import date, duration

_HOW = (
    "a session's last event is a checkpoint: `logos rollback RUN@EVENT` returns to it, "
    "`logos fork RUN --at EVENT` continues from it in another worktree"
)
_SEVERITIES = {"PASSED": Severity.GOOD, "FAILED": Severity.BAD, "REJECTED": Severity.BAD, "BLOCKED": Severity.WARNING}


@command(
    "logos sessions                    # all of them, oldest first",
    "logos sessions k3                 # those of the run whose id begins with k3",
    "logos sessions --json | jq '.sessions[-1].last'",
)
def sessions(
    run: Annotated[str | None, argument("RUN", "A run id or its beginning; default: all.")] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """List the sessions of this work dir and of the forks of its repository, oldest first.

    A session is what one driver did of a run. What a fork inherited is listed with the run it was forked from.
    """
    found = list_sessions(run, wd=wd)
    for gap in found.unreadable:
        show.tell(f"warning: {gap.place}: {gap.why}")
    if as_json:
        show.document(SessionsDocument.of(found))
    elif not found.rows:
        show.put(show.console(), f"no sessions in {found.place} yet; `logos run` starts one")
    else:
        rows = [_session_row(row, found.place) for row in found.rows]
        keys = [key for key in rows[0] if any(row[key] != "" for row in rows)]
        severities = [_SEVERITIES.get(row.ending, Severity.NORMAL) for row in found.rows]
        cells, folds = [[row[key] for key in keys] for row in rows], ("how it ended", "lineage", "folder")
        show.put_table(show.console(), keys, cells, severities, folds=folds, spare=("no.", "turns", "took"))
        show.put(show.console(), f"\n{_HOW}", "dim")


def _session_row(row: SessionRow, here: Path) -> dict[str, object]:
    session = row.session
    return {
        "began": date(session.began),
        "run": row.run,
        "no.": session.number,
        "took": duration(session.seconds),
        "events": f"{session.first}-{session.last}",
        "turns": len(session.answered),
        "how it ended": row.ending + row.session.doubt,
        "lineage": row.lineage,
        "folder": "" if row.place == here else str(row.place),
    }
