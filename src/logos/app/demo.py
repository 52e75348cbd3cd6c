"""The demo: scripted agents add a missing feature to a small repository, whose tests are real."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from logos import demo as bundle
from logos.adapters.git.command import git
from logos.app.hosts import Tell, scripted_host
from logos.app.setting_sources import load_settings
from logos.app.settings import Settings
from logos.app.start import build_here, run_here
from logos.app.workdir import say
from logos.engine.journal import Watcher
from logos.engine.runner import RunResult
from logos.errors import UsageError


def python_name() -> str:
    """The Python that runs the demo's tests: by the name a person would type, where that exists."""
    return "python3" if shutil.which("python3") else shlex.quote(sys.executable)


def demo_folder(keep: Path | None) -> Path:
    """An empty folder for the demo: a new temporary one, or `keep`."""
    if shutil.which("git") is None:
        raise UsageError("the demo needs git: the agents work in a repository of their own")
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="logos-demo-")).resolve()
    folder = keep.expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"--keep {folder}: the folder is not empty")
    except OSError as error:
        raise UsageError(f"--keep {folder}: {error.strerror}") from error
    return folder


def prepare_demo(folder: Path, *, levels: bool = False) -> Settings:
    """Put the demo's repository into an empty folder. The person's environment and configuration are not used."""
    python = python_name()
    chosen = [f"wd={folder}", "provider=scripted", "handoff.response_timeout=60"]
    if levels:
        bundle.copy_levels_repository(folder, python)
    else:
        bundle.copy_repository(folder)
        chosen += [
            f"prompt={bundle.prompt(python)}",
            f"project_test_cmd={python} -m unittest",
            "verify_pass=1",
            "cleanup_on_exit=1",
            # One good review is enough: the demo is short.
            "limits.min_review_cycles_before_approval=1",
            "limits.max_rounds=4",
        ]
    _commit_everything(folder)
    return load_settings(None, {}, chosen)


def _commit_everything(folder: Path) -> None:
    """Make the folder a repository with one commit, independent of the person's git configuration."""
    author = ("-c", "user.name=Logos demo", "-c", "user.email=demo@logos.invalid")
    isolated = ("-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "a small shop")):
        done = git(folder, *author, *isolated, *command)
        if done.returncode != 0:
            raise UsageError(f"git {command[0]} failed in {folder}: {done.stderr.strip()}")


def run_demo(
    settings: Settings, *, levels: bool = False, watchers: Sequence[Watcher[Any]] = (), tell: Tell = say
) -> RunResult[Any]:
    """Run the demo that `prepare_demo` has set up: a run of the cycle, or a build by the nine levels."""
    python = python_name()
    if levels:
        host = scripted_host(bundle.levels_script(python))
        return build_here(settings, bundle.feature(), make_host=host, watchers=watchers, tell=tell)
    return run_here(settings, make_host=scripted_host(bundle.script(python)), watchers=watchers, tell=tell)
