"""`logos gc`: remove old checkpoints, and what agents of runs left that ended long ago."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from logos.app.gc import Collected, collect_garbage
from logos.cli.options import AsJson, WorkDir, examples
from logos.cli.output import console as show
from logos.views.text import count

EXAMPLES = examples(
    "logos gc --dry-run                # what would be removed",
    "logos gc                          # by checkpoints.keep_days and checkpoints.keep_runs",
    "logos gc --keep-days 0 --keep-runs 1",
)

KeepDays = Annotated[
    int | None,
    typer.Option("--keep-days", min=0, metavar="N", help="Keep checkpoints of runs that ended less than N days ago."),
]
KeepRuns = Annotated[
    int | None,
    typer.Option("--keep-runs", min=0, metavar="N", help="Always keep checkpoints of the newest N runs of a work dir."),
]


def gc(
    keep_days: KeepDays = None,
    keep_runs: KeepRuns = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Remove the checkpoints of runs that ended long ago, in all work dirs of this repository.

    It also removes the mirrors of logs whose work dir no longer exists.
    It never removes those of a run that can still continue, your branches, or a log: a run without checkpoints can
    still be read. Defaults are checkpoints.keep_days and checkpoints.keep_runs. It is safe while runs are driven.
    """
    done = collect_garbage(keep_days=keep_days, keep_runs=keep_runs, dry_run=dry_run, wd=wd)
    for note in (*done.notes, *(f"not removed, it is in use: {name}" for name in done.in_use)):
        show.tell(f"warning: {note}")
    if as_json:
        show.document(as_document(done))
    else:
        put_removed(done)
    return 0


def put_removed(done: Collected) -> None:
    target = show.console()
    if not done.removed:
        show.put(target, f"nothing to remove (keep_days = {done.policy.days}, keep_runs = {done.policy.runs})")
        return
    for removal in done.removed:
        amount = count(len(removal.refs), "ref") if removal.refs else count(len(removal.folders), "folder")
        show.put(target, f"{removal.what} ({removal.why}): {amount}")
    refs = sum(len(removal.refs) for removal in done.removed)
    folders = sum(len(removal.folders) for removal in done.removed)
    does = "would remove" if done.dry_run else "removed"
    show.put(target, f"{does} {count(refs, 'ref')} and {count(folders, 'folder')}", "bold")
    if refs:
        commits = f"{count(done.commits_freed, 'commit')} that nothing else holds"
        show.put(target, f"git frees the space of {commits} at its next `git gc`")


def as_document(done: Collected) -> dict[str, Any]:
    return {
        "dry_run": done.dry_run,
        "keep_days": done.policy.days,
        "keep_runs": done.policy.runs,
        "removed": [
            {
                "what": removal.what,
                "why": removal.why,
                "refs": [ref.name for ref in removal.refs],
                "folders": [str(folder) for folder in removal.folders],
            }
            for removal in done.removed
        ],
        "commits_freed": done.commits_freed,
        "in_use": list(done.in_use),
        "notes": list(done.notes),
    }
