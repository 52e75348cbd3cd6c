"""`logos web` as a process: how it starts, what it says, and what its death leaves."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from logos.adapters.inbox import inbox_folder
from logos.adapters.store.mirror import state_folder
from logos.app.web_address import publish_address, web_address
from logos.domain.events import PersonSaid, RunForked
from logos.testing import PASS
from tests.acceptance.test_simulation import IN_A_HURRY
from tests.support.sandbox import LOGOS, Sandbox, ended
from tests.support.waiting import LAST_RESORT, until_exists, wait_for, wait_for_exit


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Sandbox]:
    """A repository whose analyst takes until a file `go` exists."""
    site = Sandbox.of_repository(tmp_path / "repo", **IN_A_HURRY)
    site.script({"analyst": [{"run": until_exists(tmp_path / "go"), "say": "ANALYST_SUMMARY: done\n"}]})
    yield site
    (tmp_path / "go").touch()
    site("stop")
    site.close()
    wait_for(lambda: site.left_behind() == [], site.left_behind)


class Page:
    """A page that listens, and a program with its token."""

    def __init__(self, site: Sandbox, *arguments: str) -> None:
        command = ("web", "--no-open", "--json", "--port", "0", "--wd", str(site.wd), *arguments)
        self.process = site.start(*command)
        assert self.process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            line = self.process.stdout.readline()
            assert line, ended(self.process).err
            text += line
        self.told: dict[str, Any] = json.loads(text)
        self.url = self.told["url"]
        headers = {"Authorization": f"Bearer {self.told['token']}", "Origin": self.url}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=LAST_RESORT)

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.client.post(path, json=body)


def test_it_says_where_it_is_and_ends_in_order_with_open_streams(sandbox: Sandbox) -> None:
    sandbox.hire(tester=[PASS])
    sandbox.run()
    page = Page(sandbox)
    assert page.told["link"].startswith(f"{page.url}/enter#")
    entered = httpx.post(
        f"{page.url}/enter",
        json={"token": page.told["link"].partition("#")[2]},
        headers={"Origin": page.url},
        timeout=LAST_RESORT,
    )
    assert entered.status_code == 200
    assert web_address() == page.url
    stored = (state_folder() / "web.json").read_text()
    assert page.told["token"] not in stored
    assert "token" not in stored
    with page.client.stream("GET", f"/api/stream?runs={sandbox.run_id}") as stream:
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("event: ")) == "event: run"
        page.process.send_signal(signal.SIGTERM)
        for _ in lines:
            pass
    done = ended(page.process)
    assert (done.code, done.err) == (0, "")
    assert web_address() == ""
    assert not (state_folder() / "web.json").exists()
    sandbox.close()


def test_a_person_reads_a_link_and_what_others_can_reach(sandbox: Sandbox) -> None:
    token = "a-token-of-the-person"
    page = subprocess.Popen(
        [LOGOS, "web", "--no-open", "--port", "0", "--host", "0.0.0.0", "--token", "-"],
        cwd=sandbox.wd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Otherwise the list has the runs of all tests before this one.
        env={**os.environ, "XDG_STATE_HOME": str(sandbox.wd.parent / "state")},
    )
    sandbox.started.append(page)
    assert page.stdin is not None
    assert page.stdout is not None
    page.stdin.write(f"{token}\n")
    page.stdin.close()
    first, second = page.stdout.readline(), page.stdout.readline()
    assert "this link opens it once" in first
    assert "/enter#" in second
    port = int(second.split(":")[2].split("/")[0])
    url = f"http://127.0.0.1:{port}"
    listed = httpx.get(f"{url}/api/runs", headers={"Authorization": f"Bearer {token}"}, timeout=LAST_RESORT)
    assert listed.status_code == 200
    # It is in no list of processes.
    assert token not in Path(f"/proc/{page.pid}/cmdline").read_text()
    page.send_signal(signal.SIGINT)
    assert wait_for_exit(page) == 0
    assert page.stderr is not None
    assert "nothing is encrypted" in page.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--host", "0.0.0.0"), "choose a token with --token"),
        (("--host", "0.0.0.0", "--token", "short"), "at least 16"),
        (("--token", "\u00e9" * 20), "ASCII"),
        (("--port", "99999"), "cannot listen on 127.0.0.1"),
        (("--host", "192.0.2.1", "--token", "a-token-of-the-person"), "cannot listen on 192.0.2.1"),
        (("--wd", "/no/such/place"), "no such directory"),
    ],
)
def test_it_refuses_to_start_unsafely(sandbox: Sandbox, arguments: tuple[str, ...], why: str) -> None:
    done = sandbox("web", "--no-open", *arguments)
    assert done.code == 2
    assert why in done.err
    assert len(done.err.splitlines()) == 1


def test_a_port_that_is_taken_is_an_error_only_if_it_was_asked_for(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = sandbox("web", "--no-open", "--port", str(taken.getsockname()[1]))
    assert done.code == 2
    assert "in use" in done.err


def test_without_the_extra_one_line_says_what_to_install(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logos.cli.web.NEEDED", ("no_such_module_anywhere",))
    done = sandbox("web", "--no-open")
    assert done.code == 2
    assert "pipx inject logos-agents" in done.err
    assert len(done.err.splitlines()) == 1


def test_an_agent_serves_no_page(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAO_TERMINAL_ID", "abcd1234")
    done = sandbox("web", "--no-open")
    assert done.code == 2
    assert "an agent cannot serve the page" in done.err


def test_the_address_of_a_server_that_was_killed_is_not_believed() -> None:
    publish_address("http://127.0.0.1:8765")
    assert web_address() == "http://127.0.0.1:8765"
    known = json.loads((state_folder() / "web.json").read_text())
    (state_folder() / "web.json").write_text(json.dumps({**known, "process": ["another", "one", "1"]}))
    assert web_address() == ""
    for odd in ("", "[]", "{", '{"url": 5}', '{"url": "x", "pid": "y", "process": 1}'):
        (state_folder() / "web.json").write_text(odd)
        assert web_address() == ""
    (state_folder() / "web.json").unlink()


def test_a_server_that_is_killed_while_a_live_driver_has_a_message_loses_and_repeats_nothing(site: Sandbox) -> None:
    driver = site.start("run", "--simulate", str(site.script_path))
    site.wait_for_event("turn_sent", "analyst", process=driver)
    page, run = Page(site), site.run_id
    os.kill(driver.pid, signal.SIGSTOP)
    asking = threading.Thread(target=lambda: silently(page, f"/api/runs/{run}/tell", text="hello"), daemon=True)
    asking.start()
    folder = inbox_folder(site.wd / ".telos" / "logos.db")
    wait_for(lambda: folder.is_dir() and [*folder.glob("[!.]*.json")], "the message", process=page.process)
    page.process.kill()
    page.process.wait()
    asking.join(LAST_RESORT)
    assert site.events(PersonSaid) == []
    os.kill(driver.pid, signal.SIGCONT)
    wait_for(lambda: site.events(PersonSaid), "the event", process=driver)
    # A new server shows it, and does not do it again.
    again = Page(site)
    events = again.client.get(f"/api/runs/{run}/events").json()["events"]
    assert [event["text"] for event in events if event["kind"] == "person_said"] == ["hello"]
    (site.wd.parent / "go").touch()
    assert ended(driver).code == 0
    assert [event.text for event in site.events(PersonSaid)] == ["hello"]


@pytest.mark.long
def test_server_and_driver_killed_together_lose_nothing(site: Sandbox) -> None:
    page = Page(site)
    body = {"wd": str(site.wd), "text": "", "simulate": str(site.script_path)}
    started = page.post("/api/runs", **body)
    assert started.status_code == 200, started.text
    run, pid = started.json()["run"], started.json()["driver_pid"]
    site.wait_for_event("turn_sent", "analyst")
    os.kill(pid, signal.SIGKILL)
    page.process.kill()
    page.process.wait()
    again = Page(site)
    wait_for(lambda: again.client.get(f"/api/runs/{run}").json()["status"] == "STOPPED", "the end of the driver")
    (site.wd.parent / "go").touch()
    resumed = again.post(f"/api/runs/{run}/resume", simulate=str(site.script_path))
    assert resumed.status_code == 200, resumed.text
    wait_for(lambda: again.client.get(f"/api/runs/{run}").json()["status"] == "PASSED", "the end")
    assert site.asked == [*dict.fromkeys(site.asked)]


def test_a_server_that_is_killed_in_the_middle_of_a_fork_leaves_a_whole_run_or_none(site: Sandbox) -> None:
    (site.wd.parent / "go").touch()
    assert site("run", "--simulate", str(site.script_path)).code == 0
    run, page = site.run_id, Page(site)
    to = site.wd.parent / "fork"
    asking = threading.Thread(
        target=lambda: silently(page, f"/api/runs/{run}/fork", at=5, to=str(to), resume=False), daemon=True
    )
    asking.start()
    wait_for(to.exists, "the beginning of the fork", process=page.process)
    page.process.kill()
    page.process.wait()
    asking.join(LAST_RESORT)
    again = Page(site)
    listed = again.client.get("/api/runs").json()
    assert [row["run"] for row in listed["runs"]] == [run]
    # What it began is of no consequence for the next attempt.
    done = again.post(f"/api/runs/{run}/fork", at=5, to=f"{to}-2", resume=False)
    assert done.status_code == 200, done.text
    assert len(site.at(f"{to}-2").events(RunForked)) == 1


def silently(page: Page, path: str, **body: Any) -> None:
    """A request whose answer never comes."""
    try:
        page.post(path, **body)
    except httpx.HTTPError:
        return
