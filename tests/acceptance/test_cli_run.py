"""`logos run` against a CAO server in this process: what goes in, what is shown, what comes out."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from logos.cli.output.live import LiveView
from logos.cli.run import split_words
from logos.domain.events import Noted, Recorded, TerminalOpened, Topic, TurnAnswered
from logos.domain.ledger import Ledger
from logos.domain.turns import RunId, TurnId
from logos.domain.usage import Usage
from logos.flows.cycle.flow import CycleState
from logos.testing import APPROVED, FAIL, PASS, REVISE, script
from logos.testing.cao_server import FakeCao
from tests.builders import a_plan
from tests.support.isolation import clean_env
from tests.support.sandbox import LOGOS, PROMPT, Sandbox
from tests.support.terminals import on_a_terminal
from tests.support.waiting import LAST_RESORT

NOWHERE = "http://127.0.0.1:9"
# Long enough to be seen at work: a response from an agent that never was is taken later.
TURN = 0.05
QUICK = ("--set", "limits.poll_seconds=0.05", "--set", "limits.min_review_cycles_before_approval=1")


@pytest.fixture
def cao(sandbox: Sandbox) -> Iterator[FakeCao]:
    with FakeCao(sandbox.wd / ".tmp" / "agent-responses", script(), turn_seconds=TURN) as server:
        yield server


def terminals(cao: FakeCao) -> list[str]:
    return [path for method, path, _ in cao.requests if method == "POST" and path.startswith("/sessions")]


# What goes in


def test_plain_words_and_a_test_command_are_enough(sandbox: Sandbox, cao: FakeCao) -> None:
    done = sandbox("run", "add", "a", "greeting", "--test", "true", *QUICK, "--set", f"api={cao.url}")
    assert done.code == 0
    assert "PASSED: the tester reported PASS" in done.out
    prompt = cao.prompts("tester")[0]
    assert "*** ORIGINAL EXPLORE SUMMARY ***\nadd a greeting" in prompt
    assert "Run `true` in the work directory." in prompt


@pytest.mark.long
def test_a_prompt_file_and_a_configuration_file(sandbox: Sandbox, cao: FakeCao) -> None:
    (sandbox.wd / "team.json").write_text(json.dumps({"api": cao.url, "limits": {"max_rounds": 5}}))
    (sandbox.wd / "p.md").write_text(PROMPT)
    done = sandbox("run", "team.json", "--prompt", "p.md", *QUICK, "--json")
    assert done.code == 0
    assert "A greeting is missing." in cao.prompts("analyst")[0]
    assert "using" not in done.err


@pytest.mark.long
def test_the_prompt_can_come_from_stdin(sandbox: Sandbox, cao: FakeCao) -> None:
    sandbox.set(API=cao.url)
    done = sandbox("run", "--prompt", "-", *QUICK, stdin=PROMPT)
    assert done.code == 0
    assert "A greeting is missing." in cao.prompts("analyst")[0]


@pytest.mark.long
def test_the_configuration_of_the_folder_is_used_and_said(sandbox: Sandbox, cao: FakeCao) -> None:
    (sandbox.wd / "logos.json").write_text(json.dumps({"api": cao.url, "prompt": PROMPT}))
    done = sandbox("run", *QUICK)
    assert done.code == 0
    assert "using ./logos.json" in done.err


def test_a_flag_wins_over_the_environment_and_that_over_the_file(sandbox: Sandbox, cao: FakeCao) -> None:
    (sandbox.wd / "logos.json").write_text(
        json.dumps({"api": NOWHERE, "prompt": PROMPT, "project_test_cmd": "echo from file"})
    )
    sandbox.set(API=cao.url, PROJECT_TEST_CMD="echo from env", PROMPT_FILE="/nowhere/prompt.md")
    done = sandbox("run", "other words", "--test", "echo from flag", *QUICK)
    assert done.code == 0
    prompt = cao.prompts("tester")[0]
    assert "from flag" in prompt
    assert "from env" not in prompt
    assert "other words" in prompt


def test_the_first_word_is_a_configuration_when_it_is_a_file_or_ends_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("team").write_text(' {"api": ""}')
    assert split_words(["team", "do", "it"]) == (Path("team"), "do it")
    assert split_words(["missing.json"]) == (Path("missing.json"), "")
    assert split_words(["do", "team"]) == (None, "do team")
    assert split_words([]) == (None, "")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("missing.json",), 1, "cannot read the configuration missing.json"),
        (("p.md",), 2, "logos run --prompt p.md"),
        (("words",), 1, "plain text needs a test command"),
        (("words", "--prompt", "p.md", "--test", "x"), 2, "two prompts"),
        (("--prompt", "nothing.md"), 1, "cannot read the prompt nothing.md"),
        (("--prompt", "p.md", "--set", "limits.max_round=1"), 2, "unknown key 'limits.max_round'"),
        (("--prompt", "p.md", "--set", "max_rounds"), 2, "key=value"),
        (("--prompt", "p.md", "--set", "limits.max_rounds=many"), 1, "must be a whole number"),
        (("--prompt", "p.md", "--set", "wd=/nowhere/at/all"), 1, "there is no such directory"),
        (("--prompt", "half.md"), 1, "*** SCENARIO TEST ***"),
        (("--prompt", "binary.md"), 1, "not UTF-8"),
        (("--prompt", "p.md", "--set", "provider=nonesuch"), 1, "unknown provider 'nonesuch'"),
        (("--resume",), 1, "no state file"),
        ((), 1, "no prompt"),
    ],
)
def test_wrong_input_is_one_clear_line_before_any_terminal(
    sandbox: Sandbox, cao: FakeCao, arguments: tuple[str, ...], code: int, says: str
) -> None:
    (sandbox.wd / "p.md").write_text(PROMPT)
    (sandbox.wd / "half.md").write_text("*** ORIGINAL EXPLORE SUMMARY ***\nonly this\n")
    (sandbox.wd / "binary.md").write_bytes(b"\xff\xfe\x00")
    sandbox.set(LOGOS_API=cao.url)
    done = sandbox("run", *arguments)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("logos: ")
    assert done.err.count("\n") == 1
    assert says in done.err
    assert terminals(cao) == []
    as_json = sandbox("run", *arguments, "--json")
    assert as_json.json == {"error": as_json.json["error"], "exit_code": done.code}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"max_round": 1}, "unknown key"),
        ({"limits": {"max_rounds": "3"}}, "must be a whole number"),
        ([], "JSON object"),
    ],
)
def test_a_wrong_configuration_names_the_key(sandbox: Sandbox, cao: FakeCao, config: Any, says: str) -> None:
    (sandbox.wd / "c.json").write_text(json.dumps(config))
    sandbox.set(API=cao.url)
    done = sandbox("run", "c.json")
    assert done.code == 1
    assert says in done.err
    assert done.err.count("\n") == 1
    assert terminals(cao) == []


def test_an_unreachable_server_is_one_clear_line(sandbox: Sandbox) -> None:
    done = sandbox("run", "words", "--test", "true", "--set", f"api={NOWHERE}")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-1].startswith(f"logos: no CAO server answers at {NOWHERE}")
    assert done.err.count("logos: ") == 1
    assert "Traceback" not in done.err


@pytest.mark.long
def test_a_provider_nobody_knows_is_named_even_without_a_server(sandbox: Sandbox) -> None:
    done = sandbox("run", "words", "--test", "true", "--set", f"api={NOWHERE}", "--set", "provider=nonesuch")
    assert done.code == 1
    assert "unknown provider 'nonesuch'" in done.err


@pytest.mark.long
def test_a_provider_only_the_server_knows_is_accepted(sandbox: Sandbox, cao: FakeCao) -> None:
    class NewServer(FakeCao):
        def answer(self, method: str, path: list[str], query: dict[str, str]) -> tuple[int, Any]:
            if path == ["agents", "providers"]:
                return 200, [{"name": "brand_new", "binary": "new", "installed": True}]
            return super().answer(method, path, query)

    with NewServer(cao.folder, cao.script) as server:
        done = sandbox(
            "run", "words", "--test", "true", *QUICK, "--set", f"api={server.url}", "--set", "provider=brand_new"
        )
    assert done.code == 0


@pytest.mark.long
def test_a_server_gets_the_name_that_it_knows(sandbox: Sandbox, cao: FakeCao) -> None:
    done = sandbox("run", "words", "--test", "true", *QUICK, "--set", f"api={cao.url}", "--provider", "claude")
    assert done.code == 0, done.err
    assert {event.provider for event in sandbox.events(TerminalOpened)} == {"claude_code"}


def test_the_untouched_template_is_refused(sandbox: Sandbox, cao: FakeCao) -> None:
    sandbox("init")
    sandbox.set(API=cao.url)
    done = sandbox("run")
    assert done.code == 1
    assert "prompt.md is still the template" in done.err
    assert terminals(cao) == []


# What comes out


def test_the_run_id_is_said_before_any_agent_is_asked(sandbox: Sandbox, cao: FakeCao) -> None:
    done = sandbox("run", "words", "--test", "true", *QUICK, "--set", f"api={cao.url}")
    run = sandbox("runs", "--json").json["runs"][0]["run"]
    lines = done.err.splitlines()
    assert lines[0][10:] == "running `true` once in a clean room, before the first turn"
    assert lines[1][10:].startswith("the tests pass now; one run takes ")
    assert lines[2][10:].startswith("the analyst's plan, for you and the other agents, will be in openspec/changes/")
    assert f"run {run} started in {sandbox.wd}" in lines[3]
    assert f"logos log {run} " in done.out
    assert f"logos show {run} r1.tester.c1 " in done.out


def test_json_is_exactly_one_document(sandbox: Sandbox, cao: FakeCao) -> None:
    done = sandbox("run", "words", "--test", "true", *QUICK, "--set", f"api={cao.url}", "--json")
    document = done.json
    assert document == {
        **sandbox("runs", "--json").json["runs"][0],
        "version": 1,
        "flow": "cycle",
        "status": "PASSED",
        "outcome": "PASSED",
        "exit_code": 0,
        "verified": True,
        "reason": document["reason"],
        "rounds": 1,
        "turns": 5,
        "characters": document["characters"],
        "usage": {
            "turns": 5,
            **dict.fromkeys(("input", "cached", "output", "tokens", "cost_usd", "premium_requests")),
            "estimated": False,
            "tokens_unknown_turns": 5,
            "cost_unknown_turns": 5,
        },
        "seconds": document["seconds"],
        "head": done.json["head"],
        "state_file": str(sandbox.wd / ".tmp" / "agnostic-3agents-loop-state.json"),
    }
    assert document["characters"] == sum(len(message) for answer in cao.script for message in cao.prompts(answer))


@pytest.mark.long
def test_a_fail_is_exit_1_and_a_block_exit_3(sandbox: Sandbox, cao: FakeCao) -> None:
    words = ("run", "words", "--test", "true", *QUICK, "--fresh", "--json")
    sandbox.set(API=cao.url)
    cao.script = script(tester=[FAIL], analyst_review=[APPROVED, REVISE])
    failed = sandbox(*words, "--set", "limits.max_rounds=1")
    cao.script = script(analyst_review=[REVISE])
    blocked = sandbox(*words, "--set", "limits.on_review_exhausted=block", "--set", "limits.max_review_cycles=1")
    assert (failed.code, failed.json["outcome"], failed.json["exit_code"]) == (1, "FAILED", 1)
    assert (blocked.code, blocked.json["outcome"], blocked.json["exit_code"]) == (3, "BLOCKED", 3)


def test_the_end_shows_what_changed_in_the_repository(tmp_path: Path) -> None:
    sandbox = Sandbox.of_repository(tmp_path / "repo", {"old.py": "old\n"})

    def program(_prompt: str) -> str:
        (sandbox.wd / "greet.py").write_text("new\n")
        (sandbox.wd / "old.py").write_text("changed\n")
        return "PROGRAMMER_SUMMARY:\n- Files changed: old.py\n"

    with FakeCao(sandbox.wd / ".tmp" / "agent-responses", script(programmer=[program]), turn_seconds=TURN) as cao:
        done = sandbox("run", "words", "--test", "true", *QUICK, "--set", f"api={cao.url}")
    assert " greet.py | 1 +\n old.py   | 2 +-\n" in done.out
    assert ".telos" not in done.out


def test_a_run_that_cannot_go_on_says_how_to_resume_it(sandbox: Sandbox, cao: FakeCao) -> None:
    cao.script = script(analyst=[""])
    sets = (
        "--set",
        "handoff.idle_grace_seconds=0.1",
        "--set",
        "handoff.max_file_reminders=0",
        "--set",
        f"api={cao.url}",
    )
    done = sandbox("run", "words", "--test", "echo a b", *sets)
    run = sandbox("runs", "--json").json["runs"][0]["run"]
    assert (done.code, done.out) == (1, "")
    *_, reason, hint = done.err.splitlines()
    assert reason.startswith("logos: analyst (r1.analyst.c1")
    assert hint == f"run {run} can be resumed: logos run --test 'echo a b' {' '.join(sets)} --resume"


def test_another_prompt_than_the_unfinished_runs_stops_and_names_both_ways(sandbox: Sandbox, cao: FakeCao) -> None:
    cao.refuse_profiles = frozenset({"tester"})
    sandbox.set(API=cao.url)
    assert sandbox("run", "first words", "--test", "true", *QUICK).code == 1
    cao.refuse_profiles = frozenset()
    other = sandbox("run", "second words", "--test", "true", *QUICK)
    assert other.code == 2
    assert "--resume" in other.err
    assert "--fresh" in other.err
    assert sandbox("run", "--test", "true", *QUICK, "--resume").code == 0
    assert "first words" in cao.prompts("analyst")[0]


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_a_run_that_can_be_resumed(sandbox: Sandbox, cao: FakeCao, signum: int, code: int) -> None:
    cao.turn_seconds = LAST_RESORT
    words = [LOGOS, "run", "words", "--test", "true", *QUICK, "--json"]
    with subprocess.Popen(
        words, cwd=sandbox.wd, env=clean_env(API=cao.url), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert any("r1.analyst.c1 prompt delivered" in line for line in process.stderr)
        process.send_signal(signum)
        out, err = process.communicate(timeout=LAST_RESORT)
    assert process.returncode == code
    assert json.loads(out)["exit_code"] == code
    assert f"logos: stopped by {signal.Signals(signum).name}" in err
    assert "can be resumed: logos run --test true" in err
    assert "Traceback" not in err
    cao.turn_seconds = 0
    status = sandbox("status", "--json").json
    assert (status["status"], status["in_flight"][0]["turn"]) == ("STOPPED", "r1.analyst.c1")


# What is seen meanwhile


def a_run_on_a_terminal(
    sandbox: Sandbox,
    cao: FakeCao,
    *,
    piped_stdout: bool = False,
    on_output: Callable[[str], None] = lambda _seen: None,
    **env: str,
) -> tuple[str, str]:
    command = [LOGOS, "run", "words", "--test", "true", *QUICK]
    given = clean_env(**{"TERM": "xterm-256color", "COLORTERM": "", "API": cao.url, **env})
    return on_a_terminal(command, sandbox.wd, given, piped_stdout=piped_stdout, on_output=on_output)


def test_a_terminal_gets_a_live_view(sandbox: Sandbox, cao: FakeCao) -> None:
    shown = threading.Event()

    def when_shown(_prompt: str) -> str:
        """The programmer answers once the terminal shows that it is asked."""
        assert shown.wait(LAST_RESORT)
        return "Changed: greet()."

    cao.script = script(programmer=[when_shown])
    seen, _ = a_run_on_a_terminal(sandbox, cao, on_output=lambda seen: shown.set() if "● programmer" in seen else None)
    assert "logos · run " in seen
    assert "● programmer" in seen
    assert "\x1b[?25l" in seen
    assert seen.count("\x1b[?25l") == seen.count("\x1b[?25h")
    assert "\x1b[32m" in seen or "\x1b[1;32m" in seen


@pytest.mark.long
def test_no_color_is_honoured_on_a_terminal(sandbox: Sandbox, cao: FakeCao) -> None:
    seen, _ = a_run_on_a_terminal(sandbox, cao, NO_COLOR="1")
    assert "PASSED" in seen
    styles = {code for found in re.findall(r"\x1b\[([\d;]*)m", seen) for code in found.split(";")}
    assert not any(code.isdigit() and 30 <= int(code) <= 107 for code in styles)


@pytest.mark.long
def test_a_dumb_terminal_gets_plain_lines(sandbox: Sandbox, cao: FakeCao) -> None:
    seen, piped = a_run_on_a_terminal(sandbox, cao, piped_stdout=True, TERM="dumb")
    assert "PASSED" in piped
    assert "\x1b" not in seen
    assert "r1.tester.c1 answered PASS" in seen


def picture(view: LiveView, width: int = 100) -> str:
    page = Console(file=io.StringIO(), width=width)
    page.print(view.frame())
    assert isinstance(page.file, io.StringIO)
    return page.file.getvalue()


def test_the_live_view_says_where_the_run_stands(sandbox: Sandbox) -> None:
    frames: list[str] = []
    view = LiveView()

    def watch(record: Recorded, state: CycleState, ledger: Ledger) -> None:
        view.watch(record, state, ledger)
        frames.append(picture(view))

    with view:
        sandbox.hire(tester=[FAIL, PASS])
        sandbox.run(watchers=[watch], PROJECT_TEST_CMD="true", VERIFY_PASS="1", MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1")
    text = "\n".join(frames)
    assert "opening terminals, 1 of 5" in text
    assert "peer analyst, cycle 1, at it for" in text
    assert "✓ analyst → ✓ peer analyst → ● programmer → ○ peer programmer → ○ tester" in text
    assert "last verdict FAIL (r1.tester.c1)" in text
    assert "round 2 of 8" in text
    assert "proof: Logos runs the result's own tests, in a clean room" in text
    assert "PASSED: the tester reported PASS, and Logos has" in frames[-1]
    assert len(frames[-1].splitlines()) <= 14


def test_a_permission_prompt_stands_out_until_it_is_answered(sandbox: Sandbox) -> None:
    frames: list[str] = []
    view = LiveView()

    def watch(record: Recorded, state: CycleState, ledger: Ledger) -> None:
        view.watch(record, state, ledger)
        if getattr(record.event, "turn", "") == "r1.analyst.c1" and record.event.kind == "turn_sent":
            asked = Noted(Topic.PERMISSION_ASKED, "terminal 1 waits: rm -rf [bold]x[/bold]?", TurnId("r1.analyst.c1"))
            view.watch(Recorded(record.run, record.seq, record.at, asked), state, ledger)
        frames.append(picture(view))

    with view:
        sandbox.run(watchers=[watch])
    waiting = [frame for frame in frames if "r1.analyst.c1 waits for you" in frame]
    assert waiting
    assert "rm -rf [bold]x[/bold]?" in waiting[0]
    assert "waits for you" not in frames[-1]


def test_a_resting_agent_is_shown_with_what_it_waits_for(sandbox: Sandbox) -> None:
    frames: list[str] = []
    view = LiveView()

    def watch(record: Recorded, state: CycleState, ledger: Ledger) -> None:
        view.watch(record, state, ledger)
        if getattr(record.event, "turn", "") == "r1.analyst.c1" and record.event.kind == "turn_asked":
            rests = Noted(Topic.TRIED_AGAIN, "r1.analyst.c1: 429; waiting until 12:00", TurnId("r1.analyst.c1"))
            view.watch(Recorded(record.run, record.seq, record.at, rests), state, ledger)
        frames.append(picture(view))

    with view:
        sandbox.run(watchers=[watch])
    assert any("resting, analyst, cycle 1 · r1.analyst.c1: 429; waiting until 12:00" in frame for frame in frames)
    assert "resting, analyst" not in frames[-1]


@pytest.mark.parametrize(
    ("usages", "says"),
    [
        ([], "0 characters sent"),
        ([None], "0 characters sent, tokens unknown"),
        ([Usage(1000, 0, 200, 0.5)], "1,200 tokens, $0.5000"),
        ([Usage(1000, 0, 200, 1.5), Usage(1, 1, 1)], "1,202 tokens, $1.50"),
        ([Usage(1000, 0, 200), None], "1,200 tokens (unknown for 1 of 2 turns)"),
        ([Usage(cost_usd=0.25)], "0 characters sent, tokens unknown, $0.2500"),
        ([Usage(0, 0, 0, 0.0)], "0 tokens, $0.00"),
    ],
)
def test_the_view_tells_tokens_where_they_are_known_and_characters_otherwise(
    usages: list[Usage | None], says: str
) -> None:
    ledger = Ledger()
    for usage in usages:
        ledger = ledger.enter(TurnAnswered(TurnId("r1.analyst.c1"), "done", usage=usage))
    view = LiveView()
    plan = a_plan()
    view.watch(Recorded(RunId("r"), 1, 1.0, Noted(Topic.WARNING, "x")), CycleState(plan), ledger)
    assert f" · {says} " in picture(view, 120)


def test_a_narrow_terminal_cuts_lines_and_nothing_else(sandbox: Sandbox) -> None:
    sandbox.set(COLUMNS="60")
    view = LiveView()
    with view:
        sandbox.run(watchers=[view.watch])
    lines = picture(view, 60).splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert len(lines) == 5 + 1 + 8
