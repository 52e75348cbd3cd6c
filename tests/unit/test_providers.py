"""What agent CLIs print, as they print it, and what is read from it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.adapters.hosts.providers import PROVIDERS, Permission, Reading, command_provider
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


@pytest.mark.parametrize(
    ("provider", "output", "reading"),
    [
        ("codex", CODEX, Reading("0199", Usage(120, 100, 7), "done")),
        ("codex", CODEX_FAILED, Reading("0199", error="You've hit your usage limit. Try again at 10:33 PM.")),
        ("claude_code", CLAUDE, Reading("abc", Usage(100, 70, 5, 0.25), "done")),
        ("claude_code", CLAUDE_LIMIT, Reading("abc", error="You've hit your limit (resets at 1794788388)")),
        ("opencode_cli", OPENCODE, Reading("ses_1", Usage(48, 40, 3, None), "done")),
        ("gemini", GEMINI, Reading("g1", Usage(50, 10, 6), "done")),
        ("copilot_cli", lines({"type": "x"}, {"sessionId": "c1"}), Reading("c1")),
        ("kimi_cli", "some text\nTo resume: kimi -r k-1\n", Reading("k-1")),
    ],
)
def test_session_usage_last_word_and_error_are_found(provider: str, output: str, reading: Reading) -> None:
    assert PROVIDERS[provider].reading(output, "") == reading


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_program_that_prints_no_json_is_taken_at_its_word(provider: str) -> None:
    assert PROVIDERS[provider].reading("\x1b[1mHello\x1b[0m\n", "") == Reading(final="Hello")


FIELDS = ("type", "usage", "result", "item", "part", "tokens", "stats", "models", "error", "session_id", "errors")
documents = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(FIELDS), inner),
)


@examples()
@given(st.text() | documents.map(json.dumps))
def test_any_output_can_be_read_by_every_provider(output: str) -> None:
    for row in PROVIDERS.values():
        assert isinstance(row.reading(output, output), Reading)


@pytest.mark.parametrize("row", PROVIDERS.values(), ids=PROVIDERS)
def test_the_next_turn_goes_on_in_the_same_conversation(row) -> None:
    again = row.arguments(Permission.EDIT, "the-session", True)
    assert any("the-session" in word for word in again)
    assert "{session}" not in " ".join(again)
    assert "{permissions}" not in " ".join(again)


@pytest.mark.parametrize("row", PROVIDERS.values(), ids=PROVIDERS)
def test_nothing_but_the_persons_word_lets_an_agent_do_anything(row) -> None:
    bypass = set(row.permissions.get(Permission.ALL, ())) - {"-y"}
    for leave in (Permission.RESPOND, Permission.EDIT):
        assert not bypass & set(row.arguments(leave, "s", False))
        assert "-y" not in row.arguments(leave, "s", False)


def test_any_other_program_is_a_command_with_places_for_prompt_and_session() -> None:
    row = command_provider("my-agent --file '{prompt_file}' --talk {session} --in {cwd}")
    assert row.program == "my-agent"
    assert row.arguments(Permission.RUN, "s1", True) == ["--file", "{prompt_file}", "--talk", "s1", "--in", "{cwd}"]
