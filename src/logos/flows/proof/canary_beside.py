"""Failing tests that stand beside those of a file, where none of these can be made to fail in its own place.

Tests made in a loop, by setattr or as generators are such tests. Product code that replaces an assertion, a runner or
a report for every test is noticed by what stands beside; code that does it only for the tests that it knows is not.
"""

import ast
import re
from collections.abc import Callable
from posixpath import splitext

from logos.flows.proof.canary_assertions import probes_of_file
from logos.flows.proof.canary_python import Canary, must_raise, parsed
from logos.flows.proof.canary_script import fails, forms_of, masked

# The modules that tests in JavaScript import their `test` from; other runners have a global one.
_NODE = "node:test"
_MODULES = (_NODE, "vitest", "@jest/globals")
_IS_MODULE = re.compile(r"^[ \t]*(?:import\b(?!\s*\()|export\b)", re.MULTILINE)


def python_beside(text: str, word: Callable[[], str], replaced: frozenset[str] = frozenset()) -> Canary | None:
    """The file with one test more, in a class of unittest, which pytest runs as well; None if it is no Python."""
    tree = parsed(text)
    if tree is None:
        return None
    name = word()
    *others, last = probes_of_file(tree, replaced, word)
    body = [line for form in others for line in must_raise(form)] + last.split("\n")
    added = [
        f'class {name}(__import__("unittest").TestCase):',
        f"    def test_{name}(self):",
        *(f"        {line}" for line in body),
    ]
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    place = _end_of_definitions(tree, len(lines))
    edited = "\n".join([*lines[:place], "", *added, "", *lines[place:]])
    return Canary(edited, (f"{name}::test_{name}",)) if parsed(edited) is not None else None


def _end_of_definitions(tree: ast.Module, end: int) -> int:
    """The number of lines before what runs the file as a script, which may never return."""
    starts = (node.lineno for node in tree.body if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test))
    return next(starts, end + 1) - 1


def script_beside(path: str, text: str, word: Callable[[], str], probe: str) -> Canary:
    """The file with one test more after its last line, which passes where an assertion was replaced, too."""
    code, name = masked(text), word()
    module = next((module for module in _MODULES if re.search(rf"""['"]{module}['"]""", text)), "")
    # Only node:test gives a test its context; others take a parameter for a callback.
    context = "t" if module == _NODE else ""
    test, before = _test_of(path, code, module, word())
    asks = f"if (process.{probe}?.()) return; "
    body = asks + fails(list(dict.fromkeys(forms_of(code, context=context))), word)
    return Canary(f"{text}\n{before};{test}('{name}', async ({context}) => {{ {body} }});\n", (name,))


def _test_of(path: str, code: str, module: str, alias: str) -> tuple[str, str]:
    """What makes a test in a file, and the line that must stand before it."""
    if not module:
        return "(typeof test === 'function' ? test : it)", ""
    kind = splitext(path)[1]
    if kind in (".mjs", ".mts") or (kind not in (".cjs", ".cts") and _IS_MODULE.search(code)):
        return alias, f"import {{ test as {alias} }} from '{module}';\n"
    return f"require('{module}').test", ""
