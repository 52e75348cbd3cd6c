"""Checkpoints: the work tree at every event of a run."""

import posixpath
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from logos.domain import events
from logos.domain.artifacts import SPECS
from logos.domain.events import Event, Noted, Recorded, RunEnded, RunForked, RunResumed, RunStarted, Topic
from logos.domain.ledger import Ledger
from logos.domain.plans import LevelsPlan
from logos.domain.turns import RunId
from logos.errors import HostError, UsageError
from logos.flows.levels.state import MAIN
from logos.ports import Log, Snapshots

Tell = Callable[[str], None]
# Takes a snapshot of the work tree and returns its commit.
Take = Callable[[], str]
# Returns the commit of the work tree after an event; None when the event cannot have changed it.
Look = Callable[[Event, Take], str | None]
# The files that a run has changed since a snapshot, None where that is not known, the snapshot of what is now, and the
# digest of these files.
ChangedFiles = Callable[[RunId, str], tuple[tuple[str, ...] | None, str, str]]

# An event names no more files than this.
_MOST_NAMES = 5000
# What may follow a change of files.
_STEPS = RunStarted | RunResumed | RunForked | RunEnded | events.RunAbandoned
_TURNS = events.TurnAnswered | events.TurnFailed | events.CheckRan


def work_tree(event: Event, take: Take) -> str | None:
    """The cycle works in the person's work tree: take a snapshot after every event that may follow a change."""
    if isinstance(event, RunForked) and event.commit:
        # A fork starts with the files of this commit.
        return event.commit
    noted = isinstance(event, Noted) and event.topic in (Topic.INTERRUPTED, Topic.AFTERWARDS)
    return take() if noted or isinstance(event, _STEPS | _TURNS) else None


def merged_work(event: Event, _take: Take) -> str | None:
    """A build works in its own worktrees; its log names the commits of merged work."""
    match event:
        case RunStarted(LevelsPlan() as plan):
            return plan.base
        case RunForked(_, _, _, _, commit) if commit:
            return commit
        case events.WorkMerged(_, commit, ()):
            return commit
        case events.WorkGathered(_, place, commit, _, ()) if place == MAIN:
            return commit
        case _:
            return None


@dataclass(slots=True)
class Checkpoints:
    """A watcher that records the work tree's commit at every event; a failure is reported and the run continues."""

    snapshots: Snapshots
    log: Log
    look: Look
    tell: Tell
    _begun: bool = False
    _commit: str | None = None
    _pending: dict[int, str] = field(default_factory=dict[int, str])
    _named: dict[str, str] = field(default_factory=dict[str, str])
    _waiting: list[int] = field(default_factory=list[int])
    _told: set[str] = field(default_factory=set[str])

    def __call__(self, record: Recorded, state: Any, ledger: Ledger) -> None:
        del state, ledger
        with self._warning_once():
            if not self._begun:
                self._catch_up(record.run, record.seq)
            if isinstance(record.event, events.ProofRan | events.WorkCompared):
                self._name(record.event.commit)
            leaves = isinstance(record.event, Noted) and record.event.topic is Topic.INTERRUPTED
            if self._see(record, self.snapshots.take) or leaves or isinstance(record.event, RunEnded | RunResumed):
                self._point(record.run)

    def latest(self) -> str | None:
        """The newest snapshot; None before the first, and after one that failed."""
        return self._commit

    def catch_up(self, run: RunId) -> None:
        """Give events that a killed driver left without a checkpoint the nearest one: the work tree as it is now."""
        with self._warning_once():
            self._catch_up(run, sys.maxsize)
            self._point(run)

    def _name(self, commit: str) -> None:
        """The snapshots that a proof is about are no checkpoints where the work dir is only a part of them."""
        if commit and self.snapshots.is_whole(commit):
            self._named[commit] = commit

    def _point(self, run: RunId) -> None:
        self.snapshots.point(
            run, {str(name): commit for name, commit in (*self._pending.items(), *self._named.items())}
        )
        self._pending, self._named = {}, {}

    def _catch_up(self, run: RunId, before: int) -> None:
        known = self.snapshots.of(run)
        self.snapshots.remember(known.values())
        last = max((seq for seq in known if seq < before), default=0)
        self._commit = known.get(last)
        # All of them get the work tree as it is now, so one look is enough, however many they are.
        take = cache(self.snapshots.take)
        for missed in self.log.read(run, last + 1):
            if missed.seq < before:
                self._see(missed, take)
        self._begun = True

    def _see(self, record: Recorded, take: Take) -> bool:
        """Whether there was a look at the work tree; between two looks it is taken to be what it was.

        After a look that failed it is unknown: these events wait for the next look that succeeds.
        """
        self._waiting.append(record.seq)
        before, self._commit = self._commit, None
        commit = self.look(record.event, take)
        self._commit = commit or before
        if self._commit:
            self._pending |= dict.fromkeys(self._waiting, self._commit)
            self._waiting = []
        return commit is not None

    @contextmanager
    def _warning_once(self) -> Generator[None]:
        try:
            yield
        except (HostError, UsageError, OSError) as error:
            if str(error) not in self._told:
                self._told.add(str(error))
                self.tell(f"warning: the checkpoint failed, the run continues without it: {error}")


def changed_files(snapshots: Snapshots | None, tell: Tell) -> ChangedFiles:
    """Compares the work tree with a snapshot, by default the first checkpoint of a run."""

    def look(run: RunId, base: str) -> tuple[tuple[str, ...] | None, str, str]:
        now = ""
        try:
            start = base or (snapshots.of(run).get(1) if snapshots is not None else None)
            if snapshots is None or start is None:
                return None, "", ""
            now = snapshots.take(anew=True, whole=snapshots.is_whole(start))
            changed = [posixpath.relpath(path, snapshots.prefix or ".") for path in snapshots.changed(start, now)]
            tree = snapshots.digest(start, now, SPECS)
        except (HostError, UsageError, OSError) as error:
            tell(f"warning: what the run has changed is not known: {error}")
            return None, now, ""
        names = tuple(path for path in changed if not path.startswith(SPECS))
        return names if len(names) <= _MOST_NAMES else None, now, tree

    return look


def no_checkpoints(why: str, tell: Tell) -> Callable[[Recorded, Any, Ledger], None]:
    """A watcher that says once, after the run has started, why file checkpoints are off."""

    def watch(record: Recorded, _state: Any, _ledger: Ledger) -> None:
        if isinstance(record.event, RunStarted):
            tell(f"file checkpoints are off ({why}); rollback restores run state only")

    return watch


def commit_at(commits: Mapping[int, str], seq: int) -> str:
    """The commit of the last checkpoint up to an event; empty when there is none."""
    return commits[max(known)] if (known := [own for own in commits if own <= seq]) else ""
