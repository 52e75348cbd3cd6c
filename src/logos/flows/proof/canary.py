"""Planted tests that must fail: where one passes, or is not reported, the results of the other tests mean nothing.

Product code that tests import can replace an assertion, a test, the runner's report or the exit code, also only for
tests, files and values that it knows. So the project's own test files are planted, in their places: the same tests with
the same values, which fail if everything they ask for is true. Where that can be done with no test of a file, one more
test stands beside them.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import basename, dirname, splitext

from logos.flows.proof.canary_beside import python_beside, script_beside
from logos.flows.proof.canary_python import Canary, python_canary
from logos.flows.proof.canary_rust import RUST, rust_canary
from logos.flows.proof.canary_script import SCRIPTS, script_canary
from logos.flows.proof.guarded import is_test
from logos.flows.proof.test_ids import file_of

_MAX_CHARACTERS = 400_000
# Assertion methods that a project defines itself mean what it wants them to mean.
_OWN_ASSERTION = re.compile(r"\bdef (assert\w+)\(|\b(addTypeEqualityFunc)\(")


@dataclass(frozen=True, slots=True)
class Planted:
    """The files to put in the place of others, with their text, and the ids of tests that must fail.

    `added` are those of them that are no tests of the project. Where they are scripts, they ask the function `probe` of
    the process whether assertions were replaced.
    """

    files: Mapping[str, str]
    ids: tuple[str, ...]
    added: frozenset[str] = field(default_factory=frozenset[str])
    probe: str = ""


def planted(
    files: Mapping[str, str],
    passed: Iterable[str],
    changed: Sequence[str],
    word: Callable[[], str],
    share: float = 1.0,
    same: Collection[str] = (),
) -> Planted:
    """Versions of test files in which tests that have passed must fail.

    `files` are test files and their helpers by path, `passed` ids of tests. `word` gives a random word that is an
    identifier, another one each time. `share` is the part of these tests that may be run again: of the files, those
    that mention most of what has changed come first. `same` are files as they were before the run: only to these may
    a test be added, because only there can be tried what a failing test does without the result.
    """
    by_file: dict[str, list[str]] = {}
    for test in passed:
        by_file.setdefault(file_of(test), []).append(test)
    own = frozenset(name for text in files.values() for names in _OWN_ASSERTION.findall(text) for name in names)
    own |= {"assertEqual"} if "addTypeEqualityFunc" in own else frozenset[str]()
    found: dict[str, str] = {}
    ids: list[str] = []
    added: list[str] = []
    probe = word() if same else ""
    usable = {
        path: text
        for path, text in files.items()
        if path in by_file and len(text) <= _MAX_CHARACTERS and splitext(path)[1] in (".py", RUST, *SCRIPTS)
    }
    sources = [path for path in changed if not is_test(path)]
    for path in _chosen({path: len(by_file[path]) for path in usable}, share, _ranks(usable, sources, word)):
        ends = [test.partition("::")[2] for test in by_file[path]]
        text = usable[path]
        canary = _in_place(path, text, ends, word, own)
        beside = None
        if path in same and is_test(path) and not path.endswith(RUST) and _needs_more(path, ends, canary):
            given = canary.text if canary else text
            is_python = path.endswith(".py")
            beside = python_beside(given, word, own) if is_python else script_beside(path, given, word, probe)
        for plant, more in ((canary, ids), (beside, added)):
            if plant is not None:
                found[path] = plant.text
                more += [f"{path}::{test}" for test in plant.tests]
    return Planted(found, (*ids, *added), frozenset(added), probe)


def _in_place(
    path: str, text: str, ends: Collection[str], word: Callable[[], str], own: frozenset[str]
) -> Canary | None:
    if path.endswith(".py"):
        return python_canary(text, ends, word, own)
    return rust_canary(text, ends, word) if path.endswith(RUST) else script_canary(text, ends, word)


def _needs_more(path: str, ends: Collection[str], canary: Canary | None) -> bool:
    """In Python, each planted test notices what is replaced for all. A script notices only what concerns itself.

    Node calls any file in the folder of tests a test: one without tests may be a helper, which others load.
    """
    if all(end == "(file)" for end in ends):
        return False
    return canary is None or (not path.endswith(".py") and len(canary.tests) < len(ends))


def _ranks(
    files: Mapping[str, str], sources: Collection[str], word: Callable[[], str]
) -> Mapping[str, tuple[int, str]]:
    """Files that mention most of what has changed come first, and of these any: nobody can know which."""
    return {path: (-sum(_mentions(text, source) for source in sources), word()) for path, text in files.items()}


def _chosen(tests: Mapping[str, int], share: float, ranks: Mapping[str, tuple[int, str]]) -> list[str]:
    """As many of the files as have this part of all tests, but at least one."""
    left, found = share * sum(tests.values()), list[str]()
    for path in sorted(tests, key=lambda path: ranks[path]):
        if share >= 1.0 or tests[path] <= left:
            found.append(path)
            left -= tests[path]
    return sorted(found) or sorted(tests, key=lambda path: (tests[path], ranks[path]))[:1]


def _mentions(text: str, source: str) -> bool:
    """Whether a test file names a module; a package is named by its folder."""
    stem = splitext(basename(source))[0]
    word = basename(dirname(source)) if stem in ("__init__", "index") else stem
    return bool(word) and word in text
