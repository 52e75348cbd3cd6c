"""The programs that Logos starts: where they are, never in the work dir, and the variables that agents' code gets."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from logos.adapters.files import text_of_file
from logos.errors import ProgramNotFound

_BY_NAME = re.compile(rb"#!\s*/usr/bin/env\s+(?:-S\s+)?([\w.+-]+)\s*$")

SERVER_TOKEN = "CAO_AUTH_LOCAL_TOKEN"
# Secrets of Logos itself: with them, an agent could type into other agents' terminals, or write to the person.
_MESSAGES = ("NTFY_TOPIC", "NOTIFICATIONS_URLS")
# Where the run log is, if not in the work dir: whoever can write there can forge a run.
DATABASE_VARIABLE = "LOGOS_DATABASE"
# What a connection takes from the environment where its address does not say it.
_CONNECTION = ("HOST", "HOSTADDR", "PORT", "DATABASE", "USER", "PASSWORD", "PASSFILE", "SERVICE", "SERVICEFILE")
_TLS = ("SSLMODE", "SSLCERT", "SSLKEY", "SSLROOTCERT", "SSLCRL", "OPTIONS", "REQUIREAUTH", "KRBSRVNAME")
DATABASE = (DATABASE_VARIABLE, *(f"PG{name}" for name in (*_CONNECTION, *_TLS)))
WITHHELD = (SERVER_TOKEN, *_MESSAGES, *(f"LOGOS_{name}" for name in _MESSAGES))


def own_environment() -> dict[str, str]:
    """The environment of this process without the secrets of Logos, for agents and for commands that run their code."""
    # Without a database of Logos, variables of that kind are for the project's own.
    withheld = (*WITHHELD, *DATABASE) if os.environ.get(DATABASE_VARIABLE) else WITHHELD
    return {name: value for name, value in os.environ.items() if name not in withheld}


def find_program(name: str, work_dir: Path, env: Mapping[str, str] | None = None) -> str:
    """The absolute path of a program, the same for the life of this process; ProgramNotFound if there is none.

    Folders of PATH that are relative or below the work dir are skipped: agents write there.
    """
    return _found(name, _roots(work_dir), _path_in(env))


def command_of(name: str, work_dir: Path, env: Mapping[str, str] | None = None) -> list[str]:
    """The words that start a program. Where it is a script for `env NAME`, that interpreter is found likewise."""
    program = find_program(name, work_dir, env)
    try:
        with open(program, "rb") as file:
            interpreter = _BY_NAME.match(file.readline(200))
    except OSError:
        interpreter = None
    return [find_program(interpreter[1].decode(), work_dir, env), program] if interpreter else [program]


def is_installed(name: str, work_dir: Path) -> bool:
    return not why_missing(name, work_dir)


def why_missing(name: str, work_dir: Path) -> str:
    """Why a program cannot be started; empty if it can."""
    try:
        find_program(name, work_dir)
    except ProgramNotFound as error:
        return str(error)
    return ""


def safe_path(work_dir: Path, env: Mapping[str, str] | None = None) -> str:
    """PATH without the folders that agents write to."""
    roots = _roots(work_dir)
    return os.pathsep.join(folder for folder in _path_in(env).split(os.pathsep) if not _is_plantable(folder, roots))


def _roots(work_dir: Path) -> tuple[str, ...]:
    """The work dir and, where it is a git worktree, the work tree it was made from: a run may have worked there."""
    here = work_dir.absolute()
    link = next((folder / ".git" for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    main, found, _ = text_of_file(link, follow=True).removeprefix("gitdir: ").partition("/.git/worktrees/")
    ways = [str(here), *([main] if found else [])]
    return tuple(dict.fromkeys([*ways, *map(os.path.realpath, ways)]))


def _path_in(env: Mapping[str, str] | None) -> str:
    return (os.environ if env is None else env).get("PATH") or os.defpath


@lru_cache(maxsize=256)
def _found(name: str, roots: tuple[str, ...], path: str) -> str:
    refused = ""
    # A name with a slash is a path, which `which` does not look up.
    for folder in path.split(os.pathsep) if os.sep not in name else [""]:
        found = shutil.which(name, path=folder) if folder or os.sep in name else None
        if found is None:
            continue
        if not _is_plantable(folder or os.path.dirname(os.path.abspath(found)), roots) and not _is_below(found, roots):
            return os.path.abspath(found)
        refused = refused or os.path.abspath(found)
    if not refused:
        raise ProgramNotFound(f"`{name}` is not on PATH")
    where = f"below the work dir {roots[0]}" if _is_below(refused, roots) else "in a relative folder of PATH"
    raise ProgramNotFound(f"`{name}` is only at {refused}, {where}, where agents can replace it: it is not started")


def _is_plantable(folder: str, roots: tuple[str, ...]) -> bool:
    return not os.path.isabs(folder) or _is_below(folder, roots)


def _is_below(path: str, roots: tuple[str, ...]) -> bool:
    """Whether a path, as written or with its symbolic links followed, is in a work dir."""
    ways = {os.path.abspath(path), os.path.realpath(path)}
    return any(os.path.commonpath([way, root]) == root for way in ways for root in roots)
