"""`logos gc`: remove old checkpoints."""

from dataclasses import asdict
from typing import Annotated

from logos.app.gc import collect_garbage
from logos.cli.options import AsJson, WorkDir, command, flag, value
from logos.cli.output import console as show
from logos.views.text import count


@command(
    "logos gc --dry-run                # what would be removed",
    "logos gc                          # by checkpoints.keep_days and checkpoints.keep_runs",
    "logos gc --keep-days 0 --keep-runs 1",
)
def gc(
    keep_days: Annotated[
        int | None, value("N", "Keep checkpoints of runs that ended less than N days ago.", min=0)
    ] = None,
    keep_runs: Annotated[
        int | None, value("N", "Always keep checkpoints of the newest N runs of a work dir.", min=0)
    ] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only show what would be removed.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove the checkpoints of runs that ended long ago, in all work dirs of this repository.

    It also removes the mirrors of logs whose work dir no longer exists, and branches of abandoned builds on which
    nobody has committed anything.
    It never removes those of a run that can still continue, your branches, or a log: a run without checkpoints can
    still be read. Defaults are checkpoints.keep_days and checkpoints.keep_runs. It is safe while runs are driven.
    """
    done = collect_garbage(keep_days=keep_days, keep_runs=keep_runs, dry_run=dry_run, wd=wd)
    for note in (*done.notes, *(f"not removed, it is in use: {name}" for name in done.in_use)):
        show.tell(f"warning: {note}")
    if as_json:
        removed = [
            {"what": part.what, "why": part.why, "refs": [ref.name for ref in part.refs], "folders": part.folders}
            for part in done.removed
        ]
        show.document({**asdict(done), "removed": removed})
        return
    target = show.console()
    if not done.removed:
        show.put(target, f"nothing to remove (keep_days = {done.keep_days}, keep_runs = {done.keep_runs})")
        return
    refs = folders = 0
    for removal in done.removed:
        refs, folders = refs + len(removal.refs), folders + len(removal.folders)
        amount = count(len(removal.refs), "ref") if removal.refs else count(len(removal.folders), "folder")
        show.put(target, f"{removal.what} ({removal.why}): {amount}")
    does = "would remove" if done.dry_run else "removed"
    show.put(target, f"{does} {count(refs, 'ref')} and {count(folders, 'folder')}", "bold")
    if refs:
        freed = count(done.commits_freed, "commit")
        show.put(target, f"git frees the space of {freed} that nothing else holds at its next `git gc`")
