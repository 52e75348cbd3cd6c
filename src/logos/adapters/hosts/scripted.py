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

from logos.adapters.files import text_of_file, write_atomically
from logos.adapters.hosts import script as scripts
from logos.adapters.hosts import scripted_agent
from logos.adapters.hosts.processes import ProcessSpec, ProcessState, TurnProcesses, exit_message
from logos.adapters.hosts.providers import end_of
from logos.adapters.hosts.script import GOOD, Fault, LevelTurn, ScriptStep, Spending, level_turn_of, read_script
from logos.adapters.reports import example
from logos.domain.reports import TurnKind, Verdict
from logos.domain.roles import RESPONSE_FILES, ROLE_DEFS, Role
from logos.domain.turns import FailureKind
from logos.domain.usage import Usage, total_of
from logos.waiting.provider_errors import failure_kind_of

# A validated script, or a mapping from roles to steps.
Script = scripts.Script | Mapping[str, Any]
Json = dict[str, Any]
# Files to write; None: delete the file.
Edit = Mapping[str, str | None]

SESSION = "scripted"
# Where agents of levels leave their responses, in the folder they work in.
LEVEL_RESPONSES = Path(".tmp", "agent-responses")
_TURN = re.compile(r"Turn: (\S+)")
_USAGE_LIMIT = "You've hit your usage limit. Try again later."
_TRANSIENT_ERROR = "API Error: 503 service unavailable"
_QUESTION = "May I run this command?"


class ScriptedHost:
    """An AgentHost, a TurnReporter and a Screen: every turn is one step of the script, done by `scripted_agent`."""

    def __init__(self, root: Path, script: Script, response_dir: Path, wd: Path) -> None:
        self._turns = TurnProcesses(root)
        self._root = root
        self._response_dir = response_dir
        self._wd = wd
        self._script = script if isinstance(script, scripts.Script) else read_script(script)
        self._positions_lock = threading.Lock()
        self._histories: dict[tuple[str, str], _KeyHistory] = {}

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
        # A cast is the terminals of one run, named after the first one: other runs in this folder do not count.
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
            # The worktrees of the agents of one run have the same parent folder.
            "cast": str(Path(working_directory).parent) if working_directory else text_of_file(self._root / "cast"),
        }
        return {"id": self._turns.create(idempotency_key, about), "session_name": session_name}

    def send_input(self, terminal_id: str, message: str) -> None:
        about = self._turns.about(terminal_id)
        cast, cwd = str(about.get("cast", "")), Path(about.get("cwd") or self._wd)
        played = level_turn_of(message) or _role_and_turn(message)
        if played is None:
            # A message that only labels the terminal for people.
            return
        if self._turns.stage(terminal_id)[0] is ProcessState.RUNNING:
            # A new prompt replaces a turn that is still running.
            self._turns.end(terminal_id)
        folder = self._turns.next_turn(terminal_id)
        write_atomically(folder / "prompt.md", message, durable=False)
        if isinstance(played, LevelTurn):
            self._order_level_turn(cast, played, folder)
            response = cwd / LEVEL_RESPONSES / f"{played.id}.md"
        else:
            role, turn = played
            orders = self._orders(cast, role, turn or f"{terminal_id}/{folder.name}")
            _write_orders(folder, orders)
            response = self._response_dir / RESPONSE_FILES[ROLE_DEFS[role].answer]
        # Isolated and without site: the agent needs nothing but the standard library, and starts in half the time.
        command = [sys.executable, "-I", "-S", scripted_agent.__file__, str(folder), str(response)]
        self._turns.begin(terminal_id, folder, ProcessSpec(command, None, cwd, os.environ))

    def get_status(self, terminal_id: str) -> str:
        status = self._turns.status(terminal_id)
        waits = status == "processing" and self._waiting_turn(terminal_id) is not None
        return "waiting_user_answer" if waits else status

    def get_last_output(self, terminal_id: str) -> str:
        turns = self._turns.turns(terminal_id)
        return text_of_file(turns[-1] / "said.md") if turns else ""

    def get_screen(self, terminal_id: str) -> str:
        turns = self._turns.turns(terminal_id)
        return text_of_file(turns[-1] / "out") + text_of_file(turns[-1] / "err") if turns else ""

    def press_key(self, terminal_id: str, key: str) -> None:
        """Every key answers an open question with yes."""
        folder = self._waiting_turn(terminal_id)
        if folder is not None:
            write_atomically(folder / "answer", key)

    def provider_error(self, terminal_id: str) -> str:
        turns = self._turns.turns(terminal_id)
        return _failure(turns[-1], *self._turns.stage(terminal_id)) if turns else ""

    def usage(self, terminal_id: str) -> Usage | None:
        return total_of([_usage_of(turn) for turn in self._turns.turns(terminal_id)])

    def exit_terminal(self, terminal_id: str) -> None:
        self._turns.remove(terminal_id)

    def close(self) -> None:
        """End the agents' processes; those of a driver that was killed continue."""
        self._turns.end_all()

    def _waiting_turn(self, terminal_id: str) -> Path | None:
        """The folder of a turn that waits for an answer."""
        turns = self._turns.turns(terminal_id)
        waits = turns and (turns[-1] / "question").exists() and not (turns[-1] / "answer").exists()
        return turns[-1] if waits else None

    def _orders(self, cast: str, role: Role, turn: str) -> Json:
        """The orders for one try of a turn of the cycle."""
        past = [orders["turn"] for orders in self._history(cast, "pid") if orders["role"] == role]
        # A turn that is asked again keeps its position in the script.
        known = list(dict.fromkeys([*past, turn]))
        step = self._script.step(role, turn, known.index(turn) + 1)
        if step is None:
            missing = f"the script has no step for {turn} ({role})"
            step = ScriptStep.model_validate({"fault": Fault.CRASH, "message": missing})
        return {"turn": turn, "role": role.value, **_role_orders(step, role, past.count(turn))}

    def _order_level_turn(self, cast: str, turn: LevelTurn, folder: Path) -> None:
        """Write the orders of a level's turn, under a lock: a parallel turn of the same key gets the next step."""
        key, steps = self._script.level_steps(turn)
        with self._positions_lock:
            position, tries = self._position(cast, key, turn) if _needs_history(steps) else (0, 0)
            orders = {"turn": turn.id, "role": key, **_level_orders(_step_at(steps, position, turn), turn, tries)}
            _write_orders(folder, orders)

    def _position(self, cast: str, key: str, turn: LevelTurn) -> tuple[int, int]:
        """How many turns used a key of the script before this one, and how often this one was tried before."""
        if (cast, key) not in self._histories:
            # Read once from the files of earlier drivers, then kept in memory: closing a terminal renames its folder.
            turns, tries = ([o["turn"] for o in self._history(cast, t) if o.get("role") == key] for t in _TRACES)
            self._histories[cast, key] = _KeyHistory(turns, Counter(tries))
        past = self._histories[cast, key]
        # A turn that is asked again keeps its position in the script.
        past.turns = list(dict.fromkeys([*past.turns, turn.id]))
        past.tries[turn.id] += 1
        return past.turns.index(turn.id), past.tries[turn.id] - 1

    def _history(self, cast: str, trace: str) -> list[Json]:
        """The orders of every try of a cast that wrote the file `trace`, oldest first, closed terminals included."""
        homes = [home for home in self._root.glob("*/terminal.json") if _json(home).get("cast") == cast]
        left = [file for home in homes for file in home.parent.glob(f"turn-*/{trace}")]
        return [_json(file.with_name("orders.json")) for file in sorted(left, key=_modified_at)]


