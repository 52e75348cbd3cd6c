"""Which tools a repository has to prove a level with, read from its files: nothing of it is executed to find out."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, cast

from logos.domain.levels import Level
from logos.domain.specs import Tool

Sign = Callable[[Path], bool]

# Of each file so many characters are looked at.
LOOK_AT = 1_000_000
NO_NPM_TEST = "no test specified"


class Job(StrEnum):
    """What a tool is there for."""

    LINT = "a linter"
    FORMAT = "a format check"
    TYPES = "a type checker"
    TESTS = "a test command"
    JOURNEYS = "end-to-end checks"


@dataclass(frozen=True, slots=True)
class Missing:
    """A tool that was not found, and what takes its place."""

    level: Level
    what: str
    instead: str


@dataclass(frozen=True, slots=True)
class Detected:
    """What was found; `setup` is a command that would make a new worktree's environment."""

    found: tuple[Tool, ...]
    missing: tuple[Missing, ...]
    setup: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A tool and its sign. Of one `kin` at a level only the first that is found is taken.

    `job` is what it is mainly for, `does` what else. A task (a make target, a just recipe) has a `recipe`; a tool is
    called `word` in recipes.
    """

    level: Level
    name: str
    command: str
    job: Job
    sign: Sign
    kin: str = ""
    does: tuple[Job, ...] = ()
    word: str = ""
    recipe: Callable[[Path], str] | None = None

    @property
    def pattern(self) -> str:
        return rf"(?<![\w-]){re.escape(self.word or self.name.replace('-', ' '))}(?![\w-])"


@dataclass(frozen=True, slots=True)
class Seen:
    """A row whose sign was found, with the text of its recipe."""

    row: Row
    recipe: str

    def runs(self, other: Row) -> bool:
        return self.row.level is other.level and re.search(other.pattern, self.recipe) is not None

    def takes_the_place_of(self, other: Row) -> bool:
        """A task stands for every tool of its jobs, and for those that its recipe names."""
        if self.row.level is not other.level:
            return False
        same = bool(other.kin) and self.row.kin == other.kin
        covered = bool(self.recipe) and other.job in (self.row.job, *self.row.does)
        return same or covered or self.runs(other)


def detect_tools(wd: Path) -> Detected:
    seen: list[Seen] = []
    for row in TABLE:
        if not any(first.takes_the_place_of(row) for first in seen) and row.sign(wd):
            seen.append(Seen(row, row.recipe(wd) if row.recipe else ""))
    done = {row for row in TABLE if any(first.row is row or first.runs(row) for first in seen)}
    jobs = {(row.level, job) for row in done for job in (row.job, *row.does)}
    return Detected(
        tuple(Tool(first.row.level, first.row.name, first.row.command) for first in seen),
        tuple(Missing(level, job.value, instead) for level, job, instead in INSTEAD if (level, job) not in jobs),
        next((command for sign, command in SETUPS if sign(wd)), ""),
    )


def detect_test_command(wd: Path) -> str:
    """The first test command whose sign is found; empty when there is none."""
    return next((row.command for row in TABLE if row.job is Job.TESTS and row.sign(wd)), "")


def without_tools(level: Level) -> str:
    """What a level rests on when no tool proves it."""
    return next((instead for own, _, instead in INSTEAD if own is level), "its agent's judgement")


# Files, and what stands in them.


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(LOOK_AT)
    except OSError:
        return ""


def _there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _has(*names: str) -> Sign:
    return lambda wd: any(_there(wd / name) for name in names)


def _says(name: str, pattern: str) -> Sign:
    return lambda wd: re.search(pattern, _read(wd / name), re.MULTILINE) is not None


def _any(*signs: Sign) -> Sign:
    return lambda wd: any(sign(wd) for sign in signs)


def _object(data: object) -> dict[str, Any]:
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _package(wd: Path) -> dict[str, Any]:
    try:
        return _object(json.loads(_read(wd / "package.json") or "null"))
    except (ValueError, RecursionError):
        return {}


def _npm_test(wd: Path) -> bool:
    test = _object(_package(wd).get("scripts")).get("test")
    return isinstance(test, str) and bool(test) and NO_NPM_TEST not in test


def _npm_needs(name: str) -> Sign:
    return lambda wd: any(name in _object(_package(wd).get(key)) for key in ("dependencies", "devDependencies"))


def _configures(key: str) -> Sign:
    return lambda wd: key in _package(wd)


def _files(stem: str, *endings: str) -> Sign:
    return _has(*(stem + ending for ending in endings or (".js", ".cjs", ".mjs", ".ts", ".mts", ".json")))


def _pyproject(wd: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read(wd / "pyproject.toml"))
    except (ValueError, RecursionError):
        return {}


def _needed(pyproject: dict[str, Any]) -> Iterator[str]:
    """Every requirement under a key that speaks of dependencies, however a packager calls it."""
    nodes: list[tuple[object, bool]] = [(pyproject, False)]
    while nodes:
        node, inside = nodes.pop()
        if isinstance(node, dict):
            table = cast("dict[str, object]", node)
            nodes += [(value, inside or "dependenc" in key) for key, value in table.items()]
            yield from table if inside else ()
        elif isinstance(node, list) and inside:
            yield from (item for item in cast("list[object]", node) if isinstance(item, str))


def _python_needs(name: str) -> Sign:
    pattern = rf"^{name}(?![\w.-])"
    listed = _any(*(_says(f, pattern) for f in ("requirements.txt", "requirements-dev.txt", "dev-requirements.txt")))
    return lambda wd: listed(wd) or any(re.match(pattern, words) for words in _needed(_pyproject(wd)))


def _table(name: str) -> Sign:
    return _says("pyproject.toml", rf"^\[tool\.{name}[\].]")


def _python_tests(wd: Path) -> list[Path]:
    return [path for folder in (wd, wd / "tests", wd / "test") for path in sorted(folder.glob("test*.py"))]


def _imports_pytest(wd: Path) -> bool:
    return any("import pytest" in _read(path) for path in _python_tests(wd))


def _mypy_has_files(wd: Path) -> bool:
    """Then `mypy .` would look at more than it is meant to."""
    own = _object(_object(_pyproject(wd).get("tool")).get("mypy"))
    return any(key in own for key in ("files", "packages", "modules"))


def _workflow(pattern: str) -> Sign:
    return lambda wd: any(re.search(pattern, _read(path)) for path in sorted(wd.glob(".github/workflows/*.y*ml")))


# Tasks: make targets and just recipes, with what they run.

# `*+` gives nothing back, so that a line without an end costs no more than its length.
_RULE = re.compile(
    r"^@?(?P<name>[A-Za-z0-9][\w.-]*+)[^\n:=#]*+:(?!:?:?=)(?P<needs>[^\n#]*)[^\n]*\n(?P<body>(?:[ \t][^\n]*\n|\n)*)",
    re.MULTILINE,
)
_CALL = re.compile(r"(?:\$[({]MAKE[)}]|\bmake\b|\bjust\b)([^\n&|;]*)")
RUNNERS = (
    ("make", ("GNUmakefile", "makefile", "Makefile")),
    ("just", ("justfile", "Justfile", ".justfile")),
)


def _rules(wd: Path, files: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Per task its prerequisites and its commands."""
    text = next(filter(None, (_read(wd / name) for name in files)), "")
    rules: dict[str, tuple[str, str]] = {}
    for rule in _RULE.finditer(text + "\n"):
        needs, body = rules.get(rule["name"], ("", ""))
        rules[rule["name"]] = (f"{needs} {rule['needs']}", body + rule["body"])
    return rules


