"""`logos show`: the turns of a run, or one prompt and its response in full."""

from typing import Annotated

from logos.app.runs import read_status
from logos.app.workdir import place_of
from logos.cli.options import AsJson, ThisRun, WorkDir, argument, command
from logos.cli.output import console as page
from logos.errors import UsageError
from logos.views.document import VERSION, TimelineDocument, TurnDocument
from logos.views.events import Severity, severity_of
from logos.views.redact import clean
from logos.views.run import RunView, TurnView
from logos.views.text import duration, number
from logos.views.usage import in_words


@command(
    "logos show k3                    # the turns of the run whose id begins with k3",
    "logos show k3 r1.tester          # prompt and response of that turn",
    "logos show k3 r2.verify --json",
    "logos show k3 s1.L2.cart.author  # of a build: level 2, component cart",
)
def show(
    run: ThisRun,
    turn: Annotated[str | None, argument("TURN", "A turn id or its beginning; default: list the turns.")] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """List the turns of a run, or show the whole prompt and response of one. Secrets are redacted."""
    status = read_status(place_of(wd), run)
    found = _find_turn(status.view, turn) if turn is not None else None
    if as_json and found is not None:
        texts = {"prompt": found.prompt, "response": found.response}
        page.document({"version": VERSION, "run": status.view.run, **TurnDocument.of(found), **texts})
    elif as_json:
        page.document(TimelineDocument.of(status))
    elif found is not None:
        _put_turn(status.view, found)
    else:
        page.put_timeline(page.console(), status.view)


def _find_turn(view: RunView, wanted: str) -> TurnView:
    """The turn with this id, or the only one whose id begins with it."""
    matches = [turn for turn in view.turns if turn.turn == wanted]
    matches = matches or [turn for turn in view.turns if wanted and turn.turn.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(turn.turn for turn in matches or view.turns)
    if matches:
        raise UsageError(f"{wanted!r} is the beginning of {len(matches)} turns: {names}")
    raise UsageError(f"run {view.run} has no turn {wanted!r}; it has {names or 'none yet'}")


def _put_turn(view: RunView, turn: TurnView) -> None:
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
        # Unchanged: no colours, no wrapping, tabs kept.
        print(clean(text).rstrip("\n"), flush=True)
