"""Sessions: what each driver did of each run, in a work dir and in the forks of its repository."""

from dataclasses import dataclass, replace
from pathlib import Path

from logos.app.checkpoints import locate, work_dirs
from logos.app.runs import views_in
from logos.app.workdir import driver_at, find_run, place_to_read, reading
from logos.domain.turns import RunId
from logos.errors import LogError
from logos.views.run import RunView
from logos.views.sessions import Session
from logos.views.status import Unreadable

KILLED = "killed"
_WAYS = {"fork": "forked from", "rollback": "rolled back to"}


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session of one run. `ending` says how it ended; `newest` is the last session of its run."""

    place: Path
    run: RunId
    flow: str
    session: Session
    ending: str
    damage: str = ""
    newest: bool = False
    driver: int | None = None

    @property
    def lineage(self) -> str:
        origin, given_up = self.session.forked, self.session.given_up
        parts = (
            f"{_WAYS[origin.way]} {origin.parent}@{origin.at}" if origin is not None else "",
            f"abandoned: {given_up}" if given_up else "",
            f"damaged: {self.damage}" if self.damage else "",
        )
        return "; ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class SessionList:
    place: Path
    rows: tuple[SessionRow, ...]
    unreadable: tuple[Unreadable, ...]


def list_sessions(run: str | None = None, *, wd: Path | None = None) -> SessionList:
    """The sessions of all runs, or of one, oldest first. What a fork inherited is listed with the original run."""
    place = place_to_read(wd)
    only, places = None, work_dirs(place)
    if run is not None:
        # The `@` keeps an id from being read as a number or a date.
        name = locate(place, f"{run.partition('@')[0]}@")
        with reading(name.place) as log:
            only, places = find_run(log, name.run), [name.place]
    rows: list[SessionRow] = []
    unreadable: list[Unreadable] = []
    for work_dir in places:
        found = [*views_in(work_dir)]
        unreadable += [view for view in found if isinstance(view, Unreadable)]
        listed = [row for view in found if isinstance(view, RunView) for row in rows_of(work_dir, view)]
        rows += _with_driver(listed, driver_at(work_dir))
    rows = sorted((row for row in rows if only in (None, row.run)), key=lambda row: row.session.began)
    gaps = tuple(gap for gap in unreadable if only is None or gap.run in (None, only))
    if gaps and not rows:
        raise LogError(gaps[0].why)
    return SessionList(place, tuple(rows), gaps)


def rows_of(place: Path, view: RunView) -> list[SessionRow]:
    """The sessions of a run, without those that it inherited."""
    rows: list[SessionRow] = []
    for session in view.own_sessions:
        unresumed = session.end == KILLED and session.last == len(view.records) and not session.given_up
        ending = f"{KILLED}, not resumed" if unresumed else session.end
        rows.append(SessionRow(place, view.run, view.plan.flow, session, ending))
    return [*rows[:-1], *(replace(row, newest=True, damage=view.damage) for row in rows[-1:])]


def _with_driver(rows: list[SessionRow], driver: int | None) -> list[SessionRow]:
    """The driver of a work dir drives the run with the newest event."""
    open_rows = [row for row in rows if row.newest and not (row.session.outcome or row.session.given_up)]
    driven = max(open_rows, key=lambda row: row.session.ended, default=None) if driver is not None else None
    return [replace(row, ending=f"at work (pid {driver})", driver=driver) if row is driven else row for row in rows]
