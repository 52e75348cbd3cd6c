"""The local host reads what its agents' processes left on disk: each ended turn once, a running one as it grows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from logos.adapters.hosts.local import LocalHost
from logos.adapters.hosts.providers import PROVIDERS, Permission, command_provider
from logos.domain.usage import Usage

ONE_TURN = Usage(10, 4, 2, 0.5)


class Terminal:
    """A terminal whose turns are written by hand instead of by a process."""

    def __init__(self, root: Path, provider: str) -> None:
        programs = root / "bin"
        programs.mkdir()
        program = programs / PROVIDERS[provider].program
        program.touch(0o755)
        self.root, self._path = root / "host", str(programs)
        self.host = self.new_host()
        self.id = self.host.create_terminal("local", "tester", provider=provider, idempotency_key="key")["id"]

    def new_host(self) -> LocalHost:
        """The host of a driver that has just started."""
        return LocalHost(
            self.root,
            self.root,
            {"PATH": self._path},
            permission_of=lambda _profile: Permission.RESPOND,
            profile_text=lambda _profile: "",
            is_supervised=lambda _turn: True,
        )

    def turn(self, number: int) -> Path:
        """A running turn."""
        folder = self.root / self.id / f"turn-{number}"
        folder.mkdir()
        (folder / "pid").touch()
        (folder / "err").touch()
        return folder

    def ended(self, number: int, *rows: object, code: int = 0) -> Path:
        folder = self.turn(number)
        (folder / "out").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        (folder / "exit").write_text(str(code))
        return folder


@pytest.fixture
def terminal_of(tmp_path: Path) -> Callable[[str], Terminal]:
    return lambda provider: Terminal(tmp_path, provider)


def step(tokens: int = 10) -> dict[str, object]:
    """What opencode prints when it has finished a step."""
    used = {"input": tokens - 4, "output": 2, "reasoning": 0, "cache": {"read": 4, "write": 0}}
    return {"type": "step_finish", "part": {"tokens": used, "cost": 0.5}}


def append(file: Path, text: str) -> None:
    with file.open("a") as target:
        target.write(text)


def test_a_terminal_without_turns_says_nothing(terminal_of: Callable[[str], Terminal]) -> None:
    terminal = terminal_of("opencode_cli")
    assert terminal.host.usage(terminal.id) is None
    assert terminal.host.provider_error(terminal.id) == ""


def test_an_ended_turn_is_read_once(terminal_of: Callable[[str], Terminal]) -> None:
    terminal = terminal_of("opencode_cli")
    first = terminal.ended(1, step())
    assert terminal.host.usage(terminal.id) == ONE_TURN
    (first / "out").unlink()
    terminal.ended(2, step())
    assert terminal.host.usage(terminal.id) == ONE_TURN.plus(ONE_TURN)


def test_a_new_driver_reads_every_turn_again(terminal_of: Callable[[str], Terminal]) -> None:
    terminal = terminal_of("opencode_cli")
    terminal.ended(1, step())
    terminal.ended(2, step())
    assert terminal.host.usage(terminal.id) == terminal.new_host().usage(terminal.id) == ONE_TURN.plus(ONE_TURN)


def test_a_running_turn_is_read_as_far_as_it_is_written(terminal_of: Callable[[str], Terminal]) -> None:
    terminal = terminal_of("opencode_cli")
    terminal.ended(1, step())
    running = terminal.turn(2)
    assert terminal.host.usage(terminal.id) is None
    line = json.dumps(step())
    append(running / "out", line + "\n" + line[:20])
    assert terminal.host.usage(terminal.id) == ONE_TURN.plus(ONE_TURN)
    append(running / "out", line[20:] + "\n")
    (running / "exit").write_text("0")
    assert terminal.host.usage(terminal.id) == ONE_TURN.plus(ONE_TURN).plus(ONE_TURN)


def test_half_a_line_of_a_killed_turn_is_left_out(terminal_of: Callable[[str], Terminal]) -> None:
    terminal = terminal_of("opencode_cli")
    killed = terminal.ended(1, step(), code=137)
    append(killed / "out", json.dumps(step())[:30])
    assert terminal.host.usage(terminal.id) == ONE_TURN
    assert terminal.host.provider_error(terminal.id).startswith("its process ended with 137")


def test_usage_that_is_the_whole_conversations_is_not_added_up(terminal_of: Callable[[str], Terminal]) -> None:
    terminal = terminal_of("codex")
    for number, tokens in enumerate((5, 8), 1):
        used = {"input_tokens": tokens, "cached_input_tokens": 2, "output_tokens": 1}
        terminal.ended(number, {"type": "turn.completed", "usage": used})
    assert terminal.host.usage(terminal.id) == Usage(8, 2, 1)
    terminal.turn(3)
    assert terminal.host.usage(terminal.id) is None


def test_a_terminal_that_takes_the_place_of_an_ended_one_has_a_history_of_its_own(
    terminal_of: Callable[[str], Terminal],
) -> None:
    terminal = terminal_of("opencode_cli")
    terminal.ended(1, step())
    terminal.host.usage(terminal.id)
    terminal.host.exit_terminal(terminal.id)
    again = terminal.host.create_terminal("local", "tester", provider="opencode_cli", idempotency_key="key")["id"]
    assert again == terminal.id
    terminal.ended(1, step(20))
    assert terminal.host.usage(again) == Usage(20, 4, 2, 0.5)


def test_a_limit_that_a_running_agent_waits_out_is_found_when_its_line_is_complete(
    terminal_of: Callable[[str], Terminal],
) -> None:
    terminal = terminal_of("opencode_cli")
    errors = terminal.turn(1) / "err"
    assert terminal.host.provider_error(terminal.id) == ""
    append(errors, "ERROR something else\nERROR AI_APICallError: the weekly lim")
    assert terminal.host.provider_error(terminal.id) == ""
    append(errors, "it is reached\n")
    assert terminal.host.provider_error(terminal.id) == "the weekly limit is reached"
    assert terminal.host.provider_error(terminal.id) == "the weekly limit is reached"
    assert terminal.new_host().provider_error(terminal.id) == "the weekly limit is reached"


def test_the_errors_of_a_turn_are_not_those_of_the_next(terminal_of: Callable[[str], Terminal]) -> None:
    terminal = terminal_of("opencode_cli")
    first = terminal.turn(1)
    append(first / "err", "AI_APICallError: a limit\n")
    assert terminal.host.provider_error(terminal.id) == "a limit"
    (first / "exit").write_text("0")
    append(terminal.turn(2) / "err", "AI_APICallError: another limit\n")
    assert terminal.host.provider_error(terminal.id) == "another limit"


@pytest.mark.parametrize(("command", "remembers"), [("agent {prompt_file}", False), ("agent --name {session}", True)])
def test_a_command_that_is_not_told_its_conversation_begins_a_new_one_every_turn(
    tmp_path: Path, command: str, remembers: bool
) -> None:
    host = LocalHost(
        tmp_path,
        tmp_path,
        {},
        permission_of=lambda _profile: Permission.RESPOND,
        profile_text=lambda _profile: "",
        agent_command=command,
    )
    assert host.remembers("command") is remembers
    assert command_provider(command).names_sessions is remembers
    assert host.remembers("codex")
