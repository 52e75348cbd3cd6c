"""A driver for tests: a real run in a process of its own that can be told to die, as by `kill -9`, at an exact event.

usage: python -m tests.driver        configured by the environment like the bare form, and by
    DIE_AFTER   the number of the event (in the log) after which the process kills itself, or `kind:count`
    DIE_BEFORE  the number of the event before whose appending it does
    SCRIPT      a script for scripted agents; without it the CAO server at API is used
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from logos.adapters.scripted import ScriptedHost
from logos.adapters.sqlite import SqliteLog
from logos.cli import wiring
from logos.domain.events import Event, Recorded
from logos.domain.ledger import Ledger
from logos.domain.turns import RunId
from logos.errors import LogosError
from logos.flows.cycle import CycleState
from logos.ports import AgentHost
from logos.runtime.settings import Settings, load_settings
from logos.runtime.signals import interruptible


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class MortalWatcher:
    """Kills the process right after an event became durable and was projected."""

    def __init__(self, when: str) -> None:
        self.kind, _, count = when.rpartition(":")
        self.count = int(count)
        self.seen = 0

    def __call__(self, record: Recorded, state: CycleState, ledger: Ledger) -> None:
        del state, ledger
        if self.kind:
            self.seen += record.event.kind == self.kind
            if self.seen == self.count:
                die()
        elif record.seq == self.count:
            die()


class MortalLog(SqliteLog):
    """Kills the process around an append: before it, or between the log and the state file."""

    before = 0
    between = 0

    def append(self, run: RunId, event: Event, after: int) -> Recorded:
        if after + 1 == self.before:
            die()
        record = super().append(run, event, after)
        if record.seq == self.between:
            die()
        return record


def scripted(settings: Settings, tell: wiring.Tell) -> AgentHost:
    del tell
    script = json.loads(Path(os.environ["SCRIPT"]).read_text())
    return ScriptedHost(settings.telos_dir / "scripted", script, settings.response_dir, settings.work_dir)


def main() -> int:
    MortalLog.before = int(os.environ.get("DIE_BEFORE") or 0)
    MortalLog.between = int(os.environ.get("DIE_BETWEEN") or 0)
    wiring.SqliteLog = MortalLog
    after = os.environ.get("DIE_AFTER")
    try:
        with interruptible():
            ended = wiring.run_here(
                load_settings(None, os.environ),
                strict_prompt=False,
                make_host=scripted if os.environ.get("SCRIPT") else None,
                watchers=[MortalWatcher(after)] if after else [],
            )
    except LogosError as error:
        print(f"logos: {error}", file=sys.stderr)
        return error.exit_code
    return ended.exit_code


if __name__ == "__main__":
    sys.exit(main())
