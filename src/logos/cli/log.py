"""`logos log`: the events of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

from typer import Option

from logos.app.runs import event_document, event_formatter
from logos.app.workdir import driver_at, find_run, place_of, reading
from logos.cli.options import AsJson, OneRun, WorkDir, command
from logos.cli.output import console as show
from logos.domain.events import Recorded, RunEnded, RunResumed, RunStarted
from logos.domain.turns import RunId
from logos.ports import Log
from logos.views.document import VERSION
from logos.views.run import FLOW_WORDS


@command(
    "logos log                    # the newest run",
    "logos log k3 --follow        # the run whose id begins with k3, and new events as they come",
    "logos log --json | jq '.events[] | select(.kind == \"turn_answered\") | .turn'",
)
def log(
    run: OneRun = None,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Continue until the run ends; with --json: one JSON line per event.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Show the events of a run. `logos show RUN TURN` shows a whole prompt and its response."""
    place = place_of(wd)
    with reading(place) as source:
        found = find_run(source, run)
        records = _following(source, found, place, show.tell) if follow else source.read(found)
        if as_json and not follow:
            events = [event_document(record) for record in records]
            show.document({"version": VERSION, "run": found, "events": events})
        elif as_json:
            for record in records:
                show.json_line(event_document(record))
        else:
            _put_events(records)


def _put_events(records: Iterator[Recorded]) -> None:
    formatter, target = event_formatter(), show.console()
    for record in records:
        first, *more = formatter.lines(record)
        show.put_line(target, first, f"{record.seq:>4}  ")
        for line in more:
            show.put_line(target, line, " " * 6)


def _following(source: Log, run: RunId, place: Path, tell: Callable[[str], None]) -> Iterator[Recorded]:
    """Events as they come, until the run has ended and its driver has left."""
    command, ended, alone = "", False, False
    for record in source.watch(run):
        if record is not None:
            event = record.event
            command = FLOW_WORDS[event.plan.flow].command if isinstance(event, RunStarted) else command
            ended = isinstance(event, RunEnded) or (ended and not isinstance(event, RunResumed))
            yield record
            continue
        driver = driver_at(place)
        if ended and driver is None:
            return
        if driver is None and not alone:
            tell(f"no driver is attached to run {run}; `{command} --resume` continues it, Ctrl-C ends this")
        alone = driver is None
