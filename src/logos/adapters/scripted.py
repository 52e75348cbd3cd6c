"""Deterministic agents from a script, as real processes that write real files and outlive their driver."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from logos.adapters import script as scripts
from logos.adapters import scripted_agent
from logos.adapters.files import write_atomically
from logos.adapters.processes import Job, Stage, TurnProcesses
from logos.adapters.providers import end_of
from logos.adapters.script import GOOD, Fault, Spending, Step, read_script
from logos.domain.roles import RESPONSE_FILES, SEATS, Role
from logos.domain.turns import Trouble
from logos.domain.usage import Usage
from logos.flows.complaints import trouble_of
from logos.ports import Report

# A script as it was read from a file, or role → steps as a program makes it.
Script = scripts.Script | Mapping[str, Any]
Json = dict[str, Any]

SESSION = "scripted"
_TURN = re.compile(r"Turn: (\S+)")
_LIMIT = "You've hit your usage limit. Try again later."
_HICCUP = "API Error: 503 service unavailable"
_QUESTION = "May I run this command?"


class ScriptedHost:
    """An AgentHost, a Reporter and a Screen: every turn is one step of the script, done by `scripted_agent`."""

    def __init__(self, root: Path, script: Script, response_dir: Path, wd: Path) -> None:
        self._turns = TurnProcesses(root)
        self._root = root
        self._response_dir = response_dir
        self._wd = wd
        self._script = script if isinstance(script, scripts.Script) else read_script(script)

    def create_session(self, agent_profile: str, *, provider: str, idempotency_key: str = "") -> Mapping[str, str]:
        about = {"profile": agent_profile, "provider": provider}
        terminal = self._turns.create(idempotency_key, about)
        # A cast is named after its first terminal: what another run in this folder did is not this one's past.
        self._turns.note(terminal, {**about, "cast": terminal})
        write_atomically(self._root / "cast", terminal)
        return {"id": terminal, "session_name": SESSION}

    def create_terminal(
        self, session_name: str, agent_profile: str, *, provider: str, idempotency_key: str = ""
    ) -> Mapping[str, str]:
        about = {"profile": agent_profile, "provider": provider, "cast": _text(self._root / "cast")}
        return {"id": self._turns.create(idempotency_key, about), "session_name": session_name}

    def send_input(self, terminal_id: str, message: str) -> None:
        cast = str(self._turns.about(terminal_id).get("cast", ""))
        role, turn = _addressed(message)
        if role is None:
            # A label for somebody who looks at terminals; nothing is to be done.
            return
        if self._turns.stage(terminal_id)[0] is Stage.RUNNING:
            # Whatever still runs there was given up.
            self._turns.end(terminal_id)
        folder = self._turns.next_turn(terminal_id)
        turn = turn or f"{terminal_id}/{folder.name}"
        write_atomically(folder / "prompt.md", message)
        write_atomically(folder / "orders.json", json.dumps(self._orders(cast, role, turn)))
        response = self._response_dir / RESPONSE_FILES[SEATS[role].answer]
        # Isolated and without site: the agent needs nothing but the standard library, and starts in half the time.
        command = [sys.executable, "-I", "-S", scripted_agent.__file__, str(folder), str(response)]
        self._turns.begin(terminal_id, folder, Job(command, None, self._wd, os.environ))

    def get_status(self, terminal_id: str) -> str:
        stage, _ = self._turns.stage(terminal_id)
        if stage is Stage.RUNNING and self._asks(terminal_id) is not None:
            return "waiting_user_answer"
        return {Stage.NEVER: "idle", Stage.RUNNING: "processing"}.get(stage, "completed")

    def get_last_output(self, terminal_id: str) -> str:
        turns = self._turns.turns(terminal_id)
        return _text(turns[-1] / "said.md") if turns else ""

    def get_screen(self, terminal_id: str) -> str:
        turns = self._turns.turns(terminal_id)
        return _text(turns[-1] / "out") + _text(turns[-1] / "err") if turns else ""

    def press_key(self, terminal_id: str, key: str) -> None:
        """Any key is a yes to the question that is being asked."""
        folder = self._asks(terminal_id)
        if folder is not None:
            write_atomically(folder / "answer", key)

    def report(self, terminal_id: str) -> Report:
        turns = self._turns.turns(terminal_id)
        if not turns:
            return Report()
        stage, code = self._turns.stage(terminal_id)
        told = [_told(turn) for turn in turns]
        if told[-1] is None:
            # Unknown is not "nothing more than before".
            return Report(None, _complaint(turns[-1], stage, code))
        total = Usage()
        for usage in told:
            total = total.plus(usage or Usage())
        return Report(total, _complaint(turns[-1], stage, code))

    def exit_terminal(self, terminal_id: str) -> None:
        self._turns.remove(terminal_id)

    def close(self) -> None:
        """A driver that leaves in order takes its agents' processes with it; one that is killed cannot."""
        self._turns.end_all()

    def _asks(self, terminal_id: str) -> Path | None:
        """The folder of a turn that waits for an answer."""
        turns = self._turns.turns(terminal_id)
        waits = turns and (turns[-1] / "question").exists() and not (turns[-1] / "answer").exists()
        return turns[-1] if waits else None

    def _orders(self, cast: str, role: Role, turn: str) -> Json:
        """What is to be done in this try of this turn."""
        past = [orders["turn"] for orders in self._history(cast) if orders["role"] == role]
        # A turn that is asked again keeps its place in the script.
        known = list(dict.fromkeys([*past, turn]))
        step = self._script.step(role, turn, known.index(turn) + 1)
        if step is None:
            missing = f"the script has no step for {turn} ({role})"
            step = Step.model_validate({"fault": Fault.CRASH, "message": missing})
        return {"turn": turn, "role": role.value, **_done_now(step, role, past.count(turn))}

    def _history(self, cast: str) -> list[Json]:
        """The orders of every try that really began in a cast, oldest first, closed terminals included."""
        homes = [home for home in self._root.glob("*/terminal.json") if _json(home).get("cast") == cast]
        pids = [pid for home in homes for pid in home.parent.glob("turn-*/pid")]
        return [_json(pid.with_name("orders.json")) for pid in sorted(pids, key=lambda pid: pid.stat().st_mtime_ns)]


