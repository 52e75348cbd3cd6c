"""`logos rollback`: restore files and run state to a checkpoint."""

from dataclasses import asdict
from typing import Annotated

from logos.app.rollback import NewRun, restore_files
from logos.app.rollback import rollback as roll_back
from logos.app.workdir import wd_flag
from logos.cli.fork import new_run_document
from logos.cli.options import CHECKPOINT, AsJson, WorkDir, command, flag
from logos.cli.output import console as show
from logos.flows.fold import UNFINISHED

REPLACED = "the files that were just replaced"


@command(
    "logos rollback 12                    # event 12 of the newest run",
    "logos rollback k3ab@r1.programmer.c1 # right after that turn",
    "logos rollback 2026-11-14            # as it was at the end of that day",
    "logos rollback k3ab                  # back to where run k3ab was left",
    "logos rollback 12 --files            # the files alone; the run stays where it is",
)
def rollback(
    checkpoint: Annotated[str, CHECKPOINT],
    files: Annotated[
        bool, flag("--files", "Restore the files alone; also takes a commit that a rollback has kept.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Restore the files and the state of a run to a checkpoint, under a new run id.

    Nothing is lost: the old run stays in the log and can be returned to, and the replaced files are kept as a commit
    first. Your branch, your index, HEAD and ignored files stay as they are. Rolling back a build never changes your
    files.
    """
    if files:
        restored = restore_files(checkpoint, wd=wd)
        if as_json:
            show.document(asdict(restored))
            return
        target, commit = show.console(), restored.commit[:12]
        show.put(target, f"the files are as they were in {commit}; the run state is unchanged", "bold")
        show.put_next(target, [(f"logos rollback --files {restored.kept[:12]}{wd_flag(restored.wd)}", REPLACED)])
        return
    started = roll_back(checkpoint, wd=wd)
    if as_json:
        show.document(new_run_document(started))
        return
    target, at, flag = show.console(), started.at, wd_flag(started.wd)
    show.put(target, f"run {started.run} starts from event {at.seq} of {at.run}", "bold")
    show.put(target, _files_text(started))
    commands = [(f"logos rollback {at.run}{flag}", f"return to where run {at.run} was left")]
    if started.kept:
        commands.insert(0, (f"logos rollback --files {started.kept[:12]}{flag}", REPLACED))
    if at.state.outcome in UNFINISHED:
        commands.insert(0, (started.next_command, "answer its question" if started.blocked else "continue from here"))
    show.put_next(target, commands)


def _files_text(started: NewRun) -> str:
    if started.restored:
        kept = f"; the replaced files are kept as commit {started.kept[:12]}" if started.kept else ""
        return f"the files are as they were then{kept}"
    if started.at.state.head is not None:
        return f"what was built then is commit {started.at.commit[:12]}; your own files are as they were"
    return "no checkpoint of the files was kept: they stay as they are, only the run state was rolled back"
