"""`logos diff`: what changed in the files between two checkpoints, and what happened in the run meanwhile."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logos.app.workdir import place_of
from logos.cli.options import AsJson, WorkDir, examples
from logos.errors import HostError, UsageError
from logos.views.document import turn_document
from logos.views.document_shapes import FileDocument

if TYPE_CHECKING:
    from logos.views.run import RunView, TurnView

EXAMPLES = examples(
    "logos diff 12                     # from event 12 of the newest run to what lies here now",
    "logos diff 12 30 --stat           # between two events; `logos log` and `logos sessions` tell the numbers",
    "logos diff k3ab@r1.programmer.c1 r1.programmer.c2",
    "logos diff 2026-11-14             # since the last event of that day",
    "logos diff k3ab k9cd              # between the ends of two runs",
    "logos diff 30 12 | git apply      # undo in the files what was done in between",
)
_FLAGS = ("-r", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")
# A run, perhaps with an event: a word that is not only digits. Numbers, dates and turns are events.
_RUN = re.compile(r"\w*[^\W\d]\w*(@.*)?")
NOT_KEPT = "checkpoints were off then, or `logos gc` has removed them"

First = Annotated[
    str, typer.Argument(metavar="A", help="An event's number, RUN@NUMBER, RUN, a turn's id, RUN@TURN, a date.")
]
Second = Annotated[
    str | None,
    typer.Argument(metavar="B", help="The same, of A's run unless it names another; default: what lies there now."),
]


@dataclass(frozen=True, slots=True)
class Side:
    """A run at an event, and the commit of its files then; without an event, as they are now."""

    place: Path
    story: RunView
    seq: int | None
    commit: str

    @property
    def name(self) -> str:
        if self.seq is not None:
            return f"{self.story.run}@{self.seq}"
        return f"what lies in {self.place}" if self.story.build is None else f"the newest head of {self.story.run}"

    @property
    def why_not_kept(self) -> str:
        from logos.adapters.git.command import is_repository

        return NOT_KEPT if is_repository(self.place) else f"{self.place} is no git repository"


@dataclass(frozen=True, slots=True)
class Changed:
    """A file that differs, with the lines that came and went; None where it has no lines."""

    path: str
    added: int | None
    deleted: int | None


def diff(
    a: First,
    b: Second = None,
    stat: Annotated[bool, typer.Option("--stat", help="A line for each file instead of the patch.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Show as a patch what changed in the files between two checkpoints; in a pipe it is fit for `git apply`.

    What happened in the run meanwhile is told on stderr. Without B it goes on to what lies in the work dir now, of a
    build to its newest head.
    """
    from logos.cli.output import console as show

    one = side(place_of(wd), a)
    other = side(one.place, _of_the_same_run(one, b)) if b is not None else now(one)
    meanwhile = between(one, other)
    if as_json:
        show.document(as_document(one, other, meanwhile, stat=stat))
        return 0
    put_meanwhile(one, other, meanwhile)
    missing = [own for own in (one, other) if not own.commit]
    for own in missing:
        show.tell(f"the files at {own.name} were not kept: {own.why_not_kept}")
    if not missing:
        put_changes(one, other, stat=stat)
    return 0


def _of_the_same_run(one: Side, wanted: str) -> str:
    return wanted if _RUN.fullmatch(wanted) else f"{one.story.run}@{wanted}"


def side(place: Path, wanted: str) -> Side:
    """What a person means; a run alone is its newest event."""
    from logos.app.checkpoint_names import finding
    from logos.app.runs import load_run

    with finding(place, wanted) as found:
        story = load_run(found.log, found.run)
    last = len(story.records)
    seq = last if found.seq is None else found.seq
    if not 1 <= seq <= last:
        has = f"it can be read up to {last}" if story.damage else f"it has {last}"
        raise UsageError(f"there is no event {seq} in run {story.run}: {has}")
    return Side(found.place, story, seq, commit_of(found.place, story, seq))


def now(one: Side) -> Side:
    """Where a side's run stands now: what lies in its work dir, looked at without touching anything of a driver's."""
    from tempfile import TemporaryDirectory

    from logos.adapters.git.command import is_repository
    from logos.adapters.git.snapshots import GitSnapshots
    from logos.app.checkpoint_names import settings_of
    from logos.cli.output.console import tell

    if one.story.build is not None:
        return Side(one.place, one.story, None, commit_of(one.place, one.story, len(one.story.records)))
    if not is_repository(one.place):
        return Side(one.place, one.story, None, "")
    unseen = [settings_of(one.place).state_path]
    with TemporaryDirectory(prefix="logos-look-") as home:
        return Side(one.place, one.story, None, GitSnapshots(one.place, unseen, tell, Path(home)).take())


