"""`logos run --simulate`: every fault as a person meets it, what it says, what its exit code is, and how it goes on."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from logos.domain.events import TurnAsked
from tests.support.sandbox import PROMPT, Done, Sandbox, Started, ended, heard
from tests.support.waiting import until_exists, wait_for

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "simulate.md"
TURNS = [f"r1.{role}.c1" for role in ("analyst", "peer_analyst", "programmer", "peer_programmer", "tester")]


IN_A_HURRY = {
    "PROMPT": PROMPT,
    "POLL_SECONDS": "0.05",
    "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1",
    "RETRY_BACK_OFF_SECONDS": "0.05",
}


class Rehearsal(Sandbox):
    """A work dir in which scripts are tried, with the settings of somebody in a hurry."""

    @property
    def script_path(self) -> Path:
        return self.wd / "script.yaml"

    def simulate(self, *arguments: str) -> Done:
        return self("run", "--simulate", "script.yaml", *arguments)

    def start_simulation(self, *arguments: str) -> Started:
        return self.start("run", "--simulate", "script.yaml", *arguments)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Rehearsal]:
    (tmp_path / "stage").mkdir()
    rehearsal = Rehearsal(tmp_path / "stage", {**IN_A_HURRY})
    yield rehearsal
    rehearsal.close()
    assert rehearsal.left_behind() == []


def last_words(done: Done) -> tuple[str, str]:
    """The error and the hint at the very end."""
    *_, error, hint = done.err.splitlines()
    assert error.startswith("logos: "), done.err
    return error, hint


# --- scripts


def test_the_example_of_the_how_to_does_what_it_says(stage: Rehearsal) -> None:
    text = HOW_TO.read_text(encoding="utf-8")
    blocks = dict(re.findall(r"<!-- (\S+) -->\n+```\w+\n(.*?)```", text, re.DOTALL))
    for name, content in blocks.items():
        (stage.wd / name).write_text(content, encoding="utf-8")
    stage.unset("PROMPT", "MIN_REVIEW_CYCLES_BEFORE_APPROVAL")
    done = stage("run", "logos.json", "--simulate", "script.yaml", "--json")
    assert (done.code, done.json["outcome"], done.json["rounds"]) == (0, "PASSED", 2), done.err
    assert done.json["reason"].startswith("the tester reported PASS, and Logos has proven it: `python3 -m")
    for line in re.findall(r"^\d\d:\d\d:\d\d  (.*)$", text, re.MULTILINE):
        assert re.search(re.escape(line).replace("…", ".*"), done.err), line


def test_a_script_that_says_nothing_is_a_run_in_which_everybody_does_well(stage: Rehearsal) -> None:
    (stage.wd / "script.yaml").write_text("{}")
    done = stage.simulate()
    assert done.code == 0
    assert "simulation: the agents follow script.yaml" in done.err
    assert stage.asked == TURNS
    assert "(simulated): PASSED" in stage("status").out
    assert stage("runs", "--json").json["runs"][0]["simulated"] is True


def test_a_wrong_script_is_one_line_before_anything_starts(stage: Rehearsal) -> None:
    stage.script({"tester": [{"fault": "explode"}]})
    done = stage.simulate()
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith('logos: script.yaml: agents.tester, step 1: fault = "explode": must be one of hang,')
    assert done.err.count("\n") == 1
    assert not (stage.wd / ".telos").exists()
    assert stage("run", "--simulate", "nothing.yaml").err == (
        "logos: cannot read the script nothing.yaml: No such file or directory\n"
    )


def test_steps_edit_files_and_run_commands(stage: Rehearsal) -> None:
    stage.script(
        {
            "programmer": [{"edit": {"src/greet.py": "one"}}, {"edit": {"src/greet.py": "two"}}],
            "tester": [{"run": "cat src/greet.py; grep -q two src/greet.py"}],
        }
    )
    assert stage.simulate().code == 0
    assert "RESULT: FAIL" in stage.answered["r1.tester.c1"]
    assert stage.answered["r2.tester.c1"] == "RESULT: PASS\nEVIDENCE:\n- simulated\ntwo\n"


def test_an_edit_through_a_link_out_of_the_work_dir_is_refused(
    stage: Rehearsal, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (stage.wd / "link").symlink_to(elsewhere)
    stage.script({"programmer": [{"edit": {"link/x": "text"}}]})
    done = stage.simulate()
    assert done.code == 1
    assert "edit link/x: is outside the work dir" in last_words(done)[0]
    assert list(elsewhere.iterdir()) == []


def test_a_turn_asked_again_keeps_its_place_in_the_script(stage: Rehearsal) -> None:
    steps = [{"say": "RESULT: FAIL\n", "fault": "crash", "times": 2}, {"say": "RESULT: PASS\n"}]
    stage.script({"tester": steps})
    assert [stage.simulate().code for _ in range(3)] == [1, 1, 0]
    assert list(stage.answered.values())[4::3] == ["RESULT: FAIL\n", "RESULT: PASS\n"]


def test_a_script_that_ends_too_early_says_which_turn_it_lacks(stage: Rehearsal) -> None:
    stage.script(turns={"r1.analyst.c1": {"say": "ANALYST_SUMMARY: x"}}, otherwise="error")
    done = stage.simulate()
    assert done.code == 1
    assert "the script has no step for r1.peer_analyst.c1 (peer_analyst)" in last_words(done)[0]


# --- faults


def test_an_agent_that_hangs(stage: Rehearsal) -> None:
    # It is the first to be asked: how long others take to answer is not limited.
    stage.set(START_AGENT="programmer")
    stage.script({"programmer": [{"fault": "hang"}]})
    done = stage.simulate("--set", "handoff.response_timeout=0.5")
    error, hint = last_words(done)
    assert done.code == 1
    assert "programmer (r1.programmer.c1" in error
    assert "no response within RESPONSE_TIMEOUT (0.5 s), and its terminal is still busy" in error
    assert "can be resumed: logos run --set handoff.response_timeout=0.5 --simulate script.yaml --resume" in hint
    assert stage.left_behind() == []
    stage.script({"programmer": [{"say": "PROGRAMMER_SUMMARY: better"}]})
    assert stage.simulate("--resume").code == 0
    assert stage.asked == TURNS[2:]


def test_an_agent_that_crashes(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"fault": "crash", "message": "Segmentation fault", "times": 1}]})
    done = stage.simulate()
    assert done.code == 1
    assert "its process ended with 1: Segmentation fault" in last_words(done)[0]
    assert "Segmentation fault" in stage("status", "--json").json["stalled"]
    assert stage.simulate("--resume").code == 0
    assert stage.asked == TURNS


def test_an_agent_that_writes_no_file_is_reminded_once(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"fault": "no_file", "times": 1}]})
    done = stage.simulate()
    assert done.code == 0
    assert done.err.count("it is reminded of it") == 1


def test_an_agent_that_never_writes_its_file(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"fault": "no_file", "say": "I think\nI changed greet.py, all done!"}]})
    done = stage.simulate()
    error, hint = last_words(done)
    assert done.code == 1
    assert done.err.count("it is reminded of it") == 1
    assert "it went idle without writing its response file, also after a reminder" in error
    assert "I changed greet.py, all done!" in error
    assert "--resume" in hint


def test_without_strict_handoff_its_last_words_are_the_response(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"fault": "no_file", "say": "PROGRAMMER_SUMMARY: only said\n"}]})
    done = stage.simulate("--set", "handoff.strict_file_handoff=0")
    assert done.code == 0
    assert "reminded" not in done.err
    assert re.search(r"r1\.programmer\.c1 answered, 30 characters .*, read from its screen", done.err)
    assert stage.answered["r1.programmer.c1"] == "PROGRAMMER_SUMMARY: only said\n"


def test_garbage_of_a_tester_is_no_verdict(stage: Rehearsal) -> None:
    stage.script({"tester": [{"fault": "garbage"}]})
    done = stage.simulate("--set", "limits.max_rounds=1")
    assert done.code == 1
    assert done.err.count("answered no verdict") == 2
    assert "FAILED: no PASS in 1 round" in done.out
    assert "\x1b" not in done.err
    assert "\x00" not in done.err


def test_garbage_of_a_reviewer_is_no_approval(stage: Rehearsal) -> None:
    stage.script({"peer_analyst": [{"fault": "garbage", "message": "%PDF-1.7"}]})
    done = stage.simulate("--set", "limits.max_review_cycles=2", "--set", "limits.on_review_exhausted=block")
    assert done.code == 3
    assert stage.answered["r1.peer_analyst.c1"] == "%PDF-1.7"
    assert "BLOCKED: the peer_analyst did not approve in 2 review cycles" in done.out


@pytest.mark.long
def test_a_permission_prompt_is_shown_and_a_person_answers_it(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"fault": "permission", "question": "May I remove build/?"}]})
    with stage.start_simulation() as process:
        line = heard(process, "PERMISSION NEEDED")
        assert "waits for a person: May I remove build/? ⏎ to allow it: touch " in line
        status = stage("status", "--json").json
        assert status["status"] == "WAITING FOR YOU"
        assert "May I remove build/?" in status["in_flight"][0]["waits_for_you"]
        assert "it waits for you: " in stage("status").out
        Path(line.rpartition("touch ")[2].strip()).touch()
        done = ended(process)
    assert done.code == 0, done.err
    assert "PERMISSION NEEDED" not in done.err, "it was told once"


def test_a_permission_prompt_is_accepted_where_the_person_allowed_that(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"fault": "permission", "question": "May I remove build/?"}]})
    done = stage.simulate("--set", "handoff.auto_accept_permissions=1")
    assert done.code == 0
    assert "permission given: " in done.err
    assert "May I remove build/?" in done.err


LIMIT = "You've hit your usage limit. Try again at 2030-01-02T03:04:00Z."


def test_a_usage_limit_stops_the_run_and_says_until_when(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"fault": "usage_limit", "message": LIMIT, "times": 1}]})
    done = stage.simulate()
    error, hint = last_words(done)
    assert done.code == 4
    assert f"its provider's limit is reached: {LIMIT} (until 2030-01-02 " in error
    assert "can be resumed when the limit has ended: logos run --simulate script.yaml --resume" in hint
    assert "handoff.on_limit=wait" in hint
    status = stage("status", "--json").json
    assert (status["status"], status["next"]) == ("STOPPED", "logos run --simulate SCRIPT --resume")
    assert LIMIT in status["stalled"]
    assert stage.simulate("--resume").code == 0
    assert stage.asked == TURNS


def test_a_usage_limit_without_words_is_one_all_the_same(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"fault": "usage_limit", "message": "no more for today"}]})
    done = stage.simulate("--json")
    assert (done.code, done.json["exit_code"]) == (4, 4)
    assert "no more for today" in done.json["error"]
    assert "--resume" in done.json["hint"]


@pytest.mark.long
def test_a_usage_limit_is_waited_for_where_the_person_wants_that(stage: Rehearsal) -> None:
    message = "Usage limit reached, try again in 1 second"
    stage.script({"programmer": [{"fault": "usage_limit", "message": message, "times": 1}]})
    done = stage.simulate("--set", "handoff.on_limit=wait")
    assert done.code == 0
    assert re.search(rf"resting: r1\.programmer\.c1: {message}; waiting until \d{{4}}-.*, then asking again", done.err)
    assert stage.asked == TURNS


def test_at_a_usage_limit_a_spare_provider_takes_over_and_is_told_everything(stage: Rehearsal) -> None:
    config = {"agents": {"programmer": {"provider": "codex", "providers": ["claude_code", "gemini"]}}}
    (stage.wd / "team.json").write_text(json.dumps(config))
    stage.script(
        {
            "programmer": [{"say": "PROGRAMMER_SUMMARY: the first half"}, {"fault": "usage_limit", "times": 2}],
            "peer_programmer": [{"say": "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- gap\n"}, {}],
        }
    )
    done = stage("run", "team.json", "--simulate", "script.yaml", "--set", "handoff.on_limit=fallback")
    assert done.code == 0, done.err
    assert "claude_code takes over" in done.err
    assert "gemini takes over" in done.err
    prompts = [
        event.prompt for event in stage.all_events() if isinstance(event, TurnAsked) and "programmer.c2" in event.turn
    ]
    assert "A greeting is missing." not in prompts[0]
    assert "A greeting is missing." in prompts[-2], "the spare has not seen the explore summary"
    assert "PROGRAMMER_SUMMARY: the first half" in prompts[-2]
    assert list(stage.answered) == [*TURNS[:4], "r1.programmer.c2", "r1.peer_programmer.c2", TURNS[4]]


def test_when_no_spare_is_left_the_limit_stops_the_run(stage: Rehearsal) -> None:
    config = {"agents": {"programmer": {"providers": ["claude_code"]}}}
    (stage.wd / "team.json").write_text(json.dumps(config))
    stage.script({"programmer": [{"fault": "usage_limit"}]})
    done = stage("run", "team.json", "--simulate", "script.yaml", "--set", "handoff.on_limit=fallback")
    assert done.code == 4
    assert "claude_code takes over" in done.err
    assert "claude_code): its provider's limit is reached" in last_words(done)[0]


def test_a_hiccup_is_tried_again_twice(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"fault": "transient", "message": "API Error: 529 overloaded", "times": 2}]})
    done = stage.simulate()
    assert done.code == 0
    assert done.err.count("resting: r1.programmer.c1: API Error: 529 overloaded; waiting ") == 2
    assert stage.asked == TURNS


def test_a_hiccup_that_does_not_end_stops_the_run(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"fault": "transient", "times": 3}]})
    done = stage.simulate()
    assert done.code == 1
    assert "its provider failed, also after retries: API Error: 503 service unavailable" in last_words(done)[0]
    assert stage.simulate("--resume").code == 0


# --- budgets


@pytest.mark.parametrize(
    ("key", "limit", "twice", "says"),
    [
        ("max_tokens", "1000", "2000", r"limits\.max_tokens reached: 1,200 tokens of 1,000 tokens"),
        ("max_cost_usd", "0.5", "1.0", r"limits\.max_cost_usd reached: \$0\.60 of \$0\.50"),
        ("max_minutes", "0.004", "0.008", r"limits\.max_minutes reached: \d+\.\d minutes of 0\.0 minutes"),
    ],
)
def test_a_budget_stops_the_run_between_turns(stage: Rehearsal, key: str, limit: str, twice: str, says: str) -> None:
    step = {"usage": {"input": 500, "output": 100, "cost_usd": 0.3}, "delay": 0.15}
    stage.script({role: [step] for role in ("analyst", "peer_analyst")})
    done = stage.simulate("--set", f"limits.{key}={limit}")
    error, hint = last_words(done)
    assert done.code == 4
    assert re.search(says, error), error
    again = f"can be resumed with more: logos run --simulate script.yaml --set limits.{key}={twice} --resume"
    assert again in hint
    before = stage.asked
    # The time may be up before the first is asked.
    assert (0 if key == "max_minutes" else 1) <= len(before) < 5
    assert len(stage.answered) == len(before), "nobody is interrupted"

    status = stage("status", "--json").json
    assert status["stopped_because"].startswith(f"limits.{key} reached")
    assert status["next"] == f"logos run --simulate SCRIPT --set limits.{key}=… --resume"
    assert f"STOPPED, limits.{key} reached" in stage("status").out

    assert stage.simulate("--resume", "--set", f"limits.{key}={limit}").code == 4
    assert stage.asked == before, "the budget is still used up"
    assert stage.simulate("--resume", "--set", f"limits.{key}=100000").code == 0
    assert stage.asked == TURNS


def test_tokens_that_nobody_tells_use_up_no_budget(stage: Rehearsal) -> None:
    (stage.wd / "script.yaml").write_text("{}")
    assert stage.simulate("--set", "limits.max_tokens=1", "--set", "limits.max_cost_usd=0.01").code == 0


# --- what it cost


def test_usage_is_told_per_turn_role_phase_round_and_run(stage: Rehearsal) -> None:
    stage.script(
        {
            "analyst": [{"usage": {"input": 1000, "cached": 400, "output": 200, "cost_usd": 0.25}}],
            "programmer": [{"usage": {"input": 3000, "output": 500}}],
            "tester": [{"say": "RESULT: FAIL\n"}, {"say": "RESULT: PASS\n"}],
        }
    )
    done = stage.simulate("--json")
    assert done.code == 0
    assert "r1.analyst.c1 answered, " in done.err
    assert ", 1,200 tokens, $0.2500" in done.err
    total = {
        "turns": 8,
        "input": 7000,
        "cached": 400,
        "output": 1200,
        "tokens": 8200,
        "cost_usd": 0.25,
        "tokens_unknown_turns": 5,
        "cost_unknown_turns": 7,
        "premium_requests": None,
        "estimated": False,
    }
    assert done.json["usage"] == total
    cost = stage("cost", "--json").json
    assert cost["usage"] == total
    by = cost["usage_by"]
    assert by["roles"]["programmer"] | {"cost_usd": 0} == by["roles"]["programmer"] | {
        "turns": 2,
        "tokens": 7000,
        "cached": None,
        "cost_usd": 0,
        "cost_unknown_turns": 2,
        "premium_requests": None,
        "estimated": False,
    }
    assert by["roles"]["programmer"]["cost_usd"] is None
    assert {role: told["tokens"] for role, told in by["roles"].items()} == {
        "analyst": 1200,
        "peer_analyst": None,
        "programmer": 7000,
        "peer_programmer": None,
        "tester": None,
    }
    assert {name: told["turns"] for name, told in by["phases"].items()} == {
        "analyst": 2,
        "programmer": 4,
        "tester": 2,
    }
    assert {name: told["tokens"] for name, told in by["rounds"].items()} == {"1": 4700, "2": 3500}
    assert stage("status", "--json").json["usage"] == total
    assert stage("runs", "--json").json["runs"][0]["usage"] == total
    turns = {row["turn"]: row["usage"] for row in stage("show", cost["run"], "--json").json["timeline"]}
    assert turns["r1.peer_analyst.c1"] is None
    assert turns["r1.analyst.c1"] == {
        "input": 1000,
        "cached": 400,
        "output": 200,
        "tokens": 1200,
        "cost_usd": 0.25,
        "premium_requests": None,
        "estimated": False,
    }
    assert turns["r2.programmer.c1"] == {
        "input": 3000,
        "cached": None,
        "output": 500,
        "tokens": 3500,
        "cost_usd": None,
        "premium_requests": None,
        "estimated": False,
    }


def test_unknown_is_written_and_never_zero(stage: Rehearsal) -> None:
    stage.script({"analyst": [{"usage": {"input": 1000, "output": 200}}]})
    done = stage.simulate()
    run = stage("runs", "--json").json["runs"][0]["run"]
    summary = "1,200 tokens (unknown for 4 of 5 turns)"
    assert summary in done.out
    assert summary in stage("status").out
    assert f"run {run} (simulated): 5 turns, {summary}" in stage("cost").out
    rows = {line.split("  ")[0]: line.split()[-7:] for line in stage("cost").out.splitlines()[2:]}
    assert rows["role tester"] == [*["unknown"] * 5, "1", "1"]
    assert rows["total"] == ["1,000", "unknown", "200", "1,200", "unknown", "4", "5"]
    listed = {line.split()[0]: line for line in stage("show", run).out.splitlines()}
    assert "1,200  unknown" in listed["r1.analyst.c1"]
    assert "unknown  unknown" in listed["r1.tester.c1"]
    assert "usage: 1,200 tokens (1,000 in, 200 out), cost unknown" in stage("show", run, "r1.analyst.c1").out
    assert "usage: tokens unknown" in stage("show", run, "r1.tester.c1").out
    assert re.search(rf"{run} .* 1,200 +unknown ", stage("runs").out)


def test_a_turn_that_told_nothing_after_one_that_did_is_unknown(stage: Rehearsal) -> None:
    stage.script(
        {
            "programmer": [{"usage": {"input": 10, "output": 1}}, {}, {"usage": {"input": 20, "output": 2}}],
            "tester": [{"say": "RESULT: FAIL\n"}, {"say": "RESULT: FAIL\n"}, {}],
        }
    )
    assert stage.simulate().code == 0
    told = [event.usage and event.usage.tokens for event in stage.all_events() if event.kind == "turn_answered"]
    assert [told[2], told[5], told[8]] == [11, None, 22]


# --- recording


@pytest.mark.long
def test_a_recorded_run_can_be_replayed(stage: Rehearsal) -> None:
    stage.script(
        {
            "analyst": [{"say": "ANALYST_SUMMARY:\n- use {output} and {verdict}: grün\n\n", "delay": 0.3}],
            "programmer": [{"usage": {"input": 10, "output": 1, "cost_usd": 0.001}, "edit": {"x": "1"}}],
            "peer_programmer": [{"say": "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- gap\n"}, {}],
            "tester": [{"run": "test -e y", "say": "RESULT: {verdict}\n{output}"}, {"say": "RESULT: PASS\n"}],
        }
    )
    first = stage.simulate("--json")
    answered, bill = stage.answered, stage("cost", "--json").json["usage"]
    done = stage("record", "-o", "replay.yaml", "--delays")
    assert (done.code, done.out) == (0, "")
    assert f"replay.yaml: {len(answered)} turns of run {first.json['run']}" in done.err
    text = (stage.wd / "replay.yaml").read_text()
    assert text.startswith(f"# Recorded from run {first.json['run']} of ")
    assert "file changes: " in text
    assert "is not a git repository" in text
    assert yaml.safe_load(text)["turns"]["r1.analyst.c1"]["delay"] >= 0.3

    (stage.wd / "x").unlink()
    again = stage("run", "--simulate", "replay.yaml", "--fresh", "--json")
    assert again.json["run"] != first.json["run"]
    same = ("outcome", "exit_code", "reason", "rounds", "turns", "usage")
    assert {key: again.json[key] for key in same} == {key: first.json[key] for key in same}
    assert stage.answered == answered
    assert stage("cost", "--json").json["usage"] == bill
    assert not (stage.wd / "x").exists()


def test_an_unfinished_run_is_recorded_as_far_as_it_came(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"fault": "crash"}]})
    assert stage.simulate().code == 1
    recorded = stage("record", "--json").json
    assert list(recorded["turns"]) == TURNS[:2]
    (stage.wd / "script.yaml").write_text(stage("record").out)
    done = stage.simulate("--fresh")
    assert done.code == 1
    assert "the script has no step for r1.programmer.c1 (programmer)" in last_words(done)[0]
    assert list(stage.answered) == TURNS[:2]


def test_a_recording_overwrites_nothing_and_holds_no_secrets(stage: Rehearsal) -> None:
    stage.script({"analyst": [{"say": "the key is sk-abcdefghijklmnopqrstuvwx"}]})
    assert stage.simulate().code == 0
    (stage.wd / "mine.yaml").write_text("mine")
    refused = stage("record", "-o", "mine.yaml")
    assert (refused.code, (stage.wd / "mine.yaml").read_text()) == (2, "mine")
    assert refused.err == "logos: mine.yaml exists, not overwritten (use --force)\n"
    assert stage("record", "-o", "mine.yaml", "--force").code == 0
    assert "the key is [redacted]" in (stage.wd / "mine.yaml").read_text()


def test_a_run_without_an_answer_cannot_be_recorded(stage: Rehearsal) -> None:
    stage.script({"analyst": [{"fault": "crash"}]})
    stage.simulate()
    done = stage("record")
    assert (done.code, done.out) == (2, "")
    assert "has no answered turn yet" in done.err


# --- leaving and coming back


@pytest.mark.long
def test_ctrl_c_ends_the_agents_and_the_run_can_be_resumed(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"fault": "hang", "times": 1}]})
    with stage.start_simulation() as process:
        heard(process, "r1.programmer.c1 prompt delivered")
        wait_for(lambda: any(out.read_text() == "working" for out in stage.wd.glob(".telos/scripted/*/turn-1/out")))
        process.send_signal(signal.SIGINT)
        assert ended(process).code == 130
    assert stage.left_behind() == []
    assert stage.simulate("--resume").code == 0
    assert stage.asked == TURNS


def test_a_killed_driver_leaves_its_agents_at_work_and_the_next_one_waits_for_them(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"run": until_exists("go")}]})
    with stage.start_simulation() as process:
        heard(process, "r1.programmer.c1 prompt delivered")
        process.kill()
    assert stage.left_behind() != []
    with stage.start_simulation("--resume") as process:
        heard(process, "back at r1.programmer.c1: its terminal is busy; waiting for it")
        (stage.wd / "go").touch()
        done = ended(process)
    assert done.code == 0, done.err
    assert stage.asked == TURNS
    wait_for(lambda: not stage.left_behind())


def test_a_simulation_goes_on_with_a_script_only(stage: Rehearsal) -> None:
    stage.script({"programmer": [{"fault": "crash", "times": 1}]})
    assert stage.simulate().code == 1
    done = stage("run", "--resume")
    assert done.code == 1
    assert "the unfinished run here is a simulation: --simulate SCRIPT resumes it, --fresh starts a new run" in done.err
    assert stage.simulate("--resume").code == 0


def test_a_real_run_does_not_go_on_as_a_simulation(stage: Rehearsal) -> None:
    (stage.wd / ".tmp").mkdir()
    state = {"final_status": "RUNNING", "session_name": "cao-real", "prompt": PROMPT}
    (stage.wd / ".tmp" / "agnostic-3agents-loop-state.json").write_text(json.dumps(state))
    (stage.wd / "script.yaml").write_text("{}")
    done = stage.simulate()
    assert done.code == 2
    assert "the unfinished run here is not a simulation: use --resume without --simulate, or --fresh" in done.err
    assert stage.simulate("--fresh").code == 0
