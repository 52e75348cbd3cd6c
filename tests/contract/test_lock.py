"""One driver per work dir: real processes, one of them killed."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logos.adapters.lock import driver_lock, driver_of, holder
from logos.errors import Busy
from tests.support.waiting import LAST_RESORT as PATIENCE

HOLDER = """
import sys
from pathlib import Path
from logos.adapters.lock import driver_lock
with driver_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".telos" / "driver.lock"


@contextmanager
def another_driver(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.communicate(timeout=PATIENCE)


def test_a_lock_held_by_another_process_is_an_error_that_names_it(path: Path) -> None:
    with another_driver(path) as other:
        with pytest.raises(Busy, match=rf"\b{other.pid}\b") as caught, driver_lock(path):
            pass
        assert str(path.parent.parent) in str(caught.value)
        assert holder(path) == other.pid


def test_a_lock_that_was_refused_can_be_had_once_it_is_free(path: Path) -> None:
    with another_driver(path), pytest.raises(Busy), driver_lock(path):
        pass
    with driver_lock(path):
        assert driver_of(path) == os.getpid()


def test_the_lock_of_a_driver_that_was_killed_is_taken_over(path: Path) -> None:
    with another_driver(path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait(PATIENCE)
        assert driver_of(path) is None
        with driver_lock(path):
            assert holder(path) == driver_of(path) == os.getpid()


def test_the_lock_of_a_killed_driver_is_awaited_while_its_last_child_starts(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    path.write_text(str(dead.pid))
    child = os.open(path, os.O_RDWR)
    fcntl.flock(child, fcntl.LOCK_EX)
    with driver_lock(path, pause=lambda _seconds: fcntl.flock(child, fcntl.LOCK_UN)):
        assert driver_of(path) == os.getpid()
    os.close(child)


def test_a_lock_that_is_just_given_back_is_awaited(path: Path) -> None:
    """Its file names nobody any more, or nobody yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with driver_lock(path, pause=lambda _seconds: os.close(handle)):
        assert holder(path) == os.getpid()


def test_a_second_lock_in_the_same_process_is_refused_too(path: Path) -> None:
    with driver_lock(path):
        with pytest.raises(Busy, match=rf"\b{os.getpid()}\b"), driver_lock(path):
            pass
        assert driver_of(path) == os.getpid()


def test_a_lock_is_given_back_whatever_happens_inside(path: Path) -> None:
    with pytest.raises(RuntimeError), driver_lock(path):
        raise RuntimeError
    assert driver_of(path) is None
    with driver_lock(path):
        pass


def test_a_child_process_does_not_inherit_the_lock(path: Path) -> None:
    child = None
    try:
        with driver_lock(path):
            child = subprocess.Popen(["sleep", "600"], close_fds=False)
        assert driver_of(path) is None
        with driver_lock(path):
            pass
    finally:
        if child is not None:
            child.kill()
            child.wait()


def test_the_driver_of_a_folder_is_whoever_holds_its_lock(path: Path) -> None:
    assert driver_of(path) is None
    with another_driver(path) as other:
        assert driver_of(path) == other.pid
    assert driver_of(path) is None
    assert path.exists()


@pytest.mark.parametrize("content", [b"", b"no pid", b"\xff\xfe", b"-5", b"12 34"])
def test_a_lock_file_with_anything_in_it_is_no_lock(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    assert holder(path) is None
    assert driver_of(path) is None
    with driver_lock(path):
        assert holder(path) == os.getpid()


def test_a_stale_longer_pid_is_overwritten_whole(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("99999999999999")
    with driver_lock(path):
        assert holder(path) == os.getpid()


def test_the_lock_is_its_owners_alone_and_hidden_from_git(path: Path) -> None:
    with driver_lock(path):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert (path.parent / ".gitignore").read_text() == "*\n"


def test_looking_who_drives_never_keeps_a_driver_out(path: Path) -> None:
    with driver_lock(path):
        pass
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            driver_of(path)

    watchers = [threading.Thread(target=look, daemon=True) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(500):
            with driver_lock(path):
                pass
    finally:
        stop.set()
        for watcher in watchers:
            watcher.join(PATIENCE)


def test_busy_says_it_in_one_line(path: Path) -> None:
    with driver_lock(path), pytest.raises(Busy) as caught, driver_lock(path):
        pass
    assert re.fullmatch(r"[^\n]+", str(caught.value))
