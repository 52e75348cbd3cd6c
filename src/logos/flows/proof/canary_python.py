"""Planted tests in Python: for pytest and unittest."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from posixpath import splitext

# What fails for each assertion method of unittest.
_METHODS = {
    "assertEqual": '"{a}", "{b}"',
    "assertEquals": '"{a}", "{b}"',
    "assertNotEqual": '"{a}", "{a}"',
    "assertTrue": '"{a}" == "{b}"',
    "assertFalse": '"{a}" == "{a}"',
    "assertIs": '["{a}"], ["{a}"]',
    "assertIsNot": "None, None",
    "assertIsNone": '"{a}"',
    "assertIsNotNone": "None",
    "assertIn": '"{a}", ["{b}"]',
    "assertNotIn": '"{a}", ["{a}"]',
    "assertIsInstance": '"{a}", int',
    "assertNotIsInstance": '"{a}", str',
    "assertGreater": "1, 2",
    "assertGreaterEqual": "1, 2",
    "assertLess": "2, 1",
    "assertLessEqual": "2, 1",
    "assertAlmostEqual": "1.0, 2.0",
    "assertNotAlmostEqual": "1.0, 1.0",
    "assertListEqual": '["{a}"], ["{b}"]',
    "assertTupleEqual": '("{a}",), ("{b}",)',
    "assertSetEqual": '{{"{a}"}}, {{"{b}"}}',
    "assertDictEqual": '{{"{a}": 1}}, {{"{a}": 2}}',
    "assertSequenceEqual": '["{a}"], ["{b}"]',
    "assertMultiLineEqual": '"{a}", "{b}"',
    "assertCountEqual": '["{a}"], ["{b}"]',
    "assertRegex": '"{a}", "^{b}$"',
    "assertNotRegex": '"{a}", "{a}"',
    "assertRaises": "ValueError, str",
    "assertRaisesRegex": 'ValueError, "{a}", str',
    "fail": '"{a}"',
}
# Functions of pytest, by their name there, and of libraries that tests import by name.
_PYTEST = {
    "raises": "with {call}(ValueError):\n        str()",
    "warns": "with {call}(UserWarning):\n        str()",
    "fail": '{call}("{a}")',
    "approx": "assert 1.0 == {call}(2.0)",
}
_FUNCTIONS = {
    "eq_": '{call}("{a}", "{b}")',
    "ok_": "{call}(False)",
    "assert_equal": '{call}("{a}", "{b}")',
    "assert_allclose": "{call}(1.0, 2.0)",
    "assert_array_equal": "{call}([1], [2])",
    "assert_array_almost_equal": "{call}([1.0], [2.0])",
    "assert_almost_equal": "{call}(1.0, 2.0)",
}


@dataclass(frozen=True, slots=True)
class Canary:
    """The text of a planted file, and the names of its tests."""

    text: str
    tests: tuple[str, ...]


def python_canary(path: str, text: str, changed: Sequence[str], name: Callable[[str], str]) -> Canary | None:
    """A copy that runs none of its own tests, and fails once for each kind of assertion in it; None without tests."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names = _Names(tree)
    imports = _imports(changed)
    lines = [*_without_main(text, tree), "", ""]
    tests: list[str] = []
    if names.functions:
        for form in _forms(tree):
            test = f"test_{name(path)}"
            lines += [f"def {test}():", *_body(imports, form, name, "    "), "", ""]
            tests.append(test)
    # The plainest base is the least likely to fail for a reason of its own.
    for bases in sorted(names.cases, key=lambda bases: (bases not in _PLAIN, len(bases)))[:1]:
        case = f"Test{name(path)}"
        lines += [f"class {case}({bases}):"]
        for form in _methods(tree, bool(names.functions)):
            test = f"test_{name(path)}"
            lines += [f"    def {test}(self):", *_body(imports, form, name, "        "), ""]
            tests.append(f"{case}::{test}")
    lines += ["", *_removed(names.tests), *(_MAIN if _main_of(tree) else ())]
    return Canary("\n".join(lines) + "\n", tuple(tests)) if tests else None


