"""What agent CLIs print, as they print it, and what is read from it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.adapters.hosts.provider_output import Reading
from logos.adapters.hosts.providers import PROVIDERS, Grant, Permission, command_provider, version_numbers
from logos.domain.usage import Usage
from tests.builders import examples


def lines(*rows: object) -> str:
    return "\n".join(json.dumps(row) for row in rows)


CODEX = lines(
    {"type": "thread.started", "thread_id": "0199"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"type": "error", "message": "only a warning"}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "first"}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "done"}},
    {"type": "turn.completed", "usage": {"input_tokens": 120, "cached_input_tokens": 100, "output_tokens": 7}},
)
CODEX_FAILED = lines(
    {"type": "thread.started", "thread_id": "0199"},
    {"type": "error", "message": "Reconnecting... 1/5"},
    {"type": "turn.failed", "error": {"message": "You've hit your usage limit. Try again at 10:33 PM."}},
)
CLAUDE = lines(
    {"type": "system", "subtype": "init", "session_id": "abc"},
    {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "session_id": "abc",
        "result": "done",
        "total_cost_usd": 0.9,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 70,
            "output_tokens": 5,
        },
        "model_usage_since_last_result": {"opus": {"costUSD": 0.2}, "haiku": {"costUSD": 0.05}},
    },
)
CLAUDE_LIMIT = lines(
    {
        "type": "rate_limit_event",
        "session_id": "abc",
        "rate_limit_info": {"status": "rejected", "resetsAt": 1794788388},
    },
    {"type": "result", "subtype": "success", "is_error": True, "session_id": "abc", "result": "You've hit your limit"},
)
OPENCODE = lines(
    {"type": "step_start", "sessionID": "ses_1"},
    {"type": "text", "sessionID": "ses_1", "part": {"text": "done"}},
    {
        "type": "step_finish",
        "sessionID": "ses_1",
        "part": {"cost": 0, "tokens": {"input": 5, "output": 2, "reasoning": 1, "cache": {"read": 40, "write": 3}}},
    },
)
GEMINI = json.dumps(
    {
        "session_id": "g1",
        "response": "done",
        "stats": {"models": {"pro": {"tokens": {"prompt": 50, "cached": 10, "candidates": 4, "thoughts": 2}}}},
    },
    indent=2,
)
QWEN = lines(
    {"type": "system", "subtype": "init", "session_id": "q1"},
    {
        "type": "result",
        "is_error": False,
        "session_id": "q1",
        "result": "done",
        "usage": {"input_tokens": 120, "output_tokens": 7, "cache_read_input_tokens": 100, "total_tokens": 127},
        "permission_denials": [],
    },
)
COPILOT = lines(
    {"type": "assistant.message", "data": {"content": "done", "toolRequests": []}},
    {"type": "result", "sessionId": "c1", "exitCode": 0, "usage": {"premiumRequests": 3}},
)
KIMI = lines(
    {"role": "assistant", "content": [], "tool_calls": [{"function": {"name": "Shell", "arguments": "{}"}}]},
    {"role": "tool", "content": "<system>Command executed successfully.</system>", "tool_call_id": "call_1"},
    {"role": "assistant", "content": "done"},
)
KIMI_RESUME = "\nTo resume this session: kimi -r k-1\n"


def goose(*messages: object, **metadata: object) -> str:
    return json.dumps({"messages": messages, "metadata": metadata}, indent=2)


def goose_says(content: object, role: str = "assistant") -> object:
    return {"role": role, "content": [content]}


GOOSE = goose(
    goose_says({"type": "text", "text": "Test it."}, "user"),
    goose_says({"type": "text", "text": "done"}),
    input_tokens=120,
    output_tokens=7,
    cache_read_input_tokens=100,
    status="completed",
)


@pytest.mark.parametrize(
    ("provider", "output", "errors", "reading"),
    [
        ("codex", CODEX, "", Reading("0199", Usage(120, 100, 7), "done")),
        ("claude_code", CLAUDE, "", Reading("abc", Usage(100, 70, 5, 0.25), "done")),
        ("opencode_cli", OPENCODE, "", Reading("ses_1", Usage(48, 40, 3, None), "done")),
        ("gemini", GEMINI, "Ripgrep is not available.", Reading("g1", Usage(50, 10, 6), "done")),
        # Its input tokens include the cached ones.
        ("qwen", QWEN, "", Reading("q1", Usage(120, 100, 7), "done")),
        # It reports what the plan is charged, not tokens.
        ("copilot_cli", COPILOT, "", Reading("c1", Usage(premium_requests=3), "done")),
        ("kimi_cli", KIMI, KIMI_RESUME, Reading("k-1", final="done")),
        ("goose", GOOSE, "", Reading("", Usage(120, 100, 7), "done")),
    ],
)
def test_session_usage_and_last_word_are_found(provider: str, output: str, errors: str, reading: Reading) -> None:
    assert PROVIDERS[provider].reading(output, errors, 0) == reading


GEMINI_401 = """\
YOLO mode is enabled. All tool calls will be automatically approved.
Error when talking to Gemini API Full report available at: /tmp/gemini-client-error.json _ApiError: {"error":{}}
    at throwErrorIfNotOK (file:///gemini.js:267833:24) {
  status: 401
}
{
  "session_id": "g1",
  "error": {
    "type": "Error",
    "message": "{\\"error\\":{\\"code\\":401,\\"message\\":\\"API key not valid.\\"}}",
    "code": 401
  }
}
"""
GEMINI_429 = """\
Attempt 2 failed: Resource has been exhausted (e.g. check quota). Max attempts reached
{
  "session_id": "g1",
  "error": {
    "type": "Error",
    "message": "Resource has been exhausted (e.g. check quota).",
    "code": 429
  }
}
"""
QWEN_401 = lines(
    {
        "type": "result",
        "is_error": True,
        "session_id": "q1",
        "error": {"message": "[API Error: 401 Incorrect API key.]"},
    },
)
QWEN_OLD_401 = lines(
    {"type": "result", "is_error": False, "session_id": "q1", "result": "[API Error: 401 Incorrect API key.]"},
)
COPILOT_401 = lines(
    {"type": "session.error", "data": {"errorType": "authentication", "message": "Authentication failed (HTTP 401)."}},
    {"type": "result", "sessionId": "c1", "exitCode": 1, "usage": {"premiumRequests": 0}},
)
KIMI_500 = "Error code: 500 - {'error': {'message': 'The server had an error.'}}\n"
GOOSE_401 = goose(
    goose_says(
        {"type": "error", "kind": "authentication", "message": "Ran into this error: Status: 401\n\nPlease retry"}
    ),
    status="error",
)
GOOSE_500 = goose(
    goose_says({"type": "text", "text": "done"}),
    goose_says({"type": "text", "text": "Ran into this error: Server error (500)\n\nPlease retry if you think"}),
    status="completed",
)


@pytest.mark.parametrize(
    ("provider", "output", "errors", "code", "error"),
    [
        ("codex", CODEX_FAILED, "", 1, "You've hit your usage limit. Try again at 10:33 PM."),
        ("claude_code", CLAUDE_LIMIT, "", 1, "You've hit your limit (resets at 1794788388)"),
        ("gemini", "", GEMINI_401, 145, "401 API key not valid."),
        ("gemini", "", GEMINI_429, 173, "429 Resource has been exhausted (e.g. check quota)."),
        ("qwen", QWEN_401, "", 1, "[API Error: 401 Incorrect API key.]"),
        # Version 0.15 ended with 0 and gave the error as its last word.
        ("qwen", QWEN_OLD_401, "", 0, "[API Error: 401 Incorrect API key.]"),
        ("copilot_cli", COPILOT_401, "", 1, "Authentication failed (HTTP 401)."),
        ("kimi_cli", KIMI_500, KIMI_RESUME, 75, f"temporary failure: {KIMI_500.strip()}"),
        ("kimi_cli", KIMI_500, KIMI_RESUME, 1, KIMI_500.strip()),
        ("goose", GOOSE_401, "Error: Ran into this error: Status: 401", 1, "Ran into this error: Status: 401"),
        ("goose", GOOSE_500, "", 0, "Ran into this error: Server error (500)"),
    ],
)
def test_an_error_is_found_wherever_the_client_reports_it(
    provider: str, output: str, errors: str, code: int, error: str
) -> None:
    reading = PROVIDERS[provider].reading(output, errors, code)
    assert (reading.error, reading.final) == (error, "")


def denied(tool: str, **arguments: str) -> object:
    return {"type": "result", "is_error": False, "permission_denials": [{"tool_name": tool, "tool_input": arguments}]}


def codex_ran(command: str, status: str, output: str) -> object:
    item = {"type": "command_execution", "command": command, "status": status, "aggregated_output": output}
    return {"type": "item.completed", "item": item}


def opencode_used(tool: str, error: str, **arguments: str) -> object:
    return {
        "type": "tool_use",
        "part": {"tool": tool, "state": {"status": "error", "input": arguments, "error": error}},
    }


COPILOT_DENIED = lines(
    {
        "type": "tool.execution_start",
        "data": {"toolCallId": "1", "toolName": "bash", "arguments": {"command": "touch x"}},
    },
    {"type": "tool.execution_complete", "data": {"toolCallId": "1", "success": False, "error": {"code": "denied"}}},
    {"type": "tool.execution_start", "data": {"toolCallId": "2", "toolName": "view", "arguments": {"path": "gone"}}},
    {"type": "tool.execution_complete", "data": {"toolCallId": "2", "success": False, "error": {"code": "failure"}}},
)
OPENCODE_RULE = "The user has specified a rule which prevents you from using this specific tool call. Here are some"


@pytest.mark.parametrize(
    ("provider", "output", "errors", "refused"),
    [
        ("codex", lines(codex_ran("touch x", "failed", "touch: 'x': Read-only file system\n")), "", "touch x"),
        ("codex", lines(codex_ran("rm x", "declined", "")), "", "rm x"),
        ("claude_code", lines(denied("Bash", command="touch x", description="y")), "", "Bash touch x"),
        ("qwen", lines(denied("run_shell_command", command="touch x")), "", "run_shell_command touch x"),
        ("opencode_cli", lines(opencode_used("bash", OPENCODE_RULE, command="touch /x")), "", "bash touch /x"),
        (
            "opencode_cli",
            OPENCODE,
            "\x1b[93m! \x1b[0mpermission requested: external_directory (/etc/*); auto-rejecting\n",
            "external_directory (/etc/*)",
        ),
        (
            "gemini",
            GEMINI,
            'Error executing tool run_shell_command: Tool "run_shell_command" not found. Did you mean\n',
            "run_shell_command",
        ),
        ("copilot_cli", COPILOT_DENIED, "", "bash touch x"),
        ("kimi_cli", lines({"role": "tool", "content": "<system>ERROR: Tool `Shell` not found</system>"}), "", "Shell"),
    ],
)
def test_a_tool_call_that_was_refused_is_found(provider: str, output: str, errors: str, refused: str) -> None:
    assert PROVIDERS[provider].reading(output, errors, 0).refused == (refused,)


def test_a_command_that_failed_for_its_own_reasons_was_not_refused() -> None:
    output = lines(codex_ran("false", "failed", ""), opencode_used("bash", "exit 1", command="false"))
    assert PROVIDERS["codex"].reading(output, "", 0).refused == ()
    assert PROVIDERS["opencode_cli"].reading(output, "", 0).refused == ()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_program_that_prints_no_json_is_taken_at_its_word(provider: str) -> None:
    assert PROVIDERS[provider].reading("\x1b[1mHello\x1b[0m\n", "", 0) == Reading(final="Hello")


FIELDS = ("type", "usage", "result", "item", "part", "tokens", "stats", "models", "error", "session_id", "errors")
documents = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(FIELDS), inner),
)


@examples()
@given(st.text() | documents.map(json.dumps))
def test_any_output_can_be_read_by_every_provider(output: str) -> None:
    for row in PROVIDERS.values():
        assert isinstance(row.reading(output, output, 1), Reading)


@pytest.mark.parametrize("row", PROVIDERS.values(), ids=PROVIDERS)
def test_the_next_turn_goes_on_in_the_same_conversation(row) -> None:
    again = row.arguments(row.permissions[Permission.EDIT], "the-session", True)
    assert any("the-session" in word for word in again)
    assert "{session}" not in " ".join(again)
    assert "{permissions}" not in " ".join(again)


# goose knows no permissions without a keyboard, and says so at the start.
@pytest.mark.parametrize("row", [row for row in PROVIDERS.values() if row.name != "goose"], ids=lambda row: row.name)
def test_nothing_but_the_persons_word_lets_an_agent_do_anything(row) -> None:
    everything = row.permissions[Permission.ALL]
    # Without its shell, kimi cannot make folders.
    limited = {Permission.RESPOND} if row.name == "kimi_cli" else {Permission.RESPOND, Permission.PLAN, Permission.EDIT}
    for grant in (row.permissions[permission] for permission in limited):
        assert grant != everything
        assert not set(everything.flags) & set(grant.flags)


def test_a_reviewer_on_codex_may_write_its_response_and_temporary_files_only() -> None:
    grant = PROVIDERS["codex"].permissions[Permission.RESPOND].at(Path('/a "b"'), Path("/scratch"))
    settings = tomllib.loads("\n".join(word for word in grant.flags if word != "-c"))
    rules = {'/a "b"/.tmp/agent-responses': "write", "/scratch": "write"}
    assert settings == {
        "default_permissions": "logos",
        "permissions": {"logos": {"extends": ":read-only", "filesystem": rules}},
    }
    assert grant.env == {"TMPDIR": "/scratch"}


def test_an_analyst_may_write_artifacts_and_no_source_where_the_client_can_tell_them_apart() -> None:
    for name in ("codex", "claude_code", "opencode_cli"):
        plan, respond = (
            PROVIDERS[name].permissions[level].at(Path("/wd"), Path("/scratch"))
            for level in (Permission.PLAN, Permission.RESPOND)
        )
        for folder in (r"[/*]openspec\b", r"[/*]\.logos\b"):
            assert re.search(folder, " ".join((*plan.flags, *plan.env.values())))
            assert not re.search(folder, " ".join((*respond.flags, *respond.env.values())))
    settings = tomllib.loads("\n".join(w for w in PROVIDERS["codex"].permissions[Permission.PLAN].flags if w != "-c"))
    assert settings["permissions"]["logos"]["filesystem"]["{work_dir}/openspec"] == "write"


def test_opencode_answers_an_agent_that_leaves_its_folder_instead_of_ending_its_turn() -> None:
    for permission in (Permission.RESPOND, Permission.PLAN, Permission.EDIT, Permission.RUN):
        grant = PROVIDERS["opencode_cli"].permissions[permission].at(Path("/wd"), Path("/scratch"))
        rules = json.loads(grant.env["OPENCODE_PERMISSION"])
        assert rules["external_directory"] == {"*": "deny", "/wd/.tmp/agent-responses/*": "allow"}
        assert (rules.get("bash") == "deny") == (permission is not Permission.RUN)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("codex-cli 0.166.0", (0, 166, 0)),
        ("2.1.325 (Claude Code)", (2, 1, 325)),
        ("GitHub Copilot CLI 1.0.102.", (1, 0, 102)),
        ("kimi, version 1.51.0", (1, 51, 0)),
        ("version unknown", ()),
    ],
)
def test_a_version_is_found_in_what_a_program_says_about_itself(text: str, numbers: tuple[int, ...]) -> None:
    assert version_numbers(text) == numbers


def test_an_older_and_an_unknown_version_are_neither_newer_nor_refused() -> None:
    kimi = PROVIDERS["kimi_cli"]
    assert [kimi.is_older_than(version) for version in ("1.52.0", "1.51.0", "1.9", "unknown")] == [
        True,
        False,
        False,
        False,
    ]
    assert [kimi.refuses(version) for version in ("1.52.0", "2.0", "1.51.9", "unknown")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("row", PROVIDERS.values(), ids=PROVIDERS)
def test_every_row_names_the_version_that_was_tested(row) -> None:
    assert version_numbers(row.tested)


def test_any_other_program_is_a_command_with_places_for_prompt_and_session() -> None:
    row = command_provider("my-agent --file '{prompt_file}' --talk {session} --in {cwd}")
    assert row.program == "my-agent"
    assert row.arguments(Grant(), "s1", True) == ["--file", "{prompt_file}", "--talk", "s1", "--in", "{cwd}"]
