"""Unit tests start no processes; those of the spec's functions get a freshly loaded module each."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logos.app.setting_sources import LEAVES

STARTS_A_PROCESS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system", "os.exec"})


class ProcessGuard:
    """Refuses to start processes while a unit test runs. An audit hook stays for good, so there is one per process."""

    def __init__(self) -> None:
        self.active = False
        self.refused: list[str] = []
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.active and event in STARTS_A_PROCESS:
            self.refused.append(f"{event} {arguments}")
            raise RuntimeError(f"a unit test starts a process: {event} {arguments}")


GUARD = ProcessGuard()


@pytest.fixture(autouse=True)
def no_processes() -> Iterator[ProcessGuard]:
    """The code under test may swallow the error, so what was refused fails the test at its end, too."""
    GUARD.refused.clear()
    GUARD.active = True
    yield GUARD
    GUARD.active = False
    assert GUARD.refused == [], "a unit test started a process; such tests are in tests/acceptance or tests/contract"


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for leaf in LEAVES:
        monkeypatch.delenv(leaf.env, raising=False)
    monkeypatch.chdir(tmp_path)
    module: Any = importlib.reload(importlib.import_module("logos.compat.run_orchestrator_loop"))
    module.EXPLORE_SUMMARY = "The login page forgets the user."
    module.SCENARIO_TEST = "Log in, close the browser, come back."
    module.POLL_SECONDS = 0.01
    return module
