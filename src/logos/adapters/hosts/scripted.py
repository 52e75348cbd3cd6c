"""Deterministic agents from a script, as real processes that write real files and outlive their driver."""

from __future__ import annotations

import json
import marshal
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

from logos.adapters.files import write_atomically
from logos.adapters.hosts import script as scripts
from logos.adapters.hosts import scripted_agent
from logos.adapters.hosts.processes import Job, Stage, TurnProcesses
from logos.adapters.hosts.providers import end_of
from logos.adapters.hosts.script import GOOD, Fault, LevelTurn, ScriptStep, Spending, level_turn_of, read_script
from logos.adapters.reports import example
from logos.domain.reports import TurnKind, Verdict
from logos.domain.roles import RESPONSE_FILES, ROLE_DEFS, Role
from logos.domain.turns import FailureKind
from logos.domain.usage import Usage, total_of
from logos.waiting.provider_errors import failure_kind_of

# A script as it was read from a file, or role → steps as a program makes it.
Script = scripts.Script | Mapping[str, Any]
Json = dict[str, Any]
# What is written and, with None, deleted.
Edit = Mapping[str, str | None]

SESSION = "scripted"
# Where agents of levels leave their responses, in the folder they work in.
LEVEL_RESPONSES = Path(".tmp", "agent-responses")
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
        self._taking_places = threading.Lock()
        self._past: dict[tuple[str, str], _Past] = {}

    def create_session(
        self, agent_profile: str, *, provider: str, idempotency_key: str = "", working_directory: str = ""
    ) -> Mapping[str, str]:
        if working_directory:
            return self.create_terminal(
                SESSION,
                agent_profile,
                provider=provider,
                idempotency_key=idempotency_key,
                working_directory=working_directory,
            )
        about = {"profile": agent_profile, "provider": provider}
        terminal = self._turns.create(idempotency_key, about)
        # A cast is named after its first terminal: what another run in this folder did is not this one's past.
        self._turns.note(terminal, {**about, "cast": terminal})
        write_atomically(self._root / "cast", terminal)
        return {"id": terminal, "session_name": SESSION}

    def create_terminal(
        self,
        session_name: str,
        agent_profile: str,
        *,
        provider: str,
        idempotency_key: str = "",
        working_directory: str = "",
    ) -> Mapping[str, str]:
        about = {
            "profile": agent_profile,
            "provider": provider,
            "cwd": working_directory,
            # Agents with folders of their own have sessions of their own; those of one run lie side by side.
            "cast": str(Path(working_directory).parent) if working_directory else _text(self._root / "cast"),
        }
        return {"id": self._turns.create(idempotency_key, about), "session_name": session_name}

    def send_input(self, terminal_id: str, message: str) -> None:
        about = self._turns.about(terminal_id)
        cast, cwd = str(about.get("cast", "")), Path(about.get("cwd") or self._wd)
        played = level_turn_of(message) or _addressed(message)
        if played is None:
            # A label for somebody who looks at terminals; nothing is to be done.
            return
        if self._turns.stage(terminal_id)[0] is Stage.RUNNING:
            # Whatever still runs there was given up.
            self._turns.end(terminal_id)
        folder = self._turns.next_turn(terminal_id)
        write_atomically(folder / "prompt.md", message, durable=False)
        if isinstance(played, LevelTurn):
            self._take_place(cast, played, folder)
            response = cwd / LEVEL_RESPONSES / f"{played.id}.md"
        else:
            role, turn = played
            orders = self._orders(cast, role, turn or f"{terminal_id}/{folder.name}")
            _order(folder, orders)
            response = self._response_dir / RESPONSE_FILES[ROLE_DEFS[role].answer]
        # Isolated and without site: the agent needs nothing but the standard library, and starts in half the time.
        command = [sys.executable, "-I", "-S", scripted_agent.__file__, str(folder), str(response)]
        self._turns.begin(terminal_id, folder, Job(command, None, cwd, os.environ))

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

    def provider_error(self, terminal_id: str) -> str:
        turns = self._turns.turns(terminal_id)
        return _complaint(turns[-1], *self._turns.stage(terminal_id)) if turns else ""

    def usage(self, terminal_id: str) -> Usage | None:
        return total_of([_told(turn) for turn in self._turns.turns(terminal_id)])

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
        past = [orders["turn"] for orders in self._history(cast, "pid") if orders["role"] == role]
        # A turn that is asked again keeps its place in the script.
        known = list(dict.fromkeys([*past, turn]))
        step = self._script.step(role, turn, known.index(turn) + 1)
        if step is None:
            missing = f"the script has no step for {turn} ({role})"
            step = ScriptStep.model_validate({"fault": Fault.CRASH, "message": missing})
        return {"turn": turn, "role": role.value, **_done_now(step, role, past.count(turn))}

    def _take_place(self, cast: str, turn: LevelTurn, folder: Path) -> None:
        """Write a turn's orders; the next turn from the same key counts them, also while this one only starts."""
        key, steps = self._script.level_steps(turn)
        with self._taking_places:
            place, tries = self._place(cast, key, turn) if _depends_on_the_past(steps) else (0, 0)
            orders = {"turn": turn.id, "role": key, **at_level(_chosen(steps, place, turn), turn, tries)}
            _order(folder, orders)

    def _place(self, cast: str, key: str, turn: LevelTurn) -> tuple[int, int]:
        """How many turns were answered from a key before this one, and how often this one was tried."""
        if (cast, key) not in self._past:
            # What an earlier driver left; from here on it is remembered, as terminals that close are hard to read.
            turns, tries = ([o["turn"] for o in self._history(cast, t) if o.get("role") == key] for t in _TRACES)
            self._past[cast, key] = _Past(turns, Counter(tries))
        past = self._past[cast, key]
        # A turn that is asked again keeps its place in the script.
        past.turns = list(dict.fromkeys([*past.turns, turn.id]))
        past.tries[turn.id] += 1
        return past.turns.index(turn.id), past.tries[turn.id] - 1

    def _history(self, cast: str, trace: str) -> list[Json]:
        """The orders of every try that left a trace in a cast, oldest first, closed terminals included."""
        homes = [home for home in self._root.glob("*/terminal.json") if _json(home).get("cast") == cast]
        left = [file for home in homes for file in home.parent.glob(f"turn-*/{trace}")]
        return [_json(file.with_name("orders.json")) for file in sorted(left, key=_written)]


