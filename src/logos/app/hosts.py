"""Choosing and building the host that agents run on: a CAO server, this machine, or a script."""

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from logos import profiles
from logos.adapters.files import read_input
from logos.adapters.hosts.cao import PROVIDERS, ApiClient, check_provider
from logos.adapters.hosts.local import SESSION as LOCAL_SESSION
from logos.adapters.hosts.local import LocalHost
from logos.adapters.hosts.providers import BY_PROGRAM, COMMAND, Permission
from logos.adapters.hosts.providers import PROVIDERS as LOCAL_PROVIDERS
from logos.adapters.hosts.script import load_script
from logos.adapters.hosts.scripted import SESSION as SCRIPTED_SESSION
from logos.adapters.hosts.scripted import Script, ScriptedHost
from logos.adapters.programs import SERVER_TOKEN, is_installed, own_environment, why_missing
from logos.adapters.state_files import read_cycle_state
from logos.app.setting_sources import load_settings
from logos.app.settings import AgentSettings, HostChoice, Settings
from logos.app.workdir import Tell, default_config
from logos.domain.events import Recorded, RunForked, TerminalOpened
from logos.domain.roles import ACCEPTANCE_TESTER, Role
from logos.domain.turns import Agent
from logos.errors import ConfigError, HostError, HostUnreachable, StateError, UsageError
from logos.ports import AgentHost
from logos.views.cycle_state import RUNNING, Saved
from logos.views.run import FLOW_WORDS, RunView
from logos.waiting.provider_errors import OnLimit

MakeHost = Callable[[Settings, Tell], AgentHost]

_FOLDERS = ("PWD", "OLDPWD")


def _client(settings: Settings, patience: float, tell: Tell = lambda _line: None) -> ApiClient:
    token = os.environ.get(SERVER_TOKEN, "")
    return ApiClient(settings.api, str(settings.work_dir), patience=patience, token=token, tell=tell)


def cao_host(settings: Settings, tell: Tell) -> AgentHost:
    return _client(settings, settings.handoff.response_timeout, tell)


# The least permission that each role needs; AUTO_ACCEPT_PERMISSIONS allows everything.
PERMISSIONS = {
    Role.ANALYST: Permission.PLAN,
    Role.PEER_ANALYST: Permission.RESPOND,
    Role.PROGRAMMER: Permission.EDIT,
    Role.PEER_PROGRAMMER: Permission.RESPOND,
    Role.TESTER: Permission.RUN,
}
ACCEPTANCE_PERMISSION = Permission.EDIT  # of its own folder
LEVEL_PERMISSIONS: dict[str, Permission] = {"L1": Permission.RUN, "L2": Permission.RUN, "L5": Permission.RUN}


def local_host(settings: Settings, tell: Tell) -> AgentHost:
    """The host that runs the agent CLIs of this machine itself."""
    unlimited = settings.handoff.auto_accept_permissions
    roles = [(agent.profile, PERMISSIONS[Role(agent.name)]) for agent in settings.role_agents()]
    acceptance = (ACCEPTANCE_TESTER, ACCEPTANCE_PERMISSION)
    level_agents = settings.level_agent_config()
    levels = [(agent.profile, LEVEL_PERMISSIONS.get(agent.name, Permission.RESPOND)) for agent in level_agents]

    def permission_of(profile: str) -> Permission:
        needed = (permission for name, permission in (*roles, *levels, acceptance) if name == profile)
        return Permission.ALL if unlimited else max(needed, default=Permission.RUN)

    if unlimited:
        tell("warning: AUTO_ACCEPT_PERMISSIONS is on: agents may run any command and change any file that you can")
    return LocalHost(
        settings.paths.host_dir(LOCAL_SESSION),
        settings.work_dir,
        _environment(settings.work_dir),
        permission_of=permission_of,
        profile_text=lambda name: _profile_text(settings, name),
        agent_command=settings.agent_command,
        agents=(*settings.role_agents(), *level_agents),
    )


def _environment(work_dir: Path) -> dict[str, str]:
    """What agents get; the folder that Logos was started in only if it is theirs."""
    known = own_environment()
    return known if known.get("PWD") == str(work_dir) else {n: v for n, v in known.items() if n not in _FOLDERS}


def _profile_text(settings: Settings, name: str) -> str:
    """A profile's instructions: from .telos/profiles, or the bundled ones; without the header that CAO reads."""
    custom = settings.sources.profiles.get(name)
    if custom is None:
        path = settings.paths.profiles / f"{name}.md"
        custom = read_input(path, "the profile", ConfigError) if path.exists() else ""
    text = custom or profiles.text(name)
    _, *parts = text.split("---\n", 2) if text.startswith("---\n") else ("", text)
    return parts[-1].strip()


