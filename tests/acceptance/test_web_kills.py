"""The server of the page, really killed in the middle of each verb: what was asked for has happened once, or not at all."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

import logos
from logos.adapters.inbox import inbox_folder
from logos.app.workdir import driver_at
from logos.domain.events import (
    Event,
    GateDecided,
    PermissionDecided,
    PersonSaid,
    QuestionResolved,
    RunAbandoned,
    RunForked,
    RunResumed,
    RunStarted,
    TurnAsked,
)
from logos.web.options import WebOptions
from tests.acceptance.test_simulation import IN_A_HURRY
from tests.old_runs import restore
from tests.support.drivers import KILLED, start_driver
from tests.support.isolation import clean_env
from tests.support.sandbox import Sandbox, read_log
from tests.support.waiting import LAST_RESORT, until_exists, wait_for, wait_for_exit
from tests.support.web import Served

# Some of these kills are in the quick suite as well: tests/acceptance/test_web_server.py.
pytestmark = pytest.mark.long

GATE = "r1.gate.after_plan"
# The driver that the killed server has started is at work, or has come as far as it can.
BUSY = "another driver|is unfinished|waits for"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Sandbox]:
    """A repository with scripted agents and a run that waits at its first gate."""
    site = Sandbox.of_repository(tmp_path / "repo", **IN_A_HURRY, EXPECT_CHANGE="0", GATES="after_plan")
    site.script({})
    done = site("run", "--simulate", str(site.script_path))
    assert done.code == 3, done.err
    yield site
    site("stop")
    site.close()
    wait_for(lambda: site.left_behind() == [], site.left_behind)


class MortalServer:
    """`logos web` in a process of its own, which dies before its n-th act of the one request that it gets."""

    def __init__(self, wd: Path, environment: dict[str, str], tmp: Path, act: int = 0) -> None:
        self._begins, out = tmp / f"begins-{act}", tmp / f"out-{act}"
        env = clean_env(**environment, DIE_AT_ACT=str(act or ""), DIE_FROM=str(self._begins))
        command = ["web", "--no-open", "--json", "--port", "0", "--wd", str(wd)]
        self.process = start_driver(env, tmp / "err", command, out)
        wait_for(lambda: out.exists() and out.read_text().endswith("}\n"), lambda: (tmp / "err").read_text())
        self.told: dict[str, Any] = json.loads(out.read_text())
        headers = {"Authorization": f"Bearer {self.told['token']}", "Origin": self.told["url"]}
        self._client = httpx.Client(base_url=self.told["url"], headers=headers, timeout=LAST_RESORT)
        # What it reads when it starts is no act of the request.
        assert self._client.get("/api/runs").status_code == 200

    def ask(self, path: str, body: dict[str, Any]) -> httpx.Response | None:
        """The answer; None if it died before it could."""
        self._begins.touch()
        try:
            return self._client.post(path, json=body)
        except httpx.HTTPError:
            assert wait_for_exit(self.process) == KILLED
            return None

    def kill(self) -> None:
        self.process.kill()
        wait_for_exit(self.process)


@dataclass
class Case:
    """A verb: the run that it is asked of, anew for each death; its body; and what must have happened in the end."""

    path: Callable[[], str]
    body: dict[str, Any]
    check: Callable[[], None]
    wd: Path
    environment: dict[str, str]
    # Every act of a verb that does little, some of one that does much.
    stride: int = 1
    # What another attempt may be answered where the first one has happened.
    too_late: str = "already|has ended"
    attempts: int = 0

    def campaign(self, tmp: Path) -> None:
        """Kill servers at one act after the other, until one answers."""
        for act in count(1, self.stride):
            path = self.path()
            server = MortalServer(self.wd, self.environment, tmp, act)
            answer = server.ask(path, self.body)
            if answer is not None:
                server.kill()
                assert answer.status_code == 200, answer.text
                self.check()
                break
            # Another attempt, with a server that lives.
            with Served(WebOptions((self.wd,))) as served:
                again = served.browser().post(path, self.body)
            assert again.status_code == 200 or re.search(self.too_late, again.json()["error"]), (act, again.text)
            self.attempts += 1
            self.check()


def rolled_back(site: Sandbox, kind: str) -> Callable[[], str]:
    """The run of the site, each time anew as it was at its first event of a kind."""
    run = site.run_id
    seq = next(record.seq for record in site.records() if record.event.kind == kind)

    def renew() -> str:
        logos.rollback(f"{run}@{seq}", wd=site.wd, tell=lambda _: None)
        return site.run_id

    return renew


def events(site: Sandbox, kind: type[Event]) -> list[Any]:
    """Of the newest run, since it was rolled back to its beginning."""
    records = site.records()
    since = max((place for place, record in enumerate(records) if isinstance(record.event, RunForked)), default=-1)
    return [record.event for record in records[since + 1 :] if isinstance(record.event, kind)]


def simulate(site: Sandbox) -> dict[str, str]:
    return {"simulate": str(site.script_path)}


def nothing_waits(site: Sandbox) -> None:
    """A message that is still there was recorded before, so that the next driver only removes it."""
    folder = inbox_folder(site.wd / ".telos" / "logos.db")
    left = {path.stem for path in folder.glob("[!.]*.json")}
    recorded = {getattr(record.event, "message", "") for records in site.logs().values() for record in records}
    assert left <= recorded


def at_the_gate(site: Sandbox, verb: str, check: Callable[[], None], **body: Any) -> Case:
    renew = rolled_back(site, "gate_opened")
    return Case(lambda: f"/api/runs/{renew()}/{verb}", body, check, site.wd, site.environment)


def approve(site: Sandbox) -> Case:
    def check() -> None:
        assert [event.approved for event in events(site, GateDecided)] == [True]
        nothing_waits(site)
        # The driver that it has started, perhaps twice, has asked nobody twice.
        wait_for(lambda: driver_at(site.wd) is None, "the end of the driver")
        assert site.asked == [*dict.fromkeys(site.asked)]

    return at_the_gate(site, "approve", check, gate=GATE, **simulate(site))


def reject(site: Sandbox) -> Case:
    def check() -> None:
        assert [(event.approved, event.words) for event in events(site, GateDecided)] == [(False, "not like this")]
        nothing_waits(site)

    return at_the_gate(site, "reject", check, gate=GATE, words="not like this", resume=False)


def tell(site: Sandbox) -> Case:
    def check() -> None:
        said = [event.text for event in events(site, PersonSaid)]
        # Whoever says it again, because no answer came, may have said it twice.
        assert said in (["keep the flag"], ["keep the flag"] * 2)
        nothing_waits(site)

    return at_the_gate(site, "tell", check, text="keep the flag")


def abandon(site: Sandbox) -> Case:
    def check() -> None:
        assert len(events(site, RunAbandoned)) == 1
        assert site("status", "--json").json["status"] == "ABANDONED"

    return at_the_gate(site, "abandon", check)


def rollback(site: Sandbox) -> Case:
    run, seq = site.run_id, next(record.seq for record in site.records() if record.event.kind == "turn_sent")
    before = (site.wd / "greet.py").read_text() if (site.wd / "greet.py").exists() else ""

    def renew() -> str:
        (site.wd / "greet.py").write_text("changed since\n")
        return f"/api/runs/{run}/rollback"

    def check() -> None:
        (forked,) = [record.event for record in site.records()[-1:]]
        assert isinstance(forked, RunForked)
        assert (forked.parent, forked.at) == (run, seq)
        assert not (site.wd / ".telos" / "rollback.json").exists()
        assert ((site.wd / "greet.py").read_text() if (site.wd / "greet.py").exists() else "") == before
        unfinished = [row for row in site("runs", "--json").json["runs"] if row["status"] != "ABANDONED"]
        assert [row["run"] for row in unfinished] == [site.run_id]

    return Case(renew, {"at": seq, "resume": False}, check, site.wd, site.environment, stride=5)


def fork(site: Sandbox) -> Case:
    run, before = site.run_id, site.records()
    seq = next(record.seq for record in before if record.event.kind == "turn_sent")

    def check() -> None:
        assert site.records() == before
        # What a killed server has begun has no log yet, or a whole one.
        for place in site.wd.parent.glob(f"{site.wd.name}-*"):
            if (place / ".telos" / "logos.db").exists():
                assert site.at(place)("status", "--json").code in (0, 2)
        whole = [row for row in site("runs", "--all", "--json").json["runs"] if row["forked_from"] == run]
        assert all(row["status"] == "STOPPED" for row in whole)
        assert whole

    return Case(lambda: f"/api/runs/{run}/fork", {"at": seq, "resume": False}, check, site.wd, site.environment, 6)


def resume(site: Sandbox) -> Case:
    renew = rolled_back(site, "turn_sent")

    def check() -> None:
        wait_for(lambda: events(site, RunResumed), "the driver")
        wait_for(lambda: driver_at(site.wd) is None, "the end of the driver")
        assert site("status", "--json").json["status"] == "WAITING FOR YOU"
        assert len(events(site, RunResumed)) == 1
        # The turn in flight is asked again in a run that was rolled back, and no other one.
        asked = [event.turn for event in events(site, TurnAsked)]
        assert asked == [*dict.fromkeys(asked)]

    return Case(lambda: f"/api/runs/{renew()}/resume", simulate(site), check, site.wd, site.environment, too_late=BUSY)


def start(site: Sandbox) -> Case:
    known: set[str] = set()

    def renew() -> str:
        if site("status", "--json").json["status"] != "ABANDONED":
            assert site("reset").code == 0
        known.update(site.logs())
        return "/api/runs"

    def check() -> None:
        # The driver of a killed server may be on its way still.
        wait_for(lambda: site.logs().keys() - known, "the run")
        wait_for(lambda: driver_at(site.wd) is None, "the end of the driver")
        (run,) = site.logs().keys() - known
        assert [record.event for record in site.records() if isinstance(record.event, RunStarted)]
        assert site("status", "--json").json["status"] == "WAITING FOR YOU"
        assert run == site.run_id

    body = {"wd": str(site.wd), "text": "", **simulate(site)}
    return Case(renew, body, check, site.wd, site.environment, too_late=BUSY)


VERBS = (approve, reject, tell, abandon, rollback, fork, resume, start)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_a_server_killed_in_the_middle_of_a_verb_loses_nothing_and_repeats_nothing(
    site: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: Callable[[Sandbox], Case]
) -> None:
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    case = verb(site)
    case.campaign(tmp_path)
    # There was something to die in the middle of.
    assert case.attempts > 0


def test_a_server_killed_while_a_question_is_answered_records_one_answer(tmp_path: Path) -> None:
    for act in count(1):
        site = Sandbox(restore("4d178cb", "levels-blocked", tmp_path / f"blocked-{act}"))
        path, body = f"/api/runs/{site.run_id}/answer", {"words": "1 and say why", "resume": False}
        server = MortalServer(site.wd, site.environment, tmp_path, act)
        answer = server.ask(path, body)
        if answer is None:
            with Served(WebOptions((site.wd,))) as served:
                assert served.browser().post(path, body).status_code in (200, 409)
        decided = [
            record.event for record in read_log(site.wd)[site.run_id] if record.event.kind == "question_resolved"
        ]
        assert [(event.option, event.text) for event in decided if isinstance(event, QuestionResolved)] == [
            (1, "and say why")
        ]
        nothing_waits(site)
        if answer is not None:
            server.kill()
            assert act > 3
            break


# --- a live driver


@pytest.fixture
def driven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A run with a live driver whose programmer asks for a permission, and then works until the file `go` exists."""
    site = Sandbox.of_repository(tmp_path / "repo", **IN_A_HURRY, EXPECT_CHANGE="0")
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    asks = {"fault": "permission", "question": "May I?", "run": until_exists(tmp_path / "go")}
    site.script({"programmer": [asks]})
    yield site
    (tmp_path / "go").touch()
    site("stop")
    site.close()
    # An agent outlives a driver that was killed.
    site("reset")
    wait_for(lambda: site.left_behind() == [], site.left_behind)


