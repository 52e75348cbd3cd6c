"""`logos show`: the turns of a run, or one turn with its whole prompt and response."""

from __future__ import annotations

from typing import Annotated

import typer

from logos.app.runs import load_status
from logos.app.workdir import find_run, place_of, reading
from logos.cli.options import AsJson, ThisRun, WorkDir, examples
from logos.cli.output import console as page
from logos.errors import UsageError
from logos.views.document import timeline_document, turn_text_document
from logos.views.events import Severity, severity_of
from logos.views.run import RunView, TurnView
from logos.views.text import duration, number
from logos.views.usage import in_words

EXAMPLES = examples(
    "logos show k3                    # the turns of the run whose id begins with k3",
    "logos show k3 r1.tester          # prompt and response of that turn",
    "logos show k3 r2.verify --json",
    "logos show k3 s1.L2.cart.author  # of a build: level 2, component cart",
)


def show(
    run: ThisRun,
    turn: Annotated[
        str | None, typer.Argument(metavar="TURN", help="A turn id or its beginning; default: list the turns.")
    ] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """List the turns of a run, or show the whole prompt and response of one. Secrets are redacted."""
    place = place_of(wd)
    with reading(place) as log:
        status = load_status(place, log, find_run(log, run))
    found = find_turn(status.view, turn) if turn is not None else None
    if as_json:
        page.document(turn_text_document(status.view, found) if found else timeline_document(status))
    elif found is not None:
        put_turn(status.view, found)
    else:
        page.put_timeline(page.console(), status.view)
    return 0


def find_turn(view: RunView, wanted: str) -> TurnView:
    """The turn with this id, or the only one whose id begins with it."""
    matches = [turn for turn in view.turns if turn.turn == wanted]
    matches = matches or [turn for turn in view.turns if wanted and turn.turn.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(turn.turn for turn in matches)
        raise UsageError(f"{wanted!r} is the beginning of {len(matches)} turns: {names}")
    known = ", ".join(turn.turn for turn in view.turns) or "none yet"
    raise UsageError(f"run {view.run} has no turn {wanted!r}; it has {known}")


def put_turn(view: RunView, turn: TurnView) -> None:
    target = page.console()
    took = f", {duration(turn.seconds)}" if turn.seconds is not None else ", not answered yet"
    page.put(target, f"run {view.run}, turn {turn.turn} ({turn.who}{took})", "bold")
    if turn.bills:
        page.put(target, f"usage: {in_words(turn.usage)}")
    if turn.verdict:
        page.put(target, f"verdict: {turn.verdict}", page.STYLES[severity_of(turn.verdict)])
    if turn.failure:
        page.put(target, f"failed: {turn.failure}", page.STYLES[Severity.BAD])
    for title, text in (("prompt", turn.prompt), ("response", turn.response)):
        page.put(target, f"\n--- {title}, {number(len(text))} characters ---", "bold cyan")
        page.whole(text)
