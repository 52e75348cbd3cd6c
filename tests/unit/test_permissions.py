"""A person's answer to a permission prompt becomes a key in the agent's terminal: the right one, once, and no other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from logos.adapters.responses import ManualSignal
from logos.domain.events import Event, Noted, Source, Topic
from logos.domain.turns import TerminalId, TurnId
from logos.engine.waiter import PendingResponse, ResponseWaiter
from logos.ports import AgentHost, FileProbe
from logos.waiting.rules import WaitRules, WaitState

TURN = TurnId("r1.programmer.c1")
PENDING = PendingResponse(TerminalId("a1"), "programmer", TURN)


@dataclass
class Prompts:
    """A terminal that shows one prompt after the other, and answers when it has got a key for each."""

    prompts: list[str]
    clock: float = 0.0
    keys: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    # What a person answers to the prompts that are told.
    answers: list[bool | None] = field(default_factory=list)
    given: list[bool] = field(default_factory=list)
    # What happens when a person is told of a prompt, besides.
    meanwhile: Callable[[], None] = lambda: None

    def get_status(self, _terminal: str) -> str:
        self.clock += 1.0
        return "waiting_user_answer" if self.prompts else "completed"

    def get_screen(self, _terminal: str) -> str:
        return self.prompts[0] if self.prompts else "done"

    def press_key(self, _terminal: str, key: str) -> None:
        self.keys.append(f"{key} at {self.prompts.pop(0)}")

    def tell(self, event: Event) -> None:
        assert isinstance(event, Noted)
        assert event.topic is Topic.PERMISSION_ASKED
        self.told.append(event.text.rpartition(": ")[2])
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            self.given.append(answer)
        self.meanwhile()

    def peek(self, _answer: str) -> FileProbe:
        return FileProbe() if self.prompts else FileProbe("there")

    def read(self, _answer: str) -> str:
        return "the response"

    def wait(self) -> tuple[str, Source]:
        waiter = ResponseWaiter(
            cast("AgentHost", self),
            cast("Any", self),
            ManualSignal(),
            WaitRules(poll_seconds=0.001),
            lambda: self.clock,
            self.tell,
            decided=lambda: self.given.pop(0) if self.given else None,
        )
        return waiter.wait(PENDING, WaitState.begin(0.0, 1000.0))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


@pytest.mark.parametrize(("answer", "key"), [(True, "Enter"), (False, "Escape")])
def test_yes_and_no_are_keys(answer: bool, key: str) -> None:
    terminal = Prompts(["run make?"], answers=[answer])
    assert terminal.wait() == ("the response", Source.FILE)
    assert terminal.keys == [f"{key} at run make?"]
    assert terminal.told == ["run make?"]


def test_every_prompt_gets_its_own_answer() -> None:
    terminal = Prompts(["run make?", "run rm -rf /?", "write x?"], answers=[True, False, True])
    terminal.wait()
    assert terminal.keys == ["Enter at run make?", "Escape at run rm -rf /?", "Enter at write x?"]
    assert terminal.told == ["run make?", "run rm -rf /?", "write x?"]


def test_an_answer_to_a_prompt_that_has_gone_is_not_given_to_the_next() -> None:
    """A person answers the first in the terminal; the answer to it that comes later must not allow the second."""
    terminal = Prompts(["run make?", "run rm -rf /?"], answers=[True, False])

    def answer_there() -> None:
        if len(terminal.prompts) == 2:
            terminal.prompts.pop(0)

    terminal.meanwhile = answer_there
    terminal.wait()
    assert terminal.told == ["run make?", "run rm -rf /?"]
    assert terminal.keys == ["Escape at run rm -rf /?"]


def test_a_clock_on_the_screen_is_no_other_prompt() -> None:
    terminal = Prompts(["run make? (3 s) ⠋"], answers=[True])
    terminal.meanwhile = lambda: terminal.prompts.__setitem__(0, "run make? (14 s) ⠙")
    terminal.wait()
    assert terminal.keys == ["Enter at run make? (14 s) ⠙"]


def test_without_an_answer_no_key_is_pressed() -> None:
    terminal, looks = Prompts(["run make?"]), threading.Event()
    steps = iter(range(50))

    def look(_terminal: str) -> str:
        if next(steps, None) is None:
            looks.set()
            terminal.prompts.clear()
        return Prompts.get_status(terminal, _terminal)

    terminal.get_status = look  # type: ignore[method-assign]
    terminal.wait()
    assert looks.is_set()
    assert terminal.keys == []
    assert terminal.told == ["run make?"]
