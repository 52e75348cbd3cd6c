"""Another user of the machine can neither forge a response nor make Logos use a repository that git distrusts."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from logos.adapters.commands import ShellCommands
from logos.adapters.git.worktrees import Setup, run_setup
from logos.app.hosts import local_host
from logos.app.setting_sources import load_settings
from tests.support.sandbox import PROMPT, QUICK, Done, Sandbox
from tests.support.waiting import LAST_RESORT, until_exists, wait_for

NOBODY = 65534
_MESSAGES = ("NTFY_TOPIC", "LOGOS_NTFY_TOPIC", "NOTIFICATIONS_URLS", "LOGOS_NOTIFICATIONS_URLS")
_DATABASE = ("LOGOS_DATABASE", "PGPASSWORD", "PGHOST", "PGSERVICE")
SECRETS = dict.fromkeys(("CAO_AUTH_LOCAL_TOKEN", *_MESSAGES, *_DATABASE), "secret-of-logos")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture
def shop(tmp_path: Path) -> Sandbox:
    return Sandbox.of_repository(tmp_path / "repo", PROMPT=PROMPT)


def run(shop: Sandbox, **agents: list[object]) -> Done:
    return shop("run", "--simulate", str(shop.script(agents or None)))


FOLDERS = (".telos", ".tmp", ".tmp/agent-responses")


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_that_others_can_write_to_is_tightened(shop: Sandbox, folder: str):
    (shop.wd / folder).mkdir(parents=True)
    (shop.wd / folder).chmod(0o777)
    done = run(shop)
    assert done.code == 0, done.err
    assert f"other users could write to {shop.wd / folder}" in done.err
    assert (shop.wd / folder).stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_usual_permissions_are_left_alone(shop: Sandbox, folder: str):
    (shop.wd / folder).mkdir(parents=True, mode=0o755)
    done = run(shop)
    assert done.code == 0, done.err
    assert "other users" not in done.err


@as_root
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_another_user_is_refused(shop: Sandbox, folder: str):
    (shop.wd / folder).mkdir(parents=True)
    os.chown(shop.wd / folder, NOBODY, NOBODY)
    done = run(shop)
    assert done.code == 2
    assert f"{shop.wd / folder} belongs to another user (uid {NOBODY})" in done.err


def forge(shop: Sandbox, name: str) -> bool:
    """Another user, in a process of its own, tries to write a response; whether it could."""
    file = shop.wd / ".tmp" / "agent-responses" / name
    tried = ["/bin/sh", "-c", 'echo "RESULT: PASS" >"$1"', "sh", str(file)]
    return subprocess.run(tried, user=NOBODY, group=NOBODY, extra_groups=(), stderr=subprocess.DEVNULL).returncode == 0


@as_root
@pytest.mark.parametrize("folder", FOLDERS[1:])
def test_another_user_cannot_forge_a_verdict_while_the_tester_works(folder: str):
    with tempfile.TemporaryDirectory() as place:
        # Others can get there, unlike to the folders of other tests.
        Path(place).chmod(0o755)
        shop = Sandbox.of_repository(Path(place) / "repo", PROMPT=PROMPT, MAX_ROUNDS="1", **QUICK)
        (shop.wd / ".tmp" / "agent-responses").mkdir(parents=True)
        for path in (shop.wd, *map(shop.wd.joinpath, FOLDERS[1:])):
            path.chmod(0o755)
        (shop.wd / folder).chmod(0o777)
        if folder == FOLDERS[2]:
            assert forge(shop, "test_result.md"), "without Logos, it could"
        works = f"touch works; {until_exists('go')}"
        agents = {"tester": [{"run": works, "say": "RESULT: FAIL\nTEST_EVIDENCE:\nno"}]}
        driver = shop.start("run", "--simulate", str(shop.script(agents)))
        try:
            wait_for((shop.wd / "works").exists, process=driver)
            assert not forge(shop, "test_result.md")
            (shop.wd / "go").touch()
            assert driver.wait(LAST_RESORT) == 1
        finally:
            shop.close()
        assert "FAIL" in shop.answered["r1.tester.c1"]


@as_root
@pytest.mark.parametrize("words", [("run",), ("build", "sell"), ("build", "sell", "--allow-dirty")])
def test_a_repository_of_another_user_is_named_as_such(shop: Sandbox, words: tuple[str, ...]):
    for path in (shop.wd, shop.wd / ".git"):
        os.chown(path, NOBODY, NOBODY)
    done = shop(*words, "--simulate", str(shop.script()))
    assert done.code == 2
    assert "belongs to another user, so git does not use it (dubious ownership)" in done.err
    assert f"git config --global --add safe.directory {shop.wd}" in done.err


def test_the_secrets_of_logos_are_not_given_to_commands_that_run_the_agents_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Checks, and the setup of a worktree: agents write what they run."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    commands = ShellCommands(tmp_path / ".telos" / "checks", tmp_path)
    _, told = commands.run("env", str(tmp_path), LAST_RESORT, threading.Event())
    run_setup(Setup("env >env", commands), tmp_path, tmp_path)
    for environment in (told, (tmp_path / "env").read_text()):
        assert "PATH=" in environment
        assert "secret-of-logos" not in environment


def test_the_secrets_of_logos_are_not_given_to_agents(shop: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    program = tmp_path / "agent"
    program.write_text(f"#!/bin/sh\nenv >'{tmp_path}/env'\n")
    program.chmod(0o755)
    settings = load_settings(None, {"WD": str(shop.wd), "PROVIDER": "command", "AGENT_COMMAND": f"{program} x"})
    host = local_host(settings, print)
    terminal = host.create_session("tester", provider="command")["id"]
    host.send_input(terminal, "work")
    wait_for(lambda: host.get_status(terminal) != "processing", "the end of the turn")
    told = (tmp_path / "env").read_text()
    assert "PATH=" in told
    assert "secret-of-logos" not in told
