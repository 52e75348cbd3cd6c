"""The real agent CLIs, each in a clean home that points it at the fake model: how they are started and read."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.live.conversation import Usage
from tests.live.model import FakeModel
from tests.support.waiting import LAST_RESORT, wait_for

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".cache" / "agent-clis" / "bin"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """What one turn's output tells; None where the CLI did not get that far."""

    session: str | None = None
    usage: Usage | None = None
    final_text: str | None = None
    error: str | None = None
    resets_at: int | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    exit_code: int
    said: Said
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Client:
    """`first` and `next` are command lines with `{permissions}` and `{session}`; the prompt goes to stdin, so it
    may be long.

    `mild` lets the agent write in the work dir and run commands there; `bypass` lets it do anything.
    `probe` must succeed for `mild` to work. `memory` is where in its home it keeps conversations.
    `provider` is its name on a CAO server, `seat` the files with which its screen comes up there, in a work dir,
    and asks nothing.
    """

    name: str
    first: tuple[str, ...]
    next: tuple[str, ...]
    mild: tuple[str, ...]
    bypass: tuple[str, ...]
    memory: str
    files: Callable[[str], Mapping[str, str]]
    env: Callable[[str], Mapping[str, str]]
    read: Callable[[list[Json]], Said]
    provider: str
    agent_def: Callable[[str, Path], Mapping[str, str]]
    probe: tuple[str, ...] = ()

    @property
    def binary(self) -> Path:
        return BIN / self.name

    def command(self, permissions: tuple[str, ...], session: str | None = None) -> list[str | Path]:
        words: list[str | Path] = [self.binary]
        for word in self.first if session is None else self.next:
            words += permissions if word == "{permissions}" else [word.format(session=session)]
        return words


# codex exec: options stand before `resume`; a 429 that names a usage limit is final, everything else is retried.


def _codex_files(url: str) -> Mapping[str, str]:
    config = f"""\
model = "fake-model"
model_provider = "fake"
check_for_update_on_startup = false

[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 2
stream_max_retries = 1

[analytics]
enabled = false

[features]
plugins = false
"""
    return {".codex/config.toml": config}


def _codex_seat(url: str, wd: Path) -> Mapping[str, str]:
    ((name, config),) = _codex_files(url).items()
    # `config` ends in its features; the daemon would outlive its terminal.
    more = f"""\
daemon_auto_start = false

[projects.{json.dumps(str(wd))}]
trust_level = "trusted"
"""
    return {name: config + more}


def _codex_said(lines: list[Json]) -> Said:
    usage = _last(line["usage"] for line in lines if line["type"] == "turn.completed")
    items = [line["item"] for line in lines if line["type"] == "item.completed"]
    return Said(
        session=_last(line["thread_id"] for line in lines if line["type"] == "thread.started"),
        # Summed over the whole conversation, the earlier turns included.
        usage=usage and Usage(usage["input_tokens"], usage["cached_input_tokens"], usage["output_tokens"]),
        final_text=_last(item["text"] for item in items if item["type"] == "agent_message"),
        error=_last(line["error"]["message"] for line in lines if line["type"] == "turn.failed"),
    )


# claude -p: the last line is the result; its `usage` is this turn's, and `input_tokens` leaves the cached ones out.


def _claude_env(url: str) -> Mapping[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        # A subscription's token, not an API key: only a subscription has a limit with a time.
        "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-fake",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",  # else root may not bypass permissions
    }


def _claude_seat(url: str, wd: Path) -> Mapping[str, str]:
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    known = {"hasCompletedOnboarding": True, "theme": "dark", "projects": {str(wd): trusted}}
    # CAO takes every CLAUDE* out of the environment, so they stand here.
    return {".claude.json": json.dumps(known), ".claude/settings.json": json.dumps({"env": dict(_claude_env(url))})}


def _claude_said(lines: list[Json]) -> Said:
    limits = (line["rate_limit_info"] for line in lines if line["type"] == "rate_limit_event")
    resets_at = _last(limit["resetsAt"] for limit in limits if limit["status"] == "rejected")
    result = _last(line for line in lines if line["type"] == "result")
    if result is None:
        return Said(session=_last(line["session_id"] for line in lines), resets_at=resets_at)
    if result["is_error"]:
        error = result.get("result") or "; ".join(result["errors"])
        return Said(session=result["session_id"], error=error, resets_at=resets_at)
    count = result["usage"]
    cached = count["cache_read_input_tokens"]
    fresh = count["input_tokens"] + count["cache_creation_input_tokens"]
    return Said(result["session_id"], Usage(fresh + cached, cached, count["output_tokens"]), result["result"])


# opencode run: only its log tells of retries, and it waits as long as the server says; one step_finish per request.


def _opencode_files(url: str) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "fake",
        "options": {"baseURL": f"{url}/v1", "apiKey": "fake"},
        "models": {"fake-model": {"name": "fake", "limit": {"context": 200_000, "output": 8_000}}},
    }
    config = {"autoupdate": False, "model": "fake/fake-model", "provider": {"fake": provider}}
    # It installs its plugin package beside the config, unless that looks done.
    lock = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
    folder = ".config/opencode"
    return {
        f"{folder}/opencode.json": json.dumps(config),
        f"{folder}/package-lock.json": json.dumps(lock),
        f"{folder}/node_modules/.keep": "",
    }


