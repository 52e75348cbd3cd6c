"""What `logos run` promises to somebody who typed only what the README says: a PASS is verified, and work was done."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from logos.domain.events import ProofRan, RunResumed, RunStarted
from logos.domain.plans import CyclePlan, GivenSetting, SettingSource
from logos.domain.proof import ProofStep
from tests.support.sandbox import Done, Sandbox

HASTE = {"MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1", "POLL_SECONDS": "0.05", "EXPECT_CHANGE": ""}
WORK = {"programmer": [{"edit": {"bye.py": "def bye(): ...\n"}}]}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox.of_repository(tmp_path / "shop", {"hello.py": "def hello(): ...\n"}, **HASTE)
    sandbox.script(WORK)
    yield sandbox
    sandbox.close()


def run(shop: Sandbox, *arguments: str) -> Done:
    return shop("run", *arguments, "--simulate", str(shop.script_path))


# --- a PASS is verified where a test command is known


def test_a_pass_on_failing_tests_is_a_fail(shop: Sandbox) -> None:
    done = run(shop, "add bye()", "--test", "false", "--set", "limits.max_rounds=2")
    assert done.code == 1
    assert "FAILED: no PASS in 2 rounds" in done.out
    proofs = [(ran.step, ran.exit_code) for ran in shop.events(ProofRan)]
    assert proofs == [(ProofStep.BASELINE, 1), (ProofStep.RESULT, 1), (ProofStep.RESULT, 1)]


def test_a_pass_on_passing_tests_is_verified_and_says_so_to_programs(shop: Sandbox) -> None:
    document = run(shop, "add bye()", "--test", "test -f hello.py", "--json").json
    assert (document["outcome"], document["verified"]) == ("PASSED", True)
    state = json.loads((shop.wd / ".tmp" / "agnostic-3agents-loop-state.json").read_text())
    assert (state["final_status"], state["verified"]) == ("PASS", True)


def test_the_setup_that_init_writes_is_used_also_before_the_purpose_is_written(shop: Sandbox) -> None:
    assert shop("init").code == 0
    telos = shop.wd / "telos.toml"
    assert 'setup = ""' in telos.read_text()
    telos.write_text(telos.read_text().replace('setup = ""', 'setup = "mkdir installed"'))
    document = run(shop, "add bye()", "--test", "test -d installed", "--json").json
    assert (document["outcome"], document["verified"]) == ("PASSED", True)


BROKEN_TELOS = {
    "no TOML": ('purpose = "a"\n[worktree]\nsetup = "mkdir installed\n', r"is not valid TOML: [^\n]*line 3"),
    "another key": ('[worktree]\nsetpu = "mkdir installed"\n', r"worktree\.setpu: unknown key; known here: setup"),
}


@pytest.mark.parametrize(("text", "told"), BROKEN_TELOS.values(), ids=BROKEN_TELOS)
def test_a_setup_that_cannot_be_read_stops_a_run_before_its_first_turn(shop: Sandbox, text: str, told: str) -> None:
    (shop.wd / "telos.toml").write_text(text)
    done = run(shop, "add bye()", "--test", "true")
    assert done.code == 1
    assert re.search(rf"telos\.toml:? {told}", done.err), done.err
    assert shop.logs() == {}


@pytest.mark.parametrize("setting", ["proof.setup=true", "verify_pass=0"])
def test_a_telos_file_whose_setup_nobody_needs_is_no_error(shop: Sandbox, setting: str) -> None:
    (shop.wd / "telos.toml").write_text("purpose = \n")
    assert run(shop, "add bye()", "--test", "true", "--set", setting).code == 0


@pytest.mark.parametrize(
    ("command", "setup", "told"),
    [
        ("true", "", r"the tests pass now; one run takes [^,]+, the proof of a PASS at most 4 such runs"),
        ("false", "", r"the tests fail now \(exit 1\); a PASS needs them to pass; one run takes [^,]+, the proof"),
        ("true", "mkdir installed", r"one run takes [^,]+ after a setup of [^,]+, the proof of a PASS at most 4"),
        ("python3 -m unittest", "", r"the tests pass now \(0 tests\); a PASS needs tests that run; one run takes"),
    ],
)
def test_what_a_proof_will_cost_and_needs_is_told_before_the_first_turn(
    shop: Sandbox, command: str, setup: str, told: str
) -> None:
    if sys.version_info >= (3, 12) and "unittest" in command:
        command = f"{command} || test $? = 5"
    done = run(shop, "add bye()", "--test", command, "--set", f"proof.setup={setup}", "--set", "limits.max_rounds=1")
    assert re.search(told, done.err), done.err
    assert done.err.index("one run takes") < done.err.index("r1.analyst.c1 asked")


def test_a_pass_that_nobody_verified_is_called_so_everywhere(shop: Sandbox) -> None:
    done = run(shop, "add bye()", "--test", "false", "--set", "verify_pass=0")
    assert done.code == 0
    assert "PASSED, unverified: the tester reported PASS" in done.out
    for command in ("status", "runs", "log", "sessions", "report"):
        assert "PASSED, unverified" in shop(command).out, command
    document = shop("status", "--json").json
    assert (document["outcome"], document["verified"]) == ("PASSED", False)
    state = json.loads((shop.wd / ".tmp" / "agnostic-3agents-loop-state.json").read_text())
    assert (state["final_status"], state["verified"]) == ("PASS", False)


def test_the_environment_turns_verification_off(shop: Sandbox) -> None:
    shop.set(VERIFY_PASS="0")
    assert run(shop, "add bye()", "--test", "false").code == 0
    assert shop.events(ProofRan) == []


# --- work was done


def test_a_pass_for_which_nothing_was_changed_is_a_fail_with_that_reason(shop: Sandbox) -> None:
    shop.script({})
    done = run(shop, "add bye()", "--test", "true", "--set", "limits.max_rounds=2")
    assert done.code == 1
    assert "r1.changes 0 files changed since the run started" in done.err
    assert "no file outside the specs has changed" in shop.prompts["r2.programmer.c1"]


def test_specs_alone_are_no_work(shop: Sandbox) -> None:
    shop.script({"analyst": [{"edit": {"openspec/changes/bye/tasks.md": "- [ ] bye\n"}}]})
    assert run(shop, "add bye()", "--test", "true", "--set", "limits.max_rounds=1").code == 1


@pytest.mark.parametrize("words", [("--no-change-expected",), ("--set", "start_agent=tester")], ids=["flag", "tester"])
def test_a_run_that_is_to_change_nothing_may_change_nothing(shop: Sandbox, words: tuple[str, ...]) -> None:
    shop.script({})
    assert run(shop, "look at bye()", "--test", "true", *words).code == 0


def test_work_that_the_person_had_not_committed_is_not_the_runs_work(shop: Sandbox) -> None:
    (shop.wd / "mine.py").write_text("my own\n")
    shop.script({})
    assert run(shop, "add bye()", "--test", "true", "--set", "limits.max_rounds=1").code == 1


# --- a test command that cannot run


@pytest.mark.parametrize(
    ("command", "why"),
    [("pytst", "was not found (exit 127)"), ("python3 -m no_such_runner", "has no module no_such_runner")],
)
def test_a_test_command_that_cannot_run_stops_before_any_agent_is_asked(shop: Sandbox, command: str, why: str) -> None:
    done = run(shop, "add bye()", "--test", command)
    assert done.code == 1
    assert why in done.err
    assert "--test CMD" in done.err
    assert "no run was started" in shop("status").out


@pytest.mark.parametrize(
    ("command", "better"),
    [
        ("python3 -m nonesuch_tests -q", ".venv has nonesuch_tests: `.venv/bin/python -m nonesuch_tests -q`"),
        ("nonesuch -q", ".venv has nonesuch: `.venv/bin/nonesuch -q`"),
        ("nowhere -q", "such as .venv/bin/pytest"),
    ],
)
def test_what_the_projects_own_environment_has_is_named(shop: Sandbox, command: str, better: str) -> None:
    for name in ("bin/python", "bin/nonesuch", "lib/python3.12/site-packages/nonesuch_tests/__init__.py"):
        (shop.wd / ".venv" / name).parent.mkdir(parents=True, exist_ok=True)
        (shop.wd / ".venv" / name).touch()
    done = run(shop, "add bye()", "--test", command)
    assert (done.code, better in done.err) == (1, True), done.err


def test_failing_tests_are_told_and_agents_may_mend_them(shop: Sandbox) -> None:
    done = run(shop, "add bye()", "--test", "test -f bye.py")
    assert done.code == 0
    assert "the tests fail now (exit 1)" in done.err


@pytest.mark.long
def test_a_resume_tries_the_command_only_if_it_is_another(shop: Sandbox) -> None:
    shop.script({**WORK, "tester": [{"fault": "usage_limit", "times": 2}]})
    assert run(shop, "add bye()", "--test", "true").code == 4
    assert "before the first turn" not in run(shop, "--resume").err
    resumed = shop("resume", "--set", "project_test_cmd=pytst", "--simulate", str(shop.script_path))
    assert "cannot run" in resumed.err


# --- a resumed run keeps what it was told


def stopped(shop: Sandbox, *arguments: str) -> None:
    """A run that stops before its tester answers, once."""
    shop.script({**WORK, "tester": [{"fault": "usage_limit", "times": 1}]})
    assert run(shop, "add bye()", *arguments).code == 4


def resume(shop: Sandbox, *arguments: str) -> Done:
    return shop("resume", *arguments, "--simulate", str(shop.script_path))


def plan_after(shop: Sandbox) -> CyclePlan:
    plan = shop.events(RunResumed)[-1].plan
    assert isinstance(plan, CyclePlan)
    return plan


@pytest.mark.long
def test_a_flag_of_the_first_command_wins_over_the_file_at_a_resume(shop: Sandbox) -> None:
    (shop.wd / "logos.json").write_text('{"project_test_cmd": "echo file"}')
    stopped(shop, "--test", "echo flag")
    assert resume(shop).code == 0
    assert plan_after(shop).test_command == "echo flag"


@pytest.mark.long
def test_an_environment_that_has_not_changed_does_not_undo_a_later_flag(shop: Sandbox) -> None:
    shop.set(MAX_ROUNDS="3")
    stopped(shop, "--test", "true", "--set", "limits.max_rounds=5")
    shop.script({**WORK, "tester": [{"fault": "usage_limit", "times": 2}]})
    assert resume(shop).code == 4
    assert plan_after(shop).max_rounds == 5
    shop.set(MAX_ROUNDS="7")
    shop.script(WORK)
    assert resume(shop).code == 0
    assert plan_after(shop).max_rounds == 7


@pytest.mark.long
def test_the_file_as_it_is_now_wins_over_the_plan_where_a_person_says_so(shop: Sandbox) -> None:
    config = shop.wd / "logos.json"
    config.write_text('{"limits": {"max_rounds": 3, "max_review_cycles": 2}}')
    stopped(shop, "--test", "true")
    config.write_text('{"limits": {"max_rounds": 4}}')
    assert resume(shop, "--reread").code == 0
    assert (plan_after(shop).max_rounds, plan_after(shop).review.max_cycles) == (4, 2)


@pytest.mark.long
@pytest.mark.parametrize("now", ['[worktree]\nsetup = "exit 3"\n', "[worktree"], ids=["another setup", "no TOML"])
def test_a_resumed_run_keeps_the_setup_it_started_with(shop: Sandbox, now: str) -> None:
    telos = shop.wd / "telos.toml"
    telos.write_text('[worktree]\nsetup = "mkdir installed"\n')
    stopped(shop, "--test", "test -d installed")
    telos.write_text(now)
    assert resume(shop).code == 0
    proof = plan_after(shop).proof
    assert proof is not None
    assert proof.setup == "mkdir installed"


@pytest.mark.long
def test_a_budget_belongs_to_the_run(shop: Sandbox) -> None:
    shop.script({**WORK, "analyst": [{"usage": {"input": 60_000, "output": 10}}]})
    assert run(shop, "add bye()", "--test", "true", "--set", "limits.max_tokens=50000").code == 4
    again = resume(shop)
    assert again.code == 4
    assert "--set limits.max_tokens" in again.err
    assert resume(shop, "--set", "limits.max_tokens=500000").code == 0


@pytest.mark.long
def test_the_log_says_where_a_setting_came_from(shop: Sandbox) -> None:
    shop.set(MAX_ROUNDS="3")
    stopped(shop, "--test", "true")
    assert resume(shop, "--set", "limits.max_rounds=4").code == 0
    (started,), (resumed,) = shop.events(RunStarted), shop.events(RunResumed)
    assert GivenSetting("project_test_cmd", "true", SettingSource.FLAG) in started.given
    assert GivenSetting("limits.max_rounds", "3", SettingSource.ENVIRONMENT) in started.given
    assert resumed.given == (GivenSetting("limits.max_rounds", "4", SettingSource.FLAG),)


# --- the agent that was asked for


@pytest.fixture
def machine(shop: Sandbox, tmp_path: Path) -> Sandbox:
    """A machine on which only `opencode` is installed, and no server answers."""
    program = tmp_path / "bin" / "opencode"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    shop.set(PATH=f"{program.parent}:/usr/bin:/bin", VERIFY_PASS="0")
    shop.unset("API")
    return shop


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--provider", "claude"), "provider claude_code: its program `claude` is not on PATH"),
        (("--provider", "codex"), "provider codex: its program `codex` is not on PATH"),
        (("--provider", "clod"), "unknown provider 'clod'"),
        (("--set", "provider=codex"), "installed here: opencode_cli"),
    ],
)
def test_a_provider_that_was_named_is_never_replaced(machine: Sandbox, words: tuple[str, ...], why: str) -> None:
    done = machine("run", "add bye()", "--test", "true", *words, "--set", "host=local")
    assert done.code == 1
    assert why in done.err
    assert "no run was started" in machine("status").out


def test_a_build_does_not_replace_a_provider_that_was_named_either(machine: Sandbox) -> None:
    (machine.wd / "telos.toml").write_text('purpose = "Say hello."\n')
    done = machine("build", "add bye()", "--provider", "claude", "--set", "host=local")
    assert done.code == 1
    assert "provider claude_code: its program `claude` is not on PATH" in done.err
    assert machine.logs() == {}


def test_without_a_name_the_first_installed_one_is_used_and_said(machine: Sandbox) -> None:
    done = machine("run", "add bye()", "--test", "true", "--set", "host=local")
    assert "agents run on this machine with opencode_cli (as configured; the first installed one" in done.err


def test_a_provider_may_be_named_by_its_program(machine: Sandbox) -> None:
    done = machine("run", "add bye()", "--test", "true", "--provider", "opencode", "--set", "host=local")
    assert "agents run on this machine with opencode_cli (as configured)" in done.err


# --- what a person types


def test_a_task_that_ends_with_the_name_of_a_file_is_a_task(shop: Sandbox) -> None:
    assert run(shop, "update package.json", "--test", "true").code == 0
    assert "update package.json" in shop.prompts["r1.analyst.c1"]


def test_plain_words_in_a_prompt_file_are_a_task(shop: Sandbox) -> None:
    (shop.wd / "task.md").write_text("Add bye().\nIt says bye.\n")
    assert run(shop, "--prompt", "task.md", "--test", "true").code == 0
    assert "It says bye." in shop.prompts["r1.analyst.c1"]


def test_resume_and_fresh_exclude_each_other(shop: Sandbox) -> None:
    done = run(shop, "add bye()", "--test", "true", "--resume", "--fresh")
    assert (done.code, "exclude each other" in done.err) == (2, True)


def test_a_run_that_failed_is_not_resumed_and_nothing_is_appended_to_it(shop: Sandbox) -> None:
    assert run(shop, "add bye()", "--test", "false", "--set", "limits.max_rounds=1").code == 1
    before = len(shop.records())
    done = run(shop, "--resume")
    assert (done.code, "has ended (FAILED)" in done.err, len(shop.records())) == (1, True, before)


def test_a_run_in_another_folder(shop: Sandbox, tmp_path: Path) -> None:
    elsewhere = Sandbox(tmp_path, {**HASTE})
    done = elsewhere("run", "add bye()", "--test", "true", "--wd", str(shop.wd), "--simulate", str(shop.script_path))
    assert done.code == 0
    assert (shop.wd / "bye.py").exists()


@pytest.mark.long
def test_a_fork_needs_no_purpose(shop: Sandbox) -> None:
    shop("init")
    (shop.wd / "logos.json").unlink()
    assert run(shop, "add bye()", "--test", "true").code == 0
    forked = shop("fork", "--at", "2")
    assert forked.code == 0, forked.err
