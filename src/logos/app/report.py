"""Documents made of a run: its continuity report, and a script to replay it without agents."""

from collections.abc import Mapping, Sequence
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
from logos.views.redact import one_line, redact
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


def script_of(view: RunView, edits: Mapping[str, dict[str, Any]], *, delays: bool) -> dict[str, Any]:
    """The responses of a run and its edits, turn by turn, with their usage; with `delays` also with their duration."""
    answered = [turn for turn in view.turns if turn.ended is not None and turn.agent != LOGOS]
    if not answered:
        raise UsageError(f"run {view.run} has no answered turn yet: there is nothing to record")
    # A replay must not continue with an invented response where the run had none.
    steps = {turn.turn: _step(turn, edits.get(turn.turn), delays=delays) for turn in answered}
    return {"otherwise": Otherwise.ERROR.value, "turns": steps}


def _step(turn: TurnView, edit: dict[str, Any] | None, *, delays: bool) -> dict[str, Any]:
    step: dict[str, Any] = {"say": redact(turn.response), **({"edit": edit} if edit else {})}
    if delays and turn.seconds is not None:
        step["delay"] = round(turn.seconds, 1)
    if turn.usage is not None:
        step["usage"] = {key: value for key, value in asdict(turn.usage.reported).items() if value is not None}
    return step


def script_text(view: RunView, script: dict[str, Any], gaps: Sequence[str]) -> str:
    outcome = view.outcome.value if view.outcome else "unfinished"
    command = "logos run" if view.build is None else "logos build FEATURE"
    missing = "\n".join(["It lacks, so that a replay may end differently:", *map(one_line, gaps)]) if gaps else ""
    return as_yaml(
        script,
        f"Recorded from run {view.run} of {date(view.started)}: {outcome}, {view.answered} turns.\n"
        "Replay it in a clone of the commit that the run began with, with its configuration and its prompt:\n"
        f"{command} --simulate THIS_FILE --fresh\n"
        "It contains the agents' responses and the files that each turn changed, without secrets.\n"
        f"{missing}",
    )


def write_output(path: Path, text: str, *, force: bool) -> None:
    """Write a file as a whole or not at all."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists, not overwritten (use --force)")
    write_atomically(path.expanduser().absolute(), text)