@dataclass(slots=True)
class _Past:
    """What was played from one key of the script: its turns in order, and how often each was tried."""

    turns: list[str]
    tries: Counter[str]


# Orders that were given, and those whose try really began.
_TRACES = ("orders.json", "pid")


def _order(folder: Path, orders: Json) -> None:
    """The orders of a turn: to be read again by us, and by an agent that loads no library for it."""
    write_atomically(folder / "orders.json", json.dumps(orders), durable=False)
    texts = {key: _as_text(orders.get(source)) for key, source in (("say", "report"), ("failed", "failed"))}
    told = {**orders, **{key: text for key, text in texts.items() if text is not None}}
    (folder / "orders").write_bytes(marshal.dumps(json.loads(json.dumps(told))))


def _as_text(report: object) -> str | None:
    return None if report is None else json.dumps(report, ensure_ascii=False, indent=2) + "\n"


def _addressed(message: str) -> tuple[Role, str] | None:
    """Whose turn a prompt is, by the file it asks for (the one named last), and the turn's id where it is given."""
    places = {message.rfind(f"/{name}"): answer for answer, name in RESPONSE_FILES.items()}
    last = max(places)
    if last < 0:
        return None
    role = next(agent_def.role for agent_def in ROLE_DEFS.values() if agent_def.answer == places[last])
    head = _TURN.match(message)
    return role, head[1] if head else ""


def _done_now(step: ScriptStep, role: Role, tries: int) -> Json:
    """A step as it is carried out after so many tries: everything that was left open filled in."""
    said = step.say if step.say is not None else GOOD[role]
    if step.say is None and not step.run:
        said = said.replace("{verdict}", "PASS").replace("{output}\n", "")
    return {"say": said, **_carried_out(step, tries)}


