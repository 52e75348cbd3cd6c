"""Which tools a repository has to prove a level with, read from its files; nothing is executed to find out."""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, cast

from logos.adapters.programs import is_installed
from logos.app.environments import MAX_READ, PythonEnvironment, python_environment, read_beginning
from logos.domain.levels import Level
from logos.domain.specs import Tool


@dataclass(frozen=True, slots=True)
class Job:
    """What a tool is there for, at which level, and what takes its place where there is none."""

    level: Level
    what: str
    instead: str


LINT = Job(Level.L1, "a linter", "the Syntax-Linter's own reading; nothing proves it")
FORMAT = Job(Level.L1, "a format check", "the Syntax-Linter's eye for the style it finds; nothing proves it")
TYPES = Job(Level.L1, "a type checker", "the tests, as far as they meet a wrong type")
TESTS = Job(Level.L2, "a test command", "the Function-Author's word that its tests pass; nothing proves it")
JOURNEYS = Job(Level.L5, "end-to-end checks", "the Journey-Validator's own reading; nothing runs the journeys")
JOBS = (LINT, FORMAT, TYPES, TESTS, JOURNEYS)


@dataclass(frozen=True, slots=True)
class Detected:
    """What was found; `setup` is a command that makes a new worktree's environment, `notes` what else to know."""

    found: tuple[Tool, ...]
    missing: tuple[Job, ...]
    setup: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A tool and its signs. Of one `kin` only the first that is found is taken.

    A sign is a file (a name, a glob, `make` or `just`) and, after a blank, a pattern of a line in it: see `_lines`.
    `jobs` begins with the main one. A task (a make target, a just recipe) takes the place of the tools that do its jobs
    or that it runs; `word` is how a tool is called in a task, `recipe` what a task runs that was found. `module` is the
    Python module of a tool that is called with the project's own environment.
    """

    name: str
    command: str
    jobs: tuple[Job, ...]
    signs: tuple[str, ...]
    kin: str = ""
    word: str = ""
    is_task: bool = False
    recipe: str = ""
    module: str = ""

    @property
    def level(self) -> Level:
        return self.jobs[0].level

    def runs(self, other: Self) -> bool:
        word = re.escape(other.word or other.name.replace("-", " "))
        return self.level is other.level and re.search(rf"(?<![\w-]){word}(?![\w-])", self.recipe) is not None

    def replaces(self, other: Self) -> bool:
        same_kin = bool(other.kin) and self.kin == other.kin
        return same_kin or (self.is_task and other.jobs[0] in self.jobs) or self.runs(other)


def detect_tools(wd: Path) -> Detected:
    environment, found = python_environment(wd), list[Row]()
    rows = _rows(wd, environment)
    for row in rows:
        line = None if any(first.replaces(row) for first in found) else _find(wd, row.signs)
        if line is not None:
            found.append(replace(row, recipe=line if row.is_task else ""))
    done = [*found, *(row for row in rows if any(first.runs(row) for first in found))]
    jobs = {job for row in done for job in row.jobs}
    setups = [next((command for lock, command in NODE_SETUPS.items() if _find(wd, (lock,)) is not None), "")]
    if environment is not None:
        setups.insert(0, environment.setup_with(row.module for row in found if environment.has(row.module)))
    return Detected(
        tuple(Tool(row.level, row.name, row.command) for row in found),
        tuple(job for job in JOBS if job not in jobs),
        " && ".join(filter(None, setups)),
        tuple(_notes(wd, environment, found)),
    )


def _rows(wd: Path, environment: PythonEnvironment | None) -> list[Row]:
    """The table, with Python tools as the project's environment has them; those that it lacks may be on PATH."""
    if environment is None:
        return [*TABLE]
    rows = [
        replace(row, command=environment.call(row.command)) if environment.has(row.module) else row for row in TABLE
    ]
    if not _lacks_pytest(wd, environment):
        return rows
    # Where tests are written for pytest, unittest would run none of them.
    kept = [row for row in rows if row.module != "pytest"]
    return [replace(row, signs=_UNITTEST) if row.module == "unittest" else row for row in kept]


