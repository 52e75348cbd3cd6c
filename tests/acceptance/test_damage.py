"""Files cut short and spoiled, folders that may not be written, disks that are full, clocks that are set back."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import re
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from logos.adapters.store.codec import steady
from logos.adapters.store.mirror import discard
from logos.adapters.store.recovery import examine, repair
from logos.adapters.store.sqlite import SqliteLog, in_words
from logos.app.setting_sources import load_settings
from logos.app.start import build_here
from logos.app.workdir import open_log, reading
from logos.domain.events import Event, Noted, Recorded, Topic, TurnAnswered, TurnAsked
from logos.domain.ledger import Ledger
from logos.domain.roles import Role
from logos.domain.turns import Outcome, RunId
from logos.engine.runner import RunResult
from logos.errors import Interrupted, LogError, LogosError
from logos.flows.levels.state import LevelsState
from logos.testing import APPROVED, GOOD_ANALYSIS, GOOD_PROGRAM, PASS, ScriptedAgents
from tests.acceptance.conftest import Shop
from tests.acceptance.test_kill_anywhere import PROCESSES, PROMPT
from tests.acceptance.test_kill_builds import SMALL, SMALL_LEVELS
from tests.unit.test_cli import Cli, Done, clean_env

FAST = {"POLL_SECONDS": "0.05", "IDLE_GRACE_SECONDS": "0.6"}
ONE_CYCLE = {"MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1"}
# Longer than a page, so that it goes on on others.
LONG_ANALYSIS = GOOD_ANALYSIS + "".join(f"- {number} is a line of a long analysis\n" for number in range(250))
PARTS = {"components": [{"name": name, "purpose": name} for name in ("cart", "price")]}
# Of a whole run, and of a whole build as well.
TURNS = 5
NAMES = tuple(map(RunId, ("mango", "apple", "zebra")))
PAGE_SIZE = 4096
# The runs of a log, each with its events.
Runs = dict[RunId, list[Recorded]]


class StopAfter:
    """A person who presses Ctrl-C at an event."""

    def __init__(self, kind: str, count: int) -> None:
        self.kind, self.left = kind, count

    def __call__(self, record: Recorded, state: object, ledger: Ledger) -> None:
        del state, ledger
        self.left -= record.event.kind == self.kind
        if self.left == 0:
            self.left = -1
            raise Interrupted(2)


@dataclass
class Works:
    """A repository in which cycles are run and builds are made, by agents that answer at once."""

    wd: Path
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shop = Shop(self.wd, self.told)
        self.shop.hire(analyst=[LONG_ANALYSIS])
        self.agents = ScriptedAgents(self.wd / ".tmp" / "agent-responses", {"L3.decompose": [PARTS]})

    @property
    def log(self) -> Path:
        return self.wd / ".telos" / "logos.db"

    def run(self, **environment: Any) -> RunResult[Any]:
        return self.shop.run(**{**ONE_CYCLE, **environment})

    def build(self, *, watchers: Sequence[Any] = (), **environment: str) -> RunResult[LevelsState]:
        env = {"WD": str(self.wd), "LEVELS": "3,2", "POLL_SECONDS": "0.02", **environment}
        return build_here(
            load_settings(None, env),
            "sell things",
            make_host=lambda _settings, _tell: self.agents,
            change_signal_for=lambda _folder: self.agents.change_signal,
            watchers=watchers,
            tell=self.told.append,
        )

    def leave(self, drive: Callable[..., object], answered: int, **environment: str) -> None:
        """Drive until so many turns were answered, and leave it there."""
        with pytest.raises(Interrupted):
            drive(watchers=[StopAfter("turn_answered", answered)], **environment)

    def three_runs(self) -> None:
        """A run, a build and a run, all left in the middle."""
        self.leave(self.run, 1)
        self.leave(self.build, 1)
        self.leave(self.run, 2, RESUME="0")

    def sent(self, turn: str) -> int:
        """How often an agent of a build was asked this."""
        return sum(f"Turn: {turn}\n" in message for _, message in self.agents.sent)


def a_repository(wd: Path, files: Mapping[str, str] = MappingProxyType({})) -> Path:
    wd.mkdir()
    for name, text in {"telos.toml": 'purpose = "a shop"\n', **files}.items():
        (wd / name).write_text(text)
    for command in ("init -q -b trunk", "add -A", "commit -q -m start"):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b", *command.split()], cwd=wd, check=True)
    return wd


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(a_repository(tmp_path / "shop"))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user state folder of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> list[Recorded]:
    """The events of three real runs, under names that are always the same."""
    folder = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        works = Works(a_repository(folder / "shop"))
        works.three_runs()
        runs = read_log(works.log)
    return [replace(record, run=name) for name, own in zip(NAMES, runs.values(), strict=True) for record in own]


def read_log(path: Path) -> Runs:
    with closing(SqliteLog(path)) as log:
        return {run: [*log.read(run)] for run in log.runs()}


def by_run(records: Iterable[Recorded]) -> Runs:
    runs: Runs = {}
    for record in records:
        runs.setdefault(record.run, []).append(record)
    return runs


def write_log(path: Path, records: Sequence[Recorded]) -> None:
    times = iter([record.at for record in records])
    with closing(SqliteLog(path, times.__next__, repair(path, print, driving=True))) as log:
        for record in records:
            log.append(record.run, record.event, record.seq - 1)


# --- looking at a damaged log

Spoil = Callable[[bytearray], object]


def cut(at: int) -> Spoil:
    """Leave so many bytes; of less than none, all but so many."""
    return lambda main: main.__delitem__(slice(at, None))


def spoil(start: int, stop: int, value: int = 0) -> Spoil:
    return lambda main: main.__setitem__(slice(start, stop), bytes([value]) * (stop - start))


DAMAGES: dict[str, Spoil] = {
    "in the middle of its last page": cut(-1000),
    "at the end of a page": cut(-PAGE_SIZE),
    "in the middle": cut(16 * PAGE_SIZE + 7),
    "its header spoiled": spoil(0, 100),
    "another encoding": spoil(59, 60, 2),
    "its first page gone": spoil(0, PAGE_SIZE),
    "the root of its tree gone": spoil(PAGE_SIZE, 2 * PAGE_SIZE),
    "a page of a long answer gone": spoil(8 * PAGE_SIZE, 9 * PAGE_SIZE),
}
NO_DATABASE = (b"a poem about a log\n" * 1000, b"SQLite format 3\x00", b"\x00" * 50_000)


@dataclass
class Onlooker:
    """Somebody who looks at a log with every command there is, and changes nothing by it."""

    wd: Path
    cli: Cli

    @property
    def log(self) -> Path:
        return self.wd / ".telos" / "logos.db"

    def lay(self, records: Sequence[Recorded], damage: Spoil) -> bytes:
        """A log with its mirror, and then damaged; returns what is left of the file."""
        write_log(self.log, records)
        main = bytearray(self.log.read_bytes())
        damage(main)
        self.log.write_bytes(main)
        return bytes(main)

    def files(self) -> dict[str, bytes]:
        # What is shared between those who have it open is no part of the log.
        found = (self.wd / ".telos").iterdir()
        return {path.name: path.read_bytes() for path in found if not path.name.endswith("-shm")}

    def looks(self, run: str) -> Iterator[tuple[str, Done]]:
        before = self.files()
        for command in ("runs", "status", f"log {run}", f"show {run}"):
            done = self.cli(*command.split())
            assert self.files() == before, command
            yield command, done


@pytest.fixture
def onlooker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Onlooker:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "private"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "private").mkdir()
    wd = tmp_path / "work"
    wd.mkdir()
    return Onlooker(wd, Cli(wd, monkeypatch, capsys))


@pytest.mark.parametrize("name", DAMAGES)
def test_whoever_looks_at_a_damaged_log_reads_every_event_in_its_mirror_and_one_line_on_that(
    name: str, kept: list[Recorded], onlooker: Onlooker
):
    onlooker.lay(kept, DAMAGES[name])
    for command, done in onlooker.looks(NAMES[-1]):
        (line,) = done.err.splitlines()
        assert (done.code, "logos.db" in line) == (0, True), command
    assert [row["run"] for row in onlooker.cli("runs", "--json").json["runs"]] == [*NAMES]
    for run, records in by_run(kept).items():
        assert len(onlooker.cli("log", run, "--json").json["events"]) == len(records)
    assert [*(onlooker.wd.parent / "private").iterdir()] == []


@pytest.mark.parametrize("name", DAMAGES)
def test_a_driver_rebuilds_a_damaged_log_from_its_mirror_and_keeps_the_damaged_file(
    name: str, kept: list[Recorded], onlooker: Onlooker
):
    left, told = onlooker.lay(kept, DAMAGES[name]), list[str]()
    for _ in range(2):
        with open_log(onlooker.log.parent, told.append) as log:
            assert log.runs() == [*NAMES]
        assert read_log(onlooker.log) == by_run(kept)
    (line,) = told
    # Where the file itself is sound only its rows are set right.
    copies = [*onlooker.log.parent.glob("logos.db.damaged-*")]
    assert [path.read_bytes() for path in copies] in ([left], [])
    assert all(path.name in line for path in copies)


@pytest.mark.parametrize("name", DAMAGES)
def test_of_a_damaged_log_without_a_mirror_the_beginning_of_each_run_is_kept(
    name: str, kept: list[Recorded], onlooker: Onlooker
):
    left, told = onlooker.lay(kept, DAMAGES[name]), list[str]()
    discard(onlooker.log)
    with open_log(onlooker.log.parent, told.append) as log:
        runs = log.runs()
    for run, records in read_log(onlooker.log).items():
        assert records == by_run(kept)[run][: len(records)]
    assert [run for run in NAMES if run in runs] == runs
    assert len(told) <= 2
    assert left in [path.read_bytes() for path in onlooker.log.parent.glob("logos.db.damaged-*")] or len(runs) == 3


@pytest.mark.parametrize("content", NO_DATABASE)
def test_a_log_with_nothing_left_in_it_is_one_clear_line_without_a_mirror(content: bytes, onlooker: Onlooker):
    onlooker.log.parent.mkdir()
    onlooker.log.write_bytes(content)
    for command, done in onlooker.looks("k3"):
        assert (done.code, len(done.err.splitlines())) == (1, 1), command
        assert "is damaged" in done.err, command


@pytest.mark.parametrize("content", [*NO_DATABASE, b"", None])
def test_a_log_that_is_garbage_or_gone_is_rebuilt_from_its_mirror(
    content: bytes | None, kept: list[Recorded], onlooker: Onlooker
):
    write_log(onlooker.log, kept)
    onlooker.log.unlink()
    if content is not None:
        onlooker.log.write_bytes(content)
    assert [row["run"] for row in onlooker.cli("runs", "--json").json["runs"]] == [*NAMES]
    told: list[str] = []
    with open_log(onlooker.log.parent, told.append):
        assert read_log(onlooker.log) == by_run(kept)
    assert len(told) == 1


@pytest.mark.long
def test_a_log_is_rebuilt_wherever_in_its_last_page_it_was_torn(kept: list[Recorded], onlooker: Onlooker):
    few = kept[:6]
    write_log(onlooker.log, few)
    whole = onlooker.log.read_bytes()
    for lost in range(1, PAGE_SIZE + 1):
        onlooker.log.write_bytes(whole[:-lost])
        stored = examine(onlooker.log)
        assert stored.damage or len(stored.runs[NAMES[0]]) < len(few), lost
        if lost % 257 == 1:
            with open_log(onlooker.log.parent, lambda _: None):
                assert read_log(onlooker.log) == by_run(few), lost


def test_an_older_database_is_brought_up_to_its_mirror(kept: list[Recorded], onlooker: Onlooker):
    write_log(onlooker.log, kept[:-20])
    older = onlooker.log.read_bytes()
    write_log(onlooker.log, kept[-20:])
    onlooker.log.write_bytes(older)
    *_, (_, done) = onlooker.looks(NAMES[-1])
    assert "missing in the database, restored from the mirror" in done.err
    told: list[str] = []
    with open_log(onlooker.log.parent, told.append):
        assert read_log(onlooker.log) == by_run(kept)
    assert "missing in the database, restored from the mirror" in told[0]


def test_nobody_decides_anything_in_a_copy(kept: list[Recorded], onlooker: Onlooker):
    onlooker.lay(kept, cut(-1000))
    with reading(onlooker.wd) as log:
        *_, last = log.read(NAMES[0])
        with pytest.raises(LogError, match="it must be repaired first; `logos run`"):
            log.append(last.run, last.event, last.seq)


# --- driving on with a damaged log


@pytest.mark.parametrize("lost", [1, PAGE_SIZE, 3 * PAGE_SIZE + 100, 8 * PAGE_SIZE])
def test_a_run_and_a_build_go_on_with_a_damaged_log_as_if_nothing_had_happened(works: Works, lost: int):
    works.three_runs()
    before = works.log.read_bytes()[:-lost]
    works.log.write_bytes(before)

    assert works.run().outcome is Outcome.PASSED
    assert works.build().outcome is Outcome.PASSED

    (copy,) = works.log.parent.glob("logos.db.damaged-*")
    assert copy.read_bytes() == before
    assert copy.stat().st_mode & 0o777 == 0o600
    (told,) = (line for line in works.told if "is damaged" in line)
    assert copy.name in told
    assert len(works.shop.agents.prompts("analyst")) == 2
    assert works.sent("s1.L3.decompose") == 1


def test_without_state_file_and_mirror_a_run_goes_on_from_what_is_left_of_its_log(works: Works):
    works.leave(works.run, 3)
    works.shop.state_path.unlink()
    discard(works.log)
    spoil_answer(works.log, -1)

    assert works.run(RESUME="1").outcome is Outcome.PASSED

    # The response that the log lost still lay in its file.
    assert [len(works.shop.agents.prompts(who)) for who in ("analyst", "analyst_review", "programmer")] == [1, 1, 1]
    assert len(works.shop.records()) == 1


def spoil_answer(log: Path, number: int) -> int:
    """As when a disk gives back zeros where an answer was; returns the number of its event."""
    with closing(sqlite3.connect(log)) as db:
        rows = db.execute(
            "SELECT run, seq, CAST(body AS BLOB) FROM events WHERE body LIKE '%turn_answered%'"
        ).fetchall()
    _, seq, body = sorted(rows)[number]
    content = log.read_bytes()
    assert content.count(body[:60]) == 1
    log.write_bytes(content.replace(body[:60], bytes(60)))
    return seq


def test_without_a_mirror_what_comes_after_a_gap_is_kept_aside(works: Works):
    works.leave(works.run, 3)
    (records,) = read_log(works.log).values()
    discard(works.log)
    seq = spoil_answer(works.log, -2)

    with open_log(works.log.parent, works.told.append) as log:
        (run,) = log.runs()
        assert [*log.read(run)] == records[: seq - 1]

    (kept,) = works.log.parent.glob("logos.db.damaged-*")
    assert kept.name in works.told[-1]
    with closing(sqlite3.connect(kept)) as db:
        assert db.execute("SELECT max(seq) FROM events").fetchone() == (len(records),)


def test_a_sound_log_is_left_alone(works: Works):
    works.three_runs()
    before = works.log.read_bytes()
    with open_log(works.log.parent, works.told.append):
        pass
    assert works.log.read_bytes() == before
    assert not any("damaged" in line or "mirror" in line for line in works.told)


# --- a folder that may only be read

LOOK = """
import contextlib, io, json, sys
from logos.cli import main
for command in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(command)
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24


