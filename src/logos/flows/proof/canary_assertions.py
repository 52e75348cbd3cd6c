"""Assertions of unittest, pytest and libraries: what each says in plain operators, and a call of it that must fail."""

import ast
from collections.abc import Callable, Iterator

# What an assertion method of unittest says, with the values of its arguments.
_SAYS = {
    "assertNotEqual": "({0}) != ({1})",
    "assertTrue": "({0})",
    "assertFalse": "not ({0})",
    "assertIs": "({0}) is ({1})",
    "assertIsNot": "({0}) is not ({1})",
    "assertIsNone": "({0}) is None",
    "assertIsNotNone": "({0}) is not None",
    "assertIn": "({0}) in ({1})",
    "assertNotIn": "({0}) not in ({1})",
    "assertIsInstance": "isinstance(({0}), ({1}))",
    "assertNotIsInstance": "not isinstance(({0}), ({1}))",
}
_ORDERS = {"assertGreater": ">", "assertGreaterEqual": ">=", "assertLess": "<", "assertLessEqual": "<="}
_EQUAL = ("Equal", "Equals", "ListEqual", "TupleEqual", "SetEqual", "DictEqual", "MultiLineEqual")
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
    "raises": "with {call}(ValueError):\n    str()",
    "warns": "with {call}(UserWarning):\n    str()",
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


def equality(left: ast.expr, right: ast.expr, name: str, word: Callable[[], str]) -> str:
    """What says that `name`, which holds the left side, and the right side are equal.

    Beside a literal, an object that equals everything is no equal, and a number or text is what it was before a
    subclass said what it equals. The right side is `{1}`.
    """
    said = f"({name}) == ({{1}})"
    if not any(map(_is_literal, (left, right))):
        return said
    said += f' and not ({name}) == "{word()}" and not ({{1}}) == "{word()}"'
    if any(map(has_plain_value, (left, right))):
        said += f" and ({OWN})({name}, {OWN}) == ({OWN})({{1}}, {OWN})"
    return said


# What a value is, whatever its class says that it equals: numbers and texts, and lists and the like of these.
OWN = (
    "lambda value, own: int.__add__(value, 0) if isinstance(value, int) else "
    "float.__add__(value, 0.0) if isinstance(value, float) else "
    "str.__add__(value, '') if isinstance(value, str) else "
    "[own(one, own) for one in list.__iter__(value)] if isinstance(value, list) else "
    "[own(one, own) for one in tuple.__iter__(value)] if isinstance(value, tuple) else "
    "[(own(one, own), own(dict.__getitem__(value, one), own)) for one in sorted(dict.__iter__(value), key=repr)] "
    "if isinstance(value, dict) else value"
)


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def has_plain_value(node: ast.expr) -> bool:
    """Whether an expression is a number, a text, or a list or the like of these, written out."""
    return _is_literal(node) and type(ast.literal_eval(node)) in (int, float, str, list, tuple, dict)


def order(sign: str, left: ast.expr, right: ast.expr, name: str) -> str:
    """What says that `name`, which holds the left side, and the right side stand in this order."""
    said = f"({name}) {sign} ({{1}})"
    is_plain = any(map(has_plain_value, (left, right)))
    return f"{said} and ({OWN})({name}, {OWN}) {sign} ({OWN})({{1}}, {OWN})" if is_plain else said


def said_by(method: str, arguments: list[ast.expr], name: str, word: Callable[[], str]) -> str | None:
    """What a method of unittest says with these arguments, `{0}` and `{1}`; None if that is unknown.

    `name` holds the first one where it is needed twice: the text then contains it.
    """
    said = _SAYS.get(method)
    if method in _ORDERS and len(arguments) in (2, 3):
        return order(_ORDERS[method], arguments[0], arguments[1], name)
    if method.removeprefix("assert") in _EQUAL and len(arguments) in (2, 3):
        return equality(arguments[0], arguments[1], name, word)
    count = 2 if said and "{1}" in said else 1
    return said if said and len(arguments) in (count, count + 1) else None


def probes(function: ast.AST, replaced: frozenset[str], word: Callable[[], str]) -> list[str]:
    """A failing statement for each kind of assertion that a test uses; the plain one, last, where it uses that."""
    return _probes(function, _calls(function), replaced, word)


def probes_of_file(tree: ast.Module, replaced: frozenset[str], word: Callable[[], str]) -> list[str]:
    """The same for all tests of a file; helpers may give the test case another name than `self`."""
    called = (f"self.{call.rpartition('.')[2]}" if "." in call else call for call in _calls(tree))
    return _probes(tree, dict.fromkeys([*_calls(tree), *called]), replaced, word)


def _calls(node: ast.AST) -> dict[str, None]:
    return dict.fromkeys(dotted(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call))


def _probes(node: ast.AST, calls: dict[str, None], replaced: frozenset[str], word: Callable[[], str]) -> list[str]:
    found = list(dict.fromkeys(text for call in calls if call for text in _failing(call, replaced)))
    if not found or any(isinstance(inner, ast.Assert) for inner in ast.walk(node)):
        found.append('assert "{a}" == "{b}"')
    return [text.format(a=word(), b=word()) for text in found]


def _failing(call: str, replaced: frozenset[str]) -> Iterator[str]:
    first, _, rest = call.partition(".")
    last = call.rpartition(".")[2]
    if first == "self":
        if rest in _METHODS and rest not in replaced:
            yield f"self.{rest}({_METHODS[rest]})"
        return
    known = (_PYTEST.get(last) if first in ("pytest", last) and last != "fail" else None) or _FUNCTIONS.get(last)
    known = known or (_PYTEST["fail"] if call == "pytest.fail" else None)
    if known:
        yield known.replace("{call}", call)


def dotted(node: ast.expr) -> str:
    """The name of what is called, with its dots; empty if it has none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
