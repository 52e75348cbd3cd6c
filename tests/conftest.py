"""For every test: nothing of the real user is seen, Hypothesis is deterministic, and a sandbox is at hand."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from hypothesis import Phase

from logos.app.debug_log import StderrHandler
from tests.support.collecting import from_own_beginning, test_files
from tests.support.isolation import isolated, removed
from tests.support.sandbox import Sandbox
from tests.support.scheduling import Schedule

if TYPE_CHECKING:
    from tests.support.postgres import PostgresCluster

# Without `explain`, which costs more than it tells; with fixed seeds, so that luck decides about nobody's change.
_PHASES = [phase for phase in Phase if phase is not Phase.explain]
hypothesis.settings.register_profile("default", derandomize=True, database=None, deadline=None, phases=_PHASES)
hypothesis.settings.register_profile(
    "long", derandomize=True, database=None, deadline=None, phases=_PHASES, max_examples=1000
)
hypothesis.settings.register_profile(
    "fuzz", derandomize=False, deadline=None, phases=_PHASES, max_examples=10_000, print_blob=True
)
# Where each test file stands, if this process reads them in another order.
_ORDER = pytest.StashKey[dict[Path, int]]()
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Schedule | None:
    return Schedule(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    config = session.config
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if worker and config.args_source is config.ArgsSource.TESTPATHS:
        files = test_files(map(Path, config.args))
        sizes = [file.stat().st_size for file in files]
        number = int(worker["workerid"].removeprefix("gw"))
        config.args = [*map(str, from_own_beginning(files, sizes, number, worker["workercount"]))]
        config.stash[_ORDER] = {config.rootpath / file: place for place, file in enumerate(files)}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every worker must know the same tests in the same order."""
    if order := config.stash.get(_ORDER, None):
        items.sort(key=lambda item: order[item.path])


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


@pytest.fixture(autouse=True)
def no_log_of_others() -> Iterator[None]:
    """A command of a test with `-v`, in this process, does not make the commands of later tests log."""
    yield
    logger = logging.getLogger("logos")
    logger.setLevel(logging.NOTSET)
    for handler in [handler for handler in logger.handlers if isinstance(handler, StderrHandler)]:
        logger.removeHandler(handler)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    """A PostgreSQL server of this process; files whose tests use it stay on one worker (tests/support/scheduling.py)."""
    # Most test processes need no driver of a database.
    from tests.support.postgres import running

    with running() as cluster:
        yield cluster


@pytest.fixture
def database(postgres: PostgresCluster) -> str:
    """The address of an empty database."""
    return postgres.new_database()


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
