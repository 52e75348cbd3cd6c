"""Responses of agents that did not end well: half a verdict is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logos.domain.events import Noted, Topic, TurnAnswered, TurnFailed
from logos.domain.turns import FailureKind
from logos.flows.cycle.verdicts import contradicts
from tests.fake_cli import calls, install_fake_cli
from tests.support.sandbox import PROMPT, Sandbox
from tests.support.waiting import LAST_RESORT, until_exists, wait_for

HALF = "RESULT: PASS\nTEST_EVIDENCE:\nran 3 of 200 tests so"
FAILS = "RESULT: FAIL\nTEST_EVIDENCE:\n197 of 200 tests fail\n"
SUPERVISOR = """$(cut -d' ' -f1 "$LOGOS_TERMINAL"/turn-1/pid)"""


@pytest.fixture
def shop(sandbox: Sandbox) -> Sandbox:
    sandbox.set(PROMPT=PROMPT, MAX_ROUNDS="1", MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1", RETRY_BACK_OFF_SECONDS="0")
    return sandbox


def half(file: str, die: str, *, once: bool = True) -> str:
    """A command with which an agent writes half a response and dies, the first time or always."""
    answer = f"printf '{HALF}' >.tmp/agent-responses/{file}"
    return f"test -e died || {{ {'touch died; ' if once else ''}{answer}; {die}; sleep 4242; }}"


def refused(shop: Sandbox) -> list[tuple[str, str]]:
    notes = [note for note in shop.events(Noted) if note.topic is Topic.WARNING and note.response]
    return [(note.text, note.response) for note in notes]


@pytest.mark.parametrize("signal", ["KILL", "TERM", "SEGV"])
def test_a_tester_that_dies_in_the_middle_of_a_pass_is_asked_again(shop: Sandbox, signal: str) -> None:
    script = shop.script({"tester": [{"run": half("test_result.md", f"kill -{signal} $PPID"), "say": FAILS}]})
    done = shop("run", "--simulate", str(script))
    assert done.code == 1, done.err
    assert shop.answered["r1.tester.c1"] == FAILS
    ((why, text),) = refused(shop)
    assert "r1.tester.c1: its process was ended by signal" in why
    assert text == HALF


def test_an_author_that_is_killed_is_asked_again_too(shop: Sandbox) -> None:
    script = shop.script({"programmer": [{"run": half("programmer_summary.md", "kill -9 $PPID"), "say": "whole"}]})
    assert shop("run", "--simulate", str(script)).code == 0
    assert shop.answered["r1.programmer.c1"] == "whole"


def test_a_tester_that_always_dies_stops_the_run_which_can_be_resumed(shop: Sandbox) -> None:
    run = half("test_result.md", "kill -9 $PPID", once=False)
    done = shop("run", "--simulate", str(shop.script({"tester": [{"run": run}]})))
    assert done.code == 1
    (failed,) = shop.events(TurnFailed)
    assert (failed.turn, failed.trouble) == ("r1.tester.c1", FailureKind.CUT_OFF)
    assert "its response cannot be accepted, also after retries: its process was ended by signal 9" in done.err
    assert len(refused(shop)) == 3
    assert shop("run", "--resume", "--simulate", str(shop.script({}))).code == 0


@pytest.mark.parametrize(
    ("role", "turn", "file", "taken"),
    [
        ("tester", "r1.tester.c1", "test_result.md", False),
        ("peer_analyst", "r1.peer_analyst.c1", "analyst_review.md", False),
        ("programmer", "r1.programmer.c1", "programmer_summary.md", True),
    ],
)
def test_without_an_exit_code_work_is_taken_and_a_verdict_is_not(
    shop: Sandbox, role: str, turn: str, file: str, taken: bool
) -> None:
    step = {"run": half(file, f"kill -9 {SUPERVISOR}")}
    shop("run", "--simulate", str(shop.script({role: [step]})))
    assert (shop.answered[turn] == HALF) is taken
    assert [why for why, _ in refused(shop) if "how its process ended is not known" in why] == [
        f"{turn}: how its process ended is not known; its response is kept in the log and not accepted"
    ] * (not taken)
    assert shop.left_behind() == []


def test_an_agent_that_exits_with_an_error_is_asked_again(shop: Sandbox) -> None:
    programs = shop.wd.parent / "bin"
    notes = install_fake_cli(programs, "answers")
    agent = programs / "agent"
    agent.write_text('#!/bin/sh\nanswers "$@"\ntest -e died || { touch died; exit 3; }\n')
    agent.chmod(0o755)
    shop.set(PATH=f"{programs}:/usr/bin:/bin", LOGOS_HOST="local", PROVIDER="command")
    done = shop.apart("run", AGENT_COMMAND="agent --file '{prompt_file}'")
    assert done.code == 0, done.err
    assert len(calls(notes)) == 6
    ((why, _),) = refused(shop)
    assert "r1.analyst.c1: its process ended with 3" in why


def killed_while_tester_works(shop: Sandbox) -> Path:
    """The driver is killed, its tester ends well; returns the response."""
    script = shop.script({"tester": [{"run": f"touch tests; {until_exists('go')}", "say": FAILS}]})
    driver = shop.start("run", "--simulate", str(script))
    wait_for((shop.wd / "tests").exists, process=driver)
    driver.kill()
    driver.wait(LAST_RESORT)
    (shop.wd / "go").touch()
    wait_for(lambda: not shop.left_behind())
    return shop.wd / ".tmp" / "agent-responses" / "test_result.md"


def test_a_tester_that_ended_well_without_a_driver_has_answered(shop: Sandbox) -> None:
    killed_while_tester_works(shop)
    done = shop("run", "--resume", "--simulate", str(shop.script({})))
    assert done.code == 1, done.err
    assert [event.text for event in shop.events(TurnAnswered) if event.turn == "r1.tester.c1"] == [FAILS]
    assert refused(shop) == []


def test_a_response_that_changes_after_its_agent_has_ended_is_not_taken(shop: Sandbox) -> None:
    killed_while_tester_works(shop).write_text("RESULT: PASS\n")
    done = shop("run", "--resume", "--simulate", str(shop.script({"tester": [{"say": FAILS}]})))
    assert done.code == 1, done.err
    assert shop.answered["r1.tester.c1"] == FAILS
    ((why, text),) = refused(shop)
    assert "its response was changed after its process had ended" in why
    assert text == "RESULT: PASS\n"


def test_a_pass_that_its_agents_last_message_contradicts_is_not_taken(shop: Sandbox) -> None:
    last = {"type": "item.completed", "item": {"type": "agent_message", "text": "RESULT: FAIL, 3 tests fail"}}
    programs = shop.wd.parent / "bin"
    install_fake_cli(programs, "codex", prints=json.dumps(last))
    done = shop.apart("run", PATH=f"{programs}:/usr/bin:/bin", LOGOS_HOST="local", PROVIDER="codex")
    assert done.code == 1, done.err
    assert "r1.tester.c1" not in shop.answered
    assert "its response contradicts its own last message" in done.err


@pytest.mark.parametrize(
    ("response", "said", "expected"),
    [
        ("RESULT: PASS", "RESULT: FAIL", True),
        ("REVIEW_RESULT: APPROVED", "REVIEW_RESULT: REVISE", True),
        ('{"verdict": "PASS"}', 'I wrote {"verdict": "FAIL"}', True),
        ("RESULT: PASS", "RESULT: PASS", False),
        ("RESULT: PASS", "All is well.", False),
        ("RESULT: PASS", "RESULT: FAIL at first\nRESULT: PASS in the end", False),
        ("RESULT: PASS", "", False),
        ("no verdict", "RESULT: FAIL", False),
    ],
)
def test_only_another_verdict_contradicts(response: str, said: str, expected: bool) -> None:
    assert contradicts(response, said) is expected
