"""`logos log`: what happened in a run, event by event."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logos.app.workdir import driver_at, find_run, place_of, reading
from logos.cli.options import AsJson, OneRun, WorkDir, examples

if TYPE_CHECKING:
    from logos.adapters.store.sqlite import SqliteLog
    from logos.domain.events import Recorded
    from logos.domain.turns import RunId

EXAMPLES = examples(
    "logos log                    # the newest run",
    "logos log k3 --follow        # the run whose id begins with k3, and what comes",
    "logos log --json | jq '.[] | select(.kind == \"turn_answered\") | .turn'",
)


def log(
    run: OneRun = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on until the run ends; with --json: one JSON line per event."),
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Show the events of a run. `logos show RUN TURN` shows a prompt and its response whole."""
    from logos.app.runs import event_formatter
    from logos.cli.output import console as show

    place = place_of(wd)
    with reading(place) as source:
        found = find_run(source, run)
        if as_json and not follow:
            show.document([as_document(record) for record in source.read(found)])
            return 0
        narrator, target = event_formatter(), show.console()

        def put(record: Recorded) -> None:
            if as_json:
                show.json_line(as_document(record))
            else:
                first, *more = narrator.lines(record)
                show.put_line(target, first, f"{record.seq:>4}  ")
                for line in more:
                    show.put_line(target, line, " " * 6)

        for record in following(source, found, place, show.tell) if follow else source.read(found):
            put(record)
    return 0


def following(source: SqliteLog, run: RunId, place: Path, tell: Callable[[str], None]) -> Iterator[Recorded]:
    """Events as they come, until the run has ended and its driver has gone."""
    from logos.app.runs import plan_of
    from logos.domain.events import RunEnded, RunResumed
    from logos.domain.plans import LevelsPlan

    command = "build" if isinstance(plan_of(source, run), LevelsPlan) else "run"
    ended = alone = False
    for record in source.watch(run):
        if record is not None:
            ended = isinstance(record.event, RunEnded) or (ended and not isinstance(record.event, RunResumed))
            yield record
            continue
        driver = driver_at(place)
        if ended and driver is None:
            return
        if driver is None and not alone:
            tell(f"no driver is at work on run {run}; `logos {command} --resume` goes on with it, Ctrl-C ends this")
        alone = driver is None


def as_document(record: Recorded) -> dict[str, Any]:
    from logos.adapters.store.codec import encode
    from logos.views.run import iso

    return {"run": record.run, "seq": record.seq, "at": iso(record.at), **json.loads(encode(record.event))}
