"""Sandboxes in which drivers are processes of their own, for agents on a real server and for real agent CLIs."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from logos.domain.events import Event, TurnAnswered
from tests.support.sandbox import Sandbox
from tests.support.waiting import LAST_RESORT, AnyProcess, wait_for

ROOT = Path(__file__).parents[2]
KILLED = -signal.SIGKILL
# An agent is reminded after so long without a response file: in most tests, none may be, however slow the machine is.
NO_REMINDER = {"IDLE_GRACE_SECONDS": str(LAST_RESORT)}

Kept = TypeVar("Kept", bound=Event)


@dataclass
class DrivenSandbox(Sandbox):
    """`environment` is all that a driver sees. What drivers say is in one file and is printed when a test fails."""

    drivers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def _said(self) -> Path:
        return self.wd.with_name(f"{self.wd.name}.driver.log")

    @property
    def said(self) -> str:
        return self._said.read_text() if self._said.exists() else ""

    def start_driver(self, **environment: str) -> subprocess.Popen[bytes]:
        """A run of the cycle, or of FEATURE, by `tests.driver`, which can be told when to die."""
        return self._spawn("tests.driver", cwd=ROOT, **environment)

    def drive(self, **environment: str) -> int:
        return self.start_driver(**environment).wait()

    def start_logos(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self._spawn("logos", *arguments, cwd=self.wd)

    def _spawn(self, module: str, *arguments: str, cwd: Path, **environment: str) -> subprocess.Popen[bytes]:
        env = {**self.environment, **environment}
        command = [sys.executable, "-m", module, *arguments]
        with self._said.open("ab") as log:
            driver = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.drivers.append(driver)
        return driver

    def kill(self, driver: subprocess.Popen[bytes]) -> None:
        driver.kill()
        assert driver.wait() == KILLED, "it had ended before"

    def close(self) -> None:
        for driver in self.drivers:
            if driver.poll() is None:
                driver.kill()
                driver.wait()
        super().close()
        print(self.said)

    def all_of(self, kind: type[Kept]) -> list[Kept]:
        """The events of a kind in all runs; none before there is a log."""
        events = [record.event for records in self.logs().values() for record in records]
        return [event for event in events if isinstance(event, kind)]

    def turns_answered(self) -> list[str]:
        return [event.turn for event in self.all_of(TurnAnswered)]

    def wait_until_sent(self, *turns: str, driver: AnyProcess) -> None:
        wait_for(lambda: self.sent(*turns), f"prompts of {turns}", process=driver)


@dataclass
class BuildSandbox(DrivenSandbox):
    """A repository in which `logos build` runs."""

    def start_build(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self.start_logos("build", *arguments)

    def worktree(self, name: str) -> Path:
        return self.wd / ".telos" / "worktrees" / self.run_id / name

    def response(self, name: str, turn: str) -> Path:
        return self.worktree(name) / ".tmp" / "agent-responses" / f"{turn}.md"

    def built(self) -> dict[str, str]:
        """What the build left as its branch, besides what was there before."""
        return self.changed("main", f"logos/{self.run_id}")

    def changed(self, before: str, after: str) -> dict[str, str]:
        names = self.git("diff", "--name-only", before, after).split()
        return {name: f"{self.git('show', f'{after}:{name}')}\n" for name in names}

    def check_repository_is_clean(self) -> None:
        """Nothing of a build is left but its branch."""
        refs = self.git("for-each-ref", "--format=%(refname)", "refs/heads").split()
        assert refs == [f"refs/heads/logos/{self.run_id}", "refs/heads/main"]
        assert len(self.git("worktree", "list").splitlines()) == 1
        assert not (self.wd / ".telos" / "worktrees").exists()
        assert self.git("status", "--porcelain", "--untracked-files=all") == ""
