"""`logos doctor`: is everything here that a run needs?"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from logos.cli.options import AsJson, WorkDir, examples
from logos.cli.place import default_config, driver_at, has_log, place_of, reading
from logos.errors import ConfigError, HostError, LogError

if TYPE_CHECKING:
    from logos.runtime.settings import Settings

EXAMPLES = examples("logos doctor", "logos doctor --json | jq '.checks[] | select(.level == \"fail\")'")

# The program behind each provider, as the CAO server looks for it.
PROGRAMS = {
    "antigravity_cli": "agy",
    "claude_code": "claude",
    "codex": "codex",
    "copilot_cli": "copilot",
    "cursor_cli": "agent",
    "grok_cli": "grok",
    "hermes": "hermes",
    "kimi_cli": "kimi",
    "kiro_cli": "kiro-cli",
    "mcode": "mcode",
    "omp": "omp",
    "opencode_cli": "opencode",
    "q_cli": "q",
}
VERSION_SECONDS = 5
OLDEST = (3, 11)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor; `fail` is for what a run cannot do without."""

    about: str
    level: Literal["ok", "warn", "fail"]
    text: str
    remedy: str = ""


def doctor(wd: WorkDir = None, as_json: AsJson = False) -> int:
    """Check what a run needs: Python, git, tmux, the CAO server with its profiles, agent CLIs, work dir, log, lock."""
    from logos.cli import show

    findings = list(examine(place_of(wd)))
    failed = any(finding.level == "fail" for finding in findings)
    if as_json:
        rows = [{"about": f.about, "level": f.level, "text": f.text, "remedy": f.remedy or None} for f in findings]
        show.document({"ok": not failed, "checks": rows})
        return int(failed)
    target = show.console()
    width = max(len(finding.about) for finding in findings)
    for finding in findings:
        remedy = f"; {finding.remedy}" if finding.remedy else ""
        line = f"{finding.level:<4}  {finding.about.ljust(width)}  {finding.text}{remedy}"
        show.put(target, line, show.STYLES[show.MARKS[finding.level]])
    show.put(target, "something a run needs is missing" if failed else "ready to run", "bold")
    return int(failed)


def examine(place: Path) -> Iterator[Finding]:
    yield _python()
    yield _program("git", "without it no change is shown or committed")
    yield _program("tmux", "a CAO server on this machine needs it")
    yield _work_dir(place)
    settings, finding = _configuration()
    yield finding
    yield from _server(settings)
    yield from _agents(settings)
    yield _log(place)
    driver = driver_at(place)
    yield Finding("lock", "ok", f"a driver is at work, pid {driver}" if driver else "free, no driver is at work")


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info >= OLDEST:
        return Finding("python", "ok", version)
    return Finding("python", "fail", version, "3.11 or newer is needed")


def _program(name: str, why: str) -> Finding:
    if shutil.which(name) is None:
        return Finding(name, "warn", "not on the PATH", why)
    return Finding(name, "ok", _version_of(name, "-V" if name == "tmux" else "--version"))


def _version_of(program: str, flag: str = "--version") -> str:
    try:
        ran = subprocess.run(
            [program, flag],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "does not tell its version"
    return next((line.strip() for line in ran.stdout.splitlines() if line.strip()), "does not tell its version")


def _work_dir(place: Path) -> Finding:
    if os.access(place, os.W_OK | os.X_OK):
        return Finding("work dir", "ok", f"{place} is writable")
    return Finding("work dir", "fail", f"{place} is not writable", "choose another with --wd or WD")


def _configuration() -> tuple[Settings, Finding]:
    from logos.runtime.settings import load_settings

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
    from logos.cli.wiring import server_client

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


def _agents(settings: Settings) -> Iterator[Finding]:
    """The agent CLIs here; the server may run elsewhere, so a missing one is only a doubt."""
    from logos.runtime.together import at_once

    wanted = {own["provider"] for own in settings.agent_config().values()}
    here = {provider: program for provider, program in PROGRAMS.items() if shutil.which(program)}

    def job(program: str) -> Callable[[], str]:
        return lambda: _version_of(program)

    versions = dict(at_once({provider: job(program) for provider, program in here.items()}))
    for provider in sorted(versions):
        used = ", used by this configuration" if provider in wanted else ""
        yield Finding(f"agent {provider}", "ok", f"{here[provider]}: {versions[provider]}{used}")
    for provider in sorted(wanted - set(here)):
        program = PROGRAMS.get(provider, provider)
        yield Finding(
            f"agent {provider}", "warn", f"`{program}` is not on the PATH", "install it where the CAO server runs"
        )


def _log(place: Path) -> Finding:
    from logos.cli.runs import rows_of

    if not has_log(place):
        return Finding("log", "ok", "no run yet")
    try:
        with reading(place) as log:
            rows = rows_of(log, place)
    except LogError as error:
        return Finding("log", "fail", str(error), "`logos run` keeps it aside and begins a new one")
    damaged = [row["run"] for row in rows if row["status"] == "DAMAGED"]
    if damaged:
        remedy = "`logos run --resume` keeps a copy and goes on from the last readable event"
        return Finding("log", "warn", f"cannot be read to the end: {', '.join(damaged)}", remedy)
    return Finding("log", "ok", f"{len(rows)} run{'' if len(rows) == 1 else 's'}, readable")