def _opencode_said(lines: list[Json]) -> Said:
    steps = [line["part"]["tokens"] for line in lines if line["type"] == "step_finish"]
    cached = sum(step["cache"]["read"] for step in steps)
    fresh = sum(step["input"] + step["cache"]["write"] for step in steps)
    output = sum(step["output"] + step["reasoning"] for step in steps)
    errors = (line["error"] for line in lines if line["type"] == "error")
    return Said(
        session=_last(line["sessionID"] for line in lines),
        usage=Usage(fresh + cached, cached, output) if steps else None,
        final_text=_last(line["part"]["text"] for line in lines if line["type"] == "text"),
        error=_last(error["data"]["message"] for error in errors),
    )


CODEX = Client(
    name="codex",
    first=("exec", "--json", "--skip-git-repo-check", "{permissions}", "-"),
    next=("exec", "--json", "--skip-git-repo-check", "{permissions}", "resume", "{session}", "-"),
    mild=("--sandbox", "workspace-write"),
    bypass=("--dangerously-bypass-approvals-and-sandbox",),
    memory=".codex/sessions/**/*.jsonl",
    files=_codex_files,
    env=lambda _: {"FAKE_KEY": "fake"},
    read=_codex_said,
    provider="codex",
    agent_def=_codex_seat,
    # Its sandbox needs user namespaces; without them every command fails, and codex still exits 0.
    probe=("sandbox", "--", "true"),
)
CLAUDE = Client(
    name="claude",
    first=("-p", "--output-format", "stream-json", "--verbose", "{permissions}"),
    next=("-p", "--output-format", "stream-json", "--verbose", "{permissions}", "--resume", "{session}"),
    mild=("--permission-mode", "acceptEdits", "--allowedTools", "Bash"),
    bypass=("--dangerously-skip-permissions",),
    memory=".claude/projects/*/*.jsonl",
    files=lambda _: {},
    env=_claude_env,
    read=_claude_said,
    provider="claude_code",
    agent_def=_claude_seat,
)
OPENCODE = Client(
    name="opencode",
    first=("run", "--format", "json", "--print-logs", "--log-level", "ERROR", "--title", "logos", "{permissions}"),
    next=("run", "--format", "json", "--print-logs", "--log-level", "ERROR", "{permissions}", "--session", "{session}"),
    mild=(),
    bypass=("--auto",),
    memory=".local/share/opencode/opencode.db*",
    files=_opencode_files,
    env=lambda _: {"OPENCODE_DISABLE_MODELS_FETCH": "1"},
    read=_opencode_said,
    provider="opencode_cli",
    agent_def=lambda url, _: _opencode_files(url),
)
CLIENTS = (CODEX, CLAUDE, OPENCODE)


@dataclass(frozen=True, slots=True)
class Home:
    """A home folder in which one client knows nothing but the fake model."""

    client: Client
    path: Path
    env: Mapping[str, str]
    permissions: tuple[str, ...]

    def remembers(self, words: str) -> bool:
        return any(words.encode() in file.read_bytes() for file in self.path.glob(self.client.memory))


def make_home(client: Client, path: Path, model: FakeModel, agent_def: Path | None = None) -> Home:
    """With `seat`, a home in which the client's own screen comes up in that work dir."""
    files = client.files(model.url) if agent_def is None else client.agent_def(model.url, agent_def)
    for name, content in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    temp = path / "tmp"
    temp.mkdir(parents=True)
    node = shutil.which("node")
    env = {
        "PATH": f"{BIN}:{Path(node).parent if node else '/usr/local/bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(path),
        "TMPDIR": str(temp),
        "LANG": "C.UTF-8",
        # Whoever wants to leave the machine asks the fake model, which says no and takes a note.
        "HTTPS_PROXY": model.url,
        "NO_PROXY": "127.0.0.1",
        **client.env(model.url),
    }
    return Home(client, path, env, client.mild if _passes(client, env) else client.bypass)


def _passes(client: Client, env: Mapping[str, str]) -> bool:
    if not client.probe:
        return True
    return subprocess.run([client.binary, *client.probe], env=env, capture_output=True).returncode == 0


def start(home: Home, wd: Path, prompt: str, session: str | None = None) -> subprocess.Popen[str]:
    """One turn, as leader of a process group of its own."""
    prompt_file = home.path / "prompt.md"
    prompt_file.write_text(prompt)
    with prompt_file.open() as stdin:
        return subprocess.Popen(
            home.client.command(home.permissions, session),
            cwd=wd,
            env=dict(home.env),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def run_turn(home: Home, wd: Path, prompt: str, session: str | None = None) -> Turn:
    with start(home, wd, prompt, session) as process:
        try:
            stdout, stderr = process.communicate(timeout=LAST_RESORT)
        finally:
            sweep(home)
    said = home.client.read(json_lines(stdout))
    return Turn(process.returncode, said, stdout, stderr)


def processes(home: Home) -> list[psutil.Process]:
    """Everything that was started from this home, in whatever process group or session it is by now."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get("HOME") == str(home.path) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def all_gone(home: Home) -> bool:
    """Nothing is left; what was killed takes a moment to go."""
    return wait_for(lambda: not processes(home), lambda: f"the end of {processes(home)}")


def sweep(home: Home) -> None:
    """End what a killed CLI leaves: its shell commands run in sessions of their own."""
    for process in (left := processes(home)):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=LAST_RESORT)


def json_lines(stdout: str) -> list[Json]:
    return [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]


def install() -> str | None:
    """Have the clients installed; the reason if that cannot be done."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "agent-clis"], stderr=subprocess.PIPE, text=True)
    return done.stderr.strip() or "tools/agent-clis failed" if done.returncode else None


def _last(found: Iterable[Any]) -> Any:
    *_, last = [None, *found]
    return last
