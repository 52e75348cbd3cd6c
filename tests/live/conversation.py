"""What agent CLIs ask a model and what it can answer, in no vendor's words."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ROLES = {
    "analyst_summary.md": "analyst",
    "analyst_review.md": "peer_analyst",
    "programmer_summary.md": "programmer",
    "programmer_review.md": "peer_programmer",
    "test_result.md": "tester",
}
# Levels answer in a file that is called after their turn.
# On a line of its own, or in the command that writes it.
RESPONSE_PATH = re.compile(
    rf"(?:^|(?<=^cat >))/.*/({'|'.join(map(re.escape, ROLES))}|s\d+\.L\d\.\S+\.md)(?= <<|$)", re.MULTILINE
)
INSTRUCTION = "RESPONSE FILE INSTRUCTION"
TURN = re.compile(r"^Turn: (\S+)", re.MULTILINE)
SHELL_TOOLS = ("exec_command", "shell_command", "shell", "local_shell", "Bash", "bash", "run_shell_command", "Shell")
FILE_TOOLS = ("Write", "write_file", "create", "WriteFile", "write")
FINISHED = "The response file is written."

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """Have the CLI run this command in its own shell tool, or in `tool` if it offers none."""

    command: str
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """An HTTP error; `error` is laid over the API's usual error object for that status."""

    status: int
    error: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Save:
    """Have the CLI write this file with its own file tool."""

    path: str
    text: str


Answer = Verdict | Run | Save
Reply = Answer | Fault


def usage_limit(resets_at: int) -> Fault:
    """What a subscription that is used up answers; each vendor names the time in its own way."""
    left = str(max(0, resets_at - int(time.time())))
    return Fault(
        429,
        {"resets_at": resets_at, "resets_in_seconds": int(left), "plan_type": "plus"},
        {
            "retry-after": left,
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": str(resets_at),
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
        },
    )


@dataclass(frozen=True, slots=True)
class Usage:
    input: int = 0  # cached ones included
    cached: int = 0
    output: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input + other.input, self.cached + other.cached, self.output + other.output)


@dataclass(frozen=True, slots=True)
class Message:
    role: str  # system, user, assistant or tool
    text: str
    failed: bool = False  # of a tool


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    schema: Mapping[str, Any]

    def arguments(self, command: str) -> Json:
        """Arguments that satisfy the tool's own schema and run the command."""
        values: Json = {}
        required = self.schema.get("required", ())
        for name, rule in self.schema.get("properties", {}).items():
            if name in ("command", "cmd"):
                values[name] = ["bash", "-c", command] if rule.get("type") == "array" else command
            elif name in required:
                values[name] = {"string": "write the response", "boolean": False}.get(rule.get("type"), 60_000)
        return values

    def saving(self, path: str, text: str) -> Json:
        """Arguments that have a file tool write this."""
        names = self.schema.get("properties", {})
        places = {name: path for name in names if name in ("file_path", "filePath", "path")}
        return {**places, **{name: text for name in names if name in ("content", "file_text")}}


@dataclass(frozen=True, slots=True)
class Conversation:
    """One request of a client: everything the model gets to see."""

    path: str
    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    time: float = field(default_factory=time.time)

    @property
    def shell(self) -> Tool | None:
        return self._offered(SHELL_TOOLS)

    @property
    def file_tool(self) -> Tool | None:
        return self._offered(FILE_TOOLS)

    def _offered(self, names: tuple[str, ...]) -> Tool | None:
        offered = {tool.name: tool for tool in self.tools}
        return next((offered[name] for name in names if name in offered), None)

    @property
    def prompts(self) -> tuple[Message, ...]:
        """The user's messages that name a response file; clients add user messages of their own."""
        return tuple(m for m in self.messages if m.role == "user" and RESPONSE_PATH.search(m.text))

    @property
    def earlier(self) -> str:
        """Everything said before the latest prompt: not empty when the conversation was continued."""
        if not (prompts := self.prompts):
            return ""
        before = self.messages[: _last_index(self.messages, prompts[-1])]
        return "\n".join(m.text for m in before if m in prompts or m.role in ("assistant", "tool"))

    @property
    def ran(self) -> list[Message]:
        """What tools have answered since the latest prompt."""
        start = _last_index(self.messages, self.prompts[-1]) if self.prompts else 0
        return [m for m in self.messages[start:] if m.role == "tool"]

    @property
    def tool_answered(self) -> bool:
        return bool(self.ran)

    @property
    def saves_instead(self) -> bool:
        """Whether only the file tool is left for what the latest prompt asks for: the shell refused, or there is none."""
        if self.file_tool is None:
            return False
        return not self.ran if self.shell is None else len(self.ran) == 1 and self.ran[0].failed

    def usage(self, reply: Answer) -> Usage:
        """Four characters are a token; all but the last message is cached once the model has spoken."""
        sizes = [len(m.text) // 4 + 1 for m in self.messages]
        spoken = any(m.role == "assistant" for m in self.messages)
        said = reply.command if isinstance(reply, Run) else reply.text
        return Usage(sum(sizes), sum(sizes[:-1]) if spoken else 0, len(said) // 4 + 1)


def _last_index(messages: tuple[Message, ...], message: Message) -> int:
    return len(messages) - 1 - messages[::-1].index(message)
