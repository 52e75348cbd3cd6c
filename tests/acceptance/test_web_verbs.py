"""The verbs of the page, on live and on stopped runs; and streams, which tell of them at once."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import psutil
import pytest

from logos.domain.events import GateDecided, GateOpened, PersonSaid, RunAbandoned, RunResumed, RunStarted, TurnAsked
from logos.web.options import WebOptions
from tests.acceptance.test_simulation import IN_A_HURRY
from tests.acceptance.test_web import answer_schema, strict
from tests.support.sandbox import Sandbox
from tests.support.waiting import LAST_RESORT, until_exists, wait_for
from tests.support.web import Browser, Served, messages


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A repository whose analyst takes until a file `go` exists."""
    quick = {**IN_A_HURRY, "EXPECT_CHANGE": "0"}
    site = Sandbox.of_repository(tmp_path / "repo", **quick)
    # Drivers that the server starts have its environment.
    for name, value in quick.items():
        monkeypatch.setenv(name, value)
    site.script({"analyst": [{"run": until_exists(tmp_path / "go"), "say": "ANALYST_SUMMARY: done\n"}]})
    yield site
    (tmp_path / "go").touch()
    for place in [site.wd, *(Path(path) for path in site.worktrees)]:
        site("stop", "--wd", str(place))
    site.close()
    wait_for(lambda: site.left_behind() == [], site.left_behind)


@pytest.fixture
def browser(site: Sandbox) -> Iterator[Browser]:
    with Served(WebOptions((site.wd,))) as served:
        yield served.browser()


def go(site: Sandbox) -> None:
    (site.wd.parent / "go").touch()


def start(browser: Browser, site: Sandbox, **settings: str) -> dict[str, Any]:
    body = {"wd": str(site.wd), "text": "", "settings": settings, "simulate": str(site.script_path)}
    answer = browser.post("/api/runs", body)
    assert answer.status_code == 200, answer.text
    jsonschema.validate(answer.json(), strict(answer_schema("/api/runs", "post")))
    return answer.json()


def act(browser: Browser, run: str, verb: str, **body: Any) -> dict[str, Any]:
    answer = browser.post(f"/api/runs/{run}/{verb}", body)
    assert answer.status_code == 200, answer.text
    # As the OpenAPI document describes it, and nothing else.
    jsonschema.validate(answer.json(), strict(answer_schema(f"/api/runs/{{run}}/{verb}", "post")))
    return answer.json()


def refused(browser: Browser, run: str, verb: str, **body: Any) -> str:
    answer = browser.post(f"/api/runs/{run}/{verb}", body)
    assert answer.status_code == 409, answer.text
    jsonschema.validate(answer.json(), strict(answer_schema(f"/api/runs/{{run}}/{verb}", "post", 409)))
    return answer.json()["error"]


def status(browser: Browser, run: str) -> str:
    return browser.json(f"/api/runs/{run}")["status"]


def verbs(browser: Browser, run: str) -> list[str]:
    return [offer["verb"] for offer in browser.json(f"/api/runs/{run}")["verbs"]]


def wait_for_status(browser: Browser, run: str, wanted: str) -> None:
    wait_for(lambda: status(browser, run) == wanted, f"{run} to be {wanted}")


def ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.long
def test_a_run_that_the_page_starts_outlives_its_server(site: Sandbox) -> None:
    with Served(WebOptions((site.wd,))) as served:
        browser = served.browser()
        started = start(browser, site)
        run, pid = started["run"], started["driver_pid"]
        site.wait_for_event("turn_sent", "analyst")
        assert status(browser, run) == "RUNNING"
    assert not ended(pid)
    go(site)
    wait_for(lambda: ended(pid), "the driver")
    with Served(WebOptions((site.wd,))) as served:
        browser = served.browser()
        assert status(browser, run) == "PASSED"
        assert browser.json(f"/api/runs/{run}/events")["events"][0]["kind"] == "run_started"
    assert len(site.events(RunStarted)) == 1


