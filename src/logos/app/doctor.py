"""Checking that everything a run needs is installed and configured; no model is asked."""

import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from logos.adapters.git.workspace import base_of
from logos.adapters.hosts.providers import COMMAND, PROVIDERS, SANDBOX_REMEDY, ask, version_of
from logos.adapters.programs import command_of, is_installed
from logos.app.hosts import cao_host, choose_host, server_client
from logos.app.runs import views_in
from logos.app.setting_sources import load_settings
from logos.app.settings import Settings
from logos.app.telos_file import read_telos
from logos.app.workdir import default_config, driver_at, has_log
from logos.errors import ConfigError, HostError, LogosError, ProgramNotFound
from logos.views.status import Unreadable
from logos.views.text import count

OLDEST_PYTHON = (3, 11)
# The programs of providers that only a CAO server can run.
CAO_ONLY = {
    "antigravity_cli": "agy",
    "cursor_cli": "agent",
    "grok_cli": "grok",
    "hermes": "hermes",
    "kiro_cli": "kiro-cli",
    "mcode": "mcode",
    "omp": "omp",
    "q_cli": "q",
}
PROGRAMS = {**{row.name: row.program for row in PROVIDERS.values()}, **CAO_ONLY}
# Some exit with 0 although nobody is logged in.
_NOT_LOGGED_IN = re.compile(r"\b0 credentials\b|not logged in", re.IGNORECASE)
_API_KEY = re.compile(r"\b[1-9]\d* environment variable", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cli:
    """An agent CLI on this machine. `logged_in` is None where only a model call could tell; `local`: needs no CAO."""

    provider: str
    program: str
    version: str
    logged_in: bool | None
    local: bool


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check; a run cannot start without what a `fail` names."""

    about: str
    level: Literal["ok", "warn", "fail"]
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class ChosenHost:
    """The host that a new run would use, and why; no name: a run could not start."""

    name: Literal["cao", "local"] | None
    why: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class Diagnosis:
    host: ChosenHost
    agents: tuple[Cli, ...]
    checks: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        return all(check.level != "fail" for check in self.checks)


def doctor(work_dir: Path, env: Mapping[str, str]) -> Diagnosis:
    """Check Python, git, tmux, the work dir, the configuration, the host, the agent CLIs and the log."""
    settings, config = _check_config(env)
    # In the order in which Logos would choose them.
    here = [name for name, program in PROGRAMS.items() if is_installed(program, work_dir)]
    with ThreadPoolExecutor(len(PROGRAMS)) as pool:
        agents = tuple(pool.map(partial(_look_at, work_dir), here))
    host = _choose(settings)
    return Diagnosis(host, agents, tuple(_checks(work_dir, config, host, agents)))


def _look_at(work_dir: Path, provider: str) -> Cli:
    program, row = PROGRAMS[provider], PROVIDERS.get(provider)
    command = command_of(program, work_dir)
    # What it says may be private and is not shown.
    code, text = ask(*command, *row.login) if row is not None and row.login else (None, "")
    well = code == 0 and (_NOT_LOGGED_IN.search(text) is None or _API_KEY.search(text) is not None)
    return Cli(provider, program, version_of(command), None if code is None else well, row is not None)


def _choose(settings: Settings) -> ChosenHost:
    """The host that `logos run --fresh` would use."""
    messages: list[str] = []
    try:
        anew = settings.model_copy(update={"resume": False})
        chosen, make = choose_host(anew, messages.append, "", Settings.role_agents)
    except ConfigError as error:
        return ChosenHost(None, str(error), settings)
    if make is not cao_host:
        return ChosenHost("local", messages[-1] if messages else "as configured", chosen)
    why = f"host = {settings.host}" if settings.host != "auto" else "it answers"
    return ChosenHost("cao", "its address is configured" if "api" in settings.model_fields_set else why, chosen)


def _checks(work_dir: Path, config: CheckResult, host: ChosenHost, agents: tuple[Cli, ...]) -> Iterator[CheckResult]:
    old = sys.version_info < OLDEST_PYTHON
    remedy = "3.11 or newer is needed" if old else ""
    yield CheckResult("python", "fail" if old else "ok", platform.python_version(), remedy)
    yield _check_program(work_dir, "git", "--version", "without it, changes are not shown or committed")
    yield _check_program(work_dir, "tmux", "-V", "a CAO server on this machine needs it")
    if os.access(work_dir, os.W_OK | os.X_OK):
        yield CheckResult("work dir", "ok", f"{work_dir} is writable")
    else:
        yield CheckResult("work dir", "fail", f"{work_dir} is not writable", "choose another with --wd or WD")
    yield config
    if host.name == "cao":
        yield CheckResult("host", "ok", f"agents run on the CAO server at {host.settings.api} ({host.why})")
        yield from _check_server(host.settings)
    else:
        yield CheckResult("host", "fail" if host.name is None else "ok", host.why)
    if host.name is not None:
        yield _check_processes(host.name)
    yield from _check_agents(host, agents)
    yield _check_build(work_dir)
    yield _check_log(work_dir)
    driver = driver_at(work_dir)
    yield CheckResult("lock", "ok", f"held by a driver, pid {driver}" if driver else "free, no driver is running")


def _check_processes(host: Literal["cao", "local"]) -> CheckResult:
    """Whether what an agent leaves running can change the work of the next one."""
    remedy = "see docs/how-to/trust.md"
    if host == "cao":
        return CheckResult("processes", "warn", "on a CAO server, processes that an agent leaves are not ended", remedy)
    if sys.platform != "linux":
        return CheckResult("processes", "warn", "of what an agent leaves, only its process group is ended", remedy)
    return CheckResult("processes", "ok", "what an agent leaves running is ended with its turn")


def _check_build(work_dir: Path) -> CheckResult:
    """Whether `logos build` could start here; `logos run` needs none of it."""
    try:
        tools = read_telos(work_dir).tools
        base = base_of(work_dir, allow_dirty=False)
    except LogosError as error:
        return CheckResult("build", "warn", f"`logos build` cannot start: {error}")
    names = count(len(tools), "tool")
    return CheckResult("build", "ok", f"telos.toml names {names}; a build would start at {base[:10]}")


def _check_program(work_dir: Path, name: str, flag: str, remedy: str) -> CheckResult:
    try:
        return CheckResult(name, "ok", version_of(command_of(name, work_dir), flag))
    except ProgramNotFound as error:
        return CheckResult(name, "warn", str(error), remedy)


def _check_config(env: Mapping[str, str]) -> tuple[Settings, CheckResult]:
    config = default_config()
    try:
        settings = load_settings(config, env)
    except ConfigError as error:
        failed = CheckResult("config", "fail", str(error), "`logos schema --keys` lists the known settings")
        return load_settings(None, {}), failed
    if config is not None:
        return settings, CheckResult("config", "ok", f"./{config} is valid")
    return settings, CheckResult("config", "warn", "no ./logos.json, defaults are used", "`logos init` writes one")


def _check_server(settings: Settings) -> Iterator[CheckResult]:
    wanted = {agent.profile for agent in settings.role_agents()}
    try:
        with closing(server_client(settings.api, patience=1)) as server:
            server.preflight((), patience=0)
            found = sorted(name for name, is_found in server.providers().items() if is_found)
            finds = f"it finds the programs of {', '.join(found)}" if found else "it finds no agent program"
            yield CheckResult("CAO server", "ok", f"{server.base_url} answers; {finds}")
            there = server.profiles()
    except (HostError, ConfigError) as error:
        yield CheckResult("CAO server", "fail", str(error))
        return
    if there is None:
        yield CheckResult("profiles", "warn", "the server does not list its profiles")
    elif missing := ", ".join(sorted(wanted - there)):
        yield CheckResult("profiles", "fail", f"the server has no {missing}", "`logos profiles install` installs ours")
    else:
        yield CheckResult("profiles", "ok", f"the server has {', '.join(sorted(wanted))}")


def _check_agents(host: ChosenHost, agents: tuple[Cli, ...]) -> Iterator[CheckResult]:
    wanted = {agent.provider for agent in host.settings.role_agents()}
    for cli in agents:
        used = ", used by this configuration" if cli.provider in wanted else ""
        level, remedy = _judge(cli, host, is_used=bool(used))
        login = {True: ", logged in", False: ", not logged in", None: ""}[cli.logged_in]
        yield CheckResult(f"agent {cli.provider}", level, f"{cli.program}: {cli.version}{login}{used}", remedy)
    # On this machine, a missing program is what the check of the host reports.
    missing = sorted(wanted - {cli.provider for cli in agents} - {COMMAND}) if host.name == "cao" else []
    for provider in missing:
        text = f"`{PROGRAMS.get(provider, provider)}` is not on the PATH"
        yield CheckResult(f"agent {provider}", "warn", text, "install it where the CAO server runs")


def _judge(cli: Cli, host: ChosenHost, *, is_used: bool) -> tuple[Literal["ok", "warn", "fail"], str]:
    """How good an installed CLI is, and what to do about it."""
    row = PROVIDERS.get(cli.provider)
    here = host.name == "local"
    if row is None:
        return "ok", ""
    if row.refuses(cli.version):
        return ("fail" if is_used and here else "warn"), f"{row.warning}; install {row.tested}: {row.install}"
    sandboxed = is_used and here and not host.settings.handoff.auto_accept_permissions
    if sandboxed and (problem := row.sandbox_problem(command_of(cli.program, host.settings.work_dir))):
        return "fail", f"{problem}; {SANDBOX_REMEDY}"
    if cli.logged_in is False and is_used:
        return "warn", f"see `{' '.join((cli.program, *row.login))}`"
    if row.is_older_than(cli.version):
        return "warn", f"newer than {row.tested}, the version that was tested with Logos"
    return ("warn", row.warning) if row.warning and not row.refused_from and is_used and here else ("ok", "")


def _check_log(work_dir: Path) -> CheckResult:
    try:
        if not has_log(work_dir):
            return CheckResult("log", "ok", "no run yet")
    except LogosError as error:
        return CheckResult("log", "fail", str(error))
    found = [*views_in(work_dir)]
    for gap in found:
        if isinstance(gap, Unreadable) and gap.run is None:
            return CheckResult("log", "fail", gap.why, "`logos run` sets it aside and starts a new one")
    damaged = ", ".join(str(view.run) for view in found if isinstance(view, Unreadable) or view.damage)
    if damaged:
        remedy = "`logos run --resume` keeps a copy and continues from the last readable event"
        return CheckResult("log", "warn", f"cannot be read to the end: {damaged}", remedy)
    return CheckResult("log", "ok", f"{count(len(found), 'run')}, readable")
