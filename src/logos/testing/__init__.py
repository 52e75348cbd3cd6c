"""Scripted agents and a log in memory for tests; they pass the contract tests of the real ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from logos.adapters.hosts.script import GOOD, LevelTurn, level_turn_of
from logos.adapters.hosts.scripted import LEVEL_RESPONSES, Edit, good_edit, good_report
from logos.adapters.responses import ManualSignal
from logos.domain.events import Event, Recorded, RunForked
from logos.domain.roles import RESPONSE_FILES, ROLE_DEFS, Role
from logos.domain.turns import RunId
from logos.errors import LogConflict, TerminalGone


class MemoryLog:
    """A Log that keeps its events in memory; time is a counter."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._runs: dict[RunId, list[Recorded]] = {}
        self._ticks = 0
        self._lock = threading.Lock()
        self._clock = clock or self._tick

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

    def runs(self) -> list[RunId]:
        return list(self._runs)

    def watch(self, run: RunId, from_seq: int = 1) -> Iterator[Recorded | None]:
        while True:
            for record in self.read(run, from_seq):
                from_seq = record.seq + 1
                yield record
            yield None

    def close(self) -> None:
        pass

    def _tick(self) -> float:
        self._ticks += 1
        return float(self._ticks)


@dataclass(slots=True)
class _Terminal:
    key: str
    provider: str
    working: bool = False
    output: str = ""
    turns: int = 0


# A response: a text or, at a level, the differences from a good report; with changes to files, if any.
Answer = str | Mapping[str, Any]
Said = Answer | tuple[Edit, Answer]
Says = Said | Callable[[str], Said]


@dataclass(slots=True)
class ScriptedAnswers:
    """The responses of scripted agents; those of roles are written to `folder`."""

    folder: Path
    script: Mapping[str, Sequence[Says]]
    _known: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def work_for(self, message: str, position: int, home: Path) -> Callable[[], str] | None:
        """A function that does the work of a prompt and returns the response; None if the message asks for none.

        `position` is the number of earlier turns of the agent, and `home` the folder in which it works.
        """
        turn = level_turn_of(message)
        if turn is not None:
            return lambda: self._level_response(turn, message, home)
        answer = next((answer for answer, name in RESPONSE_FILES.items() if f"/{name}" in message), None)
        if answer is None:
            return None
        says = self.script[answer][min(position, len(self.script[answer]) - 1)]
        return lambda: _role_response(self.folder / RESPONSE_FILES[answer], says, message)

    def _level_response(self, turn: LevelTurn, prompt: str, home: Path) -> str:
        """Edit files and write the response below `home`, as the script says for the turn's first key in it."""
        says = self._says(turn)
        response = says(prompt) if callable(says) else says
        edit, answer = response if isinstance(response, tuple) else (_default_edit(turn, response), response)
        _make(home, edit)
        text = answer if isinstance(answer, str) else json.dumps(good_report(turn, edit, answer), indent=2)
        _make(home, {str(LEVEL_RESPONSES / f"{turn.id}.md"): text})
        return text

    def _says(self, turn: LevelTurn) -> Says:
        key = next((key for key in turn.keys if key in self.script), None)
        if key is None:
            return {}
        with self._lock:
            known = self._known.setdefault(key, [])
            # A repeated turn keeps its position in the script.
            if turn.id not in known:
                known.append(turn.id)
            return self.script[key][min(known.index(turn.id), len(self.script[key]) - 1)]


def _default_edit(turn: LevelTurn, answer: Answer) -> Edit:
    return {} if isinstance(answer, str) else good_edit(turn, answer)


