"""A person who is elsewhere is told by real services: once, with run and page, without secrets, and never at a run's cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.supervisor import identity
from logos.app.notifications import Notifier
from logos.app.setting_sources import load_settings
from logos.domain.events import Event, GateOpened, Recorded, RunStarted
from logos.domain.gates import GateKind
from logos.domain.ledger import Ledger
from logos.domain.turns import Outcome, RunId, TurnId
from logos.errors import RunPaused
from logos.flows.fold import RunFold, flow_for
from logos.testing import MemoryLog, ScriptedAgents, script
from logos.views.notices import Notice, NoticeKind, stopped
from logos.views.run import RunView, view_run
from tests.builders import a_plan
from tests.support.receivers import Receiver, receiving
from tests.support.sandbox import Sandbox
from tests.support.waiting import wait_for


def served_by(url: str) -> dict[str, Any]:
    """What a server of the page says of itself, in this process."""
    return {"url": url, "pid": os.getpid(), "process": identity(os.getpid())}


@pytest.fixture
def service() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user state folder of one test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "logos"


def sent_json(service: Receiver) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in service.requests]


def titled(service: Receiver, title: str) -> list[str]:
    """The texts of the messages with a title."""
    return [message["message"] for message in sent_json(service) if message["title"] == title]


def test_the_end_of_a_run_is_told_with_its_run_and_folder(sandbox: Sandbox, service: Receiver) -> None:
    done = sandbox.run(NOTIFICATIONS_URLS=f"json://{service.address}/x")
    (message,) = sent_json(service)
    assert (message["title"], message["type"]) == ("Logos: PASS, unverified", "success")
    assert message["message"].splitlines() == [done.reason, f"run {done.run} in {sandbox.wd}"]


def test_ntfy_gets_the_same_through_apprise(sandbox: Sandbox, service: Receiver) -> None:
    done = sandbox.run(NOTIFICATIONS_URLS=f"ntfy://{service.address}/topic")
    (message,) = sent_json(service)
    assert (message["topic"], message["title"]) == ("topic", "Logos: PASS, unverified")
    assert f"run {done.run}" in message["message"]


def test_every_address_gets_every_message(sandbox: Sandbox, service: Receiver) -> None:
    urls = f"json://{service.address}/one\njson://{service.address}/two"
    sandbox.run(NOTIFICATIONS_URLS=urls, NTFY_TOPIC=f"http://{service.address}/three")
    assert sorted(request.path for request in service.requests) == ["/one", "/three", "/two"]


def test_a_reached_budget_is_told(sandbox: Sandbox, service: Receiver) -> None:
    with pytest.raises(RunPaused):
        sandbox.run(NOTIFICATIONS_URLS=f"json://{service.address}/x", MAX_MINUTES="0.0000001")
    (text,) = titled(service, "Logos: stopped by a limit")
    assert "limits.max_minutes reached" in text


class Quiet(ScriptedAgents):
    """Its tester is at work, and cannot be seen to be, until `until` is set."""

    until: threading.Event

    def send_input(self, terminal_id: str, message: str) -> None:
        agent, work = self.take(terminal_id, message)
        if work is None:
            return

        def do() -> None:
            if self.profiles[terminal_id] == "tester":
                self.until.wait()
            agent.output = work()
            self.change_signal.wake()

        threading.Thread(target=do, daemon=True).start()

    def get_status(self, terminal_id: str) -> str:
        working = self.profiles[terminal_id] == "tester" and not self.until.is_set()
        return "processing" if working else super().get_status(terminal_id)


@pytest.mark.long
def test_a_silent_agent_is_told_once(sandbox: Sandbox, service: Receiver) -> None:
    host = Quiet(sandbox.wd / ".tmp" / "agent-responses", script())
    host.until = threading.Event()

    def release() -> None:
        wait_for(lambda: any("r1.tester" in text for text in titled(service, "Logos: an agent is silent")))
        host.until.set()

    threading.Thread(target=release, daemon=True).start()
    done = sandbox.run(
        host,
        NOTIFICATIONS_URLS=f"json://{service.address}/x",
        NOTIFICATIONS_STALLED_MINUTES="0.01",
        START_AGENT="tester",
    )
    assert done.outcome is Outcome.PASSED
    (text,) = titled(service, "Logos: an agent is silent")
    assert text.startswith("r1.tester.c1 has given no sign of life for")


GATE = GateOpened(TurnId("r1.gate.after_plan"), GateKind.AFTER_PLAN, "Is this the right plan?")


def written(*events: Event) -> tuple[RunView, list[Recorded]]:
    """A run with these events, as another driver finds it."""
    log, run = MemoryLog(), RunId("k3ab")
    records = [log.append(run, event, after) for after, event in enumerate(events)]
    return view_run(run, records, lambda *_: pytest.fail("no report")), records


class Drivers:
    """Notifiers of one run, one after the other, as its drivers have them."""

    def __init__(self, service: Receiver, wd: Path, **settings: str) -> None:
        url = f"json://{service.address}/x"
        self.settings = load_settings(None, {"WD": str(wd), "NOTIFICATIONS_URLS": url, **settings})
        self.told: list[str] = []

    def drive(self, earlier: RunView | None, *new: Recorded, wall: float = 0.0) -> None:
        """Continue `earlier` with new events, and end when everything is sent."""
        notifier = Notifier(self.settings, RunId("k3ab"), self.told.append, earlier, wall=lambda: wall)
        fold = RunFold[Any](RunId("k3ab"), flow_for(RunStarted(a_plan()), lambda *_: pytest.fail("no report")))
        for record in new:
            fold.add(record)
            notifier.watch(record, fold.state, Ledger())
        notifier.close()


def test_an_open_gate_is_told_once_by_all_drivers_together(sandbox: Sandbox, service: Receiver) -> None:
    view, records = written(RunStarted(a_plan()), GATE)
    drivers = Drivers(service, sandbox.wd)
    drivers.drive(None, *records)
    drivers.drive(view)
    drivers.drive(view)
    (text,) = titled(service, "Logos: a run waits for you")
    assert text.startswith("Is this the right plan?")


def test_a_gate_that_the_killed_driver_had_no_time_to_tell_of_is_told_by_the_next(
    sandbox: Sandbox, service: Receiver
) -> None:
    view, _ = written(RunStarted(a_plan()), GATE)
    Drivers(service, sandbox.wd).drive(view)
    assert len(titled(service, "Logos: a run waits for you")) == 1


def test_two_drivers_at_once_send_a_message_once(sandbox: Sandbox, service: Receiver) -> None:
    _, records = written(RunStarted(a_plan()), GATE)
    drivers = Drivers(service, sandbox.wd)
    both = [threading.Thread(target=drivers.drive, args=(None, *records)) for _ in range(4)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert len(service.requests) == 1


def test_a_message_that_may_have_arrived_is_not_sent_again(sandbox: Sandbox, service: Receiver) -> None:
    """The service answers with an error; whether it has passed the message on is not known."""
    service.status = 500
    view, records = written(RunStarted(a_plan()), GATE)
    drivers = Drivers(service, sandbox.wd)
    drivers.drive(None, *records)
    drivers.drive(view)
    assert len(service.requests) == 1
    assert "notification not sent: notifications.urls, number 1 (json)" in drivers.told[0]


def test_a_person_is_reminded_of_an_open_gate_but_not_of_time_without_a_driver(
    sandbox: Sandbox, service: Receiver
) -> None:
    view, records = written(RunStarted(a_plan()), GATE)
    drivers, opened = Drivers(service, sandbox.wd), records[-1].at
    clock = [opened]
    notifier = Notifier(drivers.settings, RunId("k3ab"), drivers.told.append, view, wall=lambda: clock[0])
    wait_for(lambda: len(service.requests) == 1)
    clock[0] = opened + 3600
    # An event wakes it before the hour is over.
    notifier.watch(records[0], view.state, Ledger())
    wait_for(lambda: titled(service, "Logos: a run still waits for you"))
    notifier.close()
    drivers.drive(view, wall=opened + 3601)
    assert len(titled(service, "Logos: a run still waits for you")) == 1


def test_a_service_that_never_answers_ends_no_run(sandbox: Sandbox) -> None:
    with receiving(answering=False) as service:
        done = sandbox.run(NOTIFICATIONS_URLS=f"json://{service.address}/x?rto=0.2&cto=0.2")
    assert done.outcome is Outcome.PASSED
    assert any("notification not sent: notifications.urls, number 1 (json)" in text for text in sandbox.told)


def test_nobody_at_the_address_ends_no_run(sandbox: Sandbox, service: Receiver) -> None:
    port = service.port
    done = sandbox.run(NOTIFICATIONS_URLS=f"json://127.0.0.1:1/x\njson://127.0.0.1:{port}/x")
    assert done.outcome is Outcome.PASSED
    assert len(service.requests) == 1


def test_a_wrong_address_is_named_and_the_others_are_used(sandbox: Sandbox, service: Receiver) -> None:
    sandbox.run(NOTIFICATIONS_URLS=f"pigeon://top-secret-loft\njson://{service.address}/x")
    assert len(service.requests) == 1
    (warning,) = [text for text in sandbox.told if "notifications.urls" in text]
    assert "number 1 (pigeon) is not an address that apprise knows" in warning
    assert "top-secret-loft" not in warning


def test_a_message_has_no_secret(sandbox: Sandbox, service: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "hunter2-hunter2")
    notifier = Notifier(Drivers(service, sandbox.wd).settings, RunId("k3ab"), sandbox.told.append)
    notifier.send(stopped(3, "the server refused the key hunter2-hunter2 and \x1b[31mghp_abcdefghijklmnopqrstuv"))
    notifier.close()
    (message,) = sent_json(service)
    assert "hunter2" not in message["message"]
    assert "ghp_" not in message["message"]
    assert "\x1b" not in message["message"]


def test_addresses_are_not_in_the_log(sandbox: Sandbox, service: Receiver) -> None:
    """Agents can read it."""
    url = f"json://ada:hunter2-hunter2@{service.address}/x"
    sandbox.run(LOGOS_NOTIFICATIONS_URLS=url)
    assert len(service.requests) == 1
    (started,) = sandbox.events(RunStarted)
    assert "notifications.urls" not in {given.key for given in started.given}
    kept = [path.read_bytes() for path in (sandbox.wd / ".telos").rglob("*") if path.is_file()]
    assert not any(b"hunter2" in content for content in kept)
    assert not any("hunter2" in text for text in sandbox.told)


def test_a_resumed_run_is_told_of_through_the_addresses_of_its_command(sandbox: Sandbox, service: Receiver) -> None:
    with pytest.raises(RunPaused):
        sandbox.run(NOTIFICATIONS_URLS=f"json://{service.address}/first", MAX_MINUTES="0.0000001")
    sandbox.run(NOTIFICATIONS_URLS=f"json://{service.address}/second", MAX_MINUTES="100", RESUME="1")
    assert [request.path for request in service.requests] == ["/first", "/second"]


def test_a_message_links_to_the_page_while_it_is_served(sandbox: Sandbox, service: Receiver, state: Path) -> None:
    state.mkdir(parents=True)
    (state / "web.json").write_text(json.dumps(served_by("http://127.0.0.1:8123/")))
    done = sandbox.run(NOTIFICATIONS_URLS=f"json://{service.address}/x")
    assert titled(service, "Logos: PASS, unverified")[0].endswith(f"\nhttp://127.0.0.1:8123/runs/{done.run}")


@pytest.mark.parametrize(
    "content",
    [
        # The process with this number is another one now.
        json.dumps({**served_by("http://127.0.0.1:8123"), "process": ["long", "gone"]}),
        json.dumps(served_by("javascript:alert(1)")),
        json.dumps(served_by("http://127.0.0.1:8123/?token=1")),
        "[]",
        "{",
    ],
    ids=("another process", "a script", "a token", "a list", "garbage"),
)
def test_a_page_that_is_not_there_is_not_linked(sandbox: Sandbox, service: Receiver, state: Path, content: str) -> None:
    state.mkdir(parents=True)
    (state / "web.json").write_text(content)
    sandbox.run(NOTIFICATIONS_URLS=f"json://{service.address}/x")
    assert "://" not in titled(service, "Logos: PASS, unverified")[0]


def test_without_a_home_folder_messages_are_sent(
    sandbox: Sandbox, service: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    drivers = Drivers(service, sandbox.wd)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "not/absolute")
    notifier = Notifier(drivers.settings, RunId("k3ab"), drivers.told.append)
    for _ in range(2):
        notifier.send(Notice(NoticeKind.ENDED, 3, "Logos: FAIL", "it failed"))
    notifier.close()
    assert len(service.requests) == 1


def test_commands_that_notify_nobody_import_no_apprise(sandbox: Sandbox) -> None:
    code = (
        "import sys; from logos.cli import main\n"
        "for words in (['--help'], ['status'], ['run', 'x', '--simulate', 's.yaml', '--test', 'true']): main(words)\n"
        "print('loaded:', sorted({'apprise', 'opentelemetry', 'google.protobuf'} & set(sys.modules)))"
    )
    script_file = sandbox.script()
    code = code.replace("s.yaml", str(script_file))
    ran = subprocess.run([sys.executable, "-c", code], cwd=sandbox.wd, capture_output=True, text=True, check=False)
    assert ran.stdout.endswith("loaded: []\n"), ran.stderr
    assert sandbox.asked != []
