"""Tests in Rust that fail if, and only if, nothing in them fails.

What a test does is wrapped where it stands: if it panics, the test ends as one that passes, and else with a panic. The
assertions are those of the standard library, whatever macros the source defines. So a test passes, and is noticed,
where an assertion was shadowed, and where the output of cargo is forged.
"""

import re
from collections.abc import Callable, Collection

from logos.flows.proof.canary_python import Canary
from logos.flows.proof.rust_tests import TOKEN

RUST = ".rs"
# A test that returns nothing, with no other attribute: one that should panic must not be made to.
_TEST = re.compile(r"^(?P<indent>[ \t]*)#\[test\]\s*(?:pub\s+)?fn\s+(?P<name>\w+)\s*\(\s*\)\s*\{", re.MULTILINE)
_ASSERTION = re.compile(r"(?<![\w:!])(?P<name>(?:debug_)?assert(?:_eq|_ne)?)!")


def rust_canary(text: str, passed: Collection[str], word: Callable[[], str]) -> Canary | None:
    """The file with the tests that must fail among those that have passed, by the ends of ids; None without any."""
    parts: list[str] = []
    planted: list[str] = []
    position = 0
    for match in _TEST.finditer(text):
        end = _closing(text, match.end())
        if match.start() < position or end is None or _is_marked(text, match.start()):
            continue
        body = _ASSERTION.sub(r"::std::\g<name>!", text[match.end() : end])
        caught = f"::std::panic::catch_unwind(::std::panic::AssertUnwindSafe(|| {{{body}}}))"
        parts += [text[position : match.end()], f' if {caught}.is_err() {{ return; }} ::std::panic!("{word()}"); ']
        planted.append(match["name"])
        position = end
    # A name that stands twice is in two modules, and only one of them may have been planted.
    whole = {name for name in planted if len(re.findall(rf"\bfn\s+{name}\b", text)) == 1}
    found = tuple(test for test in passed if test.rpartition("::")[2] in whole)
    return Canary("".join([*parts, text[position:]]), found) if found else None


def _is_marked(text: str, start: int) -> bool:
    """Whether another attribute stands before `#[test]`, or a comment is not closed there."""
    before = text[:start].rstrip()
    return before.endswith("]") or before.rfind("/*") > before.rfind("*/")


def _closing(text: str, start: int) -> int | None:
    """Where the brace that opens before `start` is closed."""
    depth = 1
    for token in TOKEN.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.start()
    return None
