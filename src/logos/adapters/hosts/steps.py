"""What an agent did in a turn, step by step, from what its CLI prints while it works."""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from logos.adapters.files import open_regular
from logos.adapters.hosts.provider_output import Json, Printed, dig
from logos.domain.steps import Step, StepKind
from logos.waiting.screens import RETRIES, plain

# A step is shown on a line, or in a transcript of many.
MAX_TEXT = 2_000
# More than this since the last look is not read: the end of it says what the agent does now.
MAX_NEW = 1_000_000
# Of the rows that opencode logs, what matters.
_API_ERROR = re.compile(r'AI_APICallError: [^"\n]{1,300}')


def _step(kind: StepKind, text: object) -> Iterator[Step]:
    words = plain(str(text or "")).strip()
    if words:
        yield Step(kind, words[:MAX_TEXT])


def _called(tool: object, arguments: object) -> Iterator[Step]:
    """A tool call: its name and its first argument."""
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    values = list(cast(Json, arguments).values()) if isinstance(arguments, dict) else [arguments or ""]
    return _step(StepKind.CALL, f"{tool} {values[0] if values else ''}")


def _texts(content: object) -> str:
    """The texts of a message: a text, or parts of which some have one."""
    if isinstance(content, str):
        return content
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    return "\n".join(str(text) for part in parts if isinstance(text := dig(part, "text"), str))


def _parts(content: object) -> list[Any]:
    return cast("list[Any]", content) if isinstance(content, list) else []


def _without_shell(command: str) -> str:
    """The command that a shell is given: `/bin/bash -lc 'pytest -q'` is `pytest -q`."""
    with suppress(ValueError):
        match shlex.split(command):
            case [_, "-lc" | "-c", given]:
                return given
            case _:
                pass
    return command


def _of_codex(row: Json) -> Iterator[Step]:
    item, kind = row.get("item"), dig(row, "item.type")
    begins, ends = row.get("type") == "item.started", row.get("type") == "item.completed"
    if row.get("type") == "error" and RETRIES.search(str(row.get("message"))):
        yield from _step(StepKind.RETRY, row.get("message"))
    elif kind == "command_execution" and begins:
        yield from _step(StepKind.CALL, _without_shell(str(dig(item, "command"))))
    elif kind == "command_execution" and ends:
        code = dig(item, "exit_code")
        ended = dig(item, "status") if code is None else f"exit {code}"
        yield from _step(StepKind.RESULT, dig(item, "aggregated_output") or ended)
    elif kind in ("agent_message", "reasoning") and ends:
        yield from _step(StepKind.MESSAGE, dig(item, "text"))
    elif kind == "file_change" and ends:
        paths = ", ".join(str(dig(change, "path")) for change in _parts(dig(item, "changes")))
        yield from _step(StepKind.CALL, f"edit {paths}")
    elif kind == "mcp_tool_call" and begins:
        yield from _called(dig(item, "tool"), dig(item, "arguments"))
    elif kind == "web_search" and ends:
        yield from _step(StepKind.CALL, f"search {dig(item, 'query')}")


def _of_claude(row: Json) -> Iterator[Step]:
    if row.get("subtype") == "api_retry":
        waits = row.get("retry_delay_ms")
        pause = f", waits {waits / 1000:.0f} s" if isinstance(waits, int | float) else ""
        tries = f"attempt {row.get('attempt')} of {row.get('max_retries')}"
        yield from _step(StepKind.RETRY, f"{row.get('error')} {row.get('error_status')}, {tries}{pause}")
    for part in _parts(dig(row, "message.content")):
        match dig(part, "type"):
            case "text" if row.get("type") == "assistant":
                yield from _step(StepKind.MESSAGE, dig(part, "text"))
            case "tool_use":
                yield from _called(dig(part, "name"), dig(part, "input"))
            case "tool_result":
                yield from _step(StepKind.RESULT, _texts(dig(part, "content")))
            case _:
                pass


def _of_opencode(row: Json) -> Iterator[Step]:
    part = row.get("part")
    if row.get("type") == "tool_use":
        yield from _called(dig(part, "tool"), dig(part, "state.input"))
        yield from _step(StepKind.RESULT, dig(part, "state.output") or dig(part, "state.error"))
    elif row.get("type") == "text":
        yield from _step(StepKind.MESSAGE, dig(part, "text"))


def _of_copilot(row: Json) -> Iterator[Step]:
    data = row.get("data")
    match row.get("type"):
        case "assistant.message":
            yield from _step(StepKind.MESSAGE, dig(data, "content"))
        case "assistant.turn_retry":
            yield from _step(StepKind.RETRY, dig(data, "reason"))
        case "tool.execution_start":
            yield from _called(dig(data, "toolName"), dig(data, "arguments"))
        case "tool.execution_complete":
            yield from _step(StepKind.RESULT, dig(data, "result.content") or dig(data, "error.message"))
        case _:
            pass


