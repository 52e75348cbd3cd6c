"""Which files steer the tests. A proof puts them back as they were before the run."""

import re
from collections.abc import Callable, Iterable

from logos.domain.artifacts import SPECS
from logos.domain.proof import ProofRules
from logos.flows.proof.commands import implied_by, named_by, named_modules, script_text
from logos.flows.proof.mixed_files import is_mixed, put_back
from logos.flows.proof.patterns import allowed

__all__ = ["allowed", "ambiguous_folder", "is_guarded", "is_test", "mixed", "named_files", "put_back", "scripts_of"]

# More than any project has; a script that names more is not one.
_MAX_NAMED = 200
_SCRIPT = "[cm]?[jt]sx?"
_SCRIPT_NAME = re.compile(rf"\.(sh|bash|zsh|py|rb|pl|mk|{_SCRIPT})$")
_SHELL = (".sh", ".bash", ".zsh")
_CONFIG_WORD = "(conf|config|setup|workspace|preset|environment|global-?setup)"

# Files that hold tests, or that only tests use, by name.
_TEST_NAMES = (
    # Python
    r"test_.*\.py",
    r".*_tests?\.py",
    r"tests?\.py",
    r"conftest\.py",
    # JavaScript and TypeScript
    rf".*[.\-_](test|spec|tests|cy|e2e)\.{_SCRIPT}",
    rf"(tests?([-_].*)?|spec)\.{_SCRIPT}",
    r".*\.snap",
    # Go, Java and its relatives, Ruby, PHP, C#, Elixir
    r".*_test\.go",
    r".*(Test|Tests|IT|Spec)\.(java|kt|groovy|scala)",
    r".*_(spec|test)\.rb",
    r".*Test\.php",
    r".*Tests?\.cs",
    r".*_test\.exs",
    # C, C++, shell
    r"(test_.*|.*_test|.*_unittest)\.(c|cc|cpp|cxx|h|hpp)",
    r".*\.bats",
    r"((run|all)[-_.]?)?tests?([-_.].*)?\.(sh|bash|zsh)",
    r".*[-_.]tests?\.(sh|bash|zsh)",
    r"(run|all)[-_]?tests?(\.\w+)?",
)
# Folders whose files are tests or their data, at any depth.
_TEST_FOLDERS = (
    r"tests?",
    r"__(tests|mocks|snapshots|fixtures)__",
    r"test[-_]?data",
    r"cypress",
    r"(unit|integration|functional|acceptance|e2e)[-_]?tests?",
)
# Folders that mostly are; in some projects they are a part of the product.
_AMBIGUOUS_FOLDERS = (r"specs?", r"fixtures", r"goldens?", r"e2e")
# Files that steer runners and builds, by name, at any depth.
_CONFIG_NAMES = (
    # Python
    r"\.?pytest\.(ini|toml)",
    r"noxfile\.py",
    r"\.coveragerc",
    r"hatch\.toml",
    r"(site|user)customize\.py",
    r".*\.pth",
    # make and its relatives
    r"(GNU)?[Mm]akefile",
    r".*\.mk",
    r"\.?[Jj]ustfile",
    r"[Tt]askfile(\.dist)?\.ya?ml",
    # JavaScript
    rf"(jest|vitest|vite|mocha|ava|karma|cypress|playwright|wdio|nyc|babel)[.-]{_CONFIG_WORD}([.-].*)?\.({_SCRIPT}|json)",
    r"\.(mocharc|nycrc|c8rc|babelrc|taprc|swcrc|npmrc|yarnrc)(\..*)?",
    rf"(setup-?tests?|test-?setup)\.{_SCRIPT}",
    r"tsconfig\.(test|spec|jest|vitest)\.json",
    r"\.env\.test",
    r"bunfig\.toml",
    r"(turbo|nx|deno)\.jsonc?",
    # Java and its relatives
    r"build\.gradle(\.kts)?",
    r"(gradle|maven)-wrapper\.(jar|properties)",
    r"gradlew",
    r"mvnw",
    r"junit-platform\.properties",
    # Rust, Ruby, PHP
    r"build\.rs",
    r"nextest\.toml",
    r"[Rr]akefile",
    r".*\.rake",
    r"\.rspec",
    r"phpunit\.xml(\.dist)?",
    # CI
    r"\.(gitlab-ci|travis|appveyor|drone|woodpecker)\.ya?ml",
    r"(azure|bitbucket)-pipelines\.ya?ml",
    r"Jenkinsfile",
    r"\.pre-commit-config\.ya?ml",
)
_CONFIG_FOLDERS = (
    r"\.github",
    r"\.circleci",
    r"\.buildkite",
    r"\.ci",
    r"\.cargo",
    r"\.mvn",
    r"\.config/nextest",
    r"node_modules",
    r"site-packages",
    r"sharness",
    r"[^/]*\.(dist|egg)-info",
)
# Python modules that a test run imports from elsewhere: a file of that name in the folder where it starts replaces
# them. No project works that has one by accident.
_RUNNER_MODULES = (
    "pytest _pytest unittest unittest2 mock nose nose2 doctest coverage pytest_cov pluggy iniconfig packaging xdist "
    "execnet tox nox hypothesis"
)
_LIBRARY_MODULES = (
    "__future__ abc argparse ast asyncio atexit base64 bdb bisect builtins codecs collections concurrent "
    "contextlib contextvars copy copyreg csv dataclasses datetime difflib dis enum errno fnmatch "
    "functools gc genericpath gettext glob hashlib heapq importlib inspect io itertools json keyword "
    "linecache locale logging math numbers opcode operator os pathlib pdb pkgutil platform posixpath "
    "pprint random re reprlib runpy select selectors shlex shutil signal site socket stat string struct "
    "subprocess sys tempfile textwrap threading time token tokenize traceback types typing uuid warnings "
    "weakref zipfile zipimport"
)
# A folder on PYTHONPATH replaces modules as well; names of the library are usual for packages below `src`.
_BELOW_SOURCE = "pytest _pytest unittest pluggy iniconfig"
_MODULE_END = r"(\.py|\.pyc|\.pyi|(\..*)?\.so|/(.*/)?[^/]*\.(py|pyc|so))"


