"""`logos demo` as a newcomer runs it: a process of its own, no key, no server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from logos.app.demo import copy_repository, cycle_script
from logos.domain.roles import Phase
from logos.flows.cycle.verdicts import evidence_found, says_approved
from tests.support.sandbox import LOGOS, ended, heard, processes_of
from tests.support.waiting import LAST_RESORT, wait_for

# Nothing of the person's environment may have a say: these would break any real run.
HOSTILE = {
    "API": "http://127.0.0.1:9",
    "START_AGENT": "nobody",
    "MAX_ROUNDS": "many",
    "PROMPT_FILE": "/nowhere",
    "WD": "/nowhere",
}


def run_demo(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LOGOS, "demo", *arguments],
        cwd=cwd,
        env={**os.environ, **HOSTILE, "TMPDIR": str(cwd)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LAST_RESORT,
        check=False,
    )


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    place = tmp_path_factory.mktemp("demo")
    return place, run_demo("--json", cwd=place)


@pytest.fixture(scope="module")
def told(shown: tuple[Path, subprocess.CompletedProcess[str]]) -> dict[str, Any]:
    assert shown[1].returncode == 0, shown[1].stderr
    return json.loads(shown[1].stdout)


def verdicts(told: dict[str, Any]) -> dict[str, str]:
    return {turn["turn"]: turn["verdict"] for turn in told["timeline"] if turn["verdict"]}


def test_the_demo_passes_in_two_rounds(told: dict[str, Any]) -> None:
    assert (told["outcome"], told["exit_code"], told["rounds"], told["turns"]) == ("PASSED", 0, 2, 10)
    assert told["reason"].startswith("the tester reported PASS, and Logos has proven it: ")
    assert told["verified"] is True
    assert told["seconds"] > 0


def test_the_first_review_objects_the_proof_catches_the_cheat_and_the_second_attempt_is_proven(
    told: dict[str, Any],
) -> None:
    assert verdicts(told) == {
        "baseline": "5 passed, 4 failed",
        "r1.peer_analyst.c1": "REVISE",
        "r1.peer_analyst.c2": "APPROVED",
        "r1.peer_programmer.c1": "APPROVED",
        "r1.tester.c1": "PASS",
        "r1.changes": "2 files changed",
        "r1.proof.result": "exit 0, 9 passed",
        "r1.proof.guarded": "exit 1, 8 passed, 1 failed",
        "r2.peer_programmer.c1": "APPROVED",
        "r2.tester.c1": "PASS",
        "r2.changes": "1 file changed",
        "r2.proof.result": "exit 0, 9 passed",
        "r2.proof.guarded": "exit 0, 9 passed",
        "r2.proof.canary": "9 of 9 planted failures noticed",
    }


def test_the_story_says_in_one_line_that_the_cheat_was_caught(
    shown: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    told = [line for line in shown[1].stderr.splitlines() if line.startswith("CAUGHT: ")]
    assert len(told) == 1
    assert "test_discount.py" in told[0]


@pytest.mark.long
def test_the_proof_of_the_demo_agrees_when_it_is_repeated(told: dict[str, Any], tmp_path: Path) -> None:
    def proof(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([LOGOS, "proof", *arguments], cwd=cwd, capture_output=True, text=True, check=False)

    at, empty, file = ("--wd", told["folder"]), tmp_path / "empty", tmp_path / "proof.tar"
    empty.mkdir()
    here = proof("--again", "--json", *at, cwd=empty)
    assert (here.returncode, json.loads(here.stdout)["agrees"]) == (0, True), here.stderr
    assert proof("--export", str(file), *at, cwd=empty).returncode == 0
    elsewhere = proof("--again", str(file), "--trust-command", "--json", cwd=empty)
    assert (elsewhere.returncode, json.loads(elsewhere.stdout)["agrees"]) == (0, True), elsewhere.stderr
    assert not [*empty.iterdir()]


def test_the_failure_is_that_of_the_test_before_the_run_and_reaches_the_programmer(told: dict[str, Any]) -> None:
    def show(turn: str) -> dict[str, Any]:
        done = subprocess.run(
            [LOGOS, "show", told["run"][:4], turn, "--wd", told["folder"], "--json"], capture_output=True, check=True
        )
        return json.loads(done.stdout)

    assert "AssertionError: 1500 != 1350" in show("r1.proof.guarded")["response"]
    assert "AssertionError: 1500 != 1350" in show("r2.programmer")["prompt"]


def test_the_repository_has_the_feature_and_its_tests_pass(told: dict[str, Any]) -> None:
    place = Path(told["folder"])
    subprocess.run([sys.executable, "-m", "unittest"], cwd=place, capture_output=True, check=True)
    assert "+        if sum(item.pieces for item in items) >= BULK_PIECES:" in told["diff"]
    assert (place / "openspec" / "changes" / "bulk-discount" / "proposal.md").is_file()
    commits = subprocess.run(["git", "log", "--format=%s"], cwd=place, capture_output=True, text=True, check=True)
    assert commits.stdout == "a small shop\n"


def test_with_json_everything_else_is_on_stderr(shown: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    done = shown[1]
    json.loads(done.stdout)
    assert "Where to look next:" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_scripts_do_not_tell_is_unknown_and_not_zero(told: dict[str, Any]) -> None:
    assert (told["usage"]["tokens"], told["usage"]["cost_usd"]) == (None, None)
    assert told["usage"]["tokens_unknown_turns"] == told["turns"]


def test_no_process_is_processes_of(told: dict[str, Any]) -> None:
    assert processes_of(Path(told["folder"])) == []


@pytest.mark.long
def test_the_demo_ends_with_diff_timeline_and_where_to_look(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    done = run_demo("--keep", str(folder), cwd=tmp_path)
    assert done.returncode == 0
    text = done.stdout
    order = ["What the agents changed:", "+BULK_PIECES = 10", "turn by turn:", "r1.tester.c1", "PASSED: ", "look next:"]
    assert sorted(order, key=text.index) == order
    assert f"--wd {folder}" in text
    assert (folder / "orders.py").is_file()
    again = run_demo("--keep", str(folder), cwd=tmp_path)
    assert again.returncode == 2
    assert again.stderr == f"logos: --keep {folder}: the folder is not empty\n"


@pytest.mark.long
def test_stopping_the_demo_leaves_nothing_running(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with subprocess.Popen(
        [LOGOS, "demo", "--keep", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        heard(process, "r1.programmer.c1 prompt delivered")
        process.send_signal(signal.SIGINT)
        done = ended(process)
    assert (done.code, done.out) == (130, "")
    assert "logos: stopped by SIGINT" in done.err
    wait_for(lambda: not processes_of(folder), lambda: processes_of(folder))


def test_the_demos_tests_fail_before_anybody_works_on_it(tmp_path: Path) -> None:
    copy_repository(tmp_path, "python3", levels=False)
    done = subprocess.run([sys.executable, "-m", "unittest"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "FAILED (failures=4)" in done.stderr


def test_the_demos_reviews_would_count_in_a_real_run() -> None:
    said = cycle_script("python3")
    for role, phase in (("peer_analyst", Phase.ANALYST), ("peer_programmer", Phase.PROGRAMMER)):
        for step in said[role]:
            assert not says_approved(step["say"]) or evidence_found(step["say"], phase) == 4
    assert [says_approved(step["say"]) for step in said["peer_analyst"]] == [False, True]
