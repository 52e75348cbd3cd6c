"""`logos compare`: two runs side by side."""

import sys
from typing import Annotated, Any

from logos.app.checkpoints import Checkpoint
from logos.app.diff import Comparison
from logos.app.diff import compare as compare_runs
from logos.app.runs import status_of
from logos.cli.diff import changes_document, put_changes
from logos.cli.options import AsJson, ThisRun, WorkDir, command, flag
from logos.cli.output import console as show
from logos.views.document import VERSION, RunDocument
from logos.views.text import cut, date, duration, number
from logos.views.usage import UNKNOWN, price, tokens


@command(
    "logos compare k3ab k9cd           # a run and its fork, or any two runs of this repository",
    "logos compare k3ab k9cd --patch   # with the whole difference between their ends",
    "logos compare k3ab k9cd --json | jq '.runs[].usage.cost_usd'",
)
def compare(
    a: ThisRun,
    b: ThisRun,
    patch: Annotated[
        bool, flag("--patch", "The whole difference between their ends, not a line for each file.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Show two runs side by side: outcome, turns, characters, tokens, time, and what differs between their ends.

    Both may be in this work dir or in that of a fork. What a fork inherited from the run it was forked from is counted
    apart.
    """
    found = compare_runs(a, b, wd=wd)
    if as_json:
        show.document(_comparison_document(found, patch=patch))
        return
    one, other = (end.run for end in found.ends)
    # Only the patch goes to a pipe.
    about = show.console(stderr=patch and not sys.stdout.isatty())
    left, right = (_compared_cells(end, found) for end in found.ends)
    cells = [(label, left[label], right[label]) for label in left]
    show.put_table(about, ("", one, other), cells, folds=("", one, other))
    show.put(about, "")
    if found.common is not None:
        show.put(about, f"they have all events up to {found.common.run}@{found.common.seq} in common")
    for gap in found.gaps:
        show.put(about, gap, "dim")
    if not found.diff.missing:
        show.put(about, f"from the end of {one} to the end of {other}:")
        put_changes(found.diff, stat=not patch)


def _compared_cells(end: Checkpoint, found: Comparison) -> dict[str, object]:
    view, bill, common, changed = end.view, end.view.bill, found.common, found.changed_by(end)
    rounds = ", ".join({"cycle": "rounds", "levels": "sweeps"}[flow] for flow in sorted(found.flows))
    since = f"since {common.run}@{common.seq}" if common is not None else "since its start"
    return {
        "outcome": view.outcome.in_words(view.state.verified) if view.outcome else "UNFINISHED",
        "reason": cut(view.reason, 60) or "-",
        "asked for": view.asked_for,
        "began": date(view.started),
        rounds: view.state.position.round,
        "turns": view.answered,
        "turns inherited": view.inherited,
        "characters sent": number(view.characters),
        "tokens": _partly(tokens(bill.usage.tokens), bill.tokens_unknown, bill.turns),
        "cost": _partly(price(bill.usage), bill.cost_unknown, bill.turns),
        "time driven": duration(view.driven),
        "sessions": len(view.own_sessions),
        f"files changed {since}": UNKNOWN if changed is None else changed,
        "folder": str(end.place),
    }


def _partly(text: str, unknown: int, turns: int) -> str:
    """Turns of unknown usage are not in the sum."""
    return f"{text} (unknown for {unknown} of {turns})" if 0 < unknown < turns else text


def _comparison_document(found: Comparison, *, patch: bool) -> dict[str, Any]:
    runs = [
        {
            **RunDocument.of(status_of(end.place, end.view)),
            "files_changed": found.changed_by(end),
            "commit": end.commit or None,
        }
        for end in found.ends
    ]
    at = found.common
    common = at and {"run": at.run, "event": at.seq, "commit": at.commit or None}
    changes = changes_document(found.diff, patch=patch)
    return {"version": VERSION, "runs": runs, "common": common, **changes, "not_comparable": found.gaps}
