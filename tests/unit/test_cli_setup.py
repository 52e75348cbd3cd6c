"""Setting up: init, validate, schema, profiles, doctor."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from logos import profiles
from logos.app.settings import LEAVES, load_settings
from logos.app.tool_detection import detect_test_command
from tests.unit.test_cli import PROMPT, Cli

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path, monkeypatch, capsys)


@dataclass
class Store:
    """A CAO server as far as profiles and providers go."""

    url: str = ""
    profiles: dict[str, str] = field(default_factory=dict[str, str])
    providers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def answer(self, method: str, path: str, body: dict[str, str]) -> tuple[int, Any]:
        match method, path.strip("/").split("/"):
            case "GET", ["health"]:
                return 200, {"status": "ok"}
            case "GET", ["agents", "profiles"]:
                return 200, [{"name": name} for name in self.profiles]
            case "GET", ["agents", "providers"]:
                return 200, self.providers
            case "POST", ["agents", "profiles"] if body["name"] in self.profiles:
                return 409, {"detail": "exists"}
            case "POST", ["agents", "profiles"]:
                self.profiles[body["name"]] = body["content"]
                return 201, {"name": body["name"]}
            case "PUT", ["agents", "profiles", name] if name in self.profiles:
                self.profiles[name] = body["content"]
                return 200, {"name": name}
            case _:
                return 404, {"detail": "Not Found"}


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = made.answer(self.command, self.path, json.loads(body or b"{}"))
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield made
    server.shutdown()
    server.server_close()


def write(path: Path, data: object) -> str:
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return str(path)


# init


def test_init_writes_a_configuration_that_works_and_verifies_passes(cli: Cli) -> None:
    (cli.wd / "Makefile").write_text("test:\n\ttrue\n")
    done = cli("init")
    assert done.code == 0
    settings = load_settings(cli.wd / "logos.json", {})
    assert (settings.verify_pass, settings.project_test_cmd, settings.prompt_file) == (True, "make test", "prompt.md")
    assert "test command: make test" in done.out
    assert "logos run" in done.out
    schema = json.loads((cli.wd / "logos.json").read_text())["$schema"]
    assert json.loads((cli.wd / schema).read_text())["title"] == "Logos configuration"


def test_init_says_when_no_test_command_is_found(cli: Cli) -> None:
    assert "none was found; set project_test_cmd" in cli("init").out
    assert cli("init", "--force", "--json").json["project_test_cmd"] == ""


def test_init_never_overwrites_without_force(cli: Cli) -> None:
    (cli.wd / "prompt.md").write_text("mine")
    first = cli("init", "--json").json
    assert (first["written"], first["kept"]) == (["logos.json", "telos.toml"], ["prompt.md"])
    again = cli("init")
    assert (again.code, (cli.wd / "prompt.md").read_text()) == (2, "mine")
    assert again.err.count("\n") == 1
    assert "--force" in again.err
    assert cli("init", "--force").code == 0
    assert (cli.wd / "prompt.md.bak").read_text() == "mine"


def test_init_in_a_folder_that_cannot_be_written_is_one_line(cli: Cli) -> None:
    (cli.wd / "logos.json").mkdir()
    (cli.wd / "logos.json.bak").write_text("in the way")
    done = cli("init", "--force")
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
        ("test_it.py", "import unittest\n", "python3 -m unittest"),
        ("pom.xml", "", "mvn -q test"),
        ("README.md", "run the tests", ""),
    ],
)
def test_the_test_command_is_found_by_its_signs(tmp_path: Path, name: str, text: str, command: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert detect_test_command(tmp_path) == command


# validate


def test_a_good_configuration_is_valid(cli: Cli) -> None:
    config = write(
        cli.wd / "c.json", {"prompt": PROMPT, "project_test_cmd": "true", "verify_pass": True, "api": NOWHERE}
    )
    done = cli("validate", config)
    assert (done.code, done.out) == (0, f"{config} is valid\n")
    assert cli("validate", config, "--json").json == {"config": config, "ok": True, "problems": [], "warnings": []}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"max_round": 3}, "max_round: unknown key"),
        ({"limits": {"max_rounds": "three"}}, 'limits.max_rounds = "three": must be a whole number'),
        ({"start_agent": "boss"}, "start_agent"),
        ({"agents": {"boss": {}}}, "unknown role"),
        ({"provider": "nonesuch"}, "unknown provider 'nonesuch'"),
        ({"wd": "/nowhere/at/all"}, "there is no such directory"),
        ({"prompt": "no parts"}, "*** ORIGINAL EXPLORE SUMMARY ***"),
        ({"prompt_file": "/nowhere/prompt.md"}, "cannot read the prompt"),
        ("{broken", "is not valid JSON"),
        ("[]", "must be a JSON object"),
    ],
)
def test_each_problem_is_a_line_and_exit_1(cli: Cli, data: object, says: str) -> None:
    if isinstance(data, dict):
        data = {"prompt": PROMPT, "project_test_cmd": "true", "verify_pass": True, "api": NOWHERE, **data}
    done = cli("validate", write(cli.wd / "c.json", data))
    assert done.code == 1
    assert all(line.startswith("problem: ") for line in done.out.splitlines())
    assert says in done.out
    assert "Traceback" not in done.err


def test_several_problems_are_all_named(cli: Cli) -> None:
    config = write(cli.wd / "c.json", {"provider": "nonesuch", "prompt": "no parts", "api": NOWHERE})
    problems = cli("validate", config, "--json").json["problems"]
    assert len(problems) == 6


def test_a_provider_that_only_the_server_knows_is_valid(cli: Cli, store: Store) -> None:
    store.providers = [{"name": "brand_new", "binary": "new", "installed": True}]
    config = write(cli.wd / "c.json", {"provider": "brand_new", "prompt": PROMPT, "api": store.url})
    assert cli("validate", config).code == 0


def test_what_cannot_be_verified_is_a_warning(cli: Cli) -> None:
    config = write(cli.wd / "c.json", {"prompt": PROMPT, "api": NOWHERE})
    assert "project_test_cmd is empty" in cli("validate", config, "--json").json["warnings"][0]
    cli.env(PROJECT_TEST_CMD="true")
    assert "verify_pass is off" in cli("validate", config, "--json").json["warnings"][0]


def test_the_untouched_template_is_a_problem(cli: Cli) -> None:
    cli("init")
    cli.env(API=NOWHERE)
    done = cli("validate")
    assert done.code == 1
    assert "still the template" in done.out


def test_a_missing_configuration_is_a_problem(cli: Cli) -> None:
    done = cli("validate", "nothing.json")
    assert (done.code, done.out) == (
        1,
        "problem: cannot read the configuration nothing.json: No such file or directory\n",
    )


# schema


def test_the_schema_is_json_and_knows_every_section(cli: Cli) -> None:
    schema = cli("schema").json
    assert {leaf.path[0] for leaf in LEAVES} <= schema["properties"].keys()


def test_the_keys_are_a_table_with_environment_and_default(cli: Cli) -> None:
    lines = cli("schema", "--keys").out.splitlines()
    assert lines[0].split()[:3] == ["key", "environment", "default"]
    row = next(line for line in lines if line.startswith("limits.max_rounds "))
    assert row.split()[:3] == ["limits.max_rounds", "MAX_ROUNDS", "8"]
    assert [row["key"] for row in cli("schema", "--keys", "--json").json] == [leaf.key for leaf in LEAVES]


# profiles


def test_profiles_are_installed_once_and_replaced_by_force(cli: Cli, store: Store) -> None:
    assert cli("profiles", "install", "--api", store.url).code == 0
    assert set(store.profiles) == set(profiles.names())
    store.profiles["tester"] = "mine"
    again = cli("profiles", "install", "--api", store.url)
    assert "tester: is there already, left as it is" in again.out
    assert store.profiles["tester"] == "mine"
    forced = cli("profiles", "install", "--api", store.url, "--force", "--json").json
    assert set(forced["profiles"].values()) == {"replaced"}
    assert store.profiles["tester"] == profiles.text("tester")


def test_profiles_are_listed_with_whether_the_server_has_them(cli: Cli, store: Store) -> None:
    store.profiles["tester"] = "x"
    rows = {row["name"]: row for row in cli("profiles", "list", "--api", store.url, "--json").json["profiles"]}
    assert (rows["tester"]["installed"], rows["programmer"]["installed"]) == (True, False)
    assert rows["tester"]["description"]
    cli.env(API=NOWHERE)
    offline = cli("profiles", "list")
    assert offline.code == 0
    assert "unknown" in offline.out


def test_profiles_cannot_be_installed_where_nobody_answers(cli: Cli) -> None:
    done = cli("profiles", "install", "--api", NOWHERE)
    assert done.code == 1
    assert done.err.startswith(f"logos: no CAO server answers at {NOWHERE}")
    assert done.err.count("\n") == 1


def test_an_address_that_is_none_is_one_clear_line(cli: Cli) -> None:
    done = cli("profiles", "install", "--api", "http://[broken")
    assert done.code == 1
    assert done.err.startswith("logos: api = 'http://[broken'")


# doctor


def levels(done_json: Any) -> dict[str, str]:
    return {row["about"]: row["level"] for row in done_json["checks"]}


def test_the_doctor_finds_everything_where_everything_is(cli: Cli, store: Store) -> None:
    store.profiles = dict.fromkeys(profiles.names(), "x")
    store.providers = [{"name": "codex", "binary": "codex", "installed": True}]
    cli.env(API=store.url)
    cli("init")
    done = cli("doctor", "--json")
    assert done.code == 0
    found = levels(done.json)
    assert {
        found[name] for name in ("python", "git", "work dir", "config", "CAO server", "profiles", "log", "lock")
    } == {"ok"}


def test_the_doctor_fails_without_a_server_and_says_what_to_do(cli: Cli) -> None:
    cli.env(API=NOWHERE)
    done = cli("doctor")
    assert done.code == 1
    assert f"fail  CAO server  no CAO server answers at {NOWHERE}" in " ".join(done.out.split(" ")).replace("   ", "  ")
    assert "start one with `cao-server`" in done.out


def test_the_doctor_sends_for_missing_profiles(cli: Cli, store: Store) -> None:
    cli.env(API=store.url)
    done = cli("doctor")
    assert done.code == 1
    assert "`logos profiles install` installs ours" in done.out


def test_the_doctor_reports_a_broken_configuration_and_goes_on(cli: Cli) -> None:
    write(cli.wd / "logos.json", {"max_round": 3})
    cli.env(API=NOWHERE)
    done = cli("doctor", "--json")
    assert done.code == 1
    assert levels(done.json)["config"] == "fail"
    assert levels(done.json)["lock"] == "ok"


def test_the_doctor_names_agent_programs_with_their_versions(cli: Cli, tmp_path: Path) -> None:
    import os

    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "codex").write_text("#!/bin/sh\necho codex-cli 9.9\n")
    (tools / "codex").chmod(0o755)
    cli.env(API=NOWHERE, PATH=f"{tools}:{os.environ['PATH']}")
    rows = {row["about"]: row["text"] for row in cli("doctor", "--json").json["checks"]}
    assert rows["agent codex"] == "codex: codex-cli 9.9, logged in, used by this configuration"


def install(folder: Path, **programs: str) -> None:
    """Programs that are nothing but a shell script."""
    folder.mkdir(exist_ok=True)
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)


LOGIN = 'case "$*" in --version) echo {version};; "{login}") echo {says}; exit {code};; *) exit 9;; esac'


def test_the_doctor_says_who_is_logged_in_and_keeps_what_they_print_to_itself(cli: Cli, tmp_path: Path) -> None:
    secret = "token-0123456789"
    install(
        tmp_path / "bin",
        codex=LOGIN.format(version="codex-cli 9", login="login status", says=secret, code=1),
        claude=LOGIN.format(version="2.0", login="auth status", says=secret, code=0),
        opencode=LOGIN.format(version="1.0", login="auth list", says="0 credentials", code=0),
        gemini="echo 0.9",
    )
    cli.env(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    done = cli("doctor", "--json")
    assert {row["provider"]: (row["version"], row["logged_in"]) for row in done.json["agents"]} == {
        "codex": ("codex-cli 9", False),
        "claude_code": ("2.0", True),
        "opencode_cli": ("1.0", False),
        "gemini": ("0.9", None),
    }
    assert levels(done.json)["agent codex"] == "warn", "used, and not logged in"
    assert levels(done.json)["agent opencode_cli"] == "ok", "not used"
    assert "not logged in, used by this configuration; `codex login status` tells more" in cli("doctor").out
    assert secret not in done.out + cli("doctor").out


def test_a_key_in_the_environment_is_a_login_too(cli: Cli, tmp_path: Path) -> None:
    says = "'0 credentials, 1 environment variable'"
    install(tmp_path / "bin", opencode=LOGIN.format(version="1.0", login="auth list", says=says, code=0))
    cli.env(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert [row["logged_in"] for row in cli("doctor", "--json").json["agents"]] == [True]


def test_the_doctor_does_not_wait_for_a_program_that_does_not_answer(cli: Cli, tmp_path: Path) -> None:
    install(tmp_path / "bin", codex="sleep 30")
    cli.monkeypatch.setattr("logos.app.agent_clis.ANSWER_SECONDS", 0.2)
    cli.env(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    (row,) = cli("doctor", "--json").json["agents"]
    assert (row["version"], row["logged_in"]) == ("does not tell its version", None)


def test_the_doctor_says_which_host_a_run_would_use_and_why(cli: Cli, tmp_path: Path, store: Store) -> None:
    cli.env(PATH="/usr/bin:/bin")
    nothing = cli("doctor", "--json").json
    assert (nothing["ok"], nothing["host"]["name"]) == (False, None)
    assert "npm install -g @openai/codex" in nothing["host"]["why"]
    install(tmp_path / "bin", claude="echo 2.0")
    cli.env(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    local = cli("doctor", "--json").json
    assert (local["ok"], local["host"]["name"]) == (True, "local")
    assert "agents run on this machine with claude_code: no CAO server answers" in local["host"]["why"]
    assert "CAO server" not in levels(local)
    cli.env(API=store.url)
    assert cli("doctor", "--json").json["host"] == {"name": "cao", "why": "its address is configured"}
    cli.env(API="", LOGOS_HOST="cao")
    assert cli("doctor", "--json").json["host"] == {"name": "cao", "why": "host = cao"}


def test_a_role_whose_program_is_missing_is_a_failure_on_this_machine(cli: Cli, tmp_path: Path) -> None:
    install(tmp_path / "bin", codex="echo 9")
    write(cli.wd / "logos.json", {"agents": {"tester": {"provider": "gemini"}}})
    cli.env(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    done = cli("doctor")
    assert done.code == 1
    assert "`gemini` is not on the PATH; install it: npm install -g @google/gemini-cli" in done.out


def test_the_schema_of_scripts(cli: Cli) -> None:
    schema = cli("schema", "--script").json
    assert set(schema["properties"]) == {"agents", "turns", "otherwise"}


def test_the_doctor_looks_at_the_log(cli: Cli) -> None:
    cli.run()
    cli.env(API=NOWHERE)
    assert {row["about"]: row["text"] for row in cli("doctor", "--json").json["checks"]}["log"] == "1 run, readable"


def test_the_doctor_says_whether_a_build_could_begin(cli: Cli) -> None:
    def told() -> tuple[str, str]:
        rows = cli("doctor", "--json").json["checks"]
        return next((row["level"], row["text"]) for row in rows if row["about"] == "build")

    level, text = told()
    assert (level, "telos.toml" in text) == ("warn", True)
    (cli.wd / "telos.toml").write_text('purpose = "a shop"\n')
    level, text = told()
    assert (level, "git init" in text) == ("warn", True)
    for command in ("init -q", "add -A", "commit -q -m start"):
        who = ("-c", "user.name=A", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *command.split()], cwd=cli.wd, check=True)
    level, text = told()
    assert (level, text.partition(";")[0]) == ("ok", "telos.toml names 0 tools")
