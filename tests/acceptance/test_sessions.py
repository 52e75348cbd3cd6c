"""Coming back to a run: cut off, days later, undone, tried twice. Whole commands, both flows, as a newcomer types them."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from logos.adapters.store.mirror import discard
from logos.domain.events import (
    ProofRan,
    Recorded,
    RunForked,
    RunResumed,
    RunStarted,
    TurnAnswered,
    TurnAsked,
    WorkMerged,
)
from logos.domain.proof import ProofStep
from logos.views.text import date
from tests.acceptance.test_builds import FAST, a_division, a_fact, tool
from tests.support.isolation import clean_env
from tests.support.repositories import FILES
from tests.support.sandbox import LOGOS, Done, Json, Sandbox, Started, ended, persons_things
from tests.support.waiting import LAST_RESORT, until_exists, wait_for

DAY = 86_400
QUICK = {**FAST, "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1"}
PROMPT = "*** ORIGINAL EXPLORE SUMMARY ***\nThe shop greets nobody.\n*** SCENARIO TEST ***\nRun it: expect two.\n"
CONFIG = {"prompt_file": "prompt.md", "project_test_cmd": "grep -q two greet.py", "verify_pass": True}
PARTS = a_division("cart", "price", {"name": "till", "depends_on": ["cart", "price"]})
# One after the other.
CHAIN = a_division("cart", {"name": "price", "depends_on": ["cart"]}, {"name": "till", "depends_on": ["price"]})
LEVELS = ("--levels", "9,3,2")
CRASH = {"fault": "crash", "message": "out of memory", "times": 1}
# One round in which the greeting is wrong, and one in which it is right.
GREETERS = {
    "programmer": [{"edit": {"greet.py": "one\n"}}, {"edit": {"greet.py": "two\n", "more.py": "more\n"}}],
    "tester": [{"run": "grep -q two greet.py"}],
}
QUESTION = "[q]uit?"


class Room(Sandbox):
    """A repository in which somebody works for days, and the folders of forks beside it."""

    # -- what a person types

    def plan_a_cycle(self, **config: Any) -> None:
        """What `logos init` leaves for the cycle: two files that git does not have."""
        (self.wd / "logos.json").write_text(json.dumps({**CONFIG, **config}))
        (self.wd / "prompt.md").write_text(PROMPT)

    def cycle(self, *arguments: str) -> Done:
        return self("run", *arguments, "--simulate", str(self.script_path))

    def resume(self, *arguments: str) -> Done:
        return self("resume", *arguments, "--simulate", str(self.script_path))

    def typed(self, line: str, *more: str) -> Done:
        """A command as a message told it."""
        program, *words = shlex.split(line)
        assert program == "logos", line
        return self(*words, *more)

    def acting(self, line: str) -> Done:
        """A command as a message told it, of a run whose agents follow a script."""
        return self.typed(line, "--simulate", str(self.script_path))

    def script(self, agents: Any = None, *, name: str = "script.yaml", **more: Any) -> Path:
        told = {**more, **({"agents": agents} if agents else {})}
        path = self.wd.parent / name
        path.write_text(yaml.safe_dump(told), encoding="utf-8")
        return path

    def start_apart(self, *words: str, script: Path | None = None) -> Started:
        return self.start(*words, "--simulate", str(script or self.script_path))

    # -- what there is

    def asked_in(self, run: str) -> list[str]:
        """Turns that a run asked itself; those it has from another are not its own."""
        records = self.records(run)
        own = max((record.seq for record in records if isinstance(record.event, RunForked)), default=0)
        return [r.event.turn for r in records if isinstance(r.event, TurnAsked) and r.seq > own]

    def told_in(self, run: str, turn: str) -> str:
        return next(
            r.event.prompt for r in self.records(run) if isinstance(r.event, TurnAsked) and r.event.turn == turn
        )

    def outcomes(self) -> dict[str, str]:
        return {row["run"]: row["status"] for row in self("runs", "--json").json["runs"]}

    def files(self) -> dict[str, bytes]:
        """All that lies in the work dir and is not ours."""
        found = sorted(path for path in self.wd.rglob("*") if path.is_file() or path.is_symlink())
        own = (path for path in found if path.relative_to(self.wd).parts[0] not in (".git", ".telos", ".tmp"))
        return {
            f"{path.relative_to(self.wd)} {os.lstat(path).st_mode:o}": os.fsencode(os.readlink(path))
            if path.is_symlink()
            else path.read_bytes()
            for path in own
        }

    def a_day_passes(self) -> None:
        """What happened just now was yesterday at noon, and what was before that a day earlier."""
        now = time.localtime()
        noon = time.mktime((now.tm_year, now.tm_mon, now.tm_mday - 1, 12, 0, 0, 0, 0, -1))
        db = sqlite3.connect(self.wd / ".telos" / "logos.db")
        with db:
            moved = "UPDATE events SET at = at - CASE WHEN at > ? THEN ? ELSE ? END"
            db.execute(moved, (noon + 60, time.time() - noon, DAY))
        db.close()
        # Without its mirror the database is believed as it is.
        discard(self.wd / ".telos" / "logos.db")


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room.of_repository(tmp_path / "repo", **QUICK)
    room.script()
    yield room
    room.close()
    assert room.left_behind() == []


class Window:
    """`logos` on a terminal of its own, as somebody sees it who sits before it."""

    def __init__(self, room: Room, *words: str) -> None:
        self._keys, screen = pty.openpty()
        self.process = subprocess.Popen(
            ["setsid", "--ctty", LOGOS, *words, "--simulate", str(room.script_path)],
            cwd=room.wd,
            env=clean_env(**QUICK, TERM="xterm"),
            stdin=screen,
            stdout=screen,
            stderr=screen,
        )
        os.close(screen)
        self.shown = ""

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.close()

    def until(self, seen: Callable[[], bool]) -> None:
        end = time.monotonic() + LAST_RESORT
        while not seen():
            assert time.monotonic() < end, self.shown
            assert self._look() or seen(), self.shown

    def pending_turns(self, times: int = 1) -> bool:
        return self.shown.count(QUESTION) >= times

    def types(self, keys: str) -> None:
        os.write(self._keys, keys.encode())

    def close(self) -> None:
        """As somebody closes the window."""
        if self._keys >= 0:
            os.close(self._keys)
            self._keys = -1

    def ends(self) -> int:
        while self._keys >= 0 and self._look():
            pass
        return self.process.wait(LAST_RESORT)

    def _look(self) -> bool:
        """Take in what is shown; False when there is nobody any more who shows something."""
        if not select.select([self._keys], [], [], 0.02)[0]:
            return True
        try:
            new = os.read(self._keys, 65536)
        except OSError:
            return False
        self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", new.decode("utf-8", "replace")).replace("\r\n", "\n")
        return bool(new)


def hint(said: str, command: str) -> str:
    """The first command of this kind that a message suggests."""
    return next(
        re.split(r"  +", line.strip())[0] for line in said.splitlines() if line.strip().startswith(f"logos {command}")
    )


def stopped_build(room: Room) -> str:
    """A build that could not go on at `price`: `cart` is done, and `till` waits."""
    room.script({"L3.decompose": [CHAIN], "L2.price": [CRASH]})
    return stopped(room, room.build("pay by invoice", *LEVELS))


def stopped_small_build(room: Room) -> str:
    room.script({"L2": [CRASH]})
    return stopped(room, room.build("pay by invoice", "--levels", "2"))


def stopped_cycle(room: Room, turn: str = "r1.tester.c1", **config: Any) -> str:
    """A cycle that stopped at this turn."""
    room.plan_a_cycle(**config)
    room.script(GREETERS, turns={turn: CRASH})
    return stopped(room, room.cycle())


def stopped(room: Room, done: Done) -> str:
    assert (done.code, "out of memory" in done.err) == (1, True), done.err
    return room.run_id


# --- cut off (LOG-15)


def window_closed(window: Window) -> int:
    window.close()
    return window.ends()


def killed(window: Window) -> int:
    window.process.kill()
    return window.ends()


def control_c(window: Window) -> int:
    window.types("\x03")
    return window.ends()


CUTS = {
    "window-closed": (window_closed, 128 + signal.SIGHUP),
    "killed": (killed, -signal.SIGKILL),
    "control-c": (control_c, 128 + signal.SIGINT),
}


@pytest.mark.scenario("LOG-15")
@pytest.mark.parametrize(
    ("cut", "ends_with"),
    [pytest.param(*cut, marks=[] if name == "killed" else pytest.mark.long, id=name) for name, cut in CUTS.items()],
)
def test_a_build_that_was_cut_off_is_in_its_state_file_and_goes_on_from_there(
    room: Room, cut: Callable[[Window], int], ends_with: int
) -> None:
    gate = room.wd.parent / "gate"
    authors = {f"L2.{name}": [{"run": until_exists(gate), "edit": {f"{name}.py": name}}] for name in ("cart", "price")}
    room.script({"L3.decompose": [PARTS], **authors})
    with Window(room, "build", "pay by invoice", *LEVELS) as window:
        window.until(lambda: room.sent("s1.L2.cart.author", "s1.L2.price.author"))
        code = cut(window)
    state, run = room.build_state, room.run_id
    assert (state["status"], state["logos"]["run"], state["direction"]) == ("RUNNING", run, "build")
    active = {agent["turn"]: agent for agent in state["active_agents"]}
    assert [*active] == ["s1.L2.cart.author", "s1.L2.price.author"]
    assert all(agent["asked"] and agent["terminal"] and agent["level"] == "L2" for agent in active.values())
    assert [(own["from_level"], own["to_level"]) for own in state["pending_handoffs"]] == [("L3", "L2")]
    assert [(spec["id"], spec["parent"]) for spec in state["specification_stack"]] == [
        *(("L9.v1", "telos"), ("L3.v1", "L9.v1"))
    ]
    assert {row["level"]: row["status"] for row in state["validation_status"] if row["takes_part"]} == dict.fromkeys(
        ("L9", "L3", "L2"), "pending"
    )
    assert [row["blocked_by"] for row in state["components"]] == [[], [], ["cart", "price"]]

    gate.touch()
    done = room.resume("--json")
    assert (done.code, done.json["outcome"], done.json["run"]) == (0, "PASSED", run), done.err
    assert f"unfinished build {run}: pay by invoice\n" in done.err
    assert re.search(r"^session 1, \d{4}-\d\d-\d\d \d\d:\d\d: .*, 2 turns answered$", done.err, re.MULTILINE)
    assert "it is at sweep 1, build at L2; next is s1.L2.cart.author and s1.L2.price.author\n" in done.err
    assert "recommended: resume it (logos resume" in done.err
    assert len(room.asked) == len({*room.asked})
    assert room.built() == {"cart.py": "cart", "price.py": "price", "till.py": room.built()["till.py"]}
    room.assert_tidy(room.result)
    assert code == ends_with


@pytest.mark.scenario("LOG-15")
def test_a_cycle_that_was_cut_off_goes_on_by_itself_and_shows_the_same_summary(room: Room) -> None:
    room.plan_a_cycle()
    gate = room.wd.parent / "gate"
    room.script({"programmer": [{"run": until_exists(gate), "edit": {"greet.py": "two\n"}}]})
    with Window(room, "run") as window:
        window.until(lambda: room.sent("r1.programmer.c1"))
        window_closed(window)
    run = room.run_id
    assert (room.state["final_status"], room.state["current_phase"]) == ("RUNNING", "programmer")
    gate.touch()
    done = room.cycle("--json")
    assert (done.code, done.json["run"]) == (0, run), done.err
    told = [line[10:] for line in done.err.splitlines()]
    summary = told.index(f"unfinished run {run}: The shop greets nobody.")
    assert told[summary + 1].startswith("session 1, ")
    assert told[summary + 2].startswith("2 turns answered, ")
    assert told[summary + 3] == "it is at round 1, phase programmer; next is r1.programmer.c1"
    assert any(line.startswith("recommended: resume it (logos resume") for line in told[summary + 4 :])
    assert len(room.asked) == len({*room.asked}) == 5
    assert (room.wd / "greet.py").read_text() == "two\n"


# --- asked on a terminal (LOG-15)


@pytest.mark.long
@pytest.mark.scenario("LOG-15")
def test_somebody_who_does_not_decide_leaves_everything_as_it_was(room: Room) -> None:
    run = stopped_small_build(room)
    before = (room.build_state, len(room.records()), persons_things(room.wd), room.worktrees, room.refs())
    for keys, code in (("q\n", 1), ("\x04", 1), ("\x03", 130)):
        with Window(room, "build") as window:
            window.until(window.pending_turns)
            for words in (f"unfinished build {run}: pay by invoice", "session 1, ", "recommended: resume it"):
                assert words in window.shown
            assert "[r]esume it, re[s]et: abandon it and start it anew, [f]ork it" in window.shown
            window.types(keys)
            assert window.ends() == code
            if code == 1:
                assert window.shown.endswith("logos: nothing was done: the build is still unfinished\n")
        assert (room.build_state, len(room.records()), persons_things(room.wd), room.worktrees, room.refs()) == before


@pytest.mark.scenario("LOG-15")
@pytest.mark.parametrize(
    "answer",
    [pytest.param("r\n", id="resume", marks=pytest.mark.long), pytest.param("perhaps\n|\n", id="unknown-then-enter")],
)
def test_a_build_is_resumed_when_the_person_says_so(room: Room, answer: str) -> None:
    run = stopped_small_build(room)
    with Window(room, "build") as window:
        for times, keys in enumerate(answer.split("|"), 1):
            window.until(lambda times=times: window.pending_turns(times))
            window.types(keys)
        assert window.ends() == 0, window.shown
    if "|" in answer:
        assert "'perhaps' is none of resume, reset, fork, quit\n" in window.shown
    assert room.outcomes() == {run: "PASSED"}
    assert len(room.asked) == len({*room.asked})
    assert [*room.built()] == ["feature.py"]


@pytest.mark.long
@pytest.mark.scenario("LOG-15")
def test_a_build_is_given_up_for_a_new_one_when_the_person_says_so(room: Room) -> None:
    old = stopped_small_build(room)
    room.script()
    with Window(room, "build", "pay by card", "--levels", "2") as window:
        window.until(window.pending_turns)
        assert "re[s]et: abandon it and start the new one" in window.shown
        window.types("s\n")
        assert window.ends() == 0, window.shown
    assert room.outcomes() == {old: "ABANDONED", room.run_id: "PASSED"}
    assert room.build_state["feature"] == "pay by card"
    room.assert_tidy(room.result)


@pytest.mark.long
@pytest.mark.scenario("LOG-15")
def test_a_build_is_forked_when_the_person_says_so_and_the_old_one_stays(room: Room) -> None:
    old = stopped_build(room)
    state, seq = room.build_state, len(room.records())
    with Window(room, "build") as window:
        window.until(window.pending_turns)
        window.types("fork\n")
        # The new agent of `price` fails once more: in a fork nothing was tried yet.
        assert window.ends() == 1, window.shown
    said = re.search(rf"build (\w+) is forked from {old}@{seq} and continues in (\S+)\n", window.shown)
    assert said, window.shown
    new, there = said[1], room.at(said[2])
    assert there.wd == room.wd.with_name(f"repo-{new}")
    assert (room.build_state, len(room.records()), room.outcomes()) == (state, seq, {old: "STOPPED"})
    room.assert_untouched()
    (again,) = re.findall(r"^build \w+ can be resumed: (.*)$", window.shown, re.MULTILINE)
    done = room.typed(again)
    assert done.code == 0, done.err
    assert (room.outcomes(), there.run_id) == ({old: "STOPPED"}, new)
    assert there.build_state["status"] == "PASSED"
    assert "s1.L2.cart.author" not in there.asked_in(new)


@pytest.mark.scenario("LOG-15")
def test_without_a_terminal_a_build_stops_and_names_every_way_on(room: Room) -> None:
    run = stopped_small_build(room)
    before = (room.build_state, len(room.records()), persons_things(room.wd), room.worktrees)
    for words in ((), ("pay by card",)):
        done = room("build", *words)
        assert (done.code, done.out) == (2, "")
        assert f"unfinished build {run}: pay by invoice\n" in done.err
        *_, error = done.err.splitlines()
        assert error == (
            f"logos: an unfinished build is here ({run}: 'pay by invoice'): --resume continues it, "
            f"--fresh abandons it and starts anew, `logos fork {run}` continues it in another worktree"
        )
    document = room("build", "--json").json
    assert (document["exit_code"], document["error"]) == (2, error.removeprefix("logos: "))
    assert (room.build_state, len(room.records()), persons_things(room.wd), room.worktrees) == before


# --- after a reboot (LOG-15)


@pytest.mark.long
@pytest.mark.scenario("LOG-15")
def test_after_a_reboot_a_resume_names_the_flag_that_makes_new_terminals(room: Room) -> None:
    stopped_cycle(room)
    said = next(event.text for event in room.events(TurnAnswered) if event.turn == "r1.programmer.c1")
    asked = room.asked
    shutil.rmtree(room.wd / ".telos" / "scripted")
    room.script(GREETERS)
    done = room.resume()
    assert (done.code, done.out) == (1, "")
    *_, error = done.err.splitlines()
    assert error.startswith("logos: cannot resume, terminals are not reachable: analyst (")
    assert "--recreate" in error
    assert room.asked == asked
    done = room.resume("--recreate", "--json")
    assert (done.code, done.json["outcome"]) == (0, "PASSED"), done.err
    assert not answered_twice(room)
    told = room.told_in(room.run_id, "r2.programmer.c1")
    assert "its conversation cannot be continued. What it said in its last turns" in told
    assert said.strip() in told


@pytest.mark.long
@pytest.mark.scenario("LOG-15")
def test_after_a_reboot_what_is_recommended_next_is_what_works(room: Room) -> None:
    stopped_cycle(room)
    shutil.rmtree(room.wd / ".telos" / "scripted")
    room.script(GREETERS)
    assert room.resume().code == 1
    recommended = room("status", "--json").json["next"].replace(" --simulate SCRIPT", "")
    assert room.acting(recommended).code == 0


@pytest.mark.long
@pytest.mark.scenario("LOG-15")
def test_after_a_reboot_a_build_needs_no_flag(room: Room) -> None:
    stopped_build(room)
    shutil.rmtree(room.wd / ".telos" / "scripted")
    room.script()
    done = room.resume("--json")
    assert (done.code, done.json["outcome"]) == (0, "PASSED"), done.err
    assert not answered_twice(room)
    room.assert_tidy(room.result)


def answered_twice(room: Room) -> list[str]:
    """Turns that were asked again although their answer was there."""
    done: set[str] = set()
    again: list[str] = []
    for event in (record.event for record in room.records()):
        again += [event.turn] if isinstance(event, TurnAsked) and event.turn in done else []
        done |= {event.turn} if isinstance(event, TurnAnswered) else set()
    return again


# --- over days (LOG-16)


def day_of(record: Recorded) -> str:
    return date(record.at)[:10]


def days_of(room: Room, run: str) -> list[str]:
    """The days on which the sessions of a run began."""
    begins = [r for r in room.records(run) if isinstance(r.event, RunStarted | RunResumed)]
    return [day_of(record) for record in begins]


def began(report: Json) -> list[str]:
    return [date(datetime.fromisoformat(own["began_at"]).timestamp())[:10] for own in report["sessions"]]


def told(entries: list[Json]) -> dict[str, str]:
    return {f"{entry['part']} {entry['what']}": entry["how"] for entry in entries}


@pytest.mark.long
@pytest.mark.scenario("LOG-16")
def test_what_is_done_pending_and_blocked_is_told_across_the_sessions_of_a_build(room: Room) -> None:
    room.set_telos(FILES["telos.toml"] + tool(2, "test -f till.py", "whole"))
    run = stopped_build(room)
    first = room("report", "--json").json
    assert [*told(first["completed"])] == ["spec L9 Telos-Guardian", "spec L3 Component-Architect", "component cart"]
    assert [own["what"][:5].split()[0] for own in first["pending"]] == ["L2", "L3", "L9", "proof"]
    assert told(first["blocked"])["component till"] == "waits for price"
    room.a_day_passes()
    room.script(turns={"s1.L3.validate": CRASH})
    assert room.resume().code == 1
    second = room("report", "--json").json
    done = told(second["completed"])
    assert all(done[f"component {name}"].startswith("merged") for name in ("cart", "price", "till"))
    assert done["validation L2 Function-Author"] == "proven by `test -f till.py`, run by Logos"
    assert [own["what"][:2] for own in second["pending"]] == ["L3", "L9", "pr"]
    assert not [own for own in second["blocked"] if own["part"] == "component"]
    # What was there after the first day is not new any more.
    new = {turn["turn"] for turn in second["changed"]["timeline"]}
    assert new == {"s1.L2.price.author", "s1.L2.till.author", "s1.L3.validate"}
    room.a_day_passes()
    assert room.resume().code == 0
    days = days_of(room, run)
    last = room("report", "--json").json
    assert (began(last), last["status"], last["turns"], last["blocked"]) == (days, "PASSED", 7, [])
    assert len({*days}) == 3
    shown = room("report").out
    assert all(re.search(rf"^\| {number} +\| {day} ", shown, re.MULTILINE) for number, day in enumerate(days, 1))
    since = room("report", "--since", days[1], "--json").json["changed"]
    assert {turn["answered_in_session"] for turn in since["timeline"]} == {2, 3}
    assert ("3 sessions" in room("status").out, room.build_state["logos"]["run"]) == (True, run)


@pytest.fixture
def two_days(room: Room) -> str:
    """A build that stopped on one day and passed on the next."""
    run = stopped_build(room)
    room.a_day_passes()
    room.script({"L2.price": [{"edit": {"price.py": "price = 2\n"}}]})
    assert room.resume().code == 0
    return run


@pytest.mark.long
@pytest.mark.scenario("LOG-16")
def test_a_build_goes_back_to_the_end_of_a_day_and_to_where_it_was_left(room: Room, two_days: str) -> None:
    old, days = two_days, days_of(room, two_days)
    result, history = room.built(), room.records(old)
    back = room("rollback", days[0])
    assert back.code == 0, back.err
    new = room.run_id
    seq = max(record.seq for record in history if day_of(record) == days[0])
    assert back.out.startswith(f"run {new} starts from event {seq} of {old}\n")
    state = room.build_state
    assert (state["logos"]["run"], state["status"], state["direction"]) == (new, "RUNNING", "build")
    contributions = {own["name"]: (bool(own["commit"]), own["blocked_by"]) for own in state["components"]}
    assert contributions == {"cart": (True, []), "price": (False, []), "till": (False, ["price"])}
    assert state["head"] == state["base"]
    # The run that was left is as it was, and its work too.
    assert (room.records(old), room.outcomes()) == (history, {old: "PASSED", new: "STOPPED"})
    assert f"build {old} ended: PASSED" in room("log", old).out
    assert "--- response" in room("show", old, "s1.L2.price.author").out
    # Another attempt from there.
    room.script({"L2.price": [{"edit": {"price.py": "price = 3\n"}}]})
    assert room.acting(hint(back.out, "resume")).code == 0
    assert room.asked_in(new)[0] == "s1.L2.price.author"
    assert room.built() == {**result, "price.py": "price = 3"}
    # And back to where the first was left, twice.
    for _ in range(2):
        again = room.typed(hint(back.out, f"rollback {old}"))
        assert again.code == 0, again.err
        assert room.build_state["head"] == next(r.event.commit for r in history if isinstance(r.event, WorkMerged))
    assert room.resume().code == 0
    assert room.asked_in(room.run_id) == ["s1.L9.validate"]
    assert (room.built(), room.records(old)) == (result, history)
    assert [*room.outcomes().values()] == ["PASSED", "PASSED", "ABANDONED", "PASSED"]
    room.assert_untouched()


@pytest.mark.long
@pytest.mark.scenario("LOG-16")
def test_a_day_that_is_not_in_the_newest_run_is_not_taken_for_an_earlier_one(room: Room, two_days: str) -> None:
    room.a_day_passes()
    first, second = days_of(room, two_days)
    assert room("rollback", first).code == 0
    done = room("rollback", second)
    assert done.code == 2 or room.build_state["status"] == "PASSED", done.out


@pytest.fixture
def three_days_of_a_cycle(room: Room) -> str:
    """A cycle over three days: a wrong greeting on the first, a right one on the second, a PASS on the third."""
    run = stopped_cycle(room, "r1.peer_programmer.c1")
    room.a_day_passes()
    room.script(GREETERS, turns={"r2.peer_programmer.c1": CRASH})
    assert room.resume().code == 1
    room.a_day_passes()
    room.script(GREETERS)
    assert room.resume().code == 0
    return run


@pytest.mark.scenario("LOG-16")
def test_a_cycle_goes_back_to_the_end_of_a_day_files_and_state_together(room: Room, three_days_of_a_cycle: str) -> None:
    old, days = three_days_of_a_cycle, days_of(room, three_days_of_a_cycle)
    assert len(days) == 3
    report = room("report", "--json").json
    assert began(report) == days
    assert {own["session"] for own in report["completed"]} == {1, 2, 3}
    assert (report["status"], report["turns"], report["pending"], report["blocked"]) == ("PASSED", 8, [], [])
    history, files = room.records(old), room.files()
    back = room("rollback", days[0])
    assert back.code == 0, back.err
    new = room.run_id
    assert "the files are as they were then" in back.out
    assert ((room.wd / "greet.py").read_text(), (room.wd / "more.py").exists()) == ("one\n", False)
    state = room.state
    assert (state["logos"]["run"], state["current_round"], state["current_phase"]) == (new, 1, "programmer")
    assert room.records(old) == history
    assert f"run {old} ended: PASSED" in room("log", old).out
    assert "--- response" in room("show", old, "r2.tester.c1").out
    # Another attempt from there, whose agents know what was said that day.
    room.script({**GREETERS, "programmer": [{"edit": {"greet.py": "two, too\n"}}]})
    assert room.acting(hint(back.out, "resume")).code == 0
    assert room.asked_in(new)[:3] == ["r1.peer_programmer.c1", "r1.tester.c1", "r2.programmer.c1"]
    assert (room.wd / "greet.py").read_text() == "two, too\n"
    # And back to where the first was left, twice.
    for _ in range(2):
        again = room.typed(hint(back.out, f"rollback {old}"))
        assert again.code == 0, again.err
        assert room.files() == files
        assert (room.state["current_round"], room.state["current_phase"]) == (2, "tester")
    assert room.records(old) == history
    assert room.resume().code == 0


# --- going back


@pytest.mark.long
def test_what_lay_in_the_work_dir_is_brought_back_by_the_command_that_a_rollback_tells(room: Room) -> None:
    (room.wd / ".gitignore").write_text("*.key\n")
    room.git("add", "--all")
    room.git("commit", "--quiet", "--message", "ignore")
    stopped_cycle(room)
    (room.wd / "greet.py").write_bytes(b"\x00mine\xff\r\n")
    room.git("add", "greet.py")
    (room.wd / "greet.py").write_bytes(b"mine, later")
    (room.wd / "run me.sh").write_text("#!/bin/sh\n")
    (room.wd / "run me.sh").chmod(0o755)
    (room.wd / "link").symlink_to("nowhere")
    (room.wd / "shop.py").unlink()
    (room.wd / "own.key").write_text("secret\n")
    things = persons_things(room.wd)
    files = room.files()
    back = room("rollback", "r1.analyst.c1")
    assert back.code == 0, back.err
    assert "the replaced files are kept as commit" in back.out
    names = {name.split(" 1")[0] for name in room.files()}
    assert names == {".gitignore", "README.md", "shop.py", "telos.toml", "logos.json", "prompt.md", "own.key"}
    # HEAD, branch, index, stash: the person's.
    assert {**persons_things(room.wd), "files": 0, "status": 0} == {**things, "files": 0, "status": 0}
    brought = room.typed(hint(back.out, "rollback --files"))
    assert brought.code == 0, brought.err
    assert room.files() == files
    assert {**persons_things(room.wd), "files": 0} == {**things, "files": 0}
    # And that can be undone in the same way.
    assert room.typed(hint(brought.out, "rollback --files")).code == 0
    assert {name.split(" 1")[0] for name in room.files()} == names


def test_a_rollback_to_what_lies_there_keeps_nothing_and_says_nothing_of_it(room: Room) -> None:
    stopped_cycle(room, "r1.peer_analyst.c1")
    files = room.files()
    assert room("rollback", "r1.analyst.c1", "--json").json["kept"] is None
    assert room.files() == files


@pytest.mark.long
def test_rolling_back_a_build_leaves_a_persons_own_files_alone(room: Room) -> None:
    stopped_build(room)
    (room.wd / "shop.py").write_text("my own change\n")
    (room.wd / "notes.txt").write_text("mine\n")
    before = persons_things(room.wd)
    back = room("rollback", "s1.L3.decompose")
    assert back.code == 0, back.err
    assert "your own files are as they were" in back.out
    room.script()
    assert room.resume().code == 0
    assert persons_things(room.wd) == before
    assert room.asked_in(room.run_id)[:2] == ["s1.L2.cart.author", "s1.L2.price.author"]


@pytest.mark.long
def test_what_is_recommended_after_a_rollback_keeps_what_proves_a_pass(room: Room) -> None:
    room.script(turns={"r1.tester.c1": CRASH})
    asked = ("say hello", "--test", "exit 3", "--set", "verify_pass=1", "--set", "limits.max_rounds=1")
    assert room.cycle(*asked).code == 1
    room.script()
    done = room.acting(hint(room("rollback", room.run_id).out, "resume"))
    assert (done.code, "no PASS in 1 round" in done.out) == (1, True), done.out
    proofs = [record.event for record in room.records() if isinstance(record.event, ProofRan)]
    assert [(ran.step, ran.exit_code) for ran in proofs] == [(ProofStep.BASELINE, 3), (ProofStep.RESULT, 3)]


def test_a_simulation_is_gone_on_with_by_the_command_that_is_recommended(room: Room) -> None:
    stopped_cycle(room, "r1.analyst.c1")
    said = room("run")
    assert (said.code, "the unfinished run here is a simulation" in said.err) == (1, True)
    recommended = re.findall(r"recommended: resume it \((.*)\)", said.err)
    recommended.append(hint(room("rollback", "1").out, "resume"))
    assert [" --simulate " in command for command in recommended] == [True, True]


# --- two attempts


def forked(room: Room, *words: str) -> Json:
    done = room("fork", *words, "--json")
    assert done.code == 0, done.err
    return done.json


@pytest.mark.long
def test_two_forks_go_on_at_the_same_time_and_know_nothing_of_each_other(room: Room) -> None:
    old = stopped_cycle(room)
    files, history = room.files(), room.records(old)
    meet = room.wd.parent / "meet"
    meet.mkdir()
    processes: dict[str, tuple[Room, Started]] = {}
    for name, other in (("left", "right"), ("right", "left")):
        fork = forked(room, old, "--at", "r1.peer_analyst.c1", "--to", f"../{name}")
        there = room.at(fork["wd"])
        there.script(
            {
                "programmer": [
                    {
                        "run": f"touch {meet}/{name}; {until_exists(meet / other)}",
                        "edit": {"greet.py": f"two {name}\n", f"{name}.py": name},
                        "say": f"PROGRAMMER_SUMMARY: said-{name}\n",
                    }
                ]
            },
            name=f"{name}.yaml",
        )
        processes[name] = (there, room.start_apart("resume", fork["run"], script=there.wd.parent / f"{name}.yaml"))
    for name, (there, process) in processes.items():
        done = ended(process)
        assert done.code == 0, done.err
        assert [path for path in ("left.py", "right.py") if (there.wd / path).exists()] == [f"{name}.py"]
        assert (there.wd / "greet.py").read_text() == f"two {name}\n"
        said = " ".join(event.text for event in there.events(TurnAnswered))
        assert re.findall(r"said-\w+", said) == [f"said-{name}"]
        prompts = " ".join(there.prompts.values())
        assert {*re.findall(r"said-\w+", prompts)} == {f"said-{name}"}
        assert there.asked_in(there.run_id)[0] == "r1.programmer.c1"
        assert there.git("branch", "--show-current") == f"logos-fork/{there.run_id}"
    assert (room.files(), room.records(old), room.outcomes()) == (files, history, {old: "STOPPED"})


@pytest.mark.long
def test_a_run_that_is_at_work_can_be_forked_and_is_otherwise_left_to_its_driver(room: Room) -> None:
    room.plan_a_cycle()
    gate = room.wd.parent / "gate"
    room.script({"programmer": [{"run": until_exists(gate), "edit": {"greet.py": "two\n"}}]})
    driver = room.start_apart("run")
    wait_for(lambda: room.sent("r1.programmer.c1"))
    old, history = room.run_id, room.records(room.run_id)
    busy = f"logos: another driver (pid {driver.pid}) is active in {room.wd}\n"
    for words in (("rollback", "9"), ("rollback", "9", "--files"), ("reset",)):
        done = room(*words)
        assert (done.code, done.out, done.err) == (1, "", busy)
    assert room.resume().err.endswith(busy)
    # Its programmer is at work: what lies half done in the work dir belongs to no checkpoint yet.
    wait_for((room.wd / "greet.py").exists)
    fork = forked(room)
    assert (fork["forked_from"], fork["at"]) == (old, history[-1].seq)
    there = room.at(fork["wd"])
    assert not (there.wd / "greet.py").exists()
    room.script({"programmer": [{"edit": {"greet.py": "two in the fork\n"}}]})
    done = room.resume(fork["run"], "--json")
    assert (done.code, done.json["run"]) == (0, fork["run"]), done.err
    # The turn that was in an agent's hands is asked anew: the fork has agents of its own.
    assert there.asked_in(fork["run"])[0] == "r1.programmer.c1"
    assert room.records(old) == history
    gate.touch()
    done = ended(driver)
    assert done.code == 0, done.err
    assert [(own.wd / "greet.py").read_text() for own in (room, there)] == ["two\n", "two in the fork\n"]


@pytest.mark.long
def test_a_fork_is_forked_again_and_each_knows_where_it_came_from(room: Room) -> None:
    old = stopped_build(room)
    first = forked(room, "--at", "s1.L3.decompose")
    second = forked(room, first["run"], "--to", str(room.wd.with_name("second")))
    there, further = room.at(first["wd"]), room.at(room.wd.with_name("second"))
    assert (second["forked_from"], second["wd"]) == (first["run"], str(further.wd))
    room.script()
    assert room.resume(second["run"]).code == 0
    assert further.asked_in(second["run"])[:2] == ["s1.L2.cart.author", "s1.L2.price.author"]
    assert further.git("diff", "--name-only", "HEAD", f"logos/{second['run']}").split() == [
        *("cart.py", "price.py", "till.py")
    ]
    rows = [*room("runs", "--wd", str(there.wd), "--json").json["runs"]]
    rows += room("runs", "--wd", str(further.wd), "--json").json["runs"]
    assert [(row["run"], row["forked_from"], row["status"]) for row in rows] == [
        (first["run"], old, "STOPPED"),
        (second["run"], first["run"], "PASSED"),
    ]
    assert room.outcomes() == {old: "STOPPED"}
    elsewhere = room("rollback", first["run"])
    assert (elsewhere.code, elsewhere.err) == (
        *(2, f"logos: run {first['run']} is in {there.wd}: use --wd to roll back there\n"),
    )
    assert room("rollback", first["run"], "--wd", str(there.wd)).code == 0


@pytest.mark.long
def test_a_work_dir_inside_a_repository_is_forked_with_its_place_in_it(room: Room) -> None:
    inner = room.wd / "parts" / "shop"
    inner.mkdir(parents=True)
    (inner / "shop.py").write_text("x\n")
    room.git("add", "--all")
    room.git("commit", "--quiet", "--message", "parts")
    (room.wd / "README.md").write_text("changed by a person\n")
    shop = room.at(inner)
    run = stopped_cycle(shop)
    shop.script(GREETERS)
    done = shop("fork", run, "--at", "r1.programmer.c1")
    assert done.code == 0, done.err
    new = re.match(r"run (\w+) is forked from", done.out)
    assert new
    there = room.at(room.wd.with_name(f"repo-{new[1]}") / "parts" / "shop")
    assert f"in {there.wd}\n" in done.out
    assert (there.wd / "greet.py").read_text() == "one\n"
    assert shop.acting(hint(done.out, "resume")).code == 0
    assert (there.wd / "greet.py").read_text() == "two\n"
    assert shop("rollback", "r1.analyst.c1").code == 0
    # What is beside the work dir is neither taken nor put back.
    assert (room.wd / "README.md").read_text() == "changed by a person\n"
    assert not (inner / "greet.py").exists()


@pytest.mark.long
def test_what_init_wrote_comes_along_to_a_fork_also_when_git_does_not_have_it(room: Room) -> None:
    room.git("rm", "--quiet", "--cached", "telos.toml")
    room.git("commit", "--quiet", "--message", "untracked")
    (room.wd / "logos.json").write_text(json.dumps({"levels": "3,2"}))
    (room.wd / "prompt.md").write_text(PROMPT)
    room.script({"L3.decompose": [CHAIN], "L2.price": [CRASH]})
    assert room.build("pay by invoice").code == 1
    own = {name: (room.wd / name).read_bytes() for name in ("telos.toml", "logos.json", "prompt.md")}
    fork = forked(room)
    there = room.at(fork["wd"])
    assert {name: (there.wd / name).read_bytes() for name in own} == own
    room.script()
    assert room.resume(fork["run"]).code == 0
    assert room("rollback", "s1.L3.decompose").code == 0
    assert {name: (room.wd / name).read_bytes() for name in own} == own
    assert there.build_state["levels"] == room.build_state["levels"] == ["L3", "L2"]


def test_a_fork_says_where_it_is_without_detours(room: Room) -> None:
    stopped_cycle(room, "r1.analyst.c1")
    assert forked(room, "--to", "../second")["wd"] == str(room.wd.with_name("second"))


def test_a_fork_whose_setup_fails_leaves_nothing_behind(room: Room) -> None:
    room.set_telos(FILES["telos.toml"] + '[worktree]\nsetup = "echo no way; exit 3"\n')
    stopped_cycle(room, "r1.analyst.c1", verify_pass=False)
    before = (room.worktrees, room.refs(), sorted(room.wd.parent.iterdir()))
    done = room("fork")
    assert (done.code, "'echo no way; exit 3' failed" in done.err) == (1, True)
    assert (room.worktrees, room.refs(), sorted(room.wd.parent.iterdir())) == before


def test_in_the_folder_of_a_fork_everything_is_about_the_fork(room: Room) -> None:
    stopped_cycle(room, "r1.analyst.c1", wd=str(room.wd))
    fork = room("fork", "--json")
    if fork.code == 0:
        assert room.at(fork.json["wd"])("status", "--json").json["run"] == fork.json["run"]


# --- a decision that is made twice


@pytest.fixture
def blocked(room: Room) -> str:
    asking = a_fact(next_recommended_action={"action": "ask_person", "why": "which currency?"})
    room.script(turns={"s1.L2.feature.author": asking})
    assert room.build("pay by invoice", "--levels", "3,2").code == 3
    return room.run_id


@pytest.mark.long
def test_a_question_is_answered_differently_in_a_build_and_in_its_fork(room: Room, blocked: str) -> None:
    done = room("fork")
    assert done.code == 0, done.err
    assert room.outcomes() == {blocked: "BLOCKED"}
    new = done.out.split()[1]
    there = room.at(room.wd.with_name(f"repo-{new}"))
    assert "which currency?" in room("resolve", "--wd", str(there.wd)).out
    assert room("resolve", "euros", "--wd", str(there.wd)).code == 0
    assert room("resolve", "dollars").code == 0
    assert room.resume(new).code == 0
    assert room.resume().code == 0
    for own, run, word, other in ((there, new, "euros", "dollars"), (room, blocked, "dollars", "euros")):
        told = own.told_in(run, "s1.L2.feature.author.v2")
        assert (f"A person answered: {word}" in told, other in told) == (True, False)
        assert own.build_state["status"] == "PASSED"


def test_a_fork_that_waits_for_a_decision_says_where_to_make_it(room: Room, blocked: str) -> None:
    fork = forked(room, blocked)
    done = room.resume(fork["run"])
    assert done.code == 1
    (command,) = re.findall(r"`(logos resolve.*?)`", done.err)
    assert room.typed(command, "--json").json["run"] == fork["run"]


def test_another_feature_does_not_silently_give_up_a_build_that_waits_for_a_decision(room: Room, blocked: str) -> None:
    done = room.build("pay by card", "--levels", "2")
    assert (done.code, room.outcomes()) == (1, {blocked: "BLOCKED"})


# --- giving up


@pytest.mark.long
def test_a_reset_gives_up_a_build_and_it_can_be_returned_to(room: Room) -> None:
    old = stopped_build(room)
    done = room("reset")
    assert done.code == 0, done.err
    assert done.out.startswith(f"run {old} is abandoned\n")
    assert (room.outcomes(), room.build_state["status"]) == ({old: "ABANDONED"}, "ABANDONED")
    room.assert_tidy()
    assert "abandoned: reset by a person" in room("log", old).out
    again = room("reset")
    assert (again.code, again.err) == (2, f"logos: nothing unfinished is in {room.wd}\n")
    assert room.typed(hint(done.out, f"rollback {old}")).code == 0
    room.script()
    assert room.resume().code == 0
    assert "s1.L2.cart.author" not in room.asked_in(room.run_id)
    assert sorted(room.built()) == ["cart.py", "price.py", "till.py"]


@pytest.mark.long
def test_a_reset_leaves_the_files_of_a_cycle_unless_told_to_put_them_back(room: Room) -> None:
    (room.wd / "greet.py").write_text("before\n")
    old = stopped_cycle(room)
    kept = room("reset")
    assert (kept.code, (room.wd / "greet.py").read_text()) == (0, "one\n")
    assert (room.outcomes(), room.state["final_status"]) == ({old: "ABANDONED"}, "ABANDONED")
    assert room.typed(hint(kept.out, f"rollback {old}")).code == 0
    (room.wd / "mine.txt").write_text("mine\n")
    lay = room.files()
    done = room("reset", "--files")
    assert done.code == 0, done.err
    assert "the files it started with are restored" in done.out
    assert not (room.wd / "mine.txt").exists()
    assert room.typed(hint(done.out, "rollback --files")).code == 0
    assert room.files() == lay
    # Before the first run, the greeting was another one.
    assert room("rollback", f"{old}@1", "--files").code == 0
    assert (room.wd / "greet.py").read_text() == "before\n"


@pytest.mark.long
def test_what_was_given_up_on_a_day_can_be_returned_to_by_that_day(room: Room) -> None:
    old = stopped_cycle(room, "r1.peer_analyst.c1")
    assert room("reset").code == 0
    assert room("rollback", f"{old}@{day_of(room.records()[-1])}").code == 0
    assert room.outcomes() == {old: "ABANDONED", room.run_id: "STOPPED"}


@pytest.mark.long
@pytest.mark.parametrize("flow", ["cycle", "levels"])
def test_fresh_gives_up_the_unfinished_run_and_ends_its_agents(room: Room, flow: str) -> None:
    gate = room.wd.parent / "gate"
    held_agents = {"cycle": {"analyst": [{"run": until_exists(gate)}]}, "levels": {"L2": [{"run": until_exists(gate)}]}}
    turn = {"cycle": "r1.analyst.c1", "levels": "s1.L2.feature.author"}[flow]
    words = {"cycle": ("run",), "levels": ("build", "pay by invoice", "--levels", "2")}[flow]
    room.plan_a_cycle()
    room.script(held_agents[flow])
    driver = room.start_apart(*words)
    wait_for(lambda: room.sent(turn))
    driver.kill()
    ended(driver)
    old = room.run_id
    assert room.left_behind() != []
    room.script({"programmer": [{"edit": {"greet.py": "two\n"}}]} if flow == "cycle" else {})
    done = room(*words, "--fresh", "--simulate", str(room.script_path), "--json")
    assert (done.code, done.json["run"] != old) == (0, True), done.err
    assert room.outcomes() == {old: "ABANDONED", done.json["run"]: "PASSED"}
    assert room.left_behind() == []
    assert f"{old} abandoned: a new " in room("log", old).out


# --- where files are not kept


@pytest.fixture
def plain(tmp_path: Path) -> Room:
    """A folder that no git knows."""
    wd = tmp_path / "plain"
    wd.mkdir()
    return Room(wd, {**QUICK})


def test_without_git_the_state_alone_is_kept_and_that_is_said(plain: Room) -> None:
    plain.plan_a_cycle()
    greeter = {"programmer": [{"edit": {"greet.py": "two\n"}}]}
    plain.script(greeter, turns={"r1.peer_programmer.c1": CRASH})
    done = plain.cycle()
    assert done.code == 1
    assert f"file checkpoints are off ({plain.wd} is not a git repository); rollback restores" in done.err
    back = plain("rollback", "r1.analyst.c1")
    assert back.code == 0, back.err
    assert "they stay as they are, only the run state was rolled back" in back.out
    assert (plain.wd / "greet.py").read_text() == "two\n"
    assert plain.state["current_phase"] == "analyst"
    for words in ((), ("--at", "9")):
        fork = plain("fork", *words)
        assert fork.code == 2
        assert f"{plain.wd} is not a git repository, so it has no worktrees to fork into" in fork.err
    plain.script(greeter)
    assert plain.resume().code == 0


def test_without_git_a_kept_commit_is_not_looked_for(plain: Room) -> None:
    plain.plan_a_cycle()
    plain.script(turns={"r1.analyst.c1": CRASH})
    assert plain.cycle().code == 1
    done = plain("rollback", "--files", "0123456789ab")
    assert (done.code, "git for-each-ref" in done.err) == (2, False), done.err


def test_without_checkpoints_the_state_alone_is_kept_and_no_ref_is_made(room: Room) -> None:
    room.set(CHECKPOINTS_ENABLED="0")
    stopped_cycle(room)
    assert room.refs("refs/logos") == []
    back = room("rollback", "r1.analyst.c1")
    assert "they stay as they are, only the run state was rolled back" in back.out
    assert (room.wd / "greet.py").read_text() == "one\n"
    fork = room("fork")
    assert (fork.code, "were not kept, so it cannot be forked there" in fork.err) == (2, True)
    files = room("rollback", "9", "--files")
    assert (files.code, "were not kept" in files.err) == (2, True)


def test_a_reset_that_cannot_put_the_files_back_gives_up_nothing(room: Room) -> None:
    room.set(CHECKPOINTS_ENABLED="0")
    run = stopped_cycle(room, "r1.analyst.c1")
    assert room("reset", "--files").code == 2
    assert room.outcomes() == {run: "STOPPED"}


# --- what cannot be


@pytest.mark.long
def test_what_cannot_be_gone_back_to_is_one_line_and_nothing_happens(room: Room) -> None:
    run = stopped_build(room)
    room.script()
    assert room.resume().code == 0
    last = room.records()[-1].seq
    nothing = {
        ("rollback", "zzzz"): "there is no run 'zzzz' here",
        ("rollback", "zzzz@3"): "there is no run 'zzzz' here",
        ("rollback", "0"): f"there is no event 0 in run {run}: it has {last}",
        ("rollback", f"{last + 1}"): f"there is no event {last + 1} in run {run}: it has {last}",
        ("rollback", f"{run}@0"): "there is no event 0",
        ("rollback", "2001-02-03"): f"run {run} began on ",
        ("rollback", "s9.L9.decompose"): f"run {run} has no event 's9.L9.decompose'",
        ("rollback", "0123abcd", "--files"): "there is no run '0123abcd' here",
        ("fork", "zzzz"): "there is no run 'zzzz' here",
        ("fork", "--at", "0"): "there is no event 0",
        ("fork", "--at", f"{last + 1}"): f"there is no event {last + 1}",
        ("fork", "--at", f"{last}"): f"run {run} has ended at event {last} (PASSED); fork an earlier event with --at N",
        ("fork", "--at", "9", "--to", str(room.wd)): f"{room.wd} exists; name another folder with --to",
        ("resume", "zzzz"): "there is no run 'zzzz' here",
        ("reset",): "nothing unfinished is in",
        ("reset", run): f"run {run} has ended (PASSED): there is nothing to give up",
    }
    before = (room.outcomes(), room.worktrees, room.refs(), room.build_state, sorted(room.wd.parent.iterdir()))
    for words, says in nothing.items():
        done = room(*words)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), words
        assert done.err.startswith("logos: "), words
        assert says in done.err, words
    assert room("rollback", "zzzz", "--json").json["exit_code"] == 2
    assert (room.outcomes(), room.worktrees, room.refs(), room.build_state, sorted(room.wd.parent.iterdir())) == before
    # Without an event, an ended run is forked where it could still go on.
    assert forked(room, run)["at"] < last


def test_what_names_no_checkpoint_is_not_taken_for_the_newest(room: Room) -> None:
    stopped_cycle(room, "r1.analyst.c1")
    named = ("", "@", "2026-13-45")
    assert [room("rollback", checkpoint).code for checkpoint in named] == [2, 2, 2]
