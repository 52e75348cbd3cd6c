"""`logos show`: the turns of a run, or one prompt and its response in full."""

import re
from typing import Annotated

from rich.console import Console

from logos.app.activity import Transcript, transcript
from logos.app.registry import place_of_run
from logos.app.runs import read_status
from logos.cli.completion import known_runs_and_turns, known_turns
from logos.cli.options import AsJson, WorkDir, argument, command, flag
from logos.cli.output import console as page
from logos.domain.steps import StepKind
from logos.errors import UsageError
from logos.views.document import VERSION, TimelineDocument, TranscriptStepDocument, TurnDocument
from logos.views.events import Severity, severity_of
from logos.views.redact import clean
from logos.views.run import RunView, TurnView
from logos.views.text import count, duration, number
from logos.views.usage import in_words

RUN = argument("RUN", "A run id or its beginning, or a turn of the newest run.", autocompletion=known_runs_and_turns)
TURN = argument("TURN", "A turn id or its beginning; default: list the turns.", autocompletion=known_turns)
# A run's id has no dot.
_TURN = re.compile(r"[rs]\d+\.")
_MARKS = {
    StepKind.CALL: (">", "bold"),
    StepKind.MESSAGE: ("*", ""),
    StepKind.RESULT: (" ", "dim"),
    StepKind.RETRY: ("! tries again:", page.STYLES[Severity.WARNING]),
    StepKind.REFUSED: ("! not allowed:", page.STYLES[Severity.BAD]),
}


@command(
    "logos show k3                    # the turns of the run whose id begins with k3",
    "logos show k3 r1.tester          # prompt and response of that turn",
    "logos show k3 r2.verify --json",
    "logos show k3 s1.L2.cart.author  # of a build: level 2, component cart",
    "logos show r2.tester             # of the newest run",
    "logos show r2.tester --transcript   # what its agent did: messages, tool calls and their results",
)
def show(
    run: Annotated[str | None, RUN] = None,
    turn: Annotated[str | None, TURN] = None,
    steps: Annotated[
        bool, flag("--transcript", "Show what the agent did in the turn, step by step, as its CLI printed it.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """List the turns of a run, or show the whole prompt and response of one. Secrets are redacted."""
    if turn is None and run is not None and _TURN.match(run):
        run, turn = None, run
    place = place_of_run(run, wd)
    status = read_status(place, run)
    found = _find_turn(status.view, turn) if turn is not None else None
    if steps and found is None:
        raise UsageError("--transcript needs a turn: logos show RUN TURN --transcript")
    done = transcript(place, status.view, found) if steps and found is not None else None
    if as_json and found is not None:
        told = [TranscriptStepDocument.of(step) for step in done.steps] if done is not None else None
        texts = {"prompt": found.prompt, "response": found.response, "steps": told}
        page.document({"version": VERSION, "run": status.view.run, **TurnDocument.of(found), **texts})
    elif as_json:
        page.document(TimelineDocument.of(status))
    elif found is not None:
        _put_turn(status.view, found, done)
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


def _put_turn(view: RunView, turn: TurnView, done: Transcript | None) -> None:
    target = page.console()
    took = f", {duration(turn.seconds)}" if turn.seconds is not None else ", not answered yet"
    page.put(target, f"run {view.run}, turn {turn.turn} ({turn.who}{took})", "bold")
    if turn.bills:
        page.put(target, f"usage: {in_words(turn.usage)}")
    if turn.verdict:
        page.put(target, f"verdict: {turn.verdict}", page.STYLES[severity_of(turn.verdict)])
    if turn.failure:
        page.put(target, f"failed: {turn.failure}", page.STYLES[Severity.BAD])
    if done is not None:
        _put_steps(target, done)
        return
    for title, text in (("prompt", turn.prompt), ("response", turn.response)):
        page.put(target, f"\n--- {title}, {number(len(text))} characters ---", "bold cyan")
        # Unchanged: no colours, no wrapping, tabs kept.
        print(clean(text).rstrip("\n"), flush=True)


def _put_steps(target: Console, done: Transcript) -> None:
    left_out = f", the last of {number(len(done.steps) + done.left_out)}" if done.left_out else ""
    page.put(target, f"\n--- {count(len(done.steps), 'step')}{left_out} ---", "bold cyan")
    for step in done.steps:
        mark, style = _MARKS[step.kind]
        for line in step.text.splitlines():
            page.put(target, f"{mark} {line}".rstrip(), style)
            mark = " " * len(mark)
