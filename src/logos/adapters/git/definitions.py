"""The names that a file defines at its top level, to find contributions that define the same name."""

from __future__ import annotations

import ast
import threading
import warnings
from pathlib import PurePosixPath

# Parsing needs a hundred times the file size in memory.
LARGEST = 1_000_000

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# Warning filters are global to the process.
_warnings = threading.Lock()


def defined_in(path: str, text: str) -> tuple[str, ...]:
    """Public functions and classes at the top level of a Python file; empty for tests and other files."""
    if not path.endswith(".py") or is_test(path) or len(text) > LARGEST:
        return ()
    try:
        with _warnings, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    names = (node.name for node in module.body if isinstance(node, _Definition))
    return tuple(dict.fromkeys(name for name in names if not name.startswith("_") and name != "main"))


def is_test(path: str) -> bool:
    file = PurePosixPath(path)
    named = file.name.startswith("test_") or file.stem.endswith("_test") or file.name == "conftest.py"
    return named or "tests" in file.parent.parts
