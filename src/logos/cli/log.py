"""`logos log`: the events of a run."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from typer import Option

from logos.app.copying import Copy, copy_runs
from logos.app.registry import place_of_run
from logos.app.runs import event_document, read_report
from logos.app.workdir import driver_at, find_run, place_of, reading
from logos.cli.options import AsJson, OneRun, WorkDir, command, value
from logos.cli.output import console as show
from logos.domain.events import Recorded, RunAbandoned, RunEnded, RunResumed, RunStarted
from logos.domain.turns import RunId
from logos.ports import Log
from logos.views.document import VERSION
from logos.views.events import EventFormatter
from logos.views.run import FLOW_WORDS
from logos.views.text import count

WATCH_SECONDS = 0.1
COPY = "Copy the runs of this work dir, or RUN, to its `database` (LOGOS_DATABASE) or to its `file`; both stay."


@command(
    "logos log                    # the newest run",
    "logos log k3 --follow        # the run whose id begins with k3, and new events as they come",
    "logos log --json | jq '.events[] | select(.kind == \"turn_answered\") | .turn'",
    "logos log --copy database    # the runs of this work dir, before its commands use LOGOS_DATABASE",
)
def log(
    run: OneRun = None,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Show new events until the run ends; with --json: one JSON line per event.")
    ] = False,
    copy: Annotated[Copy | None, value("TO", COPY)] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Show the events of a run. `logos show RUN TURN` shows a whole prompt and its response."""
    if copy is not None:
        _copy(copy, run, wd, as_json=as_json)
        return
    place = place_of_run(run, wd)
    with reading(place) as source:
        found = find_run(source, run)
        records = _following(source, found, place) if follow else source.read(found)
        if as_json and not follow:
            # A damaged log gives an error instead of half a document.
            for _ in records:
                pass
            head, events = {"version": VERSION, "run": found}, map(event_document, source.read(found))
            show.long_document(head, "events", events)
            return
        formatter, target = EventFormatter(read_report), show.console()
        for record in records:
            if as_json:
                show.document(event_document(record), indent=None)
                continue
            for number, line in enumerate(formatter.lines(record)):
                show.put_line(target, line, " " * 6 if number else f"{record.seq:>4}  ")


def _copy(to: Copy, run: str | None, wd: Path | None, *, as_json: bool) -> None:
    copied = copy_runs(place_of(wd), to, run)
    if as_json:
        show.document({"to": to, "runs": [{"run": one.run, "events": one.events, "new": one.new} for one in copied]})
        return
    target = show.console()
    for one in copied:
        show.put(target, f"run {one.run}: {count(one.new, 'event')} copied, {one.events} in all")


def _following(source: Log, run: RunId, place: Path) -> Iterator[Recorded]:
    """Events as they come, until the run has ended and its driver has left."""
    command, ended, alone, seq = "", False, False, 0
    while True:
        for record in source.read(run, seq + 1):
            seq, event = record.seq, record.event
            command = FLOW_WORDS[event.plan.flow].command if isinstance(event, RunStarted) else command
            ended = isinstance(event, RunEnded | RunAbandoned) or (ended and not isinstance(event, RunResumed))
            yield record
        driver = driver_at(place)
        if ended and driver is None:
            return
        if driver is None and not alone:
            show.tell(f"no driver is attached to run {run}; `{command} --resume` continues it, Ctrl-C ends this")
        alone = driver is None
        time.sleep(WATCH_SECONDS)
