"""What agent CLIs print, and what is read from it: conversation, usage, last word, error and refused tool calls."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from logos.domain.usage import Usage
from logos.waiting.screens import plain

Json = dict[str, Any]

# Several versions of several CLIs report an error as if it were the last word of the model.
_ERROR_AS_TEXT = re.compile(r"\[API Error|Ran into this error")
# The exit code for a temporary failure (EX_TEMPFAIL of sysexits.h).
TEMPORARY = 75
_REFUSED_BY_SANDBOX = re.compile(r"Read-only file system")
_REFUSED_BY_RULE = re.compile(r"rule which prevents you")
_AUTO_REJECTED = re.compile(r"permission requested: ([^\n]*); auto-rejecting")
_NOT_OFFERED = re.compile(r"Error executing tool (\S+): Tool \"\1\" not found|ERROR: Tool `(\S+)` not found")


@dataclass(frozen=True, slots=True)
class Reading:
    """What the output of one process contains; `refused`: tool calls that its permissions did not allow."""

    session: str = ""
    usage: Usage | None = None
    final: str = ""
    error: str = ""
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Printed:
    """What a process printed: JSON objects and text; `code` is None while it runs or when it was killed."""

    rows: list[Json]
    out: str
    err: str
    code: int | None


def printed(out: str, err: str, code: int | None) -> Printed:
    """The output is one JSON document, or one per line among other text."""
    rows = _parsed(out) or [row for line in out.splitlines() for row in _parsed(line)]
    return Printed(rows, out, err, code)


def _parsed(text: str) -> list[Json]:
    with suppress(ValueError, RecursionError):
        return [cast(Json, json.loads(text))] if text.lstrip().startswith("{") else []
    return []


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


def _list(data: object) -> list[Any]:
    return cast("list[Any]", data) if isinstance(data, list) else []


def _sum(rows: Sequence[object], *paths: str) -> int | None:
    """The sum of the whole numbers at these paths; None if there are none."""
    values = [dig(row, path) for row in rows for path in paths]
    known = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    return sum(known) if known else None


def _usage(used: Sequence[object], read: Sequence[str], cached: str, written: Sequence[str]) -> Usage | None:
    """The tokens at these paths; None if nothing is reported."""
    return Usage(_sum(used, *read), _sum(used, cached), _sum(used, *written)) if any(used) else None


def _price(prices: Sequence[object]) -> float | None:
    known = [float(price) for price in prices if isinstance(price, int | float)]
    return sum(known) if known else None


def _call(tool: object, arguments: object) -> str:
    """A tool call in a few words: its name and its first argument."""
    first = next(iter(_values(arguments)), "")
    return " ".join(f"{tool} {first}".split())[:200]


def read_codex(said: Printed) -> Reading:
    rows = said.rows
    used = [_last(rows, "usage", "turn.completed")]
    messages = [row for row in rows if dig(row, "item.type") == "agent_message"]
    return Reading(
        session=_text(rows, "thread_id", "thread.started"),
        usage=_usage(used, ["input_tokens"], "cached_input_tokens", ["output_tokens"]),
        final=_text(messages, "item.text"),
        error=_text(rows, "error.message", "turn.failed"),
        refused=tuple(_refused_by_codex(dig(row, "item") for row in rows)),
    )


def _refused_by_codex(items: Iterable[object]) -> Iterable[str]:
    """Commands that were declined or that failed at the walls of the sandbox."""
    for item in items:
        status, output = dig(item, "status"), str(dig(item, "aggregated_output"))
        if status == "declined" or (status == "failed" and _REFUSED_BY_SANDBOX.search(output)):
            yield " ".join(str(dig(item, "command") or dig(item, "type")).split())[:200]


def read_claude(said: Printed) -> Reading:
    result = next((row for row in reversed(said.rows) if row.get("type") == "result"), None)
    session = _text(said.rows, "session_id")
    if result is None:
        return Reading(session)
    used, cached = [result.get("usage")], "cache_read_input_tokens"
    # Newer versions report the price of the whole conversation as the total.
    prices = [dig(model, "costUSD") for model in _values(result.get("model_usage_since_last_result"))]
    usage = _usage(used, ["input_tokens", "cache_creation_input_tokens", cached], cached, ["output_tokens"])
    usage = replace(usage, cost_usd=_price(prices or [result.get("total_cost_usd")])) if usage else None
    denials = _list(result.get("permission_denials"))
    refused = tuple(_call(dig(denial, "tool_name"), dig(denial, "tool_input")) for denial in denials)
    reading = Reading(session, usage, str(result.get("result") or ""), refused=refused)
    if not result.get("is_error"):
        return reading
    resets = _last(said.rows, "rate_limit_info.resetsAt", "rate_limit_event")
    error = reading.final or "; ".join(str(part) for part in _list(result.get("errors")) or ["error"])
    return replace(reading, final="", error=f"{error} (resets at {resets})" if resets else error)


def read_qwen(said: Printed) -> Reading:
    """As claude prints it, but the input tokens include the cached ones."""
    reading, used = read_claude(said), [_last(said.rows, "usage", "result")]
    usage = _usage(used, ["input_tokens"], "cache_read_input_tokens", ["output_tokens"])
    error = _text(said.rows, "error.message", "result") or reading.error
    return _with_error(replace(reading, usage=usage, error=error))


def _with_error(reading: Reading) -> Reading:
    """An error that is reported as the last word is an error."""
    if reading.error or not _ERROR_AS_TEXT.match(reading.final):
        return reading
    # What follows the first paragraph is advice for somebody at a keyboard.
    return replace(reading, final="", error=reading.final.partition("\n\n")[0])


def read_opencode(said: Printed) -> Reading:
    rows = said.rows
    steps = [row.get("part") for row in rows if row.get("type") == "step_finish"]
    read, written = ["input", "cache.read", "cache.write"], ["output", "reasoning"]
    usage = _usage([dig(step, "tokens") for step in steps], read, "cache.read", written)
    # A price of zero means that the price of the model is unknown.
    cost = _price([dig(step, "cost") for step in steps]) or None
    used = [dig(row, "part") for row in rows if row.get("type") == "tool_use"]
    by_rule = [tool for tool in used if _REFUSED_BY_RULE.search(str(dig(tool, "state.error")))]
    refused = [_call(dig(tool, "tool"), dig(tool, "state.input")) for tool in by_rule]
    return Reading(
        session=_text(rows, "sessionID"),
        usage=replace(usage or Usage(), cost_usd=cost) if steps else None,
        final=_text(rows, "part.text", "text"),
        error=_text(rows, "error.data.message", "error"),
        refused=(*refused, *(found[1] for found in _AUTO_REJECTED.finditer(plain(said.err)))),
    )


def read_gemini(said: Printed) -> Reading:
    # Its errors are a document at the end of the error stream.
    start = max(said.err.rfind("\n{\n"), 0)
    rows = said.rows or _parsed(said.err[start:])
    models = _values(_last(rows, "stats.models"))
    message = _text(rows, "error.message")
    # The message may be the document that the API answered.
    message = _text(_parsed(message), "error.message") or message
    return Reading(
        session=_text(rows, "session_id"),
        usage=_usage(models, ["tokens.prompt"], "tokens.cached", ["tokens.candidates", "tokens.thoughts"]),
        final=_text(rows, "response"),
        error=f"{_text(rows, 'error.code')} {message}".strip(),
        refused=tuple(found[1] for found in _NOT_OFFERED.finditer(said.err) if found[1]),
    )


def read_copilot(said: Printed) -> Reading:
    rows, requests = said.rows, _last(said.rows, "usage.premiumRequests", "result")
    calls = {dig(row, "data.toolCallId"): dig(row, "data") for row in rows if row.get("type") == "tool.execution_start"}
    denied = [dig(row, "data.toolCallId") for row in rows if dig(row, "data.error.code") == "denied"]
    known = [calls.get(call) for call in denied if isinstance(call, str)]
    return Reading(
        session=_text(rows, "sessionId"),
        # It counts what its plan is charged for, not tokens.
        usage=Usage(premium_requests=float(requests)) if isinstance(requests, int | float) else None,
        final="" if _last(rows, "data.message", "session.error") else _text(rows, "data.content", "assistant.message"),
        error=_text(rows, "data.message", "session.error"),
        refused=tuple(_call(dig(call, "toolName"), dig(call, "arguments")) for call in known),
    )


_KIMI_SESSION = re.compile(r"kimi -r ([\w-]+)")


def read_kimi(said: Printed) -> Reading:
    session = _KIMI_SESSION.search(said.out + said.err)
    texts = [row for row in said.rows if row.get("role") == "assistant"]
    reading = Reading(
        session=session[1] if session else "",
        final=_text(texts, "content"),
        refused=tuple(found[2] for found in _NOT_OFFERED.finditer(said.out) if found[2]),
    )
    if not said.code:
        return reading
    # Errors are text among the rows.
    error = " ".join(line.strip() for line in plain(said.out).splitlines() if line.strip() and not _parsed(line))
    return replace(reading, final="", error=f"temporary failure: {error}" if said.code == TEMPORARY else error)


def read_goose(said: Printed) -> Reading:
    """A document with the whole conversation; the errors of earlier turns are in it too."""
    used = [_last(said.rows, "metadata")]
    usage = _usage(used, ["input_tokens"], "cache_read_input_tokens", ["output_tokens"])
    messages = _list(_last(said.rows, "messages"))
    parts = _list(dig(messages[-1], "content")) if messages else []
    final = next((str(text) for part in reversed(parts) if (text := dig(part, "message") or dig(part, "text"))), "")
    return _with_error(Reading(usage=usage, final=final))


_READ = (read_codex, read_claude, read_opencode, read_gemini, read_qwen, read_copilot, read_kimi, read_goose)
# By program.
READERS: dict[str, Callable[[Printed], Reading]] = {read.__name__.removeprefix("read_"): read for read in _READ}