def _lacks_pytest(wd: Path, environment: PythonEnvironment) -> bool:
    return not environment.has("pytest") and _find(wd, _PYTEST) is not None


def _notes(wd: Path, environment: PythonEnvironment | None, found: list[Row]) -> Iterator[str]:
    tested = any(TESTS in row.jobs and row.kin != "python" for row in found)
    if environment is not None and not tested and _lacks_pytest(wd, environment):
        install, command = f"{environment.python} -m pip install pytest", environment.call(PYTEST)
        yield (
            f"{environment.name} does not have pytest, which the tests need: install it with `{install}`, "
            f"then set project_test_cmd to `{command}`"
        )
    programs = dict.fromkeys(row.command.partition(" ")[0] for row in found)
    absent = [name for name in programs if "/" not in name and not is_installed(name, wd)]
    if absent:
        yield (
            f"not installed here: {', '.join(absent)}; a build does not start without them: install them, let "
            "`[worktree] setup` install them, or remove the tools from telos.toml"
        )


def detect_test_command(wd: Path) -> str:
    """The first test command whose sign is found; empty when there is none."""
    rows = _rows(wd, python_environment(wd))
    return next((row.command for row in rows if TESTS in row.jobs and _find(wd, row.signs) is not None), "")


def without_tools(level: Level) -> str:
    """What a level rests on when no tool proves it."""
    return next((job.instead for job in JOBS if job.level is level), "its agent's judgement")


def _find(wd: Path, signs: tuple[str, ...]) -> str | None:
    """The line that the first of the signs finds."""
    for name, _, pattern in (sign.partition(" ") for sign in signs):
        # Of the files that make or just looks for, the first that is there.
        runner = [path for path in map(wd.joinpath, RUNNERS.get(name, ())) if path.is_file()][:1]
        for path in runner if name in RUNNERS else sorted(wd.glob(name)):
            text = _lines(path)
            if text is not None and (found := re.search(pattern, text, re.MULTILINE)):
                return text[found.start() :].partition("\n")[0]
    return None


def _lines(path: Path) -> str | None:
    """The text of a file, as lines that patterns are looked for in; None: there is no such file.

    package.json and pyproject.toml have a line `a.b.c = value` per value and entry of a list, and a line `a.b` per
    table. A Makefile or justfile has another line `task NAME = …` per task, with all that the task runs.
    """
    text = read_beginning(path, MAX_READ)
    if text is None:
        return None
    if path.name.lower().endswith(("makefile", "justfile")):
        return "\n".join((text, *_tasks(text)))
    parse = {"package.json": json.loads, "pyproject.toml": tomllib.loads}.get(path.name)
    try:
        return "\n".join(_flat(parse(text))) if parse else text
    except (ValueError, RecursionError):
        return ""


def _flat(data: object) -> Iterator[str]:
    nodes = [("", data)]
    while nodes:
        path, node = nodes.pop()
        if isinstance(node, dict):
            table = cast("dict[str, object]", node)
            nodes += [(f"{path}.{key}".removeprefix(".")[:200], value) for key, value in table.items()]
            yield path
        elif isinstance(node, list):
            nodes += [(path, value) for value in cast("list[object]", node)]
        else:
            yield " ".join(f"{path} = {node}".split())


# `*+` gives nothing back, so that a line without an end costs no more than its length.
_RULE = re.compile(
    r"^@?(?P<name>[A-Za-z0-9][\w.-]*+)[^\n:=#]*+:(?!:?:?=)(?P<needs>[^\n#]*)[^\n]*\n(?P<body>(?:[ \t][^\n]*\n|\n)*)",
    re.MULTILINE,
)
_CALL = re.compile(r"(?:\$[({]MAKE[)}]|\bmake\b|\bjust\b)([^\n&|;]*)")


def _tasks(text: str) -> Iterator[str]:
    """Per task a line: its name, and the names and commands of all that it needs and calls."""
    rules: dict[str, tuple[str, str]] = {}
    for rule in _RULE.finditer(text + "\n"):
        needs, body = rules.get(rule["name"], ("", ""))
        rules[rule["name"]] = (f"{needs} {rule['needs']}", body + rule["body"])
    for task in rules.keys() & TASKS:
        names, parts = [task], dict[str, str]()
        while names:
            name = names.pop()
            if name in rules and name not in parts:
                needs, body = rules[name]
                parts[name] = f"task:{name} ; {needs} ; {' ; '.join(body.splitlines())}"
                names += " ".join((needs, *_CALL.findall(body))).split()
        yield f"task {task} = {' ; '.join(parts.values())}"


