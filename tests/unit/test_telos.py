"""telos.toml: what is read, what is refused, what `logos init` finds and writes, what `logos telos` shows."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logos.app.init import README_KEEP, first_telos, readme_paragraph, toml_string
from logos.app.telos_file import MAX_BYTES, TEMPLATE_PURPOSE, Telos, read_telos, telos_schema
from logos.app.tool_detection import TABLE, Detected, Job, detect_test_command, detect_tools
from logos.cli import main
from logos.domain.levels import ALL_LEVELS, LEVELS, Level
from logos.domain.specs import Tool
from logos.errors import ConfigError
from tests.support.sandbox import Sandbox

WHOLE = """
purpose = "Counts for people; never lies."
[levels]
L2 = "plain functions"
L8 = "  people count by hand today  "
L5 = " "
[[tools]]
level = 1
name = "ruff"
command = "ruff check ."
[[tools]]
level = 2
name = "ruff"
command = "true"
[worktree]
setup = "uv sync"
"""


def put(wd: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (wd / name).parent.mkdir(parents=True, exist_ok=True)
        (wd / name).write_text(text, encoding="utf-8")
    return wd


def commands(wd: Path) -> list[str]:
    return [tool.command for tool in detect_tools(wd).found]


# Reading


def test_the_hierarchy_goes_from_the_purpose_downwards_and_leaves_out_what_is_empty(tmp_path: Path) -> None:
    told = read_telos(put(tmp_path, {"telos.toml": WHOLE}))
    assert told.hierarchy == (
        (Level.L9, "Counts for people; never lies."),
        (Level.L8, "people count by hand today"),
        (Level.L2, "plain functions"),
    )
    assert told.tools == (Tool(Level.L1, "ruff", "ruff check ."), Tool(Level.L2, "ruff", "true"))
    assert told.setup == "uv sync"


def test_a_purpose_is_enough_and_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    assert read_telos(put(tmp_path, {"telos.toml": '\ufeffpurpose = "a"'})) == Telos("a")


TOOL = 'purpose = "a"\n[[tools]]\nlevel = 1\nname = "x"\ncommand = "c"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "purpose: is missing"),
        ('purpose = " "', 'purpose = " ": must not be empty'),
        ("purpose = 3", "purpose = 3: must be text"),
        ('purpose = "\\u0000"', "without NUL"),
        ('purpose = "a', "is not valid TOML: "),
        ('purpose = "a"\npurpose = "b"', "is not valid TOML: "),
        (f'purpose = "a"\nx = {"[" * 20_000}', "nested too deeply"),
        (f'purpose = "a"\nx = {"9" * 5_000}', "is not valid TOML: "),
        ('purpose = "a"\nlevles = 1', "levles: unknown key; known here: purpose, levels, tools, worktree"),
        (f'purpose = "a"\n{"k" * 5_000} = 1', "k...: unknown key"),
        ('purpose = "a"\n"two\\nlines" = 1', "two lines: unknown key"),
        ('purpose = "a"\nlevels = 3', "levels = 3: must be a table with the keys L8, "),
        ('purpose = "a"\n[levels]\nL12 = "x"', "levels.L12: unknown level; known here: L8, L7, L6, L5, L4, L3, L2, L1"),
        ('purpose = "a"\n[levels]\nL0 = "x"', "levels.L0: unknown level"),
        ('purpose = "a"\n[levels]\nL9 = "x"', "the purpose has a key of its own, `purpose`"),
        ('purpose = "a"\n[levels]\nL8 = 1', "levels.L8 = 1: must be text"),
        (f'purpose = "a"\nlevels.L8.{".".join("a" * 2_000)} = 1', "levels.L8 = …: must be text"),
        ('purpose = "a"\n[tools]\nname = "x"', "must be written as [[tools]]"),
        ('purpose = "a"\ntools = [1]', "tools, number 1 = 1: must be a table with the keys level, name, command"),
        (TOOL.replace("= 1", "= 0"), "tools, number 1: level = 0: must be a whole number from 1 (L1) to 9 (L9)"),
        (TOOL.replace("= 1", "= 10"), "level = 10: must be a whole number from 1 (L1) to 9 (L9)"),
        (TOOL.replace("= 1", '= "L1"'), 'level = "L1": must be a whole number'),
        (TOOL.replace("= 1", "= true"), "level = true: must be a whole number"),
        (TOOL.replace('"x"', '"../x"'), 'name = "../x": must be a word of letters, digits'),
        (TOOL.replace('"c"', '" "'), 'tools, number 1: command = " ": must not be empty'),
        (TOOL.replace('"c"', '"a\\u0000b"'), "without NUL"),
        (TOOL.replace("command", "cmd"), "tools, number 1: command: is missing"),
        (TOOL + "timeout = 3", "tools, number 1: timeout: unknown key; known here: level, name, command"),
        (TOOL + TOOL.partition("\n")[2], "tools: L1 has two tools called 'x'; rename one"),
        ('purpose = "a"\n[worktree]\nrun = "x"', "worktree.run: unknown key; known here: setup"),
        (" " * (MAX_BYTES + 1), "it is larger than 0.2 MB"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_file_and_what_is_allowed(
    tmp_path: Path, text: str, says: str
) -> None:
    put(tmp_path, {"telos.toml": text})
    with pytest.raises(ConfigError) as refused:
        read_telos(tmp_path)
    message = str(refused.value)
    assert says in message
    assert str(tmp_path / "telos.toml") in message
    assert message.isprintable()
    assert len(message) < 400 + len(str(tmp_path))


def test_a_missing_file_sends_to_init(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no telos\.toml in .*; `logos init` writes one"):
        read_telos(tmp_path)


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "telos.toml").write_bytes(b'purpose = "\xff"')
    with pytest.raises(ConfigError, match="it is not UTF-8 text"):
        read_telos(tmp_path)
    (tmp_path / "telos.toml").unlink()
    (tmp_path / "telos.toml").mkdir()
    with pytest.raises(ConfigError, match="it is not a regular file"):
        read_telos(tmp_path)


def test_the_template_is_refused_however_it_is_broken_into_lines(tmp_path: Path) -> None:
    for purpose in (TEMPLATE_PURPOSE, "\n " + TEMPLATE_PURPOSE.replace(" ", "\n")):
        put(tmp_path, {"telos.toml": f"purpose = {toml_string(purpose)}"})
        with pytest.raises(ConfigError, match=r"still says 'Write here what .* write what the project is for"):
            read_telos(tmp_path)


def test_the_schema_names_every_key() -> None:
    schema = telos_schema()
    assert (set(schema["properties"]), schema["required"]) == ({"purpose", "levels", "tools", "worktree"}, ["purpose"])
    assert json.dumps(schema)


# Writing


@given(st.text())
@example('"\\\x00\x7f\x1f\x85\u2028\r\n\t')
def test_any_text_survives_being_written_as_toml(text: str) -> None:
    assert tomllib.loads(f"x = {toml_string(text)}") == {"x": text}


@given(st.text(min_size=1), st.text())
@example("true", "\n[levels]\nL12 = 1\x1b\x7f")
def test_whatever_is_found_the_first_telos_is_toml_that_only_lacks_a_purpose(command: str, readme: str) -> None:
    tool, missing = Tool(Level.L1, "x", command), Job(Level.L2, "a test command", readme)
    data = tomllib.loads(first_telos(Detected((tool,), (missing,), command), readme))
    assert data == {
        "purpose": TEMPLATE_PURPOSE,
        "levels": {level.name: "" for level in ALL_LEVELS if level is not Level.L9},
        "tools": [{"level": 1, "name": "x", "command": command}],
        "worktree": {"setup": command},
    }


# Finding


def test_a_python_repository_shows_its_tools(tmp_path: Path) -> None:
    pyproject = """