@dataclass(slots=True)
class _KeyHistory:
    """The turns that used one key of the script, in order, and the number of tries of each."""

    turns: list[str]
    tries: Counter[str]


# Written with the orders, and when the process of a try starts.
_TRACES = ("orders.json", "pid")


def _write_orders(folder: Path, orders: Json) -> None:
    """Write the orders as JSON for this host, and marshalled for the agent, which loads no library to read them."""
    write_atomically(folder / "orders.json", json.dumps(orders), durable=False)
    texts = {key: _as_text(orders.get(source)) for key, source in (("say", "report"), ("failed", "failed"))}
    orders = orders | {key: text for key, text in texts.items() if text is not None}
    (folder / "orders").write_bytes(marshal.dumps(json.loads(json.dumps(orders))))


def _as_text(report: object) -> str | None:
    return None if report is None else json.dumps(report, ensure_ascii=False, indent=2) + "\n"


def _role_and_turn(message: str) -> tuple[Role, str] | None:
    """The role whose response file a prompt names last, and the id of the turn, if the prompt begins with it."""
    positions = {message.rfind(f"/{name}"): answer for answer, name in RESPONSE_FILES.items()}
    last = max(positions)
    if last < 0:
        return None
    role = next(role_def.role for role_def in ROLE_DEFS.values() if role_def.answer == positions[last])
    head = _TURN.match(message)
    return role, head[1] if head else ""


def _role_orders(step: ScriptStep, role: Role, tries: int) -> Json:
    """The orders of a step for a role, with a good response where the step has none."""
    response = step.say if step.say is not None else GOOD[role]
    if step.say is None and not step.run:
        response = response.replace("{verdict}", "PASS").replace("{output}\n", "")
    return {"say": response, **_common_orders(step, tries)}


def _level_orders(step: ScriptStep, turn: LevelTurn, tries: int = 0) -> Json:
    """The orders of a step for a level, whose response is a report unless the step has a text."""
    changes = step.report or {}
    edit = step.edit if "edit" in step.model_fields_set or step.say is not None else good_edit(turn, changes)
    report = good_report(turn, edit, changes) if step.say is None else None
    judged = turn.kind is TurnKind.VALIDATE and step.run and step.say is None and step.report is None
    failure = {"what": step.run, "expected": "exit code 0", "observed": "{output}"}
    return {
        **_common_orders(step, tries),
        "say": step.say,
        "edit": dict(edit),
        "report": report,
        "failed": {**(report or {}), "verdict": Verdict.FAIL.value, "failures": [failure]} if judged else None,
    }


