"""The continuity report of a run: found in this work dir or in a fork, and read once."""

from __future__ import annotations

from pathlib import Path

from logos.adapters.git.command import is_repository
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.git.workspace import diff_stat
from logos.app.checkpoint_names import finding, run_name
from logos.app.workdir import driver_at, wd_flag
from logos.engine.checkpoints import commit_at
from logos.errors import HostError, LogError
from logos.views.continuity.report import ContinuityReport, continuity
from logos.views.continuity.since import session_since
from logos.views.run import RunView
from logos.views.status import RunStatus, next_command


def report_on(work_dir: Path, run: str | None, since: str) -> ContinuityReport:
    """The report of the newest run, or of the run whose id begins with `run`; `since` is a session or a date."""
    with finding(work_dir, run_name(run)) as found:
        newest = found.run == found.log.runs()[-1]
    status = RunStatus(found.place, found.view, driver_at(found.place) if newest else None)
    session = session_since(status.view.sessions, since, status.view.run)
    files = _changed_files(found.place, status.view, session.first)
    return continuity(status, session.number, next_command(status, wd_flag(found.place)), files)


def _changed_files(work_dir: Path, view: RunView, since: int) -> list[str]:
    """The files that changed from an event on, one line each; none where no checkpoints were kept."""
    try:
        old, new = _commit(work_dir, view, since), _commit(work_dir, view, len(view.records))
        return diff_stat(work_dir, old, new) if old and new and old != new else []
    except (HostError, LogError):
        return []


def _commit(work_dir: Path, view: RunView, seq: int) -> str:
    """The commit with the files at an event."""
    if view.build is not None:
        return getattr(view.states[seq - 1], "head", "")
    return commit_at(GitSnapshots(work_dir).of(view.run), seq) if is_repository(work_dir) else ""
