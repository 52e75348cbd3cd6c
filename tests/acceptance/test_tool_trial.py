"""A build tries its setup and tools before the first turn is paid, and asks a person about a tool that cannot run."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from logos.domain.events import CheckRan, TurnAsked
from tests.acceptance.test_builds import FAST, TELOS, tool
from tests.support.sandbox import Done, Sandbox, ended
from tests.support.waiting import until_exists, wait_for

QUICK = ("--levels", "L2-L1")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Sandbox]:
    site = Sandbox.of_repository(tmp_path / "repo", **FAST)
    site.script()
    yield site
    site.close()


def setup(command: str) -> str:
    return f"[worktree]\nsetup = {json.dumps(command)}\n"


def assert_stopped_before_a_run(site: Sandbox, done: Done, *words: str) -> None:
    """Exit 2, one line with these words and a hint; no run, no agent, no worktree."""
    assert done.code == 2, done.err
    error = done.json["error"]
    assert all(word in error for word in words), error
    assert "no agent was asked" in error
    assert "[worktree] setup" in done.json["hint"]
    assert ".venv" in done.json["hint"]
    assert site.logs() == {}
    site.assert_tidy()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("pytst -q", "was not found (exit 127)"),
        ("./shop.py", "may not be executed (exit 126)"),
        ("python3 -m no_such_module", "its Python has no module no_such_module"),
        ("make no-such-target", "make has no such target"),
    ],
)
def test_a_tool_that_cannot_run_stops_a_build_before_its_first_turn(site: Sandbox, command: str, says: str) -> None:
    site.set_telos(TELOS + tool(2, command, "tests") + tool(1, "true", "lint"))
    done = site.build("pay by invoice")
    assert_stopped_before_a_run(site, done, "tests", command, says)
    assert "trying L1 lint: `true`" in done.err


def test_a_failing_setup_stops_a_build_with_its_output(site: Sandbox) -> None:
    site.set_telos(TELOS + tool(2, "touch $LOGOS_ROOT/tried") + setup("echo no such package; exit 9"))
    done = site.build("pay by invoice")
    assert_stopped_before_a_run(site, done, "setup", "echo no such package; exit 9", "exit code 9")
    assert "  no such package" in done.err
    assert not (site.wd / "tried").exists()


def test_tools_are_tried_where_setup_has_run_and_a_red_one_is_only_told(site: Sandbox) -> None:
    proof = 'test -e set-up && test -e "$LOGOS_ROOT/shop.py" && (test -e feature.py || ! echo feature.py is missing)'
    (site.wd / ".gitignore").write_text("set-up\n")
    site.git("add", ".gitignore")
    site.set_telos(TELOS + tool(2, proof) + setup("touch set-up"))
    done = site.build("pay by invoice", *QUICK)
    assert done.code == 0, done.err
    assert "trying setup `touch set-up`" in done.err
    assert "L2 proof fails now (exit 1)" in done.err
    assert "  feature.py is missing" in done.err
    # $LOGOS_ROOT is also there for the check that counts.
    assert [check.exit_code for check in site.events(CheckRan)] == [0]


def test_a_tool_that_needs_a_file_that_git_ignores_stops_a_build_and_the_file_is_named(site: Sandbox) -> None:
    (site.wd / ".gitignore").write_text("generated.py\ncache/\n")
    site.git("add", ".gitignore")
    (site.wd / "cache").mkdir()
    (site.wd / "generated.py").write_text("version = 1\n")
    (site.wd / "cache" / "old").touch()
    site.set_telos(TELOS + tool(2, "python3 -c 'import generated'", "tests") + tool(1, "test -e feature.py", "lint"))
    done = site.build("pay by invoice")
    said = "it fails in a new worktree (exit 1) and passes with files of your work dir that git ignores: generated.py"
    assert_stopped_before_a_run(site, done, "tests", said)
    assert "L1 lint fails now (exit 1)" in done.err
    assert "No module named 'generated'" in done.err
    assert (site.wd / "cache" / "old").exists()
    site.set_telos(f"{TELOS}{tool(2, 'test -e generated.py')}{setup('cp $LOGOS_ROOT/generated.py .')}")
    # A clean room has nothing from the work dir that git ignores: it needs a setup of its own.
    done = site.build("pay by invoice", *QUICK)
    assert (done.code, "works in the work dir and not in a clean room" in done.err) == (1, True)
    done = site.build("pay by invoice", *QUICK, "--set", "proof.setup=touch generated.py")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("tools", "verified"), [(tool(2, "true"), True), (tool(1, "true"), False), ("# no tools\n", False)]
)
def test_a_build_that_no_tests_prove_is_unverified(site: Sandbox, tools: str, verified: bool) -> None:
    site.set_telos(TELOS + tools)
    done = site.build("pay by invoice", *QUICK)
    assert (done.code, done.json["outcome"], done.json["verified"]) == (0, "PASSED", verified), done.err
    assert site.build_state["verified"] is verified
    assert ("PASSED, unverified" in site("status").out) != verified


def test_tools_of_levels_that_take_no_part_are_not_tried(site: Sandbox) -> None:
    site.set_telos(TELOS + tool(5, "no-such-program"))
    done = site.build("pay by invoice", *QUICK)
    assert done.code == 0, done.err


@pytest.mark.long
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_trial_that_is_stopped_leaves_nothing_for_the_next_build(site: Sandbox, sent: signal.Signals) -> None:
    # What lies beside the work dir is in no clean room.
    site.set(VERIFY_PASS="0")
    waits = 'cd "$LOGOS_ROOT/.."; touch tried; ' + until_exists("go")
    site.set_telos(TELOS + tool(2, waits))
    driver = site.start("build", "pay by invoice", *QUICK, "--simulate", str(site.script_path))
    wait_for((site.wd.parent / "tried").exists, "the tool", process=driver)
    driver.send_signal(sent)
    assert ended(driver).code in (143, -9)
    assert site.logs() == {}
    if sent is signal.SIGTERM:
        site.assert_tidy()
    (site.wd.parent / "go").touch()
    done = site.build("pay by invoice", *QUICK)
    assert done.code == 0, done.err
    site.assert_tidy(site.result)


def test_telos_check_tries_setup_and_tools_without_a_build(site: Sandbox) -> None:
    site.set_telos(TELOS + tool(1, "true", "lint") + tool(2, "echo red; exit 1", "tests") + setup("true"))
    done = site("telos", "--check", "--json")
    assert done.code == 0, done.err
    rows = [{key: row[key] for key in ("level", "name", "command", "exit_code", "runs")} for row in done.json["tools"]]
    assert rows == [
        {"level": "L1", "name": "lint", "command": "true", "exit_code": 0, "runs": True},
        {"level": "L2", "name": "tests", "command": "echo red; exit 1", "exit_code": 1, "runs": True},
    ]
    assert done.json["tools"][1]["output"] == "red"
    assert done.json["tools"][1]["seconds"] >= 0
    assert done.json["setup"]["runs"] is True
    assert "    red" in site("telos", "--check").out
    site.set_telos(TELOS + tool(2, "pytst", "tests"))
    done = site("telos", "--check")
    assert done.code == 2
    assert "L2 tests: a program of it was not found (exit 127)" in done.out
    assert "not found" in done.out
    assert site("telos", "--check", "--json").json["tools"][0]["runs"] is False
    assert site.logs() == {}
    site.assert_tidy()


# --- a tool that is lost in the middle of a build


@pytest.fixture
def blocked(site: Sandbox) -> Sandbox:
    """A build whose tool was there at its start and was gone when it counted."""
    (site.wd.parent / "installed").touch()
    site.set_telos(TELOS + tool(2, 'test -e "$LOGOS_ROOT/../installed" || no-such-program', "tests"))
    site.script({"L2": [{"edit": {"main.py": "x = 1\n"}, "run": 'rm "$LOGOS_ROOT/../installed"'}]})
    # What is installed beside the work dir is in no clean room.
    site.set(LOGOS_ROOT=str(site.wd), VERIFY_PASS="0")
    done = site.build("pay by invoice", *QUICK)
    assert done.code == 3, done.err
    return site


def test_a_tool_that_cannot_run_is_a_question_with_its_evidence(blocked: Sandbox) -> None:
    assert not any(".q1." in event.turn for event in blocked.events(TurnAsked))
    done = blocked("resolve")
    assert "cannot run: a program of it was not found (exit 127)" in done.out
    assert 'L2 tests: `test -e "$LOGOS_ROOT/../installed" || no-such-program` exited 127' in done.out
    assert "no-such-program: not found" in done.out
    assert "exited 127" in blocked("resolve", "--json").json["question"]["evidence"]


@pytest.mark.long
def test_a_mended_tool_is_run_again_and_no_agent_is_asked_about_it(blocked: Sandbox) -> None:
    asked = blocked.asked
    (blocked.wd.parent / "installed").touch()
    assert blocked("resolve", "1").code == 0
    done = blocked.build("--resume")
    assert done.code == 0, done.err
    assert blocked.asked == asked
    assert [check.exit_code for check in blocked.events(CheckRan)] == [127, 0]


@pytest.mark.long
def test_a_mended_setup_is_tried_and_run_again_in_existing_worktrees(blocked: Sandbox) -> None:
    asked = blocked.asked
    command = "test -e installed || no-such-program"
    blocked.set_telos(TELOS + tool(2, command, "tests") + setup("exit 5"))
    told = blocked("resolve", "I changed the setup")
    assert (told.code, "--reread" in told.out) == (0, True)
    done = blocked.build("--resume", "--reread")
    assert done.code == 2, done.err
    assert "exit code 5" in done.json["error"]
    blocked.set_telos(TELOS + tool(2, command, "tests") + setup("touch installed"))
    done = blocked.build("--resume", "--reread")
    assert done.code == 0, done.err
    assert blocked.asked == asked


@pytest.mark.long
def test_a_telos_that_was_changed_without_a_persons_word_is_named_and_ignored(blocked: Sandbox) -> None:
    blocked.set_telos(TELOS + tool(2, "true", "tests") + setup("touch $LOGOS_ROOT/../evil"))
    assert blocked("resolve", "1").code == 0
    done = blocked.build("--resume")
    # The tool as it was is run again, and still cannot run.
    assert done.code == 3, done.err
    assert "telos.toml: changed since the run started, and ignored; --reread" in done.err
    assert not (blocked.wd.parent / "evil").exists()


@pytest.mark.long
def test_a_person_can_hand_a_tool_that_cannot_run_to_the_levels(blocked: Sandbox) -> None:
    assert blocked("resolve", "2").code == 0
    (blocked.wd.parent / "installed").touch()
    blocked.build("--resume")
    assert any(".q1." in turn for turn in blocked.asked)
