"""The use cases as functions: what a program gets that goes back to a run, continues it and compares the attempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from logos.adapters.hosts.script import load_script
from logos.app.diff import compare, diff
from logos.app.gc import collect_garbage
from logos.app.hosts import scripted_host
from logos.app.rollback import fork, reset, restore_files, rollback
from logos.app.sessions import list_sessions
from logos.app.start import resume
from logos.domain.turns import Outcome
from logos.errors import UsageError
from tests.support.sandbox import PROMPT, Sandbox

QUICK = ("limits.poll_seconds=0.02", "limits.min_review_cycles_before_approval=1")


def test_a_run_is_resumed_forked_rolled_back_compared_and_abandoned_from_python(tmp_path: Path) -> None:
    sandbox = Sandbox.of_repository(
        tmp_path / "repo", PROMPT=PROMPT, POLL_SECONDS="0.02", MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1"
    )
    wd, told = sandbox.wd, list[str]()
    sandbox.script({"programmer": [{"edit": {"greet.py": "a = 1\n"}}], "tester": [{"fault": "usage_limit"}]})
    assert sandbox("run", "--simulate", str(sandbox.script_path)).code == 4
    first, agents = sandbox.run_id, scripted_host(load_script(sandbox.script({})))

    done = resume(wd=wd, overrides=QUICK, make_host=agents, tell=told.append)
    assert (done.run, done.outcome) == (first, Outcome.PASSED)
    with pytest.raises(UsageError, match="has ended"):
        resume(wd=wd)

    forked = fork(first, at="r1.analyst.c1", wd=wd, tell=told.append)
    assert (forked.at.run, forked.restored, (forked.wd / "greet.py").exists()) == (first, True, False)
    assert resume(forked.run, wd=wd, overrides=QUICK, make_host=agents, tell=told.append).outcome is Outcome.PASSED
    compared = compare(first, forked.run, wd=wd)
    assert compared.common is not None
    assert (compared.common.run, compared.common.seq) == (first, forked.at.seq)
    assert [file.path for file in compared.diff.files()] == ["greet.py"]

    back = rollback(f"{first}@r1.analyst.c1", wd=wd, tell=told.append)
    assert not (wd / "greet.py").exists()
    assert restore_files(back.kept, wd=wd).commit == back.kept
    assert [file.path for file in diff(back.run, wd=wd).files()] == ["greet.py"]
    assert reset(wd=wd, files=True, tell=told.append).run == back.run
    assert not (wd / "greet.py").exists()

    assert {row.run for row in list_sessions(wd=wd).rows} == {first, forked.run, back.run}
    assert {removal.what for removal in collect_garbage(keep_days=0, keep_runs=0, wd=wd).removed} >= {f"run {first}"}
    assert [text for text in told if "warning" in text] == []