def as_anybody() -> None:
    """Root may write whatever permissions say; without these two capabilities it is held to them."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        assert [libc.prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) for cap in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH)] == [0, 0]


def logos_as_anybody(wd: Path, *commands: Sequence[str], **env: str) -> list[Done]:
    """`logos` in a process of its own, several times over."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK, json.dumps(commands)],
        cwd=wd,
        env=clean_env(**env),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        preexec_fn=as_anybody,
    )
    return [Done(*json.loads(line)) for line in done.stdout.splitlines()]


@contextmanager
def only_readable(folder: Path) -> Iterator[None]:
    for path in (*folder.iterdir(), folder):
        path.chmod(path.stat().st_mode & 0o555 | 0o444)
    try:
        yield
    finally:
        for path in (folder, *folder.iterdir()):
            path.chmod(path.stat().st_mode | 0o700)


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize(
    "beside", ["nothing", "damaged", *(pytest.param(files, marks=pytest.mark.long) for files in ("wal", "wal and shm"))]
)
def test_in_a_folder_that_may_only_be_read_everything_can_be_read(
    beside: str, mirrored: bool, kept: list[Recorded], tmp_path: Path
):
    telos, private = tmp_path / "work" / ".telos", tmp_path / "private"
    private.mkdir()
    log, wal = telos / "logos.db", telos / "logos.db-wal"
    write_log(log, kept[:-12])
    with closing(SqliteLog(log, mirror=repair(log, print, driving=True))) as writer:
        for record in kept[-12:]:
            writer.append(record.run, record.event, record.seq - 1)
        main, late = log.read_bytes(), wal.read_bytes()
    if "wal" in beside:
        log.write_bytes(main)
        wal.write_bytes(late)
    if "shm" in beside:
        with closing(sqlite3.connect(f"{log.as_uri()}?mode=ro", uri=True)) as db:
            db.execute("SELECT count(*) FROM events")
    if beside == "damaged":
        log.write_bytes(log.read_bytes()[:-1000])
    if not mirrored:
        discard(log)
    looks = [["runs", "--json"], ["status"], ["show", NAMES[0]], *(["log", run, "--json"] for run in NAMES)]

    with only_readable(telos):
        runs, *others, first, second, third = logos_as_anybody(telos.parent, *looks, TMPDIR=str(private))

    assert [done.code for done in (runs, *others)] == [0] * 3
    seen = [
        (event["run"], event["seq"])
        for done in (first, second, third)
        if done.code == 0
        for event in done.json["events"]
    ]
    every = [(record.run, record.seq) for record in kept]
    assert seen == every if mirrored or beside != "damaged" else {*seen} < {*every}
    assert [bool(done.err) for done in others] == [beside == "damaged"] * len(others)
    assert [*private.iterdir()] == []


