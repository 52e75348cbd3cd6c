"""The only place that builds adapters: settings go in, something that can run comes out."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from logos.adapters.cao import PROVIDERS, ApiClient, check_provider
from logos.adapters.files import set_aside
from logos.adapters.handoff import Doorbell, ResponseFiles
from logos.adapters.lock import DriverLock
from logos.adapters.sqlite import SqliteLog
from logos.errors import ConfigError, LogError
from logos.flows.cycle import CycleState
from logos.ports import AgentHost
from logos.runtime.journal import Watcher
from logos.runtime.opening import Opening, Way, choose_opening, given_prompt
from logos.runtime.prompt import split_prompt
from logos.runtime.run import Ended, Outside, run_cycle
from logos.runtime.settings import Settings

Tell = Callable[[str], None]
MakeHost = Callable[[Settings, Tell], AgentHost]

DATABASE = "logos.db"
LOCK = "driver.lock"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def stamp() -> str:
    return time.strftime("%Y%m%d-%H%M%S")


def cao_host(settings: Settings, tell: Tell) -> AgentHost:
    return ApiClient(
        settings.api,
        str(settings.work_dir),
        patience=settings.handoff.response_timeout,
        token=os.environ.get("CAO_AUTH_LOCAL_TOKEN", ""),
        tell=tell,
    )


@contextmanager
def open_log(telos: Path, tell: Tell = say) -> Generator[SqliteLog]:
    """The run log of a work dir; a file that is no log any more is kept aside and a new one begun."""
    path = telos / DATABASE
    try:
        log = SqliteLog(path)
    except LogError as error:
        if not path.is_file():
            raise
        kept = set_aside(path, stamp())
        for leftover in (path.with_name(f"{DATABASE}-wal"), path.with_name(f"{DATABASE}-shm")):
            leftover.unlink(missing_ok=True)
        tell(f"{error}; kept as {kept.name}, a new log begins")
        log = SqliteLog(path)
    try:
        yield log
    finally:
        log.close()


def check_input(settings: Settings) -> None:
    """Everything that can be wrong without asking anybody: before a lock, a log or a terminal exists."""
    if not settings.work_dir.is_dir():
        raise ConfigError(f"wd = {str(settings.work_dir)!r}: there is no such directory")
    given = given_prompt(settings)
    if given is not None:
        split_prompt(given)


def check_host(host: AgentHost, opening: Opening, tell: Tell) -> None:
    if isinstance(host, ApiClient):
        # A resumed run has its terminals; whether they answer is asked of each of them.
        agents = opening.plan.agents if opening.way is Way.FRESH else ()
        for doubt in host.preflight(agents):
            tell(f"warning: {doubt}")


def run_here(
    settings: Settings,
    *,
    strict_prompt: bool,
    make_host: MakeHost = cao_host,
    watchers: Sequence[Watcher[CycleState]] = (),
    tell: Tell = say,
) -> Ended:
    """One run in this work dir: checked, locked, opened, driven."""
    check_input(settings)
    if make_host is cao_host:
        for role, own in settings.agent_config().items():
            # The server may know more than we do; without one, our list is what there is.
            if own["provider"] not in PROVIDERS:
                check_provider(role, own["provider"], set(PROVIDERS))
    with DriverLock(settings.telos_dir / LOCK), open_log(settings.telos_dir, tell) as log:
        opening = choose_opening(settings, log, tell, stamp(), strict_prompt=strict_prompt)
        host = make_host(settings, tell)
        responses = ResponseFiles(settings.response_dir)
        try:
            check_host(host, opening, tell)
            _announce(opening, tell)
            responses.ensure()
            bell = Doorbell(settings.response_dir)
            try:
                return run_cycle(settings, opening, Outside(host, log, responses, bell, tell), watchers)
            finally:
                bell.close()
        finally:
            host.close()


def _announce(opening: Opening, tell: Tell) -> None:
    match opening.way:
        case Way.FRESH:
            return
        case Way.RESUME if opening.journal is not None:
            state = opening.journal.state
            tell(
                f"going on with unfinished run {opening.journal.run}: round {state.round}, {state.role}, "
                f"cycle {state.cycle}; finished turns are not asked again"
            )
        case Way.RESUME | Way.IMPORT:
            saved = opening.saved
            where = f"round {saved.seed.round}, {saved.seed.phase}" if saved else "its state"
            tell(f"going on from the state file: {where}; a new log begins")
