"""What the log in PostgreSQL promises besides the port: fencing, damage, a server that goes away, its tables."""

from __future__ import annotations

import json
import socket
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from logos.adapters.store.chain import make_lines
from logos.adapters.store.postgres import PostgresLog
from logos.adapters.store.postgres_server import migrations, parse_address, queries
from logos.adapters.store.sqlite import SqliteLog
from logos.domain.events import Noted, Recorded, RecordsTampered, RunForked, Topic
from logos.domain.turns import RunId
from logos.errors import LogConflict, LogDamaged, LogError, UsageError
from tests.builders import a_plan
from tests.support.postgres import LAST_RESORT, PostgresCluster
from tests.support.waiting import wait_for

RUN, OTHER = RunId("run-a"), RunId("run-b")
PLACE, ELSEWHERE = "host:/work", "host:/elsewhere"
PASSWORD = "hunter2hunter2"


def note(text: str) -> Noted:
    return Noted(Topic.WARNING, text)


def fill(log: PostgresLog | SqliteLog, run: RunId, *texts: str) -> None:
    for after, text in enumerate(texts):
        log.append(run, note(text), after)


def texts(log: PostgresLog, run: RunId = RUN) -> list[str]:
    return [record.event.text for record in log.read(run) if isinstance(record.event, Noted)]


@pytest.fixture
def log(database: str) -> Iterator[PostgresLog]:
    with closing(PostgresLog(database, PLACE)) as log:
        yield log


@pytest.fixture
def spoil(database: str) -> Callable[..., None]:
    def execute(statement: str, *values: object) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(statement.encode(), values)

    return execute


def at_once(jobs: list[Callable[[], object]]) -> list[str]:
    """What kind of end each of several jobs has that begin together."""
    ends: list[str] = [""] * len(jobs)
    together = threading.Barrier(len(jobs), timeout=LAST_RESORT)

    def work(number: int) -> None:
        together.wait()
        try:
            ends[number] = type(jobs[number]()).__name__
        except LogError as error:
            ends[number] = type(error).__name__

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LAST_RESORT)
    return ends


# --- fencing


def test_connections_that_race_for_every_event_share_them_out_exactly(database: str) -> None:
    logs = [PostgresLog(database, PLACE) for _ in range(4)]
    for after in range(12):
        ends = at_once([lambda log=log, after=after: log.append(RUN, note("x"), after) for log in logs])
        assert sorted(ends) == ["LogConflict"] * 3 + ["Recorded"]
    assert [record.seq for record in logs[0].read(RUN)] == list(range(1, 13))
    assert logs[0].tampering(RUN, verify=True) == ""
    for log in logs:
        log.close()


@pytest.mark.parametrize(("end", "won"), [("COMMIT", "LogConflict"), ("ROLLBACK", "Recorded")])
def test_an_append_waits_for_one_that_is_not_decided_yet(database: str, log: PostgresLog, end: str, won: str) -> None:
    fill(log, RUN, "a")
    with psycopg.connect(database, autocommit=True) as first, psycopg.connect(database, autocommit=True) as looker:
        first.execute("BEGIN")
        first.execute("INSERT INTO logos.events VALUES (%s, 2, 1.0, '{}', '')", [RUN])
        ends: list[str] = []
        second = threading.Thread(target=lambda: ends.extend(at_once([lambda: log.append(RUN, note("b"), 1)])))
        second.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        wait_for(lambda: _value(looker, waiting) == 1, "the second append waits")
        first.execute(end.encode())
        second.join(LAST_RESORT)
    assert ends == [won]


def test_a_driver_that_was_stopped_and_replaced_writes_nothing(database: str, log: PostgresLog) -> None:
    fill(log, RUN, "a", "b")
    with closing(PostgresLog(database, PLACE)) as successor:
        successor.append(RUN, note("c"), 2)
    with pytest.raises(LogConflict, match="another driver is active"):
        log.append(RUN, note("zombie"), 2)
    assert texts(log) == ["a", "b", "c"]


def test_the_runs_of_another_work_dir_are_neither_seen_nor_written(database: str, log: PostgresLog) -> None:
    fill(log, RUN, "a")
    with closing(PostgresLog(database, ELSEWHERE)) as other:
        assert other.runs() == []
        assert texts(other) == []
        assert other.head(RUN) == ""
        for after in (0, 1):
            with pytest.raises(LogConflict):
                other.append(RUN, note("b"), after)
        fill(other, OTHER, "x")
        assert (other.runs(), other.ends().keys()) == ([OTHER], {OTHER})
    assert texts(log) == ["a"]
    assert log.runs() == [RUN]