def good_edit(turn: LevelTurn, changes: Mapping[str, Any]) -> Edit:
    """The edit of an author whose step names neither files nor a report with files: one function in one file."""
    if turn.kind is not TurnKind.AUTHOR or "files" in changes:
        return {}
    name = (turn.component or turn.level.name.lower()).replace("-", "_")
    head = f"def {name}() -> None:"
    # A component that is revisited must produce a diff.
    text = f"{head} ...\n" if turn.first else f'{head}\n    """Worked on again in {turn.id}."""\n'
    return {f"{name}.py": text}


def good_report(turn: LevelTurn, edit: Edit, changes: Mapping[str, Any]) -> Json:
    """A report about these changes that is accepted, with the values of `changes` over its own."""
    report = example(turn.kind, turn.level)
    if isinstance(changes.get("spec_updates"), Mapping):
        # As a mapping, so that sections missing from `changes` keep their text.
        report["spec_updates"] = {row["section"]: row["text"] for row in report["spec_updates"]}
    if turn.kind is TurnKind.AUTHOR:
        report |= {
            "files": [*edit],
            "tests": [path for path in edit if _is_test(path)],
            "provides": _public_names(edit),
        }
    return _merged(report, changes)


def _merged(report: Mapping[str, Any], changes: Mapping[str, Any]) -> Json:
    """A report with the values of `changes`: mappings are merged, other values replaced."""
    both = {
        key: _merged(cast(Json, report[key]), cast(Json, value)) if _are_mappings(report.get(key), value) else value
        for key, value in changes.items()
    }
    return {**report, **both}


def _are_mappings(*values: object) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def _is_test(path: str) -> bool:
    file = PurePosixPath(path)
    return bool(_TEST_NAME.search(file.name)) or not _TEST_FOLDERS.isdisjoint(file.parts[:-1])


def _public_names(edit: Edit) -> list[str]:
    """The public names that Python files define at top level."""
    texts = [text or "" for path, text in edit.items() if path.endswith(".py") and not _is_test(path)]
    return list(dict.fromkeys(name for text in texts for name in _DEFINED.findall(text)))


_TEST_NAME = re.compile(r"^test_|[._]test\.|\.spec\.")
_TEST_FOLDERS = frozenset({"test", "tests", "__tests__"})
_DEFINED = re.compile(r"^(?:async )?(?:def|class) ([A-Za-z]\w*)", re.MULTILINE)


def _needs_history(steps: tuple[ScriptStep, ...]) -> bool:
    return len(steps) > 1 or any(step.times is not None for step in steps)


def _step_at(steps: tuple[ScriptStep, ...], position: int, turn: LevelTurn) -> ScriptStep:
    if steps:
        return steps[min(position, len(steps) - 1)]
    return ScriptStep.model_validate({"fault": Fault.CRASH, "message": f"the script has no step for {turn.id}"})


def _common_orders(step: ScriptStep, tries: int) -> Json:
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
    """The message of a fault, worded so that it is recognised as that kind of error."""
    match fault:
        case Fault.USAGE_LIMIT:
            message = message or _USAGE_LIMIT
            return message if failure_kind_of(message) is FailureKind.LIMIT else f"usage limit reached: {message}"
        case Fault.TRANSIENT:
            message = message or _TRANSIENT_ERROR
            return message if failure_kind_of(message) is FailureKind.TRANSIENT else f"service unavailable: {message}"
        case Fault.CRASH:
            return message or "crashed, as the script says"
        case _:
            return message


def _usage_of(turn: Path) -> Usage | None:
    """The usage that a turn reported; None when it did not end normally."""
    usage = _json(turn / "orders.json").get("usage")
    return Spending.model_validate(usage).known() if usage and text_of_file(turn / "exit").strip() == "0" else None


def _failure(turn: Path, stage: ProcessState, code: int | None) -> str:
    if stage is ProcessState.RUNNING or (stage is ProcessState.ENDED and code == 0):
        return ""
    output = end_of(text_of_file(turn / "err"))
    is_provider_error = _json(turn / "orders.json").get("fault") in (Fault.USAGE_LIMIT, Fault.TRANSIENT)
    return output if is_provider_error and stage is not ProcessState.LOST else exit_message(stage, code, output)


def _modified_at(file: Path) -> int:
    """The time of the last change; 0 when the folder was renamed because its terminal was closed."""
    with suppress(OSError):
        return file.stat().st_mtime_ns
    return 0


def _json(path: Path) -> Json:
    with suppress(OSError, ValueError):
        return cast(Json, json.loads(path.read_text(encoding="utf-8")))
    return {}
