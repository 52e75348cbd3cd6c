"""What commands cost: processor time at start, and how often each folds and reads the log."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from measure import NOWHERE, PROMPT, begin_repository, milliseconds, row, settings_for

from logos.adapters.hosts.local import LocalHost
from logos.adapters.hosts.providers import Permission
from logos.app.start import run_here
from logos.testing import FAIL, ScriptedAgents, script

LOGOS = str(Path(sys.executable).parent / "logos")
TIMES = 9
EVENTS = 400
TURNS, TURN_BYTES = 8, 2_000_000
# Counts calls in a command's process, whatever module they are in: a fold applies every event of a log once, a read
# decodes every event once. The counts go to the last line of standard error.
COUNTER = """
import sys, threading
counts = {"fold": 0, "read": 0, "report": 0}
def count(frame, kind, _):
    if kind == "call":
        code = frame.f_code
        if code.co_qualname in ("Cycle.apply", "Levels.apply"):
            counts["fold"] += 1
        elif code.co_name == "decode" and frame.f_globals["__name__"] == "logos.adapters.store.sqlite":
            counts["read"] += 1
        elif code.co_name == "read_report":
            counts["report"] += 1
threading.setprofile(count)
sys.setprofile(count)
from logos.cli import main
main(sys.argv[1:])
sys.setprofile(None)
import json
print(json.dumps(counts), file=sys.stderr)
"""


def start_up() -> None:
    """A command in a process of its own, beside an interpreter that does nothing."""
    bare = cpu_of([sys.executable, "-c", "pass"])
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        unfinished_run(Path(folder), 40)
        for words, target in ((("--help",), 0.15), (("status",), 0.35), (("log",), 0.35), (("runs",), 0.35)):
            at = () if words == ("--help",) else ("--wd", folder)
            used = cpu_of([LOGOS, *words, *at])
            met = "met" if used < target else "missed"
            row(
                f"CPU of logos {' '.join(words)}",
                milliseconds(used),
                f"bare interpreter {milliseconds(bare)}, target < {milliseconds(target)}: {met}, n={TIMES}",
            )


# A process starts with the peak of the one it was forked from, so a small one starts the command.
_PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def peak_of(command: Sequence[str], env: Mapping[str, str]) -> int:
    """The most memory, in bytes, that a command or a program that it waited for has used."""
    return int(subprocess.check_output([sys.executable, "-IS", "-c", _PEAK, *command], env=dict(env)))


def cpu_of(command: Sequence[str], times: int = TIMES) -> float:
    """The median of seconds of processors; they hardly depend on what else the machine does."""
    # As installed: the first call, which is not counted, leaves the bytecode of what changed since the last one.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    samples: list[float] = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        samples.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(samples)


def unfinished_run(wd: Path, events: int) -> None:
    """A cycle whose tests fail again and again, interrupted after so many events."""

    def interrupt(record: object, *_: object) -> None:
        if getattr(record, "seq", 0) >= events:
            raise KeyboardInterrupt

    agents = ScriptedAgents(wd / ".tmp" / "agent-responses", script(tester=[FAIL]))
    settings = settings_for(wd, NOWHERE, MAX_ROUNDS="1000")
    with suppress(KeyboardInterrupt):
        run_here(settings, bare=True, make_host=lambda *_: agents, watchers=[interrupt], tell=lambda _text: None)


def folds() -> None:
    """How often a command folds and reads a log of a run; what it adds to the log itself is not counted."""
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        run = Path(folder) / "run"
        run.mkdir()
        unfinished_run(run, EVENTS)
        (run / "script.json").write_text(json.dumps({"agents": {}}))
        for words in (
            ("status",),
            ("log",),
            ("report",),
            ("resume", "--recreate", "--simulate", "script.json"),
            ("rollback", str(EVENTS)),
        ):
            wd = Path(folder) / words[0]
            shutil.copytree(run, wd)
            count(wd, words)
        build = Path(folder) / "build"
        finished_build(build)
        for words in (("status",), ("report",)):
            count(build, words, " of a build")


def finished_build(wd: Path) -> None:
    """A build of four components by scripted agents."""
    wd.mkdir()
    components = [
        {"name": f"part{number}", "purpose": "a part", "files": [], "provides": [], "depends_on": []}
        for number in range(4)
    ]
    (wd / "telos.toml").write_text('purpose = "to be measured"\n')
    (wd / "script.json").write_text(json.dumps({"agents": {"L3.decompose": [{"report": {"components": components}}]}}))
    begin_repository(wd)
    words = [LOGOS, "build", "measure it", "--simulate", "script.json"]
    subprocess.run(words, cwd=wd, check=True, capture_output=True)


def count(wd: Path, words: Sequence[str], of: str = "") -> None:
    events = events_in(wd)
    env = {**os.environ, "API": NOWHERE, "PROMPT": PROMPT, "MAX_ROUNDS": "1000"}
    done = subprocess.run(
        [sys.executable, "-c", COUNTER, *words], cwd=wd, env=env, capture_output=True, text=True, check=True
    )
    counts = json.loads(done.stderr.splitlines()[-1])
    added = events_in(wd) - events if words[0] == "resume" else 0
    row(
        f"log folds of logos {words[0]}{of}",
        f"{(counts['fold'] - added) / events:.1f}",
        f"reads {counts['read'] / events:.1f}, level reports parsed {counts['report']}; {events} events",
    )


def events_in(wd: Path) -> int:
    with closing(sqlite3.connect(wd / ".telos" / "logos.db")) as db:
        return int(db.execute("SELECT count(*) FROM events").fetchone()[0])


def local_looks() -> None:
    """A look at an agent on the local host that has said a lot: its status, and what went wrong, if anything."""
    line = json.dumps({"type": "item.completed", "item": {"type": "command_execution", "output": "x" * 900}}) + "\n"
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        root, programs = Path(folder) / "host", Path(folder) / "bin"
        programs.mkdir()
        (programs / "codex").touch(0o755)
        host = LocalHost(
            root,
            root,
            {"PATH": str(programs)},
            permission_of=lambda _profile: Permission.RESPOND,
            profile_text=lambda _profile: "",
            is_supervised=lambda _turn: True,
        )
        terminal = host.create_terminal("local", "tester", provider="codex")["id"]
        for number in range(1, TURNS + 1):
            turn = root / terminal / f"turn-{number}"
            turn.mkdir()
            (turn / "out").write_text(line * (TURN_BYTES // len(line)))
            (turn / "err").touch()
            (turn / "pid").touch()
            if number < TURNS:
                (turn / "exit").write_text("0")
        samples: list[float] = []
        for _ in range(TIMES):
            before = resource.getrusage(resource.RUSAGE_SELF)
            host.get_status(terminal)
            host.provider_error(terminal)
            after = resource.getrusage(resource.RUSAGE_SELF)
            samples.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    row(
        f"CPU of a look on the local host, {TURNS} turns of {TURN_BYTES / 1e6:.0f} MB",
        milliseconds(statistics.median(samples)),
        f"the first {milliseconds(samples[0])}, n={TIMES}",
    )
