"""What a person sees of a run: what each agent does, what the run changed, each stop once, tables that fit."""

from __future__ import annotations

import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from logos.domain.events import Noted, Topic
from tests.support.isolation import clean_env
from tests.support.sandbox import LOGOS, PROMPT, Sandbox, ended
from tests.support.terminals import on_a_terminal
from tests.support.waiting import wait_for

# A codex that is told to wait twice, is refused a command, and works until there is a gate.
CODEX = """#!{python} -IS
import json, pathlib, re, sys, time
if sys.argv[1:] == ["--version"]:
    sys.exit(print("codex-cli 0.166.0"))
if sys.argv[1:2] == ["sandbox"]:
    sys.exit(0)
def tell(**row):
    print(json.dumps(row), flush=True)
def ran(kind, command, status, output=""):
    item = dict(type="command_execution", command=command, status=status, aggregated_output=output)
    tell(type=kind, item=item)
prompt = sys.stdin.read()
path = re.findall(r"^cat >(/.*/\\w+\\.md) <<", prompt, re.MULTILINE)[-1]
tell(type="thread.started", thread_id="t")
if "Turn: r1.analyst.c1" in prompt:
    tell(type="error", message="Reconnecting... 1/5 (unexpected status 429 \\x1b[2J)")
    tell(type="error", message="Reconnecting... 2/5 (unexpected status 429 \\x1b[2J)")
    ran("item.completed", "rm x", "declined")
    ran("item.completed", "rm x", "declined")
    ran("item.started", "/bin/bash -lc 'TOKEN=sk-abcdefghijklmnop1234 pytest -q'", "in_progress")
    while not pathlib.Path({gate!r}).exists():
        time.sleep(0.02)
    ran("item.completed", "/bin/bash -lc 'pytest -q'", "completed", "1 passed")
tester = "Turn: r1.tester" in prompt
approval = "REVIEW_RESULT: APPROVED\\nReviewed openspec artifacts proposal, spec, tasks, file greet.py, risks, tests."
pathlib.Path(path).write_text("RESULT: PASS\\n" if tester else approval)
tell(type="item.completed", item=dict(type="agent_message", text="written"))
tell(type="turn.completed", usage=dict(input_tokens=5, cached_input_tokens=2, output_tokens=1))
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Sandbox]:
    """Somebody whose only agent CLI is this codex."""
    person, programs, git = Sandbox(tmp_path / "work"), tmp_path / "bin", shutil.which("git")
    assert git is not None
    for folder in (person.wd, programs):
        folder.mkdir()
    (programs / "git").symlink_to(git)
    (programs / "codex").write_text(CODEX.format(python=sys.executable, gate=str(tmp_path / "gate")))
    (programs / "codex").chmod(0o755)
    more = {"MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1", "MAX_REVIEW_CYCLES": "1", "POLL_SECONDS": "0.05"}
    person.set(PATH=str(programs), PROMPT=PROMPT, LOGOS_HOST="local", PROVIDER="codex", **more)
    yield person
    person.close()


def test_what_an_agent_does_is_seen_while_it_does_it_and_afterwards(person: Sandbox) -> None:
    run = person.start("run")
    wait_for(lambda: person.logs() and person.asked and "pytest" in str(doing(person)), "a step", process=run)
    (held,) = person("status", "--json").json["in_flight"]
    assert (held["turn"], held["running"]) == ("r1.analyst.c1", True)
    assert held["last_step"] == "TOKEN=[redacted] pytest -q"
    assert "its last step: TOKEN=[redacted] pytest -q" in person("status").out
    (person.wd.parent / "gate").touch()
    done = ended(run)
    assert done.code == 0, done.err

    warnings = [note.text for note in person.events(Noted) if note.topic is Topic.WARNING]
    named = [text for text in warnings if "tries again" in text or "not allowed" in text]
    assert named == [
        "r1.analyst.c1: its client tries again: Reconnecting... 1/5 (unexpected status 429 )",
        "analyst was not allowed: rm x",
    ]

    told = person("show", "r1.analyst", "--transcript")
    assert told.code == 0, told.err
    assert "! tries again: Reconnecting... 1/5" in told.out
    assert "> TOKEN=[redacted] pytest -q\n  1 passed\n* written\n" in told.out
    assert "\x1b" not in told.out
    steps = person("show", person.run_id, "r1.analyst", "--transcript", "--json").json["steps"]
    assert [step["kind"] for step in steps if step["kind"] in ("call", "message")] == ["call", "message"]
    assert person("show", "r1.analyst", "--json").json["steps"] is None


def doing(person: Sandbox) -> object:
    return person("status", "--json").json.get("in_flight")


def test_where_nothing_is_kept_of_a_turn_it_says_so(person: Sandbox) -> None:
    (person.wd.parent / "gate").touch()
    assert person.apart("run").code == 0
    shutil.rmtree(person.wd / ".telos" / "local")
    done = person("show", "r1.analyst", "--transcript")
    assert (done.code, "nothing is kept of what the agent of r1.analyst.c1 printed" in done.err) == (2, True)
    assert person("show", "r1.proof", "--transcript").code == 2


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Sandbox]:
    shop = Sandbox.of_repository(tmp_path / "shop", PROMPT=PROMPT, POLL_SECONDS="0.02")
    shop.set(MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1", VERIFY_PASS="0")
    yield shop
    shop.close()


def test_the_end_of_a_run_lists_what_the_run_changed_and_not_what_the_person_did(shop: Sandbox) -> None:
    (shop.wd / "greet.py").write_text("def greet(): return 'mine'\n")
    (shop.wd / "mine.txt").write_text("mine\n")
    shop.script({"programmer": [{"edit": {"new.py": "x = 1\n"}}]})
    done = shop("run", "--simulate", str(shop.script_path))
    assert done.code == 0, done.err
    listed = done.out.partition("What the run changed:\n")[2].partition("\n\n")[0]
    assert listed == " new.py | 1 +\n 1 file changed, 1 insertion(+)"
    assert "mine.txt" not in done.out
    run = shop.run_id
    for command in (f"logos diff {run}", "git add new.py && git commit", f"logos rollback {run}@1"):
        assert f"  {command} " in done.out

    (shop.wd / "later.py").write_text("y = 2\n")
    assert changed(shop, "diff") == ["later.py", "new.py"]
    assert changed(shop, "diff", run) == ["new.py"]
    assert changed(shop, "diff", "r1.programmer.c1") == ["later.py"]
    assert f"run {run}, turn r1.tester.c1" in shop("show", "r1.tester").out
    assert shop("rollback", f"{run}@1").code == 0
    assert not (shop.wd / "new.py").exists()
    assert (shop.wd / "mine.txt").read_text() == "mine\n"


def changed(shop: Sandbox, *arguments: str) -> list[str]:
    return [file["path"] for file in shop(*arguments, "--json").json["files"]]


def test_without_checkpoints_a_run_says_that_it_does_not_know_what_it_changed(shop: Sandbox) -> None:
    shop.script({"programmer": [{"edit": {"new.py": "x = 1\n"}}]})
    done = shop("run", "--simulate", str(shop.script_path), "--set", "checkpoints.enabled=0")
    assert "what the run changed is not known: checkpoints were off then" in done.out
    assert " new.py (new)" in done.out


def test_a_review_that_never_approved_is_said_in_the_log_and_at_the_end(shop: Sandbox) -> None:
    shop.script({"peer_analyst": [{"say": "REVIEW_RESULT: REVISE\n1. no"}], "programmer": [{"edit": {"n.py": "1\n"}}]})
    done = shop("run", "--simulate", str(shop.script_path), "--set", "limits.max_review_cycles=2")
    assert done.code == 0, done.err
    words = "not approved by the peer analyst in 2 cycles; its objections go along"
    assert f"{words}; the run goes on without an approval (limits.on_review_exhausted)" in done.err
    assert f"the analyst's work in round 1 was {words}" in done.out
    assert shop("status", "--json").json["unapproved"] == [f"the analyst's work in round 1 was {words}"]


def test_a_stop_is_told_once_and_its_agent_has_ended(shop: Sandbox) -> None:
    shop.script({"analyst": [{"fault": "hang"}]})
    run = shop.start("run", "--simulate", str(shop.script_path))
    shop.wait_for_event("turn_sent", "r1.analyst.c1", process=run)
    run.send_signal(signal.SIGINT)
    done = ended(run)
    assert done.code == 130
    assert done.err.count("stopped by") == 1
    assert "logos: stopped by SIGINT (Ctrl-C)\n" in done.err
    told = shop("status").out
    assert "r1.analyst.c1 is not answered: the analyst in terminal " in told
    assert "; its process has ended" in told
    assert "is with the analyst" not in told


def test_a_failure_is_told_once(shop: Sandbox) -> None:
    shop.script({"analyst": [{"fault": "crash", "message": "boom"}]})
    done = shop("run", "--simulate", str(shop.script_path))
    assert (done.code, done.err.count("boom")) == (1, 1), done.err
    log = shop("log").out
    assert log.count("boom") == 1
    assert log.endswith("the driver left\n")


@pytest.mark.parametrize("columns", [80, pytest.param(200, marks=pytest.mark.long)])
def test_tables_fit_the_terminal_and_break_no_word(shop: Sandbox, columns: int) -> None:
    shop.set(
        PROMPT=PROMPT.replace("A greeting is missing.", "The greeting of the shop must say who it greets by name.")
    )
    shop.script({"programmer": [{"edit": {"new.py": "x = 1\n"}}]})
    for _ in range(2):
        assert shop("run", "--fresh", "--simulate", str(shop.script_path)).code == 0
    one, other = shop.logs()
    env = clean_env(**shop.environment)
    for words in (["runs"], ["sessions"], ["show", one], ["compare", one, other], ["status"], ["cost"], ["log"]):
        shown, _ = on_a_terminal([LOGOS, *words], shop.wd, env, columns=columns)
        lines = [plain_line(line) for line in shown.splitlines()]
        # Only a path may be wider.
        assert all(len(line) <= columns or len(line.split()) == 1 for line in lines), (words, lines)
        # A word that was broken would not be found.
        if words == ["runs"]:
            for word in ("PASSED,", "unverified", "greeting", "name."):
                assert any(word in line.split() for line in lines), (word, lines)


def plain_line(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).rstrip()