@pytest.mark.long
def test_a_driver_in_a_folder_that_may_only_be_read_says_so_in_one_line(works: Works):
    works.leave(works.run, 1)
    commands = [["run", "--resume", "--set", "host=local"], ["build", "sell things", "--set", "host=local"]]
    with only_readable(works.wd / ".telos"):
        for done in logos_as_anybody(works.wd, *commands):
            # Before it there may be a word on where the unfinished run stands.
            *_, last = done.err.splitlines()
            assert (done.code, done.out) == (2, "")
            assert last == f"logos: cannot write {works.wd / '.telos' / 'driver.lock'}: Permission denied"
            assert "Traceback" not in done.err
    assert works.run().outcome is Outcome.PASSED


@pytest.mark.long
def test_a_folder_that_may_not_even_be_read_is_one_line(works: Works):
    works.leave(works.run, 1)
    telos = works.wd / ".telos"
    telos.chmod(0)
    try:
        dones = logos_as_anybody(works.wd, ["status"], ["runs"], ["log"], ["run", "--resume"])
    finally:
        telos.chmod(0o700)
    for done in dones:
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("logos: cannot ")
        assert f"{telos}: Permission denied" in done.err


# --- a disk that is full


def be_a_driver_on_a_small_disk(env: dict[str, str], told: Connection, limit: int | None) -> None:
    """No file may grow beyond `limit` bytes: to a program that is the same as a full disk, and no root is needed."""
    from tests.driver import main as drive

    os.environ.clear()
    os.environ.update(env)
    os.dup2(told.fileno(), 2)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    sys.exit(drive())


