"""Our commands as processes of their own that start at once: forked from a process that has read our modules already.

What such a process does from its first line on is what an executed one does; only reading the modules is left out,
which takes more time than most commands. Where the start itself matters, a test executes the program.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, suppress
from functools import cache
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from subprocess import TimeoutExpired
from typing import IO, Any, Self

# A process looks at these when Python begins, so one that is forked would not see them.
_READ_AT_START = ("PYTHON", "LC_", "LANG", "TZ")

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        # Without it, every process would read pytest where pytest was started by its name.
        "__main__",
        *("tests.support.drivers", "logos.adapters.reports", "typer.main", "logos.cli.app", "logos.cli.output.console"),
        *("logos.app.debug_log", "rich.progress", "rich.table", "logos.web.server"),
        *(f"logos.cli.{command}" for command in ("run", "build", "resume", "status", "rollback", "fork")),
    ]
)


def can_be_forked(environment: Mapping[str, str]) -> bool:
    """Whether these variables change nothing that was decided when the process to fork from began."""
    read = {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}
    # Without a locale, Python takes this one.
    return all(value in ("C.UTF-8", os.environ.get(name)) for name, value in read.items())


@cache
def _begin_server() -> None:
    """In a folder that is no test's: what is forked begins there, and a test looks for processes in its own."""
    with chdir(Path(__file__).parents[2]):
        forkserver.ensure_running()


class _Handle:
    """An open file on its way to a process that is forked."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _received, (DupFd(self.number),)


def _received(sent: Any) -> int:
    return sent.detach()


class Forked:
    """A process with the methods and attributes of `subprocess.Popen` that tests use; it leads a session."""

    def __init__(self, module: str, arguments: Sequence[str | Path], cwd: Path, env: Mapping[str, str]) -> None:
        _begin_server()
        (out, told_out), (err, told_err) = os.pipe(), os.pipe()
        words, handles = [str(word) for word in arguments], (_Handle(told_out), _Handle(told_err))
        self.args = [module, *words]
        self._process: BaseProcess = PROCESSES.Process(
            target=_live, args=(module, words, str(cwd), dict(env), handles), daemon=True
        )
        self._process.start()
        os.close(told_out)
        os.close(told_err)
        self.stdin = None
        self.stdout: IO[str] | None = open(out, encoding="utf-8")  # noqa: SIM115 - closed at the end
        self.stderr: IO[str] | None = open(err, encoding="utf-8")  # noqa: SIM115 - closed at the end

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired(self.args, timeout or 0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it says until nobody holds its output any more, and its end."""
        said: dict[str, str] = {}

        def listen(name: str, source: IO[str]) -> None:
            said[name] = source.read()

        sources = {"out": self.stdout, "err": self.stderr}
        listeners = [threading.Thread(target=listen, args=(name, it), daemon=True) for name, it in sources.items()]
        for listener in listeners:
            listener.start()
        for listener in listeners:
            listener.join(timeout)
            if listener.is_alive():
                raise TimeoutExpired(self.args, timeout or 0)
        self.wait(timeout)
        self._close()
        return said["out"], said["err"]

    def send_signal(self, number: int) -> None:
        if self._process.exitcode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait()

    def _close(self) -> None:
        for source in (self.stdout, self.stderr):
            if source is not None:
                source.close()


def _live(module: str, arguments: list[str], cwd: str, env: dict[str, str], handles: tuple[int, int]) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, handle in enumerate((os.open(os.devnull, os.O_RDONLY), *handles)):
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115 - as Python opens them
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
