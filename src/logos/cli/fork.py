"""`logos fork`: start another run from a checkpoint of a run, in its own worktree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from logos.app.checkpoints import NewRun
from logos.app.rollback import fork as fork_run
from logos.cli.options import AsJson, OneRun, WorkDir, examples
from logos.cli.output import console as show
from logos.views.events import Severity

EXAMPLES = examples(
    "logos fork                          # the newest run, from where it stands",
    "logos fork k3ab --at 12             # from event 12; `logos log k3ab` and `logos sessions` show the numbers",
    "logos fork k3ab --at r1.programmer.c1 --to ../second-try",
)


def fork(
    run: OneRun = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="EVENT", help="An event's number, a turn's id or a date; default: the newest."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="The folder of the worktree; default: beside this one.")
    ] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Start another run from a checkpoint of a run, in a new git worktree, so that two attempts can run side by side.

    The forked run stays as it is, and may even be running meanwhile. The fork has new agents: each gets what was said
    in its role so far. `logos compare` compares both runs.
    """
    started = fork_run(run, at=at, to=to, wd=wd, tell=show.tell)
    if as_json:
        show.document(as_document(started))
    else:
        put(started)
    return 0


def put(started: NewRun) -> None:
    target, at = show.console(), started.at
    show.put(target, f"run {started.run} is forked from event {at.seq} of {at.run}, in {started.wd}", "bold")
    note = f"its branch there is logos-fork/{started.run}; run {at.run} stays as it is"
    show.put(target, note, show.STYLES[Severity.QUIET])
    next_step = (started.next_command, "answer its question" if started.blocked else "continue it there")
    show.put_next(target, [next_step, (f"logos compare {at.run} {started.run}", "both side by side")])


def as_document(started: NewRun) -> dict[str, Any]:
    return {
        "run": started.run,
        "forked_from": started.at.run,
        "at": started.at.seq,
        "wd": str(started.wd),
        "commit": started.at.commit or None,
        "kept": started.kept or None,
        "files_restored": started.restored,
        "next": started.next_command,
    }
