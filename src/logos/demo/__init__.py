"""The demo's bundle: a small repository with a missing feature, the prompt for it, and what its agents do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, cast

_HERE = Path(__file__).parent
PYTHON = "{python}"


def copy_repository(place: Path) -> None:
    shutil.copytree(_HERE / "repo", place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


def prompt(python: str) -> str:
    return (_HERE / "prompt.md").read_text(encoding="utf-8").replace(PYTHON, python)


def script(python: str) -> dict[str, list[dict[str, Any]]]:
    """Each role's steps, with longer texts taken from the files they name; `{python}` runs the tests."""
    steps = cast("dict[str, list[dict[str, Any]]]", json.loads((_HERE / "script.json").read_text(encoding="utf-8")))
    return {role: [_told(step, python) for step in turns] for role, turns in steps.items()}


def _told(step: dict[str, Any], python: str) -> dict[str, Any]:
    edits = {path: _text(source) for path, source in cast("dict[str, str]", step.get("edit", {})).items()}
    said = {**step, "say": _text(step["say"]).replace(PYTHON, python), "edit": edits}
    return {**said, "run": step["run"].replace(PYTHON, python)} if "run" in step else said


def _text(name: str) -> str:
    return (_HERE / "agents" / name).read_text(encoding="utf-8")
