"""`logos rollback`: files and state together, as they were at a checkpoint; the run goes on under a new id."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logos.app.workdir import place_of, wd_flag
from logos.cli.options import AsJson, WorkDir, examples
from logos.errors import UsageError

if TYPE_CHECKING:
    from logos.app.revisiting import Begun

EXAMPLES = examples(
    "logos rollback 12                    # event 12 of the newest run",
    "logos rollback k3ab@r1.programmer.c1 # right after that turn",
    "logos rollback 2026-11-14            # as it was at the end of that day",
    "logos rollback k3ab                  # back to where run k3ab was left",
    "logos rollback 12 --files            # the files alone; the run stays where it is",
)
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def rollback(
    checkpoint: Annotated[
        str,
        typer.Argument(metavar="CHECKPOINT", help="An event's number, RUN@NUMBER, RUN, a turn's id, RUN@TURN, a date."),
    ],
    files: Annotated[
        bool, typer.Option("--files", help="Put back the files alone; also takes a commit that a rollback has kept.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Go back to a checkpoint: the files and the state of the run as they were then, under a new run id.

    Nothing is lost: the run that is left stays in the log and can be returned to, and what lies in the work dir is
    kept as a commit first. Your branch, your index and HEAD stay as they are, ignored files too. A build works in
    worktrees of its own, so your files are none of its business and stay.
    """
    place = place_of(wd)
    return _files(place, checkpoint, as_json=as_json) if files else _both(place, checkpoint, as_json=as_json)


def _both(place: Path, checkpoint: str, *, as_json: bool) -> int:
    from logos.app.checkpoint_names import finding, settings_of
    from logos.app.revisiting import find_checkpoint, rollback_here, settle
    from logos.app.wiring import log_of
    from logos.cli.fork import as_document
    from logos.cli.output import console as show

    with finding(place, checkpoint, log_of) as found:
        if found.place != place:
            raise UsageError(f"run {found.run} is in {found.place}: use --wd to roll back there")
        settings = settings_of(place)
        settle(settings, found.log, show.tell)
        at = find_checkpoint(place, found.log, found.run, found.seq)
        begun = rollback_here(settings, found.log, at, show.tell)
    if as_json:
        show.document(as_document(begun))
    else:
        put(begun)
    return 0


def put(begun: Begun) -> None:
    from logos.cli.fork import next_command
    from logos.cli.output import console as show

    target, at, flag = show.console(), begun.at, wd_flag(begun.wd)
    show.put(target, f"run {begun.run} begins at event {at.seq} of {at.run}", "bold")
    show.put(target, _what_became_of_files(begun))
    look = [(f"logos rollback {at.run}{flag}", f"return to where run {at.run} was left")]
    if begun.kept:
        look.insert(0, (f"logos rollback --files {begun.kept[:12]}{flag}", "the files as they lay here a moment ago"))
    if at.goes_on:
        look.insert(0, (next_command(begun), "answer what it asks" if begun.pending_turns else "go on from here"))
    show.put_next(target, look)


def _what_became_of_files(begun: Begun) -> str:
    from logos.domain.plans import LevelsPlan

    if begun.restored:
        kept = f"; what lay here is kept as commit {begun.kept[:12]}" if begun.kept else ""
        return f"the files are as they were then{kept}"
    if isinstance(begun.at.plan, LevelsPlan):
        return f"what was built then is commit {begun.at.commit[:12]}; your own files are as they were"
    return "no checkpoint of the files was kept: they stay as they are, only the state went back"


def _files(place: Path, checkpoint: str, *, as_json: bool) -> int:
    from logos.app.checkpoint_names import settings_of
    from logos.app.revisiting import restore_files
    from logos.cli.output import console as show

    commit = _commit(place, checkpoint)
    kept = restore_files(settings_of(place), commit, show.tell)
    if as_json:
        show.document({"commit": commit, "kept": kept, "wd": str(place)})
        return 0
    target = show.console()
    show.put(target, f"the files are as they were in {commit[:12]}; the run's state is untouched", "bold")
    back = f"logos rollback --files {kept[:12]}{wd_flag(place)}"
    show.put_next(target, [(back, "the files as they lay here a moment ago")])
    return 0


def _commit(place: Path, checkpoint: str) -> str:
    from logos.adapters.git.snapshots import kept_commit
    from logos.app.checkpoint_names import finding
    from logos.app.revisiting import find_checkpoint
    from logos.domain.plans import LevelsPlan

    if _COMMIT.fullmatch(checkpoint) and (kept := kept_commit(place, checkpoint)):
        return kept
    with finding(place, checkpoint) as found:
        at = find_checkpoint(found.place, found.log, found.run, found.seq)
    if isinstance(at.plan, LevelsPlan):
        raise UsageError(f"run {at.run} is a build: your files are none of its business, so none of them were kept")
    if not at.commit:
        raise UsageError(f"the files of run {at.run} at event {at.seq} were not kept")
    return at.commit