# The table. A row that replaces another stands before it.

TASKS = frozenset({"lint", "check", "format-check", "test", "e2e", "test-e2e"})
RUNNERS = {"make": ("GNUmakefile", "makefile", "Makefile"), "just": ("justfile", "Justfile", ".justfile")}
# In some projects `check` is the tests.
_A_LINTER = r"(?<![\w-])(?:lint\w*|ruff|flake8|mypy|pyright|eslint|prettier|tsc|clippy|gofmt|go vet)(?![\w-])"


def _task(task: str, kin: str, *jobs: Job, runs: str = "") -> Iterator[Row]:
    for runner in RUNNERS:
        sign = f"{runner} ^task {task} = .*{runs}"
        yield Row(f"{runner}-{task}", f"{runner} {task}", jobs, (sign,), kin, f"task:{task}", is_task=True)


def _python(name: str) -> tuple[str, ...]:
    """The signs of a Python package that a project needs."""
    needed = rf"pyproject.toml ^[^=]*dependenc[^=]*(?:\.{name} =| = {name}(?![\w.-]))"
    files = ("requirements.txt", "requirements-dev.txt", "dev-requirements.txt")
    return (needed, *(rf"{file} ^{name}(?![\w.-])" for file in files))


def _npm(name: str) -> str:
    return rf"package.json ^(?:d|devD)ependencies\.{name} ="


PRE_COMMIT = ".pre-commit-config.yaml"
PYTHON_TESTS = ("test*.py", "tests/test*.py", "test/test*.py")
_UNITTEST = tuple(rf"{files} ^\s*(?:import|from) unittest\b" for files in PYTHON_TESTS)
PYTEST = "python3 -m pytest -q"
# npx without installing: a tool that is not there fails instead of being downloaded.
NPX = "npx --no-install"
_RUFF = ("ruff.toml", ".ruff.toml", r"pyproject.toml ^tool\.ruff\b", *_python("ruff"), f"{PRE_COMMIT} ruff-pre-commit")
_FLAKE8 = (".flake8", r"setup.cfg ^\[flake8\]", r"tox.ini ^\[flake8\]", *_python("flake8"))
_RUFF_FORMAT = (
    *(r"pyproject.toml ^tool\.ruff\.format\b", r"ruff.toml ^\[format\]", r".ruff.toml ^\[format\]"),
    *(f"{file} ruff[ -]format" for file in (PRE_COMMIT, "Makefile", "justfile", "tox.ini")),
    ".github/workflows/*.y*ml ruff format",
)
_BLACK = (r"pyproject.toml ^tool\.black\b", *_python("black"), rf"{PRE_COMMIT} \bid: *black\b")
_MYPY = ("mypy.ini", ".mypy.ini", r"pyproject.toml ^tool\.mypy\b", r"setup.cfg ^\[mypy\]", *_python("mypy"))
_PYRIGHT = ("pyrightconfig.json", r"pyproject.toml ^tool\.pyright\b", *_python("pyright"))
_ESLINT = ("eslint.config.*s", ".eslintrc*", r"package.json ^eslintConfig\b", _npm("eslint"))
_PRETTIER = ("prettier.config.*s", ".prettierrc*", r"package.json ^prettier\b", _npm("prettier"))
_PYTEST = (
    *("pytest.ini", "conftest.py", "tests/conftest.py", r"pyproject.toml \bpytest\b", r"setup.cfg ^\[tool:pytest\]"),
    # unittest runs no test that is a function of a module.
    *(
        "tox.ini pytest",
        *(f"{files} {sign}" for sign in ("import pytest", r"^(?:async )?def test") for files in PYTHON_TESTS),
    ),
)
_TOX = ("tox.toml", r"tox.ini ^\[(?:tox|testenv)\b", r"setup.cfg ^\[tox:tox\]", r"pyproject.toml ^tool\.tox\b")
_JEST = ("jest.config.*s", "jest.config.json", r"package.json ^jest\b", _npm("jest"))

