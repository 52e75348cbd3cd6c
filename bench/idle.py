"""What a driver costs while its agents think: processor time and wake-ups of the whole process."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from measure import NOWHERE, PROMPT, begin_repository, milliseconds, row

from logos.testing import script
from logos.testing.cao_server import FakeCao

LOGOS = str(Path(sys.executable).parent / "logos")
SETTLE_SECONDS = 3.0
WATCH_SECONDS = 15.0
THINKING_SECONDS = 600.0
START_SECONDS = 60.0
TARGET = 0.002
AUTHORS = ("one", "two", "three", "four")


@dataclass(frozen=True, slots=True)
class Used:
    """What a process used up to now: seconds of processors, and how often one of its threads was woken."""

    cpu: float
    wakeups: int

    def __sub__(self, other: Used) -> Used:
        return Used(self.cpu - other.cpu, self.wakeups - other.wakeups)


def used_by(process: psutil.Process) -> Used:
    """Read per thread: the process's own counters have ticks of 10 ms, and switches of its first thread only."""
    tasks = Path(f"/proc/{process.pid}/task")
    if not tasks.is_dir():
        times = process.cpu_times()
        return Used(times.user + times.system, process.num_ctx_switches().voluntary)
    cpu, wakeups = 0, 0
    for task in tasks.iterdir():
        # A thread may end between the listing and the look.
        with suppress(OSError):
            cpu += int((task / "schedstat").read_text().split()[0])
            said = (task / "status").read_text()
            wakeups += int(said.partition("voluntary_ctxt_switches:")[2].split()[0])
    return Used(cpu / 1e9, wakeups)


@contextmanager
def driver(wd: Path, *arguments: str, env: Mapping[str, str], terminal: bool) -> Generator[psutil.Process]:
    """A driver in a process of its own; `terminal`: it draws the live view on a pseudo-terminal."""
    leader, follower = pty.openpty()
    with open(os.devnull, "wb") as nowhere:
        child = subprocess.Popen(
            [LOGOS, *arguments],
            cwd=wd,
            env={**os.environ, "TERM": "xterm", **env},
            stdin=subprocess.DEVNULL,
            stdout=nowhere,
            stderr=follower if terminal else nowhere,
        )
    os.close(follower)
    threading.Thread(target=_drain, args=(leader,), daemon=True).start()
    try:
        yield psutil.Process(child.pid)
    finally:
        child.terminate()
        child.wait(START_SECONDS)


def _drain(leader: int) -> None:
    with suppress(OSError):
        while os.read(leader, 65_536):
            pass
    os.close(leader)


def watched(process: psutil.Process, wd: Path, turns: int) -> Used:
    """What a driver uses in a minute, from the time on that `turns` turns are in agents' hands."""
    until = time.monotonic() + START_SECONDS
    while in_flight(wd) < turns:
        if time.monotonic() > until or not process.is_running():
            raise RuntimeError(f"the driver has not asked {turns} agents")
        time.sleep(0.5)
    time.sleep(SETTLE_SECONDS)
    began, before = time.monotonic(), used_by(process)
    time.sleep(WATCH_SECONDS)
    used, seconds = used_by(process) - before, time.monotonic() - began
    return Used(used.cpu * 60 / seconds, round(used.wakeups * 60 / seconds))


def in_flight(wd: Path) -> int:
    """How many turns agents have, as `logos status` says."""
    done = subprocess.run([LOGOS, "status", "--json", "--wd", wd], capture_output=True, check=False)
    with suppress(ValueError):
        return len(json.loads(done.stdout).get("in_flight", ()))
    return 0


def show(what: str, used: Used) -> None:
    share = used.cpu / 60
    met = "met" if share < TARGET else "missed"
    row(
        f"idle minute of a driver, {what}",
        milliseconds(used.cpu),
        f"{share:.2%} of a core, target < {TARGET:.1%}: {met}; {used.wakeups / 60:.1f} wake-ups per second",
    )


def idle_cycle() -> None:
    """A cycle whose first agent thinks, on each host; and with the live view on a terminal."""
    for what, terminal in (("cycle on a CAO server", False), ("cycle on a CAO server, live view", True)):
        with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
            wd = Path(folder)
            with FakeCao(wd / ".tmp" / "agent-responses", script(), turn_seconds=THINKING_SECONDS) as cao:
                env = {"WD": folder, "API": cao.url, "PROMPT": PROMPT}
                with driver(wd, "run", env=env, terminal=terminal) as process:
                    show(what, watched(process, wd, 1))
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        wd = Path(folder)
        (wd / "script.json").write_text(json.dumps({"agents": {"analyst": [{"delay": THINKING_SECONDS}]}}))
        env = {"WD": folder, "API": NOWHERE, "PROMPT": PROMPT}
        with driver(wd, "run", "--simulate", "script.json", env=env, terminal=False) as process:
            show("cycle, scripted agents", watched(process, wd, 1))


def idle_build() -> None:
    """A build whose four authors think at the same time."""
    components = [
        {"name": name, "purpose": "a part", "files": [], "provides": [], "depends_on": []} for name in AUTHORS
    ]
    agents = {
        "L3.decompose": [{"report": {"components": components}}],
        "L2": [{"delay": THINKING_SECONDS}],
    }
    for what, terminal in (("build with four authors", False), ("build with four authors, live view", True)):
        with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
            wd = Path(folder)
            (wd / "telos.toml").write_text('purpose = "to be measured"\n')
            (wd / "script.json").write_text(json.dumps({"agents": agents}))
            begin_repository(wd)
            env = {"WD": folder, "BUILD_MAX_PARALLEL": str(len(AUTHORS)), "LEVELS": "3,2"}
            words = ("build", "measure it", "--simulate", "script.json")
            with driver(wd, *words, env=env, terminal=terminal) as process:
                show(what, watched(process, wd, len(AUTHORS)))
