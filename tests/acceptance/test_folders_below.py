"""Commands in a folder below the work dir: those that read look upward as git does; a run is not started by mistake."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logos.app.workdir import place_above
from logos.testing import PASS
from tests.support.sandbox import PROMPT, Sandbox

QUICK = ("--set", f"prompt={PROMPT}", "--set", "start_agent=tester", "--set", "limits.poll_seconds=0.02")
READING = ["status", "log", "runs", "cost", "report", "sessions", "proof", "record"]


def run_in(place: Sandbox, *more: str, says: str = PASS) -> int:
    return place("run", "--simulate", str(place.script({"tester": [{"say": says}]})), *QUICK, *more).code


@pytest.fixture
def below(repository: Sandbox) -> Sandbox:
    folder = repository.wd / "src" / "deep"
    folder.mkdir(parents=True)
    return repository.at(folder)


@pytest.mark.parametrize("command", READING)
def test_commands_that_read_look_upward(repository: Sandbox, below: Sandbox, command: str) -> None:
    assert run_in(repository) == 0
    here = repository(command)
    from_below = below(command)
    assert (here.code, from_below.code) == (0, 0), from_below.err
    assert repository.run_id in from_below.out
    assert not (below.wd / ".telos").exists()


def test_a_command_that_is_suggested_names_the_work_dir(repository: Sandbox, below: Sandbox) -> None:
    assert run_in(repository) == 0
    assert f"--wd {repository.wd}" in below("status").out


def test_what_two_events_changed_and_one_turn_are_shown_from_below(repository: Sandbox, below: Sandbox) -> None:
    assert run_in(repository) == 0
    assert below("diff", "1", "2").code == 0
    assert "RESULT: PASS" in below("show", repository.run_id, "r1.tester.c1").out


def test_a_log_of_its_own_comes_first(repository: Sandbox, below: Sandbox) -> None:
    assert run_in(repository) == 0
    assert run_in(below) == 0
    assert below.run_id in below("log").out
    assert repository.run_id not in below("log").out


def test_the_end_of_the_repository_is_the_end_of_the_search(repository: Sandbox, below: Sandbox) -> None:
    assert run_in(repository) == 0
    (below.wd / ".git").mkdir()
    assert "no run was started" in below("log").err


def test_outside_of_a_repository_nothing_is_searched(sandbox: Sandbox) -> None:
    assert run_in(sandbox) == 0
    (sandbox.wd / "below").mkdir()
    assert "no run was started" in sandbox.at(sandbox.wd / "below")("log").err


def test_a_link_in_the_place_of_the_folder_is_not_followed(repository: Sandbox, below: Sandbox, tmp_path: Path) -> None:
    assert run_in(repository) == 0
    (repository.wd / ".telos").rename(tmp_path / "planted")
    (repository.wd / ".telos").symlink_to(tmp_path / "planted")
    assert "no run was started" in below("log").err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("folder", [".", ".telos", "src"])
def test_a_folder_of_another_user_ends_the_search(repository: Sandbox, below: Sandbox, folder: str) -> None:
    assert run_in(repository) == 0
    assert place_above(below.wd) == repository.wd
    os.chown(repository.wd / folder, 4242, 4242)
    assert place_above(below.wd) is None


def test_a_command_that_writes_names_the_work_dir_above(repository: Sandbox, below: Sandbox) -> None:
    assert run_in(repository) == 0
    done = below("rollback", "1")
    assert done.code == 2
    assert f"--wd {repository.wd}" in done.err


@pytest.mark.parametrize("more", [(), ("--fresh",), ("--resume",)])
def test_a_second_run_is_not_started_below_an_unfinished_one(
    repository: Sandbox, below: Sandbox, more: tuple[str, ...]
) -> None:
    assert run_in(repository, "--set", "limits.max_rounds=9", says="no verdict at all") != 0
    done = below("run", "words", "--test", "true", *more)
    assert done.code == 2
    assert f"logos resume --simulate SCRIPT --wd {repository.wd}` continues it" in done.err
    assert "`--wd .` starts another one here" in done.err
    assert not (below.wd / ".telos").exists()
    assert run_in(below, "--wd", ".") == 0


def test_below_a_run_that_has_ended_another_one_may_start(repository: Sandbox, below: Sandbox) -> None:
    assert run_in(repository) == 0
    assert run_in(below) == 0
    assert repository.run_id != below.run_id
