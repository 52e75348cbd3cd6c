"""Live tests run on a real server in tmux, one for each file and worker, and with real agent CLIs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cao import BIN, CaoServer
from tests.live.clis import skip_or_fail

HERE = Path(__file__).parent
# A whole run with a real agent CLI takes a minute on a quiet machine; no other time-out ends one.
LAST_RESORT_OF_A_RUN = 1800


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.live)
            item.add_marker(pytest.mark.timeout(LAST_RESORT_OF_A_RUN))


def require_server() -> None:
    for needed in ("tmux", str(BIN / "cao-server")):
        if shutil.which(needed) is None:
            skip_or_fail(f"{needed} is not installed")


@pytest.fixture(scope="module")
def cao() -> Iterator[CaoServer]:
    require_server()
    with CaoServer() as server:
        yield server
