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
from logos.adapters.scripted import Script, ScriptedHost
from logos.adapters.sqlite import SqliteLog
from logos.cli.place import DATABASE, LOCK, default_config
from logos.errors import ConfigError, HostError, HostUnreachable, LogError
from logos.flows.cycle import CycleState
from logos.ports import AgentHost
from logos.runtime.journal import Watcher
from logos.runtime.opening import Opening, Way, choose_opening, given_prompt
from logos.runtime.prompt import split_prompt
from logos.runtime.run import Ended, Outside, run_cycle
from logos.runtime.settings import Settings, load_settings

Tell = Callable[[str], None]
MakeHost = Callable[[Settings, Tell], AgentHost]

TOKEN = "CAO_AUTH_LOCAL_TOKEN"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def stamp() -> str:
    return time.strftime("%Y%m%d-%H%M%S")


def cao_host(settings: Settings, tell: Tell) -> AgentHost:
    return ApiClient(
        settings.api,
        str(settings.work_dir),
        patience=settings.handoff.response_timeout,
        token=os.environ.get(TOKEN, ""),
        tell=tell,
    )


def scripted_host(script: Script) -> MakeHost:
    """Agents that follow a script instead of a model."""

    def make(settings: Settings, tell: Tell) -> AgentHost:  # noqa: ARG001
        return ScriptedHost(settings.telos_dir / "scripted", script, settings.response_dir, settings.work_dir)

    return make


def server_client(api: str, patience: float = 5.0) -> ApiClient:
    """A client for a question or two: `api`, or what the environment and ./logos.json say."""
    settings = load_settings(default_config(), os.environ, [f"api={api}"] if api else [])
    return ApiClient(settings.api, patience=patience, token=os.environ.get(TOKEN, ""))


def known_providers(settings: Settings) -> set[str]:
    """What the server accepts; where it cannot be asked, our own list."""
    host = ApiClient(settings.api, patience=0, token=os.environ.get(TOKEN, ""))
    try:
        host.preflight((), patience=0)
        return set(host.providers())
    except HostError:
        return set(PROVIDERS)
    finally:
        host.close()


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


def check_place(settings: Settings) -> None:
    try:
        there = settings.work_dir.is_dir()
    except OSError:
        # Too long to be a path at all.
        there = False
    if not there:
        raise ConfigError(f"wd = {str(settings.work_dir)[:200]!r}: there is no such directory")


def check_input(settings: Settings) -> None:
    """Everything that can be wrong without asking anybody: before a lock, a log or a terminal exists."""
    check_place(settings)
    given = given_prompt(settings)
    if given is not None:
        split_prompt(given)


def check_host(host: AgentHost, opening: Opening, tell: Tell) -> None:
    if not isinstance(host, ApiClient):
        return
    # A resumed run has its terminals; whether they answer is asked of each of them.
    agents = opening.plan.agents if opening.way is Way.FRESH else ()
    try:
        doubts = host.preflight(agents)
    except HostUnreachable:
        # The server may know more providers than we do; without one, our list is what there is.
        for agent in agents:
            check_provider(agent.name, agent.provider, set(PROVIDERS))
        raise
    for doubt in doubts:
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
