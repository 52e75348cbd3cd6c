"""Checkpoints: every event of a run, and the work tree as it was then."""

from __future__ import annotations

import sys
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
from logos.domain.turns import RunId
from logos.errors import HostError, UsageError
from logos.flows.levels.state import MAIN
from logos.ports import Log, Snapshots

Tell = Callable[[str], None]
# The commit of the work tree after an event; None where it is what it was before.
Look = Callable[[Event], str | None]


def work_tree(snapshots: Snapshots) -> Look:
    """The cycle works in the person's own work tree: look at it whenever somebody may have been at work."""

    def look(event: Event) -> str | None:
        match event:
            case RunForked(_, _, _, _, commit) if commit:
                # It began with these files, whenever somebody comes to look.
                return commit
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
        self._waiting: list[int] = []
        self._told: set[str] = set()

    def __call__(self, record: Recorded, state: Any, ledger: Ledger) -> None:
        del state, ledger
        try:
            if not self._begun:
                self._catch_up(record.run, record.seq)
            if self._see(record) or isinstance(record.event, RunEnded | RunResumed) or _leaves(record.event):
                self._snapshots.point(record.run, self._pending)
                self._pending = {}
        except (HostError, UsageError, OSError) as error:
            self._complain(str(error))

    def catch_up(self, run: RunId) -> None:
        """What a killed driver left without its checkpoint gets the nearest there is: what lies there now."""
        try:
            self._catch_up(run, sys.maxsize)
            self._snapshots.point(run, self._pending)
            self._pending = {}
        except (HostError, UsageError, OSError) as error:
            self._complain(str(error))

    def _catch_up(self, run: RunId, before: int) -> None:
        known = self._snapshots.of(run)
        self._snapshots.remember(known.values())
        last = max((seq for seq in known if seq < before), default=0)
        self._commit = known.get(last)
        for missed in self._log.read(run, last + 1):
            if missed.seq < before:
                self._see(missed)
        self._begun = True

    def _see(self, record: Recorded) -> bool:
        """Whether there was a look at the work tree; between two looks it is taken to be what it was.

        After a look that failed nobody knows what it is: these events wait for the next that succeeds.
        """
        self._waiting.append(record.seq)
        before, self._commit = self._commit, None
        commit = self._look(record.event)
        self._commit = commit or before
        if self._commit:
            self._pending |= dict.fromkeys(self._waiting, self._commit)
            self._waiting = []
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
