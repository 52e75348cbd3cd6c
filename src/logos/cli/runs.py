"""`logos runs`: the runs of a work dir."""

from logos.app.runs import load_views, status_in
from logos.app.workdir import has_log, place_to_read, reading
from logos.cli.options import AsJson, WorkDir, command
from logos.cli.output import console as show
from logos.views.document import runs_document
from logos.views.events import Severity
from logos.views.status import RunStatus, Unreadable
from logos.views.text import date
from logos.views.usage import UNKNOWN, price, tokens


@command("logos runs", "logos runs --json | jq '.runs[].run'")
def runs(wd: WorkDir = None, as_json: AsJson = False) -> None:
    """List the runs of this work dir, the newest last."""
    place = place_to_read(wd)
    found: list[RunStatus | Unreadable] = []
    if has_log(place):
        with reading(place) as log:
            views = load_views(place, log)
            found = [view if isinstance(view, Unreadable) else status_in(place, log, view) for view in views]
    if as_json:
        show.document(runs_document(str(place), found))
        return
    if not found:
        show.put(show.console(), f"no runs in {place} yet; `logos run` starts one")
        return
    rows = [_run_row(run) for run in found]
    # Without builds and forks, the flow and the origin say nothing.
    left_out = {"flow"} if {row["flow"] for row in rows} <= {"cycle", "-"} else set[str]()
    left_out |= {"from"} if {row["from"] for row in rows} == {"-"} else set()
    keys = [key for key in rows[0] if key not in left_out]
    severities = [Severity.BAD if isinstance(run, Unreadable) or run.view.damage else run.severity for run in found]
    cells, spare = [[row[key] for key in keys] for row in rows], ("rounds", "tokens", "flow", "turns", "cost", "from")
    show.put_table(show.console(), keys, cells, severities, folds=("status", "asked for"), spare=spare)


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
