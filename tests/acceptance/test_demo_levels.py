"""`logos demo --levels` as a newcomer runs it; a file of its own, so that it runs beside the other demo's tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.hosts.script import read_script
from logos.app.demo import copy_repository, levels_script
from tests.acceptance.test_demo import HOSTILE
from tests.support.sandbox import LOGOS, processes_of
from tests.support.waiting import LAST_RESORT

# The demo takes its time, so that a person can follow it.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """What it printed, as a document and for a person; in a folder that is kept."""
    place = tmp_path_factory.mktemp("demo") / "kept"
    done = subprocess.run(
        [LOGOS, "demo", "--levels", "--json", "--keep", place],
        env={**os.environ, **HOSTILE},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LAST_RESORT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def told(shown: tuple[dict[str, Any], str]) -> dict[str, Any]:
    return shown[0]


def logos(told: dict[str, Any], *arguments: str) -> dict[str, Any]:
    done = subprocess.run([LOGOS, *arguments, "--wd", told["folder"], "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)


def spans(told: dict[str, Any], *, sweep: int) -> list[tuple[float, float]]:
    """When the authors of a sweep were at work."""
    turns = [turn for turn in told["timeline"] if re.fullmatch(rf"s{sweep}\.L2\.\w+\.author", turn["turn"])]
    starts = [datetime.fromisoformat(turn["asked_at"]).timestamp() for turn in turns]
    return [(start, start + turn["seconds"]) for start, turn in zip(starts, turns, strict=True)]


def test_the_levels_pass_after_one_conflict_and_one_failed_validation(told: dict[str, Any]) -> None:
    assert (told["outcome"], told["exit_code"], told["rounds"], told["turns"]) == ("PASSED", 0, 3, 42)
    assert [(own["cause"], own["level"]) for own in told["settled"]] == [("conflict", "L3"), ("failure", "L5")]
    conflict, failure = told["settled"]
    assert "same definition: euros (discount and wrapping)" in conflict["question"]
    assert "AssertionError: '21.60' != '22.50'" in failure["evidence"]
    assert (conflict["rework"], failure["rework"]) == (["discount", "wrapping"], ["discount"])


def test_logos_finds_the_conflict_before_it_merges_and_the_failure_by_running_the_journeys(
    told: dict[str, Any],
) -> None:
    order = [turn["turn"] for turn in told["timeline"]]
    assert order.index("s1.q1.L3.propose.r1") < order.index("s2.merge")
    ran = {turn["turn"]: turn["verdict"] for turn in told["timeline"] if ".check." in turn["turn"]}
    assert ran == {
        "s2.L1.check.syntax": "exit 0",
        "s2.L2.check.tests": "exit 0",
        "s2.L5.check.journeys": "exit 1",
        "s3.L1.check.syntax": "exit 0",
        "s3.L2.check.tests": "exit 0",
        "s3.L5.check.journeys": "exit 0",
    }


def test_its_authors_really_work_at_the_same_time(told: dict[str, Any]) -> None:
    together = sorted(spans(told, sweep=1))
    assert len(together) == 3
    for (_, ended), (began, _) in pairwise(together):
        assert began < ended


def test_what_was_built_is_a_branch_whose_tests_pass_and_the_persons_branch_is_as_it_was(
    told: dict[str, Any], tmp_path: Path
) -> None:
    place, there = Path(told["folder"]), tmp_path / "there"
    subprocess.run(["git", "clone", "-q", "-b", told["branch"], place, there], check=True)
    for tests in ([], ["journeys"]):
        subprocess.run([sys.executable, "-m", "unittest", *tests], cwd=there, capture_output=True, check=True)
    log = subprocess.run(["git", "log", "--format=%s"], cwd=place, capture_output=True, text=True, check=True)
    status = subprocess.run(["git", "status", "--short"], cwd=place, capture_output=True, text=True, check=True)
    assert (log.stdout, status.stdout) == ("a small shop\n", "")
    assert "+        if sum(item.pieces for item in lines) >= BULK_PIECES:" in told["diff"]


def test_afterwards_lineage_telos_and_every_turn_can_be_read(told: dict[str, Any]) -> None:
    built = logos(told, "lineage")
    assert {own["name"]: own["tests"] for own in built["components"]} == {
        "wrapping": ["test_wrapping.py"],
        "discount": ["test_discount.py"],
        "journeys": ["journeys.py"],
        "receipt": ["test_receipt.py"],
    }
    assert built == told["lineage"]
    proven = [level["level"] for level in logos(told, "telos")["levels"] if level["tools"]]
    assert proven == ["L5", "L2", "L1"]
    author = logos(told, "show", told["run"], "s3.L2.discount.author")
    assert "wrapping is charged in full" in author["prompt"]
    assert "AssertionError: '21.60' != '22.50'" in author["prompt"]


def test_a_person_reads_what_was_built_the_conflicts_what_happened_and_where_to_look(
    shown: tuple[dict[str, Any], str],
) -> None:
    told, text = shown
    headings = ["What was built", "The conflicts", "turn by turn:", "What every file is for:", "look next:"]
    assert sorted(headings, key=text.index) == headings
    assert f"git -C {told['folder']} diff HEAD {told['branch']}" in text
    assert "Traceback" not in text


def test_nothing_is_left_behind_but_the_branch(told: dict[str, Any]) -> None:
    place = Path(told["folder"])
    assert processes_of(place) == []
    listed = subprocess.run(
        ["git", "branch", "--format=%(refname:short)"], cwd=place, capture_output=True, text=True, check=True
    )
    branches = listed.stdout.split()
    assert told["branch"] in branches
    assert len(branches) == 2
    trees = subprocess.run(["git", "worktree", "list"], cwd=place, capture_output=True, text=True, check=True)
    assert len(trees.stdout.splitlines()) == 1


def test_the_shop_passes_its_own_tests_before_anybody_works_on_it(tmp_path: Path) -> None:
    copy_repository(tmp_path, sys.executable, levels=True)
    for tests in ([], ["journeys"]):
        subprocess.run([sys.executable, "-m", "unittest", *tests], cwd=tmp_path, capture_output=True, check=True)


def test_its_script_is_one_for_levels_and_leaves_no_turn_to_chance() -> None:
    script = read_script(levels_script("python3"))
    assert (script.flow, script.otherwise) == ("levels", "error")