def _of_kimi(row: Json) -> Iterator[Step]:
    if row.get("role") == "tool":
        yield from _step(StepKind.RESULT, _texts(row.get("content")))
    elif row.get("role") == "assistant":
        yield from _step(StepKind.MESSAGE, _texts(row.get("content")))
        for call in _parts(row.get("tool_calls")):
            yield from _called(dig(call, "function.name"), dig(call, "function.arguments"))


def _of_goose(row: Json) -> Iterator[Step]:
    """Its one document has the whole conversation: the steps of this turn follow the last prompt."""
    messages = _parts(row.get("messages"))
    asked = [at for at, own in enumerate(messages) if dig(own, "role") == "user" and _texts(dig(own, "content"))]
    for message in messages[asked[-1] + 1 if asked else 0 :]:
        for part in _parts(dig(message, "content")):
            match dig(part, "type"):
                case "text":
                    yield from _step(StepKind.MESSAGE, dig(part, "text"))
                case "toolRequest":
                    call = dig(part, "toolCall.value")
                    yield from _called(dig(call, "name"), dig(call, "arguments"))
                case "toolResponse":
                    result = dig(part, "toolResult.value")
                    yield from _step(StepKind.RESULT, _texts(dig(result, "content") or result))
                case _:
                    pass


# By program. gemini prints nothing before its last word.
_STEPS: dict[str, Callable[[Json], Iterator[Step]]] = {
    "codex": _of_codex,
    "claude": _of_claude,
    "qwen": _of_claude,
    "opencode": _of_opencode,
    "copilot": _of_copilot,
    "kimi": _of_kimi,
    "goose": _of_goose,
}
Reader = Callable[[Printed], list[Step]]


def step_reader(program: str, refused: Callable[[Printed], Iterable[str]]) -> Reader:
    """Reads the steps from what a program has printed, or from a part of it; `refused` finds calls not allowed."""

    def read(said: Printed) -> list[Step]:
        of_row = _STEPS.get(program)
        steps = [step for row in said.rows for step in of_row(row)] if of_row else []
        texts = said.err.splitlines() if said.rows else [*said.out.splitlines(), *said.err.splitlines()]
        retries = [line for line in map(str.strip, texts) if RETRIES.search(line) and not line.startswith(("{", "at "))]
        reasons = (found[0] if (found := _API_ERROR.search(line)) else line[:300] for line in retries)
        steps += [step for reason in reasons for step in _step(StepKind.RETRY, reason)]
        return steps + [step for call in refused(said) for step in _step(StepKind.REFUSED, call)]

    return read


def plain_steps(said: Printed) -> list[Step]:
    """Of a program that prints no JSON: every line is a message."""
    return [step for line in said.out.splitlines() for step in _step(StepKind.MESSAGE, line)]


class OutputFollower:
    """Reads the output of one running turn as it grows; each look reads only what is new."""

    def __init__(self, turn: Path, read: Reader) -> None:
        self.turn = turn
        self._read = read
        self._seen = {"out": 0, "err": 0}
        self._rest = {"out": b"", "err": b""}

    def new(self) -> tuple[Step, ...]:
        """The steps in the whole lines that were added since the last look."""
        out, err = self._grown("out"), self._grown("err")
        return tuple(self._read(parsed(out, err))) if out or err else ()

    def _grown(self, name: str) -> str:
        path, seen = self.turn / name, self._seen[name]
        try:
            size = path.lstat().st_size
            if size <= seen:
                return ""
            with open_regular(path) as source:
                begin = max(seen, size - MAX_NEW)
                source.seek(begin)
                added = source.read(MAX_NEW)
        except OSError:
            return ""
        self._seen[name] = begin + len(added)
        text = (self._rest[name] if begin == seen else b"") + added
        whole, newline, rest = text.rpartition(b"\n")
        # Of a line that is too long, the beginning is lost, and the line with it.
        self._rest[name] = rest[-MAX_NEW:]
        return (whole + newline).decode("utf-8", "replace")


def parsed(out: str, err: str) -> Printed:
    """Whole lines of an output; those that are no JSON objects are only text."""
    rows: list[Json] = []
    for line in out.splitlines():
        with suppress(ValueError, RecursionError):
            row: object = json.loads(line) if line.startswith("{") else None
            rows += [cast(Json, row)] if isinstance(row, dict) else []
    return Printed(rows, out, err, None)


def tail_of(turn: Path, read: Reader, limit: int = 100_000) -> list[Step]:
    """The last steps of a turn, from the end of its output."""
    with suppress(OSError), open_regular(turn / "out") as source:
        size = source.seek(0, os.SEEK_END)
        source.seek(max(size - limit, 0))
        text = source.read(limit).decode("utf-8", "replace")
        return read(parsed(text if size <= limit else text.partition("\n")[2], ""))
    return []
