"""One browser and one server for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.live.web.browser import Site, chromium, serve
from tests.live.web.runs import Runs


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """With a state folder of their own: a page shows every run that one knows."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        made = Runs(folder)
        yield made
        made.close()


@pytest.fixture(scope="module")
def site(runs: Runs) -> Iterator[Site]:  # noqa: ARG001 - the folder of its runs is there first
    running = serve()
    yield running
    running.close()
