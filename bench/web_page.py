"""What the page costs: a list of many runs, a long run at any of its events, and streams."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from long_logs import long_run
from measure import NOWHERE, PROMPT, milliseconds, percentile, row, settings_for

from logos.adapters.store.sqlite import SqliteLog
from logos.app.run_start import make_plan
from logos.app.runs import load_run, read_report
from logos.app.workdir import driving
from logos.domain.events import PersonSaid, RunEnded, RunStarted, TurnAnswered, TurnAsked, TurnSent
from logos.domain.turns import Outcome, RunId
from logos.engine.journal import Journal
from logos.flows.fold import RunFold, flow_for
from logos.testing import FAIL, script

LOGOS = Path(sys.executable).with_name("logos")
WORK_DIRS, RUNS_EACH = 50, 20
LONG = 20_000
CLIENTS = 50


@dataclass(frozen=True)
class Page:
    """A served page, and the process that serves it."""

    client: httpx.Client
    process: psutil.Process
    url: str
    token: str

    @property
    def cpu(self) -> float:
        used = self.process.cpu_times()
        return used.user + used.system

    def seconds(self, path: str) -> float:
        began = time.monotonic()
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return time.monotonic() - began


@contextmanager
def served(state: Path, *places: Path) -> Iterator[Page]:
    """`logos web` as a process of its own, with a state folder of its own."""
    limits = [word for place in places for word in ("--wd", str(place))]
    process = subprocess.Popen(
        [LOGOS, "web", "--no-open", "--json", "--port", "0", *limits],
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = ""
    while not lines.endswith("}\n"):
        lines += process.stdout.readline()
    told = json.loads(lines)
    headers = {"Authorization": f"Bearer {told['token']}"}
    try:
        with httpx.Client(base_url=told["url"], headers=headers, timeout=300) as client:
            yield Page(client, psutil.Process(process.pid), told["url"], told["token"])
    finally:
        process.terminate()
        process.wait()


@contextmanager
def state_folder(path: Path) -> Iterator[Path]:
    """What this process writes has its mirrors there."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(path)
    try:
        yield path
    finally:
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before


