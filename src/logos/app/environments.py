"""The environment of a project's Python tools, read from its files; nothing is executed to find out."""

import re
import shlex
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, cast

from logos.adapters.files import open_regular

# How many characters of a file are read.
MAX_READ = 1_000_000
_VENVS = (".venv", "venv")
_INTERPRETERS = ("bin/python", "Scripts/python.exe")
_SITES = ("lib*/python*/site-packages", "Lib/site-packages")
# Of the project managers that install what a lock file says: how a program is run, how a new worktree is set up.
_MANAGERS = {
    "uv.lock": ("uv run", "uv sync --frozen"),
    "poetry.lock": ("poetry run", "poetry install"),
    "pdm.lock": ("pdm run", "pdm install"),
    "Pipfile.lock": ("pipenv run", "pipenv sync --dev"),
}
_EXTRAS = ("test", "tests", "testing", "dev")
_REQUIREMENTS = (
    *("requirements.txt", "requirements-dev.txt", "dev-requirements.txt", "requirements-test.txt"),
    *("test-requirements.txt", "requirements/dev.txt", "requirements/test.txt"),
)


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """`python` is its interpreter and `runner` what stands before a tool, both as part of a command."""

    wd: Path
    name: str
    python: str
    runner: str
    setup: str = ""

    def has(self, module: str) -> bool:
        """Whether it can run a module; what a project manager runs is found in its environment or on PATH."""
        if not module or self.name in _MANAGERS or module == "unittest":
            return bool(module)
        folder = self.wd / self.name
        if re.search(r"^include-system-site-packages\s*=\s*true", _text(folder / "pyvenv.cfg"), re.MULTILINE):
            return True
        sites = [site for pattern in _SITES for site in folder.glob(pattern)]
        return any((site / module).is_dir() or (site / f"{module}.py").is_file() for site in sites)

    def call(self, command: str) -> str:
        """A tool's command in this environment: `pytest -q`, or `python3 -m unittest`."""
        arguments = command.removeprefix("python3 -m ")
        return f"{self.python} -m {arguments}" if arguments == "unittest" else f"{self.runner} {arguments}"

    def setup_with(self, modules: Iterable[str]) -> str:
        """The command that makes this environment, with these modules in it, in a new worktree."""
        used = dict.fromkeys(modules)
        if self.setup or not used:
            return self.setup
        new = [f"python3 -m venv {self.name}"]
        ignored = _text(self.wd / ".gitignore")
        if not re.search(rf"^/?{re.escape(self.name)}/?\s*$", ignored, re.MULTILINE):
            new.append(f"echo '*' > {self.name}/.gitignore")
        wanted = [*_installed(self.wd), *(module for module in used if module != "unittest")]
        install = [f"{self.python} -m pip install -q {shlex.join(wanted)}"] if wanted else []
        return " && ".join((*new, *install))


def python_environment(wd: Path) -> PythonEnvironment | None:
    for lock, (runner, setup) in _MANAGERS.items():
        if (wd / lock).is_file():
            return PythonEnvironment(wd, lock, f"{runner} python", runner, setup)
    return virtual_environment(wd)


def virtual_environment(wd: Path) -> PythonEnvironment | None:
    for name in _VENVS:
        for interpreter in _INTERPRETERS:
            if (wd / name / interpreter).exists():
                python = f"{name}/{interpreter}"
                return PythonEnvironment(wd, name, python, f"{python} -m")
    return None


def read_beginning(path: Path, characters: int) -> str | None:
    try:
        with open_regular(path, follow=True) as file, TextIOWrapper(file, "utf-8", "replace") as text:
            return text.read(characters)
    except OSError:
        return None


def _text(path: Path) -> str:
    return read_beginning(path, MAX_READ) or ""


def _installed(wd: Path) -> list[str]:
    """What pip installs for the project itself, as far as its files say: the package, its extras, requirements."""
    try:
        project: Any = tomllib.loads(_text(wd / "pyproject.toml"))
    except (ValueError, RecursionError):
        project = {}
    about = project.get("project")
    found = cast("dict[str, Any]", about).get("optional-dependencies") if isinstance(about, dict) else None
    extras = [name for name in _EXTRAS if isinstance(found, dict) and name in found]
    is_package = isinstance(about, dict) or "build-system" in project or (wd / "setup.py").is_file()
    package = ["-e", f".[{','.join(extras)}]" if extras else "."] if is_package else []
    return [*package, *(word for name in _REQUIREMENTS if (wd / name).is_file() for word in ("-r", name))]
