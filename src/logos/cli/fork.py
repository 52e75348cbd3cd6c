"""`logos fork`: another run from any checkpoint of a run, in a worktree of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logos.app.workdir import place_of, wd_flag
from logos.cli.options import AsJson, OneRun, WorkDir, examples
from logos.errors import UsageError

if TYPE_CHECKING:
    from logos.app.revisiting import Begun

EXAMPLES = examples(
    "logos fork                          # the newest run, from where it stands",
    "logos fork k3ab --at 12             # from event 12; `logos log k3ab` and `logos sessions` tell the numbers",
    "logos fork k3ab --at r1.programmer.c1 --to ../second-try",
)


def fork(
    run: OneRun = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="EVENT", help="An event's number, a turn's id or a date; default: the newest."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Where the worktree is made; default: beside this one.")
    ] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Begin another run at a checkpoint of a run, in a new git worktree, so that two attempts can go on side by side.

    The run that is forked stays as it is, and may even be at work meanwhile. Agents of the fork are new: each is told
    what was said in its role so far. `logos compare` shows what came of both.
    """
    from logos.app.checkpoint_names import finding, named, settings_of
    from logos.app.revisiting import find_checkpoint, fork_here, settle
    from logos.cli.output import console as show

    if at is not None and not at.strip():
        raise UsageError("--at names no event")
    wanted = f"{run or ''}@{at}" if at else named(run)
    with finding(place_of(wd), wanted) as found:
        settings = settings_of(found.place)
        settle(settings, found.log, show.tell)
        checkpoint = find_checkpoint(found.place, found.log, found.run, found.seq)
        begun = fork_here(settings, found.log, checkpoint, to, show.tell)
    if as_json:
        show.document(as_document(begun))
    else:
        put(begun)
    return 0


def put(begun: Begun) -> None:
    from logos.cli.output import console as show
    from logos.views.events import Severity

    target, at = show.console(), begun.at
    show.put(target, f"run {begun.run} is forked from event {at.seq} of {at.run}, in {begun.wd}", "bold")
    show.put(
        target, f"its branch there is logos-fork/{begun.run}; run {at.run} stays as it is", show.STYLES[Severity.QUIET]
    )
    go_on = (next_command(begun), "go on with it, there" if not begun.pending_turns else "answer what it asks")
    show.put_next(target, [go_on, (f"logos compare {at.run} {begun.run}", "both side by side")])


def next_command(begun: Begun) -> str:
    """What to type to go on with a run that begins at a checkpoint."""
    if begun.pending_turns:
        return f"logos resolve{wd_flag(begun.wd)}"
    simulated = " --simulate SCRIPT" if begun.simulated else ""
    return f"logos resume {begun.run}{simulated}"


def as_document(begun: Begun) -> dict[str, Any]:
    return {
        "run": begun.run,
        "forked_from": begun.at.run,
        "at": begun.at.seq,
        "wd": str(begun.wd),
        "commit": begun.at.commit or None,
        "kept": begun.kept or None,
        "files_restored": begun.restored,
        "next": next_command(begun),
    }