@dataclass
class Tight:
    """A work dir on a disk that is full, and then is not."""

    wd: Path
    script: Any
    more: dict[str, str]

    def drive(
        self,
        limit: int | None = None,
        *,
        target: Callable[..., None] | None = None,
        args: tuple[object, ...] = (),
    ) -> Done:
        """Drive in a process of its own: on a disk where no file may be larger than `limit`, or as `target` does."""
        script = self.wd.parent / "script.json"
        script.write_text(json.dumps(self.script))
        state = self.wd.parent / "state"
        known = {"PATH": os.environ["PATH"], "XDG_STATE_HOME": state, "WD": self.wd, "SCRIPT": script}
        env = {name: str(value) for name, value in {**known, **FAST, **self.more}.items()}
        ours, theirs = PROCESSES.Pipe(duplex=False)
        told = (env, theirs, limit) if target is None else (env, *args)
        driver = PROCESSES.Process(target=target or be_a_driver_on_a_small_disk, args=told)
        driver.start()
        theirs.close()
        with ours, open(os.dup(ours.fileno()), encoding="utf-8") as said:
            err = said.read()
        driver.join()
        return Done(driver.exitcode or 0, "", err)

    def events(self) -> list[Event]:
        with closing(SqliteLog(self.wd / ".telos" / "logos.db")) as log:
            return [record.event for run in log.runs() for record in log.read(run)]

    def worked(self) -> int:
        """The agents' own count of their turns."""
        return sum(1 for _ in (self.wd / ".telos" / "scripted").glob("*/turn-*/pid"))


