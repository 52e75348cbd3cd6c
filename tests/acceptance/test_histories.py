"""Runs that a server keeps in memory: at every event the same as read from the log, and extended as it grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from logos.app.histories import STRIDE, Histories, RunHistory
from logos.app.moments import moment_at
from logos.app.runs import load_run, read_report
from logos.app.workdir import driving, reading
from logos.domain.events import PersonSaid
from logos.domain.turns import RunId
from logos.engine.journal import Journal
from logos.errors import UsageError
from logos.testing import FAIL, PASS
from logos.views.document import RunDocument
from logos.views.run import view_run
from logos.views.status import RunStatus
from tests.support.sandbox import Sandbox


@pytest.fixture
def ended(sandbox: Sandbox) -> Sandbox:
    sandbox.hire(tester=[FAIL, PASS])
    sandbox.run()
    return sandbox


def test_a_run_is_the_same_at_every_event_as_its_log_up_to_there(ended: Sandbox) -> None:
    run, records = RunId(ended.run_id), ended.records()
    history = RunHistory(run)
    history.extend(iter(records))
    for seq in range(1, len(records) + 1):
        there, read = history.at(seq), view_run(run, records[:seq], read_report)
        assert there == read
        assert there.fold.ledger == read.fold.ledger
        assert RunDocument.of(RunStatus(ended.wd, there, None)) == RunDocument.of(RunStatus(ended.wd, read, None))


def test_the_same_holds_across_the_points_where_turns_are_kept(ended: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert STRIDE > 5
    monkeypatch.setattr("logos.app.histories.STRIDE", 5)
    test_a_run_is_the_same_at_every_event_as_its_log_up_to_there(ended)


def test_a_kept_run_grows_with_its_log(ended: Sandbox) -> None:
    histories, run = Histories(), RunId(ended.run_id)
    before = histories.known(ended.wd, run)
    last = before.history.last
    with driving(ended.wd) as log:
        Journal(log, load_run(log, run).fold).record(PersonSaid("well done"))
    after = histories.known(ended.wd, run)
    assert after.history is before.history
    assert after.history.last == last + 1
    assert after.history.now().records[-1].event == PersonSaid("well done")
    histories.close()


def test_a_run_whose_log_was_replaced_is_read_again(ended: Sandbox, tmp_path: Path) -> None:
    histories, run = Histories(), RunId(ended.run_id)
    known = histories.known(ended.wd, run).history
    # As a repair leaves it: shorter, in a new file.
    with reading(ended.wd) as log:
        copy = tmp_path / "copy.db"
        rows = [*log.read(run)]
    with driving(ended.wd) as log:
        log.cut(run, len(rows), copy)
    again = histories.known(ended.wd, run).history
    assert again is not known
    assert again.last == known.last - 1
    histories.close()


def test_a_moment_that_is_not_there_is_an_error(ended: Sandbox) -> None:
    histories, run = Histories(), RunId(ended.run_id)
    last = moment_at(histories, ended.wd, run).last
    for seq in (0, last + 1):
        with pytest.raises(UsageError, match=f"no event {seq} in run"):
            moment_at(histories, ended.wd, run, seq)
    past = moment_at(histories, ended.wd, run, 3)
    assert not past.is_now
    assert past.status.word == "RUNNING"
    assert moment_at(histories, ended.wd, run).status.word == "PASSED"
    histories.close()
