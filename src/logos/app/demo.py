"""The demo: scripted agents add a missing feature to a small repository, whose tests are real."""

import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from logos import demo as bundle
from logos.adapters.git.command import Git
from logos.adapters.programs import is_installed
from logos.app.hosts import Tell, scripted_host
from logos.app.setting_sources import load_settings
from logos.app.settings import Settings
from logos.app.start import build_here, run_here
from logos.app.workdir import say
from logos.engine.journal import Watcher
from logos.engine.runner import RunResult
from logos.errors import UsageError

_HERE = Path(bundle.__file__).parent
_LEVELS = _HERE / "levels"
PYTHON = "{python}"


def python_name() -> str:
    """The Python that runs the demo's tests: by the name a person would type, where that exists."""
    return "python3" if shutil.which("python3") else shlex.quote(sys.executable)


def demo_folder(keep: Path | None) -> Path:
    """An empty folder for the demo: a new temporary one, or `keep`."""
    folder = keep.expanduser().absolute() if keep else Path(tempfile.mkdtemp(prefix="logos-demo-")).resolve()
    if not is_installed("git", folder):
        raise UsageError("the demo needs git: the agents work in a repository of their own")
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
    copy_repository(folder, python, levels=levels)
    if not levels:
        chosen += [
            f"prompt={_read(_HERE / 'prompt.md').replace(PYTHON, python)}",
            f"project_test_cmd={python} -m unittest",
            "verify_pass=1",
            "cleanup_on_exit=1",
            # One good review is enough: the demo is short.
            "limits.min_review_cycles_before_approval=1",
            "limits.max_rounds=4",
        ]
    _commit_everything(folder)
    return load_settings(None, {}, chosen)


def copy_repository(folder: Path, python: str, *, levels: bool) -> None:
    """Copy the shop: for the cycle with tests that fail, for the levels without these and with a telos.toml."""
    left_out = shutil.ignore_patterns("__pycache__", *(["test_discount.py"] if levels else []))
    shutil.copytree(_HERE / "repo", folder, dirs_exist_ok=True, ignore=left_out)
    if levels:
        shutil.copytree(_LEVELS / "repo", folder, dirs_exist_ok=True, ignore=left_out)
        telos = folder / "telos.toml"
        telos.write_text(_read(telos).replace(PYTHON, python), encoding="utf-8")


def _commit_everything(folder: Path) -> None:
    """Make the folder a repository with one commit, independent of the person's git configuration."""
    git = Git(folder).with_settings((("core.autocrlf", "false"),))
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "a small shop")):
        git.ask(*command)


def run_demo(
    settings: Settings, *, levels: bool = False, watchers: Sequence[Watcher[Any]] = (), tell: Tell = say
) -> RunResult[Any]:
    """Run the demo that `prepare_demo` has set up: a run of the cycle, or a build by the nine levels."""
    python = python_name()
    if levels:
        feature, host = _read(_LEVELS / "feature.txt").strip(), scripted_host(levels_script(python))
        return build_here(settings, feature, make_host=host, watchers=watchers, tell=tell)
    return run_here(settings, make_host=scripted_host(cycle_script(python)), watchers=watchers, tell=tell)


def cycle_script(python: str) -> dict[str, list[dict[str, Any]]]:
    """The steps of each role, with texts read from the files that they name; `{python}` becomes the interpreter."""
    roles: dict[str, list[dict[str, Any]]] = json.loads(_read(_HERE / "script.json"))
    texts = _HERE / "agents"
    for step in (step for steps in roles.values() for step in steps):
        step["say"] = _read(texts / step["say"])
        step["edit"] = {path: _read(texts / name) for path, name in step.get("edit", {}).items()}
    return _with_python(roles, python)


def levels_script(python: str) -> dict[str, Any]:
    return _with_python(yaml.safe_load(_read(_LEVELS / "script.yaml")), python)


def _with_python(data: Any, python: str) -> Any:
    """Replace it in every text: in JSON, where a quoted path stays one text."""
    return json.loads(json.dumps(data).replace(PYTHON, json.dumps(python)[1:-1]))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