def at_level(step: ScriptStep, turn: LevelTurn, tries: int = 0) -> Json:
    """The same for a turn of a level, whose response is a report unless the step says a text."""
    told = step.report or {}
    edit = step.edit if "edit" in step.model_fields_set or step.say is not None else good_edit(turn, told)
    report = good_report(turn, edit, told) if step.say is None else None
    judged = turn.kind is TurnKind.VALIDATE and step.run and step.say is None and step.report is None
    failure = {"what": step.run, "expected": "exit code 0", "observed": "{output}"}
    return {
        **_carried_out(step, tries),
        "say": step.say,
        "edit": dict(edit),
        "report": report,
        "failed": {**(report or {}), "verdict": Verdict.FAIL.value, "failures": [failure]} if judged else None,
    }


def good_edit(turn: LevelTurn, told: Mapping[str, Any]) -> Edit:
    """What an author changes where neither the step nor the report it tells says so: one function, in one file."""
    if turn.kind is not TurnKind.AUTHOR or "files" in told:
        return {}
    name = (turn.component or turn.level.name.lower()).replace("-", "_")
    head = f"def {name}() -> None:"
    # Work that is asked for again must change something.
    text = f"{head} ...\n" if turn.first else f'{head}\n    """Worked on again in {turn.id}."""\n'
    return {f"{name}.py": text}


def good_report(turn: LevelTurn, edit: Edit, told: Mapping[str, Any]) -> Json:
    """A report that is accepted, about these changes, with what is told in the place of what it would say."""
    report = example(turn.kind, turn.level)
    if isinstance(told.get("spec_updates"), Mapping):
        # By name, so that the sections which are not told stay.
        report["spec_updates"] = {row["section"]: row["text"] for row in report["spec_updates"]}
    if turn.kind is TurnKind.AUTHOR:
        report |= {"files": [*edit], "tests": [path for path in edit if _is_test(path)], "provides": _provided(edit)}
    return _over(report, told)


def _over(report: Mapping[str, Any], told: Mapping[str, Any]) -> Json:
    """What is told over a report: mappings are laid over each other, everything else takes the other's place."""
    both = {
        key: _over(cast(Json, report[key]), cast(Json, value)) if _mappings(report.get(key), value) else value
        for key, value in told.items()
    }
    return {**report, **both}


def _mappings(*values: object) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def _is_test(path: str) -> bool:
    file = PurePosixPath(path)
    return bool(_TEST_NAME.search(file.name)) or not _TEST_FOLDERS.isdisjoint(file.parts[:-1])


def _provided(edit: Edit) -> list[str]:
    """The public names that Python files define at their top."""
    texts = [text or "" for path, text in edit.items() if path.endswith(".py") and not _is_test(path)]
    return list(dict.fromkeys(name for text in texts for name in _DEFINED.findall(text)))


_TEST_NAME = re.compile(r"^test_|[._]test\.|\.spec\.")
_TEST_FOLDERS = frozenset({"test", "tests", "__tests__"})
_DEFINED = re.compile(r"^(?:async )?(?:def|class) ([A-Za-z]\w*)", re.MULTILINE)


def _depends_on_the_past(steps: tuple[ScriptStep, ...]) -> bool:
    return len(steps) > 1 or any(step.times is not None for step in steps)


def _chosen(steps: tuple[ScriptStep, ...], place: int, turn: LevelTurn) -> ScriptStep:
    if steps:
        return steps[min(place, len(steps) - 1)]
    return ScriptStep.model_validate({"fault": Fault.CRASH, "message": f"the script has no step for {turn.id}"})


def _carried_out(step: ScriptStep, tries: int) -> Json:
    fault = step.fault if step.times is None or tries < step.times else None
    return {
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
            return told if failure_kind_of(told) is FailureKind.LIMIT else f"usage limit reached: {told}"
        case Fault.TRANSIENT:
            told = message or _HICCUP
            return told if failure_kind_of(told) is FailureKind.TRANSIENT else f"service unavailable: {told}"
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


def _written(file: Path) -> int:
    """When; a file whose terminal was closed since has another name by now."""
    with suppress(OSError):
        return file.stat().st_mtime_ns
    return 0


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _json(path: Path) -> Json:
    with suppress(OSError, ValueError):
        return cast(Json, json.loads(path.read_text(encoding="utf-8")))
    return {}
