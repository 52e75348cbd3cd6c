"""`logos fork`: another run from a checkpoint, in its own worktree."""

from pathlib import Path
from typing import Annotated, Any

from logos.app.rollback import NewRun
from logos.app.rollback import fork as fork_run
from logos.cli.completion import known_events
from logos.cli.options import AsJson, OneRun, WorkDir, command, value
from logos.cli.output import console as show

EVENT = value("EVENT", "An event's number, a turn's id or a date; default: the newest.", autocompletion=known_events)


@command(
    "logos fork                          # the newest run, from where it stands",
    "logos fork k3ab --at 12             # from event 12; `logos log k3ab` and `logos sessions` show the numbers",
    "logos fork k3ab --at r1.programmer.c1 --to ../second-try",
)
def fork(
    run: OneRun = None,
    at: Annotated[str | None, EVENT] = None,
    to: Annotated[Path | None, value("DIR", "The folder of the worktree; default: beside this one.")] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Start another run from a checkpoint of a run, in a new git worktree, so that two attempts can run side by side.

    The run it starts from is not changed, and may go on meanwhile. The fork has new agents: each gets what was said
    in its role so far. `logos compare` compares both runs.
    """
    started = fork_run(run, at=at, to=to, wd=wd)
    if as_json:
        show.document(new_run_document(started))
        return
    target, parent = show.console(), started.at
    show.put(target, f"run {started.run} is forked from event {parent.seq} of {parent.run}, in {started.wd}", "bold")
    show.put(target, f"its branch there is logos-fork/{started.run}; run {parent.run} stays as it is", "dim")
    next_step = (started.next_command, "answer its question" if started.blocked else "continue it there")
    show.put_next(target, [next_step, (f"logos compare {parent.run} {started.run}", "both side by side")])


def new_run_document(started: NewRun) -> dict[str, Any]:
    origin = {"forked_from": started.at.run, "at": started.at.seq, "wd": str(started.wd)}
    files = {"commit": started.at.commit or None, "kept": started.kept or None, "files_restored": started.restored}
    return {"run": started.run, **origin, **files, "next": started.next_command}
