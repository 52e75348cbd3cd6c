"""Diff: what changed in the files between two checkpoints, and which turns ended in between."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from logos.adapters.git.command import Git, checked_commit, is_repository, text_of
from logos.adapters.git.snapshots import GitSnapshots
from logos.app.checkpoint_names import finding, settings_of
from logos.app.checkpoints import files_at
from logos.app.workdir import Tell, place_of, say
from logos.domain.events import CheckRan, TurnAnswered, TurnFailed, WorkGathered, WorkMerged
from logos.errors import UsageError
from logos.views.run import RunView, TurnView

NOT_KEPT = "checkpoints were off then, or `logos gc` has removed them"

_FLAGS = ("-r", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")
# A run, perhaps with an event: a word that is not only digits. Numbers, dates and turns are events.
_RUN = re.compile(r"\w*[^\W\d]\w*(@.*)?")
_ENDS = TurnAnswered | TurnFailed | CheckRan | WorkGathered | WorkMerged


@dataclass(frozen=True, slots=True)
class DiffSide:
    """A run at an event, and the commit of its files then; without an event, the files as they are now."""

    place: Path
    view: RunView
    seq: int | None
    commit: str

    @property
    def name(self) -> str:
        if self.seq is not None:
            return f"{self.view.run}@{self.seq}"
        return f"the work dir {self.place}" if self.view.build is None else f"the newest head of {self.view.run}"

    @property
    def why_not_kept(self) -> str:
        return NOT_KEPT if is_repository(self.place) else f"{self.place} is not a git repository"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that differs, with the number of lines added and deleted; None for a binary file."""

    path: str
    added: int | None
    deleted: int | None


@dataclass(frozen=True, slots=True)
class Diff:
    """Two checkpoints. Git is asked for a patch, a summary or a list of files when it is wanted."""

    one: DiffSide
    other: DiffSide

    @property
    def missing(self) -> list[DiffSide]:
        """The sides whose files were not kept."""
        return [side for side in (self.one, self.other) if not side.commit]

    @property
    def turns(self) -> list[TurnView] | None:
        """The turns, checks and merges that ended between two checkpoints of one run; None for two runs."""
        view = self.one.view
        if view.run != self.other.view.run:
            return None
        first, last = sorted(side.seq or len(view.records) for side in (self.one, self.other))
        ended = {record.event.turn for record in view.records[first:last] if isinstance(record.event, _ENDS)}
        return [turn for turn in view.turns if turn.turn in ended]

    def patch(self) -> bytes:
        return self._git_diff("-M", "--binary", "--patch")

    def patch_text(self) -> str:
        return text_of(self.patch())

    def stat(self) -> list[str]:
        return [line.rstrip() for line in text_of(self._git_diff("-M", "--stat=100")).splitlines()]

    def files(self) -> list[ChangedFile]:
        rows = (row.split(b"\t", 2) for row in self._git_diff("--no-renames", "-z", "--numstat").split(b"\0") if row)
        return [ChangedFile(text_of(path), _number(added), _number(deleted)) for added, deleted, path in rows]

    def _git_diff(self, *options: str) -> bytes:
        # A build knows the whole repository, a cycle only its work dir.
        same_flow = self.one.view.plan.flow == self.other.view.plan.flow
        commits = checked_commit(self.one.commit), checked_commit(self.other.commit)
        return Git(self.one.place).ask("diff-tree", *_FLAGS, *options, *commits, "--", *(() if same_flow else (".",)))


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None


def diff(a: str, b: str | None = None, *, wd: Path | None = None, tell: Tell = say) -> Diff:
    """Compare checkpoint `a` with `b`, which is of the same run unless it names another.

    Without `b` it is compared with the files in the work dir now; of a build, with its newest head.
    """
    one = side_at(place_of(wd), a)
    if b is None:
        return Diff(one, _now(one, tell))
    return Diff(one, side_at(one.place, b if _RUN.fullmatch(b) else f"{one.view.run}@{b}", one.view))


def side_at(place: Path, wanted: str, known: RunView | None = None) -> DiffSide:
    """The side that a person names; a run alone is its newest event. `known` is a run that is loaded already."""
    with finding(place, wanted, known=known) as found:
        view = found.view
    last = len(view.records)
    seq = last if found.seq is None else found.seq
    if not 1 <= seq <= last:
        has = f"it can be read up to {last}" if view.damage else f"it has {last}"
        raise UsageError(f"there is no event {seq} in run {view.run}: {has}")
    return DiffSide(found.place, view, seq, files_at(found.place, view, seq))


def _now(one: DiffSide, tell: Tell) -> DiffSide:
    """The files of a run now, without changing anything that a driver uses."""
    place, view = one.place, one.view
    if view.build is not None:
        return DiffSide(place, view, None, files_at(place, view, len(view.records)))
    if not is_repository(place):
        return DiffSide(place, view, None, "")
    with TemporaryDirectory(prefix="logos-look-") as home:
        snapshots = GitSnapshots(place, [settings_of(place).state_path], tell, Path(home))
        return DiffSide(place, view, None, snapshots.take())
