"""`logos record`: a run as a script that replays it without agents."""

import sys
from typing import Annotated

from logos.app.recording import file_edits
from logos.app.registry import place_of_run
from logos.app.report import script_of, script_text, write_output
from logos.app.runs import read_status
from logos.cli.options import AsJson, OneRun, Output, WorkDir, command, flag
from logos.cli.output import console as show


@command(
    "logos record -o replay.yaml",
    "logos record k3 --delays > replay.yaml",
    "logos run --simulate replay.yaml --fresh      # replay it, with the same configuration",
)
def record(
    run: OneRun = None,
    output: Output = None,
    delays: Annotated[bool, flag("--delays", "Let each turn take as long as it did.")] = False,
    force: Annotated[bool, flag("--force", "Overwrite FILE.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Write a run as a script for `logos run --simulate`: every response, turn by turn, with usage and file changes.

    The files come from the checkpoints, in a build from the authors' commits: ignored files are not in them, and
    `logos gc` may have removed them; what is missing is said. Secrets are redacted, in responses and in files.
    """
    place = place_of_run(run, wd)
    view = read_status(place, run).view
    edits = file_edits(place, view)
    script = script_of(view, edits.by_turn, delays=delays)
    if output is not None:
        write_output(output, script_text(view, script, edits.gaps), force=force)
        show.tell(f"{output}: {len(script['turns'])} turns of run {view.run}, {len(edits.by_turn)} with file changes")
    for gap in edits.gaps:
        show.tell(f"not in the script: {gap}")
    if as_json:
        show.document(script)
    elif output is None:
        # Not printed by `put`: a blank line at the end may be part of a response.
        sys.stdout.write(script_text(view, script, edits.gaps))