def short_runs(wd: Path, count: int) -> None:
    """So many runs of a work dir that failed in their first round."""
    wd.mkdir(parents=True)
    settings = settings_for(wd, NOWHERE, MAX_ROUNDS="1", MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1")
    said: dict[str, Any] = {answer: texts[0] for answer, texts in script(tester=[FAIL]).items()}
    log = SqliteLog(settings.telos_dir / "logos.db")
    log._db.execute("PRAGMA synchronous = OFF")  # pyright: ignore[reportPrivateUsage]
    for number in range(count):
        started = RunStarted(make_plan(settings, PROMPT))
        journal: Any = Journal(log, RunFold(RunId(f"run{number:03}"), flow_for(started, read_report)))
        journal.record(started)
        while due := journal.fold.flow.due(journal.state):
            (turn,) = due
            journal.record(TurnAsked(turn.id, turn.agent, PROMPT))
            journal.record(TurnSent(turn.id))
            journal.record(TurnAnswered(turn.id, said[turn.answer]))
        journal.record(RunEnded(journal.state.outcome or Outcome.FAILED))
    log.close()
    with driving(wd, lambda _text: None):
        pass  # Makes the mirror.


def many_runs_listed() -> None:
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder, state_folder(Path(folder) / "state") as state:
        places = [Path(folder) / f"work{number:02}" for number in range(WORK_DIRS)]
        for place in places:
            short_runs(place, RUNS_EACH)
        with served(state) as page:
            first = page.seconds("/")
            used = page.cpu
            again = percentile([page.seconds(path) for path in ("/", "/api/runs") * 20], 0.95)
            each = (page.cpu - used) / 40
            with driving(places[0], lambda _text: None) as log:
                Journal(log, load_run(log, RunId("run000")).fold).record(PersonSaid("changed"))
            changed = page.seconds("/")
            memory = page.process.memory_info().rss
    what = f"list of {WORK_DIRS * RUNS_EACH} runs of {WORK_DIRS} work dirs"
    beside = f"target < 300 ms: {met(again < 0.3)}; p95 of 40, page and API; CPU {milliseconds(each)}"
    row(what, milliseconds(again), beside)
    row(
        "the same after one of them has changed",
        milliseconds(changed),
        f"first time {first:.1f} s, {memory / 1e6:.0f} MB",
    )


def met(is_met: bool) -> str:
    return "met" if is_met else "missed"


def long_run_shown() -> None:
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder, state_folder(Path(folder) / "state") as state:
        wd = Path(folder) / "work"
        wd.mkdir()
        long_run(wd, LONG)
        with served(state, wd) as page:
            page.seconds("/enter")
            used = page.cpu
            opened = page.seconds("/api/runs/long")
            once = page.cpu - used
            shown = page.seconds("/runs/long")
            used = page.cpu
            moments = [page.seconds(f"/api/runs/long?at={LONG * step // 40}") for step in range(1, 41)]
            each = (page.cpu - used) / len(moments)
            pages = [page.seconds(f"/runs/long?at={LONG * step // 20}") for step in range(1, 21)]
    row(
        f"a run of {LONG} events opened",
        milliseconds(opened),
        f"target < 1 s: {met(opened < 1)}; CPU {milliseconds(once)}; its page then {milliseconds(shown)}",
    )
    scrubbed = percentile(moments, 0.95)
    row(
        "the same at another event, p95",
        milliseconds(scrubbed),
        f"target < 100 ms: {met(scrubbed < 0.1)}; n=40, CPU {milliseconds(each)}",
    )
    row("the same as a page, p95", milliseconds(percentile(pages, 0.95)), "n=20")


def events_told() -> None:
    """From an event that is recorded to the message in a client, beside other clients and events one by one."""
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder, state_folder(Path(folder) / "state") as state:
        wd = Path(folder) / "work"
        short_runs(wd, 1)
        run = RunId("run000")
        with served(state, wd) as page, driving(wd, lambda _text: None) as log:
            journal: Any = Journal(log, load_run(log, run).fold)
            seen: dict[int, float] = {}
            reader = threading.Thread(target=read_stream, args=(page, run, seen), daemon=True)
            reader.start()
            while 0 not in seen:
                time.sleep(0.01)
            recorded: dict[int, float] = {}
            for number in range(100):
                record = journal.record(PersonSaid(f"event {number}"))
                recorded[record.seq] = time.monotonic()
                # Not in step with the poller.
                time.sleep(0.03 + 0.0017 * (number % 31))
            while not recorded.keys() <= seen.keys():
                time.sleep(0.01)
    took = [seen[seq] - at for seq, at in recorded.items()]
    late = percentile(took, 0.95)
    row("event to message of the stream, p95", milliseconds(late), f"target < 200 ms: {met(late < 0.2)}; n={len(took)}")


def read_stream(page: Page, run: str, seen: dict[int, float]) -> None:
    """When each event came; 0 is the beginning."""
    with (
        httpx.Client(headers=page.client.headers, timeout=300) as client,
        client.stream("GET", f"{page.url}/api/stream?runs={run}") as answer,
    ):
        for line in answer.iter_lines():
            if line.startswith("id: "):
                seen.setdefault(0, time.monotonic())
                seen.setdefault(int(line.rpartition(":")[2]), time.monotonic())


def idle_clients() -> None:
    """The CPU of a server with many open streams while nothing happens."""
    seconds = 20.0
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder, state_folder(Path(folder) / "state") as state:
        wd = Path(folder) / "work"
        short_runs(wd, 3)
        with served(state, wd) as page, driving(wd, lambda _text: None):
            clients = [open_stream(page, "/api/stream?runs=run000,run001,run002&list=1") for _ in range(CLIENTS)]
            time.sleep(2)
            before = page.process.cpu_times()
            time.sleep(seconds)
            after = page.process.cpu_times()
            alive = sum(is_open(client) for client in clients)
            for client in clients:
                client.close()
    used = (after.user + after.system - before.user - before.system) / seconds
    row(
        f"{alive} idle streams",
        f"{used * 100:.1f} % of a core",
        f"target < 10 %: {met(used < 0.1)}; over {seconds:.0f} s",
    )


def open_stream(page: Page, path: str) -> Any:
    host, _, port = page.url.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)))
    head = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {page.token}\r\n\r\n"
    connection.sendall(head.encode())
    assert b" 200 " in connection.recv(4096)
    return connection


def is_open(connection: Any) -> bool:
    readable, _, _ = select.select([connection], [], [], 0)
    return not readable or bool(connection.recv(65536))
