"""Checkpoints: every event of a run, and the work tree as it was then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logos.domain.events import (
    CheckRan,
    Event,
    Noted,
    Recorded,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    Topic,
    TurnAnswered,
    TurnFailed,
    WorkGathered,
    WorkMerged,
)
from logos.domain.ledger import Ledger
from logos.domain.plans import LevelsPlan
from logos.errors import HostError, UsageError
from logos.flows.ladder import MAIN
from logos.ports import Log, Snapshots

Tell = Callable[[str], None]
# The commit of the work tree after an event; None where it is what it was before.
Look = Callable[[Event], str | None]


def work_tree(snapshots: Snapshots) -> Look:
    """The cycle works in the person's own work tree: look at it whenever somebody may have been at work."""

    def look(event: Event) -> str | None:
        match event:
            case RunStarted() | RunResumed() | RunForked() | TurnAnswered() | TurnFailed() | CheckRan():
                return snapshots.take()
            case Noted(Topic.INTERRUPTED | Topic.AFTERWARDS) | RunEnded() | RunAbandoned():
                return snapshots.take()
            case _:
                return None

    return look


def merged_work(event: Event) -> str | None:
    """A build works in places of its own; what is merged is in commits that its log names."""
    match event:
        case RunStarted(LevelsPlan() as plan):
            return plan.base
        case RunForked(_, _, _, _, commit) if commit:
            return commit
        case WorkMerged(_, commit, ()):
            return commit
        case WorkGathered(_, place, commit, _, ()) if place == MAIN:
            return commit
        case _:
            return None


class Checkpoints:
    """A watcher that keeps, for every event, which commit the work tree was. Where that fails, the run goes on."""

    def __init__(self, snapshots: Snapshots, log: Log, look: Look, tell: Tell) -> None:
        self._snapshots = snapshots
        self._log = log
        self._look = look
        self._tell = tell
        self._begun = False
        self._commit: str | None = None
        self._pending: dict[int, str] = {}
        self._told: set[str] = set()

    def __call__(self, record: Recorded, state: Any, ledger: Ledger) -> None:
        del state, ledger
        try:
            if not self._begun:
                self._catch_up(record)
            if self._see(record) or isinstance(record.event, RunEnded | RunResumed) or _leaves(record.event):
                self._snapshots.point(record.run, self._pending)
                self._pending = {}
        except (HostError, UsageError) as error:
            self._complain(str(error))

    def _catch_up(self, record: Recorded) -> None:
        """What a killed driver left without its checkpoint gets the nearest there is: what lies there now."""
        self._begun = True
        known = self._snapshots.of(record.run)
        self._snapshots.remember(known.values())
        last = max((seq for seq in known if seq < record.seq), default=0)
        self._commit = known.get(last)
        for missed in self._log.read(record.run, last + 1):
            if missed.seq < record.seq:
                self._see(missed)

    def _see(self, record: Recorded) -> bool:
        """Whether there was a look at the work tree; between two looks it is taken to be what it was."""
        commit = self._look(record.event)
        self._commit = commit or self._commit
        if self._commit:
            self._pending[record.seq] = self._commit
        return commit is not None

    def _complain(self, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            self._tell(f"warning: no checkpoint could be made, the run goes on without: {why}")


class NoCheckpoints:
    """A watcher that says once, when a run is under way, why its files are not kept."""

    def __init__(self, why: str, tell: Tell) -> None:
        self._why = why
        self._tell = tell

    def __call__(self, record: Recorded, state: Any, ledger: Ledger) -> None:
        del state, ledger
        if isinstance(record.event, RunStarted):
            self._tell(f"no checkpoints of the files are kept, only the log can be gone back to: {self._why}")


def _leaves(event: Event) -> bool:
    return isinstance(event, Noted) and event.topic is Topic.INTERRUPTED


def commit_at(commits: Mapping[int, str], seq: int) -> str:
    """The work tree at an event: that of the last checkpoint up to it; empty where there is none."""
    return commits[max(known)] if (known := [own for own in commits if own <= seq]) else ""
