"""Processes that agents and checks leave behind: whatever they do, none outlives its turn."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from logos.adapters.commands import UNKNOWN, ShellCommands, end, exit_code, start, supervisor_of
from logos.domain.events import CheckRan
from tests.support.repositories import FILES
from tests.support.sandbox import PROMPT, Sandbox, Started, processes_of
from tests.support.waiting import LAST_RESORT, until_exists, wait_for

# How programs make daemons. Each writes its pid, and then again and again into the file `victim`.
WRITE = "while True:\n open('victim', 'a').write('PASS'); time.sleep(0.01)"
BEGIN = "import os, signal, sys, time\n"
NOTE = "open('daemon', 'a').write(str(os.getpid()) + chr(10))\n"
DAEMONS = {
    "a background process": f"{BEGIN}{NOTE}{WRITE}",
    "its own session": f"{BEGIN}os.setsid()\n{NOTE}{WRITE}",
    "a double fork": f"{BEGIN}if os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n{NOTE}{WRITE}",
    "deaf to SIGTERM": f"{BEGIN}os.setsid()\n[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]\n{NOTE}{WRITE}",
    "a clean environment": (
        f"{BEGIN}if os.fork(): os._exit(0)\nos.setsid()\n"
        f"if '--clean' not in sys.argv: os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:], '--clean'], {{}})\n"
        f"{NOTE}{WRITE}"
    ),
    "a fork storm": (
        f"{BEGIN}os.setsid()\n{NOTE}\n"
        "for _ in range(50):\n"
        " if os.fork() == 0: break\n"
        "while True:\n"
        " if os.fork(): os._exit(0)\n"
        " time.sleep(0.002)\n"
    ),
}


def command_of(daemon: str) -> str:
    """A shell command that leaves a daemon and goes on once it runs."""
    return f'{sys.executable} -IS -c "{daemon}" >/dev/null 2>&1 & {until_exists("daemon")}'


@pytest.fixture
def commands(tmp_path: Path) -> ShellCommands:
    (tmp_path / "work").mkdir()
    return ShellCommands(tmp_path / "work" / ".telos" / "checks", tmp_path / "work")


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert processes_of(tmp_path) == []


def run(commands: ShellCommands, wd: Path, command: str, timeout: float = LAST_RESORT) -> tuple[int, str]:
    return commands.run(command, str(wd), timeout, threading.Event())


@pytest.mark.parametrize("daemon", DAEMONS.values(), ids=DAEMONS)
def test_no_daemon_outlives_the_command_that_started_it(commands: ShellCommands, tmp_path: Path, daemon: str) -> None:
    assert run(commands, tmp_path / "work", f"{command_of(daemon)}; exit 7") == (7, "")
    (pid, *_) = map(int, (tmp_path / "work" / "daemon").read_text().split())
    assert not psutil.pid_exists(pid)
    assert processes_of(tmp_path) == []
    assert [*(tmp_path / "work" / ".telos" / "checks").iterdir()] == []


def test_a_command_that_ends_its_whole_group_does_not_end_its_supervisor(
    commands: ShellCommands, tmp_path: Path
) -> None:
    assert run(commands, tmp_path / "work", "sleep 4242 & kill -9 0") == (-9, "")


def test_a_command_that_takes_too_long_ends_with_all_its_daemons(commands: ShellCommands, tmp_path: Path) -> None:
    code, output = run(commands, tmp_path / "work", f"{command_of(DAEMONS['a double fork'])}; sleep 4242", 0.5)
    assert (code, output) == (124, "\n(ended by Logos after 0 s)")


def test_the_exit_of_a_command_whose_supervisor_was_killed_is_unknown(commands: ShellCommands, tmp_path: Path) -> None:
    code, output = run(commands, tmp_path / "work", "(setsid sleep 4242 &); kill -9 $PPID; sleep 4242")
    assert (code, "its supervisor was killed" in output) == (UNKNOWN, True)


def test_a_supervisor_that_was_stopped_cannot_save_its_daemons(tmp_path: Path) -> None:
    work, folder = tmp_path / "work", tmp_path / "turn"
    work.mkdir()
    folder.mkdir()
    command = f"{command_of(DAEMONS['a clean environment'])}; kill -STOP $PPID; touch ready; sleep 4242"
    child = start(folder, ["/bin/sh", "-c", command], work, os.environ)
    wait_for((work / "ready").exists)
    end(folder, child)
    assert processes_of(tmp_path) == []


def test_a_command_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "turn"
    folder.mkdir()
    start(folder, ["no-such-program"], tmp_path, os.environ).wait(LAST_RESORT)
    assert exit_code(folder) == 127
    assert (folder / "err").read_text() == "no-such-program: No such file or directory\n"


# --- agents


TESTS_FAIL = "RESULT: FAIL\nTEST_EVIDENCE:\nthe tests fail\n"


@pytest.mark.parametrize("daemon", ["a double fork", "a clean environment"])
def test_a_programmers_daemon_cannot_turn_the_testers_fail_into_a_pass(sandbox: Sandbox, daemon: str) -> None:
    result = sandbox.wd / ".tmp" / "agent-responses" / "test_result.md"
    forge = DAEMONS[daemon].replace("open('victim', 'a').write('PASS')", f"forge('{result}')")
    helper = (
        "def forge(path):\n"
        " if os.path.exists(path) and 'FAIL' in open(path).read(): open(path, 'w').write('RESULT: PASS'+chr(10))\n"
    )
    sandbox.set(PROMPT=PROMPT, MAX_ROUNDS="1", MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1")
    script = sandbox.script(
        {
            "programmer": [{"run": command_of(forge.replace(BEGIN, BEGIN + helper))}],
            # Long enough for a daemon to strike between the response and its end.
            "tester": [{"say": TESTS_FAIL, "after": 0.3}],
        }
    )
    done = sandbox("run", "--simulate", str(script))
    assert done.code == 1, done.err
    assert sandbox.answered["r1.tester.c1"] == TESTS_FAIL
    assert sandbox.left_behind() == []


def test_an_authors_daemon_cannot_turn_a_levels_fail_into_a_pass(repository: Sandbox) -> None:
    worktrees = repository.wd / ".telos" / "worktrees"
    forge = (
        "import glob\n"
        "def forge():\n"
        f" for path in glob.glob('{worktrees}/*/*/.tmp/agent-responses/*validate*'):\n"
        "  text = open(path).read()\n"
        "  if 'FAIL' in text: open(path, 'w').write(text.replace('FAIL', 'PASS'))\n"
    )
    daemon = DAEMONS["a clean environment"].replace("open('victim', 'a').write('PASS')", "forge()")
    agents = {
        "L2": [{"run": command_of(daemon.replace(BEGIN, BEGIN + forge)) + "; rm daemon"}],
        "L5.validate": [{"report": {"verdict": "FAIL", "failures": [{"what": "it does not sell"}]}, "after": 0.3}],
    }
    repository.set(BUILD_MAX_RECONCILIATIONS="0")
    done = repository("build", "sell", "--levels", "5-1", "--simulate", str(repository.script(agents)))
    assert done.code == 1, done.err
    assert "it does not sell" in repository.answered["s1.L5.validate"]
    assert repository.left_behind() == []


def test_agents_that_were_killed_with_their_driver_are_ended_by_a_reset(sandbox: Sandbox) -> None:
    sandbox.set(PROMPT=PROMPT)
    work = f"{command_of(DAEMONS['its own session'])}; touch begun; sleep 4242"
    driver = sandbox.start("run", "--simulate", str(sandbox.script({"analyst": [{"run": work}]})))
    wait_for((sandbox.wd / "begun").exists, process=driver)
    driver.kill()
    driver.wait(LAST_RESORT)
    assert sandbox.left_behind()
    assert sandbox("reset").code == 0
    assert sandbox.left_behind() == []


def test_a_driver_that_is_interrupted_leaves_no_daemon(sandbox: Sandbox) -> None:
    sandbox.set(PROMPT=PROMPT)
    work = f"{command_of(DAEMONS['a clean environment'])}; touch begun; sleep 4242"
    driver = sandbox.start("run", "--simulate", str(sandbox.script({"analyst": [{"run": work}]})))
    wait_for((sandbox.wd / "begun").exists, process=driver)
    driver.send_signal(signal.SIGINT)
    assert driver.wait(LAST_RESORT) == 130
    assert sandbox.left_behind() == []


# --- checks


# Over at once on the files before the run, endless on those after it.
ENDLESS = f"test ! -e bye.py || {{ {command_of(DAEMONS['a double fork'])}; sleep 4242; }}"
WORK = {"programmer": [{"edit": {"bye.py": "print('bye')"}}]}


def proving(sandbox: Sandbox) -> Started:
    """A driver whose proof has begun and does not end."""
    sandbox.set(PROMPT=PROMPT, MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1")
    driver = sandbox.start("run", "--simulate", str(sandbox.script(WORK)), "--test", ENDLESS)
    sandbox.wait_for_event("work_compared", "changes", process=driver)
    # The driver has the command among its own arguments.
    wait_for(
        lambda: any("sleep 4242" in words and "--simulate" not in words for words in sandbox.left_behind()),
        process=driver,
    )
    return driver


def test_a_step_of_a_proof_that_outlived_its_driver_is_ended_by_the_next_one(sandbox: Sandbox) -> None:
    driver = proving(sandbox)
    driver.kill()
    driver.wait(LAST_RESORT)
    assert sandbox.left_behind()
    again = sandbox("run", "--resume", "--simulate", str(sandbox.script(WORK)), "--test", "true")
    assert again.code == 0, again.err
    assert sandbox.left_behind() == []


def test_a_check_that_outlived_its_driver_is_ended_before_the_next_one_runs(repository: Sandbox) -> None:
    # Each but the first, which is tried before the build, holds a lock until it may end; none waits for it.
    begun, go = repository.wd.parent / "begun", repository.wd.parent / "go"
    tool = (
        f"case $PWD in *scratch*) exit 0;; esac; exec 9>{repository.wd.parent}/port; flock -n 9 || exit 9; "
        f"echo begun >>{begun}; {until_exists(str(go))}"
    )
    repository.set_telos(f"{FILES['telos.toml']}[[tools]]\nlevel = 1\nname = 'lock'\ncommand = {json.dumps(tool)}\n")
    driver = repository.start("build", "sell", "--levels", "3-1", "--simulate", str(repository.script({})))
    wait_for(begun.exists, process=driver)
    driver.kill()
    driver.wait(LAST_RESORT)
    assert repository.left_behind()
    go.touch()
    again = repository.build("--resume")
    assert again.code == 0, again.err
    assert {check.exit_code for check in repository.events(CheckRan)} == {0}
    assert repository.left_behind() == []


def test_a_driver_that_is_interrupted_ends_its_proof(sandbox: Sandbox) -> None:
    driver = proving(sandbox)
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(LAST_RESORT) == 143
    assert sandbox.left_behind() == []


def test_a_command_is_found_again_by_its_folder_under_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "turn"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    child = start(folder, ["/bin/sh", "-c", "sleep 4242"], tmp_path, os.environ)
    assert wait_for(lambda: supervisor_of(tmp_path / "link")) == child.pid
    end(tmp_path / "link")
    child.wait(LAST_RESORT)
    assert supervisor_of(folder) is None
    assert exit_code(folder) == -signal.SIGTERM


# --- setups of worktrees


def test_a_daemon_that_a_setup_leaves_is_ended_with_it(repository: Sandbox) -> None:
    """In the scratch worktree, in those of the build, and in a fork."""
    pids = repository.wd.parent / "pids"
    setup = f"{command_of(DAEMONS['a clean environment'])}; cat daemon >> {pids}; rm daemon"
    repository.set_telos(FILES["telos.toml"] + f"[worktree]\nsetup = {json.dumps(setup)}\n")
    repository.script({})
    assert repository.build("sell", "--levels", "3-1").code == 0
    in_build = len(pids.read_text().split())
    assert in_build > 1
    assert repository("fork", "--at", "2").code == 0
    assert len(pids.read_text().split()) == in_build + 1
    assert repository.left_behind() == []
    assert not [pid for pid in pids.read_text().split() if psutil.pid_exists(int(pid))]


def test_a_setup_that_outlived_its_driver_is_ended_by_the_next_one(repository: Sandbox) -> None:
    # Over at once when it is tried, endless in the first worktree of the build.
    setup = f"case $PWD in *scratch*) exit 0;; esac; test -e {repository.wd.parent}/over || {{ touch ../begun; sleep 4242; }}"
    repository.set_telos(FILES["telos.toml"] + f"[worktree]\nsetup = {json.dumps(setup)}\n")
    driver = repository.start("build", "sell", "--levels", "3-1", "--simulate", str(repository.script({})))
    wait_for(lambda: [*repository.wd.glob(".telos/worktrees/*/begun")], process=driver)
    driver.kill()
    driver.wait(LAST_RESORT)
    assert any("sleep 4242" in words for words in repository.left_behind())
    (repository.wd.parent / "over").touch()
    assert repository.build("--resume").code == 0
    assert repository.left_behind() == []
