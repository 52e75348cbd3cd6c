"""`logos reset`: abandon the unfinished run."""

from typing import Annotated

from logos.app.rollback import reset as reset_run
from logos.app.workdir import wd_flag
from logos.cli.options import AsJson, OneRun, WorkDir, command, flag
from logos.cli.output import console as show
from logos.cli.rollback import REPLACED


@command(
    "logos reset                # abandon the unfinished run; the files stay as they are",
    "logos reset --files        # also restore the files it started with",
)
def reset(
    run: OneRun = None,
    files: Annotated[bool, flag("--files", "Also restore the files that the run started with.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Abandon the unfinished run: its agents and worktrees end, and the next `logos run` or `build` starts anew.

    Nothing is lost: its log, its checkpoints and its work are kept, and `logos rollback RUN` returns to it.
    """
    done = reset_run(run, files=files, wd=wd)
    if as_json:
        show.document({"run": done.run, "kept": done.kept or None, "files_restored": bool(done.kept)})
        return
    target, flag = show.console(), wd_flag(done.wd)
    restored = ", and the files it started with are restored" if done.kept else ""
    show.put(target, f"run {done.run} is abandoned{restored}", "bold")
    commands = [(f"logos rollback {done.run}{flag}", "return to where it was left")]
    if done.kept:
        commands.append((f"logos rollback --files {done.kept[:12]}{flag}", REPLACED))
    show.put_next(target, commands)