@pytest.mark.long
def test_an_unfinished_run_is_not_given_up_by_a_start(browser: Browser, site: Sandbox) -> None:
    run = start(browser, site)["run"]
    body = {"wd": str(site.wd), "text": "", "simulate": str(site.script_path)}
    site.wait_for_event("turn_sent", "analyst")
    answer = browser.post("/api/runs", body)
    assert answer.status_code == 409
    assert "another driver" in answer.json()["error"]
    act(browser, run, "stop")
    answer = browser.post("/api/runs", body)
    assert answer.status_code == 409
    assert f"run {run} is unfinished" in answer.json()["error"]
    assert len(site.logs()) == 1
    answer = browser.post("/api/runs", {**body, "fresh": True})
    assert answer.status_code == 200, answer.text
    assert site.events(RunAbandoned, run)
    assert len(site.logs()) == 2


def test_a_wrong_setting_is_an_error_and_starts_nothing(browser: Browser, site: Sandbox) -> None:
    body = {"wd": str(site.wd), "text": "x", "settings": {"limits.max_rounds": "many"}}
    answer = browser.post("/api/runs", body)
    assert answer.status_code == 409
    assert "limits.max_rounds" in answer.json()["error"]
    assert not (site.wd / ".telos" / "logos.db").exists()


@pytest.mark.long
def test_stop_and_resume(browser: Browser, site: Sandbox) -> None:
    run = start(browser, site)["run"]
    site.wait_for_event("turn_sent", "analyst")
    assert {"tell", "stop", "fork"} <= {*verbs(browser, run)}
    assert "another driver" in refused(browser, run, "resume", simulate=str(site.script_path))
    act(browser, run, "stop")
    assert status(browser, run) == "STOPPED"
    assert "resume" in verbs(browser, run)
    assert "stop" not in verbs(browser, run)
    assert "no driver is running" in refused(browser, run, "stop")
    # A simulated run gets no real agents by accident.
    assert "name their script" in refused(browser, run, "resume")
    go(site)
    resumed = act(browser, run, "resume", simulate=str(site.script_path))
    assert resumed["run"] == run
    wait_for_status(browser, run, "PASSED")
    assert len(site.events(RunResumed)) == 1
    assert "has ended" in refused(browser, run, "tell", text="too late")


def test_tell_reaches_a_live_driver_and_a_stopped_run(browser: Browser, site: Sandbox) -> None:
    run = start(browser, site)["run"]
    site.wait_for_event("turn_sent", "analyst")
    done = act(browser, run, "tell", text="keep the flag", agent="programmer")
    (said,) = site.events(PersonSaid)
    assert (said.text, said.agent) == ("keep the flag", "programmer")
    assert site.records()[done["event"] - 1].event == said
    act(browser, run, "stop")
    act(browser, run, "tell", text="and the name")
    assert [event.text for event in site.events(PersonSaid)] == ["keep the flag", "and the name"]
    assert "empty" in refused(browser, run, "tell", text=" ")


@pytest.mark.long
def test_a_gate_is_rejected_with_words_and_then_approved(browser: Browser, site: Sandbox) -> None:
    go(site)
    run = start(browser, site, **{"gates.at": "after_plan"})["run"]
    wait_for_status(browser, run, "WAITING FOR YOU")
    wait_for(lambda: browser.json(f"/api/runs/{run}")["driver_pid"] is None, "the driver to leave")
    found = browser.json(f"/api/runs/{run}")
    (waiting,) = found["waiting"]
    assert waiting["kind"] == "gate"
    assert [offer["gate"] for offer in found["verbs"] if offer["verb"] in ("approve", "reject")] == [waiting["id"]] * 2
    (row,) = browser.json("/api/runs")["runs"]
    assert [one["id"] for one in row["waiting"]] == [waiting["id"]]
    assert "needs a reason" in refused(browser, run, "reject", gate=waiting["id"], words="")
    script = {"simulate": str(site.script_path)}
    done = act(browser, run, "reject", gate=waiting["id"], words="use a table", **script)
    assert done["driver_pid"]
    wait_for(lambda: len(site.events(GateOpened)) == 2, "the second gate")
    again = [event.prompt for event in site.events(TurnAsked) if "use a table" in event.prompt]
    assert again
    act(browser, run, "approve", gate=site.events(GateOpened)[1].gate, **script)
    wait_for_status(browser, run, "PASSED")
    assert [event.approved for event in site.events(GateDecided)] == [False, True]


