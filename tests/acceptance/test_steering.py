"""What a person decides and says reaches a live driver, or the log where there is none: once, from anywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import logos
from logos.adapters.inbox import inbox_folder
from logos.domain.events import PermissionDecided, PersonSaid, RunAbandoned
from logos.domain.turns import Outcome
from logos.errors import UsageError
from logos.testing import ScriptedAgents
from tests.acceptance.test_simulation import IN_A_HURRY
from tests.support.isolation import clean_env
from tests.support.sandbox import LOGOS, Sandbox, Started, ended
from tests.support.waiting import LAST_RESORT, until_exists, wait_for, wait_for_exit


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A repository whose analyst takes until a file `go` exists."""
    # Some commands look at every run that is known: not at those of all tests before.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    site = Sandbox.of_repository(tmp_path / "repo", **IN_A_HURRY)
    site.script({"analyst": [{"run": until_exists(tmp_path / "go"), "say": "ANALYST_SUMMARY: done\n"}]})
    yield site
    (tmp_path / "go").touch()
    site("stop")
    site.close()
    wait_for(lambda: site.left_behind() == [], site.left_behind)


def start(site: Sandbox, *more: str) -> Started:
    """A driver whose analyst is at work."""
    driver = site.start("run", "--simulate", str(site.script_path), *more)
    site.wait_for_event("turn_sent", "analyst", process=driver)
    return driver


def inbox(site: Sandbox) -> list[str]:
    folder = inbox_folder(site.wd / ".telos" / "logos.db")
    # A message is there once it is whole.
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(name for name in names if not name.startswith("."))


def said(site: Sandbox) -> list[str]:
    return [event.text for event in site.events(PersonSaid)]


def test_a_live_driver_takes_what_a_person_says_at_once(site: Sandbox) -> None:
    driver = start(site)
    done = site("tell", site.run_id, "programmer", "keep the flag", "--json")
    assert done.code == 0, done.err
    # The analyst is still at work.
    assert not site.answered
    (event,) = site.events(PersonSaid)
    assert (event.text, event.agent) == ("keep the flag", "programmer")
    assert event.message
    assert inbox(site) == []
    assert done.json["seq"] == next(record.seq for record in site.records() if record.event == event)
    assert done.json["next"] == f"logos log --follow {site.run_id}"
    (site.wd.parent / "go").touch()
    assert ended(driver).code == 0


def test_without_a_driver_it_is_recorded_at_once_and_the_run_can_be_resumed(site: Sandbox) -> None:
    driver = start(site)
    assert site("stop").code == 0
    assert ended(driver).code == 143
    done = site("tell", site.run_id[:5], "keep the flag")
    assert done.code == 0, done.err
    assert f"next: logos resume {site.run_id}" in done.out
    assert said(site) == ["keep the flag"]
    (site.wd.parent / "go").touch()
    assert site("resume", "--simulate", str(site.script_path)).code == 0
    assert said(site) == ["keep the flag"]


def test_a_run_that_has_ended_takes_nothing(site: Sandbox) -> None:
    (site.wd.parent / "go").touch()
    assert site("run", "--simulate", str(site.script_path)).code == 0
    done = site("tell", site.run_id, "keep the flag")
    assert done.code == 2
    assert "has ended: PASSED" in done.err
    assert said(site) == []
    assert inbox(site) == []


def test_a_run_is_found_from_any_folder(site: Sandbox, tmp_path: Path) -> None:
    driver, elsewhere = start(site), tmp_path / "elsewhere"
    elsewhere.mkdir()
    away, run = site.at(elsewhere), site.run_id
    assert away("tell", run, "from elsewhere").code == 0
    assert said(site) == ["from elsewhere"]
    status = away("status", run, "--json")
    assert status.json["run"] == run, status.err
    for command in (["log", run], ["show", run], ["cost", run], ["report", run], ["proof", run]):
        done = away(*command)
        assert done.code == 0, (command, done.err)
    listed = away("runs", "--all", "--json").json["runs"]
    assert [(row["run"], row["wd"]) for row in listed if row["run"] == run] == [(run, str(site.wd))]
    assert away("runs", "--json").json["runs"] == []
    done = away("stop", run)
    assert done.code == 0, done.err
    assert f"--wd {site.wd}" in done.out
    assert ended(driver).code == 143


