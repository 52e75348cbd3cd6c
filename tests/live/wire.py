"""How each vendor's API spells a conversation, an answer and an error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from tests.live.conversation import Answer, Conversation, Fault, Json, Message, Run, Save, Tool, Verdict


@dataclass(frozen=True, slots=True)
class Api:
    """How one vendor spells a conversation, an answer and an error."""

    messages: Callable[[Json], Iterator[Message]]
    tools: Callable[[Json], Iterator[Tool]]
    stream: Callable[[Conversation, Answer], Iterator[str]]
    error: Callable[[Fault], Json]


_ids = count(1)


def _text(content: object) -> str:
    """The text in a content field: a string, or blocks that may hold blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return _text(content.get("text") or content.get("content") or "")
    return "\n".join(map(_text, content)) if isinstance(content, Sequence) else ""


def _call(conversation: Conversation, reply: Run | Save) -> tuple[str, str, Json]:
    if isinstance(reply, Save):
        assert conversation.file_tool is not None, "the client offers no file tool"
        return f"call_{next(_ids)}", conversation.file_tool.name, conversation.file_tool.saving(reply.path, reply.text)
    tool = conversation.shell or Tool(reply.tool, {"properties": {"command": {}}})
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


# This API has no field for it.
_REFUSED = re.compile(r"^Permission denied because|rule which prevents you|Tool .* not found|permission was declined")


def _chat_messages(body: Json) -> Iterator[Message]:
    for entry in body["messages"]:
        calls = "\n".join(call["function"]["arguments"] for call in entry.get("tool_calls") or ())
        text = _text(entry.get("content") or "")
        failed = entry["role"] == "tool" and _REFUSED.search(text) is not None
        yield Message(entry["role"], "\n".join(filter(None, (text, calls))), failed)


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


# Gemini generateContent: the path names the model and the method


def _gemini_messages(body: Json) -> Iterator[Message]:
    yield Message("system", _text(body.get("systemInstruction", {}).get("parts", "")))
    for entry in body["contents"]:
        for part in entry["parts"]:
            if "functionCall" in part:
                yield Message("assistant", json.dumps(part["functionCall"]["args"]))
            elif "functionResponse" in part:
                response = part["functionResponse"]["response"]
                yield Message("tool", json.dumps(response), "error" in response)
            else:
                yield Message("assistant" if entry["role"] == "model" else entry["role"], part.get("text", ""))


def _gemini_tools(body: Json) -> Iterator[Tool]:
    for group in body.get("tools", ()):
        for tool in group.get("functionDeclarations", ()):
            yield Tool(tool["name"], tool.get("parametersJsonSchema") or tool.get("parameters", {}))


def _gemini_stream(conversation: Conversation, reply: Answer) -> Iterator[str]:
    usage = conversation.usage(reply)
    if isinstance(reply, Verdict):
        part: Json = {"text": reply.text}
    else:
        _, name, arguments = _call(conversation, reply)
        part = {"functionCall": {"name": name, "args": arguments}}
    counted = {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": usage.input + usage.output,
    }
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    yield f"data: {json.dumps({'candidates': [candidate], 'usageMetadata': counted})}"


def _gemini_error(fault: Fault) -> Json:
    kinds = {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}
    messages = {
        401: "API key not valid. Please pass a valid API key.",
        429: "Resource has been exhausted (e.g. check quota).",
    }
    error = {
        "code": fault.status,
        "status": kinds.get(fault.status, "INTERNAL"),
        "message": messages.get(fault.status, "An internal error has occurred."),
    }
    return {"error": {**error, **fault.error}}


APIS = {
    "/messages": Api(_anthropic_messages, _anthropic_tools, _anthropic_stream, _anthropic_error),
    "/responses": Api(_responses_messages, _responses_tools, _responses_stream, _openai_error),
    "/chat/completions": Api(_chat_messages, _chat_tools, _chat_stream, _openai_error),
    ":streamGenerateContent": Api(_gemini_messages, _gemini_tools, _gemini_stream, _gemini_error),
}


def api_of(path: str) -> Api | None:
    return next((api for end, api in APIS.items() if path.endswith(end)), None)
