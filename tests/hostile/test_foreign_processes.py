"""Pids in files that name somebody else's process: after a reboot, in another container, or forged. Nobody signals it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from logos.adapters.commands import end, end_left_over, exit_code, start, supervisor_of
from logos.adapters.lock import driver_lock, driver_of
from logos.adapters.supervisor import identity
from tests.hostile.conftest import Victim
from tests.support.sandbox import PROMPT, Sandbox
from tests.support.waiting import LAST_RESORT, wait_for

HANGS = {"analyst": [{"fault": "hang"}, {}]}


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """Somebody's daemon, with its own group."""
    process = subprocess.Popen(["sleep", "4242"], start_new_session=True)
    yield process
    assert process.poll() is None, "it was ended"
    process.kill()
    process.wait(LAST_RESORT)


TOKEN = "0" * 32
# What the file may contain about a stranger's process.
FORGED: dict[str, Callable[[int], str]] = {
    "a pid alone, as earlier versions wrote it": str,
    "its own identity": lambda pid: f"{pid} {TOKEN} {' '.join(identity(pid))}",
    "one of its arguments as token": lambda pid: f"{pid} 4242 {' '.join(identity(pid))}",
    "another boot": lambda pid: f"{pid} {TOKEN} another {' '.join(identity(pid)[1:])}",
    "no identity": lambda pid: f"{pid} {TOKEN} - - -",
}


def interrupted(sandbox: Sandbox, stranger: int, forged: str) -> Path:
    """A run whose driver and agent were killed; its pid file now names the stranger."""
    sandbox.set(PROMPT=PROMPT, RESPONSE_TIMEOUT="3000")
    driver = sandbox.start("run", "--simulate", str(sandbox.script(HANGS)))
    sandbox.wait_for_event("turn_sent", "analyst", process=driver)
    (pid,) = wait_for(lambda: [*sandbox.wd.glob(".telos/scripted/*/turn-1/pid")])
    driver.kill()
    driver.wait(LAST_RESORT)
    end(pid.parent)
    (pid.parent / "exit").unlink(missing_ok=True)
    pid.write_text(FORGED[forged](stranger))
    return pid


GC = ("gc", "--keep-days", "0", "--keep-runs", "0")
CASES = [*((("reset",), forged) for forged in FORGED), (("rollback", "1"), [*FORGED][1]), (GC, [*FORGED][1])]


@pytest.mark.parametrize(("command", "forged"), CASES)
def test_no_command_ends_a_strangers_process(
    sandbox: Sandbox, stranger: subprocess.Popen[bytes], command: tuple[str, ...], forged: str
) -> None:
    interrupted(sandbox, stranger.pid, forged)
    done = sandbox(*command)
    assert done.code == 0, done.err
    assert stranger.poll() is None


# What an agent may write into the lock of a work dir about a process that does not hold it.
LOCKS: dict[str, Callable[[int], str]] = {
    "a pid alone, as earlier versions wrote it": str,
    "its own identity": lambda pid: f"{pid} {' '.join(identity(pid))}",
}
FORGED_END = {"kind": "run_ended", "outcome": "PASSED", "verified": True}


@pytest.mark.parametrize("forged", LOCKS)
@pytest.mark.parametrize("command", [("stop",), ("reset",), ("rollback", "1"), ("tell", "{run}", "go on"), ("status",)])
def test_a_stranger_that_a_lock_names_is_no_driver(
    victim: Victim, stranger: subprocess.Popen[bytes], command: tuple[str, ...], forged: str
) -> None:
    """It is not ended, nobody waits for it, and no record is believed because it is there."""
    victim.stop_at("turn_answered", 2)
    victim.insert(FORGED_END)
    lock = victim.wd / ".telos" / "driver.lock"
    lock.write_text(LOCKS[forged](stranger.pid))
    done = victim(*(word.format(run=victim.run_id) for word in command))
    assert driver_of(lock) is None
    assert done.code == (2 if command == ("stop",) else 0), done.err
    assert stranger.poll() is None
    if command == ("stop",):
        assert "no driver is running" in done.err
    if command == ("status",):
        assert "PASSED" not in done.out
        assert str(stranger.pid) not in done.out


def test_a_resumed_run_neither_waits_for_a_stranger_nor_ends_it(
    sandbox: Sandbox, stranger: subprocess.Popen[bytes]
) -> None:
    interrupted(sandbox, stranger.pid, "its own identity")
    script = sandbox.script({})
    # It would wait for an hour.
    done = sandbox("run", "--resume", "--simulate", str(script))
    assert done.code == 0, done.err
    assert sandbox.asked.count("r1.analyst.c1") == 1
    assert stranger.poll() is None


def test_a_driver_that_is_interrupted_leaves_a_stranger_alone(
    sandbox: Sandbox, stranger: subprocess.Popen[bytes]
) -> None:
    sandbox.set(PROMPT=PROMPT)
    driver = sandbox.start("run", "--simulate", str(sandbox.script(HANGS)))
    (pid,) = wait_for(lambda: [*sandbox.wd.glob(".telos/scripted/*/turn-1/pid")], process=driver)
    pid.write_text(FORGED["its own identity"](stranger.pid))
    driver.send_signal(signal.SIGINT)
    assert driver.wait(LAST_RESORT) == 130
    assert stranger.poll() is None
    assert sandbox.left_behind() == []


