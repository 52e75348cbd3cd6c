"""Runs to look at: made by the commands a person uses, with agents by script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.old_runs import restore
from tests.support.sandbox import Json, Sandbox
from tests.support.waiting import until_exists, wait_for

WRONG = {"greet.py": "def greet(name):\n    return 'hello'\n"}
RIGHT = {"greet.py": "def greet(name):\n    return f'hello {name}'\n"}
TEST = "import unittest\nfrom greet import greet\n\n\nclass Greet(unittest.TestCase):\n    def test_by_name(self):\n        self.assertEqual(greet('Ada'), 'hello Ada')\n"
PAID = {"input": 42_000, "cached": 30_000, "output": 2_100, "cost_usd": 0.18}
TESTER = {"run": "python3 -m unittest", "say": "RESULT: {verdict}\nEVIDENCE:\n{output}", "usage": PAID}
SETTINGS = ("--test", "python3 -m unittest", "--set", "limits.min_review_cycles_before_approval=1")


class Runs:
    """Work dirs with one run each, below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: list[Sandbox] = []

    def close(self) -> None:
        for sandbox in self._made:
            sandbox.close()

    def sandbox(self, name: str) -> Sandbox:
        made = Sandbox.of_repository(self.folder / name / "work", {"greet.py": "def greet(name):\n    return 'hi'\n"})
        self._made.append(made)
        return made

    def script(self, sandbox: Sandbox, **agents: Any) -> Path:
        """The first round fails, the second passes; `agents` replaces the steps of a role."""
        steps = {
            "analyst": [{"usage": PAID}],
            "programmer": [
                {"edit": {**WRONG, "test_greet.py": TEST}, "usage": PAID},
                {"edit": RIGHT, "usage": PAID},
            ],
            "tester": [TESTER],
        }
        return sandbox.script({**steps, **agents})

    def finished(self, name: str = "finished", what: str = "Greet people by their name") -> tuple[Sandbox, str]:
        sandbox = self.sandbox(name)
        script = self.script(sandbox)
        done = sandbox.apart("run", what, *SETTINGS, "--simulate", str(script))
        assert done.code == 0, done.err
        return sandbox, self.run_of(sandbox)

    def live(self, name: str = "live", what: str = "Greet people politely", **agents: Any) -> tuple[Sandbox, str, Path]:
        """A run whose programmer works until the file that is returned exists."""
        sandbox = self.sandbox(name)
        go = sandbox.wd.parent / "go"
        waits = {"programmer": [{"run": until_exists(go), "edit": {**RIGHT, "test_greet.py": TEST}, "usage": PAID}]}
        script = self.script(sandbox, **(waits | agents))
        done = sandbox.apart("run", what, *SETTINGS, "--simulate", str(script), "--detach")
        assert done.code == 0, done.err
        return sandbox, self.run_of(sandbox), go

    def blocked(self, name: str = "blocked") -> Path:
        """A build that asks a person, made by an earlier version."""
        return restore("4d178cb", "levels-blocked", self.folder / name)

    @staticmethod
    def run_of(sandbox: Sandbox) -> str:
        return status_of(sandbox)["run"]


def status_of(sandbox: Sandbox) -> Json:
    return sandbox("status", "--json").json


def wait_for_status(sandbox: Sandbox, word: str) -> Json:
    def reached() -> Json:
        now = status_of(sandbox)
        return now if now["status"] == word else {}

    return wait_for(reached, lambda: f"{word} instead of {status_of(sandbox)['status']}")
