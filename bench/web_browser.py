"""What a person sees of the page, in a real Chromium: an event as it happens, a long run, and any of its moments."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import playwright.sync_api as playwright
from long_logs import long_run
from measure import milliseconds, percentile, row
from web_page import LONG, Page, met, served, short_runs, state_folder

from logos.app.runs import load_run
from logos.app.workdir import driving
from logos.domain.events import PersonSaid
from logos.domain.turns import RunId
from logos.engine.journal import Journal

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
PATIENCE = 300_000
# When an event was painted, by its number, in seconds since the epoch.
_WATCH = """() => {
  window.seen = {};
  const look = () => requestAnimationFrame(() => {
    const seq = document.querySelector("[data-run]").dataset.seq;
    window.seen[seq] ??= (performance.timeOrigin + performance.now()) / 1000;
  });
  const everything = { subtree: true, attributes: true, childList: true };
  new MutationObserver(look).observe(document.getElementById("main"), everything);
}"""
# From the hand's movement to the paint of that moment, in seconds.
_SCRUB = """(to) => new Promise((done) => {
  const slider = document.getElementById("scrubber"), began = performance.now();
  const look = () => {
    const shown = document.querySelector("[data-run]").dataset.seq === String(to);
    if (shown) done((performance.now() - began) / 1000);
    else requestAnimationFrame(look);
  };
  slider.value = to;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  requestAnimationFrame(look);
})"""


@contextmanager
def opened(page: Page, path: str) -> Iterator[playwright.Page]:
    """A page in a browser that has come in, once its connection is live."""
    headers = {"Content-Type": "application/json", "Origin": page.url}
    link = page.client.post("/api/link", content="{}", headers=headers).json()["path"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE)
        shown = browser.new_page()
        shown.set_default_timeout(PATIENCE)
        shown.goto(page.url + link)
        shown.wait_for_url(f"{page.url}/")
        shown.goto(page.url + path)
        shown.wait_for_selector("#connection[data-state=live]")
        yield shown
        browser.close()


def events_seen() -> None:
    """From an event that is recorded to its paint."""
    if not CHROMIUM.exists():
        row("event to the eyes of a person, p95", "not measured", "chromium is not installed")
        return
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder, state_folder(Path(folder) / "state") as state:
        wd, run = Path(folder) / "work", RunId("run000")
        short_runs(wd, 1)
        with served(state, wd) as page, driving(wd, lambda _text: None) as log, opened(page, f"/runs/{run}") as shown:
            journal: Any = Journal(log, load_run(log, run).fold)
            shown.evaluate(_WATCH)
            used, recorded = page.cpu, dict[int, float]()
            for number in range(60):
                record = journal.record(PersonSaid(f"event {number}"))
                recorded[record.seq] = time.time()
                # One by one, and not in step with the poller.
                shown.wait_for_selector(f"[data-run][data-seq='{record.seq}']", state="attached")
                time.sleep(0.03 + 0.0017 * (number % 31))
            each = (page.cpu - used) / len(recorded)
            seen = {int(seq): at for seq, at in shown.evaluate("window.seen").items()}
    took = [seen[seq] - at for seq, at in recorded.items()]
    late = percentile(took, 0.95)
    row(
        "event to the eyes of a person, p95",
        milliseconds(late),
        f"target < 200 ms: {met(late < 0.2)}; n={len(took)}, median {milliseconds(percentile(took, 0.5))}, "
        f"CPU of the server {milliseconds(each)}",
    )


def long_run_seen() -> None:
    """A long run opened and scrubbed through, as a person does it, in a server that has read the list."""
    if not CHROMIUM.exists():
        row(f"a run of {LONG} events in a browser", "not measured", "chromium is not installed")
        return
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder, state_folder(Path(folder) / "state") as state:
        wd = Path(folder) / "work"
        wd.mkdir()
        long_run(wd, LONG)
        with served(state, wd) as page:
            page.seconds("/")
            with opened(page, "/") as shown:
                used, began = page.cpu, time.monotonic()
                shown.goto(f"{page.url}/runs/long")
                open_seconds, open_cpu = time.monotonic() - began, page.cpu - used
                shown.wait_for_selector("#connection[data-state=live]")
                used = page.cpu
                took = [shown.evaluate(_SCRUB, LONG * step // 41) for step in range(1, 41)]
                each = (page.cpu - used) / len(took)
    late = percentile(took, 0.95)
    row(
        f"a run of {LONG} events opened in a browser",
        milliseconds(open_seconds),
        f"target < 1 s: {met(open_seconds < 1)}; CPU of the server {milliseconds(open_cpu)}",
    )
    row(
        "the same scrubbed, p95",
        milliseconds(late),
        f"target < 100 ms: {met(late < 0.1)}; n={len(took)}, median {milliseconds(percentile(took, 0.5))}, "
        f"CPU of the server {milliseconds(each)}",
    )
