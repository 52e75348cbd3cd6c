"""`logos report`: a run across its sessions, as text to read, as a page, or as JSON."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logos.app.workdir import driver_at, place_of
from logos.cli.options import AsJson, OneRun, WorkDir, examples
from logos.errors import LogError, UsageError

if TYPE_CHECKING:
    from logos.app.checkpoint_names import MatchedRun
    from logos.views.continuity.report import ContinuityReport

EXAMPLES = examples(
    "logos report                                  # the newest run, and what its last session changed",
    "logos report k3 --since 2026-11-14            # what changed since the first session of that day or later",
    "logos report --format html -o report.html     # one file, with a timeline",
    "logos report --since 1 --json | jq .changed.decisions",
)


class Format(StrEnum):
    MD = "md"
    HTML = "html"
    JSON = "json"


def report(
    run: OneRun = None,
    since: Annotated[
        str, typer.Option(metavar="SESSION", help="What changed since then: a session's number, a date, or last.")
    ] = "last",
    form: Annotated[Format | None, typer.Option("--format", help="Default: md.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there; default: stdout.")
    ] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Tell a run across its sessions: what is completed, what is pending, what blocks it, what changed, what it took.

    Sessions are the stretches in which somebody drove it; they are named by their dates.
    """
    from logos.cli.output import console as show

    if as_json and form not in (None, Format.JSON):
        raise UsageError(f"--json and --format {form} contradict each other")
    told = look(place_of(wd), run, since)
    text = rendered(told, Format.JSON if as_json else form or Format.MD)
    if output is None:
        print(text, flush=True)
        return 0
    from logos.adapters.files import write_atomically
    from logos.views.text import count, date

    write_atomically(output.expanduser().absolute(), text + "\n")
    sessions = count(len(told.sessions), "session")
    show.tell(f"{output}: {told.what} {told.run} across {sessions}, last event {date(told.last)}")
    return 0


def look(place: Path, run: str | None, since: str) -> ContinuityReport:
    """What the log tells now: the one of this work dir, or that of a fork."""
    from logos.app.checkpoint_names import finding
    from logos.app.runs import load_run
    from logos.app.workdir import wd_flag
    from logos.views.continuity.report import continuity
    from logos.views.continuity.since import session_since
    from logos.views.status import RunStatus, next_command

    # With the sign after it, it is a run whatever it looks like.
    with finding(place, None if run is None else f"{run}@") as found:
        story, newest = load_run(found.log, found.run), found.log.runs()[-1]
        session = session_since(story.sessions, since, story.run)
        files = changed_files(found, session.first)
    # The driver of a work dir is at work on its newest run.
    standing = RunStatus(found.place, story, driver_at(found.place) if found.run == newest else None)
    return continuity(standing, session.number, next_command(standing, wd_flag(found.place)), files)


def changed_files(found: MatchedRun, since: int) -> tuple[str, ...]:
    """What changed in the files from an event on, a line for each; nothing where no checkpoints were kept."""
    from logos.adapters.git.workspace import diff_stat
    from logos.app.revisiting import find_checkpoint
    from logos.errors import HostError

    try:
        last = max(record.seq for record in found.log.read(found.run))
        old = find_checkpoint(found.place, found.log, found.run, since).commit
        new = find_checkpoint(found.place, found.log, found.run, last).commit
        return tuple(diff_stat(found.place, old, new)) if old and new and old != new else ()
    except (HostError, LogError):
        return ()


def rendered(told: ContinuityReport, form: Format) -> str:
    """The report in one of its forms; secrets and control characters are in none of them."""
    import json

    from logos.views.redact import clean, redacted

    match form:
        case Format.MD:
            from logos.cli.output.report_markdown import as_markdown

            return clean(as_markdown(told)).rstrip("\n")
        case Format.HTML:
            from logos.cli.output.report_page import as_page

            return as_page(told).rstrip("\n")
        case Format.JSON:
            from logos.views.continuity.document import as_document

            return json.dumps(redacted(as_document(told)), indent=2)