def _make(home: Path, edit: Edit) -> None:
    for name, text in edit.items():
        target = home / name
        if text is None:
            target.unlink(missing_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")


@dataclass(slots=True)
class ScriptedAgents:
    """An AgentHost whose agents answer at once, in this process.

    `script` maps a response name (`analyst`, `analyst_review`, …) to the responses turn by turn; the last one
    repeats. An answer may be a function of the prompt. Everything sent is kept in `sent` as (terminal, message).
    Agents of levels work in the folder of their terminal (see `folders`), by default the one whose
    `.tmp/agent-responses` is `folder`.
    """

    folder: Path
    script: Mapping[str, Sequence[Says]]
    change_signal: ManualSignal = field(default_factory=ManualSignal)
    sent: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    exited: list[str] = field(default_factory=list[str])
    profiles: dict[str, str] = field(default_factory=dict[str, str])
    folders: dict[str, str] = field(default_factory=dict[str, str])
    _terminals: dict[str, _Terminal] = field(default_factory=dict[str, _Terminal])
    _answers: ScriptedAnswers = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._answers = ScriptedAnswers(self.folder, self.script)

    def create_session(
        self, agent_profile: str, *, provider: str, idempotency_key: str = "", working_directory: str = ""
    ) -> Mapping[str, str]:
        return self.create_terminal(
            "scripted",
            agent_profile,
            provider=provider,
            idempotency_key=idempotency_key,
            working_directory=working_directory,
        )

    def create_terminal(
        self,
        session_name: str,
        agent_profile: str,
        *,
        provider: str,
        idempotency_key: str = "",
        working_directory: str = "",
    ) -> Mapping[str, str]:
        with self._lock:
            same = (name for name, known in self._terminals.items() if idempotency_key and known.key == idempotency_key)
            terminal = next(same, f"{len(self._terminals) + len(self.exited) + 1:08x}")
            self._terminals.setdefault(terminal, _Terminal(idempotency_key, provider))
            self.profiles[terminal] = agent_profile
            self.folders.setdefault(terminal, working_directory or str(self.folder.parents[1]))
        return {"id": terminal, "session_name": session_name}

    def send_input(self, terminal_id: str, message: str) -> None:
        terminal = self._terminal(terminal_id)
        self.sent.append((terminal_id, message))
        work = self._answers.work_for(message, terminal.turns, Path(self.folders[terminal_id]))
        if work is not None:
            terminal.turns += 1
            terminal.working = True
            terminal.output = work()
            self.change_signal.wake()

    def get_status(self, terminal_id: str) -> str:
        """`processing` once after each prompt, so that a watcher has seen the agent work."""
        terminal = self._terminal(terminal_id)
        worked, terminal.working = terminal.working, False
        return "processing" if worked else "completed" if terminal.turns else "idle"

    def get_last_output(self, terminal_id: str) -> str:
        return self._terminal(terminal_id).output

    def exit_terminal(self, terminal_id: str) -> None:
        with self._lock:
            self.exited.append(terminal_id)
            self._terminals.pop(terminal_id, None)

    def close(self) -> None:
        pass

    def prompts(self, answer: str) -> list[str]:
        """Every prompt that asked for this response, in order."""
        return [message for _, message in self.sent if f"/{RESPONSE_FILES[answer]}" in message]

    def _terminal(self, terminal_id: str) -> _Terminal:
        if terminal_id not in self._terminals:
            raise TerminalGone(f"there is no terminal {terminal_id}")
        return self._terminals[terminal_id]


def _role_response(path: Path, says: Says, prompt: str) -> str:
    """An agent of the cycle only writes its response."""
    response = says(prompt) if callable(says) else says
    if not isinstance(response, str):
        raise TypeError(f"{path.name}: roles answer with a text, not with {response!r}")
    _make(path.parent, {path.name: response})
    return response


GOOD_ANALYSIS = GOOD[Role.ANALYST]
GOOD_PROGRAM = GOOD[Role.PROGRAMMER]
APPROVED = GOOD[Role.PEER_ANALYST]
REVISE = """REVIEW_RESULT: REVISE
REVIEW_NOTES:
- the design does not say what happens with an empty name
"""
PASS = "RESULT: PASS\nEVIDENCE:\n- every criterion observed\n"
FAIL = "RESULT: FAIL\nEVIDENCE:\n- expected 2, observed 3\n"


def script(**responses: Sequence[Says]) -> dict[str, Sequence[Says]]:
    """A script of good responses, except for those that are given."""
    good: dict[str, Sequence[Says]] = {
        ROLE_DEFS[Role.ANALYST].answer: [GOOD_ANALYSIS],
        ROLE_DEFS[Role.PEER_ANALYST].answer: [APPROVED],
        ROLE_DEFS[Role.PROGRAMMER].answer: [GOOD_PROGRAM],
        ROLE_DEFS[Role.PEER_PROGRAMMER].answer: [APPROVED],
        ROLE_DEFS[Role.TESTER].answer: [PASS],
    }
    return {**good, **responses}
