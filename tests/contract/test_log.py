"""Every Log keeps the same promises: events in order, each accepted once, durable where it says so."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import count, takewhile
from pathlib import Path

import pytest

from logos.adapters.sqlite import SqliteLog
from logos.cli import wiring
from logos.domain.events import Event, Noted, Recorded, RunStarted, Topic, TurnAnswered
from logos.domain.turns import RunId, TurnId
from logos.errors import LogConflict, LogDamaged, LogError
from logos.ports import Log
from logos.testing import MemoryLog
from tests.builders import a_plan

RUN, OTHER = RunId("run-a"), RunId("run-b")
PATIENCE = 60.0

Clock = Callable[[], float]
Open = Callable[[Clock], Log]


@pytest.fixture(params=["memory", "sqlite"])
def open_log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    opened: list[Log] = []

    def build(clock: Clock) -> Log:
        log = MemoryLog(clock) if request.param == "memory" else SqliteLog(tmp_path / "telos" / "logos.db", clock)
        opened.append(log)
        return log

    yield build
    for log in opened:
        log.close()


@pytest.fixture
def log(open_log: Open) -> Log:
    ticks = count(1)
    return open_log(lambda: float(next(ticks)))


def note(text: str) -> Noted:
    return Noted(Topic.WARNING, text)


def fill(log: Log, run: RunId, *texts: str) -> None:
    for after, text in enumerate(texts):
        log.append(run, note(text), after)


def texts(records: Iterator[Recorded]) -> list[str]:
    return [record.event.text for record in records if isinstance(record.event, Noted)]


# --- what every log promises


def test_an_accepted_event_is_numbered_and_stamped(log: Log) -> None:
    assert log.append(RUN, note("a"), 0) == Recorded(RUN, 1, 1.0, note("a"))
    assert log.append(RUN, note("b"), 1) == Recorded(RUN, 2, 2.0, note("b"))


def test_events_are_read_in_the_order_they_were_accepted(log: Log) -> None:
    accepted = [log.append(RUN, note(text), after) for after, text in enumerate("abcdefghijkl")]
    assert list(log.read(RUN)) == accepted


@pytest.mark.parametrize(
    "event",
    [
        RunStarted(a_plan()),
        TurnAnswered(TurnId("r1.analyst.c1"), "語 🙂\n\x00\x1b[31m\u2028 end\r\n"),
        TurnAnswered(TurnId("r1.analyst.c1"), ""),
        TurnAnswered(TurnId("r1.analyst.c1"), "x" * 2_000_000),
    ],
    ids=["plan", "unicode", "empty", "large"],
)
def test_an_event_is_read_as_it_was_written(log: Log, event: Event) -> None:
    log.append(RUN, event, 0)
    assert [record.event for record in log.read(RUN)] == [event]


@pytest.mark.parametrize("after", [-1, 0, 1, 3, 99])
def test_an_event_that_does_not_follow_the_last_is_refused(log: Log, after: int) -> None:
    fill(log, RUN, "a", "b")
    with pytest.raises(LogConflict, match=RUN):
        log.append(RUN, note("c"), after)
    assert texts(log.read(RUN)) == ["a", "b"]


def test_a_run_begins_with_event_one(log: Log) -> None:
    with pytest.raises(LogConflict):
        log.append(RUN, note("a"), 1)
    assert log.runs() == []


@pytest.mark.parametrize(
    ("from_seq", "left"), [(-1, "abc"), (0, "abc"), (1, "abc"), (2, "bc"), (3, "c"), (4, ""), (9, "")]
)
def test_reading_can_begin_anywhere(log: Log, from_seq: int, left: str) -> None:
    fill(log, RUN, "a", "b", "c")
    assert texts(log.read(RUN, from_seq)) == list(left)


def test_runs_do_not_mix(log: Log) -> None:
    fill(log, RUN, "a")
    fill(log, OTHER, "x", "y")
    log.append(RUN, note("b"), 1)
    assert texts(log.read(RUN)) == ["a", "b"]
    assert texts(log.read(OTHER)) == ["x", "y"]
    assert list(log.read(RunId("nobody's"))) == []


def test_runs_are_listed_oldest_first(log: Log) -> None:
    for name in ("zebra", "apple", "mango"):
        fill(log, RunId(name), "a")
    log.append(RunId("zebra"), note("b"), 1)
    assert log.runs() == ["zebra", "apple", "mango"]


def test_a_watcher_sees_what_is_there_then_nothing_then_what_arrives(log: Log) -> None:
    fill(log, RUN, "a", "b")
    seen = log.watch(RUN)

    def news() -> list[str]:
        return texts(record for record in takewhile(lambda record: record is not None, seen) if record is not None)

    assert news() == ["a", "b"]
    assert news() == []
    log.append(RUN, note("c"), 2)
    assert news() == ["c"]
    assert news() == []


def test_a_watcher_may_begin_in_the_middle_and_before_the_run(log: Log) -> None:
    early, late = log.watch(RUN), log.watch(RUN, 2)
    assert next(early) is None
    fill(log, RUN, "a", "b")
    first, second = next(early), next(late)
    assert first is not None
    assert second is not None
    assert (first.seq, second.seq) == (1, 2)


def test_of_two_threads_that_meet_at_the_same_event_one_wins_and_nothing_is_lost(open_log: Open) -> None:
    meeting = threading.Barrier(2)

    def clock() -> float:
        # Both are let in at the same moment, unless the log itself lets in only one at a time.
        with suppress(threading.BrokenBarrierError):
            meeting.wait(0.02)
        return 1.0

    log = open_log(clock)
    for after in range(15):
        ends = at_once(lambda n, after=after: log.append(RUN, note(f"thread {n}"), after), 2)
        meeting.reset()
        assert sorted(type(end).__name__ for end in ends) == ["LogConflict", "Recorded"]
        assert len(list(log.read(RUN))) == after + 1


def at_once(job: Callable[[int], object], threads: int) -> list[object]:
    """What each of several threads that begin together returned or raised."""
    ends: list[object] = [None] * threads
    together = threading.Barrier(threads, timeout=PATIENCE)

    def work(n: int) -> None:
        together.wait()
        try:
            ends[n] = job(n)
        except LogError as error:
            ends[n] = error

    workers = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    return ends


# --- what a log on disk promises besides


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "telos" / "logos.db"


def spoil(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement, values)


def test_a_log_survives_being_closed_and_opened(path: Path) -> None:
    with closing(SqliteLog(path)) as log:
        fill(log, RUN, "a", "b")
        written = list(log.read(RUN))
    with closing(SqliteLog(path)) as log:
        assert list(log.read(RUN)) == written
        log.append(RUN, note("c"), 2)
        assert texts(log.read(RUN)) == ["a", "b", "c"]


def test_an_accepted_event_is_seen_by_another_connection_at_once(path: Path) -> None:
    with closing(SqliteLog(path)) as writer, closing(SqliteLog(path)) as reader:
        seen = reader.watch(RUN)
        assert next(seen) is None
        writer.append(RUN, note("a"), 0)
        assert texts(reader.read(RUN)) == ["a"]
        record = next(seen)
        assert record is not None
        assert record.event == note("a")


def test_connections_that_race_for_every_event_share_them_out_exactly(path: Path) -> None:
    writers, events = 4, 12
    logs = [SqliteLog(path) for _ in range(writers)]
    for after in range(events):
        ends = at_once(lambda n, after=after: logs[n].append(RUN, note(f"writer {n}"), after), writers)
        assert sorted(type(end).__name__ for end in ends) == ["LogConflict"] * (writers - 1) + ["Recorded"]
    assert [record.seq for record in logs[0].read(RUN)] == list(range(1, events + 1))
    for log in logs:
        log.close()


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("UPDATE events SET body = ? WHERE seq = 2", ["{torn"]),
        ("UPDATE events SET body = ? WHERE seq = 2", [""]),
        ("UPDATE events SET body = ? WHERE seq = 2", ['{"kind": "from_the_future"}']),
        ("UPDATE events SET body = ? WHERE seq = 2", [b"\xff\x00\xfe"]),
        ("UPDATE events SET body = CAST(? AS TEXT) WHERE seq = 2", [b'{"kind": "noted\xff\xfe']),
        ("DELETE FROM events WHERE seq = 2", []),
    ],
    ids=["torn", "empty", "unknown kind", "blob", "not UTF-8", "missing"],
)
def test_a_damaged_event_is_named_by_its_number(path: Path, statement: str, values: list[object]) -> None:
    with closing(SqliteLog(path)) as log:
        fill(log, RUN, "a", "b", "c")
        spoil(path, statement, *values)
        records = log.read(RUN)
        with pytest.raises(LogDamaged) as caught:
            list(records)
        assert (caught.value.run, caught.value.seq) == (RUN, 2)


def test_what_stands_before_the_damage_can_be_read(path: Path) -> None:
    with closing(SqliteLog(path)) as log:
        fill(log, RUN, "a", "b", "c")
        spoil(path, "UPDATE events SET body = '{' WHERE seq = 3")
        readable = []
        with pytest.raises(LogDamaged):
            readable.extend(log.read(RUN))
        records = log.read(RUN)
        assert texts(iter([next(records), next(records)])) == ["a", "b"]


def test_cutting_a_damaged_tail_keeps_a_copy_of_everything(path: Path) -> None:
    copy = path.with_name("logos.db.damaged")
    with closing(SqliteLog(path)) as log:
        fill(log, RUN, "a", "b", "c")
        fill(log, OTHER, "x")
        spoil(path, "UPDATE events SET body = '{' WHERE run = ? AND seq = 2", RUN)
        log.cut(RUN, 2, copy)
        assert texts(log.read(RUN)) == ["a"]
        assert texts(log.read(OTHER)) == ["x"]
        log.append(RUN, note("b again"), 1)
        assert texts(log.read(RUN)) == ["a", "b again"]
    with closing(sqlite3.connect(copy)) as kept:
        rows = kept.execute("SELECT run, seq FROM events ORDER BY run, seq").fetchall()
    assert rows == [(RUN, 1), (RUN, 2), (RUN, 3), (OTHER, 1)]
    assert copy.stat().st_mode & 0o777 == 0o600


def test_the_log_is_its_owners_alone(path: Path) -> None:
    with closing(SqliteLog(path)) as log:
        log.append(RUN, note("a"), 0)
        assert path.parent.stat().st_mode & 0o777 == 0o700
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.glob("logos.db*")}
        assert modes
        assert set(modes.values()) == {0o600}


def test_git_does_not_see_the_log(path: Path) -> None:
    with closing(SqliteLog(path)):
        assert (path.parent / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize(
    "content", [b"this is no database, and it is long enough to be read as one" * 20, b"SQLite format 3\x00"]
)
def test_a_file_that_is_no_log_is_a_log_error(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(LogError, match=r"logos\.db"):
        SqliteLog(path)
    assert path.read_bytes() == content


def test_a_folder_in_the_place_of_the_log_is_a_log_error(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(LogError, match=r"logos\.db"):
        SqliteLog(path)


def test_a_log_that_somebody_holds_for_a_moment_is_waited_for_and_not_taken_for_damaged(tmp_path: Path) -> None:
    path = tmp_path / ".telos" / "logos.db"
    SqliteLog(path).close()
    holder = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    holder.execute("PRAGMA journal_mode = DELETE")
    holder.execute("BEGIN EXCLUSIVE")
    told: list[str] = []
    release = threading.Timer(0.3, lambda: holder.execute("COMMIT"))
    release.start()
    try:
        with wiring.open_log(path.parent, told.append) as log:
            assert log.runs() == []
    finally:
        release.join()
        holder.close()
    assert told == []
    assert [file.name for file in path.parent.iterdir() if "damaged" in file.name] == []
