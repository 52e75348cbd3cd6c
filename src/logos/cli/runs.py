"""`logos runs`: the runs of a work dir, or of all."""

from pathlib import Path
from typing import Annotated

from logos.app.registry import known_work_dirs
from logos.app.runs import load_views, status_in
from logos.app.workdir import has_log, place_to_read, reading
from logos.cli.options import AsJson, WorkDir, command, flag
from logos.cli.output import console as show
from logos.errors import LogError
from logos.views.document import runs_document
from logos.views.events import Severity
from logos.views.status import RunStatus, Unreadable
from logos.views.text import date
from logos.views.usage import UNKNOWN, price, tokens


@command("logos runs", "logos runs --all             # of every work dir", "logos runs --json | jq '.runs[].run'")
def runs(
    wd: WorkDir = None,
    every: Annotated[bool, flag("--all", "The runs of every work dir of yours, not only of this one.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the runs of this work dir, the newest last."""
    place = place_to_read(wd)
    found = _runs_everywhere() if every else _runs_in(place)
    if as_json:
        show.document(runs_document(str(place), found))
        return
    if not found:
        show.put(show.console(), f"no runs in {'any work dir' if every else place} yet; `logos run` starts one")
        return
    rows = [{**_run_row(run), **({"work dir": _place(run)} if every else {})} for run in found]
    # Without builds and forks, the flow and the origin say nothing.
    left_out = {"flow"} if {row["flow"] for row in rows} <= {"cycle", "-"} else set[str]()
    left_out |= {"from"} if {row["from"] for row in rows} == {"-"} else set()
    keys = [key for key in rows[0] if key not in left_out]
    severities = [Severity.BAD if isinstance(run, Unreadable) or run.view.damage else run.severity for run in found]
    cells, spare = [[row[key] for key in keys] for row in rows], ("rounds", "tokens", "flow", "turns", "cost", "from")
    show.put_table(show.console(), keys, cells, severities, folds=("status", "asked for"), spare=spare)


def _runs_in(place: Path) -> list[RunStatus | Unreadable]:
    if not has_log(place):
        return []
    with reading(place) as log:
        views = load_views(place, log)
        return [view if isinstance(view, Unreadable) else status_in(place, log, view) for view in views]


def _runs_everywhere() -> list[RunStatus | Unreadable]:
    """Of every work dir, in the order in which they began; a log that cannot be read does not hide the others."""
    found: list[RunStatus | Unreadable] = []
    for place in known_work_dirs():
        try:
            found += _runs_in(place)
        except LogError as error:
            found.append(Unreadable(place, None, str(error)))
    return sorted(found, key=lambda run: run.view.started if isinstance(run, RunStatus) else 0.0)


def _place(run: RunStatus | Unreadable) -> str:
    return str(run.place if isinstance(run, Unreadable) else run.work_dir)


def _run_row(run: RunStatus | Unreadable) -> dict[str, object]:
    if isinstance(run, Unreadable):
        blank = dict.fromkeys(("run", "flow", "from", "started", "status", "rounds", "turns"), "-")
        known = {"run": run.run, "status": "DAMAGED", "tokens": UNKNOWN, "cost": UNKNOWN}
        return {**blank, **known, "asked for": run.why}
    view = run.view
    return {
        "run": view.run,
        "flow": view.plan.flow,
        "from": view.came_from or "-",
        "started": date(view.started),
        "status": "DAMAGED" if view.damage else run.in_words,
        "rounds": view.state.position.round,
        "turns": view.answered,
        "tokens": tokens(view.bill.usage.tokens),
        "cost": price(view.bill.usage),
        "asked for": view.asked_for,
    }
