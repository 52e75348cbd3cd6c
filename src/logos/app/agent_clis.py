"""Detecting agent CLIs: which are installed, in which version, and whether they are logged in; no model is asked."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from logos.adapters.hosts.providers import PROVIDERS
from logos.engine.parallel import run_parallel

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
PROGRAMS: Mapping[str, str] = {**{row.name: row.program for row in PROVIDERS.values()}, **CAO_ONLY}
TIMEOUT_SECONDS = 5
NO_VERSION = "version unknown"
# Some exit with 0 although nobody is logged in.
_NOT_LOGGED_IN = re.compile(r"\b0 credentials\b|not logged in", re.IGNORECASE)
_API_KEY = re.compile(r"\b[1-9]\d* environment variable", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cli:
    """An agent CLI on this machine; `logged_in` is None where only a model call could tell."""

    provider: str
    program: str
    version: str
    logged_in: bool | None

    def as_json(self) -> dict[str, Any]:
        return {
            "provider": self.provider,
            "program": self.program,
            "version": self.version,
            "logged_in": self.logged_in,
            "local": self.provider in PROVIDERS,
        }


def installed() -> list[Cli]:
    """Every known CLI on the PATH, in the order in which Logos would choose them."""
    here = [name for name, program in PROGRAMS.items() if shutil.which(program)]
    found = {name: cli for name, cli in run_parallel({name: _look_at(name) for name in here}) if isinstance(cli, Cli)}
    return [found[name] for name in here]


def _look_at(provider: str) -> Callable[[], Cli]:
    program = PROGRAMS[provider]
    return lambda: Cli(provider, program, version_of(program), _logged_in(provider))


def version_of(program: str, flag: str = "--version") -> str:
    answer = ask(program, flag)
    lines = (line.strip() for line in answer[1].splitlines()) if answer else ()
    return next((line for line in lines if line), NO_VERSION)


def _logged_in(provider: str) -> bool | None:
    """Ask the CLI itself. Its output may be private and is not shown."""
    row = PROVIDERS.get(provider)
    if row is None or not row.login:
        return None
    answer = ask(row.program, *row.login)
    if answer is None:
        return None
    code, text = answer
    return code == 0 and (_NOT_LOGGED_IN.search(text) is None or _API_KEY.search(text) is not None)


def ask(*command: str) -> tuple[int, str] | None:
    """Exit code and output of a short command; None when it fails to start or times out."""
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.returncode, ran.stdout or ran.stderr
