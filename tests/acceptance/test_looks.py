"""Looking back on whole runs: sessions, diff, compare and gc, after real drivers, forks and rollbacks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logos.app.rollback import NewRun, fork, rollback
from tests.acceptance.test_builds import a_division
from tests.support.isolation import clean_env
from tests.support.sandbox import LOGOS, PROMPT, Done, Sandbox, ended
from tests.support.waiting import until_exists, wait_for

FAST = {"PROMPT": PROMPT, "POLL_SECONDS": "0.02", "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1"}
FIRST = {"greet.py": "def greet(): return 3\n"}
SECOND = {"greet.py": "def greet(): return 2\n", "notes/\x1b[2Jred.md": "caf\u00e9\n"}


class Bench(Sandbox):
    """A repository in which runs of both flows are made, forked and rolled back."""

    def run_cycle(self, *arguments: str, **agents: Any) -> Done:
        self.script({role: [step] for role, step in agents.items()})
        return self("run", "--simulate", str(self.script_path), *arguments)

    def a_build(self, *arguments: str, **files: str) -> Done:
        """A build of one component for each file."""
        agents: dict[str, Any] = {"L3.decompose": [a_division(*files)]}
        agents |= {f"L2.{name}": [{"edit": {f"{name}.py": text}}] for name, text in files.items()}
        self.script(agents)
        return self.build(*arguments, "--levels", "L3-L2")

    def fork(self, checkpoint: str) -> Bench:
        run, _, event = checkpoint.partition("@")
        return self.at(fork(run, at=event, wd=self.wd, tell=[].append).wd)

    def rollback(self, checkpoint: str) -> NewRun:
        return rollback(checkpoint, wd=self.wd, tell=[].append)

    def look(self, *arguments: str) -> Any:
        """A command's document, from this folder."""
        done = self(*arguments, "--json", "--wd", str(self.wd))
        assert done.code == 0, done.err
        return done.json

    def held(self) -> set[str]:
        """Runs that have checkpoints."""
        return {ref.split("/")[2] for ref in self.refs("refs/logos")}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench.of_repository(tmp_path / "repo", **FAST)
    yield bench
    bench.close()
    assert bench.left_behind() == []


@pytest.mark.long
@pytest.mark.scenario("LOG-16")
def test_two_attempts_at_the_same_work_are_told_apart_to_the_byte(bench: Bench) -> None:
    paused = bench.run_cycle(programmer={"edit": FIRST}, tester={"fault": "usage_limit"})
    assert paused.code == 4
    first = bench.run_id
    assert bench.run_cycle("--resume").code == 0
    fork = bench.fork(f"{first}@r1.peer_analyst.c1")
    assert fork.run_cycle(programmer={"edit": SECOND, "usage": {"input": 10, "output": 5, "cost_usd": 0.25}}).code == 0
    second = fork.run_id

    sessions = bench.look("sessions")["sessions"]
    assert [(own["run"], own["session"], own["turns"]) for own in sessions] == [
        (first, 1, 4),
        (first, 2, 1),
        (second, 2, 3),
    ]
    assert "usage limit" in sessions[0]["ended"]
    assert [own["ended"] for own in sessions[1:]] == ["PASSED", "PASSED"]
    assert (sessions[2]["forked_from"], sessions[2]["wd"]) == (first, str(fork.wd))

    told = bench.look("compare", first, second)
    assert told == fork.look("compare", first, second)
    assert [(own["turns"], own["inherited_turns"]) for own in told["runs"]] == [(5, 0), (3, 2)]
    assert [[session["inherited"] for session in own["sessions"]] for own in told["runs"]] == [
        [False, False],
        [True, False],
    ]
    assert [own["usage"]["cost_usd"] for own in told["runs"]] == [None, 0.25]
    assert [own["files_changed"] for own in told["runs"]] == [1, 2]
    assert told["common"]["run"] == first
    assert [own["path"] for own in told["files"]] == ["greet.py", "notes/\x1b[2Jred.md"]
    shown = bench("compare", first, second)
    assert "\x1b" not in shown.out
    assert '"notes/\\033[2Jred.md"' in shown.out

    # From the end of the first to the end of the second, applied where the first lies.
    command = f"{LOGOS} diff {first} {second} 2>/dev/null | git apply"
    subprocess.run(command, shell=True, cwd=bench.wd, env=clean_env(), check=True)
    assert fork.look("diff", f"{second}@")["files"] == []
    for name, text in SECOND.items():
        assert (bench.wd / name).read_text() == text


@pytest.mark.long
def test_a_rollback_is_seen_in_every_look_and_gc_keeps_what_can_go_on(bench: Bench) -> None:
    assert bench.run_cycle(programmer={"edit": FIRST}).code == 0
    first = bench.run_id
    begun = bench.rollback(f"{first}@r1.analyst.c1")
    assert not (bench.wd / "greet.py").exists()

    (own,) = (row for row in bench.look("sessions")["sessions"] if row["run"] == begun.run)
    assert (own["ended"], own["forked_from"], own["forked_by"]) == ("not driven", first, "rollback")
    assert f"rolled back to {first}@{begun.at.seq}" in bench("sessions").out
    assert [row["forked_from"] for row in bench.look("runs")["runs"]] == [None, first]
    assert [row["path"] for row in bench.look("diff", begun.run, first)["files"]] == ["greet.py"]

    assert bench.held() >= {first, begun.run, "snapshots"}
    planned = bench.look("gc", "--keep-days", "0", "--keep-runs", "0", "--dry-run")
    done = bench.look("gc", "--keep-days", "0", "--keep-runs", "0")
    assert [row["what"] for row in done["removed"]] == [row["what"] for row in planned["removed"]]
    assert bench.held() == {begun.run}
    assert len(list((bench.wd / ".telos" / "scripted").glob("*/terminal.json"))) == 0
    bench.git("gc", "--quiet", "--prune=now")

    # What is kept can be driven to its end, and what is gone can still be read.
    assert bench.run_cycle("--resume", programmer={"edit": SECOND}).code == 0
    assert bench.records()[-1].run == begun.run
    told = bench.look("compare", first, begun.run)
    assert [row["outcome"] for row in told["runs"]] == ["PASSED", "PASSED"]
    assert [row["files_changed"] for row in told["runs"]] == [None, 2]


