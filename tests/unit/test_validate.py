"""`logos validate`: every problem of a configuration and of telos.toml, with its line and column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.app.positions import json_positions
from tests.support.sandbox import PROMPT, Sandbox

NOWHERE = "http://127.0.0.1:9"
GOOD = {"prompt": PROMPT, "project_test_cmd": "true", "host": "local"}


def write(path: Path, data: object) -> str:
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return str(path)


MANY = """{
  "provider": "claude", "prompt": "add bye()", "project_test_cmd": "true", "host": "local",
  "limits": {
    "max_rounds": "three", "max_rounds": 0,
    "max_review_cycles": 1, "on_review_exhausted": "block"
  },
  "agents": {"tester": {"providers": ["codex",
      "nonesuch"], "profil": "x"}},
  "levels": "9-3",
  "li\\u006dit": {}
}"""


def found(sandbox: Sandbox, config: str) -> list[tuple[int, int, str]]:
    problems = sandbox("validate", config, "--json").json["problems"]
    return [(problem["line"], problem["column"], problem["key"]) for problem in problems]


def test_every_problem_has_its_line_and_column(sandbox: Sandbox) -> None:
    config = write(sandbox.wd / "c.json", MANY)
    assert sorted(found(sandbox, config)) == [
        (4, 28, "limits.max_rounds"),
        (5, 5, "limits.max_review_cycles"),
        (7, 25, "agents.tester.providers[1]"),
        (8, 20, "agents.tester.profil"),
        (9, 3, "levels"),
        (10, 3, "limit"),
    ]
    done = sandbox("validate", config)
    assert done.code == 2
    assert f"problem: {config}:4:28: limits.max_rounds = 0: " in done.out
    assert f"problem: {config}:10:3: limit: unknown key; known here: " in done.out


def test_a_syntax_error_has_a_line_and_a_column(sandbox: Sandbox) -> None:
    config = write(sandbox.wd / "c.json", '{\n  "prompt": "x",\n  broken\n}')
    problem = sandbox("validate", config, "--json").json["problems"][0]
    assert (problem["file"], problem["line"], problem["column"]) == (config, 3, 3)


def test_a_value_of_the_environment_has_no_line(sandbox: Sandbox) -> None:
    config = write(sandbox.wd / "c.json", {**GOOD, "limits": {"max_rounds": 1}})
    sandbox.set(MAX_ROUNDS="many", MAX_REVIEW_CYCLES="0")
    problems = sandbox("validate", config, "--json").json["problems"]
    assert [(problem["line"], problem["key"]) for problem in problems] == [
        (None, "limits.max_rounds"),
        (None, "limits.max_review_cycles"),
    ]
    assert problems[0]["message"].startswith("MAX_ROUNDS='many': ")


@pytest.mark.parametrize(
    "provider", ["gemini", "qwen", "goose", "opencode", "claude", "kimi_cli", "copilot", "command"]
)
def test_every_local_provider_is_known(sandbox: Sandbox, provider: str) -> None:
    assert sandbox("validate", write(sandbox.wd / "c.json", {**GOOD, "provider": provider})).code == 0


def test_limits_that_would_count_nothing_are_problems(sandbox: Sandbox) -> None:
    config = {**GOOD, "provider": "codex", "limits": {"max_cost_usd": 5}}
    path = write(sandbox.wd / "c.json", config)
    assert "limits.max_cost_usd = 5 cannot be kept: codex reports tokens but no cost" in sandbox("validate", path).out
    write(sandbox.wd / "c.json", {**config, "prices": {"codex": {"input": 1, "output": 2}}})
    assert sandbox("validate", path).code == 0


TELOS = """# purpose = "no"
levels.L12 = "?"
[[tools]]
level = 10
name = "a b"

[[tools]]
"level" = 1
name = \"\"\"
level = 3
\"\"\"
[worktree]
  setup = 1
"""


def test_a_telos_beside_it_is_checked_too(sandbox: Sandbox) -> None:
    config = write(sandbox.wd / "c.json", GOOD)
    write(sandbox.wd / "telos.toml", TELOS)
    problems = sandbox("validate", config, "--json").json["problems"]
    assert {problem["file"] for problem in problems} == {str(sandbox.wd / "telos.toml")}
    assert [(problem["line"], problem["column"], problem["key"]) for problem in problems] == [
        (1, 1, "purpose"),
        (2, 1, "levels.L12"),
        (4, 1, "tools[0].level"),
        (5, 1, "tools[0].name"),
        (3, 3, "tools[0].command"),
        (9, 1, "tools[1].name"),
        (7, 3, "tools[1].command"),
        (13, 3, "worktree.setup"),
    ]
    write(sandbox.wd / "telos.toml", 'purpose = "x"\n[levels')
    assert found(sandbox, config) == [(2, 8, None)]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"limits": ' + '{"a": ' * 400 + "1" + "}" * 401,
        '{"x": ' + "[" * 900 + "]" * 900 + "}",
        "{" + ", ".join(f'"k{number}": 1' for number in range(3000)) + "}",
        '{"a": 1, "a": {"a": 2}, "a": [{"a": "\\"}{"}, "]"]}',
        '{"prices": {"": {"input": 1e999}}, "agents": [], "level_agents": {"L1": null}, "limits": []}',
        '{"limits": {"max_rounds": ' + "9" * 5000 + "}}",
        '{"wd": "~nobody-of-that-name", "api": "http://[broken", "levels": "x"}',
        json.dumps({"wd": "/x" * 5000}),
        '"',
        "",
    ],
    ids=lambda text: text[:20],
)
def test_a_hostile_configuration_is_only_a_list_of_problems(sandbox: Sandbox, text: str) -> None:
    done = sandbox("validate", write(sandbox.wd / "c.json", text), "--json")
    assert done.code == 2
    assert 1 <= len(done.json["problems"]) <= 101


@given(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.dictionaries(st.text(), inner)))
def test_the_position_of_a_key_is_where_it_stands(value: object) -> None:
    text = json.dumps({"top": value}, indent=1)
    lines, positions = text.split("\n"), json_positions(text)
    places: list[tuple[tuple[str, ...], object]] = [(("top",), value)]
    for place, inner in places:
        line, column = positions.of(place)
        if len(place) <= 5:
            assert lines[line - 1][column - 1 :].startswith(json.dumps([*place][-1]))
        places += [((*place, key), deeper) for key, deeper in inner.items()] if isinstance(inner, dict) else []
