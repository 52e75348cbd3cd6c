"""`logos gc`: removes checkpoints of runs that are long over, what their agents left, and mirrors of deleted logs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logos.app.workdir import DATABASE, TELOS, driver_at, has_log, place_of
from logos.cli.options import AsJson, WorkDir, examples
from logos.errors import HostError

if TYPE_CHECKING:
    from logos.adapters.git.snapshots import Ref
    from logos.cli.sessions import Unread
    from logos.views.run import RunView

EXAMPLES = examples(
    "logos gc --dry-run                # what would be removed",
    "logos gc                          # by checkpoints.keep_days and checkpoints.keep_runs",
    "logos gc --keep-days 0 --keep-runs 1",
)
DAY = 86_400.0
# What Logos writes under refs/logos/: events of a run, commits that its log names, what its turns left; and snapshots.
_OURS = re.compile(r"refs/logos/(?P<run>[A-Za-z0-9][A-Za-z0-9_-]*)/(?:\d{1,9}|[0-9a-f]{12,64}|left/.+)")
_SNAPSHOTS = "snapshots"
_FORK = "branch refs/heads/logos-fork/"
_HOSTS = ("local", "scripted")
_TERMINAL = re.compile(r"[0-9a-f]{8}")
_MARK = b"LOGOS_TERMINAL="

KeepDays = Annotated[
    int | None,
    typer.Option("--keep-days", min=0, metavar="N", help="Keep what ended less than so many days ago."),
]
KeepRuns = Annotated[
    int | None,
    typer.Option("--keep-runs", min=0, metavar="N", help="Keep so many newest runs of each work dir, however old."),
]


@dataclass(frozen=True, slots=True)
class Policy:
    days: int
    runs: int
    now: float

    def old(self, at: float) -> bool:
        return at < self.now - self.days * DAY


@dataclass(frozen=True, slots=True)
class Known:
    """A run as its log tells; `over` is its outcome where it cannot go on any more, `rank` 1 the newest of its log."""

    place: Path
    run: str
    over: str = ""
    last: float = 0.0
    commits: frozenset[str] = frozenset()
    terminals: frozenset[tuple[str, str]] = frozenset()
    rank: int = 1
    driven: bool = False

    def may_go(self, policy: Policy) -> bool:
        return bool(self.over) and not self.driven and self.rank > policy.runs and policy.old(self.last)


@dataclass(frozen=True, slots=True)
class Survey:
    """Every run of every work dir of the repository, and what could not be read.

    `making` are forks that have a worktree and may not be in its log yet, `busy` the terminals to which live processes
    belong; None where the system does not tell.
    """

    runs: tuple[Known, ...]
    unread: tuple[Unread, ...]
    making: frozenset[str]
    busy: frozenset[str] | None

    @property
    def all_listed(self) -> bool:
        """Whether no log can know of a run that is not here."""
        return all(gap.run is not None for gap in self.unread)

    @property
    def notes(self) -> list[str]:
        told = [f"{gap.place}: {gap.why}" for gap in self.unread]
        if not self.all_listed:
            told.append("not every log could be read, so checkpoints that seem to be nobody's are kept")
        if self.unread:
            told.append("not every run could be read, so all snapshots are kept")
        if self.busy is None:
            told.append("what agents left under .telos is kept: it cannot be told here whether they are at work")
        return told


@dataclass(frozen=True, slots=True)
class Removal:
    """What goes together: the refs of a run, a snapshot, or the folders of a run's agents."""

    what: str
    why: str
    refs: tuple[Ref, ...] = ()
    folders: tuple[Path, ...] = ()


