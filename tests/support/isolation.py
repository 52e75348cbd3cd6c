"""An environment that has nothing of the person who runs the tests: no home, no state folder, no git settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from logos.adapters.programs import DATABASE
from logos.app.person import MARKS
from logos.app.setting_sources import LEAVES, own_variable

# What Logos and its libraries read from the environment; a test sets what it needs.
OURS = frozenset(
    {name for leaf in LEAVES for name in (leaf.env, own_variable(leaf))}
    | {"NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LOGOS_LOG", *DATABASE}
)
# Git variables that would point a test at another repository, identity or template.
_GIT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE")
# Each of the many processes would compile all modules again.
_SLOW = frozenset({"PYTHONDONTWRITEBYTECODE"})
_GIT_CONFIG = """\
[user]
\tname = Ada
\temail = ada@example.org
[init]
\tdefaultBranch = main
\ttemplateDir =
[gc]
\tauto = 0
[advice]
\tdefaultBranchName = false
"""


def isolated(home: Path) -> dict[str, str]:
    """The variables that make `home` the whole world of this process and of those it starts."""
    home.mkdir(parents=True, exist_ok=True)
    config = home / ".gitconfig"
    config.write_text(_GIT_CONFIG)
    # A version manager's `python3` is a script that takes longer than most of our commands.
    programs = home / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("python", "python3"):
        (programs / name).symlink_to(Path(sys.executable).resolve())
    return {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_DATA_HOME": str(home / "data"),
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }


def removed(environ: Mapping[str, str]) -> set[str]:
    """The variables of an environment that tests must not see."""
    unwanted = OURS | _SLOW | {*_GIT, *MARKS}
    return {name for name in environ if name in unwanted or name.startswith("GIT_CONFIG_")}


def clean_env(**more: str) -> dict[str, str]:
    """The environment for a process of its own: the isolated one of this process, and what is given."""
    return {**{name: value for name, value in os.environ.items() if name not in OURS}, **more}


def bare_env(**more: str) -> dict[str, str]:
    """As little environment as a program can do with, still isolated."""
    kept = ("PATH", "HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "PYTHONPATH")
    xdg = [name for name in os.environ if name.startswith("XDG_")]
    return {**{name: os.environ[name] for name in (*kept, *xdg) if name in os.environ}, **more}
