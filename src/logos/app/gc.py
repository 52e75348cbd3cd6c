"""Garbage collection: old checkpoints, what their agents left, and mirrors of deleted work dirs. Logs are kept."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG

from logos.adapters.acceptance.folder import acceptance_folders, run_of
from logos.adapters.files import remove
from logos.adapters.git.command import Git, is_repository, repository_of
from logos.adapters.git.snapshots import Ref, adds_to, held_by_nothing_else, refs_of_ours, remove_refs
from logos.adapters.hosts.local import SESSION as LOCAL_SESSION
from logos.adapters.hosts.scripted import SESSION as SCRIPTED_SESSION
from logos.adapters.inbox import existing_inbox
from logos.adapters.store.mirror import abandoned
from logos.app.database import refuse_database
from logos.app.person import require_person
from logos.app.runs import views_in
from logos.app.setting_sources import settings_of
from logos.app.workdir import TELOS, WorkDir, day_of, driver_at, has_log, place_of
from logos.domain.events import (
    AcceptanceWritten,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    TerminalOpened,
    WorkGathered,
    WorkMerged,
)
from logos.domain.plans import LevelsPlan
from logos.domain.turns import Outcome
from logos.errors import HostError
from logos.flows.fold import UNFINISHED
from logos.views.run import RunView
from logos.views.status import Unreadable

DAY = 86_400.0
# What Logos writes under refs/logos/: events of a run, commits that its log names, work of its turns; and snapshots.
_OURS = re.compile(r"refs/logos/(?P<run>[A-Za-z0-9][A-Za-z0-9_-]*)/(?:\d{1,9}|[0-9a-f]{12,64}|left/.+)")
_FORK = "branch refs/heads/logos-fork/"
_HOSTS = (LOCAL_SESSION, SCRIPTED_SESSION)
_TERMINAL = re.compile(r"[0-9a-f]{8}")
_MARK = b"LOGOS_TERMINAL="


@dataclass(frozen=True, slots=True)
class SurveyedRun:
    """A run in a log. `why` says why what it left may be removed; it is empty where that must stay."""

    run: str
    why: str = ""
    commits: frozenset[str] = frozenset()
    # The commits that an abandoned build has made; empty for other runs.
    made: frozenset[str] = frozenset()
    folders: frozenset[Path] = frozenset()
    # The runs whose acceptance tests it needs.
    acceptance: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Removal:
    """What is removed together: the refs of a run, a snapshot, or the folders of a run's agents."""

    what: str
    why: str
    refs: tuple[Ref, ...] = ()
    folders: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Collected:
    """What was removed, or would be in a dry run. `commits_freed` are the commits that no other ref holds."""

    dry_run: bool
    keep_days: int
    keep_runs: int
    removed: tuple[Removal, ...]
    commits_freed: int
    in_use: tuple[str, ...]
    notes: tuple[str, ...]


def collect_garbage(
    *, keep_days: int | None = None, keep_runs: int | None = None, dry_run: bool = False, wd: Path | None = None
) -> Collected:
    """Remove checkpoints of runs that ended long ago, in all work dirs; the defaults are the settings `checkpoints`.

    Kept is what ended less than `keep_days` ago, and the newest `keep_runs` runs of each work dir.
    """
    place = place_of(wd)
    require_person(place, "remove what runs have left")
    refuse_database("logos gc")
    default = settings_of(place).checkpoints
    days = default.keep_days if keep_days is None else keep_days
    newest = default.keep_runs if keep_runs is None else keep_runs
    old = time.time() - days * DAY
    is_git, gaps = is_repository(place), list[Unreadable]()
    # Refs are listed before the logs are read: a run that starts meanwhile is in neither.
    refs = refs_of_ours(place) if is_git else []
    places = _work_dirs(place, gaps) if is_git else [place] if has_log(place) else []
    runs = [run for work_dir in places for run in _runs_in(work_dir, newest, old, gaps)]
    # Runs that have a worktree may not be in its log yet.
    forks = _worktree_list(place, _FORK) if is_git else []
    busy = _busy_terminals()
    planned = [*_removable_refs(refs, runs, forks, gaps, old)]
    planned += [*_removable_branches(place, runs)] if is_git and not gaps else []
    planned += [] if busy is None else _removable_folders(runs, busy)
    planned += [
        Removal(f"mirror of {log.path}", "its work dir is gone", (), (folder, *existing_inbox(folder.name)))
        for folder, log in abandoned()
    ]
    planned += _removable_acceptance(runs, places, gaps)
    in_use: list[str] = []
    removed = planned if dry_run else [*_remove(place, planned, in_use)]
    freed = held_by_nothing_else(place, [ref for removal in removed for ref in removal.refs]) if refs else 0
    return Collected(dry_run, days, newest, tuple(removed), freed, tuple(in_use), tuple(_notes(gaps, busy)))


