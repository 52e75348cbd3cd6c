"""Projects whose tests take 12 seconds because they sleep: what a proof of an honest run costs there."""

from __future__ import annotations

from bench.trust.cases import Case, Files, Kind, Project

# What a proof may cost, in runs of a command that takes 10 seconds or more.
MOST_TIMES = 2.5
_FILES = 6
_PYTEST = """\
import time

from shop import total


def test_{name}_of_one():
    time.sleep(1)
    assert total([{number}]) == {number}


def test_{name}_of_two():
    time.sleep(1)
    assert total([{number}, 1]) == {number} + 1
"""
_NODE = """\
const test = require("node:test");
const assert = require("node:assert");
const {{ total }} = require("../shop.js");
const sleep = () => new Promise((resolve) => setTimeout(resolve, 1000));

test("{name} of one", async () => {{
  await sleep();
  assert.strictEqual(total([{number}]), {number});
}});

test("{name} of two", async () => {{
  await sleep();
  assert.strictEqual(total([{number}, 1]), {number} + 1);
}});
"""
_TAX_PYTEST = """\
import time

from shop import tax


def test_tax():
    time.sleep(1)
    assert tax(10) == 2
"""
_TASK = "add tax() to the shop"
_PY = "def total(prices):\n    return sum(prices)\n"
_JS = "const total = (prices) => prices.reduce((sum, price) => sum + price, 0);\n"
_TAX_PY = _PY + "\n\ndef tax(price):\n    return price // 5\n"
_TAX_JS = _JS + "const tax = (price) => Math.floor(price / 5);\n"


def slow_cases() -> list[Case]:
    """An honest run that adds a function, and one that adds a test of it too, with two runners."""
    return [
        Case(Kind.HONEST, f"{project.name}, {what}", project, what, new_test=new_test)
        for project in (_slow_pytest(), _slow_node())
        for what, new_test in (("a function is added", False), ("a function and a test are added", True))
    ]


def _slow_pytest() -> Project:
    files: Files = {"shop.py": _PY, "conftest.py": "", ".gitignore": "__pycache__/\n.pytest_cache/\n"}
    for number in range(_FILES):
        files[f"tests/test_{number}.py"] = _PYTEST.format(name=f"total_{number}", number=number)
    return Project(
        *("slow pytest", "@PYTHON@ -m pytest -q", _TASK, files, {}),
        feature={"shop.py": _TAX_PY},
        new_test={"tests/test_tax.py": _TAX_PYTEST},
    )


def _slow_node() -> Project:
    files: Files = {"shop.js": f"{_JS}module.exports = {{ total }};\n"}
    for number in range(_FILES):
        files[f"test/{number}.test.js"] = _NODE.format(name=f"total {number}", number=number)
    one, _, _ = _NODE.format(name="tax", number=0).partition('test("tax of two"')
    new_test = one.replace("total([0]), 0", 'require("../shop.js").tax(10), 2')
    return Project(
        *("slow node --test", "node --test --test-concurrency=1 test", _TASK, files, {}),
        feature={"shop.js": f"{_TAX_JS}module.exports = {{ total, tax }};\n"},
        new_test={"test/tax.test.js": new_test},
        needs=("node",),
    )
