"""Compare: two runs side by side, from where they part, and the files they ended with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from logos.app.checkpoints import files_at
from logos.app.diff import ChangedFile, Diff, DiffSide, side_at
from logos.app.workdir import place_of
from logos.domain.events import RunForked
from logos.domain.turns import RunId
from logos.errors import UsageError
from logos.views.run import RunView


@dataclass(frozen=True, slots=True)
class CommonCheckpoint:
    """The last event that both runs have, and the run it was first recorded in. `commit` has the files then."""

    run: RunId
    seq: int
    commit: str


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run at its newest event, and the files it changed since the common checkpoint, or else since its start."""

    end: DiffSide
    changed: list[ChangedFile] | None

    @property
    def view(self) -> RunView:
        return self.end.view

    @property
    def driven_seconds(self) -> float:
        return sum(session.seconds for session in self.view.own_sessions)

    @property
    def sessions(self) -> int:
        return len(self.view.own_sessions)


@dataclass(frozen=True, slots=True)
class Comparison:
    runs: tuple[ComparedRun, ComparedRun]
    common: CommonCheckpoint | None

    @property
    def diff(self) -> Diff:
        """From the end of the first run to the end of the second."""
        return Diff(self.runs[0].end, self.runs[1].end)

    @property
    def flows(self) -> set[str]:
        return {run.view.plan.flow for run in self.runs}

    @property
    def gaps(self) -> list[str]:
        """What cannot be compared, and why."""
        flows = (
            "a cycle has rounds and a build has sweeps; the files of a cycle are its whole work dir, those of a build "
            "what it merged"
        )
        apart = "they have no event in common: the changes of each are counted from its own start"
        ends = [run.end for run in self.runs]
        return [
            *([flows] if len(self.flows) > 1 else []),
            *([apart] if self.common is None else []),
            *(f"the files at {end.name} were not kept: {end.why_not_kept}" for end in ends if not end.commit),
            *(f"later events are left out: {end.view.damage}" for end in ends if end.view.damage),
        ]


def compare(a: str, b: str, *, wd: Path | None = None) -> Comparison:
    """Compare two runs at their newest events; both may be in this work dir or in that of a fork."""
    place = place_of(wd)
    one, other = _end_of(place, a), _end_of(place, b)
    if one.view.run == other.view.run:
        raise UsageError(f"{one.view.run} is one run; name two")
    common = _common(one, other)
    return Comparison((_compared(one, common), _compared(other, common)), common)


def _end_of(place: Path, run: str) -> DiffSide:
    if not run or "@" in run:
        raise UsageError(f"{run!r} is no run; `logos runs` lists them, and `logos diff` compares events")
    # The `@` keeps an id from being read as a number or a date.
    return side_at(place, f"{run}@")


def _common(one: DiffSide, other: DiffSide) -> CommonCheckpoint | None:
    shared = last_in_common(one.view, other.view)
    if shared is None:
        return None
    # A fork keeps the files it started with, even after those of the original run were removed.
    kept = (files_at(side.place, side.view, shared[1]) for side in (one, other))
    return CommonCheckpoint(*shared, next(filter(None, kept), ""))


def last_in_common(one: RunView, other: RunView) -> tuple[RunId, int] | None:
    """The run and the event at which two histories part, over any number of forks."""
    shared = None
    for (run, upto), (same, until) in zip(_ancestry(one), _ancestry(other), strict=False):
        if run != same:
            break
        shared = run, min(upto, until)
    return shared


def _ancestry(view: RunView) -> list[tuple[RunId, int]]:
    """The runs whose events a history consists of, from the first ancestor to the run itself, each with its last event.

    A fork has the events of its ancestors, so no other log is needed.
    """
    forks = [record.event for record in view.records if isinstance(record.event, RunForked)]
    return [*((fork.parent, fork.at) for fork in forks), (view.run, len(view.records))]


def _compared(end: DiffSide, common: CommonCheckpoint | None) -> ComparedRun:
    start = common.commit if common is not None else files_at(end.place, end.view, 1)
    changed = Diff(replace(end, commit=start), end).files() if start and end.commit else None
    return ComparedRun(end, changed)