def _modules(names: str) -> str:
    return f"({'|'.join(names.split())}){_MODULE_END}"


_SHADOW = re.compile(
    rf"{_modules(f'{_RUNNER_MODULES} {_LIBRARY_MODULES}')}|(src|lib|python)/{_modules(_BELOW_SOURCE)}", re.DOTALL
)


def _any_of(names: Iterable[str], folders: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?:.*/)?(?:{'|'.join(names)})|(?:.*/)?(?:{'|'.join(folders)})/.*", re.DOTALL)


_SURE_TESTS = _any_of(_TEST_NAMES, _TEST_FOLDERS)
_TESTS = _any_of(_TEST_NAMES, (*_TEST_FOLDERS, *_AMBIGUOUS_FOLDERS))
_AMBIGUOUS = re.compile(rf"((?:.*?/)?(?:{'|'.join(_AMBIGUOUS_FOLDERS)}))/.*", re.DOTALL)
_CONFIG = _any_of(_CONFIG_NAMES, _CONFIG_FOLDERS)


# What the analyst writes; OpenSpec keeps it in folders named specs.
_SPECS = re.compile(rf"(?:{'|'.join(map(re.escape, SPECS))}).*\.md", re.DOTALL)


def is_test(path: str) -> bool:
    """Whether a file holds tests, or is a helper or data that only tests use."""
    return _TESTS.fullmatch(path) is not None and not _SPECS.fullmatch(path)


def ambiguous_folder(path: str) -> str:
    """The folder that makes a file look like a test, where nothing else does and it may be the product's; or empty."""
    found = _AMBIGUOUS.fullmatch(path)
    return found[1] if found and not _SURE_TESTS.fullmatch(path) else ""


def is_guarded(path: str, rules: ProofRules) -> bool:
    """Whether a file steers the tests: a test, configuration, a shadowed module, a file of the command, or named so."""
    if is_test(path) or mixed(path):
        return True
    if _CONFIG.fullmatch(path) or _SHADOW.fullmatch(path):
        return True
    return path in named_by(rules.command) or path in named_modules(rules.command) or allowed(path, rules.guarded)


def mixed(path: str) -> bool:
    """Whether only sections of a file steer the tests; `put_back` replaces them."""
    return is_mixed(path) and not is_test(path)


def _steers(source: str, path: str) -> bool:
    """Whether a file that `source` names is part of the tests; `source` is empty for the command itself."""
    if not source or is_test(path) or path in implied_by("make") or mixed(path):
        return True
    if not _SCRIPT_NAME.search(path):
        return False
    folder = source.rpartition("/")[0]
    return not source.endswith(_SHELL) or path.rpartition("/")[0] == folder


def named_files(command: str, read: Callable[[str], str | None]) -> tuple[str, ...]:
    """The files that a command names, and scripts that these name in turn, without files that are only partly so."""
    return tuple(path for path in scripts_of(command, read) if not mixed(path))


def scripts_of(command: str, read: Callable[[str], str | None]) -> dict[str, str]:
    """The files that a command names, and scripts that these name in turn: Makefiles, package.json, shell scripts.

    `read` gives the text of a file before the run. A proof adds these paths to `rules.guarded`. What a script starts
    may be the product itself, which must stay as the run made it: of what scripts name, only tests and scripts count,
    and of what shell scripts name, only those beside them.
    """
    found: dict[str, str] = {}
    texts = [("", command)]
    while texts and len(found) < _MAX_NAMED:
        source, text = texts.pop()
        for path in sorted(named_by(text) | implied_by(text) | named_modules(text)):
            if path in found or (content := read(path)) is None or not _steers(source, path):
                continue
            found[path] = content
            texts.append((path, script_text(path, content)))
    return found
