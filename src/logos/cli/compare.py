"""`logos compare`: two runs side by side, and what differs between the files they left."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from logos.app.diff import ComparedRun, Comparison
from logos.app.diff import compare as compare_runs
from logos.app.runs import status_of
from logos.cli.diff import files_as_json, put_changes
from logos.cli.options import AsJson, ThisRun, WorkDir, examples
from logos.cli.output import console as show
from logos.views.document import run_document
from logos.views.document_shapes import VERSION, CompareDocument, ComparedRunDocument
from logos.views.text import cut, date, duration, number
from logos.views.usage import UNKNOWN, dollars, tokens

EXAMPLES = examples(
    "logos compare k3ab k9cd           # a run and its fork, or any two runs of this repository",
    "logos compare k3ab k9cd --patch   # with the whole difference between their ends",
    "logos compare k3ab k9cd --json | jq '.runs[].usage.cost_usd'",
)
UNFINISHED = "UNFINISHED"
ROUNDS = {"cycle": "rounds", "levels": "sweeps"}
_REASON = 60


def compare(
    a: ThisRun,
    b: ThisRun,
    patch: Annotated[
        bool, typer.Option("--patch", help="The whole difference between their ends, not a line for each file.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Show two runs side by side: outcome, turns, characters, tokens, time, and what differs between their ends.

    Both may be in this work dir or in that of a fork. What a fork inherited from the run it was forked from is counted
    apart.
    """
    found = compare_runs(a, b, wd=wd)
    if as_json:
        show.document(as_document(found, patch=patch))
    else:
        put_comparison(found, patch=patch)
    return 0


def put_comparison(found: Comparison, *, patch: bool) -> None:
    target, (one, other) = show.console(), (run.view.run for run in found.runs)
    # Only the patch goes to a pipe.
    about = show.console(stderr=True) if patch and not sys.stdout.isatty() else target
    show.put_table(about, ("", one, other), [*zip(_labels(found), *map(_cells, found.runs), strict=True)])
    show.put(about, "")
    if found.common is not None:
        show.put(about, f"they have all events up to {found.common.run}@{found.common.seq} in common")
    for gap in found.gaps:
        show.put(about, gap, "dim")
    if not found.diff.missing:
        show.put(about, f"from the end of {one} to the end of {other}:")
        put_changes(found.diff, stat=not patch)


def _labels(found: Comparison) -> tuple[str, ...]:
    common = found.common
    since = f"since {common.run}@{common.seq}" if common is not None else "since its start"
    return (
        *("outcome", "reason", "asked for", "began", ", ".join(ROUNDS[flow] for flow in sorted(found.flows))),
        *("turns", "turns inherited", "characters sent", "tokens", "cost", "time driven", "sessions"),
        *(f"files changed {since}", "folder"),
    )


def _cells(run: ComparedRun) -> tuple[object, ...]:
    view, bill = run.view, run.view.bill
    return (
        view.outcome.value if view.outcome else UNFINISHED,
        cut(view.reason, _REASON) or "-",
        view.asked_for,
        date(view.started),
        view.state.position.round,
        view.answered,
        view.inherited,
        number(view.characters),
        _partly(tokens(bill.usage.tokens), bill.tokens_unknown, bill.turns),
        _partly(dollars(bill.usage.cost_usd), bill.cost_unknown, bill.turns),
        duration(sum(session.seconds for session in view.own_sessions)),
        len(view.own_sessions),
        UNKNOWN if run.changed is None else len(run.changed),
        str(run.end.place),
    )


def _partly(text: str, unknown: int, turns: int) -> str:
    """Turns of unknown usage are not in the sum."""
    return f"{text} (unknown for {unknown} of {turns})" if 0 < unknown < turns else text


def as_document(found: Comparison, *, patch: bool) -> CompareDocument:
    common, diff = found.common, found.diff
    return {
        "version": VERSION,
        "runs": [_run_document(run) for run in found.runs],
        "common": None if common is None else {"run": common.run, "event": common.seq, "commit": common.commit or None},
        "files": None if diff.missing else files_as_json(diff.files()),
        "patch": diff.patch_text() if patch and not diff.missing else None,
        "not_comparable": found.gaps,
    }


def _run_document(run: ComparedRun) -> ComparedRunDocument:
    return {
        **run_document(status_of(run.end.place, run.view)),
        "files_changed": None if run.changed is None else len(run.changed),
        "commit": run.end.commit or None,
    }