def _notes(gaps: list[Unreadable], busy: set[str] | None) -> Iterator[str]:
    yield from (f"{gap.place}: {gap.why}" for gap in gaps)
    if not _all_listed(gaps):
        yield "not every log could be read, so checkpoints of unknown runs are kept"
    if gaps:
        yield "not every run could be read, so all snapshots are kept"
    if busy is None:
        yield "folders of agents under .telos are kept: this system does not tell whether they are running"


def _all_listed(gaps: list[Unreadable]) -> bool:
    """Whether every run of every log is known."""
    return all(gap.run is not None for gap in gaps)


def _remove(place: Path, planned: Iterable[Removal], in_use: list[str]) -> Iterator[Removal]:
    """What was removed; the names of what is in use, or could not be removed, are added to `in_use`."""
    for removal in planned:
        refs = remove_refs(place, removal.refs) if removal.refs else []
        in_use += [ref.name for ref in removal.refs if ref not in refs]
        folders: list[Path] = []
        for folder in removal.folders:
            try:
                # An agent could have made a link of .telos or of a folder in it; a mirror is the person's own.
                remove(folder, folder.parents[2] if folder.parent.name in _HOSTS else folder.parent)
                folders.append(folder)
            except HostError as error:
                in_use.append(f"{folder} ({error})")
        if refs or folders:
            yield replace(removal, refs=tuple(refs), folders=tuple(folders))


def _runs_in(place: Path, keep: int, old: float, gaps: list[Unreadable]) -> Iterator[SurveyedRun]:
    damage: list[str] = []
    found = [*views_in(place, damage.append)]
    gaps += [view for view in found if isinstance(view, Unreadable)]
    gaps += [Unreadable(place, None, text) for text in damage]
    last = {view.run: max(record.at for record in view.records) for view in found if isinstance(view, RunView)}
    # A driver drives the run with the newest event. A damaged log does not tell which runs have ended.
    driven = max(last.values(), default=0.0) if driver_at(place) is not None else None
    runs = [view for view in found if view.run]
    for newer, view in zip(reversed(range(len(runs))), runs, strict=True):
        if isinstance(view, Unreadable):
            yield SurveyedRun(str(view.run))
            continue
        at = last[view.run]
        stays = damage or at == driven or newer < keep or at >= old
        yield _surveyed(place, view, "" if stays else day_of(at))


def _surveyed(place: Path, view: RunView, day: str) -> SurveyedRun:
    """`day` is the day of the last event; it is empty where the run stays even if it has ended."""
    events = [record.event for record in view.records]
    # Terminals that were opened before a fork belong to the other run.
    since_fork = events[view.forked.seq if view.forked is not None else 0 :]
    ended = any(isinstance(event, RunEnded | RunAbandoned) for event in since_fork) and not view.damage
    plans = [event.plan for event in events if isinstance(event, RunStarted | RunResumed | RunForked)]
    commits = {plan.base for plan in plans if isinstance(plan, LevelsPlan)}
    commits |= {event.commit for event in events if isinstance(event, RunForked)}
    opened = [event for event in since_fork if isinstance(event, TerminalOpened)]
    folders = {folder for event in opened for folder in _folders(WorkDir(place).host_dir(event.session), event)}
    work = (event.commit for event in events if isinstance(event, WorkGathered | WorkMerged))
    made = commits.union(work) if view.build is not None and view.outcome is Outcome.ABANDONED else ()
    why = f"{view.outcome} on {day}" if day and ended and view.outcome not in UNFINISHED else ""
    tests = frozenset(event.tests.run for event in events if isinstance(event, AcceptanceWritten)) | {view.run}
    return SurveyedRun(view.run, why, frozenset(commits), frozenset(made), frozenset(folders), tests)


def _folders(root: Path, event: TerminalOpened) -> list[Path]:
    """The folder of a terminal, and those of closed terminals with the same id."""
    if event.session not in _HOSTS or not _TERMINAL.fullmatch(event.terminal):
        return []
    folders = [root / event.terminal, *root.glob(f"{event.terminal}.closed-*")]
    return [folder for folder in folders if folder.is_dir() and not folder.is_symlink()]


def _work_dirs(place: Path, gaps: list[Unreadable]) -> list[Path]:
    """Every folder with a log, in every worktree of the repository."""

    def cannot_read(error: OSError) -> None:
        gaps.append(Unreadable(Path(error.filename), None, str(error.strerror)))

    found: dict[Path, Path] = {}
    for top in dict.fromkeys((repository_of(place).top, *map(Path, _worktree_list(place, "worktree ")))):
        if top.is_dir():
            for path in _candidates(top, cannot_read):
                # A file that may not be read counts as unreadable, not as missing.
                try:
                    if WorkDir(path).elsewhere.is_file():
                        gaps.append(Unreadable(path, None, "its runs are in a database"))
                    if S_ISREG(WorkDir(path).database.stat().st_mode):
                        found[path.resolve()] = path
                except (FileNotFoundError, NotADirectoryError):
                    pass
                except OSError as error:
                    cannot_read(error)
        elif f"/{TELOS}/worktrees/" not in str(top):
            # The worktrees of builds have no log, but the folder of a fork may only be unmounted.
            why = "this worktree is gone; if it is gone for good, `git worktree prune` makes git forget it"
            gaps.append(Unreadable(top, None, why))
    return [*found.values()]


