"""Which files steer tests, and how they are put back."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.domain.proof import ProofRules
from logos.flows.proof.guarded import allowed, is_guarded, is_test, mixed, named_files, put_back

RULES = ProofRules("pytest")


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_a.py",
        "test_a.py",
        "pkg/a_test.py",
        "pkg/tests.py",
        "tests/data/golden.txt",
        "src/app/__tests__/a.js",
        "src/a.test.ts",
        "src/a.spec.mjs",
        "test/helper.js",
        "test.js",
        "pkg/a_test.go",
        "pkg/testdata/x.json",
        "crate/tests/it.rs",
        "src/test/java/ATest.java",
        "spec/a_spec.rb",
        "ATest.php",
        "run-tests.sh",
        "test.sh",
        "checks/all.bats",
        "src/__snapshots__/a.js.snap",
        "tests/conftest.py",
    ],
)
def test_tests_and_their_data_are_guarded_in_every_language(path: str) -> None:
    assert is_test(path)
    assert is_guarded(path, RULES)


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "pkg/conftest.py",
        "pytest.ini",
        "sub/pytest.ini",
        ".coveragerc",
        "noxfile.py",
        "sitecustomize.py",
        "src/usercustomize.py",
        "lib/a.pth",
        "pytest.py",
        "_pytest/config.py",
        "unittest/__init__.py",
        "unittest.py",
        "mock.py",
        "src/pytest.py",
        "inspect.py",
        "Makefile",
        "sub/GNUmakefile",
        "rules.mk",
        "justfile",
        "Taskfile.yml",
        "jest.config.cjs",
        "vitest.config.ts",
        "vitest.setup.ts",
        ".mocharc.yml",
        "babel.config.js",
        ".npmrc",
        ".github/workflows/ci.yml",
        ".gitlab-ci.yml",
        ".circleci/config.yml",
        "node_modules/mocha/index.js",
        "node_modules/.bin/mocha",
        ".cargo/config.toml",
        "build.rs",
        "build.gradle.kts",
        "Rakefile",
        "phpunit.xml.dist",
        "pyproject.toml",
        "package.json",
        "setup.cfg",
        "tox.ini",
        "packages/a/package.json",
        "Cargo.toml",
    ],
)
def test_what_steers_runners_and_builds_is_guarded(path: str) -> None:
    assert is_guarded(path, RULES)


@pytest.mark.parametrize(
    "path",
    [
        "src/app/calc.py",
        "calc.py",
        "app/latest.py",
        "app/contest.py",
        "src/attestation/a.py",
        "src/testing/fakes.py",
        "index.js",
        "src/index.ts",
        "src/protest.js",
        "main.go",
        "README.md",
        "docs/testing.md",
        "requirements.txt",
        "package-lock.json",
        "uv.lock",
        "src/calendar.py",
        "statistics.py",
        "app/json/decode.py",
        "app/types.py",
        "types/index.ts",
        "src/types/models.py",
        "src/logging/handlers.py",
        "src/platform/index.ts",
        "packaging/debian/control",
        "py/app.py",
        "tasks.py",
        "app/tasks.py",
        "karma.js",
        "src/babel.js",
        "spec_parser.js",
        "src/vite-env.d.ts",
        "site/index.md",
    ],
)
def test_product_files_are_not_guarded(path: str) -> None:
    assert not is_guarded(path, RULES)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("sh ci/all.sh", "ci/all.sh"),
        ("./check", "check"),
        ("bash -eu scripts/verify", "scripts/verify"),
        ("python tools/verify.py --fast", "tools/verify.py"),
        ("PYTHONPATH=src python3 tools/verify.py", "tools/verify.py"),
        ("node checks/all.js", "checks/all.js"),
        ("make -f ci/rules test", "ci/rules"),
        ("pytest -c ci/settings.cfg", "ci/settings.cfg"),
        ("npx mocha --require ./hooks.js", "hooks.js"),
        ("jest --config=ci/runner.json", "ci/runner.json"),
        ("python -m checks.all", "checks/all.py"),
        ("python -m unittest checks", "checks.py"),
        ("pytest checks/calc.py::test_a", "checks/calc.py"),
        ("cd ci && sh all.sh", "ci/all.sh"),
        ('sh -c "cd ci && ./all"', "ci/all"),
        ("uv run python tools/verify.py", "tools/verify.py"),
        ("diff expected.txt out.txt", "expected.txt"),
        (". ci/env && pytest", "ci/env"),
    ],
)
def test_files_that_the_command_names_are_guarded(command: str, path: str) -> None:
    assert is_guarded(path, ProofRules(command))
    assert not is_guarded(path, ProofRules("true"))


@pytest.mark.parametrize(
    ("command", "path"),
    [("ruff check src/a.py && pytest", "src/a.py"), ("pytest src", "src/a.py"), ("gcc -o t a.c && ./t", "a.c")],
)
def test_product_files_in_a_command_are_not_guarded(command: str, path: str) -> None:
    assert not is_guarded(path, ProofRules(command))


def test_scripts_that_scripts_name_are_found() -> None:
    files = {
        "Makefile": "SRC = main.c\ntest: build\n\t@sh ci/all.sh\nbuild:\n\tcc main.c\n",
        "ci/all.sh": "set -e\n# sh ci/old.sh\nfor t in a b; do ./ci/one.sh $t; done\nnpm test\n",
        "ci/one.sh": "echo\n",
        "ci/old.sh": "",
        "main.c": "",
        "package.json": json.dumps({"scripts": {"test": "node scripts/run.js && python -m checks"}}),
        "scripts/run.js": "",
        "checks.py": "",
    }
    assert set(named_files("make test", files.get)) == {
        "Makefile",
        "ci/all.sh",
        "ci/one.sh",
        "scripts/run.js",
        "checks.py",
    }


def test_a_script_that_names_itself_ends() -> None:
    assert named_files("sh a.sh", {"a.sh": "sh a.sh"}.get) == ("a.sh",)


def test_patterns_work_as_in_a_gitignore() -> None:
    assert allowed("a/b/golden.txt", ["golden.txt"])
    assert allowed("tests/api/test_a.py", ["tests/api/"])
    assert allowed("tests/api/test_a.py", ["tests/api"])
    assert not allowed("x/tests/api/test_a.py", ["tests/api/"])
    assert allowed("x/tests/api/test_a.py", ["**/api/"])
    assert allowed("tests/a.py", ["tests/*.py"])
    assert not allowed("tests/b/a.py", ["tests/*.py"])
    assert allowed("tests/b/a.py", ["tests/**/*.py"])
    assert allowed("tests/a.py", ["tests/**/*.py"])
    assert allowed("tests/a.py", ["/tests/?.py"])
    assert not allowed("tests/a.py", ["/a.py"])
    assert allowed("tests/a.py", ["tests/[ab].py"])
    assert not allowed("tests/a.py", ["tests/[!ab].py"])
    assert not allowed("tests/a.py", ["tests/", "!tests/a.py"])
    assert not allowed("tests/a.py", ["", "!", "/", "#"])


@given(st.text(max_size=30), st.lists(st.text(alphabet="ab*?[]!/\\.^-{}()+|$", max_size=12), max_size=3))
def test_no_pattern_is_an_error(path: str, patterns: list[str]) -> None:
    assert allowed(path, patterns) in (True, False)


PYPROJECT = """\
[project]
name = "a"
dependencies = ["x"]

