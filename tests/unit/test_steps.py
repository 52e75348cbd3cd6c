"""What an agent does now, read from what its client prints: rows as the real clients print them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.adapters.hosts.providers import PROVIDERS
from logos.adapters.hosts.steps import MAX_NEW, MAX_TEXT, OutputFollower, parsed, plain_steps, tail_of
from logos.domain.steps import Step, StepKind, last_action
from logos.waiting.screens import steps_on
from tests.builders import examples

CALL, SAYS, RESULT, RETRY, REFUSED = (
    StepKind.CALL,
    StepKind.MESSAGE,
    StepKind.RESULT,
    StepKind.RETRY,
    StepKind.REFUSED,
)


def rows(*objects: object) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in objects)


def claude(kind: str, *parts: object) -> object:
    return {"type": kind, "message": {"role": kind, "content": [*parts]}}


def ran(kind: str, output: str = "", status: str = "completed") -> object:
    command = '/bin/bash -lc "pytest -q"'
    item = {"type": "command_execution", "command": command, "aggregated_output": output, "status": status}
    return {"type": kind, "item": item}


USES = {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "pytest -q", "description": "tests"}}
OPENCODE_TOOL = {"tool": "bash", "state": {"status": "completed", "input": {"command": "pytest -q"}, "output": "1 ok"}}
KIMI_CALL = {"type": "function", "id": "1", "function": {"name": "Shell", "arguments": '{"command": "pytest -q"}'}}
GOOSE_CALL = {"type": "toolRequest", "toolCall": {"value": {"name": "shell", "arguments": {"command": "pytest -q"}}}}
GOOSE_RESULT = {"type": "toolResponse", "toolResult": {"value": {"content": [{"type": "text", "text": "1 ok"}]}}}


@pytest.mark.parametrize(
    ("provider", "output", "steps"),
    [
        (
            "codex",
            rows(
                {"type": "item.completed", "item": {"type": "error", "message": "Model metadata not found."}},
                {"type": "error", "message": "Reconnecting... 2/5 (unexpected status 429)"},
                ran("item.started"),
                ran("item.completed", "1 ok\n"),
                {"type": "item.completed", "item": {"type": "agent_message", "text": "done"}},
            ),
            [
                Step(RETRY, "Reconnecting... 2/5 (unexpected status 429)"),
                Step(CALL, "pytest -q"),
                Step(RESULT, "1 ok"),
                Step(SAYS, "done"),
            ],
        ),
        (
            "claude_code",
            rows(
                {
                    "type": "system",
                    "subtype": "api_retry",
                    "attempt": 1,
                    "max_retries": 5,
                    "retry_delay_ms": 3000,
                    "error_status": 429,
                    "error": "rate_limit",
                },
                claude("assistant", USES),
                claude("user", {"type": "tool_result", "content": "1 ok", "is_error": False}),
                claude("assistant", {"type": "text", "text": "done"}),
            ),
            [
                Step(RETRY, "rate_limit 429, attempt 1 of 5, waits 3 s"),
                Step(CALL, "Bash pytest -q"),
                Step(RESULT, "1 ok"),
                Step(SAYS, "done"),
            ],
        ),
        (
            "opencode_cli",
            rows({"type": "tool_use", "part": OPENCODE_TOOL}, {"type": "text", "part": {"text": "done"}}),
            [Step(CALL, "bash pytest -q"), Step(RESULT, "1 ok"), Step(SAYS, "done")],
        ),
        (
            "copilot_cli",
            rows(
                {"type": "assistant.turn_retry", "data": {"reason": "rate_limit"}},
                {"type": "tool.execution_start", "data": {"toolName": "bash", "arguments": {"command": "pytest -q"}}},
                {"type": "tool.execution_complete", "data": {"success": True, "result": {"content": "1 ok"}}},
                {"type": "assistant.message", "data": {"content": "done", "toolRequests": []}},
            ),
            [Step(RETRY, "rate_limit"), Step(CALL, "bash pytest -q"), Step(RESULT, "1 ok"), Step(SAYS, "done")],
        ),
        (
            "kimi_cli",
            rows(
                {"role": "assistant", "content": [], "tool_calls": [KIMI_CALL]},
                {"role": "tool", "content": [{"type": "text", "text": "1 ok"}]},
                {"role": "assistant", "content": "done"},
            ),
            [Step(CALL, "Shell pytest -q"), Step(RESULT, "1 ok"), Step(SAYS, "done")],
        ),
        (
            "goose",
            rows(
                {
                    "messages": [
                        {"role": "user", "content": [{"type": "text", "text": "an earlier prompt"}]},
                        {"role": "assistant", "content": [{"type": "text", "text": "an earlier answer"}]},
                        {"role": "user", "content": [{"type": "text", "text": "the prompt"}]},
                        {"role": "assistant", "content": [GOOSE_CALL]},
                        {"role": "user", "content": [GOOSE_RESULT]},
                        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
                    ]
                }
            ),
            [Step(CALL, "shell pytest -q"), Step(RESULT, "1 ok"), Step(SAYS, "done")],
        ),
    ],
)
def test_messages_calls_results_and_retries_are_read(provider: str, output: str, steps: list[Step]) -> None:
    assert PROVIDERS[provider].steps(parsed(output, "")) == steps


@pytest.mark.parametrize(
    ("provider", "errors", "step"),
    [
        (
            "gemini",
            "Attempt 1 failed with status 429. Retrying with backoff... _ApiError: {}\n    at retry (x.js)\n",
            RETRY,
        ),
        ("opencode_cli", 'level=ERROR message="stream error" error.error="AI_APICallError: usage limit"\n', RETRY),
        ("opencode_cli", "! permission requested: external_directory (/etc/*); auto-rejecting\n", REFUSED),
    ],
)
def test_the_error_stream_tells_of_retries_and_refusals(provider: str, errors: str, step: StepKind) -> None:
    assert [found.kind for found in PROVIDERS[provider].steps(parsed("", errors))] == [step]


def test_a_long_text_is_cut_and_control_sequences_are_removed() -> None:
    (step,) = PROVIDERS["opencode_cli"].steps(
        parsed(rows({"type": "text", "part": {"text": "\x1b[2J" + "x" * 9000}}), "")
    )
    assert step.text == "x" * MAX_TEXT


def test_a_follower_reads_only_whole_lines_that_are_new(tmp_path: Path) -> None:
    follower = OutputFollower(tmp_path, PROVIDERS["opencode_cli"].steps)
    assert follower.new() == ()
    one, two = (rows({"type": "text", "part": {"text": text}}) for text in ("one", "two"))
    (tmp_path / "out").write_text(one + two[:10])
    assert follower.new() == (Step(SAYS, "one"),)
    assert follower.new() == ()
    with (tmp_path / "out").open("a") as out:
        out.write(two[10:])
    assert follower.new() == (Step(SAYS, "two"),)
    with (tmp_path / "out").open("a") as out:
        out.write(one)
    assert follower.new() == (Step(SAYS, "one"),)
    assert follower.new() == ()


def test_a_flood_between_two_looks_costs_a_bounded_read_and_its_end_is_seen(tmp_path: Path) -> None:
    follower = OutputFollower(tmp_path, PROVIDERS["opencode_cli"].steps)
    last = rows({"type": "text", "part": {"text": "last"}})
    (tmp_path / "out").write_text(rows({"type": "text", "part": {"text": "x" * 3 * MAX_NEW}}) + last)
    assert follower.new() == (Step(SAYS, "last"),)
    assert tail_of(tmp_path, PROVIDERS["opencode_cli"].steps) == [Step(SAYS, "last")]


def test_a_link_in_the_place_of_an_output_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "out").symlink_to(tmp_path / "secret")
    assert OutputFollower(tmp_path, plain_steps).new() == ()


@examples()
@given(
    st.text()
    | st.lists(
        st.dictionaries(st.sampled_from(["type", "item", "part", "data", "message"]), st.text()), max_size=3
    ).map(lambda own: rows(*own))
)
def test_any_output_can_be_followed(output: str) -> None:
    for row in PROVIDERS.values():
        assert all(isinstance(step, Step) for step in row.steps(parsed(output, output)))


SCREEN = """\
● Bash(pytest -q)
  ⎿  1 passed
● I look at the module now.

✻ Thinking… (12s · esc to interrupt)
╭──────────────────────────────╮
│ ❯                            │
╰──────────────────────────────╯
  ? for shortcuts
"""


def test_the_last_meaningful_line_of_a_screen_is_what_its_agent_does() -> None:
    assert last_action(steps_on(SCREEN)) == "I look at the module now."
    assert steps_on("") == ()


def test_a_client_that_tries_again_is_seen_on_its_screen() -> None:
    assert Step(RETRY, "Reconnecting... 2/5") in steps_on(f"{SCREEN}■ Reconnecting... 2/5\n")
    claude = "  ⎿ API Error (Request timed out.) · Retrying in 5 seconds… (attempt 1/10)\n"
    assert [step.kind for step in steps_on(claude)] == [RETRY, SAYS]


def test_an_agent_that_writes_about_retries_does_not_try_again() -> None:
    screen = "● I add a retry to the client, which fails while reconnecting.\n"
    assert [step.kind for step in steps_on(screen)] == [SAYS]