def a_cycle(tmp_path: Path, analysis: str = GOOD_ANALYSIS) -> Tight:
    (tmp_path / "work").mkdir()
    says = zip(Role, (analysis, APPROVED, GOOD_PROGRAM, APPROVED, PASS), strict=True)
    return Tight(tmp_path / "work", {role: [{"say": text}] for role, text in says}, {"PROMPT": PROMPT, **ONE_CYCLE})


def a_build(tmp_path: Path, *, big: int = 0) -> Tight:
    wd = a_repository(tmp_path / "work", {"big.bin": "x" * big} if big else {})
    return Tight(wd, SMALL, {"FEATURE": "sell things", "LEVELS": SMALL_LEVELS})


def assert_one_clear_line(done: Done) -> None:
    assert done.code == 1, done.err
    assert "Traceback" not in done.err
    assert [line.startswith("logos: ") for line in done.err.splitlines()][-1:] == [True]
    assert done.err.count("logos: ") == 1


def assert_nothing_is_asked_twice(tight: Tight) -> None:
    asked = [event.turn for event in tight.events() if isinstance(event, TurnAsked)]
    assert (len(asked), len(set(asked)), tight.worked()) == (TURNS, TURNS, TURNS)


@pytest.mark.parametrize(
    "limit", [0, *(pytest.param(size, marks=pytest.mark.long) for size in (40_000, 70_000, 110_000))]
)
def test_a_run_that_stops_on_a_full_disk_says_so_and_goes_on_when_there_is_space(limit: int, tmp_path: Path):
    tight = a_cycle(tmp_path)
    stopped = tight.drive(limit)
    assert_one_clear_line(stopped)
    assert str(tight.wd) in stopped.err
    assert any(cause in stopped.err for cause in ("disk I/O error", "File too large"))

    went_on = tight.drive()

    assert went_on.code == 0, went_on.err
    assert "damaged" not in went_on.err
    assert_nothing_is_asked_twice(tight)