def test_of_two_people_who_decide_at_once_one_wins_and_the_other_is_told(browser: Browser, site: Sandbox) -> None:
    go(site)
    run = start(browser, site, **{"gates.at": "after_plan"})["run"]
    wait_for_status(browser, run, "WAITING FOR YOU")
    wait_for(lambda: browser.json(f"/api/runs/{run}")["driver_pid"] is None, "the driver to leave")
    gate = site.events(GateOpened)[0].gate
    people = [browser.served.browser(), browser.served.browser()]
    bodies = [("approve", {"gate": gate, "resume": False}), ("reject", {"gate": gate, "words": "no", "resume": False})]
    answers: dict[str, httpx.Response] = {}

    def press(person: Browser, verb: str, body: dict[str, Any]) -> None:
        answers[verb] = person.post(f"/api/runs/{run}/{verb}", body)

    pressing = [
        threading.Thread(target=press, args=(person, *body)) for person, body in zip(people, bodies, strict=True)
    ]
    for thread in pressing:
        thread.start()
    for thread in pressing:
        thread.join(LAST_RESORT)
    (decided,) = site.events(GateDecided)
    winner, loser = ("approve", "reject") if decided.approved else ("reject", "approve")
    assert answers[winner].status_code == 200
    assert answers[loser].status_code == 409
    assert ("approved" if decided.approved else "rejected") in answers[loser].json()["error"]


@pytest.mark.long
def test_without_the_script_of_a_simulated_run_the_decision_stays(browser: Browser, site: Sandbox) -> None:
    go(site)
    run = start(browser, site, **{"gates.at": "after_plan"})["run"]
    wait_for_status(browser, run, "WAITING FOR YOU")
    wait_for(lambda: browser.json(f"/api/runs/{run}")["driver_pid"] is None, "the driver to leave")
    done = act(browser, run, "approve")
    assert done["driver_pid"] is None
    assert done["next"] == f"logos resume {run}"
    assert "no driver was started" in done["text"]
    assert [event.approved for event in site.events(GateDecided)] == [True]


@pytest.mark.long
def test_fork_rollback_and_giving_up(browser: Browser, site: Sandbox) -> None:
    go(site)
    run = start(browser, site)["run"]
    wait_for_status(browser, run, "PASSED")
    seq = next(record.seq for record in site.records() if getattr(record.event, "turn", "") == "r1.analyst.c1")
    forked = act(browser, run, "fork", at=seq + 2, resume=False, to=str(site.wd.parent / "fork"))
    assert Path(forked["wd"]) == site.wd.parent / "fork"
    assert forked["next"].startswith(f"logos resume {forked['run']}")
    assert status(browser, run) == "PASSED"
    back = act(browser, run, "rollback", at=seq + 2, resume=False)
    assert back["run"] not in (run, forked["run"])
    listed = {row["run"]: row for row in browser.json("/api/runs")["runs"]}
    assert (listed[back["run"]]["forked_from"], listed[back["run"]]["forked_by"]) == (run, "rollback")
    assert status(browser, back["run"]) == "STOPPED"
    act(browser, back["run"], "abandon")
    assert status(browser, back["run"]) == "ABANDONED"
    assert "has ended" in refused(browser, back["run"], "abandon")
    script = str(site.script_path)
    again = act(browser, run, "rollback", at=seq + 2, simulate=script)
    assert again["driver_pid"]
    wait_for_status(browser, again["run"], "PASSED")


# --- streams


