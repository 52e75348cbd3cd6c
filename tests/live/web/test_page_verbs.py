"""Every verb of the page, clicked; what it did is read from the log, as the command line shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.live.web.browser import PATIENCE, Person, Site, person, serve
from tests.live.web.runs import PAID, RIGHT, TEST, TESTER, Runs, status_of, wait_for_status
from tests.support.sandbox import Sandbox
from tests.support.waiting import wait_for

pytestmark = pytest.mark.long
expect.set_options(timeout=PATIENCE)

GATES = ("--set", "gates.at=after_plan,before_pass")


@pytest.fixture
def own(browser: Browser, site: Site) -> Iterator[Person]:
    with person(browser, site) as found:
        yield found


def events(sandbox: Sandbox, run: str, kind: str) -> list[dict[str, object]]:
    told = sandbox("log", run, "--json").json["events"]
    return [event for event in told if event["kind"] == kind]


def prompts(sandbox: Sandbox, run: str, turn: str = "") -> str:
    asked = events(sandbox, run, "turn_asked")
    return "\n".join(str(event["prompt"]) for event in asked if turn in ("", event["turn"]))


def press(page: Page, verb: str, **fields: str) -> None:
    """The verb's button, what is typed into its dialog, and the button there."""
    page.get_by_role("button", name=verb, exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    for name, text in fields.items():
        dialog.locator(f"[name={name}]").fill(text)
    dialog.get_by_role("button", name=verb, exact=True).click()
    expect(dialog).to_be_hidden()


def gated(runs: Runs, name: str) -> tuple[Sandbox, str, Path]:
    sandbox = runs.sandbox(name)
    programmer = [{"edit": {**RIGHT, "test_greet.py": TEST}, "usage": PAID}]
    script = runs.script(sandbox, programmer=programmer, tester=[TESTER])
    done = sandbox.apart("run", "Greet by name", "--test", "python3 -m unittest", *GATES, "--simulate", str(script))
    assert done.code == 3, done.err
    return sandbox, Runs.run_of(sandbox), script


def test_gates_are_rejected_with_words_and_approved(runs: Runs, own: Person):
    sandbox, run, script = gated(runs, "gated")
    page = own.open()
    expect(page.locator(".group.waiting")).to_contain_text("May the programmer begin?")
    page.get_by_role("link", name="Decide").click()
    reject = page.locator("form[data-verb=reject]")
    reject.locator("[name=words]").fill("Say hello in French, too")
    reject.locator("[name=simulate]").fill(str(script))
    reject.get_by_role("button", name="Reject").click()
    expect(page.locator("#waits-r1\\.gate\\.after_plan\\.2")).to_be_visible()
    assert [event["words"] for event in events(sandbox, run, "gate_decided")] == ["Say hello in French, too"]
    assert "Say hello in French, too" in prompts(sandbox, run)
    for gate in ("r1\\.gate\\.after_plan\\.2", "r1\\.gate\\.before_pass"):
        waits = page.locator(f"#waits-{gate}")
        waits.locator("form[data-verb=approve] [name=simulate]").fill(str(script))
        waits.get_by_role("button", name="Approve").click()
        expect(waits).to_be_hidden()
    expect(page.locator(".pill").first).to_have_text("Passed")
    assert [event["approved"] for event in events(sandbox, run, "gate_decided")] == [False, True, True]


def test_the_second_of_two_people_is_told(runs: Runs, own: Person):
    """The other one decides while this page has not heard of it yet."""
    sandbox, run, script = gated(runs, "two-people")
    own.expected = ("status of 4",)
    page = own.open(f"/runs/{run}")
    approve = page.locator("form[data-verb=approve]")
    approve.locator("[name=simulate]").fill(str(script))
    # What the page fetches meanwhile is held back, so it still shows the open gate.
    page.route(f"**/runs/{run}*", lambda _: None)
    done = sandbox("reject", run, "not like this")
    assert done.code == 0, done.err
    approve.get_by_role("button", name="Approve").click()
    expect(approve.get_by_role("alert")).to_contain_text("reject")
    assert [event["approved"] for event in events(sandbox, run, "gate_decided")] == [False]


@pytest.mark.parametrize(("label", "granted"), [("Allow", True), ("Refuse", False)])
def test_a_permission_is_given_or_refused(runs: Runs, own: Person, label: str, granted: bool):
    sandbox = runs.sandbox(f"permission-{label}")
    asks = [{"fault": "permission", "question": "May I run `make`?", "edit": {**RIGHT, "test_greet.py": TEST}}]
    script = runs.script(sandbox, programmer=asks)
    done = sandbox.apart("run", "Ask first", "--test", "true", "--simulate", str(script), "--detach")
    assert done.code == 0, done.err
    run = Runs.run_of(sandbox)
    page = own.open(f"/runs/{run}")
    expect(page.locator(".decisions")).to_contain_text("May I run `make`?")
    page.get_by_role("button", name=label).click()
    expect(page.locator(".messages, .refused").first).not_to_be_empty()
    wait_for(lambda: events(sandbox, run, "permission_decided"), "the decision in the log")
    assert [event["granted"] for event in events(sandbox, run, "permission_decided")] == [granted]
    sandbox.apart("stop", run)


def test_a_question_is_answered(runs: Runs, browser: Browser):
    place = runs.blocked()
    site = serve(place)
    try:
        with person(browser, site) as own:
            page = own.open()
            page.get_by_role("link", name="Decide").click()
            page.get_by_role("radio").first.check()
            page.get_by_label("Your answer").fill("and say why")
            page.locator("form[data-verb=answer] [name=simulate]").fill("none.yaml")
            page.get_by_role("button", name="Answer").click()
            expect(page.locator(".decisions")).to_be_hidden()
    finally:
        site.close()
    told = Sandbox(place)("log", "--json").json["events"]
    decided = next(event for event in told if event["kind"] == "question_resolved")
    assert (decided["option"], decided["text"]) == (1, "and say why")


def test_an_agent_is_told_something_and_the_run_is_stopped_and_resumed(runs: Runs, own: Person):
    sandbox, run, go = runs.live("steered")
    page = own.open(f"/runs/{run}")
    press(page, "Tell", text="Mind the umlauts")
    expect(page.locator(".messages")).to_contain_text("Mind the umlauts")
    press(page, "Stop")
    expect(page.locator(".pill").first).to_have_text("Stopped")
    wait_for_status(sandbox, "STOPPED")
    go.touch()
    press(page, "Resume", simulate=str(sandbox.script_path))
    expect(page.locator(".pill").first).to_have_text("Passed")
    assert status_of(sandbox)["status"] == "PASSED"
    assert "Mind the umlauts" in prompts(sandbox, run)


def test_a_run_is_forked_and_rolled_back_from_a_moment_and_given_up(runs: Runs, own: Person):
    sandbox, run = runs.finished("forked")
    script = str(sandbox.script_path)
    page = own.open(f"/runs/{run}?at=8")
    press(page, "Fork from here", simulate=script)
    expect(page.locator(".where").first).to_contain_text(f"{run}@8")
    forked = page.locator("[data-run]").get_attribute("data-run")
    assert forked not in (None, run)
    expect(page.locator(".pill").first).to_have_text("Passed")
    page.goto(f"{own.site.url}/runs/{run}?at=8")
    press(page, "Roll back to here", simulate="none.yaml")
    expect(page.locator(".where").first).to_contain_text(f"{run}@8")
    expect(page.locator(".pill").first).to_have_text("Stopped")
    press(page, "Give up")
    expect(page.locator(".pill").first).to_have_text("Abandoned")
    assert (sandbox.wd / "greet.py").read_text() == "def greet(name):\n    return 'hi'\n"


def test_a_run_is_started_with_settings_from_the_form(runs: Runs, own: Person):
    sandbox, _ = runs.finished("started")
    script = runs.script(sandbox, programmer=[{"edit": {"bye.py": "BYE = 1\n"}}], tester=[{"say": "RESULT: PASS"}])
    page = own.open("/start")
    page.locator("select[name=wd]").select_option(str(sandbox.wd))
    page.get_by_label("What you want").fill("Say goodbye")
    page.get_by_label("Test command").fill("true")
    page.get_by_label("Simulate").fill(str(script))
    page.get_by_text("Settings").first.click()
    page.locator("[name='set:limits.max_rounds']").fill("2")
    page.locator("[name='set:verify_pass']").select_option("false")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Say goodbye")
    expect(page.locator(".pill").first).to_have_text("Passed, unverified")
    expect(page.locator(".result")).to_contain_text("nothing was proven")


def test_what_is_refused_is_said_where_it_was_asked(runs: Runs, own: Person):
    sandbox, _ = runs.finished("refused")
    own.expected = ("status of",)
    page = own.open("/start")
    page.locator("select[name=wd]").select_option(str(sandbox.wd))
    page.get_by_label("What you want").fill("Anything")
    page.get_by_label("Test command").fill("true")
    page.get_by_label("Simulate").fill("there-is-none.yaml")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("there-is-none.yaml")


def test_who_logs_out_is_out(browser: Browser, site: Site):
    with person(browser, site) as own:
        own.expected = ("401",)
        page = own.open()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        page.goto(site.url)
        expect(page.get_by_label("Token")).to_be_visible()


def test_other_sessions_are_ended_and_this_one_goes_on(browser: Browser, runs: Runs):
    sandbox, run, _ = runs.live("rotated")
    site = serve(sandbox.wd)
    with person(browser, site) as other, person(browser, site) as own:
        other.expected = ("401",)
        lost, page = other.open(f"/runs/{run}"), own.open(f"/runs/{run}")
        for one in (lost, page):
            expect(one.locator("#connection")).to_have_attribute("data-state", "live")
        page.get_by_role("button", name="End other sessions").click()
        page.get_by_role("dialog").get_by_role("button", name="End them").click()
        expect(page.locator(".messages")).to_contain_text("Other sessions have ended")
        # The other page notices by itself.
        expect(lost.get_by_label("Token")).to_be_visible()
        press(page, "Tell", text="still here")
        expect(page.locator(".messages")).to_contain_text("still here")
    site.close()
    sandbox.apart("stop", run)