_PLAIN = ("unittest.TestCase", "TestCase")
# A file that is executed itself starts unittest at its end, after what was added.
_MAIN = ('if __name__ == "__main__":', '    __import__("unittest").main()')


def _main_of(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in tree.body if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)]


def _without_main(text: str, tree: ast.Module) -> list[str]:
    dropped = {line for node in _main_of(tree) for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    # As Python counts lines; a form feed ends none.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line for number, line in enumerate(lines, 1) if number not in dropped]


class _Names:
    """What a test file defines at its top, also inside `if` and `try`."""

    def __init__(self, tree: ast.Module) -> None:
        self.functions: list[str] = []
        # The bases of its test cases, as written.
        self.cases: list[str] = []
        self.tests: list[str] = ["pytestmark", "load_tests", "setUpModule", "tearDownModule"]
        for node in _top(tree.body):
            self._add(node)

    def _add(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            self.functions.append(node.name)
            self.tests.append(node.name)
        elif isinstance(node, ast.ClassDef):
            self._add_class(node)
        elif isinstance(node, ast.Assign):
            targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
            self.tests += [target for target in targets if target.lower().startswith("test")]

    def _add_class(self, node: ast.ClassDef) -> None:
        methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
        has_tests = any(method.startswith("test") for method in methods)
        is_case = any(_last(base).endswith("TestCase") for base in node.bases)
        # A base with another name may be a test case too: a planted class with that base runs wherever this one does.
        if node.bases and (is_case or has_tests):
            self.cases.append(", ".join(map(ast.unparse, node.bases)))
        elif has_tests:
            self.functions.append(node.name)
        if is_case or has_tests or node.name.startswith("Test"):
            self.tests.append(node.name)


def _top(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from _top(getattr(node, field, []))


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _removed(tests: Sequence[str]) -> list[str]:
    """The copy's own tests are deleted when its module has been executed: its other code may need them until then."""
    return [f"for _name in {sorted(set(tests))!r}:", "    globals().pop(_name, None)", ""]


def _imports(changed: Sequence[str]) -> list[str]:
    """Imports what the change touched. A module that cannot be imported must not fail the planted test."""
    modules: list[str] = []
    for path in changed:
        stem, end = splitext(path)
        parts = stem.removeprefix("src/").removeprefix("lib/").removesuffix("/__init__").split("/")
        if end == ".py" and all(map(str.isidentifier, parts)) and parts[-1] not in ("__main__", "setup", "manage"):
            modules.append(".".join(parts))
    return modules[:20]


def _body(modules: Sequence[str], form: str, name: Callable[[str], str], indent: str) -> list[str]:
    lines: list[str] = []
    for module in modules:
        lines += ["try:", f"    __import__({module!r})", "except BaseException:", "    pass"]
    lines += form.format(a=name("a"), b=name("b")).split("\n")
    return [indent + line for line in lines]


def _forms(tree: ast.Module) -> Iterator[str]:
    """A failing statement for each kind of assertion that functions use; always the plain one."""
    yield 'assert "{a}" == "{b}"'
    seen: set[str] = set()
    for call in _calls(tree):
        known = _PYTEST.get(call.split(".")[-1]) if call.startswith("pytest.") else None
        known = known or _FUNCTIONS.get(call.split(".")[-1])
        if known and call not in seen and not call.startswith("self."):
            seen.add(call)
            yield known.replace("{call}", call)


def _methods(tree: ast.Module, is_mixed: bool) -> Iterator[str]:
    """The same for the methods of a test case."""
    used = {call.removeprefix("self.") for call in _calls(tree) if call.startswith("self.")}
    methods = sorted(used & _METHODS.keys())
    yield from (f"self.{method}({_METHODS[method]})" for method in methods)
    if not methods or (not is_mixed and any(isinstance(node, ast.Assert) for node in ast.walk(tree))):
        yield 'assert "{a}" == "{b}"'


def _calls(tree: ast.AST) -> Iterator[str]:
    """The names of all calls, dotted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            parts: list[str] = []
            target: ast.expr = node.func
            while isinstance(target, ast.Attribute):
                parts.append(target.attr)
                target = target.value
            if isinstance(target, ast.Name):
                yield ".".join([target.id, *reversed(parts)])
