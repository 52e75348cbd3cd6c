"""Scripted agents and a log in memory for tests; they pass the contract tests of the real ones."""

import json
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Unpack

from logos.adapters.hosts.script import GOOD, LevelTurn, level_turn_of
from logos.adapters.hosts.scripted import LEVEL_RESPONSES, Edit, good_edit, good_report, role_of
from logos.adapters.responses import ManualSignal
from logos.domain.events import Event, Message, PersonEvent, Recorded, RunForked
from logos.domain.roles import RESPONSE_FILES, ROLE_DEFS, Role
from logos.domain.turns import RunId
from logos.errors import LogConflict, TerminalGone
from logos.ports import TerminalOptions


class MemoryLog:
    """A Log that keeps its events in memory; time is a counter."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._runs: dict[RunId, list[Recorded]] = {}
        self._lock = threading.Lock()
        self._clock = clock or count(1.0).__next__

    def append(self, run: RunId, event: Event, after: int) -> Recorded:
        with self._lock:
            records = self._runs.get(run, [])
            if len(records) != after:
                raise LogConflict(f"run {run} is at event {len(records)}, not {after}: another driver is active")
            record = Recorded(run, after + 1, self._clock(), event)
            self._runs.setdefault(run, []).append(record)
            return record

    def fork(self, run: RunId, history: Iterable[Recorded], event: RunForked) -> Recorded:
        with self._lock:
            if run in self._runs:
                raise LogConflict(f"run {run} exists already")
            copied = [replace(record, run=run, seq=seq) for seq, record in enumerate(history, 1)]
            record = Recorded(run, len(copied) + 1, self._clock(), event)
            self._runs[run] = [*copied, record]
            return record

    def read(self, run: RunId, from_seq: int = 1) -> Iterator[Recorded]:
        return iter(self._runs.get(run, [])[max(from_seq, 1) - 1 :])

    def tampering(self, run: RunId, *, verify: bool = False) -> str:  # noqa: ARG002
        return ""

    def runs(self) -> list[RunId]:
        return list(self._runs)

    def close(self) -> None:
        pass


class MemoryInbox:
    """An Inbox that keeps its messages in memory."""

    def __init__(self) -> None:
        self._waiting: dict[str, Message] = {}
        self._refused: dict[str, str] = {}
        self._arrived: Callable[[], object] = lambda: None
        self._number = count(1)

    def send(self, run: RunId, event: PersonEvent) -> Message:
        message = Message(f"{next(self._number):020d}-{secrets.token_hex(4)}", run, event)
        self._waiting[message.id] = message
        self._arrived()
        return message

    def is_waiting(self, message: Message) -> bool:
        return message.id in self._waiting

    def withdraw(self, message: Message) -> bool:
        return self._waiting.pop(message.id, None) is not None

    def refusal(self, message: Message) -> str | None:
        return self._refused.pop(message.id, None)

    def watch(self, arrived: Callable[[], object]) -> None:
        self._arrived = arrived

    def messages(self) -> tuple[Message, ...]:
        return tuple(self._waiting.values())

    def remove(self, message: Message) -> None:
        self._waiting.pop(message.id, None)

    def refuse(self, message: Message, why: str) -> None:
        self._refused[message.id] = why
        self.remove(message)

    def close(self) -> None:
        self._arrived = lambda: None


@dataclass(slots=True)
class ScriptedTerminal:
    key: str
    cwd: str
    status: str = "idle"
    screen: str = "❯ "
    output: str = ""
    turns: int = 0


# A response: a text or, at a level, the differences from a good report; with changes to files, if any.
Answer = str | Mapping[str, Any]
Said = Answer | tuple[Edit, Answer]
Says = Said | Callable[[str], Said]


@dataclass(slots=True)
class ScriptedAgents:
    """An AgentHost whose agents answer at once, in this process.

    `script` maps a response name (`analyst`, `analyst_review`, …) or a key of a level to the responses turn by turn;
    the last one repeats. An answer may be a function of the prompt. Everything sent is kept in `sent` as (terminal,
    message). Responses of roles are written to `folder`; agents of levels work in the folder of their terminal, by
    default the one whose `.tmp/agent-responses` is `folder`.
    """

    folder: Path
    script: Mapping[str, Sequence[Says]]
    change_signal: ManualSignal = field(default_factory=ManualSignal)
    sent: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    exited: list[str] = field(default_factory=list[str])
    profiles: dict[str, str] = field(default_factory=dict[str, str])
    agents: dict[str, ScriptedTerminal] = field(default_factory=dict[str, ScriptedTerminal])
    _known: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def create_session(self, agent_profile: str, **options: Unpack[TerminalOptions]) -> Mapping[str, str]:
        return self.create_terminal("scripted", agent_profile, **options)

    def create_terminal(
        self, session_name: str, agent_profile: str, **options: Unpack[TerminalOptions]
    ) -> Mapping[str, str]:
        key = options.get("idempotency_key", "")
        folder = options.get("working_directory") or str(self.folder.parents[1])
        with self._lock:
            same = (name for name, agent in self.agents.items() if key and agent.key == key)
            terminal = next(same, f"{len(self.profiles) + 1:08x}")
            self.agents.setdefault(terminal, ScriptedTerminal(key, folder))
            self.profiles[terminal] = agent_profile
        return {"id": terminal, "session_name": session_name}

    def send_input(self, terminal_id: str, message: str) -> None:
        agent, work = self.take(terminal_id, message)
        if work is not None:
            agent.output = work()
            self.change_signal.wake()

    def take(self, terminal_id: str, message: str) -> tuple[ScriptedTerminal, Callable[[], str] | None]:
        """A terminal that takes a prompt, and a function that does its work; None if the message asks for none."""
        agent = self._agent(terminal_id)
        self.sent.append((terminal_id, message))
        if "Read the file '" in message:
            message = Path(message.split("'")[1]).read_text(encoding="utf-8")
        level, role = level_turn_of(message), role_of(message)
        if level is not None:
            says, home, file = self._says(level), Path(agent.cwd), str(LEVEL_RESPONSES / f"{level.id}.md")
        elif role is not None:
            answer = ROLE_DEFS[role].answer
            says, home, file = _at(self.script[answer], agent.turns), self.folder, RESPONSE_FILES[answer]
        else:
            return agent, None
        agent.turns += 1
        agent.status = "processing"
        return agent, lambda: _respond(says, message, home, file, level)

    def _says(self, turn: LevelTurn) -> Says:
        """What the script says for a turn's first key in it."""
        key = next((key for key in turn.keys if key in self.script), None)
        if key is None:
            return {}
        with self._lock:
            # A repeated turn keeps its position in the script.
            known = self._known.setdefault(key, {})
            return _at(self.script[key], known.setdefault(turn.id, len(known)))

    def get_status(self, terminal_id: str) -> str:
        """`processing` once after each prompt, so that a watcher has seen the agent work."""
        agent = self._agent(terminal_id)
        status, agent.status = agent.status, "completed" if agent.status == "processing" else agent.status
        return status

    def get_last_output(self, terminal_id: str) -> str:
        return self._agent(terminal_id).output

    def exit_terminal(self, terminal_id: str) -> None:
        with self._lock:
            self.exited.append(terminal_id)
            self.agents.pop(terminal_id, None)

    def close(self) -> None:
        pass

    def prompts(self, answer: str) -> list[str]:
        """Every prompt that asked for this response, in order."""
        return [message for _, message in self.sent if f"/{RESPONSE_FILES[answer]}" in message]

    def _agent(self, terminal_id: str) -> ScriptedTerminal:
        if terminal_id not in self.agents:
            raise TerminalGone(f"there is no terminal {terminal_id}")
        return self.agents[terminal_id]