def test_of_two_forks_under_one_name_one_wins_whole(database: str) -> None:
    logs = [PostgresLog(database, PLACE) for _ in range(2)]
    fill(logs[0], RUN, "a", "b")
    history = [*logs[0].read(RUN)]
    event = RunForked(RUN, 2, a_plan(), "fork")
    ends = at_once([lambda log=log: log.fork(OTHER, history, event) for log in logs])
    assert sorted(ends) == ["LogConflict", "Recorded"]
    assert [record.seq for record in logs[0].read(OTHER)] == [1, 2, 3]
    assert logs[0].tampering(OTHER, verify=True) == ""
    for log in logs:
        log.close()


# --- what is stored


def test_an_event_has_the_bytes_and_the_hash_that_it_has_in_a_file(tmp_path: Path, log: PostgresLog) -> None:
    with closing(SqliteLog(tmp_path / "logos.db", lambda: 1.5)) as file:
        fill(file, RUN, "a", "語 🙂\n\x00", "c")
        records = [*file.read(RUN)]
        log.fork(OTHER, records[:-1], RunForked(RUN, 2, a_plan(), "fork"))
        log.put(RUN, file.rows(RUN))
        assert [*log.rows(RUN)] == [*file.rows(RUN)]
        assert log.head(RUN) == file.head(RUN)
        assert log.tampering(RUN, verify=True) == log.tampering(OTHER, verify=True) == ""


def test_an_appended_event_continues_the_chain(log: PostgresLog) -> None:
    fill(log, RUN, "a", "b", "c")
    assert log.head(RUN) == make_lines(RUN, log.rows(RUN))[1][-1]


def test_reading_goes_on_over_many_batches(log: PostgresLog) -> None:
    history = [Recorded(RUN, seq, 1.0, note(str(seq))) for seq in range(1, 1234)]
    log.fork(OTHER, history, RunForked(RUN, 1233, a_plan(), "fork"))
    assert [record.seq for record in log.read(OTHER)] == list(range(1, 1235))


def test_the_end_of_a_run_is_its_last_event(log: PostgresLog) -> None:
    fill(log, RUN, "a", "b")
    last = log.append(RUN, note("c"), 2)
    assert log.ends() == {RUN: (3, last.at)}


# --- damage


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("UPDATE logos.events SET body = %s WHERE seq = 2", [b"{torn"]),
        ("UPDATE logos.events SET body = %s WHERE seq = 2", [b""]),
        ("UPDATE logos.events SET body = %s WHERE seq = 2", [b'{"kind": "from_the_future"}']),
        ("UPDATE logos.events SET body = %s WHERE seq = 2", [b'{"kind": "noted\xff\xfe']),
        ("UPDATE logos.events SET at = 'NaN' WHERE seq = 2", []),
        ("DELETE FROM logos.events WHERE seq = 2", []),
    ],
    ids=["torn", "empty", "unknown kind", "not UTF-8", "no time", "missing"],
)
def test_a_damaged_event_is_named_and_those_before_it_can_be_read(
    log: PostgresLog, spoil: Callable[..., None], statement: str, values: list[object]
) -> None:
    fill(log, RUN, "a", "b", "c")
    spoil(statement, *values)
    readable: list[Recorded] = []
    with pytest.raises(LogDamaged) as caught:
        readable.extend(log.read(RUN))
    assert (caught.value.run, caught.value.seq) == (RUN, 2)
    records = log.read(RUN)
    assert next(records).event == note("a")
    assert "event 2" in log.tampering(RUN, verify=True)


def test_cutting_a_damaged_tail_keeps_the_run_as_it_was(
    tmp_path: Path, log: PostgresLog, spoil: Callable[..., None]
) -> None:
    fill(log, RUN, "a", "b", "c")
    fill(log, OTHER, "x")
    spoil("UPDATE logos.events SET body = '{' WHERE run = %s AND seq = 2", RUN)
    log.cut(RUN, 2, tmp_path / "kept")
    assert (texts(log), texts(log, OTHER)) == (["a"], ["x"])
    log.append(RUN, note("b again"), 1)
    assert texts(log) == ["a", "b again"]
    assert log.tampering(RUN, verify=True) == ""
    kept = [json.loads(line) for line in (tmp_path / "kept").read_text().splitlines()]
    assert [(line["seq"], b64decode(line["body"])[:1]) for line in kept] == [(1, b"{"), (2, b"{"), (3, b"{")]


def test_a_run_whose_first_event_was_cut_begins_again(tmp_path: Path, log: PostgresLog) -> None:
    fill(log, RUN, "a")
    log.cut(RUN, 1, tmp_path / "kept")
    fill(log, RUN, "b")
    assert texts(log) == ["b"]


