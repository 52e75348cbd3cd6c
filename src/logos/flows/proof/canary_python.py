"""Tests of pytest and unittest that fail if, and only if, everything they ask for is true.

Each assertion in the body of a test is restated with operators, which nothing can patch, and ends the test where it
does not hold. The test ends with a failing assertion. So it passes, and is noticed, where an assertion was only made to
look true, where the test was emptied or replaced, and where its report is forged. What cannot be restated, such as a
call of a helper, stays as it is.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from logos.flows.proof.canary_assertions import OWN, dotted, equality, has_plain_value, order, probes, said_by

Function = ast.FunctionDef | ast.AsyncFunctionDef
# Decorators, marks and context managers for which a failing test is one that passes.
_FORGIVING = re.compile(r"fail|raise|suppress|expected|error|warns", re.IGNORECASE)
_RAISES = ("pytest.raises", "raises", "self.assertRaises", "self.assertRaisesRegex")
_REST_OF_LINE = re.compile(rb"[ \t\f]*(#.*)?")
_SIGNS: dict[type[ast.cmpop], str] = {ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<="}
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Canary:
    """The text of a test file with tests that must fail, and the ends of their ids."""

    text: str
    tests: tuple[str, ...]


def python_canary(
    text: str, passed: Collection[str], word: Callable[[], str], replaced: frozenset[str] = frozenset()
) -> Canary | None:
    """The file with the tests that must fail among those that have passed; None if there is none.

    `passed` are ids without the file. `replaced` are assertion methods that the project defines itself.
    """
    tree = parsed(text)
    if tree is None:
        return None
    unfolded = _with_bodies_on_lines(text, tree)
    source = _Source(unfolded)
    names = _Definitions(tree if unfolded == text else parsed(unfolded) or ast.Module([], []))
    planted: dict[ast.AST, bool] = {}
    found: list[str] = []
    for test in passed:
        functions = names.of(test.partition("[")[0])
        for function in functions:
            if function not in planted:
                planted[function] = _Test(source, function, replaced, word, _constants(function)).plant(
                    names.marks_of(function)
                )
        if functions and all(planted[function] for function in functions):
            found.append(test)
    edited = source.edited()
    return Canary(edited, tuple(found)) if found and parsed(edited) is not None else None


def parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _with_bodies_on_lines(text: str, tree: ast.Module) -> str:
    """The same program, in which no function has its body on the line of its `def`."""
    source = _Source(text)
    for function in ast.walk(tree):
        if not isinstance(function, Function) or source.indent(function.body[0]) is not None:
            continue
        indent = f"{source.indent(function) or ''}    "
        source.replace(source.start(function.body[0]), source.start(function.body[0]), f"\n{indent}")
        # Only a semicolon is between two of them.
        for one, other in pairwise(function.body):
            source.replace(source.end(one), source.start(other), f"\n{indent}")
    edited = source.edited()
    return edited if parsed(edited) is not None else text


class _Definitions:
    """The functions and classes of a file, by the names that ids of tests have, also those inside `if` and `try`."""

    def __init__(self, tree: ast.Module) -> None:
        self._functions: dict[str, list[Function]] = {}
        self._classes: dict[str, ast.ClassDef] = {}
        self._marks: dict[ast.AST, list[str]] = {}
        self._collect(tree.body, "", _marks(tree.body))

    def of(self, name: str) -> list[Function]:
        """The definitions of a test, which may be inherited from a class of the same file."""
        classes, _, function = name.rpartition("::")
        seen: set[str] = set()
        left = [classes]
        while left:
            found = self._functions.get(f"{left[0]}::{function}" if classes else function)
            if found:
                return found
            seen.add(left[0])
            known = self._classes.get(left.pop(0))
            left += [base for base in map(dotted, known.bases if known else []) if base and base not in seen]
        return []

    def marks_of(self, function: ast.AST) -> str:
        return "\n".join(self._marks[function])

    def _collect(self, body: Sequence[ast.stmt], prefix: str, marks: list[str]) -> None:
        for node in _unfolded(body):
            if isinstance(node, Function):
                self._functions.setdefault(prefix + node.name, []).append(node)
                self._marks[node] = [*marks, *map(_mark, node.decorator_list)]
            elif isinstance(node, ast.ClassDef):
                self._classes[prefix + node.name] = node
                inner = [*marks, *map(_mark, node.decorator_list), *_marks(node.body)]
                self._collect(node.body, f"{prefix}{node.name}::", inner)


def _marks(body: Sequence[ast.stmt]) -> list[str]:
    """Marks that hold for a whole module or class, and lists of parameters that may have some."""
    assigned = [node for node in _unfolded(body) if isinstance(node, ast.Assign | ast.AnnAssign)]
    texts = (ast.unparse(node) for node in assigned)
    return [text for text in texts if "xfail" in text]


def _mark(decorator: ast.expr) -> str:
    """The name of a decorator; its parameters may have marks of their own."""
    return "xfail" if "xfail" in ast.unparse(decorator) else _called(decorator)


def _called(node: ast.expr) -> str:
    return dotted(node.func if isinstance(node, ast.Call) else node)


def _unfolded(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            for part in ("body", "orelse", "finalbody"):
                yield from _unfolded(getattr(node, part, []))


@dataclass(slots=True)
class _Source:
    """A text that is edited at the positions of its nodes, which count bytes."""

    text: str
    lines: list[bytes] = field(init=False)
    _edits: list[tuple[int, int, bytes]] = field(default_factory=list[tuple[int, int, bytes]])
    _starts: list[int] = field(default_factory=lambda: [0])

    def __post_init__(self) -> None:
        # As Python counts lines; a form feed ends none.
        self.text = self.text.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = self.text.encode().split(b"\n")
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def start(self, node: ast.stmt | ast.expr) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.stmt | ast.expr) -> int:
        return self._starts[_last_line(node) - 1] + (node.end_col_offset or 0)

    def line_start(self, number: int) -> int:
        return self._starts[number - 1]

    def line_end(self, number: int) -> int:
        return self._starts[number] - 1

    def of(self, node: ast.expr | ast.keyword) -> str:
        return ast.get_source_segment(self.text, node) or ""

    def indent(self, node: ast.stmt) -> str | None:
        """The white space before a statement; None if more stands before it."""
        before = self.lines[node.lineno - 1][: node.col_offset]
        continued = node.lineno > 1 and self.lines[node.lineno - 2].endswith(b"\\")
        return None if before.strip() or continued else before.decode()

    def is_alone(self, node: ast.stmt) -> bool:
        rest = self.lines[_last_line(node) - 1][node.end_col_offset or 0 :]
        return self.indent(node) is not None and _REST_OF_LINE.fullmatch(rest) is not None

    def replace(self, start: int, end: int, text: str) -> None:
        self._edits.append((start, end, text.encode()))

    def mark(self) -> int:
        return len(self._edits)

    def undo(self, mark: int) -> None:
        del self._edits[mark:]

    def edited(self) -> str:
        whole, parts, position = self.text.encode(), list[bytes](), 0
        # Of two insertions at one place, the one made first comes first.
        for start, end, text in sorted(self._edits, key=lambda edit: edit[0]):
            parts += [whole[position:start], text]
            position = end
        return b"".join([*parts, whole[position:]]).decode()


def _last_line(node: ast.stmt | ast.expr) -> int:
    return node.end_lineno or node.lineno


class _CannotFail(Exception):
    """The test may end where no failure can be planted."""


@dataclass(frozen=True, slots=True)
class _Test:
    """One test function in its file."""

    source: _Source
    function: Function
    replaced: frozenset[str]
    word: Callable[[], str]
    # Local variables that hold a value that is written out.
    constants: Mapping[str, ast.expr]

    def plant(self, marks: str) -> bool:
        """Make it fail at its end; False, and no edit, where that cannot be done."""
        mark = self.source.mark()
        indent = self.source.indent(self.function.body[0])
        if indent is None or _FORGIVING.search(marks) or _has_own_yield(self.function.body):
            return False
        try:
            self._walk(self.function.body, is_safe=True)
        except _CannotFail:
            self.source.undo(mark)
            return False
        *others, last = probes(self.function, self.replaced, self.word)
        lines = [line for text in others for line in must_raise(text)] + last.split("\n")
        end = self.source.line_end(_last_line(self.function))
        self.source.replace(end, end, "".join(f"\n{indent}{line}" for line in lines))
        return True

    def _walk(self, body: Sequence[ast.stmt], *, is_safe: bool) -> None:
        """`is_safe`: a failure here is not caught by the test itself."""
        for node in body:
            match node:
                case ast.Return():
                    self._return(node, is_safe=is_safe)
                case ast.With(items=[item]) if is_safe and self._raises(node, item):
                    pass
                case ast.With() | ast.AsyncWith():
                    forgives = any(_FORGIVING.search(_called(item.context_expr)) for item in node.items)
                    self._walk(node.body, is_safe=is_safe and not forgives)
                case ast.Try() | ast.TryStar():
                    self._walk(node.body, is_safe=is_safe and not _catches_failures(node.handlers))
                    self._walk([inner for handler in node.handlers for inner in handler.body], is_safe=is_safe)
                    self._walk([*node.orelse, *node.finalbody], is_safe=is_safe)
                case ast.If() | ast.For() | ast.AsyncFor() | ast.While():
                    self._walk([*node.body, *node.orelse], is_safe=is_safe)
                case ast.Match():
                    self._walk([inner for case in node.cases for inner in case.body], is_safe=is_safe)
                case ast.Assert() | ast.Expr() if is_safe and self.source.is_alone(node):
                    self._restate(node)
                case _:
                    pass

    def _return(self, node: ast.Return, *, is_safe: bool) -> None:
        if not is_safe:
            raise _CannotFail
        value = self.source.of(node.value) if node.value is not None else f'"{self.word()}"'
        self.source.replace(self.source.start(node), self.source.end(node), f"raise AssertionError(({value}))")

    def _restate(self, node: ast.Assert | ast.Expr) -> None:
        lines = self._in_operators(node)
        if lines:
            # Product code can reach into the frame that calls it.
            names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            known = {name: value for name, value in self.constants.items() if name in names}
            lines += [f"if not ({name}) == ({self.source.of(value)}): return" for name, value in known.items()]
            indent = self.source.indent(node) or ""
            text = f"\n{indent}".join(lines)
            self.source.replace(self.source.start(node), self.source.end(node), text)

    def _in_operators(self, node: ast.Assert | ast.Expr) -> list[str]:
        """The lines that say what an assertion says; empty if that is unknown."""
        name = self.word()
        if isinstance(node, ast.Assert):
            match node.test:
                case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                    return self._held([left, right], equality(left, right, name, self.word), name)
                case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _SIGNS:
                    return self._held([left, right], order(_SIGNS[type(sign)], left, right, name), name)
                case ast.Call() as call if self._compares(call):
                    lines = [f"try: {name} = ({self._with_own_values(call)})", "except AssertionError: return"]
                    return [*lines, f"if not {name}: return"]
                case _:
                    return [f"if not ({self.source.of(node.test)}): return"]
        call = node.value
        if not isinstance(call, ast.Call) or any(isinstance(value, ast.Starred) for value in call.args):
            return []
        called = dotted(call.func)
        if called in _RAISES:
            return self._raises_of_call(call, called)
        method = called.removeprefix("self.")
        if method in self.replaced:
            return []
        if not called.startswith("self."):
            lines = [f"try: ({self._with_own_values(call)})", "except AssertionError: return"]
            return lines if self._compares(call) else []
        if method == "assertAlmostEqual":
            return self._almost(call, name)
        if any(keyword.arg != "msg" for keyword in call.keywords):
            return []
        said = said_by(method, call.args, name, self.word)
        return self._held(call.args, said, name) if said else []

    @staticmethod
    def _compares(call: ast.Call) -> bool:
        """Whether a helper is given a result, and a value that is written out."""
        is_plain = not any(isinstance(value, ast.Starred) for value in call.args)
        is_given = any(isinstance(value, ast.Call) for value in call.args)
        return is_plain and is_given and any(map(has_plain_value, call.args))

    def _with_own_values(self, call: ast.Call) -> str:
        """A call of a helper, which is given what values are, whatever their classes say."""
        given = [
            f"({OWN})({self.source.of(value)}, {OWN})" if isinstance(value, ast.Call) else self.source.of(value)
            for value in call.args
        ]
        named = [self.source.of(keyword) for keyword in call.keywords]
        return f"{self.source.of(call.func)}({', '.join([*given, *named])})"

    def _held(self, values: Sequence[ast.expr], said: str, name: str) -> list[str]:
        """Each value is computed once, in the order in which it stands."""
        texts = [self.source.of(value) for value in values[:2]]
        if name not in said:
            return [f"if not ({_filled(said, texts)}): return"]
        other = f"{name}_"
        lines = [f"{name} = ({texts[0]})", f"{other} = ({texts[1]})"]
        return [*lines, f"if not ({_filled(said, [name, other])}): return"]

    def _almost(self, call: ast.Call, name: str) -> list[str]:
        options = {keyword.arg: self.source.of(keyword.value) for keyword in call.keywords if keyword.arg != "msg"}
        if len(call.args) not in (2, 3) or not options.keys() <= {"places", "delta"}:
            return []
        one, other = (self.source.of(value) for value in call.args[:2])
        places = self.source.of(call.args[2]) if len(call.args) > 2 else options.get("places", "7")
        distance = f"abs({name} - {name}_)"
        near = f"{distance} <= ({options['delta']})" if "delta" in options else f"round({distance}, ({places})) == 0"
        lines = [f"{name} = ({one})", f"{name}_ = ({other})"]
        return [*lines, f"if not ({name} == {name}_ or {near}): return"]

    def _raises_of_call(self, call: ast.Call, called: str) -> list[str]:
        """`assertRaises(Error, function, …)`."""
        first = 2 if called.endswith("Regex") else 1
        if len(call.args) <= first or not _is_error(call.args[0]):
            return []
        values = ", ".join(map(self.source.of, [*call.args[first + 1 :], *call.keywords]))
        lines = [f"try: ({self.source.of(call.args[first])})({values})"]
        return [*lines, f"except ({self.source.of(call.args[0])}): pass", "else: return"]

    def _raises(self, node: ast.With, item: ast.withitem) -> bool:
        """`with pytest.raises(Error):`. Afterwards the test goes on only if the error was really raised."""
        call, source, indent = item.context_expr, self.source, self.source.indent(node)
        if not isinstance(call, ast.Call) or dotted(call.func) not in _RAISES or indent is None or not call.args:
            return False
        first, last = node.body[0], node.body[-1]
        is_short = first.lineno == node.lineno
        inner = indent if is_short else source.indent(first)
        if not _is_error(call.args[0]) or inner is None or "\t" in inner or isinstance(first, _OWN_SCOPE):
            return False
        name, caught = self.word(), self.word()
        place = source.start(first) if is_short else source.line_start(first.lineno)
        source.replace(source.start(node), source.start(node), f"{name} = False\n{indent}")
        source.replace(place, place, f"\n{indent} try: " if is_short else f"{indent} try:\n")
        errors, end = source.of(call.args[0]), source.line_end(_last_line(last))
        after = [f" except ({errors}) as {caught}:", f"  {name} = {_matching(call, caught)}", "  raise"]
        source.replace(end, end, "".join(f"\n{indent}{line}" for line in [*after, f"if not {name}: return"]))
        return True


def _filled(said: str, texts: Sequence[str]) -> str:
    return said.replace("{0}", "\0").replace("{1}", texts[-1]).replace("\0", texts[0])


def _matching(call: ast.Call, caught: str) -> str:
    """Whether the text of the error is as the test says, where that is plain."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "match"]
    given += call.args[1:2] if dotted(call.func).endswith("Regex") else []
    if len(given) != 1 or not isinstance(given[0], ast.Constant) or not isinstance(given[0].value, str):
        return "True"
    return f'__import__("re").search({given[0].value!r}, str({caught})) is not None'


