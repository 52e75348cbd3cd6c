"""Coming in to the page with a real Chromium: links that work once, links from elsewhere, and going out."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from logos.testing import PASS
from logos.web.options import WebOptions
from tests.support.sandbox import Sandbox
from tests.support.web import Served

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
WRITE = """async (token) => {
  const headers = { "Content-Type": "application/json", "X-Logos-Token": token ?? localStorage["logos.write"] };
  const answer = await fetch("/api/link", { method: "POST", headers, body: "{}" });
  return answer.status;
}"""
LEAVE = """async () => {
  const headers = { "Content-Type": "application/json", "X-Logos-Token": localStorage["logos.write"] };
  return (await fetch("/api/logout", { method: "POST", headers, body: "{}" })).status;
}"""

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not CHROMIUM.exists() and os.environ.get("CI") != "true", reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def shop(sandbox: Sandbox) -> Sandbox:
    sandbox.hire(tester=[PASS])
    sandbox.run()
    return sandbox


@pytest.fixture
def served(shop: Sandbox) -> Iterator[Served]:
    with Served(WebOptions((shop.wd,))) as served:
        yield served


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    yield context.new_page()
    context.close()


class Elsewhere:
    """Another server of this machine, with a page that leads to an address; it keeps the cookies that it is sent."""

    def __init__(self, address: str) -> None:
        self.cookies: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.cookies.append(self.headers.get("Cookie", ""))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(f'<a id="link" href="{address}">look</a>'.encode())

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, name: str) -> str:
        return f"http://{name}:{self._server.server_port}/"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def come_in(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/enter#{served.access.link()}")
    page.wait_for_url(f"{served.url}/")


def test_a_link_opens_one_browser_and_its_token_is_not_left_in_the_address(
    page: Page, chromium: Browser, served: Served
) -> None:
    link = f"{served.url}/enter#{served.access.link()}"
    page.goto(link)
    page.wait_for_url(f"{served.url}/")
    assert page.evaluate(WRITE, None) == 200
    assert page.evaluate(WRITE, "wrong") == 403
    other = chromium.new_context().new_page()
    other.goto(link)
    other.wait_for_selector("#form:not([hidden])")
    assert "used before" in other.inner_text("#said")
    assert other.url == f"{served.url}/enter"
    other.context.close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_link_from_elsewhere_shows_the_page_and_elsewhere_cannot_act(
    page: Page, served: Served, shop: Sandbox, name: str
) -> None:
    target = f"{served.url}/runs/{shop.run_id}?at=3"
    elsewhere = Elsewhere(target)
    try:
        come_in(page, served)
        page.goto(elsewhere.url(name))
        page.click("#link")
        page.wait_for_selector(f"text={shop.run_id}")
        assert page.url == target
        # The same host on another port gets the cookie; it is not enough.
        stolen = next((cookie for cookie in elsewhere.cookies if cookie), "")
        assert bool(stolen) == (name == "127.0.0.1")
        headers = {"Host": served.host, "Cookie": stolen, "Origin": served.url, "Content-Type": "application/json"}
        assert served.raw("POST", "/api/link", headers, b"{}").status in (401, 403)
    finally:
        elsewhere.close()


def test_whoever_has_left_sees_nothing(page: Page, served: Served, shop: Sandbox) -> None:
    come_in(page, served)
    assert page.evaluate(LEAVE) == 204
    page.goto(f"{served.url}/runs/{shop.run_id}")
    page.wait_for_selector("#form:not([hidden])")
    assert page.url == f"{served.url}/enter?next=/runs/{shop.run_id}"
    assert page.evaluate("localStorage.length") == 0
    # The next link leads to what was asked for.
    page.goto(f"{served.url}/enter?next=/runs/{shop.run_id}&x=1#{served.access.link()}")
    page.wait_for_url(f"{served.url}/runs/{shop.run_id}")


def test_the_way_on_never_leads_to_another_site(page: Page, served: Served) -> None:
    for elsewhere in ("//evil.example/", "http://evil.example/", "javascript:alert(1)", "/\\\\evil.example"):
        page.goto(f"{served.url}/enter?next={elsewhere}#{served.access.link()}")
        page.wait_for_url(lambda url: "/enter" not in url)
        assert page.url.startswith(f"{served.url}/")
