"""`logos run --detach` and `logos stop`: a driver that outlives its terminal, and its orderly end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from logos.adapters.lock import driver_lock
from logos.domain.events import RunResumed, RunStarted
from tests.acceptance.test_simulation import IN_A_HURRY
from tests.support.sandbox import Sandbox, ended
from tests.support.waiting import until_exists, wait_for


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Sandbox]:
    """A repository whose analyst and L9 take until a file `go` exists."""
    site = Sandbox.of_repository(tmp_path / "repo", **IN_A_HURRY)
    waits = {"run": until_exists(tmp_path / "go")}
    site.script({"analyst": [{**waits, "say": "ANALYST_SUMMARY: done\n"}]})
    (tmp_path / "levels.yaml").write_text(json.dumps({"agents": {"L9": [waits]}}))
    yield site
    (tmp_path / "go").touch()
    site("stop")
    site.close()
    wait_for(lambda: site.left_behind() == [], site.left_behind)


def detach(site: Sandbox, *arguments: str) -> tuple[str, int, Path]:
    """Start a driver from a command that ends; its run, its pid and the file with its output."""
    done = site.apart("run", "--simulate", str(site.script_path), "--detach", "--json", *arguments)
    assert done.code == 0, done.err
    return done.json["run"], done.json["pid"], Path(done.json["log"])


def test_a_detached_run_goes_on_without_the_command_that_started_it(site: Sandbox) -> None:
    run, pid, log = detach(site)
    assert run == site.run_id
    driver = psutil.Process(pid)
    assert os.getsid(pid) == pid
    assert log.parent == site.wd / ".telos"
    assert site("status", "--json").json["driver_pid"] == pid
    (site.wd.parent / "go").touch()
    wait_for(lambda: not driver.is_running() or driver.status() == psutil.STATUS_ZOMBIE, "its end")
    assert site("status", "--json").json["outcome"] == "PASSED"
    assert f"run {run}" in log.read_text()


@pytest.mark.long
def test_a_detached_run_says_how_to_follow_it(site: Sandbox) -> None:
    done = site.apart("run", "--simulate", str(site.script_path), "--detach")
    assert done.code == 0, done.err
    for command in (f"logos log -f {site.run_id}", "logos status", f"logos stop {site.run_id}"):
        assert command in done.out


@pytest.mark.long
def test_a_detached_driver_that_ends_early_gives_its_error_and_exit_code(site: Sandbox) -> None:
    (site.wd.parent / "go").touch()
    done = site.apart("run", "--simulate", str(site.script_path), "--detach", "--json", "--resume")
    assert done.code == 1, done.err
    assert done.json["exit_code"] == 1
    assert "no unfinished run is in the log" in done.json["error"]
    assert "no unfinished run is in the log" in done.err
    simulated = ("run", "--simulate", str(site.script_path), "--detach")
    done = site.apart(*simulated, "--test", "no-such-program")
    assert done.code == 1
    assert "running `no-such-program` once" in done.err
    assert "the test command `no-such-program` cannot run" in done.err


def test_a_prompt_from_stdin_cannot_be_detached(site: Sandbox) -> None:
    for command in (("run", "--prompt", "-"), ("build", "-")):
        done = site(*command, "--detach")
        assert done.code == 2
        assert "stdin" in done.err


@pytest.mark.long
def test_stop_ends_the_driver_and_says_how_to_resume(site: Sandbox) -> None:
    run, pid, _ = detach(site)
    site.wait_for_event("turn_sent", "analyst")
    done = site("stop", run[:4])
    assert done.code == 0, done.err
    assert f"(pid {pid}) has ended" in done.out
    assert f"logos resume {run}" in done.out
    assert site("status", "--json").json["driver_pid"] is None
    (site.wd.parent / "go").touch()
    assert site("resume", "--simulate", str(site.script_path)).code == 0


def test_stop_also_ends_a_driver_in_a_terminal(site: Sandbox) -> None:
    driver = site.start("run", "--simulate", str(site.script_path))
    site.wait_for_event("turn_sent", "analyst", process=driver)
    stopped = {"run": site.run_id, "pid": driver.pid, "outcome": None, "next": f"logos resume {site.run_id}"}
    assert site("stop", "--json").json == stopped
    assert ended(driver).code == 143


def test_stop_without_a_driver_says_so(site: Sandbox) -> None:
    done = site("stop")
    assert done.code == 2
    assert "no driver is running" in done.err


@pytest.mark.long
def test_stop_names_the_run_that_is_driven_even_if_it_is_not_the_newest(site: Sandbox) -> None:
    run, _, _ = detach(site)
    site.wait_for_event("turn_sent", "analyst")
    assert site("stop").code == 0
    script = str(site.wd.parent / "levels.yaml")
    build = site.apart("build", "pay by invoice", "--simulate", script, "--detach", "--json").json["run"]
    assert site("stop").code == 0
    done = site.apart("resume", run, "--simulate", str(site.script_path), "--detach", "--json")
    assert done.json["run"] == run, done.err
    assert [type(event) for event in site.all_events(run) if isinstance(event, RunStarted | RunResumed)] == [
        RunStarted,
        RunResumed,
    ]
    done = site("stop", build)
    assert done.code == 2
    assert f"drives run {run}" in done.err
    assert site("runs", "--json").json["runs"][-1]["driver_pid"] is None
    assert site("stop", run).code == 0


@pytest.mark.long
def test_a_driver_that_has_not_begun_a_run_drives_none(site: Sandbox) -> None:
    run, _, _ = detach(site)
    site.wait_for_event("turn_sent", "analyst")
    assert site("stop").code == 0
    with driver_lock(site.wd / ".telos" / "driver.lock"):
        done = site("stop", run)
    assert done.code == 2
    assert "has not begun a run yet" in done.err
