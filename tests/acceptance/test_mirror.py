"""Every event is in the mirror before it is in the database: kills in between, foreign writes, copies and moves."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from logos.adapters.store.chain import Row, first_hash, read_chain
from logos.adapters.store.mirror import Mirror, folder_of, mirrors_folder
from logos.adapters.store.recovery import open_readonly, repair
from logos.adapters.store.sqlite import SqliteLog
from logos.domain.events import Event, Noted, Recorded, RunForked, Topic
from logos.domain.turns import Outcome, RunId
from logos.errors import LogConflict, LogDamaged, LogError
from tests.acceptance.test_damage import (
    Tight,
    Works,
    a_build,
    a_cycle,
    a_repository,
    as_anybody,
    assert_nothing_is_asked_twice,
    read_log,
)
from tests.builders import a_plan
from tests.unit.test_cli import Cli

RUN, OTHER = RunId("run-a"), RunId("run-b")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user state folder of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@dataclass
class Room:
    """A work dir with a log, and its mirror in the state folder. `told` is what a person was told."""

    root: Path
    told: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return self.root / "work" / ".telos" / "logos.db"

    @property
    def mirrors(self) -> Path:
        return folder_of(self.path)

    def mirror(self, run: RunId = RUN) -> Path:
        return self.mirrors / f"{run}.jsonl"

    def open(self, *, driving: bool = True) -> SqliteLog:
        return SqliteLog(self.path, mirror=repair(self.path, self.told.append, driving=driving))

    def fill(self, *texts: str, run: RunId = RUN) -> None:
        with closing(self.open()) as log:
            for text in texts:
                log.append(run, note(text), len([*log.read(run)]))

    def texts(self, run: RunId = RUN) -> list[str]:
        """As a driver finds them."""
        with closing(self.open()) as log:
            return texts_in(log, run)

    def read(self, run: RunId = RUN) -> list[str]:
        """As somebody finds them who only reads."""
        with open_readonly(self.path, self.told.append, driven=False) as log:
            return texts_in(log, run)

    def execute(self, statement: str, *values: object) -> None:
        """What an agent does to the database."""
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute(statement, values)

    def forge(self, seq: int, text: str, run: RunId = RUN) -> None:
        body = json.dumps({"kind": "noted", "topic": "warning", "text": text, "turn": None})
        self.execute("INSERT INTO events VALUES (?, ?, 1.0, ?)", run, seq, body)

    def files(self) -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for path in (*self.path.parent.glob("*"), *self.mirrors.glob("*"))
            if not path.name.endswith("-shm")
        }


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def note(text: str) -> Noted:
    return Noted(Topic.WARNING, text)


def texts_in(log: SqliteLog, run: RunId) -> list[str]:
    return [record.event.text for record in log.read(run) if isinstance(record.event, Noted)]


def modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}


# --- the file


def test_every_event_is_a_line_of_json_with_the_very_bytes_of_the_database(room: Room, state: Path) -> None:
    room.fill("a", "語 🙂\n\x00\u2028", 'say "hello" \\ {}')
    with closing(sqlite3.connect(room.path)) as db:
        rows = db.execute("SELECT seq, at, CAST(body AS BLOB) FROM events ORDER BY seq").fetchall()
    lines = room.mirror().read_bytes().splitlines()
    for line, (seq, at, body) in zip(lines, rows, strict=True):
        said = json.loads(line)
        assert (said["seq"], said["at"], said["event"]) == (seq, at, json.loads(body))
        assert line.endswith(b'"event":' + body + b"}")
    folders = [state / "logos", state / "logos" / "mirrors", room.mirrors]
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700] * 3
    assert modes(state) == {0o600}


def test_a_line_that_another_version_wrote_differently_is_still_believed(room: Room) -> None:
    room.fill("a")
    content, room.told = room.mirror().read_bytes(), []
    # The hash covers the stored bytes: nothing is encoded again to check it.

    stored = b'"seq":1,"at":1e0,"event":{"kind" : "noted", "topic":"warning","text":"a","turn":null}}'
    hashed = hashlib.sha256(first_hash(RUN).encode() + stored).hexdigest()
    line = b'{"hash":"%s",%s\n' % (hashed.encode(), stored)
    assert line != content
    assert read_chain(RUN, line).hashes == (hashed,)


# --- kill -9 between the mirror and the database


class Photographer(Mirror):
    """Copies the work dir and the state folder at every step of an append: what a kill -9 there would leave."""

    root = Path()
    taken: list[Path]

    def photograph(self) -> None:
        copy = self.root / "photographs" / str(len(self.taken))
        for name in ("work/.telos", "state"):
            shutil.copytree(self.root / name, copy / name, ignore=shutil.ignore_patterns("*-shm"))
        self.taken.append(copy)

    def append(self, run: RunId, row: Row) -> None:
        self.photograph()
        super().append(run, row)
        self.photograph()


def recorded(works: Works, *, build: bool) -> list[Recorded]:
    assert (works.build() if build else works.run()).outcome is Outcome.PASSED
    (records,) = read_log(works.log).values()
    return records


@pytest.mark.parametrize("build", [False, True], ids=["cycle", "build"])
def test_a_kill_between_mirror_and_database_at_any_event_loses_and_repeats_nothing(build: bool, room: Room) -> None:
    records = recorded(Works(a_repository(room.root / "shop")), build=build)
    mirror = repair(room.path, room.told.append, driving=True)
    assert mirror is not None
    snapshots_for = Photographer(room.mirrors, mirror.record, room.told.append, driving=True)
    snapshots_for.root, snapshots_for.taken = room.root, []
    with closing(SqliteLog(room.path, mirror=snapshots_for)) as log:
        for record in records:
            log.append(RUN, record.event, record.seq - 1)
            snapshots_for.photograph()
    events: list[Event] = [record.event for record in records]
    before, between, after = snapshots_for.taken[0::3], snapshots_for.taken[1::3], snapshots_for.taken[2::3]
    assert len(before) == len(between) == len(after) == len(events)

    for seq, event in enumerate(events, 1):
        for work, mirrored, expected in (
            (before[seq - 1], before[seq - 1], events[: seq - 1]),
            # Written to the mirror and not to the database: the event is redone.
            (between[seq - 1], between[seq - 1], events[:seq]),
            (after[seq - 1], after[seq - 1], events[:seq]),
            # The other order, which no kill can leave: an event that is only in the database is not believed.
            (after[seq - 1], before[seq - 1], events[: seq - 1]),
        ):
            put_back(room, work, mirrored)
            with closing(room.open()) as log:
                assert [own.event for own in log.read(RUN)] == expected, (seq, event.kind)
                # The next driver goes on there.
                for number in range(len(expected), min(seq + 1, len(events))):
                    log.append(RUN, events[number], number)
            with open_readonly(room.path, pytest.fail, driven=False) as log:
                assert [own.event for own in log.read(RUN)] == events[: seq + 1], (seq, event.kind)


def put_back(room: Room, work: Path, mirrored: Path) -> None:
    for name, copy in (("work/.telos", work), ("state", mirrored)):
        shutil.rmtree(room.root / name)
        shutil.copytree(copy / name, room.root / name)


def test_a_line_that_is_torn_anywhere_is_cut_and_the_event_is_not_accepted(room: Room) -> None:
    room.fill("a", "b")
    whole = room.mirror().read_bytes()
    room.fill("c")
    last = room.mirror().read_bytes()[len(whole) :]
    room.execute("DELETE FROM events WHERE seq = 3")
    database = room.path.read_bytes()
    for length in (*range(1, len(last), 7), len(last) - 1):
        room.path.write_bytes(database)
        room.mirror().write_bytes(whole + last[:length])
        assert room.texts() == ["a", "b"], length
        assert room.mirror().read_bytes() == whole
    room.fill("d")
    assert room.texts() == ["a", "b", "d"]


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_a_fork_that_is_killed_is_there_whole_or_not_at_all(when: str, room: Room) -> None:
    room.fill("a", "b", "c")
    log = room.open()
    history = [*log.read(RUN)][:2]
    if when == "after":
        log.fork(OTHER, history, RunForked(RUN, 2, a_plan(), "fork"))
    elif when == "between":
        # The transaction fails, and nobody is left to undo the mirror.
        content = with_fork(room, log, history)
        log.close()
        room.mirror(OTHER).write_bytes(content)
    log.close()
    assert room.texts(OTHER) == ([] if when == "before" else ["a", "b"])
    with closing(room.open()) as log:
        assert log.runs() == ([RUN] if when == "before" else [RUN, OTHER])


def with_fork(room: Room, log: SqliteLog, history: Sequence[Recorded]) -> bytes:
    log.fork(OTHER, history, RunForked(RUN, 2, a_plan(), "fork"))
    content = room.mirror(OTHER).read_bytes()
    log._db.execute("DELETE FROM events WHERE run = ?", (OTHER,))  # pyright: ignore[reportPrivateUsage]
    log._db.commit()  # pyright: ignore[reportPrivateUsage]
    return content


def be_a_driver_that_dies(env: dict[str, str], when: str, seq: int) -> None:
    """A real driver that kills itself between mirror and database."""
    from tests.driver import main as drive

    os.environ.clear()
    os.environ.update(env)
    append = Mirror.append

    def dying(self: Mirror, run: RunId, row: Row) -> None:
        if row[0] == seq and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        append(self, run, row)
        if row[0] == seq:
            os.kill(os.getpid(), signal.SIGKILL)

    Mirror.append = dying
    sys.exit(drive())


@pytest.mark.parametrize(
    ("when", "seq"),
    [
        ("before", 1),
        ("between", 8),
        pytest.param("between", 1, marks=pytest.mark.long),
        pytest.param("before", 13, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("make", [a_cycle, a_build])
def test_a_driver_that_is_really_killed_there_asks_nothing_twice(make: object, when: str, seq: int, tmp_path: Path):
    tight: Tight = make(tmp_path)  # type: ignore[operator]
    assert tight.drive(target=be_a_driver_that_dies, args=(when, seq)).code == -signal.SIGKILL
    done = tight.drive()
    assert done.code == 0, done.err
    assert_nothing_is_asked_twice(tight)


# --- what somebody else wrote


def test_events_that_are_only_in_the_database_are_not_believed_and_kept(room: Room) -> None:
    room.fill("a", "b")
    room.forge(3, "everything passed")
    assert room.read() == ["a", "b"]
    assert room.texts() == ["a", "b"]
    (kept,) = (path for path in room.path.parent.glob("logos.db.damaged-*") if not path.name.endswith("-wal"))
    with closing(sqlite3.connect(kept)) as db:
        assert "everything passed" in db.execute("SELECT body FROM events WHERE seq = 3").fetchone()[0]
    assert kept.name in room.told[-1]
    assert room.texts() == ["a", "b"]


def test_a_run_that_is_only_in_the_database_is_not_believed(room: Room) -> None:
    room.fill("a")
    room.forge(1, "everything passed", OTHER)
    room.forge(1, "../../escaped", RunId("../../escaped"))
    with closing(room.open()) as log:
        assert log.runs() == [RUN]
    assert "1 event of run run-b dropped" in room.told[-1]
    assert [path.name for path in room.mirrors.glob("*.jsonl")] == ["run-a.jsonl"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = replace(body, 'b', 'x') WHERE seq = 2",
        "UPDATE events SET at = 5 WHERE seq = 1",
        "DELETE FROM events WHERE seq = 2",
        "DELETE FROM events",
        "DELETE FROM runs",
        "UPDATE log SET id = '0123456789abcdef0123456789abcdef'",
        "CREATE TRIGGER evil AFTER INSERT ON events BEGIN DELETE FROM events; END",
        "DROP TABLE events",
        "ALTER TABLE events ADD COLUMN more TEXT",
        "ALTER TABLE events RENAME COLUMN body TO text",
    ],
)
def test_whatever_was_done_to_the_database_the_mirror_is_believed(statement: str, room: Room) -> None:
    room.fill("a", "b", "c")
    room.execute(statement)
    assert room.read() == ["a", "b", "c"]
    room.fill("d")
    assert room.texts() == ["a", "b", "c", "d"]
    with closing(room.open()) as log:
        assert log.runs() == [RUN]


def test_while_a_driver_lives_what_others_write_to_the_database_is_not_believed(room: Room) -> None:
    with closing(room.open()) as log:
        log.append(RUN, note("a"), 0)
        room.forge(2, "everything passed")
        log.append(RUN, note("b"), 1)
        room.execute("UPDATE events SET body = replace(body, 'a', 'x') WHERE seq = 1")
        log.append(RUN, note("c"), 2)
        assert texts_in(log, RUN) == ["a", "b", "c"]
    kept = [path for path in room.path.parent.glob("logos.db.damaged-*") if not path.name.endswith("-wal")]
    assert len(kept) == 2
    told = len(room.told)
    assert told >= 2
    assert room.texts() == ["a", "b", "c"]
    assert len(room.told) == told


@pytest.mark.parametrize("harm", ["more", "changed", "shorter", "gone", "folder gone"])
def test_while_a_driver_lives_what_others_do_to_the_mirror_is_undone(harm: str, room: Room) -> None:
    with closing(room.open()) as log:
        for seq, text in enumerate("abc"):
            log.append(RUN, note(text), seq)
        content = room.mirror().read_bytes()
        match harm:
            case "more":
                with closing(Room.open(room, driving=False)) as other:
                    other.append(RUN, note("everything passed"), 3)
            case "changed":
                room.mirror().write_bytes(content.replace(b'"text":"b"', b'"text":"x"'))
            case "shorter":
                room.mirror().write_bytes(content[: len(content) // 2])
            case "gone":
                room.mirror().unlink()
            case _:
                shutil.rmtree(room.mirrors)
        log.append(RUN, note("d"), 3)
        assert texts_in(log, RUN) == ["a", "b", "c", "d"]
    assert room.mirror().read_bytes().startswith(content)
    told = len(room.told)
    assert told >= 1
    assert room.texts() == ["a", "b", "c", "d"]
    assert len(room.told) == told


def test_a_copy_that_was_kept_is_believed_again_once_the_mirror_is_deleted(room: Room) -> None:
    room.fill("a")
    room.forge(2, "this was mine")
    assert room.texts() == ["a"]
    shutil.rmtree(room.mirrors)
    for kept in room.path.parent.glob("logos.db.damaged-*"):
        kept.replace(room.path.with_name("logos.db-wal" if kept.name.endswith("-wal") else "logos.db"))
    assert room.texts() == ["a", "this was mine"]


def test_a_driver_stops_when_neither_its_log_nor_its_mirror_are_what_it_wrote(room: Room) -> None:
    with closing(room.open()) as log:
        log.append(RUN, note("a"), 0)
        log.append(RUN, note("b"), 1)
        room.mirror().write_bytes(room.mirror().read_bytes()[:-20])
        room.execute("UPDATE events SET body = replace(body, 'b', 'x') WHERE seq = 2")
        with pytest.raises(LogError, match="another process has changed both"):
            log.append(RUN, note("c"), 2)


def test_a_damaged_mirror_is_proven_and_written_anew_by_the_database(room: Room) -> None:
    room.fill("a", "b", "c")
    content = room.mirror().read_bytes()
    room.mirror().write_bytes(content.replace(b'"text":"b"', b'"text":"\x00"'))
    assert room.texts() == ["a", "b", "c"]
    assert room.mirror().read_bytes() == content
    assert "it was damaged" in room.told[-1]


def test_of_a_mirror_that_was_changed_with_its_database_only_the_beginning_is_believed(room: Room) -> None:
    room.fill("a", "b", "c")
    content = room.mirror().read_bytes()
    room.mirror().write_bytes(content.replace(b'"text":"b"', b'"text":"x"'))
    room.execute("UPDATE events SET body = replace(body, 'b', 'x') WHERE seq = 2")
    assert room.texts() == ["a"]


def test_a_symbolic_link_in_the_place_of_a_mirror_is_not_followed(room: Room) -> None:
    room.fill("a")
    precious = room.root / "precious"
    precious.write_text("precious")
    room.mirror().unlink()
    room.mirror().symlink_to(precious)
    room.fill("b")
    assert room.texts() == ["a", "b"]
    assert "continuing without the mirror" in room.told[0]
    assert precious.read_text() == "precious"


def test_events_of_a_newer_version_are_cut_from_the_mirror_as_well(room: Room) -> None:
    room.fill("a", "b")
    mirror = repair(room.path, room.told.append, driving=True)
    assert mirror is not None
    mirror.append(RUN, (3, 1.0, b'{"kind":"from_the_future"}'))
    with closing(room.open()) as log:
        with pytest.raises(LogDamaged) as caught:
            list(log.read(RUN))
        assert caught.value.seq == 3
        log.cut(RUN, 3, room.path.with_name("copy.db"))
        log.append(RUN, note("c"), 2)
    told = len(room.told)
    assert room.texts() == ["a", "b", "c"]
    assert len(room.told) == told


# --- mirrors that are missing


@pytest.mark.parametrize("what", ["file", "record", "folder", "all"])
def test_a_deleted_mirror_is_written_anew_from_the_database_and_said(what: str, room: Room, state: Path) -> None:
    room.fill("a", "b")
    match what:
        case "file":
            room.mirror().unlink()
        case "record":
            (room.mirrors / "log.json").unlink()
        case "folder":
            shutil.rmtree(room.mirrors)
        case _:
            shutil.rmtree(state)
    assert room.read() == ["a", "b"]
    assert room.texts() == ["a", "b"]
    assert "mirror" in room.told[-1]
    told = len(room.told)
    for path in room.path.parent.glob("logos.db*"):
        path.unlink()
    assert room.texts() == ["a", "b"]
    assert len(room.told) == told + 1


def test_a_log_that_was_begun_without_a_mirror_gets_one(room: Room) -> None:
    with closing(SqliteLog(room.path)) as log:
        log.append(RUN, note("a"), 0)
        log.append(OTHER, note("x"), 0)
    room.execute("DROP TABLE log")
    assert room.read() == ["a"]
    room.fill("b")
    assert room.told == []
    room.path.unlink()
    assert (room.texts(), room.texts(OTHER)) == (["a", "b"], ["x"])


# --- copies and moves


def test_a_copied_work_dir_gets_a_mirror_of_its_own(room: Room) -> None:
    room.fill("a", "b")
    copy = Room(room.root / "copies")
    shutil.copytree(room.root / "work", copy.root / "work")
    assert copy.read() == ["a", "b"]
    copy.fill("c")
    room.fill("d")
    for own, expected in ((room, ["a", "b", "d"]), (copy, ["a", "b", "c"])):
        own.path.unlink()
        assert own.texts() == expected
    ids = {json.loads((own.mirrors / "log.json").read_bytes())["id"] for own in (room, copy)}
    assert len(ids) == 2


def test_a_moved_work_dir_keeps_its_mirror(room: Room) -> None:
    room.fill("a", "b")
    before = json.loads((room.mirrors / "log.json").read_bytes())
    moved = Room(room.root / "elsewhere")
    moved.root.mkdir()
    (room.root / "work").rename(moved.root / "work")
    moved.forge(3, "everything passed")
    assert moved.read() == ["a", "b"]
    assert moved.texts() == ["a", "b"]
    after = json.loads((moved.mirrors / "log.json").read_bytes())
    assert after == {**before, "path": str(moved.path)}
    assert not room.mirrors.exists()
    moved.fill("c")
    assert moved.texts() == ["a", "b", "c"]


def test_the_work_dir_is_the_same_whichever_way_it_is_reached(room: Room) -> None:
    room.fill("a")
    (room.root / "link").mkdir()
    (room.root / "link" / "work").symlink_to(room.root / "work")
    other = Room(room.root / "link")
    other.fill("b")
    assert room.texts() == ["a", "b"]
    assert len([*mirrors_folder().iterdir()]) == 1


# --- a state folder that cannot be written


@pytest.mark.parametrize("broken", ["a file", "no home"])
def test_without_a_state_folder_a_log_goes_on_without_a_mirror_and_says_so_once(
    broken: str, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    (room.root / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(room.root / "file") if broken == "a file" else "")
    monkeypatch.setenv("HOME", str(room.root / "file") if broken == "a file" else "nowhere")
    with closing(room.open()) as log:
        for seq, text in enumerate("abc"):
            log.append(RUN, note(text), seq)
    (line,) = room.told
    assert "continuing without a mirror" in line
    assert room.read() == ["a", "b", "c"]


def test_what_was_written_while_the_mirror_could_not_be_is_believed_afterwards(room: Room) -> None:
    room.fill("a", "b")
    with closing(room.open()) as log:
        put_away = room.mirrors.rename(room.root / "away")
        room.mirrors.write_text("in the way")
        log.append(RUN, note("c"), 2)
        log.append(RUN, note("d"), 3)
        log.append(OTHER, note("x"), 0)
    (line,) = (line for line in room.told if "continuing without" in line)
    assert str(room.mirrors) in line
    room.mirrors.unlink()
    put_away.rename(room.mirrors)
    assert (room.read(), room.read(OTHER)) == (["a", "b", "c", "d"], ["x"])
    assert (room.texts(), room.texts(OTHER)) == (["a", "b", "c", "d"], ["x"])
    # From here on the mirror is the authority again.
    room.forge(5, "everything passed")
    assert room.texts() == ["a", "b", "c", "d"]


FILL = """
import sys
from contextlib import closing
from pathlib import Path
from tests.acceptance.test_mirror import Room
room = Room(Path(sys.argv[1]))
room.fill(*sys.argv[2:])
print("\\n".join(room.told))
"""


@pytest.mark.long
def test_a_state_folder_that_may_only_be_read_is_said_once_and_nothing_is_lost(room: Room) -> None:
    room.fill("a")
    for path in (*room.mirrors.iterdir(), room.mirrors):
        path.chmod(path.stat().st_mode & 0o555)
    command = [sys.executable, "-c", FILL, str(room.root), "b", "c"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=as_anybody, check=True)
    room.mirrors.chmod(0o700)
    room.mirror().chmod(0o600)
    assert done.stdout.count("continuing without the mirror") == 1
    assert room.texts() == ["a", "b", "c"]


# --- several at once


def test_of_several_who_open_a_damaged_log_at_once_one_repairs_it(room: Room) -> None:
    room.fill("a", "b")
    room.path.write_bytes(room.path.read_bytes()[:-100])
    together, found = threading.Barrier(4), list[list[str]]()

    def open_it() -> None:
        together.wait()
        own = Room(room.root, room.told)
        with closing(own.open(driving=False)) as log:
            found.append(texts_in(log, RUN))

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["a", "b"]] * 4
    assert len(room.told) == 1


def test_whoever_reads_while_a_driver_writes_sees_the_truth_and_says_nothing(room: Room) -> None:
    with closing(room.open()) as log:
        for seq in range(12):
            log.append(RUN, note(str(seq)), seq)
            assert room.read() == [*map(str, range(seq + 1))]
    assert room.told == []


def test_of_two_who_write_without_driving_one_is_next(room: Room) -> None:
    with closing(room.open(driving=False)) as one, closing(room.open(driving=False)) as other:
        one.append(RUN, note("a"), 0)
        with pytest.raises(LogConflict):
            other.append(RUN, note("x"), 0)
        other.append(RUN, note("b"), 1)
        one.append(RUN, note("c"), 2)
    assert room.told == []
    assert room.texts() == ["a", "b", "c"]


def test_a_transaction_that_fails_leaves_no_line_behind(room: Room) -> None:
    room.fill("a")
    content = room.mirror().read_bytes()
    with closing(room.open()) as log:
        room.execute("CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'the disk is full'); END")
        with pytest.raises(LogError, match="the disk is full"):
            log.append(RUN, note("b"), 1)
        with pytest.raises(LogError, match="the disk is full"):
            log.fork(OTHER, log.read(RUN), RunForked(RUN, 1, a_plan(), "fork"))
        assert (room.mirror().read_bytes(), room.mirror(OTHER).exists()) == (content, False)
        room.execute("DROP TRIGGER full")
        log.append(RUN, note("b"), 1)
    assert room.texts() == ["a", "b"]


# --- commands


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    (tmp_path / "desk").mkdir()
    return Cli(tmp_path / "desk", monkeypatch, capsys)


def test_gc_removes_the_mirrors_of_logs_whose_work_dir_is_gone(cli: Cli, room: Room) -> None:
    cli.run()
    room.fill("a")
    assert "nothing to remove" in cli("gc").out
    shutil.rmtree(room.root / "work")
    planned = cli("gc", "--dry-run")
    assert f"mirror of {room.path} (its work dir is gone): 1 folder" in planned.out
    assert room.mirrors.is_dir()
    assert f"mirror of {room.path}" in cli("gc").out
    assert not room.mirrors.exists()
    assert len([*mirrors_folder().iterdir()]) == 1


def test_status_of_a_work_dir_whose_log_was_deleted_is_read_from_the_mirror(cli: Cli) -> None:
    run = cli.run().run
    shutil.rmtree(cli.wd / ".telos")
    done = cli("status", "--json")
    assert (done.code, done.json["run"], done.json["status"]) == (0, run, "PASSED")
    assert not (cli.wd / ".telos").exists()
