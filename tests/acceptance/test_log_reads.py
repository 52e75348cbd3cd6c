"""One read and one fold of a run per command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.counting import Counted, counting
from tests.support.sandbox import PROMPT, Done, Sandbox

FAST = {"PROMPT": PROMPT, "POLL_SECONDS": "0.02", "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1"}


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """A repository with a finished run, and one that stopped at its tester."""
    made = Sandbox.of_repository(tmp_path / "repo", **FAST)
    made.script({})
    assert made("run", "--simulate", str(made.script_path)).code == 0
    made.script({"tester": [{"fault": "usage_limit"}]})
    assert made("run", "--fresh", "--simulate", str(made.script_path)).code == 4
    made.script({})
    yield made
    made.close()


def measured(sandbox: Sandbox, *arguments: str) -> tuple[Done, Counted]:
    with counting() as counted:
        done = sandbox(*arguments)
    assert done.code == 0, done.err
    return done, counted


@pytest.mark.parametrize(
    "command",
    [
        ("fork",),
        ("reset",),
        pytest.param(("fork", "--at", "r1.programmer.c1"), marks=pytest.mark.long),
        pytest.param(("rollback", "r1.analyst.c1"), marks=pytest.mark.long),
        pytest.param(("reset", "--files"), marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_what_goes_back_reads_and_folds_the_run_once(sandbox: Sandbox, command: tuple[str, ...]) -> None:
    _, stopped = sandbox.logs()
    _, counted = measured(sandbox, *command)
    assert counted.folds == [stopped]
    assert counted.reads.count(stopped) == 1


@pytest.mark.long
def test_a_diff_folds_each_run_once(sandbox: Sandbox) -> None:
    finished, stopped = sandbox.logs()
    for command in (("diff", "1"), ("diff", "1", "r1.analyst.c1"), ("diff", f"{stopped}@1", stopped)):
        _, counted = measured(sandbox, *command)
        assert (counted.folds, counted.reads) == ([stopped], [stopped]), command
    for command in ("diff", "compare"):
        _, counted = measured(sandbox, command, finished, stopped)
        assert (counted.folds, counted.reads) == ([finished, stopped], [finished, stopped]), command


def test_a_resume_reads_and_folds_the_run_once(sandbox: Sandbox) -> None:
    _, stopped = sandbox.logs()
    _, counted = measured(sandbox, "resume", "--simulate", str(sandbox.script_path))
    assert (counted.folds, counted.reads) == ([stopped], [stopped])
