"""The agent CLIs that Logos can run itself: how each is started, continued, allowed and read. Rows, not classes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, cast

from logos.domain.usage import Usage
from logos.waiting.screens import last_lines, plain

Json = dict[str, Any]
Flags = Mapping["Permission", tuple[str, ...]]


class Permission(IntEnum):
    """What an agent may do, each level more than the one before."""

    RESPOND = 0  # read, write specs and its response
    EDIT = 1  # change the work tree
    RUN = 2  # run commands
    ALL = 3  # anything, if the user allows it


@dataclass(frozen=True, slots=True)
class Reading:
    """What the output of one process contains."""

    session: str = ""
    usage: Usage | None = None
    final: str = ""
    error: str = ""


def _objects(output: str) -> list[Json]:
    """The JSON objects in an output: one document, or one per line among other text."""

    def parsed(text: str) -> list[Json]:
        with suppress(ValueError, RecursionError):
            return [cast(Json, json.loads(text))] if text.lstrip().startswith("{") else []
        return []

    return parsed(output) or [row for line in output.splitlines() for row in parsed(line)]


def dig(data: object, path: str) -> Any:
    """The value at a dotted path of keys, or None."""
    for key in path.split("."):
        data = cast(Json, data).get(key) if isinstance(data, dict) else None
    return data


def _last(rows: Sequence[Json], path: str, kind: str | None = None) -> Any:
    """The last value at a path that is not empty, in the rows of one kind."""
    found = [dig(row, path) for row in rows if kind is None or row.get("type") == kind]
    return next((value for value in reversed(found) if value), None)


def _text(rows: Sequence[Json], path: str, kind: str | None = None) -> str:
    return str(_last(rows, path, kind) or "")


def _values(data: object) -> list[Any]:
    return list(cast(Json, data).values()) if isinstance(data, dict) else []


def _sum(rows: Sequence[object], *paths: str) -> int | None:
    """The sum of the whole numbers at these paths; None if there are none."""
    values = [dig(row, path) for row in rows for path in paths]
    known = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    return sum(known) if known else None


def _price(prices: Sequence[object]) -> float | None:
    known = [float(price) for price in prices if isinstance(price, int | float)]
    return sum(known) if known else None


def read_codex(rows: Sequence[Json]) -> Reading:
    used = [_last(rows, "usage", "turn.completed")]
    usage = Usage(_sum(used, "input_tokens"), _sum(used, "cached_input_tokens"), _sum(used, "output_tokens"))
    messages = [row for row in rows if dig(row, "item.type") == "agent_message"]
    return Reading(
        session=_text(rows, "thread_id", "thread.started"),
        usage=usage if used[0] else None,
        final=_text(messages, "item.text"),
        error=_text(rows, "error.message", "turn.failed"),
    )


def read_claude(rows: Sequence[Json]) -> Reading:
    result = next((row for row in reversed(rows) if row.get("type") == "result"), None)
    session = _text(rows, "session_id")
    if result is None:
        return Reading(session)
    used, cached = [result.get("usage")], "cache_read_input_tokens"
    # Newer versions report the price of the whole conversation as the total.
    prices = [dig(model, "costUSD") for model in _values(result.get("model_usage_since_last_result"))]
    usage = Usage(
        _sum(used, "input_tokens", "cache_creation_input_tokens", cached),
        _sum(used, cached),
        _sum(used, "output_tokens"),
        _price(prices or [result.get("total_cost_usd")]),
    )
    reading = Reading(session, usage if used[0] else None, str(result.get("result") or ""))
    if not result.get("is_error"):
        return reading
    resets = _last(rows, "rate_limit_info.resetsAt", "rate_limit_event")
    error = reading.final or "; ".join(str(part) for part in cast("list[object]", result.get("errors") or ["error"]))
    return replace(reading, final="", error=f"{error} (resets at {resets})" if resets else error)


def read_opencode(rows: Sequence[Json]) -> Reading:
    steps = [row.get("part") for row in rows if row.get("type") == "step_finish"]
    usage = Usage(
        _sum(steps, "tokens.input", "tokens.cache.read", "tokens.cache.write"),
        _sum(steps, "tokens.cache.read"),
        _sum(steps, "tokens.output", "tokens.reasoning"),
        # A price of zero means that the price of the model is unknown.
        _price([dig(step, "cost") for step in steps]) or None,
    )
    return Reading(
        session=_text(rows, "sessionID"),
        usage=usage if steps else None,
        final=_text(rows, "part.text", "text"),
        error=_text(rows, "error.data.message", "error"),
    )


def read_gemini(rows: Sequence[Json]) -> Reading:
    models = _values(_last(rows, "stats.models"))
    output = _sum(models, "tokens.candidates", "tokens.thoughts")
    usage = Usage(_sum(models, "tokens.prompt"), _sum(models, "tokens.cached"), output)
    return Reading(
        session=_text(rows, "session_id"),
        usage=usage if models else None,
        final=_text(rows, "response"),
        error=_text(rows, "error.message"),
    )


def read_copilot(rows: Sequence[Json]) -> Reading:
    return Reading(session=_text(rows, "sessionId"), final=_text(rows, "data.content", "assistant.message"))


# The CLI does not know the conversation: it was killed before it stored it.
LOST_CONVERSATION = re.compile(r"no conversation found|no rollout found|session not found", re.IGNORECASE)


def read_kimi(rows: Sequence[Json]) -> Reading:
    return Reading(final=_text(rows, "content"))


def read_plain(rows: Sequence[Json]) -> Reading:
    del rows
    return Reading()


def _flags(edit: tuple[str, ...], run: tuple[str, ...], everything: tuple[str, ...]) -> Flags:
    return {Permission.RESPOND: edit, Permission.EDIT: edit, Permission.RUN: run, Permission.ALL: everything}


@dataclass(frozen=True, slots=True)
class Provider:
    """A CLI. `first` and `again` are its arguments; `{permissions}` and `{session}` are filled in.

    The prompt goes to its standard input, or with `as_argument` to the end of its arguments. `cumulative`: it reports
    the usage of the whole conversation. `names_sessions`: we choose the name of the session. `stderr_warnings` matches
    messages on the error stream of a waiting process that the user should see, `session_pattern` a session that is
    reported as text.
    """

    name: str
    program: str
    first: tuple[str, ...]
    again: tuple[str, ...]
    read: Callable[[Sequence[Json]], Reading]
    install: str
    permissions: Flags = field(default_factory=dict[Permission, tuple[str, ...]])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    env_when_all: Mapping[str, str] = field(default_factory=dict[str, str])
    as_argument: bool = False
    cumulative: bool = False
    names_sessions: bool = False
    stderr_warnings: re.Pattern[str] | None = None
    session_pattern: re.Pattern[str] | None = None
    login: tuple[str, ...] = ()

    def arguments(self, permission: Permission, session: str, again: bool) -> list[str]:
        flags, arguments = self.permissions.get(permission, ()), list[str]()
        for part in self.again if again else self.first:
            arguments += flags if part == "{permissions}" else [part.replace("{session}", session)]
        return arguments

    def reading(self, output: str, errors: str) -> Reading:
        """What the output of a process contains; plain text if it has no JSON."""
        found = self.read(_objects(output))
        if self.session_pattern is not None and (session := self.session_pattern.search(output + errors)):
            found = replace(found, session=session[1])
        return Reading(final=plain(output).strip()) if found == Reading() else found


_OPENCODE = ("run", "--format", "json", "--print-logs", "--log-level", "ERROR", "{permissions}")
_GOOSE = ("--with-builtin", "developer", "--output-format", "json", "-i", "-")
_CLAUDE_EDITS = ("--permission-mode", "acceptEdits")
_COPILOT_EDITS = ("--allow-tool", "write")
_SANDBOX = ("--sandbox", "workspace-write")
_AUTO_EDIT = ("--approval-mode", "auto_edit")

ROWS: tuple[Provider, ...] = (
    Provider(
        name="codex",
        program="codex",
        first=("exec", "--json", "--skip-git-repo-check", "{permissions}", "-"),
        again=("exec", "--json", "--skip-git-repo-check", "{permissions}", "resume", "{session}", "-"),
        read=read_codex,
        install="npm install -g @openai/codex",
        permissions=_flags(_SANDBOX, _SANDBOX, ("--dangerously-bypass-approvals-and-sandbox",)),
        cumulative=True,
        login=("login", "status"),
    ),
    Provider(
        name="claude_code",
        program="claude",
        first=("-p", "--output-format", "stream-json", "--verbose", "{permissions}"),
        again=("-p", "--output-format", "stream-json", "--verbose", "{permissions}", "--resume", "{session}"),
        read=read_claude,
        install="npm install -g @anthropic-ai/claude-code",
        permissions=_flags(
            _CLAUDE_EDITS, (*_CLAUDE_EDITS, "--allowedTools", "Bash"), ("--dangerously-skip-permissions",)
        ),
        # By default it retries a refused key for minutes.
        env={"CLAUDE_CODE_MAX_RETRIES": "5"},
        # As root it skips permissions only in a sandbox.
        env_when_all={"IS_SANDBOX": "1"},
        login=("auth", "status"),
    ),
    Provider(
        name="opencode_cli",
        program="opencode",
        first=(*_OPENCODE, "--title", "logos"),
        again=(*_OPENCODE, "--session", "{session}"),
        read=read_opencode,
        install="npm install -g opencode-ai",
        permissions={Permission.ALL: ("--auto",)},
        # It waits until a limit is reset and reports that only in its log.
        stderr_warnings=re.compile(r"AI_APICallError: ([^\"\n]*limit[^\"\n]*)", re.IGNORECASE),
        login=("auth", "list"),
    ),
    Provider(
        name="gemini",
        program="gemini",
        first=("-o", "json", "{permissions}"),
        again=("-o", "json", "{permissions}", "--resume", "{session}"),
        read=read_gemini,
        install="npm install -g @google/gemini-cli",
        permissions=_flags(_AUTO_EDIT, ("-y",), ("-y",)),
    ),
    Provider(
        name="qwen",
        program="qwen",
        first=("-o", "stream-json", "{permissions}"),
        again=("-o", "stream-json", "{permissions}", "--resume", "{session}"),
        read=read_claude,
        install="npm install -g @qwen-code/qwen-code",
        permissions=_flags(_AUTO_EDIT, ("-y",), ("-y",)),
        cumulative=True,
    ),
    Provider(
        name="copilot_cli",
        program="copilot",
        first=("--output-format", "json", "{permissions}", "-p"),
        again=("--output-format", "json", "{permissions}", "--resume={session}", "-p"),
        read=read_copilot,
        install="npm install -g @github/copilot",
        permissions=_flags(_COPILOT_EDITS, (*_COPILOT_EDITS, "--allow-tool", "shell"), ("--allow-all",)),
        as_argument=True,
    ),
    Provider(
        name="kimi_cli",
        program="kimi",
        first=("--print", "--output-format", "stream-json", "-p"),
        again=("--print", "--output-format", "stream-json", "-r", "{session}", "-p"),
        read=read_kimi,
        install="pip install kimi-cli",
        as_argument=True,
        session_pattern=re.compile(r"kimi -r ([\w-]+)"),
    ),
    Provider(
        name="goose",
        program="goose",
        first=("run", "-q", "-n", "{session}", *_GOOSE),
        again=("run", "-q", "-n", "{session}", "-r", *_GOOSE),
        read=read_plain,
        install="npm install -g @aaif/goose-binary-linux-x64",
        env={"GOOSE_MODE": "smart_approve"},
        env_when_all={"GOOSE_MODE": "auto"},
        names_sessions=True,
    ),
)
PROVIDERS: dict[str, Provider] = {row.name: row for row in ROWS}
COMMAND = "command"


def command_provider(template: str) -> Provider:
    """Any other program: its command line with {prompt_file}, {session} and {cwd} in it."""
    program, *arguments = shlex.split(template)
    return Provider(COMMAND, program, tuple(arguments), tuple(arguments), read_plain, "", names_sessions=True)


def end_of(text: str, lines: int = 5) -> str:
    """The last lines of an output on one line, for a message."""
    return " ⏎ ".join(last_lines(text, lines))[:600]