[dependency-groups]
dev = ["ruff>=0.9", "pytest"]
[tool.poetry.group.dev.dependencies]
pyright = "^1"
[tool.isort]
profile = "black"
[tool.ruff.format]
[tool.mypy]
files = ["src"]
"""
    detected = detect_tools(put(tmp_path, {"pyproject.toml": pyproject, "uv.lock": ""}))
    assert detected.found == (
        Tool(Level.L1, "ruff", "uv run ruff check ."),
        Tool(Level.L1, "ruff-format", "uv run ruff format --check ."),
        Tool(Level.L1, "mypy", "uv run mypy"),
        Tool(Level.L1, "pyright", "uv run pyright"),
        Tool(Level.L2, "pytest", "uv run pytest -q"),
    )
    assert [(missing.level, missing.what) for missing in detected.missing] == [(Level.L5, "end-to-end checks")]
    assert detected.setup == "uv sync --frozen"


PACKAGE = '{"devDependencies": {"eslint": "9", "prettier": "3", "%s": "1"}, "scripts": {%s}}'


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"setup.cfg": "[flake8]\n[mypy]\n[tool:pytest]\n"}, ["flake8", "mypy .", "python3 -m pytest -q"]),
        ({"requirements-dev.txt": "black==24\nblackbird\n"}, ["black --check ."]),
        ({"requirements.txt": "ruff-lsp\nmypy_extensions\n"}, []),
        ({"ruff.toml": ""}, ["ruff check ."]),
        ({"ruff.toml": "[format]\n", ".flake8": ""}, ["ruff check .", "ruff format --check ."]),
        ({".github/workflows/ci.yml": "run: ruff format --check", "ruff.toml": ""}, ["ruff check .", "ruff format --check ."]),
        ({"tox.ini": "[tox]\n"}, ["tox"]),
        ({"tox.ini": "[flake8]\n"}, ["flake8"]),
        ({"tox.ini": "[testenv]\ncommands = pytest\n"}, ["python3 -m pytest -q"]),
        (
            {"package.json": PACKAGE % ("vitest", '"test": "vitest"'), "tsconfig.json": "{}"},
            [
                "npx --no-install eslint .",
                "npx --no-install prettier --check .",
                "npx --no-install tsc --noEmit",
                "npm test",
            ],
        ),
        ({"package.json": PACKAGE % ("vitest", "")}, ["npx --no-install eslint .", "npx --no-install prettier --check .", "npx --no-install vitest run"]),
        ({"jest.config.ts": ""}, ["npx --no-install jest"]),
        ({"eslint.config.mjs": "", ".prettierrc": ""}, ["npx --no-install eslint .", "npx --no-install prettier --check ."]),
        ({"playwright.config.ts": "", "cypress.json": ""}, ["npx --no-install playwright test", "npx --no-install cypress run"]),
        ({"Cargo.toml": ""}, ["cargo fmt --check", "cargo clippy", "cargo test"]),
        ({"go.mod": ""}, ['test -z "$(gofmt -l .)"', "go vet ./...", "go test ./..."]),
        ({"Cargo.toml": "", "pytest.ini": ""}, ["cargo fmt --check", "cargo clippy", "cargo test", "python3 -m pytest -q"]),
        ({"package.json": "{broken", "pyproject.toml": "[broken"}, []),
        ({"package.json": '{"scripts": [], "devDependencies": "eslint"}'}, []),
        ({"pyproject.toml": f"{'.'.join('a' * 1_200)} = 1"}, []),
        ({"Makefile": "t" * 300_000}, []),
    ],
)  # fmt: skip
def test_tools_are_found_by_their_signs(tmp_path: Path, files: dict[str, str], found: list[str]) -> None:
    assert commands(put(tmp_path, files)) == found


RUFF_AND_MYPY = {"ruff.toml": "[format]\n", "mypy.ini": ""}


@pytest.mark.parametrize(
    ("makefile", "found"),
    [
        ("lint:\n\truff check .\n", ["make lint", "ruff format --check .", "mypy ."]),
        ("lint: fmt types\nfmt:\n\t$(BIN)/ruff format --check\ntypes:\n\t@mypy src\n", ["make lint"]),
        ("lint:\n\t$(MAKE) types\ntypes:\n\tmypy src\n", ["make lint", "ruff format --check ."]),
        ("lint: lint\n\t./lint.sh\n", ["make lint", "ruff format --check .", "mypy ."]),
        ("lint:\ncheck: lint\n\tmypy\n", ["make lint", "ruff format --check .", "mypy ."]),
        ("check:\n\t./check-code --with eslint\n", ["make check"]),
        ("check: test\ntest:\n\t./run\n", ["ruff check .", "ruff format --check .", "mypy .", "make test"]),
        ("format-check:\n\truff format --check\n", ["make format-check", "ruff check .", "mypy ."]),
        (
            "lint: format-check\n\truff check .\nformat-check:\n\t./style.sh\n",
            ["make lint", "ruff format --check .", "mypy ."],
        ),
        ("lint := 1\n.PHONY: lint\n# lint: no\n", ["ruff check .", "ruff format --check .", "mypy ."]),
        ("lint: ## runs mypy\n\truff check\n", ["make lint", "ruff format --check .", "mypy ."]),
    ],
)
def test_a_make_target_takes_the_place_of_the_tools_behind_it(tmp_path: Path, makefile: str, found: list[str]) -> None:
    assert commands(put(tmp_path, {"Makefile": makefile, **RUFF_AND_MYPY})) == found


def test_make_and_just_run_tests_and_journeys(tmp_path: Path) -> None:
    files = {"pytest.ini": "", "playwright.config.ts": "", "Cargo.toml": ""}
    put(tmp_path, {**files, "justfile": "@lint:\n  cargo clippy\n\ntest *args:\n  pytest\n\ntest-e2e:\n  ./e2e\n"})
    assert commands(tmp_path) == ["just lint", "cargo fmt --check", "just test", "just test-e2e"]
    put(tmp_path, {"Makefile": "test:\n\tpytest\ne2e:\n\t./e2e\n"})
    assert commands(tmp_path) == ["just lint", "cargo fmt --check", "make test", "make e2e"]


def test_a_recipe_for_other_tests_is_not_the_test_command(tmp_path: Path) -> None:
    assert detect_test_command(put(tmp_path, {"justfile": "test-e2e:\n  ./e2e\n", "test_x.py": ""})) == (
        "python3 -m unittest"
    )


def test_in_an_empty_folder_everything_is_missing_and_what_takes_its_place_is_said(tmp_path: Path) -> None:
    detected = detect_tools(tmp_path)
    assert detected.found == ()
    assert [(missing.level.name, missing.what) for missing in detected.missing] == [
        ("L1", "a linter"),
        ("L1", "a format check"),
        ("L1", "a type checker"),
        ("L2", "a test command"),
        ("L5", "end-to-end checks"),
    ]
    assert all(missing.instead for missing in detected.missing)


def test_a_task_that_runs_a_format_check_leaves_none_missing(tmp_path: Path) -> None:
    put(tmp_path, {"Makefile": "lint:\n\truff check\n\truff format --check\n"})
    assert [missing.what for missing in detect_tools(tmp_path).missing] == [
        "a type checker",
        "a test command",
        "end-to-end checks",
    ]


def test_every_row_of_the_table_makes_a_tool_that_telos_toml_may_name(tmp_path: Path) -> None:
    tools = {(row.level, row.name): Tool(row.level, row.name, row.command) for row in TABLE}
    text = first_telos(Detected(tuple(tools.values()), ())).replace(TEMPLATE_PURPOSE, "Counts.")
    assert read_telos(put(tmp_path, {"telos.toml": text})).tools == tuple(tools.values())


# The README


@pytest.mark.parametrize(
    ("name", "text", "first"),
    [
        (
            "README.md",
            "# Calc\n\n[![ci](https://x/y.svg)](https://ci)\n\nA **small** `calculator`, see [docs](d).\nIt adds.\n\nMore.",
            "A small calculator, see docs. It adds.",
        ),
        ("README.md", '<p align="center">\n<img src="x">\n</p>\n<!-- to\ndo -->\n> said\n\nSells things.', "Sells things."),
        ("README.rst", "Calc\n====\n\n.. image:: x\n\nCounts for people.\n", "Counts for people."),
        ("README.md", "# Only a title\n\n```\nsome code\n```\n", ""),
        ("README.txt", "Red \x1b[31mtext\x07 here\x7f", "Red text here"),
        ("NEWS.md", "Nothing to see.", ""),
    ],
)  # fmt: skip
def test_the_first_paragraph_of_the_readme_is_prose_on_one_line(
    tmp_path: Path, name: str, text: str, first: str
) -> None:
    assert readme_paragraph(put(tmp_path, {name: text})) == first


def test_a_long_first_paragraph_is_cut(tmp_path: Path) -> None:
    assert len(readme_paragraph(put(tmp_path, {"README.md": "word " * 200}))) == README_KEEP


# logos init


def test_init_writes_a_telos_with_the_tools_found_and_says_so(sandbox: Sandbox) -> None:
    put(sandbox.wd, {"Cargo.toml": "", "README.md": "# Calc\n\nCounts for people.\n"})
    done = sandbox("init")
    assert done.code == 0
    text = (sandbox.wd / "telos.toml").read_text()
    assert "# The README begins: Counts for people.\n" in text
    assert "# L5: end-to-end checks. Instead: the Journey-Validator's own reading" in text
    assert "  L1  cargo-fmt     cargo fmt --check\n" in done.out
    assert "  L5  end-to-end checks  the Journey-Validator's own reading; nothing runs the journeys\n" in done.out
    assert 'purpose in telos.toml, then `logos build "…"`' in done.out
    with pytest.raises(ConfigError, match="write what the project is for"):
        read_telos(sandbox.wd)
    put(sandbox.wd, {"telos.toml": text.replace(TEMPLATE_PURPOSE, "Counts.")})
    assert [tool.command for tool in read_telos(sandbox.wd).tools] == [
        "cargo fmt --check",
        "cargo clippy",
        "cargo test",
    ]


def test_init_adds_the_telos_to_what_is_there_already(sandbox: Sandbox) -> None:
    put(sandbox.wd, {"logos.json": "{}", "prompt.md": "mine", "go.mod": ""})
    done = sandbox("init", "--json").json
    assert (done["written"], done["kept"]) == (["telos.toml"], ["logos.json", "prompt.md"])
    assert {"level": "L2", "name": "go-test", "command": "go test ./..."} in done["tools"]
    assert [missing["level"] for missing in done["missing"]] == ["L5"]
    assert (sandbox.wd / "prompt.md").read_text() == "mine"


def test_init_keeps_a_telos_and_replaces_it_only_by_force(sandbox: Sandbox) -> None:
    put(sandbox.wd, {"telos.toml": "mine"})
    first = sandbox("init")
    assert "telos.toml: exists, not overwritten" in first.out
    assert "not found" not in first.out
    again = sandbox("init")
    assert (again.code, (sandbox.wd / "telos.toml").read_text()) == (2, "mine")
    assert "logos.json, prompt.md and telos.toml exist in" in again.err
    assert sandbox("init", "--force").code == 0
    assert (sandbox.wd / "telos.toml.bak").read_text() == "mine"


# logos telos


def test_telos_shows_nine_levels_with_what_is_known_and_what_proves_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, {"telos.toml": WHOLE.replace("Counts", "\\u001b[31mCounts\\n")})
    assert main(["telos", "--wd", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    heads = [line for line in out.splitlines() if line.startswith("L")]
    assert heads == [f"{level.name}  {LEVELS[level].title}" for level in ALL_LEVELS]
    assert "    says   Counts for people; never lies.\n" in out
    assert "    says   -\n    tools  ruff: ruff check .\n" in out
    assert "    tools  none: the Journey-Validator's own reading; nothing runs the journeys\n" in out
    assert "    setup  uv sync\n" in out


def test_telos_as_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, {"telos.toml": WHOLE})
    assert main(["telos", "--json", "--wd", str(tmp_path)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [level["level"] for level in data["levels"]] == [level.name for level in ALL_LEVELS]
    assert data["levels"][0]["says"] == "Counts for people; never lies."
    assert data["levels"][-1] == {
        "level": "L1",
        "title": "Syntax-Linter",
        "says": None,
        "tools": [{"name": "ruff", "command": "ruff check ."}],
        "instead": None,
    }
    assert data["worktree"] == {"setup": "uv sync"}
