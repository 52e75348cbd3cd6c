"""Files of the demo: a small repository with missing features, the task, and the script of its agents."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, cast

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
    telos.write_text(telos.read_text(encoding="utf-8").replace(PYTHON, python), encoding="utf-8")


def _copy(source: Path, folder: Path, *without: str) -> None:
    shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", *without))


def prompt(python: str) -> str:
    return (_HERE / "prompt.md").read_text(encoding="utf-8").replace(PYTHON, python)


def feature() -> str:
    """The feature that the levels build."""
    return (_LEVELS / "feature.txt").read_text(encoding="utf-8").strip()


def script(python: str) -> dict[str, list[dict[str, Any]]]:
    """The steps of each role, with texts read from the files that they name; `{python}` becomes the interpreter."""
    steps = cast("dict[str, list[dict[str, Any]]]", json.loads((_HERE / "script.json").read_text(encoding="utf-8")))
    return {role: [_filled(step, python) for step in turns] for role, turns in steps.items()}


def levels_script(python: str) -> dict[str, Any]:
    """The script of the levels' agents."""
    return _with_python(yaml.safe_load((_LEVELS / "script.yaml").read_text(encoding="utf-8")), python)


def _with_python(data: Any, python: str) -> Any:
    match data:
        case str():
            return data.replace(PYTHON, python)
        case list():
            return [_with_python(part, python) for part in cast("list[Any]", data)]
        case dict():
            return {key: _with_python(part, python) for key, part in cast("dict[str, Any]", data).items()}
        case _:
            return data


def _filled(step: dict[str, Any], python: str) -> dict[str, Any]:
    edits = {path: _text(source) for path, source in cast("dict[str, str]", step.get("edit", {})).items()}
    return _with_python({**step, "say": _text(step["say"]), "edit": edits}, python)


def _text(name: str) -> str:
    return (_HERE / "agents" / name).read_text(encoding="utf-8")
