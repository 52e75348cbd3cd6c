"""A test command that failed before it tested anything, told from one whose tests fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from logos.app.preflight import in_own_environment
from logos.flows.cannot_run import why_it_cannot_run


@pytest.mark.parametrize(
    ("command", "exit_code", "output", "why"),
    [
        ("pytst", 127, "/bin/sh: 1: pytst: not found", "not found"),
        ("./run-tests", 126, "/bin/sh: 1: ./run-tests: Permission denied", "may not be executed"),
        ("python3 -m pytest -q", 1, "/usr/bin/python3: No module named pytest", "no module pytest"),
        ("python -m unittest.mock2", 1, "python: No module named 'unittest.mock2'", "no module unittest.mock2"),
        ("make test", 2, "make: pytst: No such file or directory\nmake: *** [Makefile:2: test] Error 127", "Makefile"),
        ("make tset", 2, "make: *** No rule to make target 'tset'.  Stop.", "no such target"),
        ("npx --no-install tsx", 1, "npm error npx canceled due to missing packages and no YES option", "npx"),
        ("npm run tset", 1, 'npm error Missing script: "tset"', "package.json"),
    ],
)
def test_a_command_that_cannot_run_is_named(command: str, exit_code: int, output: str, why: str) -> None:
    assert why in why_it_cannot_run(command, exit_code, output)


@pytest.mark.parametrize(
    ("command", "exit_code", "output"),
    [
        ("pytest", 0, "No module named pytest"),
        ("pytest", 1, "1 failed, 3 passed"),
        ("python -m pytest", 2, "E   ModuleNotFoundError: No module named 'shop'"),
        ("python -m pytest", 1, "ModuleNotFoundError: No module named 'pytest_django'"),
        ("make test", 2, "make: *** [Makefile:2: test] Error 1"),
        ("sh check.sh", -9, ""),
    ],
)
def test_failing_tests_are_not_a_command_that_cannot_run(command: str, exit_code: int, output: str) -> None:
    assert why_it_cannot_run(command, exit_code, output) == ""


def test_packages_of_node_that_nobody_installed_are_named(tmp_path: Path) -> None:
    (tmp_path / "package.json").touch()
    assert "npm install" in in_own_environment("npm test", tmp_path)
    assert in_own_environment("make test", tmp_path) == ""
    (tmp_path / "node_modules").mkdir()
    assert in_own_environment("npm test", tmp_path) == ""
