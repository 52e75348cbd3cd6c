"""`-v` and LOGOS_LOG on real commands."""

from __future__ import annotations

import json

import pytest

from tests.support.sandbox import QUICK, Sandbox


def run_of(repository: Sandbox) -> tuple[str, ...]:
    repository.set(MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1", **QUICK)
    return "run", "sell", "--test", "true", "--json", "--simulate", str(repository.script({}))


@pytest.mark.parametrize("first", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_verbose_run_logs_to_stderr_and_prints_only_its_document_on_stdout(repository: Sandbox, first: bool) -> None:
    words = run_of(repository)
    done = repository.apart(*(("-vv", *words) if first else (*words, "-vv")))
    assert json.loads(done.out)["outcome"] == "PASSED"
    assert "INFO logos.engine.loop [MainThread] starting r1.analyst.c1" in done.err
    assert "INFO logos.engine.ask [r1.analyst.c1] r1.analyst.c1: sending" in done.err
    assert "DEBUG logos.engine.waiter [r1.analyst.c1]" in done.err
    assert "DEBUG logos.adapters.git.command [MainThread] git " in done.err


def test_retries_of_a_server_that_is_away_are_logged(sandbox: Sandbox) -> None:
    done = sandbox.apart("profiles", "install", "--api", "http://127.0.0.1:9", LOGOS_LOG="info")
    assert done.code == 1
    assert "INFO logos.adapters.hosts.cao [MainThread] http://127.0.0.1:9: attempt 1 failed" in done.err


def test_nothing_is_logged_by_default(repository: Sandbox) -> None:
    done = repository.apart(*run_of(repository))
    assert done.code == 0
    assert " logos." not in done.err
