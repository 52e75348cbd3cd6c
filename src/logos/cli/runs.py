"""`logos runs`: every run of this work dir."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from logos.app.workdir import driver_at, has_log, place_of, reading
from logos.cli.options import AsJson, WorkDir, examples

if TYPE_CHECKING:
    from logos.adapters.store.sqlite import SqliteLog

EXAMPLES = examples("logos runs", "logos runs --json | jq '.[].run'")


def runs(wd: WorkDir = None, as_json: AsJson = False) -> int:
    """List the runs of this work dir, the newest last."""
    from logos.cli.output import console as show
    from logos.views.events import Severity

    place = place_of(wd)
    if has_log(place):
        with reading(place) as log:
            rows = [*rows_of(log, place)]
    else:
        rows = []
    if as_json:
        show.document(rows)
        return 0
    if not rows:
        show.put(show.console(), f"no runs in {place} yet; `logos run` starts one")
        return 0
    tones = {"PASSED": Severity.GOOD, "RUNNING": Severity.NORMAL, "STOPPED": Severity.WARNING}
    # Where all runs are cycles, the flow says nothing.
    flow = ("flow",) if {row["flow"] for row in rows} - {"cycle", None} else ()
    origin = ("from",) if any(row["forked_from"] for row in rows) else ()
    keys = ("run", *flow, *origin, "started", "status", "rounds", "turns")
    show.put_table(
        show.console(),
        (*keys, "tokens", "cost", "asked for"),
        [_cells(row, keys) for row in rows],
        [tones.get(row["status"], Severity.BAD) for row in rows],
    )
    return 0


def _cells(row: dict[str, Any], keys: tuple[str, ...]) -> tuple[object, ...]:
    from logos.views.usage import dollars, tokens

    usage: dict[str, Any] = row["usage"] or {"tokens": None, "cost_usd": None}
    cells = {**row, "from": f"{row['forked_from']}@{row['forked_at']}" if row["forked_from"] else None}
    known = ("-" if cells[key] is None else cells[key] for key in keys)
    return (*known, tokens(usage["tokens"]), dollars(usage["cost_usd"]), row["asked_for"])


def rows_of(log: SqliteLog, place: Path) -> list[dict[str, Any]]:
    from logos.app.runs import load_run
    from logos.cli.sessions import fork_of, forked_as_json
    from logos.errors import LogError
    from logos.views.run import iso
    from logos.views.text import date
    from logos.views.usage import bill_as_json

    rows: list[dict[str, Any]] = []
    known, driver = log.runs(), driver_at(place)
    for run in known:
        unknown = dict.fromkeys(("flow", "started_at", "rounds", "turns", "simulated", "usage"))
        blank = {**unknown, **forked_as_json(None), "run": run, "started": "-"}
        try:
            story = load_run(log, run)
        except LogError as error:
            rows.append({**blank, "status": "DAMAGED", "asked_for": str(error)})
            continue
        status = story.outcome.value if story.outcome else "RUNNING" if driver and run == known[-1] else "STOPPED"
        rows.append(
            {
                "run": run,
                "flow": story.plan.flow,
                "started": date(story.started),
                "started_at": iso(story.started),
                "status": "DAMAGED" if story.damage else status,
                "rounds": story.rounds,
                "turns": story.answered,
                "simulated": story.simulated,
                "usage": bill_as_json(story.bill),
                **forked_as_json(fork_of(story)),
                "asked_for": story.asked_for,
            }
        )
    return rows