@pytest.mark.long
def test_builds_are_compared_by_what_they_merged(bench: Bench) -> None:
    assert bench.a_build("pay by invoice", cart="a = 1\n", price="b = 1\n").code == 0
    first = bench.run_id
    fork = bench.fork(f"{first}@s1.L3.decompose")
    assert fork.a_build("--resume", cart="a = 2\n", price="b = 1\n").code == 0
    second = fork.run_id

    told = bench.look("compare", first, second, "--patch")
    assert [(own["flow"], own["outcome"], own["files_changed"]) for own in told["runs"]] == [
        ("levels", "PASSED", 2),
        ("levels", "PASSED", 2),
    ]
    assert [own["path"] for own in told["files"]] == ["cart.py"]
    assert "+a = 2" in told["patch"]
    assert (told["common"]["run"], told["not_comparable"]) == (first, [])

    built = bench.look("diff", f"{first}@1")
    assert [own["path"] for own in built["files"]] == ["cart.py", "price.py"]
    assert "s1.L2.cart.author.gather" in {own["turn"] for own in built["timeline"]}
    assert bench.look("diff", "s1.L3.decompose", "s1.L2.cart.author")["files"] == []
    bench.assert_untouched()

    branches = bench.refs("refs/heads")
    assert bench.held() == {first, second}
    bench.look("gc", "--keep-days", "0", "--keep-runs", "0")
    assert bench.held() == set()
    assert bench.refs("refs/heads") == branches
    # Their branches are the person's, and hold what was merged.
    bench.git("gc", "--quiet", "--prune=now")
    assert [own["path"] for own in bench.look("compare", first, second)["files"]] == ["cart.py"]


@pytest.mark.long
def test_a_cycle_and_a_build_of_one_repository_are_compared_as_far_as_that_goes(bench: Bench) -> None:
    assert bench.run_cycle(programmer={"edit": FIRST}).code == 0
    cycle = bench.run_id
    bench.git("add", "--all")
    bench.git("commit", "--quiet", "--message", "greet")
    assert bench.a_build("pay by invoice", cart="a = 1\n").code == 0
    told = bench.look("compare", cycle, bench.run_id)
    assert [own["flow"] for own in told["runs"]] == ["cycle", "levels"]
    assert [own["path"] for own in told["files"]] == ["cart.py"]
    assert told["common"] is None
    assert "rounds" in told["not_comparable"][0]


@pytest.mark.long
def test_looks_and_gc_beside_a_driver_do_not_disturb_it(bench: Bench) -> None:
    assert bench.run_cycle(programmer={"edit": FIRST}).code == 0
    old, go = bench.run_id, bench.wd.parent / "go"
    script = bench.script({"programmer": [{"edit": SECOND, "run": until_exists(go), "say": "done\n"}]})
    driver = bench.start("run", "--fresh", "--simulate", str(script), "--json")
    try:
        wait_for((bench.wd / "notes").exists, "its edit", process=driver)
        now = bench.look("sessions")["sessions"][-1]
        assert (now["ended"], now["driver_pid"]) == (f"at work (pid {driver.pid})", driver.pid)
        assert {own["path"] for own in bench.look("diff", now["run"])["files"]} == set(SECOND)
        assert bench.look("compare", old, now["run"])["runs"][1]["outcome"] is None
        bench.look("gc", "--keep-days", "0", "--keep-runs", "0")
        assert bench.held() == {now["run"]}
    finally:
        go.touch()
        done = ended(driver)
    assert done.code == 0, done.err
    assert bench.look("diff", f"{now['run']}@1", now["run"])["timeline"][-1]["verdict"] == "PASS"
    assert {own["path"] for own in bench.look("diff", f"{now['run']}@1", now["run"])["files"]} == set(SECOND)


def test_a_fork_whose_folder_was_deleted_by_hand_keeps_its_checkpoints_until_git_forgets_it(bench: Bench) -> None:
    assert bench.run_cycle(programmer={"edit": FIRST}).code == 0
    first = bench.run_id
    fork = bench.fork(f"{first}@r1.analyst.c1")
    lost = fork.run_id
    subprocess.run(["rm", "-r", fork.wd], check=True)

    assert [own["run"] for own in bench.look("sessions")["sessions"]] == [first]
    done = bench("compare", first, lost, "--wd", str(bench.wd))
    assert (done.code, done.err.count("\n")) == (2, 1)
    told = bench.look("gc", "--keep-days", "0", "--keep-runs", "0")
    assert bench.held() - {"snapshots"} == {lost}
    assert "git worktree prune" in " ".join(told["notes"])
