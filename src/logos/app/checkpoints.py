"""Going back to a checkpoint: what a run was at one of its events, and another run that begins there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from logos.app.runs import open_run
from logos.domain.events import Recorded, RunForked, WorkGathered, WorkMerged
from logos.domain.plans import CyclePlan, LevelsPlan, Plan
from logos.domain.turns import Outcome, RunId, TurnId
from logos.engine.journal import Journal
from logos.errors import UsageError
from logos.flows.levels.state import LevelsState
from logos.flows.levels.turn_ids import GATHER
from logos.ports import Log

# A run in one of these can still go on.
UNFINISHED = (None, Outcome.BLOCKED)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run as it was at an event. `commit` is its work tree then, empty where none was kept."""

    run: RunId
    seq: int
    journal: Journal[Any]
    commit: str = ""

    @property
    def state(self) -> Any:
        return self.journal.state

    @property
    def plan(self) -> Plan:
        return self.journal.state.plan

    @property
    def goes_on(self) -> bool:
        return self.journal.outcome in UNFINISHED


def checkpoint_at(log: Log, run: RunId, seq: int | None, commit_of: Callable[[int], str]) -> Checkpoint:
    """A run at an event; without one, at the last from which it can go on. `commit_of` knows the cycle's work trees."""
    last = open_run(log, run).fold.open_until if seq is None else seq
    journal = open_run(log, run, upto=last)
    if journal.outcome is Outcome.ABANDONED:
        # Nobody goes back to having given up.
        last = journal.fold.open_until
        journal = open_run(log, run, upto=last)
    if not 1 <= last <= journal.seq:
        raise UsageError(f"there is no event {last} in run {run}: it has {open_run(log, run).seq}")
    state = journal.state
    return Checkpoint(run, last, journal, state.head if isinstance(state, LevelsState) else commit_of(last))


def history_of(log: Log, at: Checkpoint) -> list[Recorded]:
    return [record for record in log.read(at.run) if record.seq <= at.seq]


def forked_at(
    at: Checkpoint,
    way: Literal["fork", "rollback"],
    wd: Path,
    response_dir: Path,
    left: tuple[tuple[str, str], ...],
    host: str,
) -> RunForked:
    """The event with which another run begins at a checkpoint, in this work dir."""
    match at.plan:
        case CyclePlan() as plan:
            moved: Plan = replace(plan, wd=str(wd), response_dir=str(response_dir))
        case LevelsPlan() as plan:
            moved = replace(plan, wd=str(wd))
    return RunForked(at.run, at.seq, moved, way, at.commit, left, host)


def left_at(at: Checkpoint, whole: Iterable[Recorded], kept: Callable[[TurnId], str]) -> tuple[tuple[str, str], ...]:
    """What lay in places that a build was not done with: as it was gathered, then or later, or else kept as it lay.

    That is the work of agents who were sent back to go on with it, and of those whose answers had just come.
    """
    if not isinstance(at.state, LevelsState):
        return ()
    gathered = gathered_in(whole)
    left_by = {ask.key: ask.before for ask in at.state.sent_back if ask.before is not None}
    left_by |= {done.pending.key: done.pending.turn for done in at.state.answered.values()}
    found = ((key, gathered.get(turn) or kept(turn)) for key, turn in sorted(left_by.items()))
    return tuple((key, commit) for key, commit in found if commit)


def gathered_in(history: Iterable[Recorded]) -> dict[TurnId, str]:
    """What the work of each turn was gathered as."""
    events = (record.event for record in history)
    return {TurnId(own.turn.removesuffix(GATHER)): own.commit for own in events if isinstance(own, WorkGathered)}


def commits_in(history: Iterable[Recorded]) -> set[str]:
    """Every commit that a run's events name: without them it cannot be gone back to."""
    found: set[str] = set()
    for record in history:
        match record.event:
            case WorkGathered(_, _, commit) | WorkMerged(_, commit):
                found.add(commit)
            case RunForked(_, _, _, _, _, left):
                found.update(commit for _, commit in left)
            case _:
                pass
    return found
