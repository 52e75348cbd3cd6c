"""`logos diff`: what changed in the files between two checkpoints, and what happened in the run meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from logos.app.diff import ChangedFile, Diff, DiffSide
from logos.app.diff import diff as find_diff
from logos.cli.options import AsJson, WorkDir, examples
from logos.cli.output import console as show
from logos.views.document import turn_document
from logos.views.document_shapes import FileDocument
from logos.views.text import duration

EXAMPLES = examples(
    "logos diff 12                     # from event 12 of the newest run to the files here now",
    "logos diff 12 30 --stat           # between two events; `logos log` and `logos sessions` show the numbers",
    "logos diff k3ab@r1.programmer.c1 r1.programmer.c2",
    "logos diff 2026-11-14             # since the last event of that day",
    "logos diff k3ab k9cd              # between the ends of two runs",
    "logos diff 30 12 | git apply      # undo in the files what was done in between",
)

First = Annotated[
    str, typer.Argument(metavar="A", help="An event's number, RUN@NUMBER, RUN, a turn's id, RUN@TURN, a date.")
]
Second = Annotated[
    str | None,
    typer.Argument(metavar="B", help="The same, of A's run unless it names another; default: the files now."),
]


def diff(
    a: First,
    b: Second = None,
    stat: Annotated[bool, typer.Option("--stat", help="A line for each file instead of the patch.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Show the changes of files between two checkpoints as a patch; in a pipe it can be read by `git apply`.

    The turns in between are listed on stderr. Without B, A is compared with the files in the work dir now; of a build,
    with its newest head.
    """
    found = find_diff(a, b, wd=wd, tell=show.tell)
    if as_json:
        show.document(as_document(found, stat=stat))
        return 0
    put_turns(found)
    for side in found.missing:
        show.tell(f"the files at {side.name} were not kept: {side.why_not_kept}")
    if not found.missing:
        put_changes(found, stat=stat)
    return 0


def put_turns(found: Diff) -> None:
    """List the turns on stderr: stdout is for the patch."""
    target, turns = show.console(stderr=True), found.turns
    show.put(target, f"from {found.one.name} to {found.other.name}", "dim")
    rows = [
        (
            turn.turn,
            turn.who,
            "" if turn.seconds is None else duration(turn.seconds),
            turn.verdict or (f"failed: {turn.failure}" if turn.failure else ""),
        )
        for turn in turns or ()
    ]
    for line in show.columns(("",) * 4, rows)[1:]:
        show.put(target, f"  {line}", "dim")
    if turns is not None and not rows:
        show.put(target, "  no turn ended between them", "dim")


def put_changes(found: Diff, *, stat: bool) -> None:
    """In a pipe the patch is written byte by byte; on a terminal it is coloured and cleaned."""
    target = show.console()
    if stat:
        for line in found.stat() or ["no file differs"]:
            show.put(target, line)
        return
    patch = found.patch()
    if not patch:
        show.tell("no file differs")
    elif sys.stdout.isatty():
        show.put_diff(target, found.patch_text())
    else:
        sys.stdout.buffer.write(patch)
        sys.stdout.flush()


def as_document(found: Diff, *, stat: bool) -> dict[str, Any]:
    kept, turns = not found.missing, found.turns
    return {
        "from": side_as_json(found.one),
        "to": side_as_json(found.other),
        "timeline": None if turns is None else [turn_document(turn) for turn in turns],
        "files": files_as_json(found.files()) if kept else None,
        "patch": found.patch_text() if kept and not stat else None,
    }


def side_as_json(side: DiffSide) -> dict[str, Any]:
    return {
        "run": side.view.run,
        "event": side.seq,
        "commit": side.commit or None,
        "wd": str(side.place),
        "not_kept": None if side.commit else side.why_not_kept,
    }


def files_as_json(files: Sequence[ChangedFile]) -> list[FileDocument]:
    return [{"path": file.path, "added": file.added, "deleted": file.deleted} for file in files]