# Which agents a flow has: Settings.role_agents or Settings.level_agent_config.
AgentsOf = Callable[[Settings], tuple[Agent, ...]]


def choose_host(
    settings: Settings, tell: Tell, session: str, agents_of: AgentsOf, *, bare: bool = False
) -> tuple[Settings, MakeHost]:
    """Choose the host and tell why; `session` is that of the resumed run.

    A provider that was named and cannot be had is an error. Where none was named, the first installed one is used, or
    with `bare` the default.
    """
    on_machine = partial(_on_this_machine, settings, tell, agents_of, bare=bare)
    on_server = partial(_on_a_server, settings, agents_of)
    match settings.host:
        case HostChoice.CAO:
            return on_server(known_providers(settings)), cao_host
        case HostChoice.LOCAL:
            return on_machine("as configured"), local_host
        case HostChoice.SCRIPTED:
            raise ConfigError("host = scripted needs a script: logos run --simulate script.yaml")
        case HostChoice.AUTO:
            if session == LOCAL_SESSION:
                return on_machine("as the unfinished run started"), local_host
            if session == SCRIPTED_SESSION:
                raise ConfigError(
                    "the unfinished run here is a simulation: --simulate SCRIPT resumes it, --fresh starts a new run"
                )
            known = _server_providers(settings)
            if session or "api" in settings.model_fields_set or known is not None:
                return on_server(known or set(PROVIDERS)), cao_host
            return on_machine(f"no CAO server answers at {settings.api}"), local_host


def session_of(continued: RunView | Saved | None) -> str:
    """The host's session of what a driver continues; a fork has the session of the run it was forked from."""
    if isinstance(continued, RunView):
        return session_in(continued.records)
    return continued.session if continued is not None else ""


def session_in(records: Iterable[Recorded]) -> str:
    """The host's session of a run's newest terminal."""
    found = ""
    for event in (record.event for record in records):
        if isinstance(event, TerminalOpened):
            found = event.session
        elif isinstance(event, RunForked):
            found = event.host or found
    return found


def _server_providers(settings: Settings) -> set[str] | None:
    """The providers that the CAO server accepts; None when no server answers."""
    with closing(_client(settings, patience=0)) as server, suppress(HostError):
        server.preflight((), patience=0)
        return set(server.providers())
    return None


def _with_known_names(settings: Settings, known: Collection[str]) -> Settings:
    """Settings whose providers have the names that the host knows: `claude` is claude_code."""

    def name(given: str) -> str:
        return given if given in known else BY_PROGRAM.get(given, given)

    def renamed(agent: AgentSettings) -> AgentSettings:
        provider = name(agent.provider) if agent.provider else agent.provider
        return agent.model_copy(update={"provider": provider, "providers": tuple(map(name, agent.providers))})

    update: dict[str, object] = {"agents": {role: renamed(agent) for role, agent in settings.agents.items()}}
    update["level_agents"] = {level: renamed(agent) for level, agent in settings.level_agents.items()}
    update |= {"provider": name(settings.provider)} if "provider" in settings.model_fields_set else {}
    return settings.model_copy(update=update)


def _on_a_server(settings: Settings, agents_of: AgentsOf, known: set[str]) -> Settings:
    """Settings for the providers that a CAO server knows; it checks those of new terminals itself, no fallbacks."""
    settings = _with_known_names(settings, known)
    for agent in agents_of(settings):
        for name in _fallbacks(settings, [agent]):
            check_provider(f"{agent.name} (fallback)", name, known)
    return settings


def _fallbacks(settings: Settings, agents: Iterable[Agent]) -> list[str]:
    """The providers that take over at a limit."""
    used = settings.handoff.on_limit is OnLimit.FALLBACK
    return [*dict.fromkeys(name for agent in agents for name in agent.spare)] if used else []


def installed_providers(work_dir: Path) -> list[str]:
    """The agent CLIs on PATH; the first is used where no provider is named."""
    return [name for name, row in LOCAL_PROVIDERS.items() if is_installed(row.program, work_dir)]


def provider_name(given: str) -> str:
    """The name of a provider that may be given by its program; UsageError if there is none of that name."""
    name = BY_PROGRAM.get(given, given)
    if name not in {*LOCAL_PROVIDERS, *PROVIDERS, COMMAND}:
        raise UsageError(f"unknown provider {given!r}; on this machine Logos can run {_local_names()}")
    return name


def _local_names() -> str:
    return ", ".join(sorted({*LOCAL_PROVIDERS, *BY_PROGRAM, COMMAND}))


