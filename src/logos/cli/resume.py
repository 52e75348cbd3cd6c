"""`logos resume`: continue the unfinished run or build."""

from pathlib import Path
from typing import Annotated

from typer import Context

from logos.app.start import prepare_resume
from logos.cli import drive
from logos.cli.build import run_levels
from logos.cli.options import AsJson, OneRun, WorkDir, command, value
from logos.cli.run import run_cycle


@command(
    "logos resume                         # the newest unfinished run here, a cycle or a build",
    "logos resume k3ab                    # this run, even if it is a fork in another worktree",
    "logos resume --recreate              # after a reboot: new terminals, and every agent gets what it said before",
)
def resume(
    context: Context,
    run: OneRun = None,
    recreate: drive.Recreate = False,
    reread: drive.Reread = False,
    from_state: drive.FromState = False,
    settings: drive.Overrides = None,
    simulate: drive.Simulate = None,
    detach: drive.Detach = False,
    config: Annotated[Path | None, value("FILE", "A JSON configuration (default: logos.json there).")] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Continue an unfinished run where it stopped; finished turns are not asked again.

    Exit codes are those of `logos run` and `logos build`.
    """
    overrides = [*(settings or []), *([drive.RECREATE] if recreate else [])]
    prepared = prepare_resume(run, overrides=overrides, config=config, wd=wd)
    if detach:
        return drive.detach(prepared.place, context, stdin=False, as_json=as_json)
    known, config, flags = prepared.view, prepared.config, [*prepared.overrides, "resume=1"]
    again = drive.repeated(prepared.overrides, simulate)
    if known.build is not None:
        return run_levels("", config, flags, again, simulate=simulate, as_json=as_json, known=known, reread=reread)
    words = [str(config)] if config is not None else []
    ways = drive.Ways(reread=reread, from_state=from_state)
    return run_cycle(words, "", flags, again, simulate=simulate, as_json=as_json, known=known, ways=ways)
