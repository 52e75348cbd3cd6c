"""Setting up: init, validate, schema, profiles, doctor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logos.app.setting_sources import LEAVES, load_settings
from logos.app.tool_detection import detect_test_command
from tests.support.sandbox import PROMPT, Sandbox

NOWHERE = "http://127.0.0.1:9"


def write(path: Path, data: object) -> str:
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return str(path)


# init


def test_init_writes_a_configuration_that_works_and_verifies_passes(sandbox: Sandbox) -> None:
    (sandbox.wd / "Makefile").write_text("test:\n\ttrue\n")
    done = sandbox("init")
    assert done.code == 0
    settings = load_settings(sandbox.wd / "logos.json", {})
    assert (settings.verify_pass, settings.project_test_cmd, settings.prompt_file) == (True, "make test", "prompt.md")
    assert "test command: make test" in done.out
    assert "logos run" in done.out
    schema = json.loads((sandbox.wd / "logos.json").read_text())["$schema"]
    assert json.loads((sandbox.wd / schema).read_text())["title"] == "Logos configuration"


def test_init_says_when_no_test_command_is_found(sandbox: Sandbox) -> None:
    assert "none found; set project_test_cmd" in sandbox("init").out
    assert sandbox("init", "--force", "--json").json["project_test_cmd"] == ""


def test_init_never_overwrites_without_force(sandbox: Sandbox) -> None:
    (sandbox.wd / "prompt.md").write_text("mine")
    first = sandbox("init", "--json").json
    assert (first["written"], first["kept"]) == (["logos.json", "telos.toml"], ["prompt.md"])
    again = sandbox("init")
    assert (again.code, (sandbox.wd / "prompt.md").read_text()) == (2, "mine")
    assert again.err.count("\n") == 1
    assert "--force" in again.err
    assert sandbox("init", "--force").code == 0
    assert (sandbox.wd / "prompt.md.bak").read_text() == "mine"


def test_init_in_a_folder_that_cannot_be_written_is_one_line(sandbox: Sandbox) -> None:
    (sandbox.wd / "logos.json").mkdir()
    (sandbox.wd / "logos.json.bak").write_text("in the way")
    done = sandbox("init", "--force")
    assert done.code == 2
    assert done.err.startswith("logos: cannot write ")


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("Makefile", "all:\n\ttrue\ntest: all\n\ttrue\n", "make test"),
        ("Makefile", "test := 1\n", ""),
        ("package.json", '{"scripts": {"test": "vitest"}}', "npm test"),
        ("package.json", '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}', ""),
        ("package.json", "{broken", ""),
        ("Cargo.toml", "", "cargo test"),
        ("go.mod", "", "go test ./..."),
        ("pyproject.toml", "[tool.pytest.ini_options]\n", "python3 -m pytest -q"),
        ("tests/test_it.py", "import pytest\n", "python3 -m pytest -q"),
        ("tests/test_it.py", "from shop import buy\n\n\ndef test_buy():\n    assert buy()\n", "python3 -m pytest -q"),
        ("test_it.py", "async def test_buy():\n    assert 1\n", "python3 -m pytest -q"),
        ("test_it.py", "import unittest\n", "python3 -m unittest"),
        ("test_it.py", "class Test(TestCase):\n    def test_buy(self):\n        pass\n", "python3 -m unittest"),
        ("pom.xml", "", "mvn -q test"),
        ("README.md", "run the tests", ""),
    ],
)
def test_the_test_command_is_found_by_its_signs(tmp_path: Path, name: str, text: str, command: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert detect_test_command(tmp_path) == command


# validate


def test_a_good_configuration_is_valid(sandbox: Sandbox) -> None:
    config = write(
        sandbox.wd / "c.json", {"prompt": PROMPT, "project_test_cmd": "true", "verify_pass": True, "api": NOWHERE}
    )
    done = sandbox("validate", config)
    assert (done.code, done.out) == (0, f"{config} is valid\n")
    assert sandbox("validate", config, "--json").json == {"config": config, "ok": True, "problems": [], "warnings": []}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"max_round": 3}, "max_round: unknown key"),
        ({"limits": {"max_rounds": "three"}}, 'limits.max_rounds = "three": must be a whole number'),
        ({"start_agent": "boss"}, "start_agent"),
        ({"agents": {"boss": {}}}, "unknown role"),
        ({"provider": "nonesuch"}, "unknown provider 'nonesuch'"),
        ({"wd": "/nowhere/at/all"}, "there is no such directory"),
        ({"prompt": "no parts", "project_test_cmd": ""}, "*** ORIGINAL EXPLORE SUMMARY ***"),
        ({"prompt_file": "/nowhere/prompt.md"}, "cannot read the prompt"),
        ("{broken", "is not valid JSON"),
        ("[]", "must be a JSON object"),
    ],
)
def test_each_problem_is_a_line_and_exit_2(sandbox: Sandbox, data: object, says: str) -> None:
    if isinstance(data, dict):
        data = {"prompt": PROMPT, "project_test_cmd": "true", "verify_pass": True, "api": NOWHERE, **data}
    done = sandbox("validate", write(sandbox.wd / "c.json", data))
    assert done.code == 2
    assert all(line.startswith(("problem: ", "warning: ")) for line in done.out.splitlines())
    assert says in done.out
    assert "Traceback" not in done.err


def test_several_problems_are_all_named(sandbox: Sandbox) -> None:
    config = write(sandbox.wd / "c.json", {"provider": "nonesuch", "prompt": "no parts", "api": NOWHERE})
    problems = sandbox("validate", config, "--json").json["problems"]
    assert [problem["key"] for problem in problems] == ["prompt", "provider"]


def test_what_cannot_be_verified_is_a_warning(sandbox: Sandbox) -> None:
    config = write(sandbox.wd / "c.json", {"prompt": PROMPT, "api": NOWHERE})
    assert "project_test_cmd is empty" in sandbox("validate", config, "--json").json["warnings"][0]
    sandbox.set(PROJECT_TEST_CMD="true")
    assert sandbox("validate", config, "--json").json["warnings"] == []
    sandbox.set(VERIFY_PASS="0")
    assert "verify_pass is off" in sandbox("validate", config, "--json").json["warnings"][0]


def test_the_untouched_template_is_a_problem(sandbox: Sandbox) -> None:
    sandbox("init")
    sandbox.set(API=NOWHERE)
    done = sandbox("validate")
    assert done.code == 2
    assert "problem: logos.json:3:3: prompt.md is still the template" in done.out
    assert "warning: telos.toml still has the template's purpose" in done.out


def test_a_missing_configuration_is_a_problem(sandbox: Sandbox) -> None:
    done = sandbox("validate", "nothing.json")
    assert (done.code, done.out) == (
        2,
        "problem: cannot read the configuration nothing.json: No such file or directory\n",
    )


# schema


def test_the_schema_is_json_and_knows_every_section(sandbox: Sandbox) -> None:
    schema = sandbox("schema").json
    assert {leaf.path[0] for leaf in LEAVES} <= schema["properties"].keys()


def test_the_keys_are_a_table_with_environment_and_default(sandbox: Sandbox) -> None:
    lines = sandbox("schema", "--keys").out.splitlines()
    assert lines[0].split()[:3] == ["key", "environment", "default"]
    row = next(line for line in lines if line.startswith("limits.max_rounds "))
    assert row.split()[:3] == ["limits.max_rounds", "MAX_ROUNDS", "8"]
    assert [row["key"] for row in sandbox("schema", "--keys", "--json").json] == [leaf.key for leaf in LEAVES]


# profiles


def test_an_address_that_is_none_is_one_clear_line(sandbox: Sandbox) -> None:
    done = sandbox("profiles", "install", "--api", "http://[broken")
    assert done.code == 1
    assert done.err.startswith("logos: api = 'http://[broken'")


# doctor


def test_the_schema_of_scripts(sandbox: Sandbox) -> None:
    schema = sandbox("schema", "--script").json
    assert set(schema["properties"]) == {"agents", "turns", "otherwise"}
