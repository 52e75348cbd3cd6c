"""What the page does while things happen: it follows, and neither jumps, forgets what is typed, nor loses the server."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.live.web.browser import PATIENCE, Person, Site, person, serve
from tests.live.web.runs import RIGHT, Runs, wait_for_status
from tests.support.sandbox import Sandbox
from tests.support.waiting import until_exists

pytestmark = pytest.mark.long
expect.set_options(timeout=PATIENCE)

TABS = 8


@pytest.fixture
def own(browser: Browser, site: Site) -> Iterator[Person]:
    with person(browser, site) as found:
        yield found


def is_live(page: Page) -> None:
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")


def scrub(page: Page, seq: int) -> None:
    """As a person who drags the slider: every position on the way is an event of the browser."""
    page.locator("#scrubber").evaluate(
        "(slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input', { bubbles: true })); }", seq
    )
    expect(page.locator("[data-run]")).to_have_attribute("data-seq", str(seq))


def test_eight_tabs_stay_live_on_one_connection(runs: Runs, own: Person):
    """HTTP/1.1 allows a browser six connections to a server."""
    sandbox, run, go = runs.live("tabs")
    streams: list[str] = []
    own.context.on("request", lambda request: streams.append(request.url) if "/api/stream" in request.url else None)
    pages = [own.open(f"/runs/{run}" if number % 2 else "/") for number in range(TABS)]
    for page in pages:
        is_live(page)
    go.touch()
    for page in pages:
        expect(page.locator(".pill").first).to_have_text("Passed")
    assert wait_for_status(sandbox, "PASSED")["run"] == run
    # The stream belongs to a worker that the tabs share.
    assert streams == []
    assert all(page.evaluate("document.querySelector('#connection').dataset.state") == "live" for page in pages)


def test_what_is_typed_and_what_is_open_stays_while_events_arrive(runs: Runs, own: Person):
    _, run, go = runs.live("typing")
    page = own.open(f"/runs/{run}")
    is_live(page)
    page.get_by_text("What was asked").click()
    page.get_by_role("button", name="Tell").click()
    words = page.get_by_role("dialog").locator("[name=text]")
    words.fill("half a sent")
    go.touch()
    expect(page.locator("#turn-r1\\.tester\\.c1")).to_be_attached()
    # What is for browsers without JavaScript does not come with what is fetched.
    assert page.locator("noscript *").count() == 0
    expect(words).to_have_value("half a sent")
    expect(words).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".request details")).to_have_attribute("open", "")
    expect(page.locator(".pill").first).to_have_text("Passed")
    assert page.evaluate("window.moved") < 0.1


def test_the_scrubber_shows_every_moment_and_comes_back(runs: Runs, own: Person):
    _, run = runs.finished("scrubbed")
    page = own.open(f"/runs/{run}")
    is_live(page)
    last = int(page.locator("[data-run]").get_attribute("data-seq") or 0)
    shown = dict[int, str]()
    for seq in range(1, last, 4):
        scrub(page, seq)
        expect(page.locator("#moment")).to_contain_text(f"Event {seq} of {last}")
        shown[seq] = page.locator(".in-short").inner_text()
    assert len({*shown.values()}) > 3
    expect(page).to_have_url(f"{own.site.url}/runs/{run}?at={max(shown)}")
    page.reload()
    expect(page.locator("#moment")).to_contain_text(f"Event {max(shown)} of {last}")
    page.get_by_role("link", name="Back to now").click()
    expect(page.locator(".pill").first).to_have_text("Passed")


def test_a_moment_in_the_past_stays_while_the_run_goes_on(runs: Runs, own: Person):
    sandbox, run, go = runs.live("past")
    page = own.open(f"/runs/{run}")
    is_live(page)
    # A slider has no positions of events to come.
    expect(page.locator("#moment")).to_contain_text("r1.programmer.c1: sent")
    scrub(page, 5)
    go.touch()
    wait_for_status(sandbox, "PASSED")
    # The page hears of it, and says how far the run is, but shows event 5.
    expect(page.locator("[data-run]")).not_to_have_attribute("data-last", "5")
    expect(page.locator("#moment")).to_contain_text("Event 5 of")


def test_a_page_finds_its_way_when_the_server_was_killed(browser: Browser, runs: Runs):
    _, run, go = runs.live("killed")
    site = serve()
    with person(browser, site) as own:
        own.expected = ("ERR_CONNECTION", "Failed to fetch", "401")
        page = own.open(f"/runs/{run}")
        is_live(page)
        site.kill()
        expect(page.locator("#connection")).to_have_attribute("data-state", "lost")
        go.touch()
        again = serve(port=site.port)
        try:
            # Its sessions were in the memory of the old server.
            expect(page.get_by_label("Token")).to_be_visible()
            page.goto(again.link())
            page.goto(f"{again.url}/runs/{run}")
            expect(page.locator(".pill").first).to_have_text("Passed")
            is_live(page)
        finally:
            again.close()


def test_an_event_is_visible_at_once(runs: Runs, own: Person):
    """How long from an event in the log to the reader's eyes; `make bench` measures it with more care."""
    sandbox, run, _ = runs.live("latency", programmer=[{"run": until_exists(runs.folder / "never"), "edit": RIGHT}])
    page = own.open(f"/runs/{run}")
    is_live(page)
    # From here on, nothing happens but what this test does.
    expect(page.locator("#moment")).to_contain_text("r1.programmer.c1: sent")
    took = [_seen_after(page, sandbox, run, number) for number in range(5)]
    # Not the goal, which a loaded machine misses, but what no polling would reach.
    assert sorted(took)[len(took) // 2] < 2.0, took
    sandbox.apart("stop", run)


def _seen_after(page: Page, sandbox: Sandbox, run: str, number: int) -> float:
    before = int(page.locator("[data-run]").get_attribute("data-seq") or 0)
    done = sandbox("tell", run, f"word {number}")
    assert done.code == 0, done.err
    began = time.monotonic()
    expect(page.locator(f"[data-run][data-seq='{before + 1}']")).to_be_attached()
    return time.monotonic() - began