def gc(
    keep_days: KeepDays = None,
    keep_runs: KeepRuns = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Remove the checkpoints of runs that ended long ago, in all work dirs of this repository.

    Also removed: the mirrors of logs whose work dir no longer exists, of any repository.

    Never those of a run that can still go on, never your branches, and never the log: a run without checkpoints can
    still be read. Defaults are checkpoints.keep_days and checkpoints.keep_runs. It is safe while runs are at work.
    """
    from logos.adapters.git.command import is_repository
    from logos.adapters.git.snapshots import held_by_nothing_else, refs_of_ours
    from logos.app.checkpoint_names import settings_of
    from logos.cli.output import console as show

    place = place_of(wd)
    default = settings_of(place).checkpoints
    policy = Policy(
        default.keep_days if keep_days is None else keep_days,
        default.keep_runs if keep_runs is None else keep_runs,
        time.time(),
    )
    # Refs first: what begins while the logs are read is in none of them, and not among these.
    refs = refs_of_ours(place) if is_repository(place) else []
    found = survey(place)
    planned = [*refs_to_go(refs, found, policy), *folders_to_go(found, policy), *mirrors_to_go()]
    kept: list[str] = []
    gone = planned if dry_run else [*carry_out(place, planned, kept)]
    freed = held_by_nothing_else(place, [ref for own in gone for ref in own.refs]) if refs else 0
    for note in (*found.notes, *(f"it stays, as it is in use: {name}" for name in kept)):
        show.tell(f"warning: {note}")
    if as_json:
        told = {"dry_run": dry_run, "keep_days": policy.days, "keep_runs": policy.runs}
        show.document({**told, **as_document(gone, freed), "in_use": kept, "notes": found.notes})
    else:
        put_removed(gone, policy, freed, "would remove" if dry_run else "removed")
    return 0


def carry_out(place: Path, planned: Iterable[Removal], kept: list[str]) -> Iterator[Removal]:
    """What was really removed; what was in use, or could not be, is added to `kept`."""
    from logos.adapters.git.snapshots import remove_refs
    from logos.adapters.git.worktrees import remove

    for own in planned:
        refs = remove_refs(place, own.refs) if own.refs else []
        kept += [ref.name for ref in own.refs if ref not in refs]
        folders: list[Path] = []
        for folder in own.folders:
            try:
                remove(folder)
                folders.append(folder)
            except HostError as error:
                kept.append(f"{folder} ({error})")
        if refs or folders:
            yield replace(own, refs=tuple(refs), folders=tuple(folders))


# --- what is known


def survey(place: Path) -> Survey:
    from logos.adapters.git.command import is_repository

    unread: list[Unread] = []
    git = is_repository(place)
    places = _work_dirs(place, unread) if git else [place] if has_log(place) else []
    runs = [known for own in places for known in _runs_of(own, unread)]
    return Survey(tuple(runs), tuple(unread), _forks(place) if git else frozenset(), _busy())


def _runs_of(place: Path, unread: list[Unread]) -> list[Known]:
    from logos.adapters.store.recovery import open_readonly
    from logos.cli.sessions import Unread, stories_in

    runs: list[Known] = []
    complaints: list[str] = []
    driven = driver_at(place) is not None
    for story in stories_in(place, lambda own: open_readonly(own / TELOS / DATABASE, complaints.append, driven=driven)):
        if isinstance(story, Unread):
            unread.append(story)
            runs += [Known(place, story.run)] if story.run else []
        else:
            runs.append(_known(place, story))
    unread += [Unread(place, None, provider_error) for provider_error in complaints]
    # A driver is at work on the run to which something happened last. A damaged log does not tell what is over.
    newest = max((own.last for own in runs), default=0.0) if driven else None
    return [
        replace(own, rank=len(runs) - at, driven=own.last == newest, over="" if complaints else own.over)
        for at, own in enumerate(runs)
    ]


def _known(place: Path, story: RunView) -> Known:
    from logos.domain.events import RunAbandoned, RunEnded, RunForked, RunResumed, RunStarted, TerminalOpened
    from logos.domain.plans import LevelsPlan
    from logos.flows.fold import UNFINISHED

    events = [record.event for record in story.records]
    # What was opened before a fork is another run's.
    own = events[story.forked.seq if story.forked is not None else 0 :]
    ended = any(isinstance(event, RunEnded | RunAbandoned) for event in own) and not story.damage
    plans = [event.plan for event in events if isinstance(event, RunStarted | RunResumed | RunForked)]
    bases = {plan.base for plan in plans if isinstance(plan, LevelsPlan)}
    begun_at = {event.commit for event in events if isinstance(event, RunForked)}
    terminals = {(event.session, str(event.terminal)) for event in own if isinstance(event, TerminalOpened)}
    over = str(story.outcome) if ended and story.outcome not in UNFINISHED else ""
    last = max(record.at for record in story.records)
    return Known(place, story.run, over, last, frozenset(bases | begun_at), frozenset(terminals))


def _work_dirs(place: Path, unread: list[Unread]) -> list[Path]:
    """Every folder of every worktree of the repository that has a log."""
    from logos.adapters.git.command import repository_of
    from logos.cli.sessions import Unread

    def cannot(error: OSError) -> None:
        unread.append(Unread(Path(error.filename), None, str(error.strerror)))

    found: dict[Path, Path] = {}
    for top in dict.fromkeys((repository_of(place).top, *map(Path, _said_of_worktrees(place, "worktree ")))):
        if top.is_dir():
            logs = [own for own in _folders_of(top, cannot) if _is_file(own / TELOS / DATABASE, cannot)]
            found |= {own.resolve(): own for own in logs}
        elif f"/{TELOS}/worktrees/" not in str(top):
            # A place of a build has no log, but the folder of a fork may only be away for now.
            why = "this worktree is gone; if it is gone for good, `git worktree prune` lets git forget it"
            unread.append(Unread(top, None, why))
    return [*found.values()]


def _folders_of(top: Path, cannot: Callable[[OSError], None]) -> Iterator[Path]:
    """The folders of a worktree that could be work dirs; other repositories in it are none of its business."""
    for own, inside, files in os.walk(top, onerror=cannot):
        if ".git" in (*inside, *files) and own != str(top):
            inside.clear()
        elif TELOS in inside:
            yield Path(own)
        inside[:] = [name for name in inside if name not in (TELOS, ".git")]


def _is_file(path: Path, cannot: Callable[[OSError], None]) -> bool:
    """What may not be looked at is not the same as what is not there."""
    try:
        return S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        cannot(error)
        return False


def _forks(place: Path) -> frozenset[str]:
    return frozenset(_said_of_worktrees(place, _FORK))


def _said_of_worktrees(place: Path, begins: str) -> list[str]:
    from logos.adapters.git.command import Git

    said = map(os.fsdecode, Git(place).ask("worktree", "list", "--porcelain", "-z").split(b"\0"))
    return [line.removeprefix(begins) for line in said if line.startswith(begins)]


def _busy() -> frozenset[str] | None:
    """The terminals to which some live process belongs; all that agents start carries their mark."""
    marks: set[str] = set()
    entries = [*Path("/proc").glob("[0-9]*/environ")]
    for entry in entries:
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            # It ended just now, or is another person's.
            continue
        marks |= {Path(os.fsdecode(word)).name for word in words if word.startswith(_MARK)}
    return frozenset(marks) if entries else None


# --- what may go


def refs_to_go(refs: Iterable[Ref], found: Survey, policy: Policy) -> list[Removal]:
    of: dict[str, list[Ref]] = {}
    for ref in refs:
        named = _OURS.fullmatch(ref.name)
        if named is not None:
            of.setdefault(named["run"], []).append(ref)
    snapshots = of.pop(_SNAPSHOTS, [])
    whys = {run: why for run, own in of.items() if (why := _why_it_may_go(run, own, found, policy))}
    still = {ref.commit for run, own in of.items() if run not in whys for ref in own}
    still |= {commit for known in found.runs if known.run not in whys for commit in known.commits}
    runs = [Removal(f"run {run}", why, tuple(of[run])) for run, why in whys.items()]
    old = [ref for ref in snapshots if policy.old(ref.at) and ref.commit not in still and not found.unread]
    return [*runs, *(Removal(f"snapshot {ref.commit[:12]}", f"kept on {_day(ref.at)}", (ref,)) for ref in old)]


def _why_it_may_go(run: str, refs: list[Ref], found: Survey, policy: Policy) -> str:
    """Empty where it must stay."""
    known = [own for own in found.runs if own.run == run]
    if known:
        # Where several logs know it, all must agree.
        return f"{known[0].over} on {_day(known[0].last)}" if all(own.may_go(policy) for own in known) else ""
    settled = max(ref.at for ref in refs) < policy.now - DAY and run not in found.making
    return "in no log of this repository" if settled and found.all_listed else ""


def folders_to_go(found: Survey, policy: Policy) -> Iterator[Removal]:
    """What agents of runs that are over left under .telos, where nobody is at work in it."""
    if found.busy is None:
        return
    staying = {(own.place, *terminal) for own in found.runs if not own.may_go(policy) for terminal in own.terminals}
    for own in found.runs:
        free = sorted(own.terminals) if own.may_go(policy) else []
        folders = [
            folder
            for session, name in free
            if name not in found.busy and (own.place, session, name) not in staying
            for folder in _folders(own.place, session, name)
        ]
        if folders:
            yield Removal(f"agents of run {own.run}", f"{own.over} on {_day(own.last)}", (), tuple(folders))


def mirrors_to_go() -> Iterator[Removal]:
    """The mirrors of logs whose work dir is gone, whatever repository that was in."""
    from logos.adapters.store.registry import abandoned

    for folder, log in abandoned():
        yield Removal(f"mirror of {log}", "its work dir is gone", (), (folder,))


def _folders(place: Path, session: str, terminal: str) -> list[Path]:
    """A terminal's folder, and those that were its own and are closed."""
    if session not in _HOSTS or not _TERMINAL.fullmatch(terminal):
        return []
    root = place / TELOS / session
    there = [root / terminal, *sorted(root.glob(f"{terminal}.closed-*"))]
    return [folder for folder in there if folder.is_dir() and not folder.is_symlink()]


def _day(at: float) -> str:
    from logos.views.text import date

    return date(at)[:10]


# --- in words


def put_removed(gone: list[Removal], policy: Policy, freed: int, does: str) -> None:
    from logos.cli.output import console as show
    from logos.views.text import count

    target = show.console()
    if not gone:
        show.put(target, f"nothing to remove (keep_days = {policy.days}, keep_runs = {policy.runs})")
        return
    for own in gone:
        much = count(len(own.refs), "ref") if own.refs else count(len(own.folders), "folder")
        show.put(target, f"{own.what} ({own.why}): {much}")
    refs, folders = sum(len(own.refs) for own in gone), sum(len(own.folders) for own in gone)
    show.put(target, f"{does} {count(refs, 'ref')} and {count(folders, 'folder')}", "bold")
    if refs:
        held = f"{count(freed, 'commit')} that nothing else holds"
        show.put(target, f"git frees the space of {held} at its next `git gc`")


def as_document(gone: list[Removal], freed: int) -> dict[str, Any]:
    return {
        "removed": [
            {
                "what": own.what,
                "why": own.why,
                "refs": [ref.name for ref in own.refs],
                "folders": [str(folder) for folder in own.folders],
            }
            for own in gone
        ],
        "commits_freed": freed,
    }
