"""Which agent CLIs are installed, in which version, and whether they are logged in; no model is asked."""

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
ELSEWHERE = {
    "antigravity_cli": "agy",
    "cursor_cli": "agent",
    "grok_cli": "grok",
    "hermes": "hermes",
    "kiro_cli": "kiro-cli",
    "mcode": "mcode",
    "omp": "omp",
    "q_cli": "q",
}
PROGRAMS: Mapping[str, str] = {**{row.name: row.program for row in PROVIDERS.values()}, **ELSEWHERE}
ANSWER_SECONDS = 5
NO_VERSION = "does not tell its version"
# Some list what they know and are content with nothing.
_NOBODY = re.compile(r"\b0 credentials\b|not logged in", re.IGNORECASE)
_KEY = re.compile(r"\b[1-9]\d* environment variable", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cli:
    """An agent CLI on this machine; `logged_in` is None where that cannot be told without a model call."""

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
    """Every known CLI on the PATH, in the order in which Logos would take them."""
    here = [name for name, program in PROGRAMS.items() if shutil.which(program)]
    found = {name: cli for name, cli in run_parallel({name: _look_at(name) for name in here}) if isinstance(cli, Cli)}
    return [found[name] for name in here]


def _look_at(provider: str) -> Callable[[], Cli]:
    program = PROGRAMS[provider]
    return lambda: Cli(provider, program, version_of(program), _logged_in(provider))


def version_of(program: str, flag: str = "--version") -> str:
    told = ask(program, flag)
    lines = (line.strip() for line in told[1].splitlines()) if told else ()
    return next((line for line in lines if line), NO_VERSION)


def _logged_in(provider: str) -> bool | None:
    """By the exit code of its own command; what that prints may be private and is not passed on."""
    row = PROVIDERS.get(provider)
    if row is None or not row.login:
        return None
    told = ask(row.program, *row.login)
    if told is None:
        return None
    code, text = told
    return code == 0 and (_NOBODY.search(text) is None or _KEY.search(text) is not None)


def ask(*command: str) -> tuple[int, str] | None:
    """Exit code and output of a short command; None when it does not answer in time."""
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.returncode, ran.stdout or ran.stderr
