"""`logos reset`: give up what is unfinished, so that the next run begins anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from logos.app.workdir import LOCK, place_of, wd_flag
from logos.cli.options import AsJson, OneRun, WorkDir, examples
from logos.errors import UsageError

if TYPE_CHECKING:
    from logos.app.checkpoint_names import MatchedRun
    from logos.engine.journal import Journal

EXAMPLES = examples(
    "logos reset                # the unfinished run is given up, the files stay as they are",
    "logos reset --files        # the files are put back as they were before it began, too",
)


def reset(
    run: OneRun = None,
    files: Annotated[
        bool, typer.Option("--files", help="Also put the files back as they were when the run began.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Give up the unfinished run: its agents and worktrees end, and the next `logos run` or `build` begins anew.

    Nothing is lost: its log, its checkpoints and its work are kept, and `logos rollback RUN` returns to it.
    """
    from logos.adapters.lock import DriverLock
    from logos.app.checkpoint_names import finding, named, settings_of
    from logos.app.revisiting import end_run, find_checkpoint, restore_files, settle
    from logos.app.wiring import log_of
    from logos.cli.output import console as show
    from logos.domain.plans import CyclePlan

    place = place_of(wd)
    with finding(place, named(run), log_of) as found:
        settings, journal = settings_of(found.place), _unfinished(found, run)
        settle(settings, found.log, show.tell)
        began = find_checkpoint(found.place, found.log, journal.run, first_own(found, journal))
        restores = files and isinstance(began.plan, CyclePlan)
        if restores and not began.commit:
            raise UsageError(f"the files that run {journal.run} began with were not kept: reset it without --files")
        with DriverLock(settings.telos_dir / LOCK):
            end_run(settings, journal, "reset by a person", show.tell)
        kept = restore_files(settings, began.commit, show.tell) if restores else ""
    flag = wd_flag(found.place)
    if as_json:
        show.document({"run": journal.run, "kept": kept or None, "files_restored": restores})
        return 0
    target = show.console()
    show.put(target, f"run {journal.run} is given up{', and its files are as before it' if restores else ''}", "bold")
    look = [(f"logos rollback {journal.run}{flag}", "return to where it was left")]
    if kept:
        look.append((f"logos rollback --files {kept[:12]}{flag}", "the files as they lay here a moment ago"))
    show.put_next(target, look)
    return 0


def _unfinished(found: MatchedRun, wanted: str | None) -> Journal[object]:
    from logos.app.checkpoint_names import newest_unfinished
    from logos.app.runs import open_run
    from logos.flows.fold import UNFINISHED

    run = found.run if wanted else newest_unfinished(found.log)
    if run is None:
        raise UsageError(f"nothing unfinished is in {found.place}")
    journal = open_run(found.log, run)
    if journal.outcome not in UNFINISHED:
        raise UsageError(f"run {run} has ended ({journal.outcome}): there is nothing to give up")
    return journal


def first_own(found: MatchedRun, journal: Journal[object]) -> int:
    """The event at which a run became its own."""
    from logos.domain.events import RunForked, RunStarted

    begins = [r.seq for r in found.log.read(journal.run) if isinstance(r.event, RunStarted | RunForked)]
    return begins[-1]
