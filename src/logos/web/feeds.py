"""Watching logs for streams: one poller per log, however many browsers look on, and none while nobody does."""

import asyncio
import json
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool

from logos.app.histories import Histories, Known, LogFiles, RunHistory
from logos.app.overview import Overviews
from logos.app.runs import event_document
from logos.domain.events import Recorded
from logos.domain.turns import RunId
from logos.errors import LogosError
from logos.views.redact import redacted
from logos.views.status import RunStatus

# Between two looks at the marks of a log. A look is two calls of the system.
LOOK_SECONDS = 0.05
# A driver that dies writes nothing; and two writes in one tick of the file system's clock have the same mark.
WHOLE_LOOK_SECONDS = 0.5
LIST_SECONDS = 1.0
# So many events are kept as they are sent, for further browsers.
MOST_KEPT = 2000


@dataclass(frozen=True, slots=True)
class Standing:
    """What of a run can change without an event: its driver; and what a list or a title shows."""

    history: RunHistory
    document: dict[str, Any]


@dataclass
class LogFeed:
    """The runs of one log that somebody follows. `changed` is set and replaced with every change."""

    place: Path
    histories: Histories
    followed: dict[RunId, int] = field(default_factory=dict[RunId, int])
    standing: dict[RunId, Standing] = field(default_factory=dict[RunId, Standing])
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    async def look(self) -> None:
        """Read what is new of the followed runs."""
        for run in tuple(self.followed):
            try:
                known = await run_in_threadpool(self.histories.known, self.place, run)
                now = await run_in_threadpool(_standing, known)
            except LogosError:
                # The log is being repaired, or its work dir was removed: what is known stays.
                continue
            before = self.standing.get(run)
            if before is None or before.history is not now.history or before.document != now.document:
                self.standing[run] = now
                self.announce()

    def announce(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def poll(self) -> None:
        files, marks, driver, waited = LogFiles(self.place), None, None, 0.0
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            waited += LOOK_SECONDS
            if files.marks() == marks and waited < WHOLE_LOOK_SECONDS:
                continue
            *new, now = files.signature()
            again, waited = now is not None or (tuple(new), now) != (marks, driver), 0.0
            marks, driver = tuple(new), now
            if again:
                await self.look()


def _standing(known: Known) -> Standing:
    status = RunStatus(known.place, known.history.now(), known.driver)
    document = {
        "run": status.view.run,
        "wd": str(known.place),
        "status": status.word,
        "last_event": known.history.last,
        "driver_pid": status.driver,
        "waiting": len(status.waiting),
    }
    return Standing(known.history, document)


class Feeds:
    """Every log and every list that somebody follows."""

    def __init__(self, histories: Histories, overviews: Overviews) -> None:
        self.histories = histories
        self.overviews = overviews
        self._logs: dict[Path, LogFeed] = {}
        self._encoded: OrderedDict[tuple[int, int, int], str] = OrderedDict()
        self._list_followers = 0
        self._list_task: asyncio.Task[None] | None = None
        self.list_changed = asyncio.Event()
        self.ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def end(self) -> None:
        """Let every stream end, because the server does; called from a signal handler."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.ended.set)

    async def follow(self, place: Path, run: RunId) -> LogFeed:
        self._loop = asyncio.get_running_loop()
        feed = self._logs.setdefault(place, LogFeed(place, self.histories))
        feed.followed[run] = feed.followed.get(run, 0) + 1
        if run not in feed.standing:
            await feed.look()
        if feed.task is None:
            feed.task = asyncio.create_task(feed.poll())
        return feed

    def leave(self, feed: LogFeed, run: RunId) -> None:
        feed.followed[run] -= 1
        if not feed.followed[run]:
            del feed.followed[run]
            feed.standing.pop(run, None)
        if not feed.followed and feed.task is not None:
            feed.task.cancel()
            feed.task = None
            self._logs.pop(feed.place, None)

    def follow_list(self) -> None:
        self._list_followers += 1
        self._loop = asyncio.get_running_loop()
        if self._list_task is None:
            self._list_task = asyncio.create_task(self._poll_list())

    def leave_list(self) -> None:
        self._list_followers -= 1
        if not self._list_followers and self._list_task is not None:
            self._list_task.cancel()
            self._list_task = None

    async def _poll_list(self) -> None:
        before = None
        while True:
            overview = await run_in_threadpool(self.overviews.look)
            now = [(row.place, row.run, row.last_event, row.driver) for row in overview.rows]
            if before is not None and now != before:
                self.list_changed.set()
                self.list_changed = asyncio.Event()
            before = now
            await asyncio.sleep(LIST_SECONDS)

    def encoded(self, history: RunHistory, record: Recorded, longest: int) -> str:
        """An event as JSON, with texts up to a length; made once for all browsers."""
        key = id(history), record.seq, longest
        if key not in self._encoded:
            self._encoded[key] = json.dumps(redacted(shortened(event_document(record), longest)))
            while len(self._encoded) > MOST_KEPT:
                self._encoded.popitem(last=False)
        return self._encoded[key]


def shortened(document: dict[str, Any], longest: int) -> dict[str, Any]:
    """The document with texts up to a length; `cut` says that one was longer."""
    if not longest:
        return document
    long = [key for key, value in document.items() if isinstance(value, str) and len(value) > longest]
    return {**document, **{key: document[key][:longest] for key in long}, "cut": True} if long else document
