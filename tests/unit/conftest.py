"""A fresh front of the default run for each test, in a work dir of its own, with nothing in the environment."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from logos.app.settings import LEAVES


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
