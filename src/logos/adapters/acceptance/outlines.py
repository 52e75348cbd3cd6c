"""The public interface of Python source: signatures and docstrings without bodies."""

import ast
from collections.abc import Iterator

_ELLIPSIS = ast.Constant(...)


def outline(source: str) -> str:
    """The same module without what it does; empty where the source cannot be read."""
    try:
        tree = ast.parse(source)
        tree.body = [*_kept(tree.body)]
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""


def _kept(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for number, statement in enumerate(body):
        match statement:
            case ast.Import() | ast.ImportFrom():
                yield statement
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                statement.body = [*_docstring(statement.body), ast.Expr(_ELLIPSIS)]
                yield statement
            case ast.ClassDef():
                statement.body = [*_kept(statement.body)] or [ast.Expr(_ELLIPSIS)]
                yield statement
            case ast.Assign():
                statement.value = _ELLIPSIS
                yield statement
            case ast.AnnAssign():
                statement.value = _ELLIPSIS if statement.value is not None else None
                yield statement
            case ast.Expr() if number == 0:
                yield from _docstring([statement])
            case _:
                pass


def _docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body[:1]:
        case [ast.Expr(ast.Constant(str()))]:
            return body[:1]
        case _:
            return []
