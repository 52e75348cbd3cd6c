"""`logos report`: a run across its sessions. `logos sessions`: a list of them. `logos record`: a run as a script."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Option

from logos.app.report import report_on, script_of, script_text, write_output
from logos.app.runs import load_run
from logos.app.sessions import SessionRow, list_sessions
from logos.app.workdir import find_run, place_of, reading
from logos.cli.options import AsJson, OneRun, WorkDir, argument, command, command_group, flag, value
from logos.cli.output import console as show
from logos.cli.output.report import as_markdown, as_page
from logos.errors import UsageError
from logos.views.continuity.report import ContinuityReport, report_document
from logos.views.document import session_document
from logos.views.document_shapes import VERSION, SessionRowDocument
from logos.views.events import Severity
from logos.views.redact import clean, redacted
from logos.views.text import count, date, duration

app = command_group()
Output = Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Write to FILE; default: stdout.")]


class Format(StrEnum):
    MD = "md"
    HTML = "html"
    JSON = "json"


@command(
    app,
    "logos report                                  # the newest run, and what its last session changed",
    "logos report k3 --since 2026-11-14            # what changed since the first session of that day or later",
    "logos report --format html -o report.html     # one file, with a timeline",
    "logos report --since 1 --json | jq .changed.decisions",
)
def report(
    run: OneRun = None,
    since: Annotated[str, value("SESSION", "Show changes since a session: its number, a date, or last.")] = "last",
    form: Annotated[Format | None, Option("--format", help="Default: md.")] = None,
    output: Output = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Report on a run across its sessions: what is completed, pending and blocked, what changed, time and tokens.

    A session is the time in which one driver was attached to the run.
    """
    if as_json and form not in (None, Format.JSON):
        raise UsageError(f"--json and --format {form} contradict each other")
    found = report_on(place_of(wd), run, since)
    text = rendered(found, Format.JSON if as_json else form or Format.MD)
    if output is None:
        print(text, flush=True)
        return
    write_output(output, text + "\n", force=True)
    sessions = count(len(found.sessions), "session")
    show.tell(f"{output}: {found.view.words.run} {found.run} across {sessions}, last event {date(found.view.last)}")


def rendered(found: ContinuityReport, form: Format) -> str:
    """The report in one of its formats, without secrets and control characters."""
    match form:
        case Format.MD:
            return clean(as_markdown(found)).rstrip("\n")
        case Format.HTML:
            return as_page(found).rstrip("\n")
        case Format.JSON:
            return json.dumps(redacted(report_document(found)), indent=2)


@command(
    app,
    "logos record -o replay.yaml",
    "logos record k3 --delays > replay.yaml",
    "logos run --simulate replay.yaml --fresh      # replay it, with the same configuration",
)
def record(
    run: OneRun = None,
    output: Output = None,
    delays: Annotated[bool, flag("--delays", "Let each turn take as long as it did.")] = False,
    force: Annotated[bool, flag("--force", "Overwrite FILE.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Write a run as a script for `logos run --simulate`: every agent's responses, turn by turn, with their usage.

    File changes of agents are not in the log, so the script does not contain them. Secrets are redacted.
    """
    with reading(place_of(wd)) as log:
        view = load_run(log, find_run(log, run))
    script = script_of(view, delays=delays)
    if output is not None:
        write_output(output, script_text(view, script), force=force)
        show.tell(f"{output}: {len(script['turns'])} turns of run {view.run}")
    if as_json:
        show.document(script)
    elif output is None:
        # Not printed by `put`: a blank line at the end may be part of a response.
        sys.stdout.write(script_text(view, script))


_HOW = (
    "a session's last event is a checkpoint: `logos rollback RUN@EVENT` returns to it, "
    "`logos fork RUN --at EVENT` continues from it in another worktree"
)
_SEVERITIES = {"PASSED": Severity.GOOD, "FAILED": Severity.BAD, "REJECTED": Severity.BAD, "BLOCKED": Severity.WARNING}


@command(
    app,
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
        unreadable = [{"wd": str(gap.place), "run": gap.run, "why": gap.why} for gap in found.unreadable]
        listed = [_session_document(row) for row in found.rows]
        show.document({"version": VERSION, "wd": str(found.place), "sessions": listed, "unreadable": unreadable})
    elif not found.rows:
        show.put(show.console(), f"no sessions in {found.place} yet; `logos run` starts one")
    else:
        rows = [_session_row(row, found.place) for row in found.rows]
        keys = [key for key in rows[0] if any(row[key] != "" for row in rows)]
        severities = [_SEVERITIES.get(row.ending, Severity.NORMAL) for row in found.rows]
        show.put_table(show.console(), keys, [[row[key] for key in keys] for row in rows], severities)
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
        "how it ended": row.ending,
        "lineage": row.lineage,
        "folder": "" if row.place == here else str(row.place),
    }


def _session_document(row: SessionRow) -> SessionRowDocument:
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
