"""The page in the quick suite: a run that goes on is seen to go on, until it is proven."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.live.web.browser import PATIENCE, Site, person
from tests.live.web.runs import Runs, wait_for_status

expect.set_options(timeout=PATIENCE)


def test_a_live_run_is_followed_until_it_is_proven(browser: Browser, runs: Runs, site: Site):
    sandbox, run, go = runs.live()
    with person(browser, site) as own:
        page = own.open("/")
        expect(page.locator(".run", has_text="Greet people politely")).to_contain_text("Running")
        page.get_by_role("link", name="Greet people politely").click()
        expect(page.locator("#connection")).to_have_attribute("data-state", "live")
        expect(page.locator(".does")).to_contain_text("Programmer is at work")
        go.touch()
        expect(page.locator("#turn-r1\\.programmer\\.c1 .verdict")).to_contain_text("answered")
        expect(page.locator(".pill").first).to_have_text("Passed")
        expect(page.locator(".result")).to_contain_text("Logos has proven it itself")
        assert page.evaluate("window.moved") < 0.1
        page.get_by_role("link", name="What was proven").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Proven")
    assert wait_for_status(sandbox, "PASSED")["run"] == run
