"""The only place that builds adapters: settings go in, something that can run comes out."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from logos import profiles
from logos.adapters import statefile
from logos.adapters.cao import PROVIDERS, ApiClient, check_provider
from logos.adapters.files import set_aside
from logos.adapters.handoff import Doorbell, ResponseFiles
from logos.adapters.local import SESSION as LOCAL_SESSION
from logos.adapters.local import LocalHost
from logos.adapters.lock import DriverLock
from logos.adapters.providers import COMMAND, Leave
from logos.adapters.providers import PROVIDERS as LOCAL_PROVIDERS
from logos.adapters.scripted import SESSION as SCRIPTED_SESSION
from logos.adapters.scripted import Script, ScriptedHost
from logos.adapters.sqlite import SqliteLog
from logos.adapters.workspace import GitWorkspace, base_of
from logos.cli.place import DATABASE, LOCK, default_config
from logos.domain.events import TerminalOpened
from logos.domain.levels import Level
from logos.domain.roles import Role
from logos.domain.turns import Agent, Outcome, RunId
from logos.errors import ConfigError, HostError, HostUnreachable, LogError, StateError, UsageError
from logos.flows.cycle import CycleState
from logos.flows.ladder import LevelsState
from logos.ports import AgentHost, Bell
from logos.runtime.build import run_build
from logos.runtime.build_opening import choose_build, result_of
from logos.runtime.crew import Crew
from logos.runtime.driving import Ended, Outside
from logos.runtime.journal import Journal, Watcher, open_levels
from logos.runtime.opening import Opening, Way, choose_opening, given_prompt
from logos.runtime.prompt import split_prompt
from logos.runtime.run import run_cycle
from logos.runtime.settings import HostChoice, Settings, load_settings
from logos.runtime.telos import read_telos

Tell = Callable[[str], None]
MakeHost = Callable[[Settings, Tell], AgentHost]

TOKEN = "CAO_AUTH_LOCAL_TOKEN"
# Milliseconds between two looks of a bell, where every author has one.
SHARED_STEP = 2


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


# The mildest a role can do its job with; a person may allow everything (AUTO_ACCEPT_PERMISSIONS).
LEAVES = {
    Role.ANALYST: Leave.RESPOND,
    Role.PEER_ANALYST: Leave.RESPOND,
    Role.PROGRAMMER: Leave.EDIT,
    Role.PEER_PROGRAMMER: Leave.RESPOND,
    Role.TESTER: Leave.RUN,
}
LEVEL_LEAVES = {
    Level.L1: Leave.RUN,
    Level.L2: Leave.RUN,
    Level.L5: Leave.RUN,
}


def local_host(settings: Settings, tell: Tell) -> AgentHost:
    """The agent CLIs of this machine, run by Logos itself."""
    config, rungs = settings.agent_config(), settings.level_agent_config()

    def leave_of(profile: str) -> Leave:
        if settings.handoff.auto_accept_permissions:
            return Leave.ALL
        roles = [LEAVES[Role(role)] for role, own in config.items() if own["profile"] == profile]
        levels = [LEVEL_LEAVES.get(Level[own.name], Leave.RESPOND) for own in rungs if own.profile == profile]
        return max((*roles, *levels), default=Leave.RUN)

    if settings.handoff.auto_accept_permissions:
        tell("warning: AUTO_ACCEPT_PERMISSIONS is on: the agents may run anything and change any file you can")
    return LocalHost(
        settings.telos_dir / "local",
        settings.work_dir,
        os.environ,
        leave_of=leave_of,
        profile_text=lambda name: profile_text(settings, name),
        agent_command=settings.agent_command,
    )


def profile_text(settings: Settings, name: str) -> str:
    """A profile's instructions: the person's own in .telos/profiles, or ours; without the header that CAO reads."""
    own = settings.telos_dir / "profiles" / f"{name}.md"
    text = own.read_text(encoding="utf-8") if own.is_file() else profiles.text(name)
    _, *parts = text.split("---\n", 2) if text.startswith("---\n") else ("", text)
    return parts[-1].strip()


def choose_host(settings: Settings, tell: Tell, session: str) -> tuple[Settings, MakeHost]:
    """What the agents run on and why, said once; the provider may change where the configured one is not installed.

    `session` is the host's session of the run that is resumed; empty when none is.
    """
    match settings.host:
        case HostChoice.CAO:
            return settings, cao_host
        case HostChoice.LOCAL:
            return _with_a_program(settings, tell, "as configured"), local_host
        case HostChoice.SCRIPTED:
            raise ConfigError("host = scripted needs a script: logos run --simulate script.yaml")
        case HostChoice.AUTO:
            if session == LOCAL_SESSION:
                return _with_a_program(settings, tell, "as the unfinished run began"), local_host
            if session == SCRIPTED_SESSION:
                raise ConfigError(
                    "the unfinished run here is a simulation: --simulate SCRIPT goes on, --fresh starts anew"
                )
            if session or "api" in settings.model_fields_set or _answers(settings):
                return settings, cao_host
            return _with_a_program(settings, tell, f"no CAO server answers at {settings.api}"), local_host


def unfinished_session(settings: Settings) -> str:
    """The host's session of the run that would be resumed; empty when none would."""
    if settings.resume is False:
        return ""
    try:
        saved = statefile.read(settings.state_path, settings.provider)
    except StateError:
        return ""
    return saved.session if saved is not None and saved.final_status == statefile.RUNNING else ""


def _answers(settings: Settings) -> bool:
    host = ApiClient(settings.api, patience=0)
    try:
        host.preflight((), patience=0)
    except HostError:
        return False
    finally:
        host.close()
    return True