[tool.pytest.ini_options]
testpaths = ["tests"]

[tool.ruff]
line-length = 100
"""


def test_only_the_sections_that_steer_tests_are_put_back_into_pyproject() -> None:
    result = PYPROJECT.replace('["x"]', '["x", "y"]').replace('["tests"]', '["none"]').replace("100", "120")
    result += '\n[tool.coverage.run]\nomit = ["*"]\n'
    found = tomllib.loads(put_back("pyproject.toml", PYPROJECT, result))
    assert found["project"]["dependencies"] == ["x", "y"]
    assert found["tool"]["pytest"] == {"ini_options": {"testpaths": ["tests"]}}
    assert found["tool"]["ruff"] == {"line-length": 120}
    assert "coverage" not in found["tool"]


def test_a_section_that_was_removed_comes_back_and_an_added_plugin_goes() -> None:
    result = '[project]\nname = "a"\n\n[project.entry-points.pytest11]\ncheat = "a.cheat"\n'
    found = tomllib.loads(put_back("sub/pyproject.toml", PYPROJECT, result))
    assert "entry-points" not in found["project"]
    assert found["tool"]["pytest"]["ini_options"] == {"testpaths": ["tests"]}
    assert tomllib.loads(put_back("pyproject.toml", None, result)) == {"project": {"name": "a"}}


@pytest.mark.parametrize(
    "result",
    [
        PYPROJECT.replace(
            '[tool.pytest.ini_options]\ntestpaths = ["tests"]', "[tool]\npytest.ini_options.testpaths = []"
        ),
        'tool.pytest.ini_options.addopts = "-k x"\n' + PYPROJECT.replace("[tool.pytest.ini_options]\n", "[tool.x]\n"),
        PYPROJECT + '[tool."pytest"."ini_options"]\n',
        PYPROJECT + "[[[",
        "\x00",
    ],
)
def test_what_cannot_be_replaced_section_by_section_is_put_back_whole(result: str) -> None:
    assert put_back("pyproject.toml", PYPROJECT, result) == PYPROJECT


def test_a_header_inside_a_string_is_no_section() -> None:
    result = PYPROJECT.replace('name = "a"', 'name = "a"\ndescription = """\n[tool.pytest.ini_options]\n"""').replace(
        '["tests"]', '["none"]'
    )
    found = tomllib.loads(put_back("pyproject.toml", PYPROJECT, result))
    assert found["tool"]["pytest"]["ini_options"] == {"testpaths": ["tests"]}


def test_a_file_whose_steering_sections_did_not_change_stays_as_it_is() -> None:
    result = PYPROJECT.replace("100", "120  # wide")
    assert put_back("pyproject.toml", PYPROJECT, result) == result


def test_scripts_of_package_json_are_put_back_and_the_rest_stays() -> None:
    base = json.dumps({"name": "a", "scripts": {"test": "jest"}, "jest": {"bail": 1}, "dependencies": {"x": "1"}})
    result = json.dumps(
        {
            "name": "a",
            "scripts": {"test": "true", "lint": "x"},
            "mocha": {"grep": "x"},
            "dependencies": {"x": "1", "y": "2"},
        },
        indent=4,
    )
    text = put_back("package.json", base, result)
    assert json.loads(text) == {
        "name": "a",
        "scripts": {"test": "jest"},
        "jest": {"bail": 1},
        "dependencies": {"x": "1", "y": "2"},
    }
    assert '\n    "name"' in text


def test_a_runner_cannot_be_replaced_by_a_folder_of_the_project() -> None:
    base = json.dumps({"devDependencies": {"mocha": "^10.0.0", "chai": "4"}})
    result = json.dumps({"devDependencies": {"mocha": "file:./fake", "chai": "5", "new": "file:./new"}})
    found = json.loads(put_back("package.json", base, result))
    assert found == {"devDependencies": {"mocha": "^10.0.0", "chai": "5", "new": "file:./new"}}


def test_a_package_json_that_cannot_be_read_is_put_back_whole() -> None:
    assert put_back("package.json", '{"a": 1}', "{") == '{"a": 1}'
    assert put_back("package.json", '{"a": 1}', "[]") == '{"a": 1}'
    assert put_back("package.json", '{"a": 1}', None) == '{"a": 1}'


def test_sections_of_setup_cfg_are_put_back() -> None:
    base = "[metadata]\nname = a\n[tool:pytest]\naddopts = -q\n"
    result = "[metadata]\nname = b\n[tool:pytest]\naddopts = -k nothing\n[aliases]\ntest = true\n"
    assert put_back("setup.cfg", base, result) == "[metadata]\nname = b\n\n[tool:pytest]\naddopts = -q\n"
    assert (
        put_back("tox.ini", "[flake8]\nx = 1\n", "[flake8]\nx = 2\n[pytest]\naddopts = -k x\n") == "[flake8]\nx = 2\n"
    )


def test_switched_off_tests_of_a_crate_are_switched_on_again() -> None:
    base = '[package]\nname = "a"\n\n[dependencies]\n'
    result = '[package]\nname = "a"\nautotests = false\n\n[lib]\ntest = false\n\n[dependencies]\nserde = "1"\n'
    found = tomllib.loads(put_back("Cargo.toml", base, result))
    assert found == {"package": {"name": "a"}, "dependencies": {"serde": "1"}}


RUST = """\
pub fn add(a: i32, b: i32) -> i32 { a + b }

