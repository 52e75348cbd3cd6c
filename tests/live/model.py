"""A scripted model behind the three APIs that agent CLIs speak, on loopback and without a key.

`FakeModel` asks a `reply` function what to do with each conversation. The default, `Script`, does what a
well-behaved agent does with our prompts: it has the CLI's shell tool write the response file, or its file tool where
the shell refuses, then says so.
"""

from __future__ import annotations

import json
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.support.waiting import LAST_RESORT

ROLES = {
    "analyst_summary.md": "analyst",
    "analyst_review.md": "peer_analyst",
    "programmer_summary.md": "programmer",
    "programmer_review.md": "peer_programmer",
    "test_result.md": "tester",
}
# Levels answer in a file that is called after their turn.
RESPONSE_PATH = re.compile(rf"^/.*/({'|'.join(map(re.escape, ROLES))}|s\d+\.L\d\.\S+\.md)$", re.MULTILINE)
INSTRUCTION = "RESPONSE FILE INSTRUCTION"
TURN = re.compile(r"^Turn: (\S+)", re.MULTILINE)
SHELL_TOOLS = ("exec_command", "shell_command", "shell", "local_shell", "Bash", "bash", "run_shell_command", "Shell")
FILE_TOOL = "Write"
FINISHED = "The response file is written."

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """Have the CLI run this command in its own shell tool."""

    command: str


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
        offered = {tool.name: tool for tool in self.tools}
        return next((offered[name] for name in SHELL_TOOLS if name in offered), None)

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
    def tool_answered(self) -> bool:
        """Whether a tool has run since the latest prompt."""
        start = _last_index(self.messages, self.prompts[-1]) if self.prompts else 0
        return any(m.role == "tool" for m in self.messages[start:])

    @property
    def saves_instead(self) -> bool:
        """Whether the shell refused what the latest prompt asked for, and there is a file tool to do it with."""
        start = _last_index(self.messages, self.prompts[-1]) if self.prompts else 0
        ran = [m for m in self.messages[start:] if m.role == "tool"]
        return len(ran) == 1 and ran[0].failed and FILE_TOOL in (tool.name for tool in self.tools)

    def usage(self, reply: Answer) -> Usage:
        """Four characters are a token; all but the last message is cached once the model has spoken."""
        sizes = [len(m.text) // 4 + 1 for m in self.messages]
        spoken = any(m.role == "assistant" for m in self.messages)
        said = reply.command if isinstance(reply, Run) else reply.text
        return Usage(sum(sizes), sum(sizes[:-1]) if spoken else 0, len(said) // 4 + 1)


class Script:
    """Role → what it writes at its 1st, 2nd … turn; the last one repeats. A level's role is L3.decompose, L2.cart.author.

    `delay` passes before the file is written, `linger` between the file and the final message. `faults` are
    answered first, one request each. `work` is a role's commands before it writes its file, `holds` what it waits
    for before any of it.
    """

    def __init__(
        self,
        roles: Mapping[str, Sequence[str]] | None = None,
        *,
        delay: float = 0,
        linger: float = 0,
        faults: Iterable[Fault] = (),
        work: Mapping[str, str] | None = None,
        holds: Mapping[str, threading.Event] | None = None,
    ) -> None:
        self.roles = roles or {}
        self.delay = delay
        self.linger = linger
        self.faults = iter(faults)
        self.work = work or {}
        self.holds = holds or {}
        self.closing = threading.Event()
        self._turns: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def __call__(self, conversation: Conversation) -> Reply:
        if conversation.shell is None:
            return Verdict("A title")  # clients ask for one in a request without tools
        with self._lock:
            if fault := next(self.faults, None):
                return fault
        if not conversation.prompts:
            return Verdict("There is nothing to do.")
        prompt = conversation.prompts[-1].text
        if conversation.saves_instead:
            path, _, response = self._response_to(prompt)
            return Save(path, response)
        if conversation.tool_answered:
            self.closing.wait(self.linger)
            return Verdict(FINISHED)
        command = self._write_response(prompt)
        self.closing.wait(self.delay)
        return Run(command)

    def _write_response(self, prompt: str) -> str:
        path, role, response = self._response_to(prompt)
        if role in self.holds:
            assert self.holds[role].wait(LAST_RESORT), f"nobody let {role} go on"
        work = f"{self.work[role]}\n" if role in self.work else ""
        return f"{work}cat >{shlex.quote(path)} <<'MODEL_END'\n{response.rstrip()}\nMODEL_END"

    def _response_to(self, prompt: str) -> tuple[str, str, str]:
        """The file that a prompt asks for, in which role, and what goes into it."""
        path = RESPONSE_PATH.search(prompt, max(0, prompt.rfind(INSTRUCTION)))
        assert path is not None
        role = ROLES.get(path[1]) or path[1].removesuffix(".md").partition(".")[2]
        return path[0], role, self._response(role, prompt)

    def _response(self, role: str, prompt: str) -> str:
        # A turn that is sent again, by the client or by us, is the same turn.
        named = TURN.search(prompt)
        turn = named[1] if named else prompt
        with self._lock:
            turns = self._turns.setdefault(role, [])
            if turn not in turns:
                turns.append(turn)
            texts = self.roles.get(role) or [f"{role} is done"]
            return texts[min(turns.index(turn), len(texts) - 1)]


class FakeModel:
    """Use as a context manager.

    `requests` holds what clients sent, `bills` what each answered one cost, `outside` the hosts they tried to reach.
    """

    def __init__(self, reply: Callable[[Conversation], Reply] | None = None) -> None:
        self.reply = reply or Script()
        self.requests: list[Conversation] = []
        self.bills: list[tuple[Conversation, Usage]] = []
        self.dependencies: list[str] = []
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self.reply, Script):
            self.reply.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def billed(self) -> list[Usage]:
        return [usage for _, usage in self.bills]

    @property
    def work(self) -> list[Conversation]:
        """The requests that carry a prompt of ours."""
        return [request for request in self.requests if request.prompts and request.shell]

    def answer(self, conversation: Conversation) -> Reply:
        with self._changed:
            self.requests.append(conversation)
            self._changed.notify_all()
        reply = self.reply(conversation)
        if not isinstance(reply, Fault) and conversation.shell:
            self.bills.append((conversation, conversation.usage(reply)))
        return reply

    def wait_for_work(self, requests: int = 1) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.work) >= requests, LAST_RESORT), "the client sent nothing"


