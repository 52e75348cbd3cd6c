"""`logos doctor` and `logos profiles`: what they find on a machine and on a server, and what they say to do."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from logos import profiles
from tests.support.sandbox import PROMPT, Sandbox

NOWHERE = "http://127.0.0.1:9"


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


def install(folder: Path, **programs: str) -> None:
    """Programs that are nothing but a shell script."""
    folder.mkdir(exist_ok=True)
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)


def levels(done_json: Any) -> dict[str, str]:
    return {row["about"]: row["level"] for row in done_json["checks"]}


def test_the_doctor_finds_everything_where_everything_is(sandbox: Sandbox, store: Store) -> None:
    store.profiles = dict.fromkeys(profiles.names(), "x")
    store.providers = [{"name": "codex", "binary": "codex", "installed": True}]
    sandbox.set(API=store.url)
    sandbox("init")
    done = sandbox("doctor", "--json")
    assert done.code == 0
    found = levels(done.json)
    assert {
        found[name] for name in ("python", "git", "work dir", "config", "CAO server", "profiles", "log", "lock")
    } == {"ok"}


def test_the_doctor_fails_without_a_server_and_says_what_to_do(sandbox: Sandbox) -> None:
    sandbox.set(API=NOWHERE)
    done = sandbox("doctor")
    assert done.code == 1
    assert f"fail  CAO server  no CAO server answers at {NOWHERE}" in " ".join(done.out.split(" ")).replace("   ", "  ")
    assert "start one with `cao-server`" in done.out


def test_the_doctor_sends_for_missing_profiles(sandbox: Sandbox, store: Store) -> None:
    sandbox.set(API=store.url)
    done = sandbox("doctor")
    assert done.code == 1
    assert "`logos profiles install` installs ours" in done.out


def test_the_doctor_reports_a_broken_configuration_and_goes_on(sandbox: Sandbox) -> None:
    write(sandbox.wd / "logos.json", {"max_round": 3})
    sandbox.set(API=NOWHERE)
    done = sandbox("doctor", "--json")
    assert done.code == 1
    assert levels(done.json)["config"] == "fail"
    assert levels(done.json)["lock"] == "ok"


def test_the_doctor_names_agent_programs_with_their_versions(sandbox: Sandbox, tmp_path: Path) -> None:
    install(tmp_path / "bin", codex="echo codex-cli 9.9")
    sandbox.set(API=NOWHERE, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    rows = {row["about"]: row["text"] for row in sandbox("doctor", "--json").json["checks"]}
    assert rows["agent codex"] == "codex: codex-cli 9.9, logged in, used by this configuration"


LOGIN = 'case "$*" in --version) echo {version};; sandbox*) ;; "{login}") echo {says}; exit {code};; *) exit 9;; esac'


def test_the_doctor_says_who_is_logged_in_and_keeps_what_they_print_to_itself(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = "token-0123456789"
    install(
        tmp_path / "bin",
        codex=LOGIN.format(version="codex-cli 9", login="login status", says=secret, code=1),
        claude=LOGIN.format(version="2.0", login="auth status", says=secret, code=0),
        opencode=LOGIN.format(version="1.0", login="auth list", says="0 credentials", code=0),
        gemini="echo 0.9",
    )
    sandbox.set(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    done = sandbox("doctor", "--json")
    assert {row["provider"]: (row["version"], row["logged_in"]) for row in done.json["agents"]} == {
        "codex": ("codex-cli 9", False),
        "claude_code": ("2.0", True),
        "opencode_cli": ("1.0", False),
        "gemini": ("0.9", None),
    }
    assert levels(done.json)["agent codex"] == "warn", "used, and not logged in"
    assert levels(done.json)["agent opencode_cli"] == "ok", "not used"
    told = sandbox("doctor").out
    assert "not logged in, used by this configuration; see `codex login status`" in told
    assert told.endswith("\nready to run once you have logged in to codex\n")
    assert secret not in done.out + sandbox("doctor").out


def test_a_key_in_the_environment_is_a_login_too(sandbox: Sandbox, tmp_path: Path) -> None:
    says = "'0 credentials, 1 environment variable'"
    install(tmp_path / "bin", opencode=LOGIN.format(version="1.0", login="auth list", says=says, code=0))
    sandbox.set(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert [row["logged_in"] for row in sandbox("doctor", "--json").json["agents"]] == [True]


def test_the_doctor_does_not_wait_for_a_program_that_does_not_answer(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", codex="exec sleep 600")
    monkeypatch.setattr("logos.adapters.hosts.providers.TIMEOUT_SECONDS", 0.2)
    sandbox.set(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    (row,) = sandbox("doctor", "--json").json["agents"]
    assert (row["version"], row["logged_in"]) == ("version unknown", None)


def test_the_doctor_says_which_host_a_run_would_use_and_why(sandbox: Sandbox, tmp_path: Path, store: Store) -> None:
    sandbox.set(PATH="/usr/bin:/bin")
    nothing = sandbox("doctor", "--json").json
    assert (nothing["ok"], nothing["host"]["name"]) == (False, None)
    assert "npm install -g @openai/codex" in nothing["host"]["why"]
    install(tmp_path / "bin", claude="echo 2.0")
    sandbox.set(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    local = sandbox("doctor", "--json").json
    assert (local["ok"], local["host"]["name"]) == (True, "local")
    assert "agents run on this machine with claude_code (no CAO server answers" in local["host"]["why"]
    assert "CAO server" not in levels(local)
    sandbox.set(API=store.url)
    assert sandbox("doctor", "--json").json["host"] == {"name": "cao", "why": "its address is configured"}
    sandbox.set(API="", LOGOS_HOST="cao")
    assert sandbox("doctor", "--json").json["host"] == {"name": "cao", "why": "host = cao"}


def test_a_role_whose_program_is_missing_is_a_failure_on_this_machine(sandbox: Sandbox, tmp_path: Path) -> None:
    install(tmp_path / "bin", codex="echo 9")
    write(sandbox.wd / "logos.json", {"agents": {"tester": {"provider": "gemini"}}})
    sandbox.set(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    done = sandbox("doctor")
    assert done.code == 1
    assert (
        "provider gemini: its program `gemini` is not on PATH; install it (npm install -g @google/gemini-cli)"
        in done.out
    )


def test_a_version_that_is_newer_than_the_tested_one_is_a_warning(sandbox: Sandbox, tmp_path: Path) -> None:
    install(tmp_path / "bin", codex="echo codex-cli 99.0", claude="echo 2.0.1", kimi="echo kimi, version 1.52.0")
    sandbox.set(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    done = sandbox("doctor", "--json").json
    found = levels(done)
    assert (found["agent codex"], found["agent claude_code"], found["agent kimi_cli"]) == ("warn", "ok", "warn")
    assert "newer than 0.166.0, the version that was tested with Logos" in sandbox("doctor").out
    assert "install 1.51.0: pip install kimi-cli==1.51.0" in sandbox("doctor").out
    assert done["ok"]
    sandbox.set(PROVIDER="kimi_cli", LOGOS_HOST="local")
    assert levels(sandbox("doctor", "--json").json)["agent kimi_cli"] == "fail"


def test_the_doctor_tries_the_sandbox_of_codex(sandbox: Sandbox, tmp_path: Path) -> None:
    install(tmp_path / "bin", codex='[ "$1" != sandbox ] || { echo "bwrap: no namespace" >&2; exit 1; }; echo 0.1')
    sandbox.set(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    done = sandbox("doctor")
    assert done.code == 1
    assert "its sandbox does not work here (bwrap: no namespace); allow user namespaces" in " ".join(done.out.split())
    sandbox.set(AUTO_ACCEPT_PERMISSIONS="1")
    assert sandbox("doctor").code == 0


def test_the_doctor_looks_at_the_log(sandbox: Sandbox) -> None:
    sandbox.run()
    sandbox.set(API=NOWHERE)
    assert {row["about"]: row["text"] for row in sandbox("doctor", "--json").json["checks"]}["log"] == "1 run, readable"


def test_the_doctor_says_whether_a_build_could_begin(sandbox: Sandbox) -> None:
    def told() -> tuple[str, str]:
        rows = sandbox("doctor", "--json").json["checks"]
        return next((row["level"], row["text"]) for row in rows if row["about"] == "build")

    level, text = told()
    assert (level, "telos.toml" in text) == ("warn", True)
    (sandbox.wd / "telos.toml").write_text('purpose = "a shop"\n')
    level, text = told()
    assert (level, "git init" in text) == ("warn", True)
    for command in ("init -q", "add -A", "commit -q -m start"):
        sandbox.git(*command.split())
    level, text = told()
    assert (level, text.partition(";")[0]) == ("ok", "telos.toml names 0 tools")


def test_a_provider_that_only_the_server_knows_is_valid(sandbox: Sandbox, store: Store) -> None:
    store.providers = [{"name": "brand_new", "binary": "new", "installed": True}]
    config = write(sandbox.wd / "c.json", {"provider": "brand_new", "prompt": PROMPT, "api": store.url})
    assert sandbox("validate", config).code == 0


def test_profiles_are_installed_once_and_replaced_by_force(sandbox: Sandbox, store: Store) -> None:
    assert sandbox("profiles", "install", "--api", store.url).code == 0
    assert set(store.profiles) == set(profiles.names())
    store.profiles["tester"] = "mine"
    again = sandbox("profiles", "install", "--api", store.url)
    assert "tester: exists, not overwritten" in again.out
    assert store.profiles["tester"] == "mine"
    forced = sandbox("profiles", "install", "--api", store.url, "--force", "--json").json
    assert set(forced["profiles"].values()) == {"replaced"}
    assert store.profiles["tester"] == profiles.text("tester")


def test_profiles_are_listed_with_whether_the_server_has_them(sandbox: Sandbox, store: Store) -> None:
    store.profiles["tester"] = "x"
    rows = {row["name"]: row for row in sandbox("profiles", "list", "--api", store.url, "--json").json["profiles"]}
    assert (rows["tester"]["installed"], rows["programmer"]["installed"]) == (True, False)
    assert rows["tester"]["description"]
    sandbox.set(API=NOWHERE)
    offline = sandbox("profiles", "list")
    assert offline.code == 0
    assert "unknown" in offline.out


def test_profiles_cannot_be_installed_where_nobody_answers(sandbox: Sandbox) -> None:
    done = sandbox("profiles", "install", "--api", NOWHERE)
    assert done.code == 1
    assert done.err.startswith(f"logos: no CAO server answers at {NOWHERE}")
    assert done.err.count("\n") == 1
