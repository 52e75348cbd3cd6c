"""Deterministic agents from a script, as real processes that write real files and outlive their driver."""

import json
import marshal
import re
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Unpack, cast

from logos.adapters.commands import exit_code
from logos.adapters.files import bytes_of_file, end_of_file, text_of_file, write_atomically
from logos.adapters.hosts import script as scripts
from logos.adapters.hosts import scripted_agent
from logos.adapters.hosts.processes import Json, ProcessHost, exit_message, read_about
from logos.adapters.hosts.script import GOOD, Fault, LevelTurn, ScriptStep, level_turn_of, read_script
from logos.adapters.programs import own_environment
from logos.adapters.reports import example
from logos.domain.reports import TurnKind, Verdict
from logos.domain.roles import ACCEPTANCE_FILE, ACCEPTANCE_TESTER, RESPONSE_FILES, ROLE_DEFS, Role
from logos.domain.turns import FailureKind
from logos.domain.usage import Usage, total_of
from logos.ports import TerminalOptions
from logos.waiting.provider_errors import failure_kind_of
from logos.waiting.screens import end_of

# A validated script, or a mapping from roles to steps.
Script = scripts.Script | Mapping[str, Any]
# Files to write, a mapping as `FileEdit`; None: delete the file.
Edit = Mapping[str, str | Json | None]

SESSION = "scripted"
# Where agents of levels leave their responses, in the folder they work in.
LEVEL_RESPONSES = Path(".tmp", "agent-responses")
_TURN = re.compile(r"Turn: (\S+)")
_ACCEPTANCE = re.compile(rf"Turn: r\d+\.{ACCEPTANCE_TESTER}\.c\d+\n")
_QUESTION = "May I run this command?"
# The default message of a provider error, its kind, and what makes another message be recognised as that kind.
_PROVIDER_ERRORS = {
    Fault.USAGE_LIMIT: ("You've hit your usage limit. Try again later.", FailureKind.LIMIT, "usage limit reached"),
    Fault.TRANSIENT: ("API Error: 503 service unavailable", FailureKind.TRANSIENT, "service unavailable"),
}