def _handler(fake: FakeModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            """A client with this server as its proxy wants to leave the machine."""
            fake.dependencies.append(self.path)
            self.send_error(403)

        def do_HEAD(self) -> None:
            self._send(200, b"")

        def do_GET(self) -> None:
            self._send_json(404, {"error": {"message": "no such page"}})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            path = urlsplit(self.path).path
            if path.endswith("/count_tokens"):
                self._send_json(200, {"input_tokens": len(json.dumps(body)) // 4})
                return
            api = APIS.get(path.removeprefix("/v1"))
            if api is None:
                self._send_json(404, {"error": {"message": f"no such page: {path}"}})
                return
            conversation = Conversation(path, body["model"], tuple(api.messages(body)), tuple(api.tools(body)))
            reply = fake.answer(conversation)
            if isinstance(reply, Fault):
                self._send_json(reply.status, api.error(reply), reply.headers)
            else:
                events = "".join(f"{line}\n\n" for line in api.stream(conversation, reply))
                self._send(200, events.encode(), {"content-type": "text/event-stream"})

        def _send_json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
            self._send(status, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})})

        def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
            try:
                self.send_response(status)
                for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # the client was killed

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@dataclass(frozen=True, slots=True)
class Api:
    """How one vendor spells a conversation, an answer and an error."""

    messages: Callable[[Json], Iterator[Message]]
    tools: Callable[[Json], Iterator[Tool]]
    stream: Callable[[Conversation, Answer], Iterator[str]]
    error: Callable[[Fault], Json]


_ids = count(1)


def _last_index(messages: tuple[Message, ...], message: Message) -> int:
    return len(messages) - 1 - messages[::-1].index(message)