def _mark(task: str) -> str:
    """How a recipe says that it runs a task, whose name alone may be any word: `ruff check`."""
    return f"task:{task}"


def _recipe(files: tuple[str, ...], task: str, wd: Path) -> str:
    """What a task runs, with what it needs and what it calls; never empty for a task that is there."""
    rules = _rules(wd, files)
    names, told = [task], dict[str, str]()
    while names:
        name = names.pop()
        if name in rules and name not in told:
            needs, body = rules[name]
            told[name] = f"{_mark(name)}\n{needs}\n{body}\n"
            names += " ".join((needs, *_CALL.findall(body))).split()
    return "".join(told.values())


def _tells(files: tuple[str, ...], task: str, pattern: str, wd: Path) -> bool:
    recipe = _recipe(files, task, wd)
    return bool(recipe) and re.search(pattern, recipe) is not None


def _tasks(level: Level, task: str, job: Job, *does: Job, kin: str, only: str = "") -> Iterator[Row]:
    for runner, files in RUNNERS:
        sign, recipe = partial(_tells, files, task, only), partial(_recipe, files, task)
        yield Row(level, f"{runner}-{task}", f"{runner} {task}", job, sign, kin, does, _mark(task), recipe)


# The table. What takes another's place stands before it.

L1, L2, L5 = Level.L1, Level.L2, Level.L5
PRE_COMMIT = ".pre-commit-config.yaml"
# In some projects `check` is the tests.
NAMES_A_LINTER = r"(?<![\w-])(?:lint\w*|ruff|flake8|mypy|pyright|eslint|prettier|tsc|clippy|gofmt|go vet)(?![\w-])"