def _at(responses: Sequence[Says], position: int) -> Says:
    return responses[min(position, len(responses) - 1)]


def _respond(says: Says, prompt: str, home: Path, file: str, level: LevelTurn | None) -> str:
    """Edit files below `home` and write the response there; an agent of the cycle only writes its response."""
    said = says(prompt) if callable(says) else says
    edit, answer = said if isinstance(said, tuple) else (None, said)
    if level is None and not isinstance(said, str):
        raise TypeError(f"{file}: roles answer with a text, not with {said!r}")
    if level is not None and not isinstance(answer, str):
        edit = good_edit(level, answer) if edit is None else edit
        answer = json.dumps(good_report(level, edit, answer), indent=2)
    for name, text in {**(edit or {}), file: str(answer)}.items():
        target = home / name
        if text is None:
            target.unlink(missing_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(str(text), encoding="utf-8")
    return str(answer)


GOOD_ANALYSIS = GOOD[Role.ANALYST]
GOOD_PROGRAM = GOOD[Role.PROGRAMMER]
APPROVED = GOOD[Role.PEER_ANALYST]
REVISE = "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- the design does not say what happens with an empty name\n"
PASS = "RESULT: PASS\nEVIDENCE:\n- every criterion observed\n"
FAIL = "RESULT: FAIL\nEVIDENCE:\n- expected 2, observed 3\n"


def script(**responses: Sequence[Says]) -> dict[str, Sequence[Says]]:
    """A script of good responses, except for those that are given."""
    good: dict[str, Sequence[Says]] = {row.answer: [GOOD[role]] for role, row in ROLE_DEFS.items()}
    return {**good, ROLE_DEFS[Role.TESTER].answer: [PASS], **responses}