@pytest.mark.long
def test_a_response_stays_where_it_is_until_it_is_in_the_log(tmp_path: Path):
    long = LONG_ANALYSIS * 12
    tight = a_cycle(tmp_path, long)
    assert_one_clear_line(tight.drive(len(long) + 10_000))
    assert [event for event in tight.events() if isinstance(event, TurnAnswered)] == []
    (response,) = (tight.wd / ".tmp" / "agent-responses").glob("*.md")
    assert response.read_text() == long

    assert tight.drive().code == 0

    assert_nothing_is_asked_twice(tight)
    assert next(event.text for event in tight.events() if isinstance(event, TurnAnswered)) == long


def test_a_state_file_that_cannot_be_written_stops_a_run_that_can_be_resumed(works: Works):
    works.shop.hire(analyst=[LONG_ANALYSIS * 6])
    works.leave(works.run, 2)
    before = works.shop.state
    # Enough for what the log needs, and less than the state file has.
    assert in_a_child(works.run, limit=40_000) == (1, f"cannot write {works.shop.state_path}: File too large")
    assert works.shop.state == before
    assert [*works.shop.state_path.parent.glob(".agnostic*")] == []

    assert works.run().outcome is Outcome.PASSED

    assert len(works.shop.agents.prompts("analyst")) == 1


def in_a_child(drive: Callable[[], object], limit: int) -> object:
    """What becomes of a driver in a process of its own, on a full disk."""
    ours, theirs = multiprocessing.Pipe(duplex=False)

    def be_the_child() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            theirs.send(drive())
        except LogosError as error:
            theirs.send((error.exit_code, str(error)))

    child = multiprocessing.get_context("fork").Process(target=be_the_child)
    child.start()
    theirs.close()
    said = ours.recv()
    child.join()
    return said