_RUFF = _any(
    _has("ruff.toml", ".ruff.toml"), _table("ruff"), _python_needs("ruff"), _says(PRE_COMMIT, "ruff-pre-commit")
)
_FLAKE8 = _any(
    _has(".flake8"), *(_says(name, r"^\[flake8\]") for name in ("setup.cfg", "tox.ini")), _python_needs("flake8")
)
_RUFF_FORMAT = _any(
    _says("pyproject.toml", r"^\[tool\.ruff\.format\]"),
    *(_says(name, r"^\[format\]") for name in ("ruff.toml", ".ruff.toml")),
    *(_says(name, r"ruff[ -]format") for name in (PRE_COMMIT, "Makefile", "justfile", "tox.ini")),
    _workflow("ruff format"),
)
_BLACK = _any(_table("black"), _python_needs("black"), _says(PRE_COMMIT, r"\bid: *black\b"))
_MYPY = _any(_has("mypy.ini", ".mypy.ini"), _table("mypy"), _says("setup.cfg", r"^\[mypy\]"), _python_needs("mypy"))
_PYRIGHT = _any(_has("pyrightconfig.json"), _table("pyright"), _python_needs("pyright"))
_ESLINT = _any(
    _files("eslint.config"),
    _files(".eslintrc", "", ".js", ".cjs", ".json", ".yml", ".yaml"),
    _configures("eslintConfig"),
    _npm_needs("eslint"),
)
_PRETTIER = _any(
    _files("prettier.config"),
    _files(".prettierrc", "", ".js", ".cjs", ".mjs", ".json", ".json5", ".yml", ".yaml", ".toml"),
    _configures("prettier"),
    _npm_needs("prettier"),
)
_PYTEST = _any(
    _has("pytest.ini", "conftest.py", "tests/conftest.py"),
    _says("pyproject.toml", r"\bpytest\b"),
    _says("setup.cfg", r"^\[tool:pytest\]"),
    _says("tox.ini", "pytest"),
    _imports_pytest,
)
_TOX = _any(
    _has("tox.toml"),
    _says("tox.ini", r"^\[(?:tox|testenv)\b"),
    _says("setup.cfg", r"^\[tox:tox\]"),
    _table("tox"),
)
_JEST = _any(_files("jest.config"), _configures("jest"), _npm_needs("jest"))
_PLAYWRIGHT = _any(_files("playwright.config"), _npm_needs("@playwright/test"))
_CYPRESS = _any(_files("cypress.config"), _has("cypress.json"), _npm_needs("cypress"))