def must_raise(text: str) -> list[str]:
    """The test goes on if this fails, and ends, as one that passes, if it does not."""
    return ["try:", *(f"    {line}" for line in text.split("\n")), "except BaseException: pass", "else: return"]


def _is_error(node: ast.expr) -> bool:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return all(dotted(part) for part in parts)


def _constants(function: Function) -> dict[str, ast.expr]:
    """The variables of a function that are assigned once, and a number, a text or the like that is written out."""
    stores = [node for node in ast.walk(function) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)]
    names = [node.id for node in stores]
    return {
        node.targets[0].id: node.value
        for node in function.body
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        if names.count(node.targets[0].id) == 1 and isinstance(node.value, ast.Constant) and has_plain_value(node.value)
    }


def _catches_failures(handlers: Sequence[ast.ExceptHandler]) -> bool:
    """Whether a failing assertion may end in one of these handlers."""
    kinds = [handler.type for handler in handlers]
    parts = [part for kind in kinds for part in (kind.elts if isinstance(kind, ast.Tuple) else [kind])]
    names = [dotted(part).rpartition(".")[2] if part is not None else "" for part in parts]
    return any(not name.endswith("Error") or name == "AssertionError" for name in names)


def _has_own_yield(body: Sequence[ast.AST]) -> bool:
    left = list(body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, _OWN_SCOPE):
            left += ast.iter_child_nodes(node)
    return False
