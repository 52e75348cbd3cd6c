"""Logs and state files written by commit 4d178cb: unfinished runs resume, finished ones can be read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from logos.adapters.store.sqlite import SqliteLog
from logos.app.runs import open_levels
from logos.domain.levels import Level
from logos.domain.plans import CURRENT_RULES, RulesVersion
from logos.domain.turns import RunId
from tests.old_runs import restore
from tests.unit.test_cli import Cli, Done

VERSION = "4d178cb"
CYCLE_RUN, BUILD, BLOCKED_BUILD = "mige28wc", "9ta2fz46", "uc3m8qj9"
PASSING = {"tester": [{"run": "sh check.sh"}]}
CART = {"L2.cart": [{"edit": {"cart.py": "def cart(): return 2\n"}}]}


class OldRun:
    """A work dir that the old version left behind, and the command line of the version under test."""

    def __init__(
        self, name: str, wd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.wd = restore(VERSION, name, wd)
        self.cli = Cli(self.wd, monkeypatch, capsys)
        self.cli.env(POLL_SECONDS="0.05", MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1")
        self.before = self.events()

    def events(self) -> list[dict[str, Any]]:
        """Every event of every run, as it is stored."""
        with closing(sqlite3.connect(self.wd / ".telos" / "logos.db")) as db:
            rows = db.execute("SELECT run, body FROM events JOIN runs USING (run) ORDER BY number, seq").fetchall()
        return [{"run": run, **json.loads(body)} for run, body in rows]

    @property
    def added(self) -> list[dict[str, Any]]:
        after = self.events()
        assert after[: len(self.before)] == self.before, "the old events were changed"
        return after[len(self.before) :]

    @property
    def answered_before(self) -> set[str]:
        return turns(self.before, "turn_answered")

    def simulate(self, command: str, agents: dict[str, Any], *arguments: str) -> Done:
        script = self.wd.parent / "script.yaml"
        script.write_text(yaml.safe_dump({"agents": agents}), encoding="utf-8")
        return self.cli(command, "--simulate", str(script), "--json", *arguments)


def rules(events: list[dict[str, Any]], kind: str) -> list[int | None]:
    """The rules number of each plan in events of this kind."""
    return [event["plan"].get("rules") for event in events if event["kind"] == kind]


def turns(events: list[dict[str, Any]], kind: str) -> set[str]:
    return {event["turn"] for event in events if event["kind"] == kind}


Open = Callable[[str], OldRun]


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Open:
    return lambda name: OldRun(name, tmp_path / "repo", monkeypatch, capsys)


def test_an_unfinished_cycle_resumes_and_asks_no_finished_turn_again(old: Open) -> None:
    run = old("cycle-unfinished")
    done = run.simulate("run", PASSING, "--resume")

    assert (done.code, done.json["run"], done.json["outcome"], done.json["rounds"]) == (0, CYCLE_RUN, "PASSED", 2)
    assert {event["run"] for event in run.added} == {CYCLE_RUN}
    # The turn in flight keeps the prompt of the log; only what comes after it is asked for the first time.
    assert turns(run.added, "turn_asked") == {"r2.tester.c1"}
    assert turns(run.added, "turn_answered") == {"r2.peer_programmer.c1", "r2.tester.c1"}
    assert rules(run.added, "run_resumed") == [RulesVersion.FIRST]


def test_an_unfinished_build_resumes_and_asks_no_finished_turn_again(old: Open) -> None:
    run = old("levels-unfinished")
    done = run.simulate("build", CART, "--resume", "--levels", "9,3,2")

    assert (done.code, done.json["run"], done.json["outcome"]) == (0, BUILD, "PASSED"), done.err
    assert turns(run.added, "turn_asked") == {"s2.L3.validate", "s2.L9.validate"}
    assert not turns(run.added, "turn_answered") & run.answered_before
    assert "s2.L2.cart.author" in turns(run.added, "turn_answered")
    assert rules(run.added, "run_resumed") == [RulesVersion.FIRST]
    assert run.cli("status", "--json").json["outcome"] == "PASSED"


def test_a_blocked_build_takes_a_decision_and_goes_on(old: Open) -> None:
    run = old("levels-blocked")
    shown = run.cli("resolve", "--json")
    assert shown.json["question"]["id"] == "s1.q1", shown
    assert run.cli("resolve", "1").code == 0
    done = run.simulate("build", CART, "--resume", "--levels", "4-2")

    assert (done.code, done.json["run"], done.json["outcome"]) == (0, BLOCKED_BUILD, "PASSED"), done.err
    assert not turns(run.added, "turn_asked") & run.answered_before


def test_an_old_log_folds_by_the_rules_it_was_written_with(old: Open) -> None:
    run = old("levels-blocked")
    with closing(SqliteLog(run.wd / ".telos" / "logos.db")) as log:
        state = open_levels(log, RunId(BLOCKED_BUILD)).state

    assert rules(run.before, "run_started") == [None]
    assert state.dispute is not None
    assert (state.dispute.objections, list(state.dispute.votes)) == ((), [Level.L4])


def test_a_new_build_beside_an_old_one_has_the_current_rules(old: Open) -> None:
    run = old("levels-finished")
    done = run.simulate("build", {"L2": CART["L2.cart"]}, "readers can pay later", "--levels", "2")

    assert done.code == 0, done.err
    assert rules(run.added, "run_started") == [CURRENT_RULES]


@pytest.mark.parametrize("name", ["cycle-unfinished", "levels-unfinished"])
def test_a_run_that_begins_at_a_checkpoint_of_an_old_one_keeps_its_rules(old: Open, name: str) -> None:
    run = old(name)
    done = run.cli("rollback", "20", "--json")

    assert done.code == 0, done.err
    assert rules(run.added, "run_forked") == [RulesVersion.FIRST]


@pytest.mark.parametrize(
    ("name", "flow", "outcome"),
    [
        ("cycle-finished", "cycle", "PASSED"),
        ("levels-finished", "levels", "PASSED"),
        ("levels-blocked", "levels", "BLOCKED"),
        ("cycle-unfinished", "cycle", None),
        ("levels-unfinished", "levels", None),
    ],
)
def test_an_old_run_is_shown(old: Open, name: str, flow: str, outcome: str | None) -> None:
    run = old(name)
    shown = run.cli("log", "--json").json["events"]
    assert [(event["run"], event["kind"]) for event in shown] == [(own["run"], own["kind"]) for own in run.before]
    status = run.cli("status", "--json").json
    assert (status["flow"], status["outcome"], status["turns"]) == (flow, outcome, len(run.answered_before))
    report = run.cli("report", "--json").json
    assert report["run"] == status["run"]
    assert run.added == []


def test_a_state_file_without_its_log_is_imported(old: Open) -> None:
    run = old("cycle-unfinished")
    (run.wd / ".telos" / "logos.db").unlink()
    done = run.simulate("run", PASSING, "--resume")

    assert (done.code, done.json["outcome"], done.json["rounds"]) == (0, "PASSED", 2), done.err
    asked = [event["turn"] for event in run.events() if event["kind"] == "turn_asked"]
    assert asked == ["r2.peer_programmer.c1", "r2.tester.c1"]
    assert rules(run.events(), "run_started") == [CURRENT_RULES]