@pytest.mark.long
def test_a_chosen_work_dir_is_the_only_one_that_is_searched(site: Sandbox, tmp_path: Path) -> None:
    start(site)
    (tmp_path / "elsewhere").mkdir()
    done = site.at(tmp_path / "elsewhere")("tell", site.run_id, "hello", "--wd", str(tmp_path / "elsewhere"))
    assert done.code == 2
    assert said(site) == []


@pytest.mark.long
def test_a_stopped_driver_takes_it_when_it_goes_on_and_who_sends_is_told_meanwhile(site: Sandbox) -> None:
    driver = start(site)
    os.kill(driver.pid, signal.SIGSTOP)
    sender = site.start("tell", site.run_id, "wake up")
    wait_for(lambda: inbox(site), "the message", process=sender)
    assert said(site) == []
    os.kill(driver.pid, signal.SIGCONT)
    assert wait_for_exit(sender) == 0
    assert said(site) == ["wake up"]
    assert inbox(site) == []


@pytest.mark.long
def test_a_message_to_a_driver_that_is_killed_is_taken_by_its_sender_once(site: Sandbox) -> None:
    driver = start(site)
    os.kill(driver.pid, signal.SIGSTOP)
    sender = site.start("tell", site.run_id, "before you die")
    wait_for(lambda: inbox(site), "the message", process=sender)
    driver.kill()
    driver.wait()
    done = ended(sender)
    assert done.code == 0, done.err
    assert said(site) == ["before you die"]
    assert inbox(site) == []


def test_a_message_whose_sender_was_killed_is_taken_by_the_next_driver_once(site: Sandbox) -> None:
    driver = start(site)
    os.kill(driver.pid, signal.SIGSTOP)
    sender = site.start("tell", site.run_id, "last words")
    wait_for(lambda: inbox(site), "the message", process=sender)
    for process in (sender, driver):
        process.kill()
        process.wait()
    assert said(site) == []
    (site.wd.parent / "go").touch()
    assert site("resume", "--simulate", str(site.script_path)).code == 0
    assert said(site) == ["last words"]
    assert inbox(site) == []


@pytest.mark.long
def test_a_person_who_gives_up_waiting_takes_the_message_back(site: Sandbox) -> None:
    driver = start(site)
    os.kill(driver.pid, signal.SIGSTOP)
    sender = site.start("tell", site.run_id, "never mind")
    wait_for(lambda: inbox(site), "the message", process=sender)
    sender.send_signal(signal.SIGINT)
    assert ended(sender).code == 130
    assert inbox(site) == []
    os.kill(driver.pid, signal.SIGCONT)
    (site.wd.parent / "go").touch()
    assert ended(driver).code == 0
    assert said(site) == []


def test_a_driver_takes_what_is_for_another_run_of_its_log(site: Sandbox) -> None:
    first = start(site)
    assert site("stop").code == 0
    ended(first)
    blocked = site.run_id
    script = site.wd.parent / "levels.yaml"
    script.write_text(json.dumps({"agents": {"L9": [{"run": until_exists(site.wd.parent / "go")}]}}))
    build = site.start("build", "pay by invoice", "--simulate", str(script))
    wait_for(lambda: len(site.logs()) == 2 and site.has_event("turn_sent", "L9"), "the build", process=build)
    done = site("tell", blocked, "for later")
    assert done.code == 0, done.err
    assert [event.text for event in site.events(PersonSaid, blocked)] == ["for later"]
    assert site.events(PersonSaid) == []
    assert not site.events(RunAbandoned, blocked)


# --- permissions


class AskingTester(ScriptedAgents):
    """Its tester asks for permission on its screen, and works when it gets a key."""

    keys: list[str]
    held: dict[str, str]

    def send_input(self, terminal_id: str, message: str) -> None:
        if "Role: tester" in message and terminal_id not in self.held:
            self.held[terminal_id] = message
        else:
            super().send_input(terminal_id, message)

    def get_status(self, terminal_id: str) -> str:
        return "waiting_user_answer" if self.held.get(terminal_id) else super().get_status(terminal_id)

    def get_screen(self, terminal_id: str) -> str:
        return "may I run `make test`?" if self.held.get(terminal_id) else "working"

    def press_key(self, terminal_id: str, key: str) -> None:
        self.keys.append(key)
        message, self.held[terminal_id] = self.held[terminal_id], ""
        super().send_input(terminal_id, message)


