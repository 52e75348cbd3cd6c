"""Building the adapters that a run needs from its settings."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from logos.adapters.git.command import is_repository
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.lock import DriverLock
from logos.adapters.notifications import notify
from logos.adapters.responses import ResponseFiles
from logos.adapters.store.sqlite import SqliteLog
from logos.app.hosts import Tell
from logos.app.post_processing import comment_for, post_process
from logos.app.settings import Settings
from logos.app.workdir import WorkDir, open_log
from logos.domain.plans import CyclePlan
from logos.engine.checkpoints import Checkpoints, Look, NoCheckpoints
from logos.engine.cycle_run import AfterPass
from logos.engine.journal import Watcher
from logos.engine.runner import Dependencies
from logos.ports import AgentHost

# The folder of response files in each worktree of a build.
RESPONSES = Path(".tmp") / "agent-responses"


@contextmanager
def driver(settings: Settings, tell: Tell) -> Generator[SqliteLog]:
    """Become the one driver of a work dir: hold its lock and open its log."""
    with DriverLock(settings.paths.lock), open_log(settings.telos_dir, tell) as log:
        yield log


def dependencies(settings: Settings, host: AgentHost, log: SqliteLog, tell: Tell) -> Dependencies:
    topic = settings.notifications.ntfy_topic
    return Dependencies(host, log, tell, notify=lambda title, text, priority: notify(topic, title, text, priority))


def responses_in(folder: str, answer: str) -> ResponseFiles:
    """The response file of one turn of a build."""
    return ResponseFiles(WorkDir(Path(folder)).response_dir, {answer: f"{answer}.md"})


def after_pass(settings: Settings) -> AfterPass:
    """The post-processing that the settings ask for."""
    post = settings.post_processing

    def process(plan: CyclePlan, tell: Callable[[str], object]) -> None:
        post_process(
            settings.work_dir,
            archiving=post.openspec_archive,
            committing=post.git_commit,
            comment=post.git_commit_comment or comment_for(plan.explore),
            tell=tell,
        )

    return process


def checkpoints_for(
    settings: Settings, log: SqliteLog, tell: Tell, look: Callable[[GitSnapshots], Look]
) -> list[Watcher[Any]]:
    """The watcher that keeps the work tree at every event, where checkpoints are on and the work dir is in git."""
    if not settings.checkpoints.enabled:
        return []
    if not is_repository(settings.work_dir):
        return [NoCheckpoints(f"{settings.work_dir} is not a git repository", tell)]
    snapshots = GitSnapshots(settings.work_dir, [settings.state_path], tell)
    return [Checkpoints(snapshots, log, look(snapshots), tell)]