DECISIONS: tuple[tuple[str, dict[str, Any], type[Event]], ...] = (
    ("tell", {"text": "hello"}, PersonSaid),
    ("grant", {"turn": "r1.programmer.c1", "granted": True}, PermissionDecided),
    ("approve", {"gate": "r1.programmer.c1"}, PermissionDecided),
    ("reject", {"gate": "r1.programmer.c1"}, PermissionDecided),
)


@pytest.mark.parametrize("both", [False, True], ids=["server", "server and driver"])
@pytest.mark.parametrize(("verb", "body", "kind"), DECISIONS, ids=[verb for verb, _, _ in DECISIONS])
def test_a_message_on_its_way_to_the_driver_is_taken_once(
    driven: Sandbox, tmp_path: Path, verb: str, body: dict[str, Any], kind: type[Event], both: bool
) -> None:
    driver = driven.start("run", "--simulate", str(driven.script_path))
    driven.wait_for_event("noted", "programmer", process=driver)
    run, server = driven.run_id, MortalServer(driven.wd, driven.environment, tmp_path)
    os.kill(driver.pid, signal.SIGSTOP)
    asking = threading.Thread(target=server.ask, args=(f"/api/runs/{run}/{verb}", body), daemon=True)
    asking.start()
    folder = inbox_folder(driven.wd / ".telos" / "logos.db")
    wait_for(lambda: folder.is_dir() and [*folder.glob("[!.]*.json")], "the message")
    server.kill()
    asking.join(LAST_RESORT)
    assert driven.events(kind) == []
    if both:
        driver.kill()
        driver.wait()
        (tmp_path / "go").touch()
        driven.start("resume", "--simulate", str(driven.script_path))
    else:
        os.kill(driver.pid, signal.SIGCONT)
    if both and kind is PermissionDecided:
        # Nobody presses a key in a terminal whose driver has died: the prompt is told again, and can be answered then.
        wait_for(lambda: len(driven.events(RunResumed)) == 1, "the resumed run")
        assert len(driven.events(kind)) <= 1
    else:
        wait_for(lambda: driven.events(kind), "the event")
    wait_for(lambda: not [*folder.glob("[!.]*.json")], "the message to be taken")
    assert len(driven.events(kind)) <= 1


