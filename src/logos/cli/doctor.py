"""`logos doctor`: is everything here that a run needs?"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from logos.app.workdir import default_config, driver_at, has_log, place_of, reading
from logos.cli.options import AsJson, WorkDir, examples
from logos.errors import ConfigError, HostError, LogError

if TYPE_CHECKING:
    from logos.app.agent_clis import Cli
    from logos.app.settings import Settings

EXAMPLES = examples("logos doctor", "logos doctor --json | jq '.checks[] | select(.level == \"fail\")'")

OLDEST = (3, 11)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor; `fail` is for what a run cannot do without."""

    about: str
    level: Literal["ok", "warn", "fail"]
    text: str
    remedy: str = ""


def doctor(wd: WorkDir = None, as_json: AsJson = False) -> int:
    """Check what a run needs: Python, git, agent CLIs and whether they are logged in, a CAO server, work dir, log.

    Says which host a new run would use and why. No model is asked.
    """
    from logos.app.agent_clis import installed
    from logos.cli.output import console as show

    settings, config = _configuration()
    host, clis = choose(settings), installed()
    findings = list(examine(place_of(wd), config, host, clis))
    failed = any(finding.level == "fail" for finding in findings)
    if as_json:
        rows = [{"about": f.about, "level": f.level, "text": f.text, "remedy": f.remedy or None} for f in findings]
        chosen = {"name": host.name, "why": host.why}
        show.document({"ok": not failed, "host": chosen, "agents": [cli.as_json() for cli in clis], "checks": rows})
        return int(failed)
    target = show.console()
    width = max(len(finding.about) for finding in findings)
    for finding in findings:
        remedy = f"; {finding.remedy}" if finding.remedy else ""
        line = f"{finding.level:<4}  {finding.about.ljust(width)}  {finding.text}{remedy}"
        show.put(target, line, show.STYLES[show.MARKS[finding.level]])
    show.put(target, "something a run needs is missing" if failed else "ready to run", "bold")
    return int(failed)


@dataclass(frozen=True, slots=True)
class Host:
    """What a new run would run its agents on; no name: it could not start."""

    name: Literal["cao", "local"] | None
    why: str
    settings: Settings


def choose(settings: Settings) -> Host:
    """As `logos run --fresh` would."""
    from logos.app.hosts import cao_host, choose_host

    told: list[str] = []
    try:
        chosen, make = choose_host(settings.model_copy(update={"resume": False}), told.append, "")
    except ConfigError as error:
        return Host(None, str(error), settings)
    if make is not cao_host:
        return Host("local", told[-1] if told else "as configured", chosen)
    why = f"host = {settings.host}" if settings.host != "auto" else "it answers"
    return Host("cao", "its address is configured" if "api" in settings.model_fields_set else why, chosen)


def examine(place: Path, config: Finding, host: Host, clis: list[Cli]) -> Iterator[Finding]:
    yield _python()
    yield _program("git", "without it no change is shown or committed")
    yield _program("tmux", "a CAO server on this machine needs it")
    yield _work_dir(place)
    yield config
    yield _host(host)
    if host.name == "cao":
        yield from _server(host.settings)
    yield from _agents(host, clis)
    yield _build(place)
    yield _log(place)
    driver = driver_at(place)
    yield Finding("lock", "ok", f"a driver is at work, pid {driver}" if driver else "free, no driver is at work")


def _build(place: Path) -> Finding:
    """Whether `logos build` could begin here; `logos run` needs none of it."""
    from logos.adapters.git.workspace import base_of
    from logos.app.telos_file import read_telos
    from logos.errors import LogosError
    from logos.views.text import count

    try:
        tools = read_telos(place).tools
        base = base_of(place, allow_dirty=False)
    except LogosError as error:
        return Finding("build", "warn", f"`logos build` cannot begin: {error}")
    return Finding("build", "ok", f"telos.toml names {count(len(tools), 'tool')}; a build would start at {base[:10]}")


def _host(host: Host) -> Finding:
    if host.name is None:
        return Finding("host", "fail", host.why)
    if host.name == "local":
        return Finding("host", "ok", host.why)
    return Finding("host", "ok", f"agents run on the CAO server at {host.settings.api} ({host.why})")


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info >= OLDEST:
        return Finding("python", "ok", version)
    return Finding("python", "fail", version, "3.11 or newer is needed")