TABLE: tuple[Row, ...] = (
    *_tasks(L1, "lint", Job.LINT, kin="lint"),
    *_tasks(L1, "check", Job.LINT, Job.FORMAT, Job.TYPES, kin="lint", only=NAMES_A_LINTER),
    *_tasks(L1, "format-check", Job.FORMAT, kin="format"),
    Row(L1, "ruff", "ruff check .", Job.LINT, _RUFF, "python lint", word="ruff check"),
    Row(L1, "flake8", "flake8", Job.LINT, _FLAKE8, "python lint"),
    Row(L1, "ruff-format", "ruff format --check .", Job.FORMAT, _RUFF_FORMAT, "python format"),
    Row(L1, "black", "black --check .", Job.FORMAT, _BLACK, "python format"),
    Row(L1, "mypy", "mypy", Job.TYPES, _mypy_has_files, "mypy"),
    Row(L1, "mypy", "mypy .", Job.TYPES, _MYPY, "mypy"),
    Row(L1, "pyright", "pyright", Job.TYPES, _PYRIGHT),
    Row(L1, "eslint", "npx --no-install eslint .", Job.LINT, _ESLINT),
    Row(L1, "prettier", "npx --no-install prettier --check .", Job.FORMAT, _PRETTIER),
    Row(L1, "tsc", "npx --no-install tsc --noEmit", Job.TYPES, _has("tsconfig.json")),
    Row(L1, "cargo-fmt", "cargo fmt --check", Job.FORMAT, _has("Cargo.toml")),
    Row(L1, "cargo-clippy", "cargo clippy", Job.LINT, _has("Cargo.toml"), does=(Job.TYPES,)),
    # gofmt lists what it would change, and is content all the same.
    Row(L1, "gofmt", 'test -z "$(gofmt -l .)"', Job.FORMAT, _has("go.mod")),
    Row(L1, "go-vet", "go vet ./...", Job.LINT, _has("go.mod"), does=(Job.TYPES,)),
    *_tasks(L2, "test", Job.TESTS, kin="tests"),
    Row(L2, "npm-test", "npm test", Job.TESTS, _npm_test, "node"),
    Row(L2, "cargo-test", "cargo test", Job.TESTS, _has("Cargo.toml")),
    Row(L2, "go-test", "go test ./...", Job.TESTS, _has("go.mod")),
    Row(L2, "pytest", "python3 -m pytest -q", Job.TESTS, _PYTEST, "python"),
    Row(L2, "unittest", "python3 -m unittest", Job.TESTS, lambda wd: bool(_python_tests(wd)), "python"),
    Row(L2, "maven", "mvn -q test", Job.TESTS, _has("pom.xml"), "java"),
    Row(L2, "gradle", "./gradlew test", Job.TESTS, _has("gradlew"), "java"),
    Row(L2, "gradle", "gradle test", Job.TESTS, _has("build.gradle", "build.gradle.kts"), "java"),
    Row(L2, "mix", "mix test", Job.TESTS, _has("mix.exs")),
    Row(L2, "rake", "rake test", Job.TESTS, _has("Rakefile")),
    Row(L2, "composer", "composer test", Job.TESTS, _has("composer.json")),
    Row(
        L2,
        "vitest",
        "npx --no-install vitest run",
        Job.TESTS,
        _any(_files("vitest.config"), _npm_needs("vitest")),
        "node",
    ),
    Row(L2, "jest", "npx --no-install jest", Job.TESTS, _JEST, "node"),
    Row(L2, "tox", "tox", Job.TESTS, _TOX, "python"),
    *_tasks(L5, "e2e", Job.JOURNEYS, kin="e2e"),
    *_tasks(L5, "test-e2e", Job.JOURNEYS, kin="e2e"),
    Row(L5, "playwright", "npx --no-install playwright test", Job.JOURNEYS, _PLAYWRIGHT),
    Row(L5, "cypress", "npx --no-install cypress run", Job.JOURNEYS, _CYPRESS),
)

INSTEAD: tuple[tuple[Level, Job, str], ...] = (
    (L1, Job.LINT, "the Syntax-Linter's own reading; nothing proves it"),
    (L1, Job.FORMAT, "the Syntax-Linter's eye for the style it finds; nothing proves it"),
    (L1, Job.TYPES, "the tests, as far as they meet a wrong type"),
    (L2, Job.TESTS, "the Function-Author's word that its tests pass; nothing proves it"),
    (L5, Job.JOURNEYS, "the Journey-Validator's own reading; nothing runs the journeys"),
)

# A new worktree has no installed packages; the lock file tells who installs them.
SETUPS: tuple[tuple[Sign, str], ...] = (
    (_has("uv.lock"), "uv sync"),
    (_has("poetry.lock"), "poetry install"),
    (_has("package-lock.json"), "npm ci"),
    (_has("pnpm-lock.yaml"), "pnpm install --frozen-lockfile"),
    (_has("yarn.lock"), "yarn install --frozen-lockfile"),
)
