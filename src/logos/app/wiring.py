"""Building the adapters that a run needs from its settings."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from logos.adapters.git.command import is_repository
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.lock import DriverLock, driver_of
from logos.adapters.notifications import notify
from logos.adapters.responses import ResponseFiles
from logos.adapters.store.recovery import repair
from logos.adapters.store.registry import find
from logos.adapters.store.sqlite import SqliteLog
from logos.app.hosts import Tell
from logos.app.post_processing import comment_for, post_process
from logos.app.settings import Settings
from logos.app.workdir import DATABASE, LOCK, TELOS
from logos.domain.plans import CyclePlan
from logos.engine.checkpoints import Checkpoints, Look, NoCheckpoints
from logos.engine.cycle_run import AfterPass
from logos.engine.journal import Watcher
from logos.engine.runner import Dependencies
from logos.ports import AgentHost

# The folder of response files in each worktree of a build.
RESPONSES = Path(".tmp") / "agent-responses"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def stamp() -> str:
    """The current time, for names of files that are kept."""
    return time.strftime("%Y%m%d-%H%M%S")


@contextmanager
def open_log(telos: Path, tell: Tell = say) -> Generator[SqliteLog]:
    """The run log of a work dir with its mirror. It is repaired first, unless another process drives it."""
    path, driver = telos / DATABASE, driver_of(telos / LOCK)
    ours = driver in (None, os.getpid())
    mirror = repair(path, tell, driving=driver is not None) if ours else find(path, "", tell)
    log = SqliteLog(path, mirror=mirror)
    try:
        yield log
    finally:
        log.close()


def log_of(work_dir: Path) -> AbstractContextManager[SqliteLog]:
    """The run log of a work dir, to write to."""
    return open_log(work_dir / TELOS)


@contextmanager
def driver(settings: Settings, tell: Tell) -> Generator[SqliteLog]:
    """Become the one driver of a work dir: hold its lock and open its log."""
    with DriverLock(settings.telos_dir / LOCK), open_log(settings.telos_dir, tell) as log:
        yield log


def dependencies(settings: Settings, host: AgentHost, log: SqliteLog, tell: Tell) -> Dependencies:
    topic = settings.notifications.ntfy_topic
    return Dependencies(host, log, tell, notify=lambda title, text, priority: notify(topic, title, text, priority))


def responses_in(folder: str, answer: str) -> ResponseFiles:
    """The response file of one turn of a build."""
    return ResponseFiles(Path(folder) / RESPONSES, {answer: f"{answer}.md"})


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
        return [NoCheckpoints(f"{settings.work_dir} is no git repository", tell)]
    snapshots = GitSnapshots(settings.work_dir, [settings.state_path], tell)
    return [Checkpoints(snapshots, log, look(snapshots), tell)]