class ScriptedHost(ProcessHost):
    """An AgentHost, a TurnReporter and a Screen: every turn is one step of the script, done by `scripted_agent`."""

    session_name = SESSION

    def __init__(self, root: Path, script: Script, response_dir: Path, wd: Path) -> None:
        super().__init__(root, wd)
        self._response_dir = response_dir
        self._script = script if isinstance(script, scripts.Script) else read_script(script)
        # By cast and key of the script: how often each turn was tried, in the order of their first tries.
        self._histories: dict[str, dict[str, dict[str, int]]] = {}
        self._histories_lock = threading.Lock()

    def create_session(self, agent_profile: str, **options: Unpack[TerminalOptions]) -> Mapping[str, str]:
        made = super().create_session(agent_profile, **options)
        if not options.get("working_directory"):
            # A cast is the terminals of one run, named after the first one: other runs in this folder do not count.
            self._note(made["id"], {**self._about(made["id"]), "cast": made["id"]})
            write_atomically(self._root / "cast", made["id"])
        return made

    def _details(self, about: Mapping[str, str]) -> Json:
        # The worktrees of the agents of one run have the same parent folder.
        return {"cast": str(Path(about["cwd"]).parent) if about["cwd"] else text_of_file(self._root / "cast")}

    def send_input(self, terminal_id: str, message: str) -> None:
        about = self._about(terminal_id)
        acceptance = ACCEPTANCE_TESTER if _ACCEPTANCE.match(message) else None
        who = level_turn_of(message) or acceptance or role_of(message)
        if who is None:
            # A message that only labels the terminal for people.
            return
        # A new prompt replaces a turn that is still running.
        self._end(terminal_id)
        folder, cwd = self._next_turn(terminal_id, message), Path(about.get("cwd") or self._wd)
        head = _TURN.match(message)
        turn = head[1] if head else f"{terminal_id}/{folder.name}"
        missing = f"the script has no step for {turn} ({who})"
        if isinstance(who, LevelTurn):
            turn, missing = who.id, f"the script has no step for {who.id}"
            key, steps = self._script.steps(who.keys)
            response = cwd / LEVEL_RESPONSES / f"{turn}.md"
        elif who == ACCEPTANCE_TESTER:
            key, steps = self._script.steps((turn, ACCEPTANCE_TESTER))
            # There are no good tests of a project that nobody knows.
            steps, key = steps if key else (), ACCEPTANCE_TESTER
            response = self._response_dir / ACCEPTANCE_FILE
        else:
            key, steps = str(who), self._script.steps((turn, who))[1]
            response = self._response_dir / RESPONSE_FILES[ROLE_DEFS[Role(who)].answer]
        position, tries = self._position(str(about.get("cast", "")), key, turn)
        crash = ScriptStep.model_validate({"fault": Fault.CRASH, "message": missing})
        step = steps[min(position, len(steps) - 1)] if steps else crash
        orders = {**_orders(step, who, tries), "turn": turn, "role": key}
        # Marshalled, because the agent loads no library to read them.
        write_atomically(folder / "orders", marshal.dumps(orders), durable=False)
        # Isolated and without site: the agent needs nothing but the standard library, and starts in half the time.
        command = [sys.executable, "-I", "-S", scripted_agent.__file__, str(folder), str(response)]
        self._begin(folder, command, cwd, own_environment())

    def get_status(self, terminal_id: str) -> str:
        status = super().get_status(terminal_id)
        waits = status == "processing" and self._waiting_turn(terminal_id) is not None
        return "waiting_user_answer" if waits else status

    def get_last_output(self, terminal_id: str) -> str:
        turns = self._turns(terminal_id)
        return text_of_file(turns[-1] / "said.md") if turns else ""

    def get_screen(self, terminal_id: str) -> str:
        turns = self._turns(terminal_id)
        return end_of_file(turns[-1] / "out") + end_of_file(turns[-1] / "err") if turns else ""

    def press_key(self, terminal_id: str, key: str) -> None:
        """Every key answers an open question with yes."""
        folder = self._waiting_turn(terminal_id)
        if folder is not None:
            write_atomically(folder / "answer", key)

    def provider_error(self, terminal_id: str) -> str:
        turns = self._turns(terminal_id)
        if not turns or self._is_running(terminal_id) or (code := exit_code(turns[-1])) == 0:
            return ""
        output = end_of(end_of_file(turns[-1] / "err"))
        is_provider_error = code is not None and _orders_in(turns[-1]).get("fault") in _PROVIDER_ERRORS
        return output if is_provider_error else exit_message(code, output)

    def usage(self, terminal_id: str) -> Usage | None:
        """The usage that the turns reported; those that did not end normally report none."""
        reported = [
            _orders_in(turn).get("usage") if exit_code(turn) == 0 else None for turn in self._turns(terminal_id)
        ]
        return total_of([Usage(**usage) if usage else None for usage in reported])

    def refused_calls(self, terminal_id: str) -> tuple[str, ...]:
        del terminal_id
        return ()

    def _waiting_turn(self, terminal_id: str) -> Path | None:
        turns = self._turns(terminal_id)
        waits = turns and (turns[-1] / "question").exists() and not (turns[-1] / "answer").exists()
        return turns[-1] if waits else None

    def _position(self, cast: str, key: str, turn: str) -> tuple[int, int]:
        """How many turns used a key of the script before this one, and how often this one was tried before."""
        # The lock gives a parallel turn of the same key the next step.
        with self._histories_lock:
            if cast not in self._histories:
                # Read once, then kept in memory: closing a terminal renames its folder.
                self._histories[cast] = self._history(cast)
            tries = self._histories[cast].setdefault(key, {})
            # A turn that is asked again keeps its position in the script.
            tries[turn] = tries.get(turn, 0) + 1
            return list(tries).index(turn), tries[turn] - 1

    def _history(self, cast: str) -> dict[str, dict[str, int]]:
        """The tries of a cast by key and turn, as earlier drivers left them, closed terminals included."""
        history: dict[str, dict[str, int]] = {}
        files: list[tuple[int, Path]] = []
        for home in self._root.glob("*/terminal.json"):
            # The folder may be renamed in between.
            with suppress(OSError, ValueError):
                if read_about(home).get("cast") == cast:
                    files += [(file.stat().st_mtime_ns, file) for file in home.parent.glob("turn-*/orders")]
        for _, file in sorted(files):
            if orders := _orders_in(file.parent):
                tries = history.setdefault(orders["role"], {})
                tries[orders["turn"]] = tries.get(orders["turn"], 0) + file.with_name("pid").exists()
        return history