def test_a_left_over_check_with_a_strangers_pid_is_only_forgotten(
    tmp_path: Path, stranger: subprocess.Popen[bytes]
) -> None:
    folder = tmp_path / "checks" / "0000"
    folder.mkdir(parents=True)
    (folder / "pid").write_text(FORGED["its own identity"](stranger.pid))
    assert end_left_over(tmp_path / "checks", tmp_path) == 0
    assert not folder.exists()


def test_a_supervisor_of_another_folder_is_a_stranger(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    child = start(theirs, ["sleep", "4242"], tmp_path, os.environ)
    wait_for(lambda: supervisor_of(theirs))
    shutil.copy(theirs / "pid", ours / "pid")
    assert supervisor_of(ours) is None
    end(theirs, child)


@pytest.mark.parametrize("word", range(5), ids=["pid", "token", "boot", "pid namespace", "start"])
def test_a_supervisor_of_which_the_file_says_something_else_is_a_stranger(tmp_path: Path, word: int) -> None:
    child = start(tmp_path, ["sleep", "4242"], tmp_path, os.environ)
    wait_for(lambda: supervisor_of(tmp_path))
    noted = (tmp_path / "pid").read_text()
    words = noted.split()
    words[word] = str(os.getpid()) if word == 0 else "9" * len(words[word])
    try:
        (tmp_path / "pid").write_text(" ".join(words))
        assert supervisor_of(tmp_path) is None
    finally:
        (tmp_path / "pid").write_text(noted)
        end(tmp_path, child)


UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc")


@pytest.fixture
def in_container() -> tuple[str, ...]:
    """The start of a command in another pid namespace, as in a container that shares the work dir."""
    works = shutil.which("unshare") and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False)
    if not works or works.returncode:
        if os.environ.get("CI"):
            pytest.fail("this system makes no pid namespaces")
        pytest.skip("this system makes no pid namespaces")
    return UNSHARE


SUPERVISE = """
import sys
from pathlib import Path
from logos.adapters.commands import start, end, supervisor_of
folder = Path(sys.argv[1])
child = start(folder, ["sleep", "4242"], folder, {})
while supervisor_of(folder) is None:
    pass
print("started", flush=True)
sys.stdin.read()
end(folder, child)
"""
LOOK = """
import sys
from pathlib import Path
from logos.adapters.commands import end, supervisor_of
from logos.adapters.lock import driver_of
print(supervisor_of(Path(sys.argv[1])), driver_of(Path(sys.argv[2])))
end(Path(sys.argv[1]))
"""


def test_a_command_of_another_container_is_neither_found_nor_ended_here(
    tmp_path: Path, in_container: tuple[str, ...]
) -> None:
    program = [*in_container, sys.executable, "-c", SUPERVISE, str(tmp_path)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "started\n"
        # Its pid is a small number: here, that is somebody else.
        assert os.path.exists(f"/proc/{(tmp_path / 'pid').read_text().split()[0]}")
        assert supervisor_of(tmp_path) is None
        end(tmp_path)
        assert exit_code(tmp_path) is None
        other.communicate(timeout=LAST_RESORT)
    assert exit_code(tmp_path) == -signal.SIGTERM, "it was ended where it ran"


def test_a_command_and_a_driver_of_this_machine_are_strangers_in_a_container(
    tmp_path: Path, in_container: tuple[str, ...]
) -> None:
    folder, lock = tmp_path / "turn", tmp_path / ".telos" / "driver.lock"
    folder.mkdir()
    child = start(folder, ["sleep", "4242"], tmp_path, os.environ)
    with driver_lock(lock):
        wait_for(lambda: supervisor_of(folder))
        assert driver_of(lock) == os.getpid()
        program = [*in_container, sys.executable, "-c", LOOK, str(folder), str(lock)]
        said = subprocess.run(program, stdout=subprocess.PIPE, check=True, text=True, timeout=LAST_RESORT).stdout
    assert said == "None None\n"
    assert supervisor_of(folder) == child.pid
    end(folder, child)


def test_a_driver_whose_clock_is_set_is_still_the_driver(tmp_path: Path) -> None:
    lock = tmp_path / ".telos" / "driver.lock"
    with driver_lock(lock):
        for at in (0, 10**9, 10**11):
            os.utime(lock, (at, at))
            assert driver_of(lock) == os.getpid()


def test_an_agent_is_still_found_when_the_clock_is_set(tmp_path: Path) -> None:
    child = start(tmp_path, ["sleep", "4242"], tmp_path, os.environ)
    wait_for(lambda: supervisor_of(tmp_path))
    for at in (0, 10**9, 10**11):
        os.utime(tmp_path / "pid", (at, at))
        assert supervisor_of(tmp_path) == child.pid
    end(tmp_path, child)