def commit_of(place: Path, story: RunView, seq: int) -> str:
    """The files of a run at an event; empty where they were not kept. What is damaged after it does not matter."""
    from logos.adapters.git.command import is_repository
    from logos.adapters.git.snapshots import GitSnapshots
    from logos.engine.checkpoints import commit_at

    if not is_repository(place):
        return ""
    if story.build is None:
        return commit_at(GitSnapshots(place).of(story.run), seq)
    return _if_kept(place, _head_at(story, seq))


def _head_at(story: RunView, seq: int) -> str:
    """What a build had merged."""
    from logos.flows.levels.state import LevelsState

    state = story.states[seq - 1]
    assert isinstance(state, LevelsState)
    return state.head


def _if_kept(place: Path, commit: str) -> str:
    """A commit that only the log names may be gone."""
    from logos.adapters.git.command import Git, tree_of

    try:
        return commit if tree_of(Git(place), commit) else ""
    except HostError:
        return ""


def compared(one: Side, other: Side, *how: str) -> bytes:
    """What git says of the difference between two sides. A build knows the whole repository, a cycle its work dir."""
    from logos.adapters.git.command import Git, checked_commit

    alike = (one.story.build is None) == (other.story.build is None)
    commits = checked_commit(one.commit), checked_commit(other.commit)
    return Git(one.place).ask("diff-tree", *_FLAGS, *how, *commits, "--", *(() if alike else (".",)))


def patch(one: Side, other: Side) -> bytes:
    return compared(one, other, "-M", "--binary", "--patch")


def stat_lines(one: Side, other: Side) -> list[str]:
    from logos.adapters.git.command import text_of

    return [line.rstrip() for line in text_of(compared(one, other, "-M", "--stat=100")).splitlines()]


def files(one: Side, other: Side) -> list[Changed]:
    from logos.adapters.git.command import text_of

    rows = (row.split(b"\t", 2) for row in compared(one, other, "--no-renames", "-z", "--numstat").split(b"\0") if row)
    return [Changed(text_of(path), _lines(added), _lines(deleted)) for added, deleted, path in rows]


def _lines(told: bytes) -> int | None:
    return int(told) if told.isdigit() else None


def between(one: Side, other: Side) -> list[TurnView] | None:
    """The turns, checks and merges that ended between two sides; None when they are not of one run."""
    from logos.domain.events import CheckRan, TurnAnswered, TurnFailed, WorkGathered, WorkMerged

    if one.story.run != other.story.run:
        return None
    first, last = sorted(own.seq or len(own.story.records) for own in (one, other))
    events = (record.event for record in one.story.records[first:last])
    ended = {
        event.turn
        for event in events
        if isinstance(event, TurnAnswered | TurnFailed | CheckRan | WorkGathered | WorkMerged)
    }
    return [told for told in one.story.turns if told.turn in ended]


def put_meanwhile(one: Side, other: Side, meanwhile: Sequence[TurnView] | None) -> None:
    """Beside the patch, not in it."""
    from logos.cli.output import console as show
    from logos.views.text import duration

    target = show.console(stderr=True)
    show.put(target, f"from {one.name} to {other.name}", "dim")
    rows = [
        (
            told.turn,
            told.who,
            "" if told.seconds is None else duration(told.seconds),
            told.verdict or (f"failed: {told.failure}" if told.failure else ""),
        )
        for told in meanwhile or ()
    ]
    for line in show.columns(("",) * 4, rows)[1:]:
        show.put(target, f"  {line}", "dim")
    if meanwhile is not None and not rows:
        show.put(target, "  no turn ended between them", "dim")


def put_changes(one: Side, other: Side, *, stat: bool) -> None:
    """The bytes as they are in a pipe; fit for a person's eyes on a terminal."""
    from logos.adapters.git.command import text_of
    from logos.cli.output import console as show

    target = show.console()
    if stat:
        for line in stat_lines(one, other) or ["no file differs"]:
            show.put(target, line)
        return
    found = patch(one, other)
    if not found:
        show.tell("no file differs")
    elif sys.stdout.isatty():
        show.put_diff(target, text_of(found))
    else:
        sys.stdout.buffer.write(found)
        sys.stdout.flush()


def as_document(one: Side, other: Side, meanwhile: Sequence[TurnView] | None, *, stat: bool) -> dict[str, Any]:
    from logos.adapters.git.command import text_of

    kept = bool(one.commit and other.commit)
    return {
        "from": side_as_json(one),
        "to": side_as_json(other),
        "timeline": None if meanwhile is None else [turn_document(turn) for turn in meanwhile],
        "files": files_as_json(files(one, other)) if kept else None,
        "patch": text_of(patch(one, other)) if kept and not stat else None,
    }


def side_as_json(own: Side) -> dict[str, Any]:
    return {
        "run": own.story.run,
        "event": own.seq,
        "commit": own.commit or None,
        "wd": str(own.place),
        "not_kept": None if own.commit else own.why_not_kept,
    }


def files_as_json(changed: Sequence[Changed]) -> list[FileDocument]:
    return [{"path": own.path, "added": own.added, "deleted": own.deleted} for own in changed]