CHANGES = {
    "UPDATE logos.events SET at = at + 1 WHERE seq = 2": "event 2 was changed in the database",
    "UPDATE logos.events SET body = replace(encode(body, 'escape'), 'b', 'z')::bytea WHERE seq = 2": "event 2 was changed",
    "DELETE FROM logos.events WHERE seq = 1": "event 1 was deleted from the database",
    "DELETE FROM logos.events WHERE seq = 3": "event 3 was deleted from the database",
}


@pytest.mark.parametrize("statement", CHANGES)
def test_a_row_that_was_changed_by_hand_breaks_the_chain(
    log: PostgresLog, spoil: Callable[..., None], statement: str
) -> None:
    fill(log, RUN, "a", "b", "c")
    spoil(statement)
    assert log.tampering(RUN) == ""
    assert log.tampering(RUN, verify=True).startswith(CHANGES[statement])


def test_a_chain_that_was_made_anew_is_noticed_by_the_driver_that_wrote_it(
    log: PostgresLog, spoil: Callable[..., None]
) -> None:
    fill(log, RUN, "a", "b")
    rows = [(1, 1.0, b'{"kind":"noted"}'), (2, 2.0, b'{"kind":"noted"}')]
    for (seq, at, body), head in zip(rows, make_lines(RUN, rows)[1], strict=True):
        spoil(
            "UPDATE logos.events SET at = %s, body = %s, head = %s WHERE seq = %s", at, body, bytes.fromhex(head), seq
        )
    assert "with all hashes after it" in log.tampering(RUN, verify=True)


def test_what_was_recorded_about_tampering_is_not_told_again(log: PostgresLog, spoil: Callable[..., None]) -> None:
    fill(log, RUN, "a", "b")
    spoil("UPDATE logos.events SET at = 7 WHERE seq = 1")
    found = log.tampering(RUN, verify=True)
    assert found
    log.append(RUN, RecordsTampered(found), 2)
    assert log.tampering(RUN) == log.tampering(RUN, verify=True) == ""


# --- a server that goes away


def test_a_server_that_was_killed_and_is_there_again_goes_on_where_it_was(
    postgres: PostgresCluster, log: PostgresLog
) -> None:
    fill(log, RUN, "a", "b")
    records = log.read(RUN)
    assert next(records).seq == 1
    postgres.kill()
    again = threading.Timer(0.3, postgres.start)
    again.start()
    log.append(RUN, note("c"), 2)
    again.join(LAST_RESORT)
    assert texts(log) == ["a", "b", "c"]
    assert log.tampering(RUN, verify=True) == ""


def test_a_server_that_stays_away_is_an_error_in_plain_words(postgres: PostgresCluster) -> None:
    address = postgres.new_database().replace("postgres@", f"postgres:{PASSWORD}@")
    with closing(PostgresLog(address, PLACE, patience=0.5)) as log:
        fill(log, RUN, "a")
        postgres.kill()
        try:
            for use in (lambda: log.append(RUN, note("b"), 1), lambda: [*log.read(RUN)], log.runs):
                with pytest.raises(LogError, match=r"does not answer for 0\.5 s") as caught:
                    use()
                assert PASSWORD not in str(caught.value)
            # One that was never there is not waited for.
            with pytest.raises(LogError, match="does not answer: "):
                PostgresLog(address, PLACE, patience=LAST_RESORT)
        finally:
            postgres.start()
        log.append(RUN, note("b"), 1)
        assert texts(log) == ["a", "b"]


