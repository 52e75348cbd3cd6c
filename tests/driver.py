"""A driver for tests: a real run in a process of its own that can be told to die, as by `kill -9`, at an exact event.

usage: python -m tests.driver        configured by the environment like the bare form, and by
    DIE_AFTER   the number of the event (in the log) after which the process kills itself, or `kind:count`
    DIE_BEFORE  the number of the event before whose appending it does
    DIE_BETWEEN the number of the event after whose appending, and before anybody hears of it, it does
    DIE_MIRRORED the number of the event after which, in the mirror and not yet in the database, it does
    DIE_BY      the name of the signal, if not SIGKILL: one that tells it to go
    DEATHS      a file of such instants by name, `before|between|after KIND SUBJECT` a line; each is died at once
    SCRIPT      a script for scripted agents; without it the CAO server at API is used
    FEATURE     what is to be built: a build by levels instead of a run of the cycle
    DIE_AT_ACT  the number of the act before which it does: a file opened to be written, moved or removed, a program started
    DIE_FROM    a file: acts are counted from when it is there, for a server that is asked later
    TREES       a file in which, with every event, it is noted what the work tree was: `LIFE RUN SEQ FINGERPRINT`
    LIFE        the name of this process in there
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from logos.adapters.hosts.scripted import ScriptedHost
from logos.adapters.store.chain import Row
from logos.adapters.store.sqlite import SqliteLog
from logos.app import start, workdir
from logos.app.hosts import Tell
from logos.app.setting_sources import load_settings
from logos.app.settings import Settings
from logos.cli import main as logos
from logos.domain.events import Event, Recorded, RunForked
from logos.domain.ledger import Ledger
from logos.domain.turns import RunId
from logos.engine.runner import RunResult
from logos.errors import Interrupted, LogosError
from logos.ports import AgentHost
from logos.signals import interruptible
from tests.torture.files import fingerprint, read_tree


def die() -> None:
    os.kill(os.getpid(), signal.Signals[os.environ.get("DIE_BY", "SIGKILL")])


@dataclass(frozen=True)
class Deaths:
    """Instants at which a process of this test dies; which of them are still to come is kept in a file."""

    file: Path

    def meet(self, when: str, event: Event) -> None:
        left = self.file.read_text().splitlines() if self.file.is_file() else []
        this = f"{when} {name_of(event)}"
        if this in left:
            self.file.write_text("\n".join(line for line in left if line != this))
            die()


def name_of(event: Event) -> str:
    """An event by what it is about: in which order parallel agents' events come is nobody's business."""
    return f"{event.kind} {getattr(event, 'turn', None) or getattr(event, 'agent', None) or ''}".strip()


class MortalWatcher:
    """Kills the process right after an event became durable and was projected."""

    def __init__(self, when: str) -> None:
        self.kind, _, count = when.rpartition(":")
        self.count = int(count)
        self.seen = 0

    def __call__(self, record: Recorded, state: object, ledger: Ledger) -> None:
        del state, ledger
        if self.kind:
            self.seen += record.event.kind == self.kind
            if self.seen == self.count:
                die()
        elif record.seq == self.count:
            die()


@dataclass(frozen=True)
class Trees:
    """What the work tree was at every event, noted the moment the event is durable."""

    file: Path
    work_dir: Path
    life: str

    def note(self, record: Recorded) -> None:
        tree = fingerprint(read_tree(self.work_dir))
        with self.file.open("a") as sink:
            sink.write(f"{self.life} {record.run} {record.seq} {tree}\n")


class MortalLog(SqliteLog):
    """Kills the process around an append: before it, or between the log and the state file."""

    before = 0
    between = 0
    mirrored = 0
    deaths = Deaths(Path())
    trees: Trees | None = None

    def append(self, run: RunId, event: Event, after: int) -> Recorded:
        self.deaths.meet("before", event)
        if after + 1 == self.before:
            die()
        record = super().append(run, event, after)
        if self.trees is not None:
            self.trees.note(record)
        self.deaths.meet("between", event)
        if record.seq == self.between:
            die()
        return record

    def _insert(self, run: RunId, rows: list[Row]) -> None:
        if rows[-1][0] == self.mirrored:
            die()
        super()._insert(run, rows)

    def fork(self, run: RunId, history: Iterable[Recorded], event: RunForked) -> Recorded:
        self.deaths.meet("before", event)
        record = super().fork(run, history, event)
        self.deaths.meet("between", event)
        return record


# What changes something outside the process. Files are told apart by what they are opened for.
ACTS = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "subprocess.Popen", "open"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def die_at_act(number: int, begins: str = "") -> None:
    """Kill the process before its n-th act from now on, or from when the file `begins` is there."""
    acts, lock = count(1), threading.Lock()

    def see(event: str, details: tuple[Any, ...]) -> None:
        if event not in ACTS or (event == "open" and not (isinstance(details[2], int) and details[2] & WRITING)):
            return
        if begins and not os.path.exists(begins):
            return
        # A server acts in several threads.
        with lock:
            if next(acts) == number:
                die()

    sys.addaudithook(see)


def scripted(settings: Settings, tell: Tell) -> AgentHost:
    del tell
    script = json.loads(Path(os.environ["SCRIPT"]).read_text())
    return ScriptedHost(settings.telos_dir / "scripted", script, settings.response_dir, settings.work_dir)


def drive() -> RunResult[Any]:
    settings, feature = load_settings(None, os.environ), os.environ.get("FEATURE")
    make_host = scripted if os.environ.get("SCRIPT") else None
    after, deaths = os.environ.get("DIE_AFTER"), Deaths(Path(os.environ.get("DEATHS", "")))
    watchers: list[Callable[[Recorded, Any, Ledger], None]] = [lambda record, *_: deaths.meet("after", record.event)]
    watchers += [MortalWatcher(after)] if after else []
    if feature:
        return start.build_here(settings, feature, make_host=make_host, watchers=watchers)
    return start.run_here(settings, bare=True, make_host=make_host, watchers=watchers)


def become_mortal() -> None:
    """What the environment says of this process's death."""
    MortalLog.before = int(os.environ.get("DIE_BEFORE") or 0)
    MortalLog.between = int(os.environ.get("DIE_BETWEEN") or 0)
    MortalLog.mirrored = int(os.environ.get("DIE_MIRRORED") or 0)
    MortalLog.deaths = Deaths(Path(os.environ.get("DEATHS", "")))
    if trees := os.environ.get("TREES"):
        MortalLog.trees = Trees(Path(trees), Path(os.environ["WD"]), os.environ.get("LIFE", ""))
    workdir.SqliteLog = MortalLog
    if act := os.environ.get("DIE_AT_ACT"):
        die_at_act(int(act), os.environ.get("DIE_FROM", ""))


def command(arguments: list[str]) -> int:
    """A command of a person's, in a process that is as mortal as a driver."""
    become_mortal()
    return logos(arguments)


def main() -> int:
    become_mortal()
    try:
        with interruptible():
            return drive().exit_code
    except (LogosError, Interrupted) as error:
        print(f"logos: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
