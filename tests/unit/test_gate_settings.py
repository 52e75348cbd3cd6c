"""Settings of gates: their forms, and that only a person takes a gate away from a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from logos.app.run_start import make_plan
from logos.app.setting_sources import given_settings, json_schema, load_settings, resumed_settings
from logos.app.settings import Settings
from logos.domain.gates import GateKind
from logos.domain.plans import CyclePlan, GivenSetting, LevelsPlan, SettingSource
from logos.errors import ConfigError
from tests.builders import a_quick_plan
from tests.levels_builders import a_levels_plan

PLAN, PASS_GATE = GateKind.AFTER_PLAN, GateKind.BEFORE_PASS
BOTH = [PLAN, PASS_GATE]


def settings(tmp_path: Path, file: Any = None, *flags: str, env: Mapping[str, str] | None = None) -> Settings:
    config = tmp_path / "logos.json"
    config.write_text(json.dumps({} if file is None else file))
    return load_settings(config, env or {}, [f"wd={tmp_path}", *flags])


def test_without_settings_there_are_no_gates(tmp_path: Path) -> None:
    assert settings(tmp_path).gates.at == ()
    assert make_plan(settings(tmp_path), a_quick_plan().prompt).gates == ()
    assert settings(tmp_path).gates.remind_minutes == 60


@pytest.mark.parametrize("gates", [["after_plan", "before_pass"], {"at": ["after_plan", "before_pass"]}])
def test_the_file_names_gates_as_a_list_or_an_object(tmp_path: Path, gates: Any) -> None:
    found = settings(tmp_path, {"gates": gates})
    assert make_plan(found, a_quick_plan().prompt).gates == (PLAN, PASS_GATE)
    jsonschema.validate({"gates": gates}, json_schema())


def test_flags_and_variables_win_over_the_file_in_either_form(tmp_path: Path) -> None:
    file = {"gates": ["after_plan"]}
    assert settings(tmp_path, file, "gates.at=before_pass").gates.at == (PASS_GATE,)
    assert settings(tmp_path, file, env={"GATES": "after_plan,before_pass"}).gates.at == (PLAN, PASS_GATE)
    assert settings(tmp_path, file, env={"LOGOS_GATES": "none"}).gates.at == ()
    assert settings(tmp_path, file, "gates.at=").gates.at == ()
    both = settings(tmp_path, file, env={"GATES_REMIND_MINUTES": "5"}).gates
    assert (both.at, both.remind_minutes) == ((PLAN,), 5)


@pytest.mark.parametrize(
    ("file", "env", "told"),
    [
        ({"gates": ["lunch"]}, {}, 'gates.at[0] = "lunch": must be one of after_plan, before_pass'),
        ({"gates": {"when": []}}, {}, "gates.when: unknown key; known here: at, remind_minutes"),
        ({}, {"GATES": "lunch"}, 'GATES = "lunch": must be one of after_plan, before_pass'),
        ({"gates": {"remind_minutes": -1}}, {}, "gates.remind_minutes = -1"),
    ],
)
def test_a_gate_that_there_is_not_is_an_error(tmp_path: Path, file: Any, env: Mapping[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as error:
        settings(tmp_path, file, env=env)
    assert told in str(error.value)


# --- at a resume


@pytest.fixture(params=[a_quick_plan(gates=(PLAN,)), a_levels_plan(gates=(PLAN,))], ids=["run", "build"])
def plan(request: pytest.FixtureRequest) -> CyclePlan | LevelsPlan:
    return request.param


def test_a_resumed_run_keeps_its_gates(tmp_path: Path, plan: CyclePlan | LevelsPlan) -> None:
    assert resumed_settings(settings(tmp_path), (), plan).gates.at == (PLAN,)


@pytest.mark.parametrize("file", [{"gates": []}, {"gates": {"at": []}}, {"gates": ["before_pass"]}])
def test_a_file_takes_no_gate_away_from_a_run_and_may_add_one(
    tmp_path: Path, file: Any, plan: CyclePlan | LevelsPlan
) -> None:
    added = (PASS_GATE,) if file["gates"] == ["before_pass"] else ()
    assert resumed_settings(settings(tmp_path, file), (), plan).gates.at == (PLAN, *added)
    assert resumed_settings(settings(tmp_path), (), plan, pinned=file).gates.at == (PLAN, *added)


def test_a_flag_or_a_variable_takes_a_gate_away(tmp_path: Path, plan: CyclePlan | LevelsPlan) -> None:
    file = {"gates": ["after_plan"]}
    assert resumed_settings(settings(tmp_path, file, "gates.at=none"), (), plan).gates.at == ()
    assert resumed_settings(settings(tmp_path, file, env={"GATES": "before_pass"}), (), plan).gates.at == (PASS_GATE,)


def test_what_an_earlier_command_was_given_holds_at_the_next_resume(
    tmp_path: Path, plan: CyclePlan | LevelsPlan
) -> None:
    earlier = (GivenSetting("gates.at", "before_pass", SettingSource.FLAG),)
    assert resumed_settings(settings(tmp_path), earlier, plan).gates.at == (PASS_GATE,)
    now = settings(tmp_path, None, "gates.at=none")
    assert given_settings(now, earlier) == (GivenSetting("gates.at", "none", SettingSource.FLAG),)
