"""The runs of all work dirs of this user, as rows of a list: each is read again only when its log has changed."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from logos.app.histories import Histories, LogFiles, Signature
from logos.app.registry import known_work_dirs, work_dirs_with
from logos.app.runs import keep_from_collections
from logos.app.workdir import has_log
from logos.domain.turns import Outcome, RunId
from logos.domain.usage import Spent
from logos.errors import LogError, LogosError
from logos.views.document import RunDocument
from logos.views.events import Severity
from logos.views.redact import redacted
from logos.views.status import RunStatus, Unreadable
from logos.views.waiting import Waiting


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in a list; `document` is the same as JSON."""

    place: Path
    run: RunId
    flow: str
    asked_for: str
    word: str
    in_words: str
    severity: Severity
    reason: str
    outcome: Outcome | None
    verified: bool
    # Who is at work: roles, or levels and components.
    at_work: tuple[str, ...]
    # What waits for a person, the oldest first.
    waiting: tuple[Waiting, ...]
    driver: int | None
    started: float
    last: float
    seconds: float
    driven: float
    turns: int
    bill: Spent
    last_event: int
    simulated: bool
    damage: str
    document: bytes


@dataclass(frozen=True, slots=True)
class Overview:
    """`rows`: those that wait for a person first, then those that are driven, then the newest."""

    places: tuple[Path, ...]
    rows: tuple[RunRow, ...]
    unreadable: tuple[Unreadable, ...]


class Overviews:
    """Looks at all work dirs, or at those that it is limited to, and remembers what has not changed."""

    def __init__(self, histories: Histories, limit: Sequence[Path] = ()) -> None:
        self._histories = histories
        self._limit = tuple(limit)
        self._lock = threading.Lock()
        self._looks: dict[Path, _Look] = {}

    def places(self) -> tuple[Path, ...]:
        return self._limit or tuple(known_work_dirs())

    def look(self) -> Overview:
        with self._lock:
            places = self.places()
            self._looks = {place: self._looks.get(place) or _Look(place, self._histories) for place in places}
            found = [row for look in self._looks.values() for row in look.rows()]
        rows = sorted((row for row in found if isinstance(row, RunRow)), key=_order)
        unreadable = tuple(row for row in found if isinstance(row, Unreadable))
        return Overview(places, tuple(rows), unreadable)

    def warm_up(self) -> None:
        """The first look, which takes seconds where there are many runs; whoever comes meanwhile waits for it."""
        self.look()
        keep_from_collections()

    def places_of(self, run: RunId) -> list[Path]:
        """The work dirs with a run of this id, the one with its newest event first: a copy has the same runs."""
        with_mirror = set(work_dirs_with(run))
        found = [place for place in self.places() if place in with_mirror or self._has_unmirrored(place, run)]
        return found if len(found) < 2 else sorted(found, key=lambda place: -self._newest(place, run))

    def _has_unmirrored(self, place: Path, run: RunId) -> bool:
        """A work dir that somebody named may have a log whose mirror could not be written."""
        with suppress(LogosError):
            return place in self._limit and has_log(place) and run in self._histories.ends(place)
        return False

    def _newest(self, place: Path, run: RunId) -> float:
        with suppress(LogosError):
            history = self._histories.known(place, run).history
            return history.record(history.last).at
        return 0.0


def _order(row: RunRow) -> tuple[bool, bool, float]:
    return not row.waiting, row.driver is None, -row.started


class _Look:
    """The rows of one work dir, as they were when its log last changed."""

    def __init__(self, place: Path, histories: Histories) -> None:
        self._place = place
        self._files = LogFiles(place)
        self._histories = histories
        self._as_of: Signature | None = None
        self._rows: tuple[RunRow | Unreadable, ...] = ()
        self._known: dict[RunId, tuple[int, RunRow]] = {}

    def rows(self) -> tuple[RunRow | Unreadable, ...]:
        signature = self._files.signature()
        if signature != self._as_of:
            self._rows = tuple(self._look())
            self._as_of = signature
        return self._rows

    def _look(self) -> Iterator[RunRow | Unreadable]:
        if not has_log(self._place):
            return
        try:
            with self._histories.open(self._place) as ends:
                for run, last in ends.items():
                    try:
                        yield self._row(run, last)
                    except LogError as error:
                        yield Unreadable(self._place, run, str(error))
        except LogosError as error:
            yield Unreadable(self._place, None, str(error))

    def _row(self, run: RunId, last: int) -> RunRow:
        seq, row = self._known.get(run, (0, None))
        # A driver that comes or goes changes its run without an event.
        if row is None or seq != last or row.driver is not None or self._files.signature()[2] is not None:
            known = self._histories.known(self._place, run)
            row = row_of(RunStatus(self._place, known.history.now(), known.driver))
            self._known[run] = last, row
        return row


def row_of(status: RunStatus) -> RunRow:
    view = status.view
    return RunRow(
        place=status.work_dir,
        run=view.run,
        flow=view.plan.flow,
        asked_for=view.asked_for,
        word=status.word,
        in_words=status.in_words,
        severity=status.severity,
        reason=status.reason,
        outcome=view.outcome,
        verified=bool(view.state.verified),
        at_work=tuple(turn.who for turn in status.in_flight) if status.driver is not None else (),
        waiting=status.waiting,
        driver=status.driver,
        started=view.started,
        last=view.last,
        seconds=view.seconds,
        driven=view.driven,
        turns=view.answered,
        bill=view.bill,
        last_event=view.records[-1].seq,
        simulated=view.simulated,
        damage=view.damage,
        document=json.dumps(redacted(RunDocument.of(status))).encode(),
    )
