"""Every page, read: at every width, in light and dark, by a screen reader, with the keyboard, and without JavaScript."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.live.web.browser import PATIENCE, Person, Site, axe, person, serve, violations
from tests.live.web.runs import RIGHT, Runs
from tests.support.sandbox import Sandbox

pytestmark = pytest.mark.long
expect.set_options(timeout=PATIENCE)

WIDTHS = (400, 1000, 1600)
HOSTILE = """# Title <script>document.title = "owned"</script>

<img src=x onerror="document.title='owned'"> <svg onload="document.title='owned'"></svg>
[click me](javascript:document.title='owned') ![picture](http://example.org/x.png)
<div hx-get="/start" hx-trigger="load" hx-target="body" data-verb="stop">x</div>
\x1b[31mred\x1b[0m \u202eright to left\u202c

```python
print("</code><script>document.title='owned'</script>")
```
"""


@pytest.fixture(scope="module")
def whole(runs: Runs) -> dict[str, str]:
    """The addresses of every page, of a finished run, a live one and a build."""
    _, finished = runs.finished()
    _, live, _ = runs.live()
    built = runs.sandbox("build")
    done = built.apart("demo", "--levels", "--keep", str(built.wd.parent / "shop"))
    assert done.code == 0, done.err
    build = Runs.run_of(built.at(built.wd.parent / "shop"))
    return {
        "runs": "/",
        "start": "/start",
        "run": f"/runs/{finished}",
        "past": f"/runs/{finished}?at=12",
        "live": f"/runs/{live}",
        "turn": f"/runs/{finished}/turns/r1.programmer.c1",
        "step": f"/runs/{finished}/turns/r2.proof.result",
        "proof": f"/runs/{finished}/proof",
        "diff": f"/runs/{finished}/diff",
        "unified": f"/runs/{finished}/diff?view=unified",
        "build-run": f"/runs/{build}",
        "build": f"/runs/{build}/build",
        "nothing": "/runs/none",
    }


@pytest.fixture
def own(browser: Browser, site: Site) -> Iterator[Person]:
    with person(browser, site) as found:
        yield found


def test_every_page_is_readable_at_every_width_in_light_and_dark(browser: Browser, site: Site, whole: dict[str, str]):
    kept = os.environ.get("PAGE_PICTURES")
    for scheme in ("light", "dark"):
        with person(browser, site, color_scheme=scheme) as own:
            own.expected = ("404",)
            page = own.open()
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                for name, path in whole.items():
                    page.goto(site.url + path)
                    expect(page.locator("h1").first).to_be_visible()
                    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                    assert wide <= 0, f"{name} at {width} can be scrolled sideways by {wide}"
                    if kept:
                        page.screenshot(path=Path(kept) / f"{name}-{width}-{scheme}.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_hard_to_use_for_anybody(browser: Browser, site: Site, whole: dict[str, str], scheme: str):
    source = axe()
    with person(browser, site, bypass_csp=True, color_scheme=scheme, reduced_motion="reduce") as own:
        own.expected = ("404",)
        page = own.open()
        for name, path in whole.items():
            page.goto(site.url + path)
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            found = violations(page, source)
            assert found == [], f"{name}: {found}"
        page.goto(site.url + whole["live"])
        page.get_by_role("button", name="Tell").click()
        assert violations(page, source) == []


def test_runs_are_searched_and_filtered(own: Person, whole: dict[str, str]):
    page = own.open()
    expect(page.locator("li.run")).to_have_count(3)
    page.get_by_role("searchbox").fill("politely")
    page.keyboard.press("Enter")
    expect(page.locator("li.run")).to_have_count(1)
    expect(page.locator("li.run")).to_contain_text("Greet people politely")
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_label("State").select_option("ended")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("li.run")).to_have_count(2)
    expect(page.locator("li.run").first).to_contain_text("proven")
    assert "/runs/" in whole["run"]


def test_a_finished_run_tells_what_it_did(own: Person, whole: dict[str, str]):
    page = own.open(whole["run"])
    expect(page.locator(".result")).to_contain_text("Logos has proven it itself")
    expect(page.locator(".in-short")).to_contain_text("$")
    expect(page.locator(".bars")).to_contain_text("Programmer")
    page.locator("#turn-r1\\.tester\\.c1 a").click()
    expect(page.locator(".prose").first).to_contain_text("RESULT: FAIL")
    page.goto(own.site.url + whole["turn"])
    expect(page.locator(".steps")).to_contain_text("greet.py")
    page.get_by_text("Show the prompt").click()
    expect(page.locator(".prose").last).to_contain_text("Greet people by their name")


def test_the_proof_and_the_changes_are_shown(own: Person, whole: dict[str, str]):
    page = own.open(whole["proof"])
    expect(page.get_by_role("heading", level=1)).to_have_text("Proven")
    expect(page.locator(".proof-steps")).to_contain_text("planted tests, which must fail", ignore_case=True)
    page.get_by_role("link", name="Changes", exact=True).click()
    expect(page.locator(".patch .added").filter(has_text="hello {name}")).to_have_count(1)
    # Colours are classes: the policy of the page allows no styles inside it.
    expect(page.locator(".patch .added .k", has_text="return")).to_have_count(1)
    page.locator("select[name=view]").select_option("unified")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".patch.unified .deleted").first).to_contain_text("hi")
    page.locator("select[name=a]").select_option(index=1)
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("No file differs.")).to_be_visible()


def test_both_sides_of_a_change_are_seen_on_a_phone(browser: Browser, site: Site, whole: dict[str, str]):
    with person(browser, site, viewport={"width": 400, "height": 900}) as own:
        page = own.open(whole["diff"])
        expect(page.locator(".patch.split").first).to_be_visible()
        for words in ("return 'hi'", "return f'hello {name}'", "def test_by_name(self):"):
            shown = page.locator(".patch .code:visible", has_text=words)
            expect(shown).to_have_count(1)
            box = shown.bounding_box()
            assert box is not None
            assert 0 <= box["x"] < box["x"] + box["width"] <= 400, (words, box)


def test_a_build_shows_its_ladder_lineage_and_reconciliations(own: Person, whole: dict[str, str]):
    page = own.open(whole["build-run"])
    expect(page.locator(".rung")).to_have_count(9)
    expect(page.locator(".rung").first).to_contain_text("Telos-Guardian")
    page.get_by_role("link", name="Build", exact=True).click()
    expect(page.locator(".graph .purpose")).to_have_count(1)
    expect(page.locator(".graph .test")).to_have_count(4)
    expect(page.locator(".reconciled")).to_have_count(2)
    expect(page.locator(".reconciled").first.locator(".sides .level")).to_have_count(3)


def test_what_an_agent_writes_does_nothing(browser: Browser, runs: Runs, site: Site):
    sandbox = runs.sandbox("hostile")
    names = {"<img src=x onerror=alert(1)>.py": "</td></table><script>document.title='owned'</script>\n"}
    agents = {
        "analyst": [{"say": HOSTILE}],
        "programmer": [{"edit": {**RIGHT, **names}, "say": HOSTILE}],
        "tester": [{"say": f"RESULT: PASS\n{HOSTILE}"}],
    }
    done = sandbox.apart(
        "run", HOSTILE, "--test", "true", "--simulate", str(sandbox.script(agents)), "--set", "verify_pass=0"
    )
    assert done.code == 0, done.err
    run = Runs.run_of(sandbox)
    with person(browser, site) as own:
        asked: list[str] = []
        own.context.on("request", lambda request: asked.append(request.url))
        for path in ("", "/turns/r1.analyst.c1", "/turns/r1.programmer.c1", "/diff", "/proof"):
            page = own.open(f"/runs/{run}{path}")
            expect(page.locator("#connection")).to_have_attribute("data-state", "live")
            _is_inert(page)
        page = own.open(f"/runs/{run}/turns/r1.analyst.c1")
        expect(page.locator(".prose").first).to_contain_text("\\u202eright to left")
        expect(page.locator(".prose a")).to_have_count(0)
        assert all(url.startswith(site.url) for url in asked), asked


def _is_inert(page: Page) -> None:
    assert page.title() != "owned"
    written = page.locator("main script, main img, main [onerror], main [hx-get], main form[data-verb=stop] script")
    assert written.count() == 0


def test_everything_is_reached_with_the_keyboard(own: Person, whole: dict[str, str]):
    page = own.open(whole["live"])
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    opener = page.get_by_role("button", name="Tell")
    for _ in range(40):
        page.keyboard.press("Tab")
        if opener.evaluate("element => element === document.activeElement"):
            break
    expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(opener).to_be_focused()


def test_runs_are_read_without_javascript_too(browser: Browser, site: Site, whole: dict[str, str]):
    with person(browser, site) as own:
        state = own.context.storage_state()
    context = browser.new_context(java_script_enabled=False, storage_state=state)
    page = context.new_page()
    page.goto(site.url + whole["run"])
    expect(page.locator(".result")).to_contain_text("Logos has proven it itself")
    page.goto(site.url + whole["past"])
    expect(page.locator("#moment")).to_contain_text("Event 12 of")
    context.close()


def test_a_read_only_page_has_no_verbs(browser: Browser, runs: Runs, whole: dict[str, str]):
    site = serve(runs.folder / "live" / "work", read_only=True)
    try:
        with person(browser, site) as own:
            page = own.open(whole["live"])
            expect(page.get_by_text("read only")).to_be_visible()
            expect(page.locator("main button")).to_have_count(0)
    finally:
        site.close()


def test_a_long_text_is_cut(browser: Browser, runs: Runs, site: Site):
    sandbox: Sandbox = runs.sandbox("long")
    script = sandbox.script({"tester": [{"say": "RESULT: PASS\n" + "word " * 700_000}]})
    done = sandbox.apart("run", "x", "--test", "true", "--simulate", str(script), "--set", "verify_pass=0")
    assert done.code == 0, done.err
    with person(browser, site) as own:
        page = own.open(f"/runs/{Runs.run_of(sandbox)}/turns/r1.tester.c1")
        expect(page.locator(".cut").first).to_contain_text("more characters are not shown here")