def test_events_come_as_they_happen_and_a_client_goes_on_where_it_was(browser: Browser, site: Sandbox) -> None:
    run = start(browser, site)["run"]
    path, seen = f"/api/runs/{run}/events/stream", list[dict[str, str]]()
    with browser.stream(path) as sent:
        while json.loads((message := next(sent))["data"])["kind"] != "turn_sent":
            seen.append(message)
        seen.append(message)
    go(site)
    # Lost, and back again later.
    wait_for_status(browser, run, "PASSED")
    with browser.stream(path, **{"Last-Event-ID": seen[-1]["id"]}) as sent:
        while json.loads((message := next(sent))["data"])["kind"] != "run_ended":
            seen.append(message)
        seen.append(message)
    assert [int(message["id"]) for message in seen] == [*range(1, len(seen) + 1)]
    documents = [json.loads(message["data"]) for message in seen]
    assert documents == browser.json(f"/api/runs/{run}/events")["events"][: len(seen)]


@pytest.mark.long
def test_an_event_that_is_recorded_while_a_stream_is_open_is_sent(browser: Browser, site: Sandbox) -> None:
    run = start(browser, site)["run"]
    site.wait_for_event("turn_sent", "analyst")
    with browser.stream(f"/api/stream?runs={run}") as sent:
        first = next(sent)
        assert first["event"] == "run"
        assert json.loads(first["data"])["status"] == "RUNNING"
        act(browser, run, "tell", text="hello")
        told = next(message for message in sent if message["event"] == "event")
        assert json.loads(told["data"])["text"] == "hello"
        assert told["id"] == f"{run}:{json.loads(told['data'])['seq']}"


@pytest.mark.long
def test_a_driver_that_is_killed_is_told_without_an_event(browser: Browser, site: Sandbox) -> None:
    started = start(browser, site)
    run, pid = started["run"], started["driver_pid"]
    site.wait_for_event("turn_sent", "analyst")
    with browser.stream(f"/api/stream?runs={run}") as sent:
        assert json.loads(next(sent)["data"])["driver_pid"] == pid
        os.kill(pid, signal.SIGKILL)
        last = next(json.loads(m["data"]) for m in sent if m["event"] == "run" and "STOPPED" in m["data"])
    assert last["driver_pid"] is None
    assert status(browser, run) == "STOPPED"
    # It goes on at the exact turn.
    go(site)
    act(browser, run, "resume", simulate=str(site.script_path))
    wait_for_status(browser, run, "PASSED")
    assert site.asked == [*dict.fromkeys(site.asked)]


@pytest.mark.long
def test_one_stream_tells_of_several_runs_and_of_the_list(browser: Browser, site: Sandbox) -> None:
    go(site)
    first = start(browser, site)["run"]
    wait_for_status(browser, first, "PASSED")
    (site.wd.parent / "go").unlink()
    second = start(browser, site)["run"]
    site.wait_for_event("turn_sent", "analyst")
    have = f"{first}:3 {second}:2"
    with browser.stream(f"/api/stream?runs={first},{second}&list=1", **{"Last-Event-ID": have}) as sent:
        begun: dict[str, int] = {}
        runs: set[str] = set()
        while runs != {first, second}:
            message = next(sent)
            document = json.loads(message["data"])
            if message["event"] == "event":
                begun.setdefault(document["run"], document["seq"])
            elif message["event"] == "run":
                runs.add(document["run"])
        assert begun == {first: 4, second: 3}
        go(site)
        assert any(message["event"] == "list" for message in sent)


def test_a_stream_of_a_run_that_is_not_there_is_an_error(browser: Browser) -> None:
    for path in ("/api/runs/nothing/events/stream", "/api/stream?runs=nothing"):
        assert browser.get(path).status_code == 404
    assert browser.get("/api/stream?runs=" + ",".join("abc" for _ in range(60))).status_code == 400


def test_messages_are_read_as_browsers_read_them() -> None:
    lines = iter(["retry: 5", "", "event: a", "id: 1", "data: {}", "", ": alive", "", "data: 2", ""])
    assert [*messages(lines)] == [{"event": "a", "id": "1", "data": "{}"}, {"data": "2"}]