@pytest.mark.parametrize(("verb", "key"), [("approve", "Enter"), ("reject", "Escape")])
def test_a_permission_prompt_is_answered_from_another_terminal(repository: Sandbox, verb: str, key: str) -> None:
    agents = repository.hire()
    host = AskingTester(agents.folder, agents.script, agents.change_signal)
    host.keys, host.held = [], {}
    repository.set(MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(repository.run, host)
        try:
            wait_for(lambda: repository.logs() and repository.has_event("noted", "tester"), running.done)
            run = repository.run_id
            # In processes of their own: a command in this one would change its folder and environment.
            status = repository.apart("status", "--json").json
            assert [(one["kind"], one["id"]) for one in status["waiting"]] == [("permission", "r1.tester.c1")]
            assert "may I run `make test`?" in status["waiting"][0]["text"]
            done = repository.apart(verb, run)
            assert done.code == 0, done.err
            assert running.result(LAST_RESORT).outcome is Outcome.PASSED
        finally:
            # A test that fails ends, too.
            for terminal in [terminal for terminal, held in host.held.items() if held]:
                host.press_key(terminal, "")
    assert host.keys == [key]
    (decided,) = repository.events(PermissionDecided)
    assert (decided.turn, decided.granted) == ("r1.tester.c1", verb == "approve")
    with pytest.raises(UsageError, match="no driver"):
        logos.grant(run, "r1.tester.c1", True, wd=repository.wd)


# --- agents


def as_agent(site: Sandbox, *command: str, clean: bool) -> subprocess.CompletedProcess[str]:
    """A command as an agent gives it: below a marked process, with a marked environment or one that it has cleaned."""
    inner = [str(LOGOS), *command]
    code = "import os, subprocess, sys; env = {} if sys.argv[1] else None; "
    code += "sys.exit(subprocess.run(sys.argv[2:], env=env).returncode)"
    return subprocess.run(
        [sys.executable, "-c", code, "clean" if clean else "", *inner],
        cwd=site.wd,
        env=clean_env(**site.environment, LOGOS_PROCESS="0123"),
        capture_output=True,
        text=True,
        check=False,
    )


COMMANDS = [
    ["approve", "RUN"],
    ["reject", "RUN", "no"],
    ["tell", "RUN", "approve it"],
    ["stop", "RUN"],
    ["resume", "RUN"],
    ["fork", "RUN"],
    ["rollback", "RUN@1"],
    ["reset", "RUN"],
    ["gc"],
]


@pytest.mark.parametrize("clean", [False, True], ids=["marked", "cleaned"])
def test_an_agent_approves_nothing(site: Sandbox, clean: bool) -> None:
    refused(site, [["approve", "RUN"]], clean=clean)


@pytest.mark.long
@pytest.mark.parametrize("clean", [False, True], ids=["marked", "cleaned"])
def test_an_agent_decides_nothing(site: Sandbox, clean: bool) -> None:
    refused(site, COMMANDS, clean=clean)


def refused(site: Sandbox, commands: list[list[str]], *, clean: bool) -> None:
    if clean and sys.platform != "linux":
        pytest.skip("only Linux tells the environment of other processes")
    driver = start(site)
    before = site.records()
    for words in commands:
        command = [word.replace("RUN", site.run_id) for word in words]
        done = as_agent(site, *command, clean=clean)
        assert done.returncode == 2, (command, done.stderr)
        assert "an agent cannot" in done.stderr, command
    assert site.records() == before
    assert inbox(site) == []
    assert driver.poll() is None
    # Looking is not deciding.
    assert as_agent(site, "status", clean=False).returncode == 0


def test_a_terminal_of_a_server_is_an_agent_s(site: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    start(site)
    monkeypatch.setenv("CAO_TERMINAL_ID", "abcd1234")
    with pytest.raises(UsageError, match="CAO_TERMINAL_ID"):
        logos.say_to(site.run_id, "I approve of myself", wd=site.wd)
    assert said(site) == []


def test_an_agent_may_use_logos_for_work_of_its_own(tmp_path: Path) -> None:
    """The tests of a project that uses Logos: their work dirs and their state folder are not the person's."""
    own = Sandbox.of_repository(tmp_path / "own", **IN_A_HURRY)
    own.script({})
    own.set(XDG_STATE_HOME=str(tmp_path / "state"))
    assert own.apart("run", "--simulate", str(own.script_path)).code == 0
    code = "import os, subprocess, sys; del os.environ['LOGOS_PROCESS']; "
    code += f"os.environ['XDG_STATE_HOME'] = {str(tmp_path / 'state')!r}; "
    code += "sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(LOGOS), "gc"],
        cwd=own.wd,
        env=clean_env(LOGOS_PROCESS="0123"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
