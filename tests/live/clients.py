"""The real agent CLIs, and how each is told that its only model is the fake one. Rows, not classes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.live.conversation import Fault, usage_limit

Files = Mapping[str, str]
SERVER_ERROR = Fault(500)
# Some wait without a word until the time that the server names.
SOON = Fault(429, headers={"retry-after": "1"})


@dataclass(frozen=True, slots=True)
class Client:
    """A CLI called `name`, which is `provider` to Logos. `files` of its home and `env` point it at a model's address.

    `memory` is where in its home it keeps conversations. `agent_def`: the files with which its screen comes up on a CAO
    server, in a work dir, and asks nothing. `counts_tokens`: its output tells how many. `limit` and `server_error`:
    errors of the model that it gives up on soon, if they stay.
    """

    name: str
    provider: str
    memory: str
    files: Callable[[str], Files] = lambda _: {}
    env: Callable[[str], Mapping[str, str]] = lambda _: {}
    agent_def: Callable[[str, Path], Files] = lambda _url, _wd: {}
    counts_tokens: bool = True
    limit: Callable[[], Fault] = lambda: usage_limit(int(time.time()) + 3600)
    server_error: Fault = SERVER_ERROR


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


def _gemini_files(_: str) -> Files:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False, "maxAttempts": 2},
        "privacy": {"usageStatisticsEnabled": False},
        "model": {"name": "gemini-2.5-pro"},
    }
    return {".gemini/settings.json": json.dumps(settings)}


def _qwen_files(_: str) -> Files:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        # It would ask the model after each turn what to remember.
        "memory": {"enableManagedAutoMemory": False},
        "model": {"generationConfig": {"maxRetries": 0}},
    }
    return {".qwen/settings.json": json.dumps(settings)}


def _copilot_env(url: str) -> Mapping[str, str]:
    return {
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": "none-needed",
        "COPILOT_MODEL": "fake-model",
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
    }


def _kimi_files(url: str) -> Files:
    config = f"""\
default_model = "fake"

[models.fake]
provider = "fake"
model = "fake-model"
max_context_size = 200000

[providers.fake]
type = "openai_legacy"
base_url = "{url}/v1"
api_key = "fake"

[loop_control]
max_retries_per_step = 1
"""
    return {".kimi/config.toml": config}


def _goose_env(url: str) -> Mapping[str, str]:
    return {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": "fake-model",
        "OPENAI_HOST": url,
        "OPENAI_API_KEY": "fake",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_PROVIDER_SKIP_BACKOFF": "true",
    }


CODEX = Client(
    name="codex",
    provider="codex",
    memory=".codex/sessions/**/*.jsonl",
    files=_codex_files,
    env=lambda _: {"FAKE_KEY": "fake"},
    agent_def=_codex_seat,
)
CLAUDE = Client(
    name="claude",
    provider="claude_code",
    memory=".claude/projects/*/*.jsonl",
    env=_claude_env,
    agent_def=_claude_seat,
)
OPENCODE = Client(
    name="opencode",
    provider="opencode_cli",
    memory=".local/share/opencode/opencode.db*",
    files=_opencode_files,
    env=lambda _: {"OPENCODE_DISABLE_MODELS_FETCH": "1"},
    agent_def=lambda url, _: _opencode_files(url),
)
GEMINI = Client(
    name="gemini",
    provider="gemini",
    memory=".gemini/tmp/**/*.json*",
    files=_gemini_files,
    env=lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "fake"},
)
QWEN = Client(
    name="qwen",
    provider="qwen",
    memory=".qwen/**/*.jsonl",
    files=_qwen_files,
    env=lambda url: {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "fake", "OPENAI_MODEL": "fake-model"},
    limit=lambda: SOON,
    server_error=Fault(503, headers=SOON.headers),
)
COPILOT = Client(
    name="copilot",
    provider="copilot_cli",
    memory=".copilot/session-state/*/events.jsonl",
    env=_copilot_env,
    counts_tokens=False,
)
KIMI = Client(
    name="kimi",
    provider="kimi_cli",
    memory=".kimi/sessions/**/*.jsonl",
    files=_kimi_files,
    env=lambda _: {"KIMI_CLI_NO_AUTO_UPDATE": "1"},
    counts_tokens=False,
)
GOOSE = Client(
    name="goose",
    provider="goose",
    memory=".local/share/goose/sessions/*",
    env=_goose_env,
    limit=lambda: SOON,
)
CLIENTS = (CODEX, CLAUDE, OPENCODE, GEMINI, QWEN, COPILOT, KIMI, GOOSE)
