"""The demo's bundle: a small repository with missing features, what is asked for, and what its agents do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, cast

import yaml

_HERE = Path(__file__).parent
_LEVELS = _HERE / "levels"
PYTHON = "{python}"


def copy_repository(place: Path) -> None:
    """The shop as the cycle finds it: with tests that fail."""
    _copy(_HERE / "repo", place)


def copy_levels_repository(place: Path, python: str) -> None:
    """The same shop before anybody wrote down how its features work, with a telos."""
    _copy(_HERE / "repo", place, "test_discount.py")
    _copy(_LEVELS / "repo", place)
    telos = place / "telos.toml"
    telos.write_text(telos.read_text(encoding="utf-8").replace(PYTHON, python), encoding="utf-8")


def _copy(source: Path, place: Path, *without: str) -> None:
    shutil.copytree(source, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", *without))


def prompt(python: str) -> str:
    return (_HERE / "prompt.md").read_text(encoding="utf-8").replace(PYTHON, python)


def feature() -> str:
    """What the levels are asked for."""
    return (_LEVELS / "feature.txt").read_text(encoding="utf-8").strip()


def script(python: str) -> dict[str, list[dict[str, Any]]]:
    """Each role's steps, with longer texts taken from the files they name; `{python}` runs the tests."""
    steps = cast("dict[str, list[dict[str, Any]]]", json.loads((_HERE / "script.json").read_text(encoding="utf-8")))
    return {role: [_told(step, python) for step in turns] for role, turns in steps.items()}


def levels_script(python: str) -> dict[str, Any]:
    """What the agents of the levels do."""
    return _with_python(yaml.safe_load((_LEVELS / "script.yaml").read_text(encoding="utf-8")), python)


def _with_python(said: Any, python: str) -> Any:
    match said:
        case str():
            return said.replace(PYTHON, python)
        case list():
            return [_with_python(part, python) for part in cast("list[Any]", said)]
        case dict():
            return {key: _with_python(part, python) for key, part in cast("dict[str, Any]", said).items()}
        case _:
            return said


def _told(step: dict[str, Any], python: str) -> dict[str, Any]:
    edits = {path: _text(source) for path, source in cast("dict[str, str]", step.get("edit", {})).items()}
    said = {**step, "say": _text(step["say"]).replace(PYTHON, python), "edit": edits}
    return {**said, "run": step["run"].replace(PYTHON, python)} if "run" in step else said


def _text(name: str) -> str:
    return (_HERE / "agents" / name).read_text(encoding="utf-8")
