"""Whole commands whose run log is in a database."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from logos.adapters.store.mirror import folder_of
from logos.adapters.store.postgres import PostgresLog
from logos.app import workdir
from logos.app.database import name_of
from logos.domain.turns import RunId
from logos.ports import RunLog
from tests.support.postgres import PostgresCluster
from tests.support.repositories import git
from tests.support.sandbox import PROMPT, QUICK, Sandbox
from tests.support.waiting import wait_for, wait_for_exit

PASSWORD = "hunter2hunter2"


@pytest.fixture
def shop(tmp_path: Path, database: str) -> Iterator[Sandbox]:
    made = Sandbox.of_repository(
        tmp_path / "repo", PROMPT=PROMPT, LOGOS_DATABASE=database.replace("postgres@", f"postgres:{PASSWORD}@"), **QUICK
    )
    yield made
    made.close()


def simulate(shop: Sandbox, *words: str) -> None:
    done = shop("run", "--simulate", str(shop.script()), *words)
    assert done.code == 0, done.err


def pause_at_a_gate(shop: Sandbox) -> None:
    paused = shop("run", "--simulate", str(shop.script()), "--set", "gates.at=after_plan")
    assert paused.code == 3, paused.err


def test_a_run_is_in_the_database_and_every_command_finds_it_there(shop: Sandbox, database: str) -> None:
    simulate(shop)
    with closing(PostgresLog(database, name_of(shop.wd))) as log:
        (run,) = log.runs()
        stored = [record.seq for record in log.read(run)]
        assert log.tampering(run, verify=True) == ""
    assert not (shop.wd / ".telos" / "logos.db").exists()
    events = shop("log", "--json").json["events"]
    assert [event["seq"] for event in events] == stored
    for words in (("status",), ("runs",), ("show", run, "r1.tester.c1"), ("report",), ("sessions",), ("cost",)):
        done = shop(*words)
        assert done.code == 0, (words, done.err)
        assert done.out
    assert shop("status", "--json").json["run"] == run


@pytest.mark.long
def test_a_fork_and_a_rollback_are_in_the_database(shop: Sandbox) -> None:
    simulate(shop)
    run = shop("status", "--json").json["run"]
    turns = [e for e in shop("log", "--json").json["events"] if e["kind"] == "turn_answered"]
    at = f"{run}@{turns[1]['seq']}"
    there = shop.wd.with_name("other")
    done = shop("fork", at, "--to", str(there))
    assert done.code == 0, done.err
    assert len(shop.at(there)("runs", "--json").json["runs"]) == 1
    assert not (there / ".telos" / "logos.db").exists()
    done = shop("rollback", at)
    assert done.code == 0, done.err
    assert len(shop("runs", "--json").json["runs"]) == 2
    done = shop("resume", "--simulate", str(shop.script()))
    assert done.code == 0, done.err


def test_a_run_that_was_interrupted_resumes_from_the_database(shop: Sandbox) -> None:
    pause_at_a_gate(shop)
    done = shop("resume", "--simulate", str(shop.script()), "--set", "gates.at=none")
    assert done.code == 0, done.err
    assert len(shop("runs", "--json").json["runs"]) == 1


@pytest.mark.long
def test_a_gate_of_a_run_in_the_database_is_approved(shop: Sandbox) -> None:
    pause_at_a_gate(shop)
    done = shop("approve")
    assert done.code == 0, done.err
    done = shop("resume", "--simulate", str(shop.script()))
    assert done.code == 0, done.err
    assert "gate_decided" in [event["kind"] for event in shop("log", "--json").json["events"]]


def test_without_the_variable_the_checkpoints_of_runs_in_the_database_stay(shop: Sandbox) -> None:
    simulate(shop)
    old = git(shop.wd, "commit-tree", "HEAD^{tree}", "-m", "old", GIT_COMMITTER_DATE="2020-01-01T00:00:00Z").strip()
    for ref in git(shop.wd, "for-each-ref", "--format=%(refname)", "refs/logos").split():
        git(shop.wd, "update-ref", ref, old)
        os.utime(shop.wd / ".git" / ref, (0, 0))
    refs = git(shop.wd, "for-each-ref", "refs/logos")
    assert refs
    shop.unset("LOGOS_DATABASE")
    done = shop("gc", "--keep-days", "0", "--keep-runs", "0")
    assert done.code == 0, done.err
    assert "its runs are in a database" in done.out + done.err
    assert git(shop.wd, "for-each-ref", "refs/logos") == refs


def test_without_the_variable_the_runs_are_not_taken_for_missing(shop: Sandbox) -> None:
    simulate(shop)
    shop.unset("LOGOS_DATABASE")
    for words in (("status",), ("run", "--simulate", str(shop.script())), ("log",)):
        done = shop(*words)
        assert done.code == 2
        assert "are in a database: set LOGOS_DATABASE" in done.err
    assert not (shop.wd / ".telos" / "logos.db").exists()


def test_no_event_file_or_message_has_the_address(shop: Sandbox, database: str) -> None:
    simulate(shop, "-v")
    with psycopg.connect(database) as connection:
        bodies = connection.execute("SELECT string_agg(encode(body, 'escape'), '') FROM logos.events").fetchone()
    assert bodies is not None
    said = [done.out + done.err for done in (shop("status"), shop("log", "--json"), shop("schema", "--keys"))]
    files = [path.read_text(errors="replace") for path in shop.wd.rglob("*") if path.is_file()]
    for text in (bodies[0], *said, *files):
        assert PASSWORD not in text
        assert "LOGOS_DATABASE" not in text


def test_a_server_that_is_not_there_is_an_error_in_plain_words(shop: Sandbox, tmp_path: Path) -> None:
    shop.set(LOGOS_DATABASE=f"postgresql://ada:{PASSWORD}@/runs?host={tmp_path}")
    for words in (("status",), ("run", "--simulate", str(shop.script()))):
        done = shop(*words)
        assert done.code == 1
        assert "does not answer" in done.err
        assert "Traceback" not in done.err
        assert PASSWORD not in done.err
    checked = shop("doctor", "--json").json["checks"]
    assert [check["level"] for check in checks_of_the_log(checked)] == ["fail"]
    assert shop("doctor", "--trust").code == 1


def checks_of_the_log(checked: list[dict[str, str]]) -> list[dict[str, str]]:
    return [check for check in checked if check["about"] == "log"]


@pytest.mark.parametrize("words", [("web",), ("runs", "--all"), ("gc",)])
def test_what_looks_for_files_says_so(shop: Sandbox, words: tuple[str, ...]) -> None:
    done = shop(*words)
    assert done.code == 2
    assert "knows only runs whose log is a file" in done.err


def test_a_pass_of_a_run_whose_rows_were_changed_is_not_believed(shop: Sandbox, database: str) -> None:
    pause_at_a_gate(shop)
    assert shop("doctor", "--trust").code == 0
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE logos.events SET at = at - 1 WHERE seq = 2")
    done = shop("doctor", "--trust")
    assert (done.code, "event 2 was changed in the database" in done.out) == (1, True), done.out
    done = shop("resume", "--simulate", str(shop.script()), "--set", "gates.at=none")
    assert done.code == 3, done.err
    tampered = [event for event in shop("log", "--json").json["events"] if event["kind"] == "records_tampered"]
    assert [event["evidence"] for event in tampered] == ["event 2 was changed in the database"]


# --- copying


def stored(log: RunLog) -> dict[RunId, tuple[list[tuple[int, float, bytes]], str]]:
    """Every run with the bytes of its events, and its hash."""
    return {run: ([*log.rows(run)], log.head(run)) for run in log.runs()}


def in_its_file(shop: Sandbox) -> dict[RunId, tuple[list[tuple[int, float, bytes]], str]]:
    with workdir.in_file(shop.wd / ".telos", print) as log:
        return stored(log)


def in_its_database(shop: Sandbox, database: str) -> dict[RunId, tuple[list[tuple[int, float, bytes]], str]]:
    with closing(PostgresLog(database, name_of(shop.wd))) as log:
        assert not any(log.tampering(run, verify=True) for run in log.runs())
        return stored(log)


@pytest.fixture
def filed(shop: Sandbox) -> Sandbox:
    """A work dir with a run that waits at a gate, and one that has passed, in its file."""
    address = shop.environment.pop("LOGOS_DATABASE")
    simulate(shop)
    pause_at_a_gate(shop)
    shop.set(LOGOS_DATABASE=address)
    return shop


def test_runs_are_the_same_bytes_there_and_back(filed: Sandbox, database: str) -> None:
    before = in_its_file(filed)
    assert len(before) == 2
    assert filed("log", "--copy", "database").code == 0
    assert in_its_database(filed, database) == before
    assert [run["run"] for run in filed("runs", "--json").json["runs"]] == [*before]
    shutil.rmtree(folder_of(filed.wd / ".telos" / "logos.db"))
    (filed.wd / ".telos" / "logos.db").unlink()
    done = filed("log", "--copy", "file", "--json")
    assert done.code == 0, done.err
    assert [(run["run"], run["events"], run["new"]) for run in done.json["runs"]] == [
        (run, len(rows), len(rows)) for run, (rows, _) in before.items()
    ]
    assert in_its_file(filed) == before
    filed.unset("LOGOS_DATABASE")
    assert filed("doctor", "--trust").code == 0


@pytest.mark.long
def test_a_run_that_went_on_in_the_database_goes_on_in_the_file(filed: Sandbox, database: str) -> None:
    paused = [*in_its_file(filed)][-1]
    assert filed("log", paused, "--copy", "database").code == 0
    assert [*in_its_database(filed, database)] == [paused]
    done = filed("resume", "--simulate", str(filed.script()), "--set", "gates.at=none")
    assert done.code == 0, done.err
    assert filed("log", "--copy", "file").code == 0
    assert in_its_file(filed)[paused] == in_its_database(filed, database)[paused]
    again = filed("log", "--copy", "file", "--json").json
    assert [run["new"] for run in again["runs"]] == [0]


@pytest.mark.long
def test_a_run_that_went_on_in_both_is_not_copied(filed: Sandbox, database: str) -> None:
    paused = [*in_its_file(filed)][-1]
    assert filed("log", paused, "--copy", "database").code == 0
    address = filed.environment["LOGOS_DATABASE"]
    for variable in (address, ""):
        filed.set(LOGOS_DATABASE=variable)
        done = filed("resume", "--simulate", str(filed.script()), "--set", "gates.at=none")
        assert done.code == 0, done.err
    filed.set(LOGOS_DATABASE=address)
    before = in_its_file(filed), in_its_database(filed, database)
    for to in ("file", "database"):
        done = filed("log", paused, "--copy", to)
        assert done.code == 1
        assert f"run {paused} is there already, with other events" in done.err
    assert (in_its_file(filed), in_its_database(filed, database)) == before


@pytest.mark.long
def test_runs_are_copied_to_a_named_database_only(filed: Sandbox) -> None:
    filed.unset("LOGOS_DATABASE")
    done = filed("log", "--copy", "database")
    assert (done.code, "set LOGOS_DATABASE" in done.err) == (2, True)


# --- drivers that are processes


def events_in(database: str) -> list[str]:
    with psycopg.connect(database) as connection:
        begun = connection.execute("SELECT to_regclass('logos.events')").fetchone()
        if begun is None or begun[0] is None:
            return []
        rows = connection.execute("SELECT body FROM logos.events ORDER BY seq").fetchall()
    return [json.loads(body)["kind"] for (body,) in rows]


def answered(shop: Sandbox) -> list[str]:
    return [event["turn"] for event in shop("log", "--json").json["events"] if event["kind"] == "turn_answered"]


def test_a_killed_driver_leaves_a_run_that_resumes_without_asking_twice(shop: Sandbox, database: str) -> None:
    driver = shop.start("run", "--simulate", str(shop.script()))
    wait_for(lambda: events_in(database).count("turn_answered") >= 2, "two answers", process=driver)
    driver.kill()
    driver.wait()
    before = answered(shop)
    done = shop("resume", "--simulate", str(shop.script()))
    assert done.code == 0, done.err
    assert answered(shop)[: len(before)] == before
    assert len(set(answered(shop))) == len(answered(shop))


@pytest.mark.long
def test_a_run_goes_on_when_the_server_was_killed_and_is_there_again(
    postgres: PostgresCluster, shop: Sandbox, database: str
) -> None:
    driver = shop.start("run", "--simulate", str(shop.script()))
    wait_for(lambda: events_in(database).count("turn_answered") >= 1, "an answer", process=driver)
    postgres.kill()
    postgres.start()
    assert wait_for_exit(driver) == 0
    assert len(set(answered(shop))) == len(answered(shop))
    with closing(PostgresLog(database, name_of(shop.wd))) as log:
        assert log.tampering(log.runs()[0], verify=True) == ""


@pytest.mark.long
def test_a_driver_in_the_background_writes_to_the_database_and_can_be_followed(shop: Sandbox, database: str) -> None:
    started = shop("run", "--simulate", str(shop.script()), "--detach", "--json")
    assert started.code == 0, started.err
    followed = shop("log", started.json["run"], "--follow", "--json")
    kinds = [json.loads(line)["kind"] for line in followed.out.splitlines()]
    assert kinds == events_in(database)
    assert kinds[-1] == "run_ended"
