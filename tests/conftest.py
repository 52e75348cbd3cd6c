"""For every test: nothing of the real user is seen, Hypothesis is deterministic, and a sandbox is at hand."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import Phase

from tests.support.isolation import isolated, removed
from tests.support.sandbox import Sandbox
from tests.support.scheduling import Schedule

# Without `explain`, which costs more than it tells; with fixed seeds, so that luck decides about nobody's change.
_PHASES = [phase for phase in Phase if phase is not Phase.explain]
hypothesis.settings.register_profile("default", derandomize=True, database=None, deadline=None, phases=_PHASES)
hypothesis.settings.register_profile(
    "long", derandomize=True, database=None, deadline=None, phases=_PHASES, max_examples=1000
)
hypothesis.settings.register_profile(
    "fuzz", derandomize=False, deadline=None, phases=_PHASES, max_examples=10_000, print_blob=True
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Schedule | None:
    return Schedule(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.fixture(autouse=True, scope="session")
def no_real_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of its own for this process and all that it starts."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in removed(os.environ):
            patch.delenv(name)
        for name, value in isolated(home).items():
            patch.setenv(name, value)
        yield home


@pytest.fixture(autouse=True, scope="session")
def no_inherited_signals() -> Iterator[None]:
    """A shell starts background jobs with SIGINT ignored, `nohup` with SIGHUP; what the tests start would inherit it."""
    ignored = [signum for signum in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(signum) is signal.SIG_IGN]
    for signum in ignored:
        signal.signal(signum, signal.SIG_DFL)
    yield
    for signum in ignored:
        signal.signal(signum, signal.SIG_IGN)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """A plain folder."""
    wd = tmp_path / "work"
    wd.mkdir()
    yield from _closed(Sandbox(wd))


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Sandbox]:
    """A git repository with one commit."""
    yield from _closed(Sandbox.of_repository(tmp_path / "repo"))


def _closed(sandbox: Sandbox) -> Iterator[Sandbox]:
    yield sandbox
    sandbox.close()
