"""`logos sessions`: every stretch in which somebody drove a run, here and in the forks, by date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logos.app.workdir import driver_at, has_log, place_of, reading
from logos.cli.options import AsJson, WorkDir, examples
from logos.errors import LogError, LogosError
from logos.views.document import session_document
from logos.views.document_shapes import VERSION, SessionRowDocument, SessionsDocument

if TYPE_CHECKING:
    from logos.app.checkpoint_names import OpenLog
    from logos.domain.events import RunForked
    from logos.views.run import RunView
    from logos.views.sessions import Session

EXAMPLES = examples(
    "logos sessions                    # all of them, oldest first",
    "logos sessions k3                 # those of the run whose id begins with k3",
    "logos sessions --json | jq '.sessions[-1].last'",
)
HOW = (
    "a session's last event is a checkpoint: `logos rollback RUN@EVENT` goes back to it, "
    "`logos fork RUN --at EVENT` goes on from it in a folder of its own"
)
KILLED = "killed"


@dataclass(frozen=True, slots=True)
class Row:
    """A session as it is listed. `ended` is when its driver did its last thing; what a person did later is not that."""

    place: Path
    run: str
    flow: str
    number: int
    began: float
    ended: float
    seconds: float
    first: int
    last: int
    turns: int
    how: str
    session: Session
    forked: RunForked | None = None
    given_up: str = ""
    damage: str = ""
    newest: bool = False
    over: bool = False
    driver: int | None = None

    @property
    def lineage(self) -> str:
        told = [
            *([origin(self.forked)] if self.forked is not None else []),
            *([f"given up: {self.given_up}"] if self.given_up else []),
            *([f"damaged: {self.damage}"] if self.damage else []),
        ]
        return "; ".join(told)


@dataclass(frozen=True, slots=True)
class Unread:
    """A log, or one run of it, that cannot be read."""

    place: Path
    run: str | None
    why: str


def sessions(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run id or its beginning; default: all.")] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """List the sessions of this work dir and of the forks of its repository, oldest first.

    A session is what one driver did of a run. What a fork has from the run it was forked from is listed there.
    """
    from logos.cli.output import console as show

    place = place_of(wd)
    rows, unread = listed(place, run)
    if unread and not rows:
        raise LogError(unread[0].why)
    for gap in unread:
        show.tell(f"warning: {gap.place}: {gap.why}")
    if as_json:
        show.document(as_document(place, rows, unread))
    elif not rows:
        show.put(show.console(), f"no sessions in {place} yet; `logos run` begins one")
    else:
        put_sessions(place, rows)
    return 0


def listed(place: Path, wanted: str | None) -> tuple[list[Row], list[Unread]]:
    """Every session that can be read, or those of one run, and what cannot."""
    from logos.app.checkpoint_names import finding

    only, where = None, places(place)
    if wanted is not None:
        # With the sign after it, it is a run whatever it looks like.
        with finding(place, f"{wanted.partition('@')[0]}@") as found:
            only, where = found.run, [found.place]
    rows: list[Row] = []
    unread: list[Unread] = []
    for own in where:
        there: list[Row] = []
        for story in stories_in(own):
            if isinstance(story, Unread):
                unread.append(story)
            else:
                there += rows_of(own, story)
        rows += at_work(there, own)
    rows = sorted((row for row in rows if only in (None, row.run)), key=lambda row: row.began)
    return rows, [gap for gap in unread if only is None or gap.run in (None, only)]


def places(place: Path) -> list[Path]:
    """The work dirs of the repository that have a log, each once, whatever it is called."""
    from logos.app.checkpoint_names import work_dirs

    known = {own.resolve(): own for own in reversed(work_dirs(place)) if has_log(own)}
    return [*reversed(known.values())]


def stories_in(place: Path, opened: OpenLog = reading) -> Iterator[RunView | Unread]:
    """Run after run of a log, oldest first; what cannot be read does not hide the rest."""
    from logos.app.runs import load_run

    try:
        with opened(place) as log:
            for run in log.runs():
                try:
                    story: RunView | Unread = load_run(log, run)
                except LogError as error:
                    story = Unread(place, run, str(error))
                yield story
    except LogosError as error:
        yield Unread(place, None, str(error))


def rows_of(place: Path, story: RunView) -> list[Row]:
    """The sessions of a run that are its own."""
    found = story.sessions
    rows = [_row(place, story, session) for session in found if not session.inherited]
    return [*rows[:-1], replace(rows[-1], newest=True, damage=story.damage)] if rows else []


def _row(place: Path, story: RunView, session: Session) -> Row:
    unresumed = session.end == KILLED and session.last == len(story.records) and not session.given_up
    return Row(
        place,
        story.run,
        story.plan.flow,
        session.number,
        session.began,
        session.ended,
        session.seconds,
        session.first,
        session.last,
        len(session.answered),
        f"{KILLED}, not resumed" if unresumed else session.end,
        session,
        session.forked,
        session.given_up,
        over=bool(session.outcome or session.given_up),
    )


def at_work(rows: list[Row], place: Path) -> list[Row]:
    """The driver of a work dir is at work on the run to which something happened last."""
    driver = driver_at(place)
    open_ones = [row for row in rows if row.newest and not row.over]
    if driver is None or not open_ones:
        return rows
    driven = max(open_ones, key=lambda row: row.ended)
    return [replace(row, how=f"at work (pid {driver})", driver=driver) if row is driven else row for row in rows]


def origin(forked: RunForked) -> str:
    how = "forked from" if forked.way == "fork" else "rolled back to"
    return f"{how} {forked.parent}@{forked.at}"


def put_sessions(place: Path, rows: Sequence[Row]) -> None:
    from logos.cli.output import console as show
    from logos.views.events import Severity
    from logos.views.text import date, duration

    target = show.console()
    cells = [
        (
            *(date(row.began), row.run, row.number, duration(row.seconds), f"{row.first}-{row.last}"),
            *(row.turns, row.how, row.lineage, "" if row.place == place else str(row.place)),
        )
        for row in rows
    ]
    tones = {"PASSED": Severity.GOOD, "FAILED": Severity.BAD, "REJECTED": Severity.BAD, "BLOCKED": Severity.WARNING}
    heads = ("began", "run", "no.", "took", "events", "turns", "how it ended", "lineage", "folder")
    show.put_table(target, *_without_empty(heads, cells), [tones.get(row.how, Severity.NORMAL) for row in rows])
    show.put(target, f"\n{HOW}", "dim")


def _without_empty(
    heads: tuple[str, ...], rows: Sequence[tuple[object, ...]]
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Columns in which nothing would stand are left out."""
    told = [head for head, *cells in zip(heads, *rows, strict=True) if any(cell != "" for cell in cells)]
    kept = [heads.index(head) for head in told]
    return tuple(told), [tuple(row[column] for column in kept) for row in rows]


def as_document(place: Path, rows: Sequence[Row], unread: Sequence[Unread]) -> SessionsDocument:
    return {
        "version": VERSION,
        "wd": str(place),
        "sessions": [_as_json(row) for row in rows],
        "unreadable": [{"wd": str(gap.place), "run": gap.run, "why": gap.why} for gap in unread],
    }


def _as_json(row: Row) -> SessionRowDocument:
    forked = row.forked
    return {
        **session_document(row.run, row.session),
        "ended": row.how,
        "flow": row.flow,
        "driver_pid": row.driver,
        "forked_from": forked.parent if forked else None,
        "forked_at": forked.at if forked else None,
        "forked_by": forked.way if forked else None,
        "given_up": row.given_up or None,
        "damage": row.damage or None,
        "wd": str(row.place),
    }
