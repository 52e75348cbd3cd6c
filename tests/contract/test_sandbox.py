"""What every test rests on: the real user is out of sight, waits end, repositories are copies, commands are commands."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.support import waiting
from tests.support.forked import Forked
from tests.support.isolation import bare_env, clean_env, removed
from tests.support.repositories import git, make_repository
from tests.support.sandbox import PROMPT, Sandbox, ended
from tests.support.scheduling import unit_of
from tests.support.waiting import wait_for

SEEN = """
import os, pathlib
print(pathlib.Path.home())
print(*(os.environ.get(name) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")), sep="\\n")
"""


@pytest.mark.parametrize("env", [None, clean_env, bare_env])
def test_neither_a_test_nor_what_it_starts_sees_the_real_user(env, no_real_user: Path) -> None:
    real = pwd.getpwuid(os.getuid()).pw_dir
    given = env() if env else None
    seen = subprocess.run([sys.executable, "-c", SEEN], env=given, capture_output=True, text=True, check=True)
    folders = [str(Path.home()), *seen.stdout.split()]
    assert [folder for folder in folders if not folder.startswith(str(no_real_user))] == []
    assert str(no_real_user) != real
    git_sees = subprocess.run(
        ["git", "config", "--list", "--show-origin", "--name-only"],
        env=given,
        cwd=no_real_user,
        capture_output=True,
        text=True,
        check=True,
    )
    origins = {line.split("\t")[0] for line in git_sees.stdout.splitlines()}
    assert origins == {f"file:{no_real_user}/.gitconfig"}


def test_settings_of_the_person_who_runs_the_tests_are_gone() -> None:
    ours = {"MAX_ROUNDS": "many", "GIT_DIR": "/elsewhere/.git", "GIT_CONFIG_COUNT": "1", "NO_COLOR": "1"}
    assert removed({**ours, "PATH": "/bin"}) == {*ours}
    assert removed(os.environ) <= {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"}


def test_tests_that_share_a_server_stay_together_and_others_go_anywhere() -> None:
    live = ["tests/live/test_cycle.py::test_one", "tests/live/test_cycle.py::test_two[tests/live/x::y]"]
    assert {unit_of(nodeid) for nodeid in live} == {"tests/live/test_cycle.py"}
    assert unit_of("tests/contract/test_inbox.py::test_one[a]") == "tests/contract/test_inbox.py::test_one[a]"


def test_hypothesis_does_not_decide_by_luck() -> None:
    if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz":
        pytest.skip("random by request")
    assert settings().derandomize
    assert settings().deadline is None
    assert Phase.explain not in settings().phases


def test_a_wait_ends_with_what_it_waited_for() -> None:
    looks = iter([None, "", "there"])
    assert wait_for(lambda: next(looks)) == "there"


def test_a_wait_for_a_process_that_has_ended_fails_at_once() -> None:
    with subprocess.Popen(["false"]) as process:
        process.wait()
        with pytest.raises(AssertionError, match="ended with 1 before the file"):
            wait_for(lambda: False, "the file", process=process)


def test_a_wait_without_end_fails_and_says_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LAST_RESORT", 0.0)
    with pytest.raises(AssertionError, match="the file did not happen"):
        wait_for(lambda: False, lambda: "the file")


def test_repositories_are_clean_and_do_not_share_anything(tmp_path: Path) -> None:
    one, other = make_repository(tmp_path / "one"), make_repository(tmp_path / "other")
    (one / "shop.py").write_text("changed\n")
    git(one, "commit", "-qam", "more")
    assert git(other, "status", "--porcelain") == ""
    assert git(other, "log", "--format=%an %s") == "Ada start\n"
    assert git(one, "log", "--format=%s") == "more\nstart\n"


def test_commands_run_in_the_work_dir(sandbox: Sandbox) -> None:
    sandbox.set(PROMPT=PROMPT, POLL_SECONDS="0.02", MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1")
    before = dict(os.environ), Path.cwd()
    done = sandbox("run", "--simulate", str(sandbox.script()), "--json")
    assert (done.code, done.json["outcome"]) == (0, "PASSED"), done.err
    assert (dict(os.environ), Path.cwd()) == before
    assert sandbox.asked[0] == "r1.analyst.c1"
    assert sandbox.apart("status").out == sandbox("status").out


def test_a_driver_in_a_process_of_its_own_is_awaited_by_its_events(sandbox: Sandbox) -> None:
    sandbox.set(PROMPT=PROMPT, POLL_SECONDS="0.02")
    script = sandbox.script({"analyst": [{"say": "x", "delay": 600}]})
    driver = sandbox.start("run", "--simulate", str(script))
    sandbox.wait_for_event("turn_sent", "analyst", process=driver)
    driver.terminate()
    assert driver.wait(waiting.LAST_RESORT) == 143
    wait_for(lambda: not sandbox.left_behind(), sandbox.left_behind)


@pytest.mark.parametrize("words", [("status",), ("log", "--json"), ("no-such-command",), ("show", "r9.analyst.c1")])
def test_a_forked_command_is_as_an_executed_one(sandbox: Sandbox, words: tuple[str, ...]) -> None:
    sandbox.run()
    # Python looks at such a variable when it begins.
    forked, executed = sandbox.start(*words), sandbox.start(*words, PYTHONIOENCODING="utf-8")
    assert (type(forked), type(executed)) == (Forked, subprocess.Popen)
    assert ended(forked) == ended(executed)


def test_a_forked_command_is_ended_with_its_sandbox(sandbox: Sandbox) -> None:
    sandbox.set(PROMPT=PROMPT)
    driver = sandbox.start("run", "--simulate", str(sandbox.script({"analyst": [{"fault": "hang"}]})))
    sandbox.wait_for_event("turn_sent", "analyst", process=driver)
    assert driver.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        driver.wait(0.01)
    sandbox.close()
    assert driver.returncode == -signal.SIGKILL
    assert sandbox("reset").code == 0
    assert sandbox.left_behind() == []
