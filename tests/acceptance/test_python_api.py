"""`import logos`: the example of the how-to, and every public name."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import logos
from tests.acceptance.test_simulation import HOW_TO as SIMULATE

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "python.md"
PUBLIC = {name for names in logos._MODULES.values() for name in names}


def example() -> str:
    found = re.search(r"<!-- example -->\n+```python\n(.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.long
def test_the_example_of_the_how_to_runs_in_fifteen_lines(tmp_path: Path) -> None:
    text = SIMULATE.read_text(encoding="utf-8")
    for name, content in re.findall(r"<!-- (\S+) -->\n+```\w+\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(content, encoding="utf-8")
    printed = io.StringIO()
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(printed):
        exec(compile(example(), str(HOW_TO), "exec"), {})
    # With the steps of Logos itself: the tests before the run, the comparison, and the proof.
    assert printed.getvalue().startswith("PASSED after 14 turns: the tester reported PASS, and Logos has proven it: ")
    assert len([line for line in example().splitlines() if line.strip()]) <= 15


def test_every_public_name_is_there_for_readers_and_for_type_checkers() -> None:
    tree = ast.parse(Path(str(logos.__file__)).read_text(encoding="utf-8"))
    ifs = [node for node in tree.body if isinstance(node, ast.If)]
    (checking,) = [node for node in ifs if ast.unparse(node.test) == "TYPE_CHECKING"]
    typed = {
        name.asname or name.name for node in checking.body if isinstance(node, ast.ImportFrom) for name in node.names
    }
    assert typed == PUBLIC
    assert all(getattr(logos, name).__module__.startswith("logos.") for name in PUBLIC)
    assert set(dir(logos)) >= PUBLIC
    assert not hasattr(logos, "nothing")


def test_the_how_to_names_every_function() -> None:
    text = HOW_TO.read_text(encoding="utf-8")
    assert [name for name in PUBLIC if name.islower() and f"`{name}(" not in text] == []


def test_importing_logos_loads_nothing_else() -> None:
    code = "import sys, logos; print(sorted(name for name in sys.modules if name.startswith('logos.')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
