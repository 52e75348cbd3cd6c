"""`logos record`: a run as a script, so that it can be replayed without agents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from logos.app.report import script_of, script_text, write_output
from logos.app.runs import load_run
from logos.app.workdir import find_run, place_of, reading
from logos.cli.options import AsJson, OneRun, WorkDir, examples
from logos.cli.output import console as show

EXAMPLES = examples(
    "logos record -o replay.yaml",
    "logos record k3 --delays > replay.yaml",
    "logos run --simulate replay.yaml --fresh      # replay it, with the same configuration",
)


def record(
    run: OneRun = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE; default: stdout.")
    ] = None,
    delays: Annotated[bool, typer.Option("--delays", help="Let each turn take as long as it did.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Write a run as a script for `logos run --simulate`: every agent's responses, turn by turn, with their usage.

    File changes of agents are not in the log, so the script does not contain them. Secrets are redacted.
    """
    with reading(place_of(wd)) as log:
        view = load_run(log, find_run(log, run))
    script = script_of(view, delays=delays)
    if output is not None:
        write_output(output, script_text(view, script), force=force)
        show.tell(f"{output}: {len(script['turns'])} turns of run {view.run}")
    if as_json:
        show.document(script)
    elif output is None:
        # Not printed by `put`: a blank line at the end may be part of a response.
        sys.stdout.write(script_text(view, script))
    return 0
