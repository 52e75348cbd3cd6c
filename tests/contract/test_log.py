"""Every Log keeps the same promises: events in order, each accepted once, durable where it says so."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from itertools import count
from pathlib import Path

import pytest

from logos.adapters.store.postgres import PostgresLog
from logos.adapters.store.recovery import open_readonly, repair
from logos.adapters.store.sqlite import SqliteLog
from logos.app import workdir
from logos.domain.events import Event, Noted, Recorded, RunForked, RunStarted, Topic, TurnAnswered
from logos.domain.turns import RunId, TurnId
from logos.errors import LogConflict, LogDamaged, LogError
from logos.ports import Log
from logos.testing import MemoryLog
from tests.builders import a_plan

RUN, OTHER = RunId("run-a"), RunId("run-b")
PATIENCE = 60.0

Clock = Callable[[], float]
Open = Callable[[Clock], Log]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user state folder of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(params=["memory", "sqlite", "mirrored", "postgres"])
def open_log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    opened: list[Log] = []
    path = tmp_path / "telos" / "logos.db"

    def build(clock: Clock) -> Log:
        makers: dict[str, Callable[[], Log]] = {
            "memory": lambda: MemoryLog(clock),
            "sqlite": lambda: SqliteLog(path, clock),
            "mirrored": lambda: SqliteLog(path, clock, repair(path, print, driving=True)),
            "postgres": lambda: PostgresLog(request.getfixturevalue("database"), str(path), clock),
        }
        log = makers[request.param]()
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


@pytest.mark.parametrize("step", [1.0, 0.0, -3600.0], ids=["forward", "still", "back"])
def test_runs_are_in_the_order_they_began_whatever_the_clock_says(open_log: Open, step: float) -> None:
    ticks = count(1_700_000_000.0, step)
    log = open_log(lambda: next(ticks))
    for name in ("zebra", "apple", "mango"):
        fill(log, RunId(name), "a")
    log.append(RunId("apple"), note("b"), 1)
    assert log.runs() == ["zebra", "apple", "mango"]


def forked(log: Log, run: RunId, upto: int, parent: RunId = RUN) -> Recorded:
    history = [record for record in log.read(parent) if record.seq <= upto]
    return log.fork(run, history, RunForked(parent, upto, a_plan(), "fork"))


def test_a_fork_begins_with_the_events_of_another_run_as_they_were_and_when_they_were(log: Log) -> None:
    fill(log, RUN, "a", "b", "c")
    made = forked(log, OTHER, 2)
    assert (made.run, made.seq, made.event) == (OTHER, 3, RunForked(RUN, 2, a_plan(), "fork"))
    copied = [(record.run, record.seq, record.at, record.event) for record in log.read(OTHER)]
    assert copied == [(OTHER, 1, 1.0, note("a")), (OTHER, 2, 2.0, note("b")), (OTHER, 3, made.at, made.event)]
    assert made.at == 4.0


def test_a_fork_and_its_parent_go_on_side_by_side(log: Log) -> None:
    fill(log, RUN, "a", "b")
    forked(log, OTHER, 1)
    log.append(OTHER, note("theirs"), 2)
    log.append(RUN, note("ours"), 2)
    assert texts(log.read(OTHER)) == ["a", "theirs"]
    assert texts(log.read(RUN)) == ["a", "b", "ours"]


def test_a_fork_began_when_it_was_made(log: Log) -> None:
    fill(log, RUN, "a")
    fill(log, RunId("run-z"), "x")
    forked(log, OTHER, 1)
    fill(log, RunId("run-0"), "y")
    assert log.runs() == [RUN, "run-z", OTHER, "run-0"]


def test_a_fork_of_a_fork_has_the_whole_history(log: Log) -> None:
    fill(log, RUN, "a", "b")
    forked(log, OTHER, 2)
    log.append(OTHER, note("c"), 3)
    forked(log, RunId("run-c"), 4, OTHER)
    assert texts(log.read(RunId("run-c"))) == ["a", "b", "c"]


def test_a_fork_under_a_name_that_is_taken_changes_nothing(log: Log) -> None:
    fill(log, RUN, "a", "b")
    fill(log, OTHER, "x")
    with pytest.raises(LogConflict, match=OTHER):
        forked(log, OTHER, 2)
    assert texts(log.read(OTHER)) == ["x"]
    assert log.runs() == [RUN, OTHER]


def test_who_reads_on_sees_what_has_arrived_since(log: Log) -> None:
    assert texts(log.read(RUN)) == []
    fill(log, RUN, "a", "b")
    assert texts(log.read(RUN, 2)) == ["b"]
    assert texts(log.read(RUN, 3)) == []
    log.append(RUN, note("c"), 2)
    assert texts(log.read(RUN, 3)) == ["c"]


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
        assert texts(reader.read(RUN)) == []
        writer.append(RUN, note("a"), 0)
        assert texts(reader.read(RUN)) == ["a"]


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
        with workdir.open_log(path.parent, told.append) as log:
            assert log.runs() == []
    finally:
        release.join()
        holder.close()
    assert told == []
    assert [file.name for file in path.parent.iterdir() if "damaged" in file.name] == []


def an_old_log(path: Path) -> None:
    """A log as it was before runs had numbers."""
    times = iter((30.0, 31.0, 10.0, 20.0))
    with closing(SqliteLog(path, lambda: next(times))) as log:
        fill(log, RUN, "a", "b")
        fill(log, RunId("zebra"), "x")
        fill(log, OTHER, "y")
    spoil(path, "DROP TABLE runs")
    spoil(path, "PRAGMA user_version = 0")


def test_an_old_log_without_numbers_gets_them_in_the_order_in_which_its_runs_began(path: Path) -> None:
    an_old_log(path)
    for _ in range(2):
        with closing(SqliteLog(path, lambda: 1.0)) as log:
            assert log.runs()[:3] == ["zebra", OTHER, RUN]
            assert texts(log.read(RUN)) == ["a", "b"]
    with closing(SqliteLog(path, lambda: 1.0)) as log:
        # New ones come after them, whatever the clock says.
        fill(log, RunId("new"), "z")
        forked(log, RunId("forked"), 1)
    with closing(SqliteLog(path)) as log:
        assert log.runs() == ["zebra", OTHER, RUN, "new", "forked"]


# --- what a look promises


def look(path: Path, told: list[str] | None = None) -> AbstractContextManager[SqliteLog]:
    return open_readonly(path, (told if told is not None else []).append, driven=False)


def files_beside(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}


def test_a_look_changes_nothing_at_all(path: Path) -> None:
    an_old_log(path)
    before = files_beside(path)
    with look(path) as log:
        assert log.runs() == ["zebra", OTHER, RUN]
        assert texts(log.read(RUN)) == ["a", "b"]
    assert files_beside(path) == before


def test_a_look_at_what_a_killed_driver_left_moves_nothing(path: Path, tmp_path: Path) -> None:
    with closing(SqliteLog(path)) as log:
        fill(log, RUN, "a", "b")
        (tmp_path / "left").mkdir()
        for name in ("logos.db", "logos.db-wal"):
            (tmp_path / "left" / name).write_bytes(path.with_name(name).read_bytes())
    left = tmp_path / "left" / "logos.db"
    before = files_beside(left)
    told: list[str] = []
    with look(left, told) as log:
        assert texts(log.read(RUN)) == ["a", "b"]
    assert files_beside(left) == before
    assert told == []


def test_a_look_sees_what_a_driver_writes(path: Path) -> None:
    with closing(SqliteLog(path)) as driver:
        fill(driver, RUN, "a")
        with look(path) as log:
            assert texts(log.read(RUN)) == ["a"]
            driver.append(RUN, note("b"), 1)
            assert texts(log.read(RUN, 2)) == ["b"]


def test_whoever_looked_may_have_something_to_add(path: Path) -> None:
    with closing(SqliteLog(path)) as driver:
        fill(driver, RUN, "a", "b")
        with look(path) as log:
            records = log.read(RUN)
            first = next(records)
            log.append(RUN, note("c"), 2)
            # What was being read goes on.
            assert texts(iter([first, *records]))[:2] == ["a", "b"]
            forked(log, OTHER, 1)
        assert texts(driver.read(RUN)) == ["a", "b", "c"]
        assert driver.runs() == [RUN, OTHER]


def test_a_log_in_which_nothing_stands_yet_is_no_damaged_one(path: Path) -> None:
    path.parent.mkdir()
    told: list[str] = []
    for content in (b"", None):
        if content is None:
            spoil(path, "PRAGMA journal_mode = WAL")
        else:
            path.write_bytes(content)
        with look(path, told) as log:
            assert log.runs() == []
    assert told == []


def test_an_event_whose_time_makes_no_sense_is_a_damaged_one(path: Path) -> None:
    with closing(SqliteLog(path)) as log:
        fill(log, RUN, "a", "b")
        spoil(path, "UPDATE events SET at = 1e300 WHERE seq = 2")
        with pytest.raises(LogDamaged, match="time"):
            list(log.read(RUN))


HOLDER = """
import sys
from pathlib import Path
from logos.adapters.lock import driver_lock
with driver_lock(Path(sys.argv[1])):
    print(flush=True)
    sys.stdin.read()
"""


def test_a_log_is_not_repaired_under_the_hands_of_its_driver(path: Path) -> None:
    with closing(SqliteLog(path)) as log:
        fill(log, RUN, "a", "b", "c")
    spoil(path, "DELETE FROM events WHERE seq = 2")
    told: list[str] = []
    command = [sys.executable, "-c", HOLDER, str(path.with_name("driver.lock"))]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline()
        with workdir.open_log(path.parent, told.append) as log:
            assert log.runs() == [RUN]
        assert told == []
    finally:
        child.communicate(b"\n")
    with workdir.open_log(path.parent, told.append) as log:
        assert texts(log.read(RUN)) == ["a"]
    (line,) = told
    assert "1 event of run run-a dropped" in line
