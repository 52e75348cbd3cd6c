"""The contract of every AgentHost, kept by ApiClient against a real cao-server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from logos.adapters.hosts.cao import ApiClient
from tests.contract.test_agent_host import (
    SAID,
    Worktree,
    test_a_conversation_goes_on_in_the_same_terminal,
    test_a_message_that_asks_for_no_response_gets_none,
    test_a_new_session_has_a_terminal_and_a_name,
    test_a_prompt_is_worked_on_and_leaves_its_response,
    test_a_terminal_nobody_opened_is_gone,
    test_a_terminal_that_is_ended_is_gone_and_the_others_stay,
    test_a_terminal_that_works_can_be_ended,
    test_ending_a_terminal_twice_is_no_error,
    test_more_terminals_join_the_session,
    test_the_same_key_gives_the_same_terminal,
)
from tests.live.cao import CaoServer
from tests.support.waiting import LAST_RESORT

__all__ = [
    "test_a_conversation_goes_on_in_the_same_terminal",
    "test_a_message_that_asks_for_no_response_gets_none",
    "test_a_new_session_has_a_terminal_and_a_name",
    "test_a_prompt_is_worked_on_and_leaves_its_response",
    "test_a_terminal_nobody_opened_is_gone",
    "test_a_terminal_that_is_ended_is_gone_and_the_others_stay",
    "test_a_terminal_that_works_can_be_ended",
    "test_ending_a_terminal_twice_is_no_error",
    "test_more_terminals_join_the_session",
    "test_the_same_key_gives_the_same_terminal",
]

pytestmark = pytest.mark.long


@pytest.fixture
def place(cao: CaoServer, tmp_path: Path) -> Iterator[Worktree]:
    responses = tmp_path / "responses"
    responses.mkdir()
    cao.script(analyst=[{"say": text, "hold": "analyst"} for text in SAID])
    with closing(ApiClient(cao.url, str(tmp_path), patience=LAST_RESORT)) as client:
        yield Worktree(client, responses, lambda: cao.release("analyst"), provider="mock_cli", repeats_itself=False)
