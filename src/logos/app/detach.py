"""A driver that outlives its terminal: starting it, and ending it in order."""

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.files import own_folder, refused, text_of_file
from logos.adapters.supervisor import identity, send
from logos.app.person import require_person
from logos.app.registry import place_of_run
from logos.app.runs import driven_run, load_run
from logos.app.workdir import Tell, WorkDir, driver_at, find_run, has_log, reading, say, stamp
from logos.domain.events import RunResumed, RunStarted
from logos.domain.turns import RunId
from logos.errors import Interrupted, LogError, LogosError, UsageError
from logos.views.run import RunView

_LOOK_SECONDS = 0.05
_REMIND_SECONDS = 10.0
# How the command line begins the line of an error.
_ERROR = "logos: "


@dataclass(frozen=True, slots=True)
class Detached:
    """A driver that was started, the run that it drives, and the file with its output."""

    place: Path
    run: RunId
    pid: int
    log: Path


def start_detached(place: Path, arguments: Sequence[str], tell: Tell = say, *, folder: Path | None = None) -> Detached:
    """Start `logos ARGUMENTS` in a session of its own; returns when its run is in the log.

    Raises the driver's own error, with its exit code, if it ends before that. Until then its output is told. `folder`
    is its current directory, where it looks for logos.json; without one, it is that of this process.
    """
    path = WorkDir(place).telos_dir / f"driver-{stamp()}-{os.getpid()}-{secrets.token_hex(3)}.log"
    before = _ends(place)
    # -P: a folder `logos` in the work dir is not this program.
    command = [sys.executable, "-P", "-m", "logos", *arguments]
    try:
        own_folder(path.parent)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as sink:
            driver = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True, cwd=folder
            )
    except OSError as error:
        raise refused(f"cannot start a driver with its output in {path}", error) from error
    # In a process that goes on, a killed driver would otherwise look alive until its parent has asked for its end.
    threading.Thread(target=driver.wait, name=f"driver {driver.pid}", daemon=True).start()
    told = 0
    try:
        while True:
            # A driver may start a run and end between the two looks: its end is asked for first.
            ended = driver.poll()
            run = _begun(place, before)
            if run is not None:
                return Detached(place, run, driver.pid, path)
            lines, error = _output(path)
            for line in lines[told:]:
                tell(line)
            told = len(lines)
            if ended is not None:
                raise _ended_early(error, ended)
            time.sleep(_LOOK_SECONDS)
    except Interrupted as error:
        error.add_note(f"the driver (pid {driver.pid}) goes on: `logos status` shows it, `logos stop` ends it")
        raise


def _output(path: Path) -> tuple[list[str], list[str]]:
    """The whole lines of a driver's output, before its error and from there on."""
    lines = text_of_file(path).split("\n")[:-1]
    first = next((number for number, line in enumerate(lines) if line.startswith(_ERROR)), len(lines))
    return lines[:first], lines[first:]


def _ended_early(error: Sequence[str], exit_code: int) -> LogosError:
    text, *hints = error or [f"the driver ended with exit code {exit_code} before its run began"]
    raised = LogosError(text.removeprefix(_ERROR))
    raised.exit_code = exit_code if exit_code >= 0 else 128 - exit_code
    for hint in hints:
        raised.add_note(hint)
    return raised


def _ends(place: Path) -> dict[RunId, int]:
    """The number of every run's last event."""
    if not has_log(place):
        return {}
    with reading(place, lambda _: None) as log:
        return {run: seq for run, (seq, _) in log.ends().items()}


def _begun(place: Path, before: dict[RunId, int]) -> RunId | None:
    """The run that a driver has started or resumed since."""
    # A log that is just being created cannot be read yet.
    with suppress(LogError, UsageError), reading(place, lambda _: None) as log:
        for run, (seq, _) in log.ends().items():
            new = log.read(run, before.get(run, 0) + 1) if seq > before.get(run, 0) else ()
            if any(isinstance(record.event, RunStarted | RunResumed) for record in new):
                return run
    return None


@dataclass(frozen=True, slots=True)
class StoppedDriver:
    """The driver that was ended, and its run as it left it; None if it had not begun one."""

    place: Path
    pid: int
    view: RunView | None


def stop(run: str | None = None, *, wd: Path | None = None, timeout: float = 60.0, tell: Tell = say) -> StoppedDriver:
    """End the driver of a work dir in order, as Ctrl-C would, and wait until it has ended; its run can be resumed."""
    place = place_of_run(run, wd)
    require_person(place, "stop a driver")
    pid, driven, wanted = driver_at(place), None, None
    if has_log(place):
        with reading(place) as log:
            driven, wanted = driven_run(place, log), find_run(log, run) if run is not None else None
    if pid is None:
        raise UsageError(f"no driver is running in {place}; `logos status` shows where its newest run stands")
    if wanted is not None and wanted != driven:
        doing = f"drives run {driven}" if driven is not None else "has not begun a run yet"
        raise UsageError(f"run {wanted} is not being driven: the driver (pid {pid}) in {place} {doing}")
    begun = identity(pid)[2]
    # Not by its pid alone: where it has just ended, that may be another process's now.
    if driver_at(place) == pid and not send(pid, begun, signal.SIGTERM) and driver_at(place) == pid:
        raise UsageError(f"the driver (pid {pid}) in {place} belongs to another user")
    _wait_for_end(place, pid, timeout, tell)
    if driven is None:
        return StoppedDriver(place, pid, None)
    with reading(place) as log:
        return StoppedDriver(place, pid, load_run(log, driven))


def _wait_for_end(place: Path, pid: int, timeout: float, tell: Tell) -> None:
    began = told = time.monotonic()
    while driver_at(place) == pid:
        now = time.monotonic()
        if now - began > timeout:
            raise LogosError(
                f"the driver (pid {pid}) was asked to stop and has not ended after {timeout:.0f} s; "
                f"`kill -9 {pid}` ends it at once, and its run can be resumed then, too"
            )
        if now - told > _REMIND_SECONDS:
            told = now
            tell(f"waiting for the driver (pid {pid}) to end, since {now - began:.0f} s")
        time.sleep(_LOOK_SECONDS)
