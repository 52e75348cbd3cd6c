"""Whole runs in one work dir, by agents that answer at once in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.sandbox import PROMPT, Sandbox

__all__ = ["PROMPT", "Shop"]


@pytest.fixture
def shop(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


class Shop(Sandbox):
    """A sandbox whose log is read as a list of runs; only test_damage.py uses it."""

    def __init__(self, wd: Path, told: list[str] | None = None) -> None:
        super().__init__(wd, told=told if told is not None else [])

    def records(self, run: Any = None) -> Any:
        runs = [*self.logs().values()]
        return runs if run is None else runs[run]
