"""`logos init`: which provider and which commands it writes, for what is installed and what the project has."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.isolation import clean_env
from tests.support.sandbox import LOGOS, Sandbox
from tests.support.terminals import on_a_terminal


def install(sandbox: Sandbox, *programs: str) -> None:
    """Make these the only programs on PATH; they are never started."""
    folder = sandbox.wd.parent / "bin"
    folder.mkdir(exist_ok=True)
    for program in programs:
        (folder / program).write_text("#!/bin/sh\nexit 1\n")
        (folder / program).chmod(0o755)
    sandbox.set(PATH=str(folder))


def config(sandbox: Sandbox) -> dict[str, Any]:
    return json.loads((sandbox.wd / "logos.json").read_text())


# The provider


def test_the_one_installed_client_is_the_provider(sandbox: Sandbox) -> None:
    install(sandbox, "claude")
    done = sandbox("init")
    assert (done.code, config(sandbox)["provider"]) == (0, "claude_code")
    assert "provider: claude_code\n" in done.out


def test_of_several_the_first_is_written_and_the_others_are_named(sandbox: Sandbox) -> None:
    install(sandbox, "goose", "gemini", "claude")
    done = sandbox("init")
    assert config(sandbox)["provider"] == "claude_code"
    assert "provider: claude_code (also installed: gemini, goose; --provider NAME chooses)\n" in done.out


def test_without_a_client_no_provider_is_written(sandbox: Sandbox) -> None:
    install(sandbox)
    done = sandbox("init")
    assert done.code == 0
    assert "provider" not in config(sandbox)
    assert "provider: none found; install an agent CLI: `logos doctor`" in done.out


def test_a_provider_can_be_named_by_its_program(sandbox: Sandbox) -> None:
    install(sandbox, "codex")
    done = sandbox("init", "--provider", "opencode")
    assert config(sandbox)["provider"] == "opencode_cli"
    assert "opencode_cli, which is not installed here" in done.out


def test_an_unknown_provider_is_refused_before_anything_is_written(sandbox: Sandbox) -> None:
    done = sandbox("init", "--provider", "codx")
    assert (done.code, list(sandbox.wd.iterdir())) == (2, [])
    assert "unknown provider 'codx'" in done.err


def test_json_tells_the_provider_and_the_others(sandbox: Sandbox) -> None:
    install(sandbox, "codex", "qwen")
    done = sandbox("init", "--json").json
    assert (done["provider"], done["installed"]) == ("codex", ["codex", "qwen"])


def test_a_configuration_that_stays_gets_no_provider(sandbox: Sandbox) -> None:
    install(sandbox, "claude")
    (sandbox.wd / "logos.json").write_text("{}")
    done = sandbox("init", "--json").json
    assert (done["provider"], (sandbox.wd / "logos.json").read_text()) == (None, "{}")


@pytest.mark.parametrize(("typed", "chosen"), [("\n", "codex"), ("7\n2\n", "claude_code"), ("goose\n", "goose")])
def test_at_a_terminal_the_person_chooses(sandbox: Sandbox, typed: str, chosen: str) -> None:
    install(sandbox, "codex", "claude", "goose")
    environment = clean_env(TERM="dumb", **sandbox.environment)
    seen, _ = on_a_terminal([LOGOS, "init"], sandbox.wd, environment, typed=typed)
    assert "  2  claude_code" in seen
    assert "Which agent CLI? (1: codex)" in seen
    assert config(sandbox)["provider"] == chosen


# The project's own environment


def put(folder: Path, *files: str, **texts: str) -> None:
    for name, text in {**dict.fromkeys(files, ""), **texts}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def make_venv(folder: Path, name: str, *modules: str) -> None:
    put(folder, f"{name}/bin/python", f"{name}/pyvenv.cfg")
    put(folder, *(f"{name}/lib/python3.12/site-packages/{module}/__init__.py" for module in modules))


def commands(sandbox: Sandbox) -> dict[str, str]:
    return {tool["name"]: tool["command"] for tool in sandbox("init", "--json", "--force").json["tools"]}


@pytest.mark.parametrize("name", [".venv", "venv"])
def test_python_tools_are_called_with_the_projects_own_interpreter(sandbox: Sandbox, name: str) -> None:
    put(sandbox.wd, "pytest.ini", "ruff.toml", "mypy.ini", "requirements.txt", "requirements-dev.txt")
    make_venv(sandbox.wd, name, "pytest", "ruff")
    done = sandbox("init")
    python = f"{name}/bin/python"
    assert config(sandbox)["project_test_cmd"] == f"{python} -m pytest -q"
    telos = tomllib.loads((sandbox.wd / "telos.toml").read_text())
    # mypy is not in the environment; it may be on PATH.
    assert [tool["command"] for tool in telos["tools"]] == [
        f"{python} -m ruff check .",
        "mypy .",
        f"{python} -m pytest -q",
    ]
    assert telos["worktree"]["setup"] == (
        f"python3 -m venv {name} && echo '*' > {name}/.gitignore && "
        f"{python} -m pip install -q -r requirements.txt -r requirements-dev.txt ruff pytest"
    )
    assert f"setup of a new worktree: python3 -m venv {name} &&" in done.out


def test_the_setup_installs_the_package_with_its_test_extras(sandbox: Sandbox) -> None:
    project = "[project]\nname='x'\n[project.optional-dependencies]\ntest=['pytest']\ngui=[]\ndev=[]\n"
    put(sandbox.wd, **{"pyproject.toml": project, ".gitignore": "*.pyc\n/.venv/\n"})
    make_venv(sandbox.wd, ".venv", "pytest")
    setup = sandbox("init", "--json").json["setup"]
    assert setup == "python3 -m venv .venv && .venv/bin/python -m pip install -q -e '.[test,dev]' pytest"


@pytest.mark.parametrize(
    ("lock", "runner", "setup"),
    [
        ("uv.lock", "uv run", "uv sync --frozen"),
        ("poetry.lock", "poetry run", "poetry install"),
        ("pdm.lock", "pdm run", "pdm install"),
        ("Pipfile.lock", "pipenv run", "pipenv sync --dev"),
    ],
)
def test_a_lock_file_names_what_runs_the_tools(sandbox: Sandbox, lock: str, runner: str, setup: str) -> None:
    put(sandbox.wd, lock, "pytest.ini", "ruff.toml", "package-lock.json")
    make_venv(sandbox.wd, ".venv")
    assert commands(sandbox) == {"ruff": f"{runner} ruff check .", "pytest": f"{runner} pytest -q"}
    assert tomllib.loads((sandbox.wd / "telos.toml").read_text())["worktree"]["setup"] == f"{setup} && npm ci"
    assert config(sandbox)["project_test_cmd"] == f"{runner} pytest -q"


def test_a_lock_file_without_pytest_runs_unittest_with_its_python(sandbox: Sandbox) -> None:
    put(sandbox.wd, "uv.lock", "test_x.py")
    assert commands(sandbox) == {"unittest": "uv run python -m unittest"}


def test_an_environment_without_pytest_is_told_instead_of_a_command_that_fails(sandbox: Sandbox) -> None:
    put(sandbox.wd, **{"test_x.py": "import pytest\n"})
    make_venv(sandbox.wd, ".venv")
    done = sandbox("init")
    assert config(sandbox)["project_test_cmd"] == ""
    assert "test command: none found" in done.out
    assert "note: .venv does not have pytest, which the tests need: install it with" in done.out
    assert "`.venv/bin/python -m pip install pytest`" in done.out
    put(sandbox.wd, **{"test_y.py": "import unittest\n"})
    again = sandbox("init", "--force", "--json").json
    assert (again["project_test_cmd"], len(again["notes"])) == (".venv/bin/python -m unittest", 1)
    put(sandbox.wd, Makefile="test:\n\ttrue\n")
    assert sandbox("init", "--force", "--json").json["notes"] == []


def test_tools_that_nobody_installed_are_told(sandbox: Sandbox) -> None:
    install(sandbox, "ruff")
    put(sandbox.wd, "pytest.ini", "ruff.toml", "mypy.ini", "eslint.config.js")
    make_venv(sandbox.wd, ".venv", "pytest")
    (note,) = sandbox("init", "--json").json["notes"]
    assert note.startswith("not installed here: mypy, npx; a build does not start without them")


def test_an_environment_that_sees_the_systems_packages_may_have_pytest(sandbox: Sandbox) -> None:
    put(sandbox.wd, "pytest.ini")
    make_venv(sandbox.wd, ".venv")
    put(sandbox.wd, **{".venv/pyvenv.cfg": "home = /usr\ninclude-system-site-packages = true\n"})
    assert sandbox("init", "--json").json["project_test_cmd"] == ".venv/bin/python -m pytest -q"
