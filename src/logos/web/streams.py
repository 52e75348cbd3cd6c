"""Server-sent events: what happens in runs, as it happens. A browser that comes back goes on where it was."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from logos.domain.turns import RunId
from logos.web.access import Access, BrowserSession
from logos.web.api import events_document
from logos.web.asked import number_in, place_with
from logos.web.errors import BadRequest
from logos.web.feeds import Feeds, LogFeed

# A comment, so that a connection that nobody listens to any more is noticed.
ALIVE_SECONDS = 15.0
# The stream for pages has texts up to this length: a page loads what it shows.
LONGEST_TEXT = 2000
MOST_RUNS = 50
# So many events are sent before other streams are served.
BATCH = 200
_POSITION = re.compile(r"([A-Za-z0-9_-]{1,80}):(\d{1,9})")


@dataclass
class Followed:
    """A run that a stream follows, and the last event and standing that it has sent."""

    feed: LogFeed
    run: RunId
    seq: int
    told: object = None


async def one_run(request: Request) -> StreamingResponse:
    """The events of one run; `Last-Event-ID` is the number of the last one that the client has."""
    run = RunId(request.path_params["run"])
    header = request.headers.get("last-event-id", "")
    last = int(header) if header.isascii() and header.isdigit() and len(header) < 10 else None
    first = number_in(request, "from")
    since = last if last is not None else first - 1 if first else 0
    return await _stream(request, {run: max(since, 0)}, longest=number_in(request, "longest") or 0, single=True)


async def many_runs(request: Request) -> StreamingResponse:
    """What happens in several runs and, with `list=1`, in the list of all; for all pages of a browser together."""
    names = [RunId(name) for name in request.query_params.get("runs", "").split(",") if name]
    if len(names) > MOST_RUNS:
        raise BadRequest(f"a stream follows at most {MOST_RUNS} runs")
    header = request.headers.get("last-event-id") or request.query_params.get("since") or ""
    had = {name: int(seq) for name, seq in _POSITION.findall(header)}
    return await _stream(request, {name: had.get(name, -1) for name in names}, longest=LONGEST_TEXT, single=False)


async def events(request: Request) -> Response:
    """The events of a run as one document, or as a stream for a client that accepts one."""
    if "text/event-stream" in request.headers.get("accept", ""):
        return await one_run(request)
    return await run_in_threadpool(events_document, request)


async def _stream(request: Request, since: dict[RunId, int], *, longest: int, single: bool) -> StreamingResponse:
    """`since` is the last event that the client has of each run; -1: only what is new from now on."""
    feeds: Feeds = request.app.state.feeds
    found = {run: await run_in_threadpool(place_with, request, run) for run in since}
    followed: list[Followed] = []
    for run, place in found.items():
        feed = await feeds.follow(place, run)
        newest = feed.standing[run].history.last if run in feed.standing else 0
        followed.append(Followed(feed, run, newest if since[run] < 0 else since[run]))
    stream = Stream(feeds, followed, longest, single, lists=request.query_params.get("list") == "1")
    access: Access = request.app.state.access
    body = stream.messages(access, request.state.session)
    return StreamingResponse(body, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@dataclass
class Stream:
    """One connection: what it follows, and what it has sent."""

    feeds: Feeds
    followed: Sequence[Followed]
    longest: int
    single: bool
    lists: bool

    async def messages(self, access: Access, session: BrowserSession) -> AsyncGenerator[str]:
        """Messages as they come, until the session ends or the client goes."""
        if self.lists:
            self.feeds.follow_list()
        list_changed = self.feeds.list_changed
        try:
            yield "retry: 1000\n\n"
            while access.is_open(session) and not self.feeds.ended.is_set():
                # Taken before the look: what comes between look and wait is not missed.
                changes = [run.feed.changed for run in self.followed]
                async for message in self._new():
                    yield message
                changes += [self.feeds.ended, *([list_changed] if self.lists else [])]
                if not await _any_of(changes, ALIVE_SECONDS):
                    yield ": alive\n\n"
                if self.lists and list_changed.is_set():
                    list_changed = self.feeds.list_changed
                    yield _message("list", "{}")
        finally:
            for run in self.followed:
                self.feeds.leave(run.feed, run.run)
            if self.lists:
                self.feeds.leave_list()

    async def _new(self) -> AsyncGenerator[str]:
        for run in self.followed:
            standing = run.feed.standing.get(run.run)
            if standing is None:
                continue
            if run.seq > standing.history.last:
                # The log was repaired and is shorter: everything that this client has must be read again.
                run.seq = standing.history.last
                yield _message("reset", json.dumps({"run": run.run}))
            while records := standing.history.records(run.seq + 1, run.seq + BATCH):
                for record in records:
                    run.seq = record.seq
                    yield _message("event", self.feeds.encoded(standing.history, record, self.longest), self._id())
                await asyncio.sleep(0)
            if not self.single and run.told != standing.document:
                run.told = standing.document
                yield _message("run", json.dumps(standing.document), self._id())

    def _id(self) -> str:
        if self.single:
            return str(self.followed[0].seq)
        return " ".join(f"{run.run}:{run.seq}" for run in self.followed)


async def _any_of(changes: Sequence[asyncio.Event], seconds: float) -> bool:
    """Wait until one of them is set; False if the time has passed before."""
    waiting = [asyncio.ensure_future(change.wait()) for change in changes]
    try:
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for task in waiting:
            task.cancel()


def _message(event: str, data: str, id_: str = "") -> str:
    """JSON has no line breaks, so data is one line."""
    number = f"id: {id_}\n" if id_ else ""
    return f"event: {event}\n{number}data: {data}\n\n"


ROUTES = [
    Route("/api/stream", many_runs, methods=["GET"]),
    Route("/api/runs/{run}/events", events, methods=["GET"]),
    Route("/api/runs/{run}/events/stream", one_run, methods=["GET"]),
]