def _addressed(message: str) -> tuple[Role | None, str]:
    """Whose turn a prompt is, by the file it asks for (the one named last), and the turn's id where it is given."""
    places = {message.rfind(f"/{name}"): answer for answer, name in RESPONSE_FILES.items()}
    last = max(places)
    if last < 0:
        return None, ""
    role = next(seat.role for seat in SEATS.values() if seat.answer == places[last])
    head = _TURN.match(message)
    return role, head[1] if head else ""


def _done_now(step: Step, role: Role, tries: int) -> Json:
    """A step as it is carried out after so many tries: everything that was left open filled in."""
    fault = step.fault if step.times is None or tries < step.times else None
    said = step.say if step.say is not None else GOOD[role]
    if step.say is None and not step.run:
        said = said.replace("{verdict}", "PASS").replace("{output}\n", "")
    return {
        "say": said,
        "delay": step.delay,
        "after": step.after,
        "edit": step.edit,
        "run": step.run,
        "usage": step.usage.model_dump() if step.usage is not None else None,
        "fault": fault.value if fault is not None else None,
        "message": _message(fault, step.message),
        "question": step.question or _QUESTION,
    }


def _message(fault: Fault | None, message: str) -> str:
    """The words of a fault, such that they are taken for what they are."""
    match fault:
        case Fault.USAGE_LIMIT:
            told = message or _LIMIT
            return told if trouble_of(told) is Trouble.LIMIT else f"usage limit reached: {told}"
        case Fault.TRANSIENT:
            told = message or _HICCUP
            return told if trouble_of(told) is Trouble.TRANSIENT else f"service unavailable: {told}"
        case Fault.CRASH:
            return message or "crashed, as the script says"
        case _:
            return message


def _told(turn: Path) -> Usage | None:
    """What a turn says it cost; one that broke off says nothing."""
    usage = _json(turn / "orders.json").get("usage")
    return Spending.model_validate(usage).known() if usage and _text(turn / "exit").strip() == "0" else None


def _complaint(turn: Path, stage: Stage, code: int | None) -> str:
    if stage is Stage.RUNNING or (stage is Stage.ENDED and code == 0):
        return ""
    if stage is Stage.LOST:
        return "its process was killed"
    said = end_of(_text(turn / "err"))
    if _json(turn / "orders.json").get("fault") in (Fault.USAGE_LIMIT, Fault.TRANSIENT):
        return said
    return f"its process ended with {code}: {said}"


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _json(path: Path) -> Json:
    with suppress(OSError, ValueError):
        return cast(Json, json.loads(path.read_text(encoding="utf-8")))
    return {}
