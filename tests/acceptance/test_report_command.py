"""`logos report` as a command."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from logos.adapters.lock import driver_lock
from logos.adapters.store.sqlite import SqliteLog
from logos.app.report import report_on
from logos.cli.output.report import as_markdown
from logos.domain.events import (
    RunStarted,
)
from logos.domain.turns import RunId
from logos.testing import FAIL, PASS
from tests.support.sandbox import Sandbox
from tests.unit.test_report import (
    QUICK,
    a_cycle,
    a_log,
    is_safe,
)


def test_the_command_prints_markdown_a_page_or_one_document(sandbox: Sandbox) -> None:
    sandbox.hire(tester=[FAIL, PASS])
    run = sandbox.run().run
    done = {form: sandbox("report", run[:4], "--format", form) for form in ("md", "html", "json")}
    assert {one.code for one in done.values()} == {0}
    assert done["md"].out.startswith(f"# Continuity report: run {run} (simulated), PASSED, unverified\n")
    is_safe(done["html"].out)
    assert done["json"].json["run"] == run
    assert sandbox("report", "--json").out == done["json"].out


def test_the_command_writes_a_file_and_says_where(sandbox: Sandbox, tmp_path: Path) -> None:
    run = sandbox.run().run
    target = tmp_path / "out" / "report.html"
    done = sandbox("report", "--format", "html", "-o", str(target))
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith(f"{target}: run {run} across 1 session, last event ")
    is_safe(target.read_text(encoding="utf-8"))
    assert target.stat().st_mode & 0o077 == 0
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def test_wrong_values_are_refused_in_a_line_that_says_what_is_allowed(sandbox: Sandbox) -> None:
    def refused(*arguments: str) -> str:
        done = sandbox("report", *arguments)
        assert done.code == 2
        assert done.err.count("\n") == 1
        return done.err

    assert "no run was started" in refused()
    run = sandbox.run().run
    assert f"run {run} has 1 session: 1 (" in refused("--since", "2")
    assert "contradict" in refused("--json", "--format", "md")
    assert "'md', 'html', 'json'" in refused("--format", "pdf")
    assert "cannot write" in refused("--output", str(sandbox.wd / ".telos"))


def test_a_damaged_log_is_reported_as_far_as_it_can_be_read(sandbox: Sandbox) -> None:
    path = sandbox.wd / ".telos" / "logos.db"
    log = SqliteLog(path)
    a_log(a_cycle(QUICK), log=log)
    log.close()
    with sqlite3.connect(path) as db:
        db.execute('UPDATE events SET body = \'{"kind": "nonsense"}\' WHERE seq = 12')
    done = report_on(sandbox.wd, None, "last")
    assert "event 12" in done.damage
    assert "the log is damaged" in as_markdown(done)
    assert len(done.sections.completed) == 1


def test_only_the_newest_run_can_be_the_one_that_is_driven_now(sandbox: Sandbox) -> None:
    log = SqliteLog(sandbox.wd / ".telos" / "logos.db")
    log.append(RunId("aaaa1111"), RunStarted(QUICK), 0)
    log.append(RunId("bbbb2222"), RunStarted(QUICK), 0)
    log.close()
    with driver_lock(sandbox.wd / ".telos" / "driver.lock"):
        words = [report_on(sandbox.wd, run, "last").status.word for run in ("aaaa", "bbbb")]
        assert report_on(sandbox.wd, None, "last").sessions[-1].end == "at work now"
    assert words == ["STOPPED", "RUNNING"]
