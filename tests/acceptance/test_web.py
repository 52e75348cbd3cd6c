"""The page's HTTP API: what it shows of runs, live and finished, in several work dirs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.routing import Route

from logos.testing import FAIL, PASS
from logos.web.openapi import OPERATIONS, openapi
from logos.web.options import WebOptions
from tests.support.sandbox import Sandbox
from tests.support.web import Browser, Served


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """A run that only is looked at."""
    sandbox = Sandbox(tmp_path_factory.mktemp("work"))
    sandbox.hire(tester=[FAIL, PASS])
    sandbox.run()
    return sandbox


@pytest.fixture(scope="module")
def served(ended: Sandbox) -> Iterator[Served]:
    with Served(WebOptions((ended.wd,))) as served:
        yield served


@pytest.fixture(scope="module")
def browser(served: Served) -> Browser:
    return served.browser()


def test_a_run_that_ended_before_the_server_started_appears_whole(browser: Browser, ended: Sandbox) -> None:
    listed = browser.json("/api/runs")
    assert [run["run"] for run in listed["runs"]] == [ended.run_id]
    assert listed["wds"] == [str(ended.wd)]
    assert listed["unreadable"] == []
    (row,) = listed["runs"]
    assert row == ended("runs", "--json").json["runs"][0]
    run = browser.json(f"/api/runs/{ended.run_id}")
    assert {**run, "next": ""} == {**ended("status", "--json").json, "next": ""} | {
        key: run[key] for key in ("at_event", "newest_event", "verbs")
    }
    assert run["at_event"] == run["newest_event"] == len(ended.records())
    turns = browser.json(f"/api/runs/{ended.run_id}/turns")["timeline"]
    assert [turn["turn"] for turn in turns] == ended.asked + [
        turn["turn"] for turn in turns if turn["agent"] == "logos"
    ]


def test_a_turn_is_shown_with_its_texts(browser: Browser, ended: Sandbox) -> None:
    for turn in ended.asked:
        shown = browser.json(f"/api/runs/{ended.run_id}/turns/{turn}")
        assert shown["prompt"] == ended.prompts[turn]
        assert shown["response"] == ended.answered[turn]


def test_every_moment_of_a_run_can_be_asked_for(browser: Browser, ended: Sandbox) -> None:
    last = len(ended.records())
    answered = [browser.json(f"/api/runs/{ended.run_id}?at={seq}")["turns"] for seq in range(1, last + 1)]
    assert answered == sorted(answered)
    assert answered[-1] == len(ended.asked)
    past = browser.json(f"/api/runs/{ended.run_id}?at=3")
    assert (past["at_event"], past["newest_event"], past["status"], past["driver_pid"]) == (3, last, "RUNNING", None)
    # A verb that acts on the run as it is now is not offered in its past.
    assert {verb["verb"] for verb in past["verbs"]} <= {"fork", "rollback"}


def test_every_verb_that_is_offered_at_a_moment_fits_it(browser: Browser, ended: Sandbox) -> None:
    """A run that has ended has nothing left to fork; from any earlier moment another one can be started."""
    run, last = ended.run_id, len(ended.records())
    offered = {seq: {verb["verb"] for verb in browser.json(f"/api/runs/{run}?at={seq}")["verbs"]} for seq in (3, last)}
    assert offered == {3: {"fork", "rollback"}, last: {"rollback"}}
    assert browser.post(f"/api/runs/{run}/fork", {"at": last, "resume": False}).status_code == 409


def test_events_are_those_of_the_command_line(browser: Browser, ended: Sandbox) -> None:
    assert browser.json(f"/api/runs/{ended.run_id}/events") == ended("log", "--json").json
    two = browser.json(f"/api/runs/{ended.run_id}/events?from=3&limit=2")["events"]
    assert [event["seq"] for event in two] == [3, 4]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/runs/nothing", 404),
        ("/api/runs/RUN?at=99999", 404),
        ("/api/runs/RUN?at=0", 404),
        ("/api/runs/RUN?at=x", 400),
        ("/api/runs/RUN?at=-1", 400),
        ("/api/runs/RUN/turns/r9.analyst.c9", 404),
        ("/api/runs/RUN?wd=/elsewhere", 404),
        ("/api/runs/RUN/diff?a=99999", 409),
        ("/api/nothing", 404),
        ("/runs/nothing", 404),
        ("/static/nothing.js", 404),
        ("/parts/nothing", 404),
        ("/parts/Nothing", 404),
    ],
)
def test_what_is_not_there_is_an_error_in_words(browser: Browser, ended: Sandbox, path: str, status: int) -> None:
    answer = browser.get(path.replace("RUN", ended.run_id))
    assert answer.status_code == status
    assert "Traceback" not in answer.text
    if path.startswith("/api/"):
        assert answer.json()["error"]


def test_every_page_is_shown(browser: Browser, ended: Sandbox) -> None:
    run, turn = ended.run_id, ended.asked[0]
    pages = ["/", "/start", *(f"/runs/{run}{rest}" for rest in ("", "?at=5", f"/turns/{turn}", "/diff", "/proof"))]
    for page in pages:
        answer = browser.get(page)
        assert answer.status_code == 200, (page, answer.text)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_several_work_dirs_are_one_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise the list has the runs of all tests before this one.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    places = [Sandbox(tmp_path / name) for name in ("one", "two", "three")]
    for place in places:
        place.wd.mkdir()
        place.hire(tester=[PASS])
        place.run()
    with Served() as served:
        listed = served.browser().json("/api/runs")
        assert {run["run"] for run in listed["runs"]} == {place.run_id for place in places}
        assert {*listed["wds"]} == {str(place.wd) for place in places}
    with Served(WebOptions((places[0].wd,))) as served:
        assert [run["run"] for run in served.browser().json("/api/runs")["runs"]] == [places[0].run_id]


def test_a_list_shows_what_has_changed_since(sandbox: Sandbox) -> None:
    sandbox.hire(tester=[PASS])
    sandbox.run()
    with Served(WebOptions((sandbox.wd,))) as served:
        browser = served.browser()
        assert len(browser.json("/api/runs")["runs"]) == 1
        sandbox.hire(tester=[PASS])
        sandbox.run(RESUME="0")
        listed = browser.json("/api/runs")["runs"]
    assert [run["run"] for run in listed] == [*reversed(sandbox.logs())]


def test_of_a_copied_work_dir_the_newest_has_the_name_and_the_other_is_reached_by_its_folder(
    ended: Sandbox, tmp_path: Path
) -> None:
    copy = Sandbox(tmp_path / "copy")
    shutil.copytree(ended.wd, copy.wd)
    copy("runs")
    with Served(WebOptions((ended.wd, copy.wd))) as served:
        browser, run = served.browser(), ended.run_id
        assert len(browser.json("/api/runs")["runs"]) == 2
        for place in (ended.wd, copy.wd):
            assert browser.json(f"/api/runs/{run}?wd={place}")["wd"] == str(place)


def test_a_work_dir_that_cannot_be_read_does_not_hide_the_others(ended: Sandbox, tmp_path: Path) -> None:
    broken = Sandbox(tmp_path / "broken")
    broken.wd.mkdir()
    broken.hire(tester=[PASS])
    broken.run()
    database = broken.wd / ".telos" / "logos.db"
    database.unlink()
    database.mkdir()
    with Served(WebOptions((broken.wd, ended.wd))) as served:
        listed = served.browser().json("/api/runs")
    assert [run["run"] for run in listed["runs"]] == [ended.run_id]


def test_secrets_are_hidden_from_pages_and_api(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "very-secret-value-1")
    sandbox.hire(analyst=["ANALYST_SUMMARY:\n- the key is very-secret-value-1\n"], tester=[PASS])
    sandbox.run()
    with Served(WebOptions((sandbox.wd,))) as served:
        browser, run = served.browser(), sandbox.run_id
        for path in ("", "/turns", "/turns/r1.analyst.c1", "/events"):
            assert "very-secret" not in browser.get(f"/api/runs/{run}{path}").text
        assert "very-secret" not in browser.get(f"/runs/{run}/turns/r1.analyst.c1").text
        assert "[redacted]" in browser.get(f"/api/runs/{run}/turns/r1.analyst.c1").text
        with browser.stream(f"/api/runs/{run}/events/stream") as sent:
            told = [next(sent) for _ in range(len(sandbox.records()))]
        assert "very-secret" not in json.dumps(told)


# --- OpenAPI


def test_the_document_describes_every_route(served: Served) -> None:
    routes = {
        (method.lower(), route.path)
        for route in served.app.routes
        if isinstance(route, Route) and route.path.startswith("/api/")
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert routes == {(operation.method, operation.path) for operation in OPERATIONS}


def answer_schema(path: str, method: str = "get", status: int | None = None) -> dict[str, Any]:
    document = openapi()
    responses = document["paths"][path][method]["responses"]
    content = responses[str(status) if status else min(responses)]["content"]["application/json"]["schema"]
    return {**content, "components": document["components"]}


def strict(schema: Any) -> Any:
    """The same schema, which allows no field that it does not describe."""
    if isinstance(schema, dict):
        closed = {"additionalProperties": False} if "properties" in schema else {}
        return {key: strict(value) for key, value in schema.items()} | closed
    return [strict(part) for part in schema] if isinstance(schema, list) else schema


def test_the_document_describes_real_answers(browser: Browser, ended: Sandbox) -> None:
    assert browser.json("/api/openapi.json") == json.loads(json.dumps(openapi()))
    run, turn = ended.run_id, ended.asked[0]
    for operation in OPERATIONS:
        if operation.method == "post" or operation.kind != "application/json":
            continue
        path = operation.path.replace("{run}", run).replace("{turn}", turn)
        answer = browser.json(path)
        jsonschema.validate(answer, strict(answer_schema(operation.path)))
    refused = browser.get("/api/runs/nothing")
    described = openapi()["paths"]["/api/runs/{run}"]["get"]["responses"]["404"]["content"]["application/json"]
    jsonschema.validate(refused.json(), {**described["schema"], "components": openapi()["components"]})


def test_bodies_are_checked_strictly(browser: Browser, ended: Sandbox) -> None:
    run = ended.run_id
    for path, body in (
        (f"/api/runs/{run}/tell", {}),
        (f"/api/runs/{run}/tell", {"text": "x", "more": 1}),
        (f"/api/runs/{run}/tell", {"text": 5}),
        (f"/api/runs/{run}/rollback", {"at": "5"}),
        (f"/api/runs/{run}/approve", {"gate": ["a"]}),
        (f"/api/runs/{run}/approve", []),
        ("/api/runs", {"wd": str(ended.wd), "text": "x", "flow": "other"}),
    ):
        answer = browser.post(path, body)
        assert answer.status_code == 400, (path, body, answer.text)
        assert answer.json()["error"]
    deep = "[" * 100_000 + "]" * 100_000
    answer = browser.client.post(f"/api/runs/{run}/approve", content=deep, headers=browser.writing)
    assert answer.status_code == 400