@pytest.mark.long
@pytest.mark.parametrize(("limit", "big"), [(70_000, 0), (150_000, 400_000)], ids=["log", "git"])
def test_a_build_that_stops_on_a_full_disk_goes_on_when_there_is_space(limit: int, big: int, tmp_path: Path):
    tight = a_build(tmp_path, big=big)
    assert_one_clear_line(tight.drive(limit))

    went_on = tight.drive()

    assert went_on.code == 0, went_on.err
    assert_nothing_is_asked_twice(tight)


def test_words_for_a_full_disk_are_a_persons(tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "full.db")) as db:
        db.execute("PRAGMA max_page_count = 2")
        with pytest.raises(sqlite3.OperationalError) as full:
            db.execute("CREATE TABLE much AS SELECT randomblob(10000)")
    assert in_words(full.value) == "no space is left on the disk"


# --- a clock that is set back

DAY = 86_400


def set_back(log: Path, where: str, seconds: float, *values: object) -> None:
    """As if the clock had been set back before these events."""
    with closing(sqlite3.connect(log)) as db, db:
        db.execute(f"UPDATE events SET at = at - ? WHERE {where}", (seconds, *values))
    # Without its mirror the database is believed as it is.
    discard(log)


def test_whatever_the_clock_says_the_newest_run_is_the_one_that_began_last(works: Works, onlooker: Onlooker):
    works.run()
    works.leave(works.run, 2, RESUME="0")
    with closing(SqliteLog(works.log)) as log:
        first, second = log.runs()
    set_back(works.log, "run = ?", 30 * DAY, second)
    looks = Cli(works.wd, onlooker.cli.monkeypatch, onlooker.cli.capsys)

    assert [row["run"] for row in looks("runs", "--json").json["runs"]] == [first, second]
    assert looks("status", "--json").json["run"] == second
    # Also when nothing but the log says which run it was.
    works.shop.state_path.unlink()
    assert works.run(RESUME="1").run == second


def test_a_clock_that_is_set_back_within_a_turn_makes_nothing_take_less_than_no_time(works: Works, onlooker: Onlooker):
    run = works.run().run
    answered = "seq >= (SELECT min(seq) FROM events WHERE body LIKE '%turn_answered%')"
    set_back(works.log, answered, DAY)
    looks = Cli(works.wd, onlooker.cli.monkeypatch, onlooker.cli.capsys)

    for command in ("runs", "status", f"show {run}", f"show {run} r1.analyst.c1", f"cost {run}"):
        shown, document = looks(*command.split()).out, looks(*command.split(), "--json").json
        assert not re.search(r"(?<![\w-])-\d", shown), command
        assert [value for value in numbers_in(document) if value < 0] == [], command


def numbers_in(document: Any) -> Iterator[float]:
    match document:
        case dict():
            yield from (number for value in document.values() for number in numbers_in(value))
        case list():
            yield from (number for value in document for number in numbers_in(value))
        case int() | float():
            yield document
        case _:
            return


@pytest.mark.parametrize("jump", [-30 * DAY, 30 * DAY])
def test_whoever_sets_the_clock_changes_no_time_that_a_run_has_taken(jump: float, tmp_path: Path):
    now = [1_700_000_000.0, 0.0]
    with closing(SqliteLog(tmp_path / "logos.db", steady(lambda: now[0], lambda: now[1]))) as log:
        stamps: list[float] = []
        for after in range(5):
            stamps.append(log.append(NAMES[0], Noted(Topic.WARNING, "tick"), after).at)
            now = [now[0] + 60 + jump * (after == 2), now[1] + 60]
    assert [later - sooner for sooner, later in pairwise(stamps)] == [60] * 4


@pytest.mark.parametrize("days", [-30, 30])
def test_a_budget_of_minutes_is_neither_used_up_nor_made_longer_by_the_clock_between_two_drivers(
    works: Works, days: int
):
    works.leave(works.run, 1)
    works.leave(works.run, 1)
    resumed = "seq >= (SELECT max(seq) FROM events WHERE body LIKE '%run_resumed%')"
    set_back(works.log, resumed, days * DAY)
    assert works.run(MAX_MINUTES="5").outcome is Outcome.PASSED