class Relay:
    """Between a client and the server; it can lose the server's answers with the connection."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.loses_answers = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                for pair in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if is_answer and self.loses_answers:
                    self.loses_answers = False
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def relay(postgres: PostgresCluster) -> Iterator[Relay]:
    relay = Relay(postgres.socket)
    yield relay
    relay.close()


def through(relay: Relay, database: str) -> str:
    name = database.partition("?")[0].rpartition("/")[2]
    return f"postgresql://postgres@127.0.0.1:{relay.port}/{name}"


def test_an_event_whose_answer_was_lost_is_stored_once_and_counts(database: str, relay: Relay) -> None:
    with closing(PostgresLog(through(relay, database), PLACE)) as log:
        fill(log, RUN, "a")
        relay.loses_answers = True
        stored = log.append(RUN, note("b"), 1)
        assert not relay.loses_answers
        assert [*log.read(RUN, 2)] == [stored]
        log.append(RUN, note("c"), 2)
        assert texts(log) == ["a", "b", "c"]
        assert log.tampering(RUN, verify=True) == ""


def test_an_event_of_another_driver_is_not_taken_for_one_whose_answer_was_lost(database: str, relay: Relay) -> None:
    with closing(PostgresLog(through(relay, database), PLACE, lambda: 5.0)) as log:
        fill(log, RUN, "a")
        with closing(PostgresLog(database, PLACE, lambda: 6.0)) as other:
            # The same words at another time.
            other.append(RUN, note("b"), 1)
        relay.loses_answers = True
        with pytest.raises(LogConflict):
            log.append(RUN, note("b"), 1)
        assert texts(log) == ["a", "b"]


def test_a_fork_whose_answer_was_lost_is_stored_once_and_counts(database: str, relay: Relay) -> None:
    with closing(PostgresLog(through(relay, database), PLACE)) as log:
        fill(log, RUN, "a")
        history = [*log.read(RUN)]
        relay.loses_answers = True
        log.fork(OTHER, history, RunForked(RUN, 1, a_plan(), "fork"))
        assert [record.seq for record in log.read(OTHER)] == [1, 2]
        assert log.runs() == [RUN, OTHER]


# --- tables


def test_processes_that_start_at_once_make_the_tables_once(database: str) -> None:
    def start(number: int) -> object:
        with closing(PostgresLog(database, f"host:/work{number % 2}")) as log:
            return log.append(RunId(f"run-{number}"), note("a"), 0)

    assert at_once([lambda number=number: start(number) for number in range(8)]) == ["Recorded"] * 8
    with psycopg.connect(database) as connection:
        numbers = connection.execute("SELECT number FROM logos.migrations ORDER BY number").fetchall()
        assert [number for (number,) in numbers] == [*migrations()]
        assert _value(connection, "SELECT count(*) FROM logos.logs") == 2


def test_reading_makes_no_tables(database: str) -> None:
    with closing(PostgresLog(database, PLACE)) as log:
        assert (log.runs(), [*log.read(RUN)], log.ends(), log.head(RUN)) == ([], [], {}, "")
    with psycopg.connect(database) as connection:
        assert _value(connection, "SELECT to_regnamespace('logos')") is None


def test_tables_of_a_newer_logos_are_refused(log: PostgresLog, database: str, spoil: Callable[..., None]) -> None:
    fill(log, RUN, "a")
    spoil("INSERT INTO logos.migrations (number) VALUES (999)")
    with pytest.raises(LogError, match=r"is of a newer Logos .*version 999"):
        PostgresLog(database, PLACE)


def test_a_user_who_may_not_write_is_told_so(log: PostgresLog, database: str, spoil: Callable[..., None]) -> None:
    fill(log, RUN, "a")
    spoil("DROP ROLE IF EXISTS reader")
    spoil("CREATE ROLE reader LOGIN")
    spoil("GRANT USAGE ON SCHEMA logos TO reader")
    spoil("GRANT SELECT ON ALL TABLES IN SCHEMA logos TO reader")
    try:
        with closing(PostgresLog(database.replace("postgres@", "reader@"), PLACE)) as reader:
            assert texts(reader) == ["a"]
            with pytest.raises(LogError, match="cannot be written: its user may not do that"):
                reader.append(RUN, note("b"), 1)
        assert texts(log) == ["a"]
    finally:
        spoil("DROP OWNED BY reader")
        spoil("DROP ROLE reader")


def test_every_query_has_a_name_and_every_migration_a_number() -> None:
    assert {"append", "rows", "cut", "find_log"} <= queries().keys()
    assert [*migrations()] == list(range(1, len(migrations()) + 1))


# --- watching


def test_whoever_watches_is_called_for_events_of_other_processes_and_after_the_server_was_away(
    postgres: PostgresCluster, database: str, log: PostgresLog
) -> None:
    calls: list[int] = []
    with closing(PostgresLog(database, PLACE)) as watcher:
        watcher.watch(lambda: calls.append(1))
        before = len(calls)
        fill(log, RUN, "a")
        wait_for(lambda: len(calls) > before, "the event is told")
        postgres.kill()
        before = len(calls)
        postgres.start()
        wait_for(lambda: len(calls) > before, "the server is there again")


# --- its address


@pytest.mark.parametrize(
    "text",
    [
        f"mysql://ada:{PASSWORD}@host/db",
        f"postgresql://ada:{PASSWORD}@host/db?nothing={PASSWORD}",
        f"host=here password={PASSWORD}",
        PASSWORD,
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(UsageError, match="LOGOS_DATABASE is not an address") as caught:
        parse_address(text)
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://ada:{quote(PASSWORD)}@db.example:5433/runs",
        f"postgres://db.example:5433/runs?password={PASSWORD}",
    ],
)
def test_what_is_shown_of_an_address_has_no_user_and_no_password(text: str) -> None:
    address = parse_address(text)
    assert address.shown == "postgresql://db.example:5433/runs"
    assert address.hide(f"no entry for {PASSWORD}\nat all") == "no entry for [redacted] at all"


def _value(connection: psycopg.Connection[Any], statement: str) -> object:
    row = connection.execute(statement.encode()).fetchone()
    return row[0] if row else None