def _candidates(top: Path, cannot_read: Callable[[OSError], None]) -> Iterator[Path]:
    """The folders of a worktree that may be work dirs, without other repositories inside it."""
    for folder, inside, files in os.walk(top, onerror=cannot_read):
        if ".git" in (*inside, *files) and folder != str(top):
            inside.clear()
        elif TELOS in inside:
            yield Path(folder)
        inside[:] = [name for name in inside if name not in (TELOS, ".git")]


def _worktree_list(place: Path, prefix: str) -> list[str]:
    """The lines of `git worktree list` with a prefix, without it."""
    lines = map(os.fsdecode, Git(place).ask("worktree", "list", "--porcelain", "-z").split(b"\0"))
    return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]


def _busy_terminals() -> set[str] | None:
    """The terminals with live processes: every process of an agent has the terminal's folder in its environment.

    None where the system does not tell.
    """
    marks: set[str] = set()
    entries = [*Path("/proc").glob("[0-9]*/environ")]
    for entry in entries:
        # The process may have ended, or belong to another user.
        with suppress(OSError):
            variables = entry.read_bytes().split(b"\0")
            marks |= {Path(os.fsdecode(variable)).name for variable in variables if variable.startswith(_MARK)}
    return marks if entries else None


def _removable_refs(
    refs: Iterable[Ref], runs: list[SurveyedRun], forks: list[str], gaps: list[Unreadable], old: float
) -> Iterator[Removal]:
    by_run: dict[str, list[Ref]] = {}
    for ref in refs:
        if parts := _OURS.fullmatch(ref.name):
            by_run.setdefault(parts["run"], []).append(ref)
    snapshots = by_run.pop("snapshots", [])
    removable: set[str] = set()
    for run, own in by_run.items():
        # Several logs may have the run: all must agree.
        whys = [known.why for known in runs if known.run == run]
        if not whys and _all_listed(gaps) and run not in forks and max(ref.at for ref in own) < time.time() - DAY:
            whys = ["in no log of this repository"]
        if whys and all(whys):
            removable.add(run)
            yield Removal(f"run {run}", whys[0], tuple(own))
    needed = {ref.commit for run, own in by_run.items() if run not in removable for ref in own}
    needed |= {commit for run in runs if run.run not in removable for commit in run.commits}
    for ref in snapshots:
        if ref.at < old and ref.commit not in needed and not gaps:
            yield Removal(f"snapshot {ref.commit[:12]}", f"kept on {day_of(ref.at)}", (ref,))


def _removable_branches(place: Path, runs: list[SurveyedRun]) -> Iterator[Removal]:
    """Branches of abandoned builds, unless a person has committed on them or works on them."""
    heads = set(_worktree_list(place, "branch "))
    for run in runs:
        own = f"refs/heads/logos/{run.run}"
        if not (run.why and run.made) or any(known.run == run.run and not known.made for known in runs):
            continue
        found = refs_of_ours(place, own, f"refs/heads/logos-work/{run.run}/")
        refs = tuple(ref for ref in found if ref.name not in heads and not adds_to(place, ref, run.made))
        if refs:
            yield Removal(f"branches of build {run.run}", run.why, refs)


def _removable_acceptance(runs: list[SurveyedRun], places: Iterable[Path], gaps: list[Unreadable]) -> Iterator[Removal]:
    """Acceptance tests in the user state folder: of runs that have ended, and of work dirs that are gone."""
    here = {place.resolve() for place in places}
    needed = {name for run in runs if not run.why for name in run.acceptance}
    whys = {name: run.why for run in runs if run.why for name in run.acceptance}
    for folder, work_dir in acceptance_folders():
        run = run_of(folder)
        what = f"acceptance tests of run {run}"
        if work_dir is not None and not work_dir.exists():
            yield Removal(what, "its work dir is gone", (), (folder,))
        elif work_dir is not None and work_dir.resolve() in here and not gaps and not {folder.name, run} & needed:
            yield Removal(what, whys.get(run, "in no log of this repository"), (), (folder,))


def _removable_folders(runs: list[SurveyedRun], busy: set[str]) -> Iterator[Removal]:
    """Folders under .telos of agents whose runs have ended and whose terminals have no live process."""
    staying = {folder for run in runs if not run.why for folder in run.folders}
    for run in runs:
        idle = tuple(folder for folder in sorted(run.folders - staying) if folder.name[:8] not in busy)
        if idle:
            yield Removal(f"agents of run {run.run}", run.why, (), idle)
