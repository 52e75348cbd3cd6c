"""Checkpoints: a run at one of its events, with its files then, as a person names it."""

import re
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from logos.adapters.git.command import Git, is_repository
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.git.worktrees import worktrees_of
from logos.app.runs import load_run
from logos.app.settings import Settings
from logos.app.workdir import Tell, day_of, find_run, has_log, reading
from logos.domain.events import Recorded, TurnEnded
from logos.domain.turns import Outcome, RunId
from logos.engine.checkpoints import commit_at
from logos.errors import HostError, LogError, UsageError
from logos.flows.fold import UNFINISHED, RunState
from logos.ports import RunLog
from logos.views.run import RunView

HELP = "An event's number, RUN@NUMBER, RUN, a turn's id or RUN@TURN, or a date (its last event that day)."

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class CheckpointName:
    """A checkpoint as it was named: the work dir whose log has the run, the run and the event, where they are named."""

    place: Path
    run: str | None = None
    event: str = ""


def work_dirs(place: Path) -> list[Path]:
    """The work dirs of the repository that have a log, each once: this one first, then those of forks."""
    found: dict[Path, Path] = {}
    for path in [place, *(worktrees_of(place) if is_repository(place) else [])]:
        # The log of a fork may be in a database that this command was not told of.
        with suppress(UsageError) if path != place else nullcontext():
            if has_log(path):
                found.setdefault(path.resolve(), path)
    return [*found.values()]


def run_name(run: str | None) -> str | None:
    """The name of a run's newest checkpoint; the `@` keeps an id from being read as a number or a date."""
    return run if run is None or "@" in run else f"{run}@"


def locate(place: Path, wanted: str | None) -> CheckpointName:
    """The work dir that has the checkpoint `wanted`: this one or that of a fork. None is the newest run here."""
    name, at, event = (wanted or "").partition("@")
    if wanted is not None and not (name or event):
        raise UsageError(f"{wanted!r} names no checkpoint: {HELP}")
    if not at and (name.isdecimal() or _DATE.fullmatch(name) or "." in name):
        name, event = "", name
    return CheckpointName(_place_with(work_dirs(place), name) if name else place, name or None, event)


def match(log: RunLog, name: CheckpointName, known: RunView | None = None) -> tuple[RunView, int | None]:
    """The run that a name means, loaded unless it is `known`, and its event; None means the newest event."""
    if name.run is None and _DATE.fullmatch(name.event):
        view = _newest_on(log, name.event)
    else:
        run = find_run(log, name.run)
        view = known if known is not None and known.run == run else load_run(log, run)
    return view, _event_number(view, name.event) if name.event else None


def _newest_on(log: RunLog, day: str) -> RunView:
    """The newest run with an event of its own on a day; without one, the newest of all."""
    for run in reversed(log.runs()):
        view = load_run(log, run)
        if any(day_of(record.at) == day for record in view.records[view.forked.seq - 1 if view.forked else 0 :]):
            return view
    return load_run(log, find_run(log, None))


def _place_with(places: list[Path], run: str) -> Path:
    """The work dir whose log has the run: a whole id before the start of one, this work dir before others."""
    known: dict[Path, list[RunId]] = {}
    for place in places:
        with suppress(LogError), reading(place) as log:
            known[place] = log.runs()
    for fits in (str.__eq__, str.startswith):
        for place, runs in known.items():
            if any(fits(str(known_run), run.lower()) for known_run in runs):
                return place
    elsewhere = ", nor elsewhere in this repository" if len(places) > 1 else ""
    raise UsageError(f"there is no run {run!r} here{elsewhere}; `logos runs` lists them")


def _event_number(view: RunView, wanted: str) -> int:
    """The number of an event that is named by number, by the turn it ends, or by a date (the last on that day)."""
    if wanted.isdecimal() and len(wanted) < 10:
        return int(wanted)
    if _DATE.fullmatch(wanted):
        try:
            date.fromisoformat(wanted)
        except ValueError as error:
            raise UsageError(f"{wanted!r} is not a valid date (YYYY-MM-DD): {error}") from error
        found = [record.seq for record in view.records if day_of(record.at) <= wanted]
        missing = f"run {view.run} began on {day_of(view.records[0].at)}, after {wanted}"
    else:
        ends = ((record.seq, record.event) for record in view.records)
        found = [seq for seq, event in ends if isinstance(event, TurnEnded) and event.turn == wanted]
        missing = f"run {view.run} has no event {wanted!r}: {HELP}"
    if not found:
        raise UsageError(missing)
    return found[-1]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run as it was after event `seq`. `commit` has its files then, or `now`; it is empty if they were not kept."""

    place: Path
    view: RunView
    seq: int
    commit: str = ""
    now: bool = False

    @property
    def run(self) -> RunId:
        return self.view.run

    @property
    def name(self) -> str:
        if not self.now:
            return f"{self.run}@{self.seq}"
        return f"the work dir {self.place}" if self.view.build is None else f"the newest head of {self.run}"

    @property
    def why_not_kept(self) -> str:
        gone = "checkpoints were off then, or `logos gc` has removed them"
        return gone if is_repository(self.place) else f"{self.place} is not a git repository"

    @property
    def state(self) -> RunState:
        return self.view.states[self.seq - 1]

    @property
    def history(self) -> tuple[Recorded, ...]:
        return self.view.records[: self.seq]


def snapshots_for(settings: Settings, tell: Tell) -> GitSnapshots | None:
    """The snapshots of a work dir, whether or not new ones are wanted; None where there is no git repository."""
    wd = settings.work_dir
    return GitSnapshots(wd, [settings.state_path], tell) if is_repository(wd) else None


def checkpoint_at(place: Path, view: RunView, seq: int | None) -> Checkpoint:
    """A run of a work dir at an event; without one, at its last unfinished event."""
    if view.damage:
        raise LogError(view.damage)
    last = len(view.records)
    number = last if seq is None else seq
    if 1 <= number <= last and (seq is None or view.states[number - 1].outcome is Outcome.ABANDONED):
        # An abandoned run is reopened at its last unfinished event.
        open_events = (at for at, state in enumerate(view.states[:number], 1) if state.outcome in UNFINISHED)
        number = max(open_events, default=0)
    if not 1 <= number <= last:
        raise UsageError(f"there is no event {number} in run {view.run}: it has {last}")
    return Checkpoint(place, view, number, files_at(place, view, number))


def files_at(place: Path, view: RunView, seq: int) -> str:
    """The commit with the files of a run at an event; empty where they were not kept."""
    if not is_repository(place):
        return ""
    head = view.states[seq - 1].head
    if head is None:
        return commit_at(GitSnapshots(place).of(view.run), seq)
    try:
        # Only the log names this commit, so git may have removed it.
        return head if Git(place).tree_of(head) else ""
    except HostError:
        return ""