TABLE: tuple[Row, ...] = (
    *_task("lint", "lint", LINT),
    *_task("check", "lint", LINT, FORMAT, TYPES, runs=_A_LINTER),
    *_task("format-check", "format", FORMAT),
    Row("ruff", "ruff check .", (LINT,), _RUFF, "python lint", word="ruff check", module="ruff"),
    Row("flake8", "flake8", (LINT,), _FLAKE8, "python lint", module="flake8"),
    Row("ruff-format", "ruff format --check .", (FORMAT,), _RUFF_FORMAT, "python format", module="ruff"),
    Row("black", "black --check .", (FORMAT,), _BLACK, "python format", module="black"),
    # Where the configuration names the files, `mypy .` would look at more.
    Row(
        "mypy", "mypy", (TYPES,), (r"pyproject.toml ^tool\.mypy\.(?:files|packages|modules)\b",), "mypy", module="mypy"
    ),
    Row("mypy", "mypy .", (TYPES,), _MYPY, "mypy", module="mypy"),
    Row("pyright", "pyright", (TYPES,), _PYRIGHT, module="pyright"),
    Row("eslint", f"{NPX} eslint .", (LINT,), _ESLINT),
    Row("prettier", f"{NPX} prettier --check .", (FORMAT,), _PRETTIER),
    Row("tsc", f"{NPX} tsc --noEmit", (TYPES,), ("tsconfig.json",)),
    Row("cargo-fmt", "cargo fmt --check", (FORMAT,), ("Cargo.toml",)),
    Row("cargo-clippy", "cargo clippy", (LINT, TYPES), ("Cargo.toml",)),
    # gofmt lists the files that it would change, and exits with 0 all the same.
    Row("gofmt", 'test -z "$(gofmt -l .)"', (FORMAT,), ("go.mod",)),
    Row("go-vet", "go vet ./...", (LINT, TYPES), ("go.mod",)),
    *_task("test", "tests", TESTS),
    Row("npm-test", "npm test", (TESTS,), (r"package.json ^scripts\.test = (?!.*no test specified).",), "node"),
    Row("cargo-test", "cargo test", (TESTS,), ("Cargo.toml",)),
    Row("go-test", "go test ./...", (TESTS,), ("go.mod",)),
    Row("pytest", PYTEST, (TESTS,), _PYTEST, "python", module="pytest"),
    Row("unittest", "python3 -m unittest", (TESTS,), PYTHON_TESTS, "python", module="unittest"),
    Row("maven", "mvn -q test", (TESTS,), ("pom.xml",), "java"),
    Row("gradle", "./gradlew test", (TESTS,), ("gradlew",), "java"),
    Row("gradle", "gradle test", (TESTS,), ("build.gradle", "build.gradle.kts"), "java"),
    Row("mix", "mix test", (TESTS,), ("mix.exs",)),
    Row("rake", "rake test", (TESTS,), ("Rakefile",)),
    Row("composer", "composer test", (TESTS,), ("composer.json",)),
    Row("vitest", f"{NPX} vitest run", (TESTS,), ("vitest.config.*s", _npm("vitest")), "node"),
    Row("jest", f"{NPX} jest", (TESTS,), _JEST, "node"),
    Row("tox", "tox", (TESTS,), _TOX, "python", module="tox"),
    *_task("e2e", "e2e", JOURNEYS),
    *_task("test-e2e", "e2e", JOURNEYS),
    Row("playwright", f"{NPX} playwright test", (JOURNEYS,), ("playwright.config.*s", _npm("@playwright/test"))),
    Row("cypress", f"{NPX} cypress run", (JOURNEYS,), ("cypress.config.*s", "cypress.json", _npm("cypress"))),
)

# A new worktree has no installed packages; the lock file tells which command installs them.
NODE_SETUPS = {
    "package-lock.json": "npm ci",
    "pnpm-lock.yaml": "pnpm install --frozen-lockfile",
    "yarn.lock": "yarn install --frozen-lockfile",
}
