"""A real Chromium, and `logos web` as a process of its own, as a person has them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from tests.live.clis import skip_or_fail
from tests.support.sandbox import LOGOS
from tests.support.waiting import LAST_RESORT, wait_for_exit

ROOT = Path(__file__).resolve().parents[3]
CHROMIUM = Path("/usr/bin/chromium")
# Nothing is fetched from anywhere; as root, Chromium needs to be told.
FLAGS = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync")
# Far beyond what any wait needs on a loaded machine, in milliseconds.
PATIENCE = LAST_RESORT * 1000
# Says of every refusal of the page's policy, and counts how far things were moved without the reader's doing.
_WATCH = """
window.moved = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.moved += entry.value;
}).observe({ type: "layout-shift", buffered: true });
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`POLICY ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""


@dataclass
class Site:
    """A server, and what it has told of itself."""

    process: subprocess.Popen[str]
    url: str
    token: str
    port: int
    # The links that it has printed, each of which works once.
    links: list[str]

    def link(self) -> str:
        """A link that opens one session."""
        if self.links:
            return self.links.pop()
        return self.url + self.ask("/api/link", {})["path"]

    def ask(self, path: str, body: Any = None) -> Any:
        """As a program does, with the token."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", "Origin": self.url}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.url + path, data, headers | {"X-Logos-Token": self.token})
        with urllib.request.urlopen(asked, timeout=LAST_RESORT) as answer:
            return json.load(answer)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LAST_RESORT)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            wait_for_exit(self.process)


def serve(*work_dirs: Path, port: int | None = None, read_only: bool = False) -> Site:
    chosen = [word for place in work_dirs for word in ("--wd", str(place))]
    at = ["--port", str(port)] if port is not None else []
    words = [LOGOS, "web", "--no-open", "--json", *chosen, *at, *(["--read-only"] if read_only else [])]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line == "}\n":
            break
    told = json.loads("".join(lines))
    return Site(process, told["url"], told["token"], told["port"], [told["link"]])


@dataclass
class Person:
    """A browser profile that has come in, and what its pages have complained of."""

    site: Site
    context: BrowserContext
    complaints: list[str] = field(default_factory=list)
    # What a test brings about itself: the complaints that contain one of these words are expected.
    expected: tuple[str, ...] = ()

    def open(self, path: str = "/") -> Page:
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(self.site.url + path)
        return page

    def come_in(self) -> None:
        page = self.context.new_page()
        page.goto(self.site.link())
        page.wait_for_url(f"{self.site.url}/", timeout=PATIENCE)
        page.close()

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(message.text)


@contextmanager
def chromium() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        skip_or_fail("chromium is not installed")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        # A home of its own: nothing of another browser is read, and no other browser is reached.
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*FLAGS], env={"HOME": home, "TMPDIR": home}, timeout=PATIENCE
        )
        yield browser
        browser.close()


@contextmanager
def person(browser: Browser, site: Site, **options: Any) -> Iterator[Person]:
    """A new profile; nothing on its pages may have been refused, or failed."""
    context = browser.new_context(**{"viewport": {"width": 1000, "height": 900}, **options})
    context.add_init_script(_WATCH)
    own = Person(site, context)
    own.come_in()
    yield own
    context.close()
    complaints = [told for told in own.complaints if not any(word in told for word in own.expected)]
    assert complaints == [], complaints


def axe() -> str:
    """The source of axe-core, from npm."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "js-runners", "axe"], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        skip_or_fail(done.stderr.strip())
    return (ROOT / ".cache" / "js-runners" / "axe" / "node_modules" / "axe-core" / "axe.min.js").read_text()


def violations(page: Page, source: str, kinds: Sequence[str] = ("serious", "critical")) -> list[str]:
    """What axe-core objects to on a page; the context must bypass the policy, which forbids to run it."""
    page.evaluate(source)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']}: {node['html'][:160]} ({node.get('failureSummary', '').splitlines()[-1:]})"
        for one in found["violations"]
        if one["impact"] in kinds
        for node in one["nodes"]
    ]
