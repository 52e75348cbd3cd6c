"""`logos show`: one turn whole, the prompt as it was sent and the response as it came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from logos.app.workdir import find_run, place_of, reading
from logos.cli.options import AsJson, ThisRun, WorkDir, examples
from logos.errors import UsageError

if TYPE_CHECKING:
    from logos.views.run import RunView, TurnView

EXAMPLES = examples(
    "logos show k3                    # the turns of the run whose id begins with k3",
    "logos show k3 r1.tester          # prompt and response of that turn",
    "logos show k3 r2.verify --json",
    "logos show k3 s1.L2.cart.author  # of a build: level 2, component cart",
)


def show(
    run: ThisRun,
    turn: Annotated[
        str | None, typer.Argument(metavar="TURN", help="A turn id or its beginning; without: list the turns.")
    ] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Show the prompt and the response of a turn, whole; secrets and control characters are taken out."""
    from logos.app.runs import load_run
    from logos.cli.output import console as page
    from logos.views.run import turns_as_json

    with reading(place_of(wd)) as log:
        story = load_run(log, find_run(log, run))
    if turn is None:
        if as_json:
            page.document(turns_as_json(story))
        else:
            page.put_timeline(page.console(), story)
        return 0
    told = find_turn(story, turn)
    if as_json:
        page.document(as_document(story, told))
    else:
        put_turn(story, told)
    return 0


def find_turn(story: RunView, wanted: str) -> TurnView:
    known = [told.turn for told in story.turns]
    fitting = [told for told in story.turns if told.turn == wanted] or [
        told for told in story.turns if wanted and told.turn.startswith(wanted)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(told.turn for told in fitting)
        raise UsageError(f"{wanted!r} is the beginning of {len(fitting)} turns: {names}")
    raise UsageError(f"run {story.run} has no turn {wanted!r}; it has {', '.join(known) or 'none yet'}")


def put_turn(story: RunView, told: TurnView) -> None:
    from logos.cli.output import console as page
    from logos.views.events import Severity, severity_of
    from logos.views.text import duration, number
    from logos.views.usage import in_words

    target = page.console()
    took = f", {duration(told.seconds)}" if told.seconds is not None else ", not answered yet"
    page.put(target, f"run {story.run}, turn {told.turn} ({told.who}{took})", "bold")
    if told.bills:
        page.put(target, f"usage: {in_words(told.usage)}")
    if told.verdict:
        page.put(target, f"verdict: {told.verdict}", page.STYLES[severity_of(told.verdict)])
    if told.failure:
        page.put(target, f"failed: {told.failure}", page.STYLES[Severity.BAD])
    for title, text in (("prompt", told.prompt), ("response", told.response)):
        page.put(target, f"\n--- {title}, {number(len(text))} characters ---", "bold cyan")
        page.whole(text)


def as_document(story: RunView, told: TurnView) -> dict[str, Any]:
    from logos.views.run import agent_as_json, iso
    from logos.views.usage import usage_as_json

    return {
        "run": story.run,
        "turn": told.turn,
        **agent_as_json(told),
        "asked_at": iso(told.asked),
        "answered_at": None if told.ended is None else iso(told.ended),
        "seconds": None if told.seconds is None else round(told.seconds, 3),
        "verdict": told.verdict or None,
        "failure": told.failure or None,
        "usage": usage_as_json(told.usage),
        "prompt": told.prompt,
        "response": told.response,
    }
