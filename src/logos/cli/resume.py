"""`logos resume`: continue the unfinished run or build."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from logos.app.start import prepare_resume
from logos.cli import build, run
from logos.cli.options import AsJson, OneRun, Overrides, Recreate, Simulate, WorkDir, examples

EXAMPLES = examples(
    "logos resume                         # the newest unfinished run here, a cycle or a build",
    "logos resume k3ab                    # this one, also where it is a fork in another worktree",
    "logos resume --recreate              # after a reboot: new terminals, and every agent gets what it said before",
)


def resume(
    run_id: OneRun = None,
    recreate: Recreate = False,
    settings: Overrides = None,
    simulate: Simulate = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A JSON configuration (default: logos.json there).")
    ] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Continue an unfinished run where it stopped; finished turns are not asked again.

    Exit codes are those of `logos run` and `logos build`.
    """
    overrides = [*(settings or []), *(["handoff.recreate_terminals=1"] if recreate else [])]
    prepared = prepare_resume(run_id, overrides=overrides, config=config, wd=wd)
    view = prepared.view
    again = [part for override in prepared.overrides for part in ("--set", override)]
    again += ["--simulate", str(simulate)] if simulate else []
    flags = [*prepared.overrides, "resume=1"]
    if view.build is not None:
        return build.start(
            "", prepared.config, flags, again, allow_dirty=False, simulate=simulate, as_json=as_json, known=view
        )
    words = [str(prepared.config)] if prepared.config is not None else []
    return run.start(words, "", flags, again, as_json=as_json, simulate=simulate, known=view)