def role_of(prompt: str) -> Role | None:
    """The role whose response file a prompt names last."""
    positions = {prompt.rfind(f"/{RESPONSE_FILES[row.answer]}"): role for role, row in ROLE_DEFS.items()}
    last = max(positions)
    return positions[last] if last >= 0 else None


def _orders(step: ScriptStep, who: str | LevelTurn, tries: int) -> Json:
    """What an agent's process does in one try of a turn: the step, with a good response where it has none."""
    fault = step.fault if step.times is None or tries < step.times else None
    orders = {
        **step.model_dump(mode="json", include={"delay", "after", "edit", "run", "usage"}),
        "fault": fault.value if fault is not None else None,
        "message": _message(fault, step.message),
        "question": step.question or _QUESTION,
    }
    if step.say is not None:
        return {**orders, "say": step.say}
    if isinstance(who, LevelTurn):
        return {**orders, **_level_response(step, who)}
    good = GOOD[Role(who)] if who != ACCEPTANCE_TESTER else "no acceptance tests"
    return {**orders, "say": good if step.run else good.replace("{verdict}", "PASS").replace("{output}\n", "")}


def _level_response(step: ScriptStep, turn: LevelTurn) -> Json:
    """A level's response is a report; a validation with a command may have `failed`."""
    changes = step.report or {}
    edit = step.model_dump(mode="json")["edit"] if "edit" in step.model_fields_set else good_edit(turn, changes)
    report = good_report(turn, edit, changes)
    orders = {"say": _as_text(report), "edit": dict(edit), "is_report": True}
    if turn.kind is TurnKind.VALIDATE and step.run and step.report is None:
        failure = {"what": step.run, "expected": "exit code 0", "observed": "{output}"}
        orders["failed"] = _as_text({**report, "verdict": Verdict.FAIL.value, "failures": [failure]})
    return orders


def _as_text(report: Json) -> str:
    return json.dumps(report, ensure_ascii=False, indent=2) + "\n"


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
        tests = [path for path in edit if _TEST.search(path)]
        files = {path: file.get("text") if isinstance(file, dict) else file for path, file in edit.items()}
        code = [text or "" for path, text in files.items() if path.endswith(".py") and path not in tests]
        public = dict.fromkeys(name for text in code for name in _DEFINED.findall(text))
        why = "" if tests else "The script of this agent names none."
        report |= {"files": [*edit], "tests": tests, "why_no_tests": why, "provides": [*public]}
    return _merged(report, changes)


def _merged(report: Mapping[str, Any], changes: Mapping[str, Any]) -> Json:
    """A report with the values of `changes`: mappings are merged, other values replaced."""
    merged = dict(report)
    for key, value in changes.items():
        old = report.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(cast(Json, old), cast(Json, value)) if both else value
    return merged


# By the name of the file or of a folder.
_TEST = re.compile(r"(?:^|/)(?:tests?|__tests__)/|(?:^|/)test_[^/]*$|(?:[._]test|\.spec)\.[^/]*$")
# The public names that a Python file defines at top level.
_DEFINED = re.compile(r"^(?:async )?(?:def|class) ([A-Za-z]\w*)", re.MULTILINE)


def _message(fault: Fault | None, message: str) -> str:
    """The message of a fault, worded so that it is recognised as that kind of error."""
    if fault is Fault.CRASH:
        return message or "crashed, as the script says"
    if fault is None or fault not in _PROVIDER_ERRORS:
        return message
    default, kind, prefix = _PROVIDER_ERRORS[fault]
    message = message or default
    return message if failure_kind_of(message) is kind else f"{prefix}: {message}"


def _orders_in(turn: Path) -> Json:
    with suppress(OSError, ValueError, EOFError, TypeError):
        return cast(Json, marshal.loads(bytes_of_file(turn / "orders")))
    return {}
