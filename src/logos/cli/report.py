"""`logos report`: a run across its sessions."""

import json
from enum import StrEnum
from typing import Annotated

from typer import Option

from logos.app.registry import place_of_run
from logos.app.report import report_on, write_output
from logos.cli.options import AsJson, OneRun, Output, WorkDir, command, value
from logos.cli.output import console as show
from logos.cli.output.report import as_markdown, as_page
from logos.errors import UsageError
from logos.views.continuity.report import ContinuityReport, report_document
from logos.views.redact import clean, redacted
from logos.views.text import count, date


class Format(StrEnum):
    MD = "md"
    HTML = "html"
    JSON = "json"


@command(
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
    found = report_on(place_of_run(run, wd), run, since)
    text = rendered(found, Format.JSON if as_json else form or Format.MD)
    if output is None:
        print(text, flush=True)
        return
    write_output(output, text + "\n", force=True)
    sessions = count(len(found.sessions), "session")
    show.tell(f"{output}: {found.view.words.run} {found.run} across {sessions}, last event {date(found.view.last)}")


def rendered(found: ContinuityReport, form: Format) -> str:
    """The report in one of its formats, without secrets and control characters."""
    if form is Format.JSON:
        return json.dumps(redacted(report_document(found)), indent=2)
    return (as_page(found) if form is Format.HTML else clean(as_markdown(found))).rstrip("\n")
