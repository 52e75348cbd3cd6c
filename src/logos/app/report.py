"""Documents made of a run: its continuity report, and a script to replay it without agents."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from logos.adapters.files import write_atomically
from logos.adapters.git.workspace import diff_stat
from logos.adapters.hosts.script import Otherwise, as_yaml
from logos.app.checkpoints import files_at, locate, match, run_name
from logos.app.runs import status_of
from logos.app.workdir import reading, wd_flag
from logos.errors import HostError, LogError, UsageError
from logos.views.continuity.report import ContinuityReport, continuity
from logos.views.redact import redact
from logos.views.run import RunView, TurnView
from logos.views.sessions import session_since
from logos.views.status import next_command
from logos.views.text import date
from logos.views.turns import LOGOS


def report_on(work_dir: Path, run: str | None, since: str) -> ContinuityReport:
    """The report of the newest run, or of the run whose id begins with `run`; `since` is a session or a date."""
    name = locate(work_dir, run_name(run))
    with reading(name.place) as log:
        view, _ = match(log, name)
    status = status_of(name.place, view)
    session = session_since(view.sessions, since, view.run)
    files = _changed_files(name.place, view, session.first)
    return continuity(status, session.number, next_command(status, wd_flag(name.place)), files)


def _changed_files(work_dir: Path, view: RunView, since: int) -> list[str]:
    """The files that changed from an event on, one line each; none where no checkpoints were kept."""
    try:
        old, new = files_at(work_dir, view, since), files_at(work_dir, view, len(view.records))
        return diff_stat(work_dir, old, new) if old and new and old != new else []
    except (HostError, LogError):
        return []


def script_of(view: RunView, *, delays: bool) -> dict[str, Any]:
    """The responses of a run, turn by turn, with their usage; with `delays` also with their duration."""
    if view.build is not None:
        raise UsageError(
            f"run {view.run} is a build, and a build cannot be recorded: the log does not contain the files that its "
            "authors wrote. `logos show` prints every turn."
        )
    answered = [turn for turn in view.turns if turn.ended is not None and turn.agent != LOGOS]
    if not answered:
        raise UsageError(f"run {view.run} has no answered turn yet: there is nothing to record")
    # A replay must not continue with an invented response where the run had none.
    return {"otherwise": Otherwise.ERROR.value, "turns": {turn.turn: _step(turn, delays=delays) for turn in answered}}


def _step(turn: TurnView, *, delays: bool) -> dict[str, Any]:
    step: dict[str, Any] = {"say": redact(turn.response)}
    if delays and turn.seconds is not None:
        step["delay"] = round(turn.seconds, 1)
    if turn.usage is not None:
        step["usage"] = {key: value for key, value in asdict(turn.usage).items() if value is not None}
    return step


def script_text(view: RunView, script: dict[str, Any]) -> str:
    outcome = view.outcome.value if view.outcome else "unfinished"
    return as_yaml(
        script,
        f"Recorded from run {view.run} of {date(view.started)}: {outcome}, {view.answered} turns.\n"
        "Replay it with the configuration and the prompt of that run: logos run --simulate THIS_FILE --fresh\n"
        "It contains the agents' responses, but not the files that they changed: those are not in the log. Where\n"
        "Logos runs the tests itself (verify_pass), replay in the tree the run left behind, or --set verify_pass=0.\n",
    )


def write_output(path: Path, text: str, *, force: bool) -> None:
    """Write a file as a whole or not at all."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists, not overwritten (use --force)")
    write_atomically(path.expanduser().absolute(), text)