#[cfg(test)]
mod tests {
    use super::*;
    // a brace in a comment: }
    #[test]
    fn adds() { assert_eq!(format!("}}{}", add(1, 2)), "}3"); let _ = '}'; }
}
"""


def test_tests_inside_of_rust_source_are_put_back() -> None:
    source = RUST.replace("a + b", "4").replace('add(1, 2)), "}3"', '1), "}1"') + "\npub fn new() {}\n"
    assert put_back("src/lib.rs", RUST, source) == RUST.replace("a + b", "4") + "\npub fn new() {}\n"
    gone = "pub fn add() {}\n"
    assert put_back("src/lib.rs", RUST, gone) == gone + "\n" + RUST[RUST.index("#[cfg") :]
    assert "cfg(test)" not in put_back("src/new.rs", None, RUST)
    assert put_back("src/lib.rs", RUST, RUST.replace("a + b", "b + a")) == RUST.replace("a + b", "b + a")
    assert put_back("src/lib.rs", RUST, RUST.rstrip().removesuffix("}")) == RUST


@given(
    st.sampled_from(["pyproject.toml", "package.json", "setup.cfg", "Cargo.toml", "src/lib.rs"]), st.text(), st.text()
)
def test_no_text_is_an_error(path: str, base: str, result: str) -> None:
    assert mixed(path)
    assert isinstance(put_back(path, base, result), str)


_SECTIONS = st.sampled_from(
    ["[tool.pytest.ini_options]", "[tool.ruff]", "[project]", "[tool.coverage.run]", "[tool.poe.tasks]"]
)
_DOCUMENTS = st.dictionaries(_SECTIONS, st.integers(0, 3)).map(
    lambda sections: "".join(f"{name}\nvalue = {value}\n" for name, value in sections.items())
)


@given(_DOCUMENTS, _DOCUMENTS)
def test_steering_sections_are_base_s_and_all_others_the_result_s(base: str, result: str) -> None:
    found = tomllib.loads(put_back("pyproject.toml", base, result))
    before, after = tomllib.loads(base), tomllib.loads(result)
    for name in ("pytest", "coverage", "poe"):
        assert found.get("tool", {}).get(name) == before.get("tool", {}).get(name)
    assert found.get("tool", {}).get("ruff") == after.get("tool", {}).get("ruff")
    assert found.get("project") == after.get("project")


def test_the_specs_of_an_analyst_are_no_tests() -> None:
    spec = "openspec/changes/bye/specs/orders/spec.md"
    assert not is_guarded(spec, RULES)
    assert is_guarded("openspec/specs/test_orders.py", RULES)