def _program(name: str, why: str) -> Finding:
    if shutil.which(name) is None:
        return Finding(name, "warn", "not on the PATH", why)
    from logos.app.agent_clis import version_of

    return Finding(name, "ok", version_of(name, "-V" if name == "tmux" else "--version"))


def _work_dir(place: Path) -> Finding:
    if os.access(place, os.W_OK | os.X_OK):
        return Finding("work dir", "ok", f"{place} is writable")
    return Finding("work dir", "fail", f"{place} is not writable", "choose another with --wd or WD")


def _configuration() -> tuple[Settings, Finding]:
    from logos.app.settings import load_settings

    config = default_config()
    try:
        settings = load_settings(config, os.environ)
    except ConfigError as error:
        return load_settings(None, {}), Finding(
            "config", "fail", str(error), "`logos schema --keys` lists what is known"
        )
    if config is None:
        return settings, Finding("config", "warn", "no ./logos.json, defaults are used", "`logos init` writes one")
    return settings, Finding("config", "ok", f"./{config} is valid")


def _server(settings: Settings) -> Iterator[Finding]:
    from logos.app.hosts import server_client

    try:
        host = server_client(settings.api, patience=1)
        host.preflight((), patience=0)
    except (HostError, ConfigError) as error:
        yield Finding("CAO server", "fail", str(error))
        return
    try:
        found = sorted(name for name, installed in host.providers().items() if installed)
        finds = f"it finds the programs of {', '.join(found)}" if found else "it finds no agent program"
        yield Finding("CAO server", "ok", f"{host.base_url} answers; {finds}")
        there = host.profiles()
        wanted = {own["profile"] for own in settings.agent_config().values()}
        if there is None:
            yield Finding("profiles", "warn", "the server does not list its profiles")
        elif missing := sorted(wanted - there):
            text = f"the server has no {', '.join(missing)}"
            yield Finding("profiles", "fail", text, "`logos profiles install` installs ours")
        else:
            yield Finding("profiles", "ok", f"the server has {', '.join(sorted(wanted))}")
    except HostError as error:
        yield Finding("CAO server", "fail", str(error))
    finally:
        host.close()


def _agents(host: Host, clis: list[Cli]) -> Iterator[Finding]:
    """The agent CLIs here; a CAO server may run elsewhere, then a missing one is only a doubt."""
    from logos.adapters.hosts.providers import COMMAND, PROVIDERS
    from logos.app.agent_clis import PROGRAMS

    wanted = {own["provider"] for own in host.settings.agent_config().values()}
    for cli in clis:
        used = ", used by this configuration" if cli.provider in wanted else ""
        login = {True: ", logged in", False: ", not logged in", None: ""}[cli.logged_in]
        level = "warn" if cli.logged_in is False and used else "ok"
        log_in = f"`{' '.join((cli.program, *PROVIDERS[cli.provider].login))}` tells more" if level == "warn" else ""
        yield Finding(f"agent {cli.provider}", level, f"{cli.program}: {cli.version}{login}{used}", log_in)
    for provider in sorted(wanted - {cli.provider for cli in clis} - {COMMAND}):
        text = f"`{PROGRAMS.get(provider, provider)}` is not on the PATH"
        row = PROVIDERS.get(provider)
        if host.name == "cao":
            yield Finding(f"agent {provider}", "warn", text, "install it where the CAO server runs")
        elif host.name == "local":
            yield Finding(f"agent {provider}", "fail", text, f"install it: {row.install}" if row else "")


def _log(place: Path) -> Finding:
    from logos.app.runs import load_statuses
    from logos.views.status import UnreadableRun

    if not has_log(place):
        return Finding("log", "ok", "no run yet")
    try:
        with reading(place) as log:
            rows = load_statuses(place, log)
    except LogError as error:
        return Finding("log", "fail", str(error), "`logos run` keeps it aside and begins a new one")
    damaged = [
        row.run if isinstance(row, UnreadableRun) else row.view.run
        for row in rows
        if isinstance(row, UnreadableRun) or row.view.damage
    ]
    if damaged:
        remedy = "`logos run --resume` keeps a copy and goes on from the last readable event"
        return Finding("log", "warn", f"cannot be read to the end: {', '.join(damaged)}", remedy)
    return Finding("log", "ok", f"{len(rows)} run{'' if len(rows) == 1 else 's'}, readable")