def _with_a_program(settings: Settings, tell: Tell, why: str) -> Settings:
    """The first agent CLI that is installed: the configured one, else one we know."""
    if settings.provider == COMMAND or _is_installed(settings.provider):
        tell(f"agents run on this machine with {settings.provider} ({why})")
        return settings
    found = next((name for name in LOCAL_PROVIDERS if _is_installed(name)), None)
    if found is None:
        ways = "; ".join(f"{row.name}: {row.install}" for row in list(LOCAL_PROVIDERS.values())[:3])
        raise ConfigError(
            f"nothing to run agents with: {why}, and no agent CLI is installed. Install one ({ways}), "
            "or start a `cao-server`; `logos demo` shows a run without either"
        )
    tell(f"agents run on this machine with {found}: {why}, and {settings.provider} is not installed")
    return settings.model_copy(update={"provider": found})


def _is_installed(provider: str) -> bool:
    row = LOCAL_PROVIDERS.get(provider)
    return row is not None and shutil.which(row.program) is not None


def scripted_host(script: Script) -> MakeHost:
    """Agents that follow a script instead of a model."""

    def make(settings: Settings, tell: Tell) -> AgentHost:  # noqa: ARG001
        session = unfinished_session(settings)
        if session not in ("", SCRIPTED_SESSION):
            raise UsageError("the unfinished run here is no simulation: --resume without --simulate, or --fresh")
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
        # A file that is locked, or on a disk that fails, is not one that is damaged.
        if not path.is_file() or isinstance(error.__cause__, sqlite3.OperationalError):
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


def check_host(host: AgentHost, agents: Sequence[Agent], tell: Tell, *, fresh: bool) -> None:
    if isinstance(host, LocalHost):
        host.preflight(agents)
    if not isinstance(host, ApiClient):
        return
    # A resumed run has its terminals; whether they answer is asked of each of them.
    agents = agents if fresh else ()
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
    make_host: MakeHost | None = None,
    watchers: Sequence[Watcher[CycleState]] = (),
    tell: Tell = say,
) -> Ended[CycleState]:
    """One run in this work dir: checked, locked, opened, driven."""
    check_input(settings)
    with DriverLock(settings.telos_dir / LOCK), open_log(settings.telos_dir, tell) as log:
        if make_host is None:
            settings, make_host = choose_host(settings, tell, unfinished_session(settings))
        opening = choose_opening(settings, log, tell, stamp(), strict_prompt=strict_prompt)
        host = make_host(settings, tell)
        responses = ResponseFiles(settings.response_dir)
        try:
            check_host(host, opening.plan.agents, tell, fresh=opening.way is Way.FRESH)
            _announce(opening, tell)
            responses.ensure()
            bell = Doorbell(settings.response_dir)
            try:
                return run_cycle(settings, opening, Outside(host, log, tell), responses, bell, watchers)
            finally:
                bell.close()
        finally:
            host.close()


def build_here(
    settings: Settings,
    feature: str,
    *,
    allow_dirty: bool = False,
    make_host: MakeHost | None = None,
    bell_for: Callable[[Path], Bell] = lambda folder: Doorbell(folder, step=SHARED_STEP),
    watchers: Sequence[Watcher[LevelsState]] = (),
    tell: Tell = say,
) -> Ended[LevelsState]:
    """One build in this work dir: checked, locked, opened, driven."""
    check_place(settings)
    settings.levels_taking_part()
    telos = read_telos(settings.work_dir)
    with DriverLock(settings.telos_dir / LOCK), open_log(settings.telos_dir, tell) as log:
        opening = choose_build(
            settings, feature, telos, log, tell, stamp(), lambda: base_of(settings.work_dir, allow_dirty=allow_dirty)
        )
        if make_host is None:
            session = session_of(log, opening.run) if opening.journal is not None else ""
            settings, make_host = choose_host(settings, tell, session)
            opening = replace(opening, plan=replace(opening.plan, agents=settings.level_agent_config()))
        host = make_host(settings, tell)
        try:
            taking_part = {level.name for level in opening.plan.levels}
            agents = [agent for agent in opening.plan.agents if agent.name in taking_part]
            check_host(host, agents, tell, fresh=True)
            tidy_builds(settings, log, host, opening.run, tell)
            if opening.journal is not None:
                tell(f"going on with unfinished build {opening.run}; finished turns are not asked again")
            workspace = GitWorkspace(settings.work_dir, opening.run, telos.setup)
            return run_build(settings, opening, Outside(host, log, tell), workspace, bell_for, watchers)
        finally:
            host.close()


def session_of(log: SqliteLog, run: RunId) -> str:
    """The host's session of a run's newest terminal."""
    opened = (record.event for record in log.read(run) if isinstance(record.event, TerminalOpened))
    return next((event.session for event in reversed(list(opened))), "")


def tidy_builds(settings: Settings, log: SqliteLog, host: AgentHost, now: RunId, tell: Tell) -> None:
    """What earlier builds left: killed between their end and their last step, or given up."""
    for folder in sorted((settings.telos_dir / "worktrees").glob("*")):
        run = RunId(folder.name)
        if run == now or run not in log.runs():
            continue
        try:
            journal = open_levels(log, run)
            Crew(host, journal.record, time.monotonic, time.sleep).close(journal.ledger)
            _remove_places(GitWorkspace(settings.work_dir, run), journal, tell)
        except (LogError, UsageError, HostError) as error:
            tell(f"warning: what build {run} left in {folder} could not be removed: {error}")


def _remove_places(workspace: GitWorkspace, journal: Journal[LevelsState], tell: Tell) -> None:
    state = journal.state
    if state.outcome not in (None, Outcome.BLOCKED):
        workspace.close(result_of(state))
        return
    workspace.give_up(state.head if state.head != state.plan.base else None)
    tell(f"build {journal.run} is given up: its worktrees are removed, its log and its commits are kept")


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
