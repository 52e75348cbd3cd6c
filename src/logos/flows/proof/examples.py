"""Examples in docstrings, which doctest runs: those of before the run are put into the source after it."""

import ast
from collections.abc import Iterator

_PROMPT = ">>>"
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def has_examples(text: str) -> bool:
    return _PROMPT in text


def put_back_examples(base: str, result: str) -> str:
    """The result's source with the docstrings of base that have examples; ValueError where one cannot be read.

    What base has and the result has not is not put back: without its examples, their tests are missing.
    """
    before = {name: doc for name, node in _documented(_parsed(base)) if _PROMPT in (doc := _doc(node))}
    now = [(node, before[name]) for name, node in _documented(_parsed(result)) if name in before]
    changed = [(node, doc) for node, doc in now if _doc(node) != doc]
    # Positions are those of UTF-8; from the end, so that earlier ones stay right.
    lines = result.encode().splitlines(keepends=True)
    for node, doc in sorted(changed, key=lambda one: one[0].body[0].lineno, reverse=True):
        _put(lines, node, repr(doc).encode())
    text = b"".join(lines).decode()
    after = {name: _doc(node) for name, node in _documented(_parsed(text))}
    if any(after.get(name, doc) != doc for name, doc in before.items()):
        raise ValueError("the examples cannot be put back")
    return text


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("it is not Python") from error


def _documented(node: _Documented, above: str = "") -> Iterator[tuple[str, _Documented]]:
    if node.body:
        yield above, node
    for inner in node.body:
        if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _documented(inner, f"{above}.{inner.name}")


def _doc(node: _Documented) -> str:
    return ast.get_docstring(node, clean=False) or ""


def _put(lines: list[bytes], node: _Documented, doc: bytes) -> None:
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is not None:
        start, end = first.lineno - 1, (first.end_lineno or first.lineno) - 1
        rest = lines[end][first.end_col_offset or 0 :]
        lines[start : end + 1] = [lines[start][: first.col_offset] + doc + rest]
        return
    decorators = (
        first.decorator_list if isinstance(first, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else []
    )
    line = min([first.lineno, *(one.lineno for one in decorators)]) - 1
    indent = lines[line][: first.col_offset]
    alone = not indent.strip()
    lines[line] = indent + doc + (b"\n" + indent if alone else b"; ") + lines[line][first.col_offset :]
