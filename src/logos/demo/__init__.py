"""Files of the demo: a small repository with missing features, the task, and the script of its agents."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

_HERE = Path(__file__).parent
_LEVELS = _HERE / "levels"
PYTHON = "{python}"


def copy_repository(folder: Path) -> None:
    """Copy the shop for the cycle: with tests that fail."""
    _copy(_HERE / "repo", folder)


def copy_levels_repository(folder: Path, python: str) -> None:
    """Copy the shop for the levels: without the tests of the missing features, with a telos.toml."""
    _copy(_HERE / "repo", folder, "test_discount.py")
    _copy(_LEVELS / "repo", folder)
    telos = folder / "telos.toml"
    telos.write_text(_read(telos).replace(PYTHON, python), encoding="utf-8")


def _copy(source: Path, folder: Path, *without: str) -> None:
    shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", *without))


def prompt(python: str) -> str:
    return _read(_HERE / "prompt.md").replace(PYTHON, python)


def feature() -> str:
    """The feature that the levels build."""
    return _read(_LEVELS / "feature.txt").strip()


def script(python: str) -> dict[str, list[dict[str, Any]]]:
    """The steps of each role, with texts read from the files that they name; `{python}` becomes the interpreter."""
    roles: dict[str, list[dict[str, Any]]] = json.loads(_read(_HERE / "script.json"))
    texts = _HERE / "agents"
    for step in (step for steps in roles.values() for step in steps):
        step["say"] = _read(texts / step["say"])
        step["edit"] = {path: _read(texts / name) for path, name in step.get("edit", {}).items()}
    return _with_python(roles, python)


def levels_script(python: str) -> dict[str, Any]:
    """The script of the levels' agents."""
    return _with_python(yaml.safe_load(_read(_LEVELS / "script.yaml")), python)


def _with_python(data: Any, python: str) -> Any:
    """Replace it in every text: in JSON, where a quoted path stays one text."""
    return json.loads(json.dumps(data).replace(PYTHON, json.dumps(python)[1:-1]))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
