"""Planted tests that must fail: where one passes, or is not reported, the results of the other tests mean nothing.

Product code that is imported by tests can replace an assertion function, the runner's report or the exit code. A
planted file is a copy of a test file of the project without its tests, so that it imports what they import, and has a
failing test for each kind of assertion they use.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename, dirname, join, splitext

from logos.flows.proof.canary_python import python_canary
from logos.flows.proof.canary_script import SCRIPTS, script_canary
from logos.flows.proof.guarded import is_test

# Few files are enough: each imports what the project's tests import.
MAX_FILES = 4
_MAX_CHARACTERS = 400_000


@dataclass(frozen=True, slots=True)
class Planted:
    """The files to add, with their text, and the ids of the tests in them, as their runner reports them."""

    files: Mapping[str, str]
    ids: tuple[str, ...]


def planted(
    files: Mapping[str, str], changed: Sequence[str], name: Callable[[str], str], in_place: Collection[str] = ()
) -> Planted:
    """Planted copies of some of these test files.

    `files` are test files of the result by path: only files of which a test has run, so that a copy runs as well.
    `name` gives a random word that is a Python identifier for the thing it is asked about, another one each time.
    Copies lie beside the originals; those of `in_place` replace them, for a command that names its test files.
    """
    found: dict[str, str] = {}
    ids: list[str] = []
    sources = [path for path in changed if not is_test(path)]
    for path in _chosen(files, sources):
        plant = python_canary if path.endswith(".py") else script_canary
        mentioned = [source for source in sources if any(_mentions(text, source) for text in files.values())]
        canary = plant(path, files[path], mentioned, name)
        if canary is not None:
            copy = path if path in in_place else beside(path, name(path))
            found[copy] = canary.text
            ids += [f"{copy}::{test}" for test in canary.tests]
    return Planted(found, tuple(ids))


# How the names of test files begin and end, and how a copy is named: runners find tests by these patterns.
_STARTS = ("test_", "test-")
_ENDS = ("_test", "-test", "_tests", "-tests", "_spec", "-spec", "_unittest")
_BARE = ("test", "tests", "spec")


def beside(path: str, word: str) -> str:
    """The path of a copy that a runner finds by the same rules as the original."""
    stem, dot, rest = basename(path).partition(".")
    start = next((start for start in _STARTS if stem.startswith(start)), "")
    end = next((end for end in _ENDS if stem.endswith(end)), "")
    if start or end:
        name = start + word if start else word + end
    elif path.endswith(".py"):
        # `check_a.py` may be found as `check_*.py`.
        name = f"{stem.partition('_')[0] if '_' in stem else 'test'}_{word}"
    else:
        name = f"{word}.test" if stem in _BARE else word
    return join(dirname(path), f"{name}{dot}{rest}")


def _chosen(files: Mapping[str, str], sources: Sequence[str]) -> list[str]:
    """A few of the test files, first those that mention most of what has changed."""

    def rank(path: str) -> tuple[int, int, str]:
        return -sum(_mentions(files[path], source) for source in sources), len(files[path]), path

    usable = [path for path, text in files.items() if _is_usable(path) and len(text) <= _MAX_CHARACTERS]
    return sorted(usable, key=rank)[:MAX_FILES]


def _is_usable(path: str) -> bool:
    return basename(path) not in ("conftest.py", "__init__.py") and splitext(path)[1] in (".py", *SCRIPTS)


def _mentions(text: str, source: str) -> bool:
    """Whether a test file names a module; a package is named by its folder."""
    stem = splitext(basename(source))[0]
    word = basename(dirname(source)) if stem in ("__init__", "index") else stem
    return bool(word) and word in text
