"""Live tests run on a real server in tmux: one server per file, and all tests of a file in one worker."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cao import BIN, CaoServer

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.live)


@pytest.fixture(scope="module")
def cao() -> Iterator[CaoServer]:
    for needed in ("tmux", str(BIN / "cao-server")):
        if shutil.which(needed) is None:
            # In CI a skip would look like a success.
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{needed} is not installed")
    with CaoServer() as server:
        yield server
