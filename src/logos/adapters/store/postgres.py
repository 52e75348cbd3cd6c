"""The run log in PostgreSQL: one for many work dirs and hosts. The database is the authority; there is no mirror.

An append is one statement that compares the number of the last event and inserts the next, so of two drivers one loses
(LogConflict), also where one of them was stopped and does not know that it was replaced.
"""

import json
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg.errors import UniqueViolation

from logos.adapters.files import write_atomically
from logos.adapters.store.chain import Row, first_hash, make_lines, stored_bytes
from logos.adapters.store.codec import Clock, encode, recorded, steady
from logos.adapters.store.postgres_server import (
    PATIENCE,
    RETRY,
    Connection,
    PostgresServer,
    applied,
    migrate,
    parse_address,
    queries,
    refuse_newer,
)
from logos.domain.events import Event, Recorded, RecordsTampered, RunForked
from logos.domain.turns import RunId
from logos.errors import LogConflict

BATCH = 500
# How often a listener looks whether it is to end.
_TURN = 0.5
_COLUMNS = ("text", "int8", "float8", "bytea", "bytea")

# A row, and the hash that stands for it and all before it.
Link = tuple[int, float, bytes, str]


class PostgresLog:
    """A Log. `place` is the work dir, with its host, that the runs belong to; runs of others are not seen.

    Reading makes nothing; the first event makes the tables where they are missing.
    """

    def __init__(self, address: str, place: str, clock: Clock | None = None, patience: float = PATIENCE) -> None:
        self._address = parse_address(address)
        self._server = PostgresServer(self._address, patience)
        self._place = place
        self._clock = clock or steady()
        self._log: int | None = None
        # The last event that this process wrote or read to its end, and its hash.
        self._heads: dict[RunId, tuple[int, str]] = {}
        self._listeners: list[EventListener] = []
        # What was found out about tampering and is an event already.
        self._recorded: dict[RunId, str] = {}
        self._evidence: dict[RunId, str] = {}
        try:
            # A server that is not there, or tables of a newer Logos, are told at once.
            self._server.call(lambda connection, _: self._found(connection))
        except BaseException:
            self._server.close()
            raise

    def append(self, run: RunId, event: Event, after: int) -> Recorded:
        record = Recorded(run, after + 1, self._clock(), event)
        self.add(run, (record.seq, record.at, encode(event).encode()))
        if isinstance(event, RecordsTampered):
            self._recorded[run] = self._evidence.get(run, "")
        return record

    def add(self, run: RunId, row: Row) -> None:
        """Append an event as it is stored; LogConflict where it is not the next."""
        after = row[0] - 1
        values = {"run": run, "after": after, "at": row[1], "body": row[2]}
        values |= {"first": first_hash(run), "stored": stored_bytes(row)}

        def job(connection: Connection, again: bool) -> str:
            asked = {**values, "log": self._made(connection)}
            try:
                added = connection.execute(queries()["append"], asked).fetchone()
            except UniqueViolation:
                added = None
            if added is not None:
                return str(added[0])
            # The answer to an earlier try may have been lost with the connection.
            if again and _first(connection.execute(queries()["is_stored"], asked)):
                return str(_first(connection.execute(queries()["head"], asked)))
            raise LogConflict(f"run {run} is not at event {after} any more: another driver is active")

        self._heads[run] = (row[0], self._server.call(job, "write"))

    def fork(self, run: RunId, history: Iterable[Recorded], event: RunForked) -> Recorded:
        records = [*history]
        record = Recorded(run, len(records) + 1, self._clock(), event)
        rows = [(seq, copied.at, encode(copied.event).encode()) for seq, copied in enumerate((*records, record), 1)]
        self.put(run, rows)
        return record

    def put(self, run: RunId, rows: Iterable[Row]) -> None:
        """Create a run from stored events; all or nothing."""
        whole = tuple(rows)
        heads = make_lines(run, whole)[1]

        def job(connection: Connection, again: bool) -> None:
            asked = {"run": run, "log": self._made(connection), "seq": len(whole)}
            if again and tuple(self._page(connection, run, 1, len(whole) + 1)) == _links(whole, heads):
                return
            try:
                with connection.transaction():
                    connection.execute(queries()["create_run"], asked)
                    with connection.cursor().copy(queries()["copy_events"]) as copy:
                        copy.set_types(_COLUMNS)
                        for (seq, at, body), head in zip(whole, heads, strict=True):
                            copy.write_row((run, seq, at, body, bytes.fromhex(head)))
                    connection.execute(queries()["notify"], asked)
            except UniqueViolation as error:
                raise LogConflict(f"run {run} exists already") from error

        self._server.call(job, "write")

    def read(self, run: RunId, from_seq: int = 1) -> Iterator[Recorded]:
        from_seq = max(from_seq, 1)
        for expected, (seq, at, body, _) in enumerate(self._links(run, from_seq), from_seq):
            yield recorded(run, expected, (seq, at, body))

    def rows(self, run: RunId) -> Iterator[Row]:
        """The events of a run as they are stored."""
        return ((seq, at, body) for seq, at, body, _ in self._links(run, 1))

    def tampering(self, run: RunId, *, verify: bool = False) -> str:
        """With `verify`: whether an event fits the hash that it was stored with, and those that this process knows.

        Who can write to the database can write new hashes, too; only roles of the database keep others from that.
        """
        if verify:
            self._evidence[run] = self._found_changed(run)
        found = self._evidence.get(run, "")
        return "" if found == self._recorded.get(run) else found

    def _found_changed(self, run: RunId) -> str:
        links = tuple(self._links(run, 1))
        hashes = make_lines(run, ((seq, at, body) for seq, at, body, _ in links))[1]
        for expected, (link, right) in enumerate(zip(links, hashes, strict=True), 1):
            if link[0] != expected:
                return f"event {expected} was deleted from the database"
            if link[3] != right:
                return f"event {expected} was changed in the database"
        seq, head = self._heads.get(run, (0, ""))
        if len(links) < seq:
            return f"event {len(links) + 1} was deleted from the database"
        if seq and links[seq - 1][3] != head:
            return f"an event up to event {seq} was changed in the database, with all hashes after it"
        return ""

    def head(self, run: RunId) -> str:
        """The hash that stands for every event of a run."""
        return str(self._ask("head", run) or "")

    def runs(self) -> list[RunId]:
        return [RunId(str(row[0])) for row in self._all("runs")]

    def ends(self) -> dict[RunId, tuple[int, float]]:
        """The number and the time of every run's last event."""
        return {RunId(str(run)): (seq, at) for run, seq, at in self._all("ends")}

    def cut(self, run: RunId, from_seq: int, copy: Path) -> None:
        """Delete the unreadable end of a run after copying the whole run to `copy`, as lines of JSON."""
        links = tuple(self._links(run, 1))
        lines = [{"run": run, "seq": seq, "at": at, "body": b64encode(body).decode()} for seq, at, body, _ in links]
        write_atomically(copy, "".join(json.dumps(line) + "\n" for line in lines))
        self._heads.pop(run, None)

        def job(connection: Connection, again: bool) -> None:
            del again
            asked = {"run": run, "from": from_seq, "log": self._found(connection)}
            connection.execute(queries()["cut"], asked)

        self._server.call(job, "write")

    def watch(self, arrived: Callable[[], object]) -> None:
        """Call `arrived`, in another thread, as soon as there may be a new event of any log; also without one."""
        self._listeners.append(EventListener(self._server, arrived))

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._server.close()

    def _links(self, run: RunId, from_seq: int) -> Iterator[Link]:
        """Rows in batches, each a query of its own: whoever reads may write meanwhile, or connect again."""
        while True:
            page = self._server.call(lambda connection, _, first=from_seq: self._page(connection, run, first, BATCH))
            yield from page
            if len(page) < BATCH:
                return
            from_seq = page[-1][0] + 1

    def _page(self, connection: Connection, run: RunId, from_seq: int, most: int) -> list[Link]:
        asked = {"run": run, "from": from_seq, "log": self._found(connection), "limit": most}
        if asked["log"] is None:
            return []
        found = connection.execute(queries()["rows"], asked, binary=True).fetchall()
        return [(seq, at, bytes(body), head) for seq, at, body, head in found]

    def _ask(self, query: str, run: RunId) -> object:
        def job(connection: Connection, again: bool) -> object:
            del again
            log = self._found(connection)
            return None if log is None else _first(connection.execute(queries()[query], {"run": run, "log": log}))

        return self._server.call(job)

    def _all(self, query: str) -> list[tuple[Any, ...]]:
        def job(connection: Connection, again: bool) -> list[tuple[Any, ...]]:
            del again
            log = self._found(connection)
            return [] if log is None else connection.execute(queries()[query], {"log": log}).fetchall()

        return self._server.call(job)

    def _found(self, connection: Connection) -> int | None:
        """The number of this log; None where nothing was written yet."""
        if self._log is None:
            version = applied(connection)
            refuse_newer(version, self._address)
            if version:
                self._log = _first(connection.execute(queries()["find_log"], {"place": self._place}))
        return self._log

    def _made(self, connection: Connection) -> int | None:
        if self._found(connection) is None:
            migrate(connection)
            connection.execute(queries()["create_log"], {"place": self._place})
        return self._found(connection)


class EventListener:
    """Calls back when any process has written an event to a database, and after the server was away."""

    def __init__(self, server: PostgresServer, arrived: Callable[[], object]) -> None:
        self._server = server
        self._arrived = arrived
        self._closed = threading.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="logos-events", daemon=True)
        self._thread.start()
        self._listening.wait(PATIENCE)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _listen(self) -> None:
        while not self._closed.is_set():
            with suppress(psycopg.Error), self._server.connect() as connection:
                connection.execute("LISTEN logos_events")
                self._listening.set()
                # What was written before is not told.
                self._arrived()
                while not self._closed.is_set():
                    for _ in connection.notifies(timeout=_TURN, stop_after=1):
                        self._arrived()
            self._closed.wait(RETRY)


def _links(rows: Iterable[Row], heads: Iterable[str]) -> tuple[Link, ...]:
    return tuple((*row, head) for row, head in zip(rows, heads, strict=True))


def _first(found: psycopg.Cursor[tuple[Any, ...]]) -> Any:
    row = found.fetchone()
    return row[0] if row else None
