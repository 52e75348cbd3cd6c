"""Environment variables of `logos run` and `logos build`: names of our own win over names that other programs use."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import logos
from logos import cycle
from logos.app.environment_notes import NO_SETTINGS
from logos.app.setting_sources import LEAVES, own_variable
from logos.testing import PASS
from tests.support.isolation import OURS
from tests.support.sandbox import PROMPT, Sandbox, changed_environ

TEAM = {"tester": [{"say": PASS}]}


def run(sandbox: Sandbox, *more: str) -> str:
    done = sandbox("run", "--simulate", str(sandbox.script(TEAM)), "--set", f"prompt={PROMPT}", *more)
    assert done.code == 0, done.err
    return done.err


def test_a_name_of_our_own_wins_over_one_that_others_use(sandbox: Sandbox) -> None:
    sandbox.set(MAX_ROUNDS="many", LOGOS_MAX_ROUNDS="2", LOGOS_START_AGENT="tester", START_AGENT="")
    err = run(sandbox)
    assert sandbox.asked == ["r1.tester.c1"]
    assert "MAX_ROUNDS" not in err


def test_a_common_name_that_decides_is_said_once(sandbox: Sandbox) -> None:
    sandbox.set(START_AGENT="tester", MAX_ROUNDS="3", LOGOS_MAX_REVIEW_CYCLES="2", POLL_SECONDS="0.1")
    err = run(sandbox, "--set", "limits.poll_seconds=0.02")
    notes = [line for line in err.splitlines() if "START_AGENT" in line]
    assert len(notes) == 1
    assert "settings from the environment: " in notes[0]
    assert "MAX_ROUNDS" in notes[0]
    assert not re.search("POLL_SECONDS|REVIEW_CYCLES", notes[0])


def test_without_common_names_nothing_is_said(sandbox: Sandbox) -> None:
    sandbox.set(
        LOGOS_VERIFY_PASS="0", EXPECT_CHANGE="", LOGOS_EXPECT_CHANGE="0", LOGOS_ROOT="/somewhere", LOGOS_LOG="warning"
    )
    assert "environment" not in run(sandbox)


def test_an_unknown_name_of_ours_is_a_warning_with_the_nearest_one(sandbox: Sandbox) -> None:
    sandbox.set(LOGOS_MAX_ROUND="2", LOGOS_QQQQQQQQ="1")
    err = run(sandbox)
    assert "warning: LOGOS_MAX_ROUND is not a setting of Logos and is ignored; did you mean LOGOS_MAX_ROUNDS?" in err
    assert "warning: LOGOS_QQQQQQQQ is not a setting of Logos and is ignored" in err


def test_a_wrong_value_names_the_variable_it_came_from(sandbox: Sandbox) -> None:
    sandbox.set(LOGOS_MAX_ROUNDS="many")
    assert "LOGOS_MAX_ROUNDS='many': must be a whole number" in sandbox("run").err


def test_a_build_says_it_too(sandbox: Sandbox) -> None:
    sandbox.set(MAX_PARALLEL="7", BUILD_MAX_PARALLEL="3", LOGOS_PROVIDR="x")
    err = sandbox("build", "a feature", "--simulate", str(sandbox.script({}))).err
    assert re.search("settings from the environment: .*BUILD_MAX_PARALLEL", err)
    assert "did you mean LOGOS_PROVIDER?" in err


def test_validate_warns_of_unknown_names(sandbox: Sandbox) -> None:
    (sandbox.wd / "logos.json").write_text(json.dumps({"prompt": PROMPT, "project_test_cmd": "true"}))
    sandbox.set(LOGOS_HOSTS="local", LOGOS_HOST="local", PROVIDER="codex")
    assert "did you mean LOGOS_HOST?" in sandbox("validate").out + sandbox("validate").err


def test_commands_that_read_find_the_work_dir_by_our_own_name(sandbox: Sandbox, tmp_path: Path) -> None:
    run(sandbox)
    sandbox.set(LOGOS_WD=str(sandbox.wd), WD="/nowhere")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "tester" in sandbox.at(elsewhere)("log").out


@pytest.mark.parametrize("name", ["LOGOS_MAX_ROUNDS", "LOGOS_MAX_ROUNDZ"])
def test_the_bare_form_reads_the_names_of_the_specification_only(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with changed_environ({name: "none", "START_AGENT": "nobody"}):
        assert cycle.main([]) == 1
    said = capsys.readouterr().err
    assert 'START_AGENT = "nobody"' in said
    assert "LOGOS_" not in said


def test_every_name_in_the_source_is_in_the_table() -> None:
    folder = Path(logos.__file__).parent
    sources = [path for path in folder.rglob("*") if path.suffix in (".py", ".sh", ".cjs", ".j2")]
    named = {name for path in sources for name in re.findall(r"\bLOGOS_[A-Z_]+[A-Z]\b", path.read_text())}
    settings = {own_variable(leaf) for leaf in LEAVES}
    assert named - settings - {"LOGOS_RESPONSE_END", "LOGOS_X"} <= NO_SETTINGS
    assert settings | {"LOGOS_LOG"} <= OURS
