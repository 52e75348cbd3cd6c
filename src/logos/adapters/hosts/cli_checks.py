"""Checks of an agent CLI that is installed: its version and its sandbox. No model is asked."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from subprocess import DEVNULL

from logos.adapters.hosts.providers import Provider, end_of, version_numbers

TIMEOUT_SECONDS = 5
# How programs report that they do not know an argument.
USAGE_ERROR = 2
SANDBOX_REMEDY = (
    "allow user namespaces (Linux: `sysctl kernel.unprivileged_userns_clone=1 "
    "kernel.apparmor_restrict_unprivileged_userns=0`; Docker: `--security-opt seccomp=unconfined`), or set "
    "AUTO_ACCEPT_PERMISSIONS=1 where the machine itself is the sandbox"
)


def ask(*words: str, env: Mapping[str, str] | None = None) -> tuple[int | None, str]:
    """Exit code and output of a short command; no code when it fails to start or times out."""
    try:
        ran = subprocess.run(
            words,
            stdin=DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            env=env,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, ""
    return ran.returncode, ran.stdout or ran.stderr


def version_of(program: str, flag: str = "--version", env: Mapping[str, str] | None = None) -> str:
    lines = [line.strip() for line in ask(program, flag, env=env)[1].splitlines()]
    return next(filter(None, lines), "version unknown")


def version_refused(row: Provider, version: str) -> bool:
    """Whether this version must not be started."""
    return bool(row.refused_from) and version_numbers(version) >= version_numbers(row.refused_from)


def is_newer(row: Provider, version: str) -> bool:
    """Whether this version is newer than the one that our tests drive."""
    return bool(row.tested) and version_numbers(version) > version_numbers(row.tested)


def sandbox_problem(row: Provider, program: str, env: Mapping[str, str] | None = None) -> str:
    """Why the CLI cannot keep its agents inside its sandbox; empty if it can, or if only a turn could tell."""
    code, text = ask(program, *row.sandbox_probe, env=env) if row.sandbox_probe else (None, "")
    if code in (None, 0, USAGE_ERROR):
        return ""
    return f"its sandbox does not work here ({end_of(text, 1) or f'exit {code}'})"