@pytest.mark.parametrize("both", [False, True], ids=["server", "server and driver"])
def test_a_driver_that_is_being_stopped_ends_without_the_server(driven: Sandbox, tmp_path: Path, both: bool) -> None:
    driven.script({"programmer": [{"run": until_exists(tmp_path / "go")}]})
    driver = driven.start("run", "--simulate", str(driven.script_path))
    driven.wait_for_event("turn_sent", "programmer", process=driver)
    run, server = driven.run_id, MortalServer(driven.wd, driven.environment, tmp_path)
    os.kill(driver.pid, signal.SIGSTOP)
    asking = threading.Thread(target=server.ask, args=(f"/api/runs/{run}/stop", {}), daemon=True)
    asking.start()
    pending = psutil.Process(driver.pid)
    wait_for(lambda: _is_told_to_end(pending.pid), "the signal")
    server.kill()
    asking.join(LAST_RESORT)
    if both:
        driver.kill()
    else:
        os.kill(driver.pid, signal.SIGCONT)
    assert wait_for_exit(driver) in (143, KILLED)
    assert driven("status", "--json").json["driver_pid"] is None
    (tmp_path / "go").touch()
    assert driven("resume", "--simulate", str(driven.script_path), "--recreate").code == 0
    assert Counter(driven.asked).most_common(1)[0][1] <= 2
    assert len([turn for turn in driven.asked if turn != "r1.programmer.c1"]) == len(set(driven.asked)) - 1


def _is_told_to_end(pid: int) -> bool:
    """Whether SIGTERM waits for a process that is stopped."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(mask >> (signal.SIGTERM - 1) & 1 for mask in masks)
