"""Looking back: sessions, diff, compare and gc, on logs written by hand and small repositories."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.git.snapshots import GitSnapshots, Ref, refs_of_ours, remove_refs
from logos.adapters.lock import driver_lock
from logos.adapters.store.sqlite import SqliteLog
from logos.app.diff import last_in_common
from logos.app.runs import load_run
from logos.app.sessions import rows_of
from logos.domain.events import (
    Event,
    Noted,
    QuestionResolved,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    TerminalClosed,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnSent,
)
from logos.domain.plans import Plan
from logos.domain.turns import AgentName, Outcome, RunId, TerminalId, TurnId
from logos.domain.usage import Usage
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, GOOD_PROGRAM, PASS, MemoryLog
from tests.builders import a_quick_plan
from tests.levels_builders import a_levels_plan
from tests.support import repositories
from tests.support.isolation import clean_env
from tests.support.sandbox import LOGOS, Sandbox
from tests.support.terminals import on_a_terminal

PLAN = a_quick_plan(max_rounds=2)
DAY = 86_400.0
# A morning, wherever the tests run.
MORNING = time.mktime((2026, 11, 14, 9, 30, 0, 0, 0, -1))
CLEAR = "\x1b[2J\x1b]0;owned\x07"
TURNS = {
    "r1.analyst.c1": GOOD_ANALYSIS,
    "r1.peer_analyst.c1": APPROVED,
    "r1.programmer.c1": GOOD_PROGRAM,
    "r1.peer_programmer.c1": APPROVED,
    "r1.tester.c1": PASS,
}
PASSED = RunEnded(Outcome.PASSED)


def a_turn(turn: str, text: str = "", usage: Usage | None = None) -> list[Event]:
    name = AgentName(turn.split(".")[1])
    answer = TurnAnswered(TurnId(turn), text or TURNS[turn], usage=usage)
    return [TurnAsked(TurnId(turn), name, f"prompt of {turn}"), TurnSent(TurnId(turn)), answer]


def all_turns(**said: str) -> list[Event]:
    return [event for turn in TURNS for event in a_turn(turn, said.get(turn.split(".")[1], ""))]


def left(why: str) -> Event:
    return Noted(Topic.INTERRUPTED, why)


def git(folder: Path, *arguments: str, **env: str) -> str:
    return repositories.git(folder, *arguments, **env).strip()


@dataclass
class Repo:
    """A work dir whose log is written by hand, a minute for each event."""

    wd: Path
    now: float = MORNING
    _kept: dict[str, int] = field(default_factory=dict[str, int])

    def log(self) -> SqliteLog:
        return SqliteLog(self.wd / ".telos" / "logos.db", self._tick)

    def _tick(self) -> float:
        self.now += 60
        return self.now

    def write(self, run: str, *events: Event, after: int | None = None) -> int:
        """Add events to a run; returns the number of the last."""
        log = self.log()
        seq = self._kept.get(run, 0) if after is None else after
        for event in events:
            seq = log.append(RunId(run), event, seq).seq
        log.close()
        self._kept[run] = seq
        return seq

    def fork(self, run: str, parent: Repo, of: str, at: int, plan: Plan = PLAN, **changes: Any) -> int:
        source, target = parent.log(), self.log()
        history = [record for record in source.read(RunId(of)) if record.seq <= at]
        self._kept[run] = target.fork(RunId(run), history, RunForked(RunId(of), at, plan, **changes)).seq
        source.close()
        target.close()
        return self._kept[run]

    def damage(self, run: str, seq: int) -> None:
        db = sqlite3.connect(self.wd / ".telos" / "logos.db")
        with db:
            db.execute("UPDATE events SET body = '{' WHERE run = ? AND seq = ?", (run, seq))
        db.close()

    def snap(self, run: str, *seqs: int, **files: str | bytes | None) -> str:
        """Write files (dots are spelled `_dot_`), and keep what lies there at these events."""
        for name, text in files.items():
            path = self.wd / name.replace("_dot_", ".")
            if text is None:
                path.unlink()
            else:
                path.write_bytes(text.encode() if isinstance(text, str) else text)
        snapshots_for = GitSnapshots(self.wd)
        commit = snapshots_for.take()
        snapshots_for.point(RunId(run), dict.fromkeys(seqs, commit))
        return commit

    def refs(self, *under: str) -> list[str]:
        return git(self.wd, "for-each-ref", "--format=%(refname)", *(under or ("refs/logos",))).split()


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    # `logos gc` looks at every mirror of the person.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "repo").mkdir()
    return Sandbox(tmp_path / "repo")


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository to copy: that is faster than making one."""
    return repositories.make_repository(tmp_path_factory.mktemp("fresh") / "repo", {"a.txt": "one\n"})


