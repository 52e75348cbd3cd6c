"""`logos diff`: what changed between two checkpoints."""

import sys
from dataclasses import asdict
from typing import Annotated, Any

from logos.app.checkpoints import Checkpoint
from logos.app.diff import Diff
from logos.app.diff import diff as find_diff
from logos.cli.options import FROM, TO, AsJson, WorkDir, command, flag
from logos.cli.output import console as show
from logos.views.document import TurnDocument
from logos.views.text import duration

_HEADERS = ("turn", "agent", "took", "verdict")


@command(
    "logos diff                        # what the newest run changed: from its start to the files here now",
    "logos diff k3ab                   # what run k3ab did",
    "logos diff 12                     # from event 12 of the newest run to the files here now",
    "logos diff 12 30 --stat           # between two events; `logos log` and `logos sessions` show the numbers",
    "logos diff k3ab@r1.programmer.c1 r1.programmer.c2",
    "logos diff 2026-11-14             # since the last event of that day",
    "logos diff k3ab k9cd              # between the ends of two runs",
    "logos diff 30 12 | git apply      # undo in the files what was done in between",
)
def diff(
    a: Annotated[str | None, FROM] = None,
    b: Annotated[str | None, TO] = None,
    stat: Annotated[bool, flag("--stat", "A line for each file instead of the patch.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Show the changes of files between two checkpoints as a patch; in a pipe it can be read by `git apply`.

    The turns in between are listed on stderr. Without A and B: what the newest run has changed until now. A run alone:
    what it did. Any other A alone is compared with the files in the work dir now; of a build, with its newest head.
    """
    found = find_diff(a, b, wd=wd)
    if as_json:
        turns = None if found.turns is None else [TurnDocument.of(turn) for turn in found.turns]
        sides = {"from": _side_document(found.one), "to": _side_document(found.other)}
        show.document({**sides, "timeline": turns, **changes_document(found, patch=not stat)})
        return
    # Stdout is for the patch.
    target = show.console(stderr=True)
    show.put(target, f"from {found.one.name} to {found.other.name}", "dim")
    rows = [
        (turn.turn, turn.who, "" if turn.seconds is None else duration(turn.seconds), show.result_of(turn))
        for turn in found.turns or ()
    ]
    width = show.width_of(target)
    for lines in show.columns(_HEADERS, rows, width and width - 2, folds=("verdict",), spare=("agent", "took"))[1:]:
        show.put(target, "\n".join(f"  {line}" for line in lines), "dim", whole=True)
    if found.turns is not None and not rows:
        show.put(target, "  no turn ended between them", "dim")
    for side in found.missing:
        show.tell(f"the files at {side.name} were not kept: {side.why_not_kept}")
    if not found.missing:
        put_changes(found, stat=stat)


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


def _side_document(side: Checkpoint) -> dict[str, Any]:
    event, not_kept = None if side.now else side.seq, None if side.commit else side.why_not_kept
    known = {"run": side.run, "event": event, "commit": side.commit or None, "wd": str(side.place)}
    return {**known, "not_kept": not_kept}


def changes_document(found: Diff, *, patch: bool) -> dict[str, Any]:
    """The changed files, and with `patch` their whole difference; null where the files of a side were not kept."""
    if found.missing:
        return {"files": None, "patch": None}
    return {"files": [asdict(file) for file in found.files()], "patch": found.patch_text() if patch else None}
