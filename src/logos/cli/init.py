"""`logos init`: a configuration and a prompt to start from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from logos.cli.options import AsJson, WorkDir, examples
from logos.cli.place import CONFIG, TELOS, place_of
from logos.errors import UsageError

EXAMPLES = examples("logos init", "logos init --wd ~/project --force")

PROMPT = "prompt.md"
SCHEMA = f"{TELOS}/logos.schema.json"
NO_NPM_TEST = "no test specified"


def init(
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite what is there; the old file is kept as .bak.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Write logos.json and prompt.md into the work dir, with the test command that is found there."""
    from logos.cli import show
    from logos.runtime.prompt import TEMPLATE
    from logos.runtime.settings import json_schema

    place = place_of(wd)
    command = detect_test_command(place)
    files = {
        CONFIG: json.dumps(first_config(command), indent=2) + "\n",
        PROMPT: TEMPLATE,
    }
    kept = [name for name in files if (place / name).exists() and not force]
    if len(kept) == len(files):
        raise UsageError(f"{' and '.join(kept)} are in {place} already; --force overwrites them")
    _write_schema(place, json.dumps(json_schema(), indent=2) + "\n")
    written = [name for name, text in files.items() if name not in kept and _write(place / name, text)]
    if as_json:
        show.document({"wd": str(place), "written": written, "kept": kept, "project_test_cmd": command})
        return 0
    target = show.console()
    for name in files:
        show.put(target, f"{name}: {'written' if name in written else 'is there already, left as it is'}")
    if CONFIG in written:
        none = "none was found; set project_test_cmd in logos.json, so that a PASS can be verified"
        show.put(target, f"test command: {command or none}")
    show.put(target, f"next: write in {PROMPT} what is to be done, then `logos doctor` and `logos run`", "bold")
    return 0


def first_config(command: str) -> dict[str, Any]:
    return {
        "$schema": SCHEMA,
        "prompt_file": PROMPT,
        "provider": "codex",
        "project_test_cmd": command,
        "verify_pass": True,
        "limits": {"max_rounds": 8, "max_review_cycles": 3},
    }


def _write_schema(place: Path, text: str) -> None:
    """For editors, which complete and check logos.json with it."""
    from logos.adapters.files import own_folder, write_atomically

    own_folder(place / TELOS)
    write_atomically(place / SCHEMA, text)


def _write(path: Path, text: str) -> bool:
    try:
        if path.exists():
            path.replace(path.with_name(path.name + ".bak"))
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return True


def detect_test_command(place: Path) -> str:
    """The first command whose sign is found; empty when there is none."""
    return next((command for found, command in DETECTORS if found(place)), "")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _has(*names: str) -> Callable[[Path], bool]:
    return lambda place: any((place / name).is_file() for name in names)


def _says(name: str, pattern: str) -> Callable[[Path], bool]:
    return lambda place: re.search(pattern, _read(place / name), re.MULTILINE) is not None


def _npm_test(place: Path) -> bool:
    try:
        data: object = json.loads(_read(place / "package.json") or "null")
    except ValueError:
        return False
    scripts: object = cast("dict[str, Any]", data).get("scripts") if isinstance(data, dict) else None
    test = cast("dict[str, Any]", scripts).get("test") if isinstance(scripts, dict) else None
    return isinstance(test, str) and bool(test) and NO_NPM_TEST not in test


def _pytest(place: Path) -> bool:
    configured = _has("pytest.ini", "conftest.py", "tests/conftest.py")(place) or any(
        _says(name, pattern)(place)
        for name, pattern in (
            ("pyproject.toml", r"\bpytest\b"),
            ("setup.cfg", r"^\[tool:pytest\]"),
            ("tox.ini", "pytest"),
        )
    )
    return configured or any("import pytest" in _read(path) for path in _python_tests(place))


def _python_tests(place: Path) -> list[Path]:
    return [path for folder in (place, place / "tests", place / "test") for path in sorted(folder.glob("test*.py"))]


DETECTORS: tuple[tuple[Callable[[Path], bool], str], ...] = (
    (_says("Makefile", r"^test\s*:(?!=)"), "make test"),
    (_says("justfile", r"^test\b.*:(?!=)"), "just test"),
    (_npm_test, "npm test"),
    (_has("Cargo.toml"), "cargo test"),
    (_has("go.mod"), "go test ./..."),
    (_pytest, "python3 -m pytest -q"),
    (lambda place: bool(_python_tests(place)), "python3 -m unittest"),
    (_has("pom.xml"), "mvn -q test"),
    (_has("gradlew"), "./gradlew test"),
    (_has("build.gradle", "build.gradle.kts"), "gradle test"),
    (_has("mix.exs"), "mix test"),
    (_has("Rakefile"), "rake test"),
    (_has("composer.json"), "composer test"),
)
