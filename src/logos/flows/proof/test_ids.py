"""The ids of tests: `path::rest`, the path relative to the work dir, or `::rest` where the runner tells no file."""

import re
from collections import Counter
from collections.abc import Iterable

_REPLACED = re.compile(r".*::\((?P<what>.+ was (?:replaced|changed|read by .+))\)", re.DOTALL)


def file_of(test_id: str) -> str:
    """The file of a test; empty where its runner tells none."""
    return test_id.partition("::")[0]


def function_of(test_id: str) -> str:
    """The id without the parameters that pytest adds: one id for all cases of a parametrized test."""
    file, separator, rest = test_id.partition("::")
    # Other runners take names from people, who may write brackets.
    return file + separator + rest.partition("[")[0] if file.endswith(".py") and rest.endswith("]") else test_id


def is_whole_file(test_id: str) -> bool:
    """Whether an id stands for all tests of a file, of which the runner could find none: `path::(not collected)`."""
    return test_id.partition("::")[2] == "(not collected)"


def replaced_in(test_id: str) -> str:
    """What an id says that product code has done to its tests, `::(json.loads was replaced)`; empty for a test."""
    found = _REPLACED.fullmatch(test_id)
    return found["what"] if found else ""


def fewer_cases(wanted: Iterable[str], found: Iterable[str]) -> list[str]:
    """The wanted tests of which too few cases were found. Parameters may have random names: only cases are counted."""
    there = Counter(map(function_of, found))
    return [test for test, cases in Counter(map(function_of, wanted)).items() if there[test] < cases]
