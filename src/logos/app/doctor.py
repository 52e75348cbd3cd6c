"""Checking that everything a run needs is installed and configured; no model is asked."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from logos.adapters.git.workspace import base_of
from logos.adapters.hosts.providers import COMMAND, PROVIDERS
from logos.app.agent_clis import PROGRAMS, Cli, installed, version_of
from logos.app.hosts import cao_host, choose_host, server_client
from logos.app.runs import load_run
from logos.app.settings import Settings, load_settings
from logos.app.telos_file import read_telos
from logos.app.workdir import default_config, driver_at, has_log, reading
from logos.domain.turns import RunId
from logos.errors import ConfigError, HostError, LogError, LogosError
from logos.ports import Log
from logos.views.text import count

OLDEST_PYTHON = (3, 11)


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
    host, agents = _choose(settings), installed()
    return Diagnosis(host, tuple(agents), tuple(_checks(work_dir, config, host, agents)))


def _choose(settings: Settings) -> ChosenHost:
    """The host that `logos run --fresh` would use."""
    messages: list[str] = []
    try:
        chosen, make = choose_host(settings.model_copy(update={"resume": False}), messages.append, "")
    except ConfigError as error:
        return ChosenHost(None, str(error), settings)
    if make is not cao_host:
        return ChosenHost("local", messages[-1] if messages else "as configured", chosen)
    why = f"host = {settings.host}" if settings.host != "auto" else "it answers"
    return ChosenHost("cao", "its address is configured" if "api" in settings.model_fields_set else why, chosen)


def _checks(work_dir: Path, config: CheckResult, host: ChosenHost, agents: list[Cli]) -> Iterator[CheckResult]:
    yield _check_python()
    yield _check_program("git", "--version", "without it, changes are not shown or committed")
    yield _check_program("tmux", "-V", "a CAO server on this machine needs it")
    yield _check_work_dir(work_dir)
    yield config
    yield _check_host(host)
    if host.name == "cao":
        yield from _check_server(host.settings)
    yield from _check_agents(host, agents)
    yield _check_build(work_dir)
    yield _check_log(work_dir)
    driver = driver_at(work_dir)
    yield CheckResult("lock", "ok", f"held by a driver, pid {driver}" if driver else "free, no driver is running")


def _check_build(work_dir: Path) -> CheckResult:
    """Whether `logos build` could start here; `logos run` needs none of it."""
    try:
        tools = read_telos(work_dir).tools
        base = base_of(work_dir, allow_dirty=False)
    except LogosError as error:
        return CheckResult("build", "warn", f"`logos build` cannot start: {error}")
    text = f"telos.toml names {count(len(tools), 'tool')}; a build would start at {base[:10]}"
    return CheckResult("build", "ok", text)


def _check_host(host: ChosenHost) -> CheckResult:
    if host.name == "cao":
        return CheckResult("host", "ok", f"agents run on the CAO server at {host.settings.api} ({host.why})")
    return CheckResult("host", "fail" if host.name is None else "ok", host.why)


def _check_python() -> CheckResult:
    version = platform.python_version()
    if sys.version_info >= OLDEST_PYTHON:
        return CheckResult("python", "ok", version)
    return CheckResult("python", "fail", version, "3.11 or newer is needed")


def _check_program(name: str, flag: str, remedy: str) -> CheckResult:
    if shutil.which(name) is None:
        return CheckResult(name, "warn", "not on the PATH", remedy)
    return CheckResult(name, "ok", version_of(name, flag))


def _check_work_dir(work_dir: Path) -> CheckResult:
    if os.access(work_dir, os.W_OK | os.X_OK):
        return CheckResult("work dir", "ok", f"{work_dir} is writable")
    return CheckResult("work dir", "fail", f"{work_dir} is not writable", "choose another with --wd or WD")


def _check_config(env: Mapping[str, str]) -> tuple[Settings, CheckResult]:
    config = default_config()
    try:
        settings = load_settings(config, env)
    except ConfigError as error:
        failed = CheckResult("config", "fail", str(error), "`logos schema --keys` lists the known settings")
        return load_settings(None, {}), failed
    if config is None:
        missing = CheckResult("config", "warn", "no ./logos.json, defaults are used", "`logos init` writes one")
        return settings, missing
    return settings, CheckResult("config", "ok", f"./{config} is valid")


def _check_server(settings: Settings) -> Iterator[CheckResult]:
    try:
        with closing(server_client(settings.api, patience=1)) as server:
            server.preflight((), patience=0)
            found = sorted(name for name, is_found in server.providers().items() if is_found)
            finds = f"it finds the programs of {', '.join(found)}" if found else "it finds no agent program"
            yield CheckResult("CAO server", "ok", f"{server.base_url} answers; {finds}")
            yield _check_profiles(settings, server.profiles())
    except (HostError, ConfigError) as error:
        yield CheckResult("CAO server", "fail", str(error))


def _check_profiles(settings: Settings, there: set[str] | None) -> CheckResult:
    wanted = {agent["profile"] for agent in settings.agent_config().values()}
    if there is None:
        return CheckResult("profiles", "warn", "the server does not list its profiles")
    if missing := sorted(wanted - there):
        text = f"the server has no {', '.join(missing)}"
        return CheckResult("profiles", "fail", text, "`logos profiles install` installs ours")
    return CheckResult("profiles", "ok", f"the server has {', '.join(sorted(wanted))}")


def _check_agents(host: ChosenHost, agents: list[Cli]) -> Iterator[CheckResult]:
    wanted = {agent["provider"] for agent in host.settings.agent_config().values()}
    for cli in agents:
        used = ", used by this configuration" if cli.provider in wanted else ""
        login = {True: ", logged in", False: ", not logged in", None: ""}[cli.logged_in]
        level = "warn" if cli.logged_in is False and used else "ok"
        log_in = f"see `{' '.join((cli.program, *PROVIDERS[cli.provider].login))}`" if level == "warn" else ""
        yield CheckResult(f"agent {cli.provider}", level, f"{cli.program}: {cli.version}{login}{used}", log_in)
    for provider in sorted(wanted - {cli.provider for cli in agents} - {COMMAND}):
        text = f"`{PROGRAMS.get(provider, provider)}` is not on the PATH"
        row = PROVIDERS.get(provider)
        if host.name == "cao":
            # The server may run on another machine.
            yield CheckResult(f"agent {provider}", "warn", text, "install it where the CAO server runs")
        elif host.name == "local":
            yield CheckResult(f"agent {provider}", "fail", text, f"install it: {row.install}" if row else "")


def _check_log(work_dir: Path) -> CheckResult:
    if not has_log(work_dir):
        return CheckResult("log", "ok", "no run yet")
    try:
        with reading(work_dir) as log:
            runs = log.runs()
            damaged = [run for run in runs if _is_damaged(log, run)]
    except LogError as error:
        return CheckResult("log", "fail", str(error), "`logos run` sets it aside and starts a new one")
    if damaged:
        remedy = "`logos run --resume` keeps a copy and continues from the last readable event"
        return CheckResult("log", "warn", f"cannot be read to the end: {', '.join(damaged)}", remedy)
    return CheckResult("log", "ok", f"{count(len(runs), 'run')}, readable")


def _is_damaged(log: Log, run: RunId) -> bool:
    try:
        return bool(load_run(log, run).damage)
    except LogError:
        return True
