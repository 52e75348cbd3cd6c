"""Looking at runs: status, runs, log and show."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from pathlib import Path

from logos.adapters.lock import driver_lock
from logos.adapters.store.mirror import discard
from logos.adapters.store.sqlite import SqliteLog
from logos.domain.events import (
    Noted,
    RunResumed,
    RunStarted,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
)
from logos.domain.plans import CyclePlan
from logos.domain.turns import AgentName, FailureKind, RunId, TurnId
from logos.domain.usage import Usage
from logos.testing import APPROVED, FAIL, PASS, REVISE
from tests.support.isolation import clean_env
from tests.support.sandbox import LOGOS, Sandbox
from tests.support.waiting import wait_for_exit
from tests.unit.test_cli_redact import SECRETS

TURNS_OF_A_GOOD_RUN = [
    "r1.analyst.c1",
    "r1.peer_analyst.c1",
    "r1.analyst.c2",
    "r1.peer_analyst.c2",
    "r1.programmer.c1",
    "r1.peer_programmer.c1",
    "r1.programmer.c2",
    "r1.peer_programmer.c2",
    "r1.tester.c1",
]


def begin(wd: Path, *runs: str) -> None:
    """Runs that were started and came no further than their first turn."""
    log = SqliteLog(wd / ".telos" / "logos.db")
    for run in map(RunId, runs):
        plan = CyclePlan("p", "add a greeting", "run it", str(wd), str(wd / ".tmp"))
        log.append(run, RunStarted(plan), 0)
        log.append(run, TurnAsked(TurnId("r1.analyst.c1"), AgentName("analyst"), "do it"), 1)
        log.append(run, TurnSent(TurnId("r1.analyst.c1")), 2)
    log.close()


def test_status_without_a_run_says_how_to_start_one(sandbox: Sandbox) -> None:
    assert "logos run" in sandbox("status").out
    assert sandbox("status", "--json").json["run"] is None


def test_a_log_without_a_run_is_as_none(sandbox: Sandbox) -> None:
    """A command that failed before its run began leaves one."""
    before = sandbox("status"), sandbox("status", "--json")
    SqliteLog(sandbox.wd / ".telos" / "logos.db").close()
    assert (sandbox("status"), sandbox("status", "--json")) == before
    done = sandbox("log")
    assert (done.code, done.err) == (2, "logos: no run was started here yet; `logos run` starts one\n")


def test_status_of_a_passed_run(sandbox: Sandbox) -> None:
    run = sandbox.run().run
    done = sandbox("status")
    assert done.code == 0
    assert f"run {run} (simulated): PASSED, unverified, the tester reported PASS" in done.out
    assert sandbox("status", "--json").json == sandbox("status", "--json").json | {
        "run": run,
        "status": "PASSED",
        "outcome": "PASSED",
        "turns": 9,
        "driver_pid": None,
        "in_flight": [],
        "next": f"logos diff {run}",
    }


def test_status_of_a_failed_run_leads_to_the_testers_words(sandbox: Sandbox) -> None:
    sandbox.hire(tester=[FAIL])
    run = sandbox.run(MAX_ROUNDS="1").run
    assert sandbox("status", "--json").json["next"] == f"logos show {run} r1.tester.c1"


def test_status_of_an_abandoned_run_says_who_holds_what_and_how_to_go_on(sandbox: Sandbox) -> None:
    begin(sandbox.wd, "abcd1234")
    done = sandbox("status")
    assert "STOPPED" in done.out
    assert "r1.analyst.c1 is not answered: the analyst was asked at" in done.out
    assert "no driver is attached to it" in done.out
    assert "next: logos run --resume" in done.out
    held = sandbox("status", "--json").json["in_flight"]
    assert [(turn["turn"], turn["agent"]) for turn in held] == [("r1.analyst.c1", "analyst")]


def test_status_names_the_live_driver(sandbox: Sandbox) -> None:
    import os

    begin(sandbox.wd, "abcd1234")
    with driver_lock(sandbox.wd / ".telos" / "driver.lock"):
        assert f"driver: pid {os.getpid()}" in sandbox("status").out
        document = sandbox("status", "--json").json
    assert (document["status"], document["driver_pid"]) == ("RUNNING", os.getpid())
    assert document["next"] == "logos log --follow"


def test_status_shows_an_agent_that_waits_for_a_person(sandbox: Sandbox) -> None:
    begin(sandbox.wd, "abcd1234")
    log = SqliteLog(sandbox.wd / ".telos" / "logos.db")
    log.append(RunId("abcd1234"), Noted(Topic.PERMISSION_ASKED, "may I?", TurnId("r1.analyst.c1")), 3)
    log.close()
    with driver_lock(sandbox.wd / ".telos" / "driver.lock"):
        done = sandbox("status")
    assert "WAITING FOR YOU" in done.out
    assert "it waits for you: may I?" in done.out


def test_status_and_log_tell_of_an_agent_that_rests_until_it_is_asked_again(sandbox: Sandbox) -> None:
    begin(sandbox.wd, "abcd1234")
    log = SqliteLog(sandbox.wd / ".telos" / "logos.db")
    turn = TurnId("r1.analyst.c1")
    log.append(RunId("abcd1234"), Noted(Topic.TRIED_AGAIN, "r1.analyst.c1: 429; waiting until 12:00", turn), 3)
    with driver_lock(sandbox.wd / ".telos" / "driver.lock"):
        assert "it rests: r1.analyst.c1: 429; waiting until 12:00" in sandbox("status").out
        assert sandbox("status", "--json").json["in_flight"][0]["rests"] == "r1.analyst.c1: 429; waiting until 12:00"
        log.append(RunId("abcd1234"), TurnSent(turn), 4)
        assert sandbox("status", "--json").json["in_flight"][0]["rests"] is None
    log.close()
    assert "resting: r1.analyst.c1: 429; waiting until 12:00" in sandbox("log").out


def test_a_driver_that_left_says_why_until_the_next_one_comes(sandbox: Sandbox) -> None:
    begin(sandbox.wd, "abcd1234")
    log = SqliteLog(sandbox.wd / ".telos" / "logos.db")
    why = "limits.max_tokens reached: 9 tokens of 8 tokens"
    log.append(RunId("abcd1234"), Noted(Topic.INTERRUPTED, why), 3)
    assert f"STOPPED, {why}" in sandbox("status").out
    assert sandbox("status", "--json").json["next"] == "logos run --set limits.max_tokens=… --resume"
    plan = CyclePlan("p", "add a greeting", "run it", str(sandbox.wd), str(sandbox.wd / ".tmp"))
    log.append(RunId("abcd1234"), RunResumed(plan), 4)
    log.close()
    assert sandbox("status", "--json").json["stopped_because"] is None


def test_usage_of_every_try_is_on_the_bill(sandbox: Sandbox) -> None:
    begin(sandbox.wd, "abcd1234")
    log = SqliteLog(sandbox.wd / ".telos" / "logos.db")
    turn = TurnId("r1.analyst.c1")
    log.append(RunId("abcd1234"), TurnFailed(turn, FailureKind.PROVIDER, "crashed", Usage(100, None, 5, 0.5)), 3)
    log.append(RunId("abcd1234"), TurnAnswered(turn, "done", usage=Usage(200, 50, 5)), 4)
    log.close()
    assert sandbox("cost", "abcd", "--json").json["usage"] == {
        "turns": 1,
        "input": 300,
        "cached": 50,
        "output": 10,
        "tokens": 310,
        "cost_usd": 0.5,
        "tokens_unknown_turns": 0,
        "cost_unknown_turns": 1,
        "premium_requests": None,
        "estimated": False,
    }
    usage = "usage: 310 tokens (300 in, 50 of them cached, 10 out), cost $0.5000"
    assert usage in sandbox("show", "abcd", "r1.analyst.c1").out
    assert "abcd1234: 1 turn, 310 tokens, $0.5000\n" in sandbox("cost").out


def test_cost_of_a_run_that_has_not_begun_is_nothing_yet(sandbox: Sandbox) -> None:
    begin(sandbox.wd, "abcd1234")
    assert sandbox("cost").out == "run abcd1234: 0 turns, 5 characters sent\n"
    assert sandbox("cost", "--json").json["usage_by"]["roles"] == {}


def test_cost_of_a_run_whose_host_tells_nothing_is_unknown(sandbox: Sandbox) -> None:
    run = sandbox.run().run
    total = sandbox("cost", run[:3], "--json").json["usage"]
    assert (total["tokens"], total["cost_usd"], total["tokens_unknown_turns"]) == (None, None, 9)
    assert "characters sent, tokens unknown" in sandbox("cost").out
    assert sandbox("cost", "nonesuch").code == 2


def test_another_work_dir_is_looked_at_with_wd_and_suggested_again(sandbox: Sandbox, tmp_path: Path) -> None:
    run = sandbox.run().run
    elsewhere = sandbox.at(tmp_path)
    assert elsewhere("status").out.startswith("no run was started")
    assert f"next: logos diff {run} --wd {sandbox.wd}" in elsewhere("status", "--wd", str(sandbox.wd)).out


def test_the_work_dir_of_the_configuration_is_looked_at(sandbox: Sandbox, tmp_path: Path) -> None:
    run = sandbox.run().run
    (tmp_path / "logos.json").write_text(json.dumps({"wd": str(sandbox.wd)}))
    assert sandbox.at(tmp_path)("status", "--json").json["run"] == run


def test_runs_lists_every_run_with_its_outcome(sandbox: Sandbox) -> None:
    first = sandbox.run().run
    sandbox.hire(tester=[FAIL])
    second = sandbox.run(MAX_ROUNDS="1").run
    assert [(row["run"], row["status"], row["turns"]) for row in sandbox("runs", "--json").json["runs"]] == [
        (first, "PASSED", 9),
        (second, "FAILED", 9),
    ]
    lines = sandbox("runs").out.splitlines()
    assert lines[0].split() == ["run", "started", "status", "rounds", "turns", "tokens", "cost", "asked", "for"]
    assert "A greeting is missing." in lines[1]


def test_runs_of_an_empty_work_dir(sandbox: Sandbox) -> None:
    assert "no runs in" in sandbox("runs").out
    assert sandbox("runs", "--json").json["runs"] == []


def test_a_damaged_run_does_not_hide_the_others(sandbox: Sandbox) -> None:
    damaged = sandbox.run().run
    sandbox.hire()
    good = sandbox.run().run
    with sqlite3.connect(sandbox.wd / ".telos" / "logos.db") as db:
        db.execute("UPDATE events SET body = 'garbage' WHERE run = ? AND seq = 5", (damaged,))
    db.close()
    discard(sandbox.wd / ".telos" / "logos.db")
    assert [(row["run"], bool(row["damage"])) for row in sandbox("runs", "--json").json["runs"]] == [
        (damaged, True),
        (good, False),
    ]
    table = {line.split()[0]: line for line in sandbox("runs").out.splitlines()}
    assert " DAMAGED " in table[damaged]
    assert " PASSED, unverified " in table[good]


def test_a_run_of_which_nothing_can_be_read_is_listed_beside_the_others(sandbox: Sandbox) -> None:
    lost = sandbox.run().run
    sandbox.hire()
    good = sandbox.run().run
    with sqlite3.connect(sandbox.wd / ".telos" / "logos.db") as db:
        db.execute("UPDATE events SET body = 'garbage' WHERE run = ? AND seq = 1", (lost,))
    db.close()
    discard(sandbox.wd / ".telos" / "logos.db")
    document = sandbox("runs", "--json").json
    assert [row["run"] for row in document["runs"]] == [good]
    assert [(row["run"], row["wd"]) for row in document["unreadable"]] == [(lost, str(sandbox.wd))]
    assert any(line.startswith(lost) and " DAMAGED " in line for line in sandbox("runs").out.splitlines())


def test_a_log_that_is_no_database_is_one_clear_line(sandbox: Sandbox) -> None:
    (sandbox.wd / ".telos").mkdir()
    (sandbox.wd / ".telos" / "logos.db").write_text("this is no database, it is a poem about one\n" * 100)
    done = sandbox("status")
    assert done.code == 1
    assert done.err.startswith("logos: the run log")
    assert done.err.count("\n") == 1
    assert (sandbox.wd / ".telos" / "logos.db").read_text().startswith("this is no database")


def test_log_tells_the_newest_run_in_words(sandbox: Sandbox) -> None:
    sandbox.run()
    sandbox.hire(analyst_review=[REVISE, APPROVED])
    run = sandbox.run().run
    text = sandbox("log").out
    assert f"run {run} started in {sandbox.wd}, at the analyst" in text
    assert "r1.peer_analyst.c1 answered REVISE, " in text
    assert "r1.peer_analyst.c2 answered APPROVED, " in text
    assert "r1.tester.c1 answered PASS, " in text
    assert f"run {run} ended: PASSED" in text


def test_an_approval_that_does_not_count_says_why(sandbox: Sandbox) -> None:
    sandbox.hire(analyst_review=[APPROVED, "REVIEW_RESULT: APPROVED\nREVIEW_NOTES:\n- fine\n", APPROVED])
    sandbox.run()
    text = sandbox("log").out
    assert "r1.peer_analyst.c1 answered APPROVED, but cycle 1 is too early to count" in text
    assert "r1.peer_analyst.c2 answered APPROVED, but with too little evidence to count (0 of 3)" in text


def test_log_as_json_is_one_list_of_all_events(sandbox: Sandbox) -> None:
    run = sandbox.run().run
    events = sandbox("log", "--json").json["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {event["run"] for event in events} == {run}
    assert (events[0]["kind"], events[-1]["kind"]) == ("run_started", "run_ended")
    assert [event["turn"] for event in events if event["kind"] == "turn_answered"] == TURNS_OF_A_GOOD_RUN


def test_following_a_run_that_has_ended_ends_too(sandbox: Sandbox) -> None:
    sandbox.run()
    assert sandbox("log", "--follow").out == sandbox("log").out


def test_following_an_abandoned_run_ends_too(sandbox: Sandbox) -> None:
    begin(sandbox.wd, "abcd1234")
    assert sandbox("reset", "abcd1234").code == 0
    for flags in ((), ("--json",)):
        done = sandbox("log", "abcd1234", "--follow", *flags)
        assert done.code == 0
        assert "abandoned" in done.out.splitlines()[-1]


def test_following_as_json_gives_one_line_per_event(sandbox: Sandbox) -> None:
    sandbox.run()
    lines = sandbox("log", "--follow", "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == sandbox("log", "--json").json["events"]


def test_following_shows_events_as_they_come_and_says_that_nobody_drives(sandbox: Sandbox) -> None:
    begin(sandbox.wd, "abcd1234")
    with subprocess.Popen(
        [LOGOS, "log", "--follow"],
        cwd=sandbox.wd,
        env=clean_env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        assert "no driver is attached to run abcd1234" in follower.stderr.readline()
        for _ in range(3):
            follower.stdout.readline()
        log = SqliteLog(sandbox.wd / ".telos" / "logos.db")
        log.append(RunId("abcd1234"), Noted(Topic.WARNING, "it is late"), 3)
        log.close()
        assert "warning: it is late" in follower.stdout.readline()
        follower.send_signal(2)
        assert wait_for_exit(follower) == 130
        assert "Traceback" not in follower.stderr.read()


def test_the_beginning_of_a_run_id_is_enough(sandbox: Sandbox) -> None:
    begin(sandbox.wd, "abcd1234", "abef5678", "xyzw9999")
    assert "run xyzw9999 started" in sandbox("log", "x").out
    assert "run abcd1234 started" in sandbox("log", "abc").out


def test_an_ambiguous_or_unknown_beginning_is_one_clear_line(sandbox: Sandbox) -> None:
    begin(sandbox.wd, "abcd1234", "abef5678")
    ambiguous, unknown = sandbox("log", "ab"), sandbox("show", "zz", "r1")
    assert (ambiguous.code, unknown.code) == (2, 2)
    assert ambiguous.err == "logos: 'ab' is the beginning of 2 runs: abcd1234, abef5678\n"
    assert unknown.err == "logos: there is no run 'zz' here; `logos runs` lists them\n"


def test_show_gives_prompt_and_response_whole(sandbox: Sandbox) -> None:
    long = "ANALYST_SUMMARY:\n" + "".join(f"- line {number}\twith a tab\n" for number in range(500))
    sandbox.hire(analyst=[long])
    run = sandbox.run().run
    text = sandbox("show", run[:4], "r1.analyst.c1").out
    assert "A greeting is missing." in text
    assert long in text
    document = sandbox("show", run, "r1.analyst.c1", "--json").json
    assert document["response"] == long
    assert document["prompt"].startswith("Turn: r1.analyst.c1")


def test_show_accepts_the_beginning_of_a_turn(sandbox: Sandbox) -> None:
    run = sandbox.run().run
    assert sandbox("show", run, "r1.t", "--json").json["turn"] == "r1.tester.c1"


def test_show_names_the_turns_when_the_beginning_does_not_decide(sandbox: Sandbox) -> None:
    run = sandbox.run().run
    ambiguous, unknown = sandbox("show", run, "r1.analyst"), sandbox("show", run, "r9")
    assert (ambiguous.code, unknown.code) == (2, 2)
    assert "'r1.analyst' is the beginning of 2 turns: r1.analyst.c1, r1.analyst.c2" in ambiguous.err
    assert f"run {run} has no turn 'r9'; it has {', '.join(TURNS_OF_A_GOOD_RUN)}" in unknown.err


def test_show_without_a_turn_lists_them(sandbox: Sandbox) -> None:
    run = sandbox.run().run
    assert [row["turn"] for row in sandbox("show", run, "--json").json["timeline"]] == TURNS_OF_A_GOOD_RUN
    assert "r1.tester.c1           tester" in sandbox("show", run).out


def test_show_tells_what_logos_checked_itself(sandbox: Sandbox) -> None:
    sandbox.hire(tester=[PASS])
    run = sandbox.run(VERIFY_PASS="1", PROJECT_TEST_CMD="echo checked; exit 3", MAX_ROUNDS="1").run
    document = sandbox("show", run, "r1.proof.result", "--json").json
    assert (document["agent"], document["verdict"]) == ("logos", "exit 3, tests not counted")
    assert document["response"] == "checked\n"


def test_piped_output_has_no_colours(sandbox: Sandbox) -> None:
    sandbox.run()
    for command in ("status", "log", "runs", "doctor"):
        assert "\x1b" not in sandbox(command).out


def test_agents_texts_are_shown_without_secrets_escapes_and_markup(sandbox: Sandbox) -> None:
    secret = SECRETS[0]
    sandbox.set(SHOP_API_KEY="opensesame-42")
    said = f"ANALYST_SUMMARY:\n- Scope: {secret} opensesame-42 \x1b[31mred\x1b[0m [bold]loud[/bold] :smile: [/]\n"
    sandbox.hire(analyst=[said])
    run = sandbox.run().run
    for arguments in (("show", run, "r1.analyst.c1"), ("log", run, "--json"), ("show", run, "r1.analyst.c1", "--json")):
        done = sandbox(*arguments)
        assert done.code == 0
        assert secret not in done.out
        assert "opensesame-42" not in done.out
        assert "\x1b" not in done.out
        assert "[bold]loud[/bold] :smile: [/]" in done.out