def _text(content: object) -> str:
    """The text in a content field: a string, or blocks that may hold blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return _text(content.get("text") or content.get("content") or "")
    return "\n".join(map(_text, content)) if isinstance(content, Sequence) else ""


def _call(conversation: Conversation, reply: Run | Save) -> tuple[str, str, Json]:
    if isinstance(reply, Save):
        return f"call_{next(_ids)}", FILE_TOOL, {"file_path": reply.path, "content": reply.text}
    tool = conversation.shell
    assert tool is not None, "the client offers no shell tool"
    return f"call_{next(_ids)}", tool.name, tool.arguments(reply.command)


def _event(data: Json) -> str:
    return f"event: {data['type']}\ndata: {json.dumps(data)}"


# Anthropic Messages


def _anthropic_messages(body: Json) -> Iterator[Message]:
    yield Message("system", _text(body.get("system", "")))
    for entry in body["messages"]:
        content = entry["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            match block["type"]:
                case "text":
                    yield Message(entry["role"], block["text"])
                case "tool_use":
                    yield Message("assistant", json.dumps(block["input"]))
                case "tool_result":
                    yield Message("tool", _text(block.get("content", "")), bool(block.get("is_error")))


def _anthropic_tools(body: Json) -> Iterator[Tool]:
    for tool in body.get("tools", ()):
        yield Tool(tool["name"], tool.get("input_schema", {}))


def _anthropic_stream(conversation: Conversation, reply: Answer) -> Iterator[str]:
    usage = conversation.usage(reply)
    counted = {
        "input_tokens": usage.input - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": 1,
    }
    if isinstance(reply, Verdict):
        block: Json = {"type": "text", "text": ""}
        delta: Json = {"type": "text_delta", "text": reply.text}
    else:
        call, name, arguments = _call(conversation, reply)
        block = {"type": "tool_use", "id": call, "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    message: Json = {"id": f"msg_{next(_ids)}", "type": "message", "role": "assistant", "model": conversation.model}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": counted}
    stop = {"stop_reason": "end_turn" if isinstance(reply, Verdict) else "tool_use", "stop_sequence": None}
    yield _event({"type": "message_start", "message": message})
    yield _event({"type": "content_block_start", "index": 0, "content_block": block})
    yield _event({"type": "content_block_delta", "index": 0, "delta": delta})
    yield _event({"type": "content_block_stop", "index": 0})
    yield _event({"type": "message_delta", "delta": stop, "usage": {**counted, "output_tokens": usage.output}})
    yield _event({"type": "message_stop"})


def _anthropic_error(fault: Fault) -> Json:
    kinds = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
    messages = {
        401: "invalid x-api-key",
        429: "This request would exceed your account's rate limit. Please try again later.",
        529: "Overloaded",
    }
    error = {
        "type": kinds.get(fault.status, "api_error"),
        "message": messages.get(fault.status, "Internal server error"),
    }
    return {"type": "error", "error": {**error, **fault.error}}


# OpenAI Responses


def _responses_messages(body: Json) -> Iterator[Message]:
    yield Message("system", body.get("instructions") or "")
    for item in body["input"]:
        match item["type"]:
            case "message":
                role = "system" if item["role"] == "developer" else item["role"]
                yield Message(role, _text(item["content"]))
            case "function_call":
                yield Message("assistant", item["arguments"])
            case "function_call_output":
                yield Message("tool", _text(item["output"]))


def _responses_tools(body: Json) -> Iterator[Tool]:
    for tool in body.get("tools", ()):
        if tool["type"] == "function":
            yield Tool(tool["name"], tool["parameters"])


def _responses_stream(conversation: Conversation, reply: Answer) -> Iterator[str]:
    usage, answer = conversation.usage(reply), {"id": f"resp_{next(_ids)}"}
    if isinstance(reply, Verdict):
        item: Json = {"type": "message", "id": f"msg_{next(_ids)}", "role": "assistant"}
        item["content"] = [{"type": "output_text", "text": reply.text}]
    else:
        call, name, arguments = _call(conversation, reply)
        item = {"type": "function_call", "call_id": call, "name": name, "arguments": json.dumps(arguments)}
    counted = {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input + usage.output,
    }
    yield _event({"type": "response.created", "response": answer})
    yield _event({"type": "response.output_item.done", "output_index": 0, "item": item})
    yield _event({"type": "response.completed", "response": {**answer, "usage": counted}})


# OpenAI Chat Completions


def _chat_messages(body: Json) -> Iterator[Message]:
    for entry in body["messages"]:
        calls = "\n".join(call["function"]["arguments"] for call in entry.get("tool_calls") or ())
        yield Message(entry["role"], "\n".join(filter(None, (_text(entry.get("content") or ""), calls))))


def _chat_tools(body: Json) -> Iterator[Tool]:
    for tool in body.get("tools", ()):
        yield Tool(tool["function"]["name"], tool["function"].get("parameters", {}))


def _chat_stream(conversation: Conversation, reply: Answer) -> Iterator[str]:
    usage = conversation.usage(reply)
    if isinstance(reply, Verdict):
        delta: Json = {"role": "assistant", "content": reply.text}
    else:
        call, name, arguments = _call(conversation, reply)
        function = {"name": name, "arguments": json.dumps(arguments)}
        delta = {
            "role": "assistant",
            "tool_calls": [{"index": 0, "id": call, "type": "function", "function": function}],
        }
    chunk: Json = {"id": f"chat_{next(_ids)}", "object": "chat.completion.chunk", "model": conversation.model}
    counted = {
        "prompt_tokens": usage.input,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
    }
    stop = "stop" if isinstance(reply, Verdict) else "tool_calls"
    yield f"data: {json.dumps({**chunk, 'choices': [{'index': 0, 'delta': delta, 'finish_reason': None}]})}"
    yield f"data: {json.dumps({**chunk, 'choices': [{'index': 0, 'delta': {}, 'finish_reason': stop}]})}"
    yield f"data: {json.dumps({**chunk, 'choices': [], 'usage': counted})}"
    yield "data: [DONE]"


def _openai_error(fault: Fault) -> Json:
    kinds = {401: "invalid_request_error", 429: "usage_limit_reached"}
    messages = {401: "Incorrect API key provided.", 429: "The usage limit has been reached"}
    error = {
        "type": kinds.get(fault.status, "server_error"),
        "message": messages.get(fault.status, "The server had an error while processing your request."),
    }
    return {"error": {**error, **fault.error}}


APIS = {
    "/messages": Api(_anthropic_messages, _anthropic_tools, _anthropic_stream, _anthropic_error),
    "/responses": Api(_responses_messages, _responses_tools, _responses_stream, _openai_error),
    "/chat/completions": Api(_chat_messages, _chat_tools, _chat_stream, _openai_error),
}