def _on_this_machine(settings: Settings, tell: Tell, agents_of: AgentsOf, why: str, *, bare: bool) -> Settings:
    """Settings for agent CLIs that are installed here."""
    settings = _with_known_names(settings, LOCAL_PROVIDERS)
    installed = installed_providers(settings.work_dir)
    used = dict.fromkeys(agent.provider for agent in agents_of(settings))
    if "provider" not in settings.model_fields_set and settings.provider in used and not bare:
        if not installed:
            ways = "; ".join(f"{row.name}: {row.install}" for row in list(LOCAL_PROVIDERS.values())[:3])
            raise ConfigError(
                f"no host for agents: {why}, and no agent CLI is installed. Install one ({ways}), "
                "or start a `cao-server`; `logos demo` needs neither"
            )
        why = f"{why}; the first installed one, as no provider was named"
        settings = settings.model_copy(update={"provider": installed[0]})
        used = dict.fromkeys(agent.provider for agent in agents_of(settings))
    for name in (*used, *_fallbacks(settings, agents_of(settings))):
        row = LOCAL_PROVIDERS.get(name)
        if row is None and name != COMMAND:
            raise ConfigError(f"unknown provider {name!r}; on this machine Logos can run {_local_names()}")
        if row is not None and name not in installed:
            here = f"; installed here: {', '.join(installed)}" if installed else ""
            why = why_missing(row.program, settings.work_dir)
            raise ConfigError(
                f"provider {name}: its program {why}; install it ({row.install}), or name another with --provider{here}"
            )
    tell(f"agents run on this machine with {', '.join(used)} ({why})")
    return settings


def host_to_end(settings: Settings, session: str, tell: Tell) -> AgentHost:
    """The host that a run's agents are on, for closing their terminals."""
    if session == LOCAL_SESSION:
        return local_host(settings, lambda _: None)
    return _scripted(settings, {}) if session == SCRIPTED_SESSION else _client(settings, 0, tell)


def _scripted(settings: Settings, script: Script) -> ScriptedHost:
    return ScriptedHost(settings.paths.host_dir(SCRIPTED_SESSION), script, settings.response_dir, settings.work_dir)


def scripted_host(script: Script) -> MakeHost:
    """Hosts whose agents follow a script instead of asking a model."""

    def make(settings: Settings, tell: Tell) -> AgentHost:  # noqa: ARG001
        try:
            saved = None if settings.resume is False else read_cycle_state(settings.state_path, settings.provider)
        except StateError:
            saved = None
        if saved is not None and saved.final_status == RUNNING and saved.session not in ("", SCRIPTED_SESSION):
            raise UsageError("the unfinished run here is not a simulation: use --resume without --simulate, or --fresh")
        return _scripted(settings, script)

    return make


def simulate(script: Path, flow: str = "cycle", tell: Tell = lambda _line: None) -> MakeHost:
    """Hosts whose agents follow the script in this file, which is read at once; `flow` is `cycle` or `levels`."""
    parsed = load_script(script)
    if parsed.flow not in (None, flow):
        own, other = FLOW_WORDS[parsed.flow].command, FLOW_WORDS[flow].command
        raise UsageError(f"{script} is a script for `{own}`, not for `{other}`")
    tell(f"simulation: the agents follow {script}; no agent CLI is started and no model is asked")
    return scripted_host(parsed)


def server_client(api: str, patience: float = 5.0) -> ApiClient:
    """A client for a few requests, to `api` or else to the server that the environment and ./logos.json name."""
    return _client(load_settings(default_config(), os.environ, [f"api={api}"] if api else []), patience)


def known_providers(settings: Settings) -> set[str]:
    """The providers that the server accepts; if no server answers, the known ones."""
    return _server_providers(settings) or set(PROVIDERS)


def accepted_providers(settings: Settings) -> tuple[set[str], bool]:
    """The names under which a provider may stand in the settings, and whether a CAO server is to run it."""
    known, on_server = {*LOCAL_PROVIDERS, COMMAND}, settings.host is HostChoice.CAO
    if settings.host in (HostChoice.CAO, HostChoice.AUTO):
        served = _server_providers(settings)
        on_server = on_server or served is not None or "api" in settings.model_fields_set
        known = (served or set(PROVIDERS)) if on_server else known
    return known | {program for program, name in BY_PROGRAM.items() if name in known}, on_server


def check_host(host: AgentHost, agents: Sequence[Agent], tell: Tell, *, fresh: bool) -> None:
    """Raise what would make the agents fail to start; tell what is only suspicious."""
    if not isinstance(host, LocalHost | ApiClient):
        return
    if isinstance(host, ApiClient) and not fresh:
        # A resumed run has terminals already; each is checked later.
        agents = ()
    try:
        warnings = host.preflight(agents)
    except HostUnreachable:
        # A server may accept more providers; without one, only the known ones can be checked.
        for agent in agents:
            check_provider(agent.name, agent.provider, set(PROVIDERS))
        raise
    for warning in warnings:
        tell(f"warning: {warning}")