@pytest.fixture(scope="session")
def passed(fresh: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One with a run: `a.txt` is one at event 1, two from 10 (the programmer) on, and `b` is there from 16 on."""
    context = Repo(copied(fresh, tmp_path_factory.mktemp("passed") / "repo"))
    context.write("aaaa", RunStarted(PLAN), *all_turns(), PASSED)
    context.snap("aaaa", 1)
    context.snap("aaaa", 10, a_dot_txt="two\n")
    context.snap("aaaa", 16, b="new\n")
    return context.wd


def copied(source: Path, folder: Path) -> Path:
    return Path(shutil.copytree(source, folder, symlinks=True, dirs_exist_ok=True))


@pytest.fixture
def plain(sandbox: Sandbox) -> Repo:
    """A desk that is no git repository."""
    return Repo(sandbox.wd)


@pytest.fixture
def context(sandbox: Sandbox, fresh: Path) -> Repo:
    return Repo(copied(fresh, sandbox.wd))


def a_fork_folder(context: Repo, name: str = "repo-fork", branch: str = "second") -> Repo:
    folder = context.wd.with_name(name)
    git(context.wd, "worktree", "add", "--quiet", "-b", branch, str(folder))
    return Repo(folder, context.now)


# --- sessions


def test_without_a_run_sessions_are_none_and_that_is_no_error(sandbox: Sandbox, plain: Repo) -> None:
    assert "logos run" in sandbox("sessions").out
    assert sandbox("sessions", "--json").json == {
        "version": 1,
        "wd": str(sandbox.wd),
        "sessions": [],
        "unreadable": [],
    }
    assert list(sandbox.wd.iterdir()) == []
    plain.log().close()
    assert "no sessions" in sandbox("sessions").out


@pytest.mark.scenario("LOG-16")
def test_sessions_are_listed_by_date_with_what_each_did_and_how_it_ended(sandbox: Sandbox, plain: Repo) -> None:
    plain.write("aaaa", RunStarted(PLAN), *a_turn("r1.analyst.c1"), left("stopped by SIGINT"))
    plain.now += DAY
    plain.write("aaaa", RunResumed(PLAN), *a_turn("r1.peer_analyst.c1"))
    plain.now += DAY
    rest = [event for turn in [*TURNS][2:] for event in a_turn(turn)]
    plain.write("aaaa", RunResumed(PLAN), *rest, PASSED)

    out = sandbox("sessions").out.splitlines()
    rows = [line.split(maxsplit=7) for line in out[1:4]]
    assert [row[0] for row in rows] == ["2026-11-14", "2026-11-15", "2026-11-16"]
    assert [(row[3], row[5], row[6]) for row in rows] == [("1", "1-5", "1"), ("2", "6-9", "1"), ("3", "10-20", "3")]
    assert [row[7] for row in rows] == ["stopped by SIGINT", "killed", "PASSED"]
    assert rows[0][4] == "4:00"
    assert "logos rollback RUN@EVENT" in out[-1]
    assert "logos fork RUN --at EVENT" in out[-1]

    told = sandbox("sessions", "--json").json["sessions"]
    assert [(own["session"], own["first"], own["last"], own["turns"]) for own in told] == [
        (1, 1, 5, 1),
        (2, 6, 9, 1),
        (3, 10, 20, 3),
    ]
    assert told[1]["seconds"] == 180.0
    assert told[0] == told[0] | {"run": "aaaa", "flow": "cycle", "forked_from": None, "driver_pid": None}


def test_a_session_under_way_names_its_driver_and_one_that_nobody_took_over_says_so(
    sandbox: Sandbox, plain: Repo
) -> None:
    plain.write("aaaa", RunStarted(PLAN))
    plain.write("bbbb", RunStarted(PLAN), *a_turn("r1.analyst.c1"))
    plain.write("aaaa", RunResumed(PLAN))
    assert [own["ended"] for own in sandbox("sessions", "--json").json["sessions"]] == [
        "killed",
        "killed, not resumed",
        "killed, not resumed",
    ]
    with driver_lock(sandbox.wd / ".telos" / "driver.lock"):
        ended = {(own["run"], own["session"]): own for own in sandbox("sessions", "--json").json["sessions"]}
        assert f"at work (pid {os.getpid()})" in sandbox("sessions").out
        asked_for = sandbox("sessions", "bbbb", "--json").json["sessions"]
    assert ended["aaaa", 2]["driver_pid"] == os.getpid()
    assert [own["ended"] for own in asked_for] == [ended["bbbb", 1]["ended"]] == ["killed, not resumed"]


def test_what_a_person_did_days_later_is_no_time_of_the_driver(plain: Repo) -> None:
    plain.write("aaaa", RunStarted(PLAN), TerminalOpened(AgentName("analyst"), TerminalId("t"), "codex", "local"))
    plain.now += DAY
    plain.write("aaaa", TerminalClosed(AgentName("analyst"), TerminalId("t")), RunAbandoned("enough"))
    plain.write("bbbb", RunStarted(PLAN), RunEnded(Outcome.BLOCKED))
    plain.now += DAY
    plain.write("bbbb", QuestionResolved("q1", 1, "do it"))
    log = plain.log()
    rows = [row for run in log.runs() for row in rows_of(plain.wd, load_run(log, run))]
    log.close()
    assert [row.session.seconds for row in rows] == [60.0, 60.0]
    assert [(row.ending, row.session.given_up) for row in rows] == [("killed", "enough"), ("BLOCKED", "")]


def test_a_fork_lists_what_is_its_own_and_where_it_came_from(sandbox: Sandbox, context: Repo) -> None:
    context.write("aaaa", RunStarted(PLAN), *a_turn("r1.analyst.c1"), left("stopped by SIGTERM"))
    context.fork("bbbb", context, "aaaa", 4, way="rollback")
    other = a_fork_folder(context)
    other.fork("cccc", context, "aaaa", 4)
    other.now += DAY
    other.write("cccc", RunResumed(PLAN), *a_turn("r1.peer_analyst.c1"), RunAbandoned("a better one was found"))

    told = sandbox("sessions", "--json").json["sessions"]
    assert [(own["run"], own["first"], own["last"], own["turns"]) for own in told] == [
        ("aaaa", 1, 5, 1),
        ("bbbb", 5, 5, 0),
        ("cccc", 5, 10, 1),
    ]
    assert [own["ended"] for own in told] == ["stopped by SIGTERM", "not driven", "killed"]
    assert (told[1]["forked_from"], told[1]["forked_at"], told[1]["forked_by"]) == ("aaaa", 4, "rollback")
    # From when it was driven, not from when it was made.
    assert (told[2]["seconds"], told[2]["given_up"], told[2]["wd"]) == (180.0, "a better one was found", str(other.wd))
    lines = sandbox("sessions").out.splitlines()
    assert lines[2].endswith("rolled back to aaaa@4")
    assert "forked from aaaa@4; abandoned: a better one was found" in lines[3]
    assert lines[3].endswith(str(other.wd))


@pytest.mark.parametrize("wanted", ["23456789", "234", "23456789@2", "bb"])
def test_one_run_can_be_asked_for_also_when_its_name_is_a_number(sandbox: Sandbox, context: Repo, wanted: str) -> None:
    context.write("23456789", RunStarted(PLAN))
    a_fork_folder(context).write("bbbb", RunStarted(PLAN))
    told = sandbox("sessions", wanted, "--json").json["sessions"]
    assert [own["run"] for own in told] == ["bbbb" if wanted == "bb" else "23456789"]


def test_what_cannot_be_read_does_not_hide_the_rest(sandbox: Sandbox, context: Repo) -> None:
    context.write("aaaa", RunStarted(PLAN), *a_turn("r1.analyst.c1"))
    context.write("bbbb", RunStarted(PLAN))
    context.write("cccc", RunStarted(PLAN))
    context.damage("aaaa", 4)
    context.damage("bbbb", 1)
    (a_fork_folder(context).wd / ".telos").mkdir()
    (context.wd.with_name("repo-fork") / ".telos" / "logos.db").write_text("no database at all, not even nearly")
    gone = a_fork_folder(context, "repo-gone", "third")
    gone.write("dddd", RunStarted(PLAN))
    subprocess.run(["rm", "-r", gone.wd], check=True)

    done = sandbox("sessions", "--json")
    assert done.code == 0
    assert [(own["run"], own["last"]) for own in done.json["sessions"]] == [("aaaa", 3), ("cccc", 1)]
    assert "event 4 of the log cannot be read" in done.json["sessions"][0]["damage"]
    assert [(Path(gap["wd"]).name, gap["run"]) for gap in done.json["unreadable"]] == [
        ("repo", "bbbb"),
        ("repo-fork", None),
    ]
    assert [line.count("repo") > 0 for line in done.err.splitlines() if line.startswith("warning: ")] == [True, True]


def test_a_log_that_cannot_be_read_is_no_empty_one(sandbox: Sandbox) -> None:
    (sandbox.wd / ".telos").mkdir()
    (sandbox.wd / ".telos" / "logos.db").write_text("no database at all, not even nearly")
    done = sandbox("sessions")
    assert (done.code, done.out) == (1, "")
    assert "the run log" in done.err


def test_control_sequences_in_a_log_do_not_reach_the_terminal(sandbox: Sandbox, context: Repo) -> None:
    context.write("aaaa", RunStarted(PLAN), *a_turn("r1.analyst.c1", CLEAR), left(f"it said {CLEAR}\nand more"))
    context.write("aaaa", RunAbandoned(f"no {CLEAR} more"))
    context.snap("aaaa", 1)
    context.snap("aaaa", 5, a_dot_txt="one\n" + CLEAR)
    context.fork("bbbb", context, "aaaa", 3, way="rollback")
    for command in (("sessions",), ("diff", "aaaa@1", "5", "--stat"), ("compare", "aaaa", "bbbb")):
        done = sandbox(*command)
        assert done.code == 0
        assert "\x1b" not in done.out + done.err
    assert "it said and more" in sandbox("sessions").out


def test_a_work_dir_behind_a_link_is_listed_once(sandbox: Sandbox, context: Repo) -> None:
    context.write("aaaa", RunStarted(PLAN))
    link = context.wd.with_name("link")
    link.symlink_to(context.wd)
    assert len(sandbox("sessions", "--wd", str(link), "--json").json["sessions"]) == 1


def test_runs_say_what_they_were_forked_from_where_any_was(sandbox: Sandbox, plain: Repo) -> None:
    plain.write("aaaa", RunStarted(PLAN), *a_turn("r1.analyst.c1"))
    assert "from" not in sandbox("runs").out
    plain.fork("bbbb", plain, "aaaa", 3)
    lines = [line.split() for line in sandbox("runs").out.splitlines()]
    assert [line[:2] for line in lines] == [["run", "from"], ["aaaa", "-"], ["bbbb", "aaaa@3"]]
    assert [(row["forked_from"], row["forked_at"]) for row in sandbox("runs", "--json").json["runs"]] == [
        (None, None),
        ("aaaa", 3),
    ]


# --- diff


@pytest.fixture
def run(sandbox: Sandbox, passed: Path) -> Repo:
    """A run that passed, with checkpoints at events 1, 10 and 16."""
    return Repo(copied(passed, sandbox.wd), MORNING + 17 * 60, {"aaaa": 17})


@pytest.mark.usefixtures("run")
def test_a_diff_is_a_patch_and_tells_beside_it_what_happened(sandbox: Sandbox) -> None:
    done = sandbox("diff", "1", "13")
    assert done.code == 0
    assert done.out.startswith("diff --git a/a.txt b/a.txt\n")
    assert "-one\n+two\n" in done.out
    assert "b/b" not in done.out
    assert "from aaaa@1 to aaaa@13" in done.err
    assert [line.split()[0] for line in done.err.splitlines()[1:]] == [*TURNS][:4]
    assert "APPROVED" in done.err
    one_turn = sandbox("diff", "r1.analyst.c1", "r1.peer_analyst.c1", "--json").json["timeline"]
    assert [own["turn"] for own in one_turn] == ["r1.peer_analyst.c1"]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("aaaa@1", "10"),
        ("1", "r1.programmer.c1"),
        ("aaaa@r1.analyst.c1", "aaaa@10"),
        ("r1.analyst.c1", "12"),
        ("aa@1", "aaaa@12"),
    ],
)
def test_checkpoints_are_named_as_everywhere_and_the_second_is_of_the_run_of_the_first(
    sandbox: Sandbox, run: Repo, a: str, b: str
) -> None:
    run.write("zzzz", RunStarted(PLAN))
    first = a if a.startswith("a") else f"aaaa@{a}"
    assert sandbox("diff", first, b, "--json").json["files"] == [{"path": "a.txt", "added": 1, "deleted": 1}]


def test_a_run_alone_is_its_newest_event_and_a_date_is_the_last_of_its_day(sandbox: Sandbox, run: Repo) -> None:
    run.now += DAY
    run.write("aaaa", Noted(Topic.AFTERWARDS, "committed"))
    commit = run.snap("aaaa", 18, b="newer\n")
    assert sandbox("diff", "2026-11-14", "aaaa", "--json").json == {
        "from": sandbox("diff", "17", "--json").json["from"],
        "to": {"run": "aaaa", "event": 18, "commit": commit, "wd": str(run.wd), "not_kept": None},
        "timeline": [],
        "files": [{"path": "b", "added": 1, "deleted": 1}],
        "patch": sandbox("diff", "17", "18", "--json").json["patch"],
    }


def test_without_a_second_it_goes_to_what_lies_there_and_touches_nothing(sandbox: Sandbox, run: Repo) -> None:
    (run.wd / "mine.txt").write_text("mine\n")
    before = {path: path.stat().st_mtime_ns for path in (run.wd / ".telos" / "snapshots").rglob("*")}
    status, refs = git(run.wd, "status", "--porcelain"), run.refs("")
    document = sandbox("diff", "12", "--json").json
    assert {own["path"] for own in document["files"]} == {"b", "mine.txt"}
    assert document["to"]["event"] is None
    assert {path: path.stat().st_mtime_ns for path in (run.wd / ".telos" / "snapshots").rglob("*")} == before
    assert (git(run.wd, "status", "--porcelain"), run.refs("")) == (status, refs)


@pytest.mark.usefixtures("run")
def test_stat_is_a_line_for_each_file(sandbox: Sandbox) -> None:
    done = sandbox("diff", "1", "16", "--stat")
    assert [line.split()[0] for line in done.out.splitlines()] == ["a.txt", "b", "2"]
    assert sandbox("diff", "1", "16", "--stat", "--json").json["patch"] is None
    assert sandbox("diff", "1", "2", "--stat").out == "no file differs\n"
    done = sandbox("diff", "1", "2")
    assert (done.out, "no file differs" in done.err) == ("", True)


def test_a_patch_in_a_pipe_can_be_applied_to_the_byte(run: Repo) -> None:
    odd = bytes(range(256)) + b"\r\nno end"
    run.snap("aaaa", 17, a_dot_txt=b"caf\xe9 \x1b[31m\r\n", odd_dot_bin=odd, b=None)
    (run.wd / "b").write_text("new\n")
    (run.wd / "a.txt").write_text("two\n")
    (run.wd / "odd.bin").unlink()
    subprocess.run(
        f"{LOGOS} diff 16 17 | git apply", shell=True, cwd=run.wd, env=clean_env(), capture_output=True, check=True
    )
    assert (run.wd / "a.txt").read_bytes() == b"caf\xe9 \x1b[31m\r\n"
    assert (run.wd / "odd.bin").read_bytes() == odd
    assert not (run.wd / "b").exists()


def test_on_a_terminal_a_patch_is_shown_without_control_sequences_of_its_files(run: Repo) -> None:
    run.snap("aaaa", 17, a_dot_txt=f"two{CLEAR}\n")
    shown, _ = on_a_terminal([LOGOS, "diff", "16", "17"], run.wd, clean_env(TERM="dumb"))
    assert "from aaaa@16 to aaaa@17" in shown
    assert "+two\r\n" in shown
    assert "\x1b[2J" not in shown
    assert "owned" not in shown


def test_where_no_files_were_kept_it_says_so_and_tells_what_happened(
    sandbox: Sandbox, plain: Repo, fresh: Path
) -> None:
    plain.write("aaaa", RunStarted(PLAN), *all_turns(tester=FAIL))
    for arguments in (("diff", "1", "16"), ("diff", "1")):
        done = sandbox(*arguments)
        assert (done.code, done.out) == (0, "")
        assert "not a git repository" in done.err
        assert "r1.tester.c1" in done.err
    copied(fresh, plain.wd)
    done = sandbox("diff", "1", "16", "--json")
    assert (done.json["files"], done.json["patch"]) == (None, None)
    assert "logos gc" in done.json["from"]["not_kept"]
    assert [own["verdict"] for own in done.json["timeline"]][-1] == "FAIL"


def test_what_is_damaged_later_does_not_keep_earlier_events_from_being_compared(sandbox: Sandbox, run: Repo) -> None:
    run.damage("aaaa", 14)
    assert "+two" in sandbox("diff", "1", "13").out
    done = sandbox("diff", "1", "14")
    assert (done.code, done.out) == (2, "")
    assert "it can be read up to 13" in done.err
    run.write("bbbb", RunStarted(PLAN))
    assert "event 14 of the log cannot be read" in sandbox("compare", "aaaa", "bbbb").out


@pytest.mark.parametrize(
    "arguments",
    [
        ("0",),
        ("99",),
        ("999999999999",),
        ("aaaa@99", "1"),
        ("nobody",),
        ("nobody@3",),
        ("1", "nobody"),
        ("r9.tester.c1",),
        ("1", "r9.tester.c1"),
        ("aaaa@nonsense",),
        ("1999-01-01",),
        ("",),
        ("@",),
        ("aaaa@@",),
        ("../../etc/passwd",),
        ("--", "-1"),
        ("1", "2", "3"),
        ("1", "HEAD"),
        ("\x1b[2J",),
    ],
)
@pytest.mark.usefixtures("run")
def test_nonsense_is_one_line_and_never_a_traceback(sandbox: Sandbox, arguments: tuple[str, ...]) -> None:
    done = sandbox("diff", *arguments)
    if done.code == 0:
        assert arguments in (("",), ("@",))  # the newest run
        return
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("logos: ")
    assert (done.err.count("\n"), "\x1b" in done.err) == (1, False)


# --- compare


def test_histories_part_where_the_last_common_ancestor_was_forked() -> None:
    log = MemoryLog()
    for after, event in enumerate([RunStarted(PLAN), *all_turns()]):
        log.append(RunId("a"), event, after)

    def forked(run: str, of: str, at: int, more: int = 2) -> None:
        history = [record for record in log.read(RunId(of)) if record.seq <= at]
        seq = log.fork(RunId(run), history, RunForked(RunId(of), at, PLAN)).seq
        for after in range(seq, seq + more):
            log.append(RunId(run), Noted(Topic.WARNING, "went on"), after)

    forked("b", "a", 4)
    forked("c", "b", 6)
    forked("d", "a", 7)
    forked("e", "c", 9, more=0)
    log.append(RunId("x"), RunStarted(PLAN), 0)
    tales = {run: load_run(log, run) for run in log.runs()}

    def common(one: str, other: str) -> tuple[str, int] | None:
        found = last_in_common(tales[RunId(one)], tales[RunId(other)])
        assert found == last_in_common(tales[RunId(other)], tales[RunId(one)])
        return found

    assert {pair: common(*pair) for pair in ("ab", "ac", "bc", "ad", "bd", "cd", "ce", "be", "de", "ax")} == {
        "ab": ("a", 4),
        "ac": ("a", 4),
        "bc": ("b", 6),
        "ad": ("a", 7),
        "bd": ("a", 4),
        "cd": ("a", 4),
        "ce": ("c", 9),
        "be": ("b", 6),
        "de": ("a", 4),
        "ax": None,
    }


@pytest.fixture
def race(run: Repo) -> tuple[Repo, Repo]:
    """The run, and a fork of it from before the programmer that went another way, in a folder of its own."""
    other = a_fork_folder(run)
    history = GitSnapshots(run.wd).of(RunId("aaaa"))
    other.fork("bbbb", run, "aaaa", 7)
    GitSnapshots(other.wd).point(RunId("bbbb"), {1: history[1]})
    usage = Usage(1000, 0, 500, 0.5)
    turns = [*TURNS][2:]
    asked = [event for turn in turns[:2] for event in a_turn(turn, usage=usage)]
    other.write("bbbb", RunResumed(PLAN), *asked, *a_turn("r1.tester.c1", FAIL))
    other.snap("bbbb", 12, a_dot_txt="three\n", c="c\n")
    return run, other


@pytest.mark.usefixtures("race")
def test_two_runs_are_shown_side_by_side(sandbox: Sandbox) -> None:
    lines = sandbox("compare", "aaaa", "bb").out.splitlines()
    cells = {line[:28].strip(): line[28:].split("  ") for line in lines[1:] if "  " in line}
    rows = {name: [cell.strip() for cell in both if cell.strip()] for name, both in cells.items()}
    assert lines[0].split() == ["aaaa", "bbbb"]
    assert rows["outcome"] == ["PASSED, unverified", "UNFINISHED"]
    assert rows["rounds"] == ["1", "2"]
    assert rows["turns"] == ["5", "3"]
    assert rows["turns inherited"] == ["0", "2"]
    assert rows["tokens"] == ["unknown", "3,000 (unknown for 1 of 3)"]
    assert rows["cost"] == ["unknown", "$1.00 (unknown for 1 of 3)"]
    assert rows["time driven"] == ["16:00", "9:00"]
    assert rows["sessions"] == ["1", "1"]
    assert rows["files changed since aaaa@7"] == ["2", "2"]
    assert "they have all events up to aaaa@7 in common" in lines
    assert [line.split()[0] for line in lines[-4:]] == ["a.txt", "b", "c", "3"]


def test_a_comparison_in_json_is_the_same_whichever_folder_one_is_in(sandbox: Sandbox, race: tuple[Repo, Repo]) -> None:
    here = sandbox("compare", "aaaa", "bbbb", "--json").json
    assert here == sandbox("compare", "aaaa", "bbbb", "--json", "--wd", str(race[1].wd)).json
    assert [(own["run"], own["turns"], own["inherited_turns"]) for own in here["runs"]] == [
        ("aaaa", 5, 0),
        ("bbbb", 3, 2),
    ]
    assert [own["usage"]["cost_usd"] for own in here["runs"]] == [None, 1.0]
    assert [own["files_changed"] for own in here["runs"]] == [2, 2]
    assert here["common"] == {"run": "aaaa", "event": 7, "commit": GitSnapshots(race[0].wd).of(RunId("aaaa"))[1]}
    assert [own["path"] for own in here["files"]] == ["a.txt", "b", "c"]
    assert (here["patch"], here["not_comparable"]) == (None, [])
    assert "+three" in sandbox("compare", "aaaa", "bbbb", "--json", "--patch").json["patch"]


@pytest.mark.usefixtures("race")
def test_a_patch_of_a_comparison_is_alone_on_stdout(sandbox: Sandbox) -> None:
    done = sandbox("compare", "aaaa", "bbbb", "--patch")
    assert done.out.startswith("diff --git ")
    assert "outcome" in done.err


def test_the_common_files_are_found_also_when_only_the_fork_still_holds_them(
    sandbox: Sandbox, race: tuple[Repo, Repo]
) -> None:
    run, _ = race
    remove_refs(run.wd, [ref for ref in refs_of_ours(run.wd) if "/aaaa/1" in ref.name])
    told = sandbox("compare", "aaaa", "bbbb", "--json").json
    assert told["common"]["commit"] is not None
    assert told["runs"][0]["commit"] is None
    assert [own["files_changed"] for own in told["runs"]] == [None, 2]
    assert "aaaa@17 were not kept" in told["not_comparable"][0]


def test_a_comparison_needs_nothing_of_the_run_that_both_came_from(sandbox: Sandbox, race: tuple[Repo, Repo]) -> None:
    run, other = race
    other.fork("cccc", other, "bbbb", 10)
    git(run.wd, "update-ref", "-d", "refs/logos/aaaa/1")
    (run.wd / ".telos" / "logos.db").write_text("somebody wrote over it")
    told = sandbox("compare", "bbbb", "cccc", "--json", "--wd", str(other.wd)).json
    assert (told["common"]["run"], told["common"]["event"]) == ("bbbb", 10)


def test_a_cycle_and_a_build_are_compared_as_far_as_that_goes(sandbox: Sandbox, run: Repo) -> None:
    base = git(run.wd, "rev-parse", "HEAD")
    run.write("bbbb", RunStarted(a_levels_plan(base=base, wd=str(run.wd))))
    done = sandbox("compare", "aaaa", "bbbb")
    assert done.code == 0
    assert "rounds, sweeps" in done.out
    assert "files changed since its start" in done.out
    told = sandbox("compare", "aaaa", "bbbb", "--json").json
    assert [own["flow"] for own in told["runs"]] == ["cycle", "levels"]
    assert [own["files_changed"] for own in told["runs"]] == [2, 0]
    assert (told["common"], len(told["not_comparable"])) == (None, 2)
    assert [own["path"] for own in told["files"]] == ["a.txt", "b"]


def test_runs_are_compared_without_git_but_for_their_files(sandbox: Sandbox, plain: Repo) -> None:
    plain.write("aaaa", RunStarted(PLAN), *all_turns(), PASSED)
    plain.write("bbbb", RunStarted(PLAN))
    done = sandbox("compare", "aaaa", "bbbb")
    assert done.code == 0
    assert "unknown" in done.out
    assert "not a git repository" in done.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("aaaa", "aaaa"), "name two"),
        (("aaaa",), "Missing argument"),
        (("aaaa", "nobody"), "there is no run 'nobody'"),
        (("aaaa", "16"), "there is no run '16'"),
        (("aaaa@3", "bbbb"), "is no run"),
        (("", "aaaa"), "is no run"),
        (("aaaa", "r1.tester.c1"), "there is no run"),
    ],
)
def test_two_different_runs_must_be_named(sandbox: Sandbox, run: Repo, arguments: tuple[str, ...], says: str) -> None:
    run.write("bbbb", RunStarted(PLAN))
    done = sandbox("compare", *arguments)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert done.err.count("\n") == 1


# --- gc

NOW = time.time()


@dataclass
class Attic(Repo):
    """A desk whose runs are old. A run has checkpoints of its own, as old as itself."""

    def a_run(self, run: str, *events: Event, days: float = 100, plan: Plan = PLAN) -> str:
        """Returns its last checkpoint."""
        self.now = NOW - days * DAY - 60 * (len(events) + 1)
        seq = self.write(run, RunStarted(plan), *events)
        return self.a_ref(f"refs/logos/{run}/{seq}", days)

    def a_ref(self, ref: str, days: float, commit: str = "") -> str:
        when = f"@{int(NOW - days * DAY)} +0000"
        tree = git(self.wd, "rev-parse", "HEAD^{tree}")
        commit = commit or git(self.wd, "commit-tree", tree, "-m", ref, GIT_COMMITTER_DATE=when, GIT_AUTHOR_DATE=when)
        git(self.wd, "update-ref", ref, commit)
        self.touch(ref, days)
        return commit

    def touch(self, ref: str, days: float) -> None:
        file = Path(git(self.wd, "rev-parse", "--path-format=absolute", "--git-common-dir")) / ref
        os.utime(file, (NOW - days * DAY, NOW - days * DAY))

    def runs(self) -> set[str]:
        """Runs that still have checkpoints."""
        return {ref.split("/")[2] for ref in self.refs()}


@pytest.fixture
def attic(sandbox: Sandbox, fresh: Path) -> Attic:
    return Attic(copied(fresh, sandbox.wd))


ENDED: list[Event] = [*all_turns(), PASSED]
GONE: list[Event] = [RunAbandoned("enough")]


def test_checkpoints_of_runs_that_are_long_over_are_removed_and_no_others(sandbox: Sandbox, attic: Attic) -> None:
    attic.a_run("old1", *ENDED)
    attic.a_run("old2", *GONE)
    attic.a_run("open", *a_turn("r1.analyst.c1"))
    attic.a_run("unsaid", *all_turns())
    attic.a_run("young", *ENDED, days=3)
    attic.a_run("newest", *ENDED, days=60)
    attic.a_ref("refs/logos/old1/left/s1.L2.cart.author", 100)
    attic.a_ref("refs/heads/logos/old1", 100)
    log = (sandbox.wd / ".telos" / "logos.db").read_bytes()
    branches = attic.refs("refs/heads")

    done = sandbox("gc", "--keep-runs", "1")
    assert done.code == 0
    assert attic.runs() == {"open", "unsaid", "young", "newest"}
    assert "run old1 (PASSED on " in done.out
    assert "removed 3 refs and 0 folders" in done.out
    assert "git frees the space of 3 commits" in done.out
    assert attic.refs("refs/heads") == branches
    assert (sandbox.wd / ".telos" / "logos.db").read_bytes() == log
    assert "nothing to remove" in sandbox("gc", "--keep-runs", "1").out


def test_a_blocked_run_keeps_its_checkpoints_however_old_it_is(sandbox: Sandbox, attic: Attic) -> None:
    from logos.domain.plans import OnExhausted, ReviewRules
    from logos.testing import REVISE
    from tests.builders import a_plan

    plan = a_plan(review=ReviewRules(max_cycles=1, on_exhausted=OnExhausted.BLOCK))
    asked = [*a_turn("r1.analyst.c1"), *a_turn("r1.peer_analyst.c1", REVISE)]
    attic.a_run("blocked", *asked, RunEnded(Outcome.BLOCKED), plan=plan)
    # What came after its end cannot be read: somebody may have gone on with it.
    attic.a_run("damaged", *ENDED, RunResumed(PLAN))
    attic.damage("damaged", 18)
    sandbox("gc", "--keep-days", "0", "--keep-runs", "0")
    assert attic.runs() == {"blocked", "damaged"}


def test_a_dry_run_says_the_same_and_removes_nothing(sandbox: Sandbox, attic: Attic) -> None:
    attic.a_run("old1", *ENDED)
    before = attic.refs()
    planned = sandbox("gc", "--keep-runs", "0", "--dry-run", "--json").json
    assert "would remove 1 ref " in sandbox("gc", "--keep-runs", "0", "--dry-run").out
    assert attic.refs() == before
    assert sandbox("gc", "--keep-runs", "0", "--json").json == {**planned, "dry_run": False}
    assert planned["removed"] == [
        {
            "what": "run old1",
            "why": planned["removed"][0]["why"],
            "refs": ["refs/logos/old1/17"],
            "folders": [],
        }
    ]
    assert (planned["commits_freed"], planned["in_use"], planned["notes"]) == (1, [], [])


def test_the_policy_is_in_the_settings_and_flags_win(sandbox: Sandbox, attic: Attic) -> None:
    (sandbox.wd / "logos.json").write_text(json.dumps({"checkpoints": {"keep_days": 5, "keep_runs": 0}}))
    attic.a_run("old1", *ENDED, days=7)
    assert sandbox("gc", "--keep-days", "9", "--json").json["keep_days"] == 9
    assert attic.runs() == {"old1"}
    sandbox("gc")
    assert attic.runs() == set()


def test_a_run_that_is_being_driven_is_left_alone(sandbox: Sandbox, attic: Attic) -> None:
    attic.a_run("old1", *ENDED)
    attic.a_run("old2", *ENDED, days=90)
    with driver_lock(sandbox.wd / ".telos" / "driver.lock"):
        sandbox("gc", "--keep-days", "0", "--keep-runs", "0")
    assert attic.runs() == {"old2"}


def test_what_a_kept_run_shares_with_a_removed_one_stays_to_the_byte(sandbox: Sandbox, attic: Attic) -> None:
    (sandbox.wd / "work.txt").write_text("precious\n")
    shared = GitSnapshots(attic.wd).take()
    attic.a_run("old1", *ENDED)
    attic.a_ref("refs/logos/old1/4", 100, shared)
    attic.fork("kept", attic, "old1", 4, commit=shared)
    attic.a_ref("refs/logos/kept/4", 100, shared)
    (sandbox.wd / "work.txt").unlink()

    assert sandbox("gc", "--keep-runs", "0", "--json").json["commits_freed"] == 1
    assert attic.runs() == {"kept"}
    git(attic.wd, "reflog", "expire", "--expire=now", "--all")
    git(attic.wd, "gc", "--quiet", "--prune=now")
    GitSnapshots(attic.wd).restore(shared)
    assert (sandbox.wd / "work.txt").read_text() == "precious\n"


def test_packed_refs_are_removed_too(sandbox: Sandbox, attic: Attic) -> None:
    attic.a_run("old1", *ENDED)
    attic.a_run("open")
    git(attic.wd, "pack-refs", "--all", "--prune")
    sandbox("gc", "--keep-runs", "0")
    assert attic.runs() == {"open"}


def test_checkpoints_that_no_log_knows_are_removed_when_they_are_older_than_a_day(
    sandbox: Sandbox, attic: Attic
) -> None:
    attic.a_run("open")
    attic.a_ref("refs/logos/lost/1", 2)
    attic.a_ref("refs/logos/made/1", 0.5)
    # An old commit that a fork in the making holds since a moment.
    attic.touch("refs/logos/made/1", 100)
    attic.a_ref("refs/logos/fork/1", 100)
    attic.touch("refs/logos/fork/1", 0)
    attic.a_ref("refs/logos/strange", 100)
    attic.a_ref("refs/logos/some/body", 100)
    document = sandbox("gc", "--json").json
    assert [own["what"] for own in document["removed"]] == ["run lost"]
    assert attic.runs() == {"open", "made", "fork", "strange", "some"}


def test_a_fork_whose_worktree_is_there_but_not_its_log_is_in_the_making(sandbox: Sandbox, attic: Attic) -> None:
    attic.a_ref("refs/logos/forked22/1", 100)
    a_fork_folder(attic, branch="logos-fork/forked22")
    sandbox("gc")
    assert attic.runs() == {"forked22"}


def test_a_place_of_a_build_that_is_gone_keeps_nothing_alive(sandbox: Sandbox, attic: Attic) -> None:
    attic.a_ref("refs/logos/lost/1", 100)
    place = sandbox.wd / ".telos" / "worktrees" / "old1" / "cart"
    git(sandbox.wd, "worktree", "add", "--quiet", "-b", "logos-work/old1/cart", str(place))
    shutil.rmtree(place)
    assert (sandbox("gc").err, attic.runs()) == ("", set())


def test_nothing_is_nobodys_while_a_log_cannot_be_read(sandbox: Sandbox, attic: Attic) -> None:
    attic.a_ref("refs/logos/lost/1", 100)
    attic.a_ref("refs/logos/snapshots/abcdefabcdef", 100)
    attic.a_run("old1", *ENDED)
    fork = a_fork_folder(attic)
    subprocess.run(["mv", fork.wd, f"{fork.wd}-away"], check=True)
    done = sandbox("gc", "--keep-runs", "0")
    assert (done.code, attic.runs()) == (0, {"lost", "snapshots"})
    assert "git worktree prune" in done.err

    subprocess.run(["mv", f"{fork.wd}-away", fork.wd], check=True)
    (fork.wd / ".telos").mkdir()
    (fork.wd / ".telos" / "logos.db").write_text("no database at all, not even nearly")
    assert f"the run log {fork.wd}" in sandbox("gc", "--keep-runs", "0").err
    assert attic.runs() == {"lost", "snapshots"}

    (fork.wd / ".telos" / "logos.db").unlink()
    sandbox("gc", "--keep-runs", "0")
    assert attic.runs() == set()


def test_a_damaged_log_does_not_tell_what_is_over_or_nobodys(sandbox: Sandbox, attic: Attic) -> None:
    for run in ("old1", "old2", "old3"):
        attic.a_run(run, *ENDED)
    (folder,) = agents(attic, "old4", "0000000a")
    path = sandbox.wd / ".telos" / "logos.db"
    whole = path.read_bytes()
    before = attic.refs()
    for cut in (len(whole) // 4, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        done = sandbox("gc", "--keep-days", "0", "--keep-runs", "0")
        assert (done.code, attic.refs(), folder.exists()) == (0, before, True)
        assert "not every log could be read" in done.err
    assert path.read_bytes() == whole[: len(whole) - 1]


def test_runs_of_another_work_dir_of_the_repository_are_not_nobodys(sandbox: Sandbox, attic: Attic) -> None:
    part = Attic(attic.wd / "packages" / "part")
    part.wd.mkdir(parents=True)
    part.a_run("other", days=100)
    forked = Attic(a_fork_folder(attic).wd / "deep" / "part")
    forked.wd.mkdir(parents=True)
    forked.a_run("third", days=100)
    attic.a_run("old1", *ENDED)
    sandbox("gc", "--keep-runs", "0")
    assert attic.runs() == {"other", "third"}


def test_snapshots_go_when_they_are_old_and_no_kept_run_begins_at_them(sandbox: Sandbox, attic: Attic) -> None:
    commits = {
        name: attic.a_ref(f"refs/logos/snapshots/{name}", 100) for name in ("a" * 12, "b" * 12, "c" * 12, "d" * 12)
    }
    attic.a_ref("refs/logos/snapshots/" + "e" * 12, 10)
    attic.a_run("open", plan=a_levels_plan(base=commits["a" * 12]))
    attic.a_run("old1", *GONE, plan=a_levels_plan(base=commits["b" * 12]))
    attic.a_run("open2")
    attic.a_ref("refs/logos/open2/1", 100, commits["c" * 12])
    sandbox("gc", "--keep-runs", "0")
    assert attic.refs("refs/logos/snapshots") == [f"refs/logos/snapshots/{letter * 12}" for letter in "ace"]


def test_a_ref_that_moved_meanwhile_is_kept_and_the_others_go(attic: Attic) -> None:
    for seq in range(1, 8):
        attic.a_ref(f"refs/logos/old1/{seq}", 100)
    seen = refs_of_ours(attic.wd)
    attic.a_ref("refs/logos/old1/3", 0)
    gone = remove_refs(attic.wd, [*seen, Ref("refs/logos/old1/9", seen[0].commit, 0.0)])
    assert [ref.name[-1] for ref in gone] == ["1", "2", "4", "5", "6", "7"]
    assert attic.refs() == ["refs/logos/old1/3"]


def test_a_ref_that_leads_to_the_persons_branch_does_not_take_it_along(sandbox: Sandbox, attic: Attic) -> None:
    attic.a_run("old1", *ENDED)
    git(attic.wd, "symbolic-ref", "refs/logos/old1/3", "refs/heads/main")
    head = git(attic.wd, "rev-parse", "main")
    sandbox("gc", "--keep-runs", "0")
    assert (attic.runs(), git(attic.wd, "rev-parse", "main")) == (set(), head)


# --- what agents left


def agents(attic: Attic, run: str, *terminals: str, session: str = "local", days: float = 100) -> list[Path]:
    opened = [TerminalOpened(AgentName("analyst"), TerminalId(name), "codex", session) for name in terminals]
    attic.a_run(run, *opened, *ENDED, days=days)
    folders = [attic.wd / ".telos" / session / name for name in terminals]
    for folder in folders:
        (folder / "turn-1").mkdir(parents=True)
    return folders


@pytest.fixture
def at_work() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def test_folders_of_agents_go_with_the_checkpoints_unless_somebody_is_at_work_in_them(
    sandbox: Sandbox, attic: Attic, at_work: list[subprocess.Popen[bytes]]
) -> None:
    gone, busy, link = agents(attic, "old1", "0000000a", "0000000b", "0000000c")
    closed = gone.with_name("0000000a.closed-abcdef")
    closed.mkdir()
    link.rename(sandbox.wd / "elsewhere")
    link.symlink_to(sandbox.wd / "elsewhere")
    (kept,) = agents(attic, "young", "0000000d", days=1)
    (scripted,) = agents(attic, "old2", "0000000e", session="scripted")
    at_work.append(subprocess.Popen(["sleep", "3600"], env={**os.environ, "LOGOS_TERMINAL": str(busy)}))

    assert "agents of run old1" in sandbox("gc", "--keep-runs", "0", "--dry-run").out
    assert gone.exists()
    document = sandbox("gc", "--keep-runs", "0", "--json").json
    assert not gone.exists()
    assert not closed.exists()
    assert not scripted.exists()
    assert busy.exists()
    assert kept.exists()
    assert (sandbox.wd / "elsewhere" / "turn-1").exists()
    assert [len(own["folders"]) for own in document["removed"]] == [0, 0, 2, 1]


def test_another_repository_that_lies_in_this_one_is_left_alone(sandbox: Sandbox, attic: Attic, fresh: Path) -> None:
    (folder,) = agents(Attic(copied(fresh, attic.wd / "vendored" / "thing")), "old1", "0000000a")
    assert sandbox("gc", "--keep-days", "0", "--keep-runs", "0", "--json").json["removed"] == []
    assert folder.exists()


def test_what_a_rollback_has_from_its_parent_does_not_keep_the_parents_folders(sandbox: Sandbox, attic: Attic) -> None:
    (folder,) = agents(attic, "old1", "0000000a")
    attic.fork("kept", attic, "old1", 5, way="rollback")
    sandbox("gc", "--keep-runs", "0")
    assert not folder.exists()


def test_without_git_there_are_only_folders(sandbox: Sandbox, plain: Repo) -> None:
    assert "nothing to remove" in sandbox("gc").out
    assert list(sandbox.wd.iterdir()) == []
    plain.now = NOW - 100 * DAY
    opened = TerminalOpened(AgentName("analyst"), TerminalId("0000000a"), "codex", "local")
    plain.write("old1", RunStarted(PLAN), opened, *ENDED)
    (sandbox.wd / ".telos" / "local" / "0000000a").mkdir(parents=True)
    assert "removed 0 refs and 1 folder" in sandbox("gc", "--keep-runs", "0").out


@pytest.mark.parametrize("arguments", [("--keep-days", "-1"), ("--keep-runs", "many"), ("--keep-days", ""), ("now",)])
def test_a_policy_that_makes_no_sense_is_refused(sandbox: Sandbox, attic: Attic, arguments: tuple[str, ...]) -> None:
    attic.a_run("old1", *ENDED)
    done = sandbox("gc", *arguments)
    assert (done.code, done.out, attic.runs()) == (2, "", {"old1"})
    assert done.err.count("\n") == 1


def test_the_help_loads_nothing_slow(tmp_path: Path) -> None:
    code = (
        "import contextlib, io, sys, logos.cli\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    logos.cli.main(['--help'])\n"
        "print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
