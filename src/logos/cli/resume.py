"""`logos resume`: go on with what is unfinished, whichever flow it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logos.app.workdir import CONFIG, LOCK, place_of, wd_flag
from logos.cli.options import AsJson, OneRun, Overrides, Recreate, Simulate, WorkDir, examples
from logos.errors import StateError, UsageError

if TYPE_CHECKING:
    from logos.adapters.store.sqlite import SqliteLog
    from logos.domain.turns import RunId
    from logos.engine.journal import Journal

EXAMPLES = examples(
    "logos resume                         # the newest unfinished run here, a cycle or a build",
    "logos resume k3ab                    # this one, also where it is a fork in another worktree",
    "logos resume --recreate              # after a reboot: new terminals, and every agent is told what it said",
)


def resume(
    run: OneRun = None,
    recreate: Recreate = False,
    settings: Overrides = None,
    simulate: Simulate = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A JSON configuration (default: logos.json there).")
    ] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Go on with an unfinished run where it stands; finished turns are not asked again.

    Exit codes are those of `logos run` and `logos build`.
    """
    from logos.app.checkpoint_names import finding, named
    from logos.cli import build as builds
    from logos.cli import run as runs
    from logos.domain.plans import LevelsPlan

    with finding(place_of(wd), named(run)) as found:
        place, journal = found.place, _unfinished(found.log, found.run if run else None, found.place)
    if getattr(journal.state, "question", None) is not None:
        raise StateError(
            f"build {journal.run} waits for a decision of yours; `logos resolve{wd_flag(place)}` shows it and takes it"
        )
    own = place / CONFIG
    config = config or (own if own.is_file() else None)
    flags = [*(settings or []), *(["handoff.recreate_terminals=1"] if recreate else []), f"wd={place}"]
    again = [part for flag in flags for part in ("--set", flag)] + (["--simulate", str(simulate)] if simulate else [])
    flags.append("resume=1")
    if isinstance(journal.state.plan, LevelsPlan):
        return builds.start("", config, flags, again, allow_dirty=False, simulate=simulate, as_json=as_json)
    _point_state_file(place, config, flags, journal)
    words = [str(config)] if config is not None else []
    return runs.start(words, "", flags, again, as_json=as_json, simulate=simulate)


def _unfinished(log: SqliteLog, wanted: RunId | None, place: Path) -> Journal[Any]:
    from logos.app.checkpoint_names import newest_unfinished
    from logos.app.runs import open_run
    from logos.flows.fold import UNFINISHED

    run = wanted or newest_unfinished(log)
    if run is None:
        raise UsageError(f"nothing unfinished is in {place}; `logos sessions` shows what was done there")
    journal = open_run(log, run)
    if journal.outcome not in UNFINISHED:
        raise UsageError(
            f"run {run} has ended ({journal.outcome}); `logos rollback {run}@EVENT` goes back into it, "
            f"`logos fork {run} --at EVENT` does so beside it"
        )
    return journal


def _point_state_file(place: Path, config: Path | None, flags: list[str], journal: Journal[Any]) -> None:
    """A cycle goes on with the run its state file names: where that is another, it is written anew from the log."""
    from logos.adapters.lock import DriverLock
    from logos.adapters.state_files import read_cycle_state
    from logos.app.checkpoint_names import settings_of
    from logos.app.revisiting import project
    from logos.views.cycle_state import StateDamaged

    settings = settings_of(place, config, flags)
    try:
        saved = read_cycle_state(settings.state_path, settings.provider)
    except StateDamaged:
        return
    if saved is None or (saved.run is not None and saved.run != journal.run):
        with DriverLock(settings.telos_dir / LOCK):
            project(settings, journal)
