"""`logos stop`: end the driver of a work dir."""

from typing import Annotated

from logos.app.detach import stop as stop_driver
from logos.app.workdir import wd_flag
from logos.cli.options import AsJson, WorkDir, argument, command, known_runs, value
from logos.cli.output import console as show
from logos.flows.fold import UNFINISHED

RUN = "End the driver only if it drives this run; default: whichever run it drives."


@command(
    "logos stop                 # end the driver here; the run can be resumed",
    "logos stop k3ab            # only if it drives this run, which may be a fork in another worktree",
    "logos stop --timeout 300   # wait longer for it to end",
)
def stop(
    run: Annotated[str | None, argument("RUN", RUN, autocompletion=known_runs)] = None,
    timeout: Annotated[float, value("SECONDS", "How long to wait for its end.", min=0)] = 60.0,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """End the driver of a run or build in order, as Ctrl-C in its terminal would, and wait until it has ended.

    Exit codes: 0 it has ended, 1 it has not ended within the timeout, 2 no driver is running or it drives another run.
    """
    done = stop_driver(run, wd=wd, timeout=timeout, tell=show.tell)
    view, at = done.view, wd_flag(done.place)
    resume = f"logos resume {view.run}{at}" if view is not None and view.outcome in UNFINISHED else None
    if as_json:
        outcome = view.outcome if view is not None else None
        show.document({"run": view.run if view else None, "pid": done.pid, "outcome": outcome, "next": resume})
        return
    name = f"{view.words.run} {view.run}" if view is not None else "no run had begun"
    ended = f"{name} has ended: {view.outcome}" if view is not None and resume is None else f"{name}; next: {resume}"
    show.put(show.console(), f"the driver (pid {done.pid}) has ended; {ended if view else name}", "bold")
