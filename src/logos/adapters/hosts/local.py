"""Agents without a server: Logos runs the agent CLI itself, one process per turn, in one conversation."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from logos.adapters.files import own_folder, write_atomically
from logos.adapters.hosts.processes import Job, Stage, TurnProcesses
from logos.adapters.hosts.providers import (
    COMMAND,
    LOST_CONVERSATION,
    PROVIDERS,
    Permission,
    Provider,
    Reading,
    command_provider,
    end_of,
)
from logos.domain.turns import Agent
from logos.domain.usage import Usage, total_of
from logos.errors import ConfigError, TerminalNotCreated
from logos.waiting.screens import plain

# A program's arguments may not be longer than this on some systems; a longer prompt goes by file.
MAX_ARGUMENT_BYTES = 100_000
SESSION = "local"


class LocalHost:
    """An AgentHost and a Reporter. Everything about a terminal is on disk, so a new driver finds it as it is."""

    def __init__(
        self,
        root: Path,
        wd: Path,
        env: Mapping[str, str],
        *,
        permission_of: Callable[[str], Permission],
        profile_text: Callable[[str], str],
        agent_command: str = "",
    ) -> None:
        self._turns = TurnProcesses(root)
        self._wd = wd
        self._env = env
        self._leave_of = permission_of
        self._profile_text = profile_text
        self._agent_command = agent_command
        # What ended turns said, by terminal: it does not change any more, so it is read once.
        self._ended: dict[str, dict[Path, Reading]] = {}
        self._warnings: dict[str, _GrowingFile] = {}

    def create_session(
        self, agent_profile: str, *, provider: str, idempotency_key: str = "", working_directory: str = ""
    ) -> Mapping[str, str]:
        return self.create_terminal(
            SESSION,
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
        row = self._checked(agent_profile, provider)
        about = {
            "profile": agent_profile,
            "provider": provider,
            "session": _new_name(row),
            "since": 0,
            "cwd": working_directory,
        }
        return {"id": self._turns.create(idempotency_key, about), "session_name": session_name}

    def preflight(self, agents: Iterable[Agent]) -> None:
        """Raise what would keep an agent from starting."""
        for agent in agents:
            self._checked(agent.profile, agent.provider)

    def _checked(self, profile: str, provider: str) -> Provider:
        row = self._row(provider)
        if self._program(row) is None:
            hint = f"; install it with `{row.install}`" if row.install else ""
            raise TerminalNotCreated(f"{profile} ({provider}): there is no program `{row.program}`{hint}")
        self._profile_text(profile)
        return row

    def send_input(self, terminal_id: str, message: str) -> None:
        about = self._turns.about(terminal_id)
        if message.startswith("/rename "):
            # A label for somebody who looks at the terminals of a server; there are none here.
            return
        if self._turns.stage(terminal_id)[0] is Stage.RUNNING:
            # It was given up; what an ended turn left running on purpose is none of our business.
            self._turns.end(terminal_id)
        row, turns = self._row(about["provider"]), self._turns.turns(terminal_id)
        if turns and LOST_CONVERSATION.search(self._complaint(terminal_id, turns[-1])):
            self._turns.note(terminal_id, {**about, "session": _new_name(row), "since": len(turns)})
        session = self._session(terminal_id)
        # A conversation that has no name yet, or whose name is new, begins.
        again = bool(session) and len(turns) > self._since(terminal_id)
        prompt = plain(message) if again else f"{self._profile_text(about['profile']).strip()}\n\n{plain(message)}"
        folder = self._turns.next_turn(terminal_id)
        file = folder / "prompt.md"
        write_atomically(file, prompt)
        leave, cwd = self._leave_of(about["profile"]), Path(about.get("cwd") or self._wd)
        words = [word.replace("{prompt_file}", str(file)) for word in row.arguments(leave, session, again)]
        command = [str(self._program(row)), *(word.replace("{cwd}", str(cwd)) for word in words)]
        if row.as_argument:
            long = len(prompt.encode()) > MAX_ARGUMENT_BYTES
            command.append(_by_reference(file if cwd == self._wd else _copy(file, cwd)) if long else prompt)
        env = {**row.env, **self._env, **(row.env_when_all if leave is Permission.ALL else {})}
        stdin = None if row.as_argument or row.name == COMMAND else file
        self._turns.begin(terminal_id, folder, Job(command, stdin, cwd, env))

    def get_status(self, terminal_id: str) -> str:
        stage, _ = self._turns.stage(terminal_id)
        return {Stage.NEVER: "idle", Stage.RUNNING: "processing"}.get(stage, "completed")

    def get_last_output(self, terminal_id: str) -> str:
        turns = self._turns.turns(terminal_id)
        return self._read(terminal_id, turns[-1]).final if turns else ""

    def provider_error(self, terminal_id: str) -> str:
        turns = self._turns.turns(terminal_id)
        return self._complaint(terminal_id, turns[-1]) if turns else ""

    def usage(self, terminal_id: str) -> Usage | None:
        told = [self._read(terminal_id, turn).usage for turn in self._turns.turns(terminal_id)]
        cumulative = self._row(self._turns.about(terminal_id)["provider"]).cumulative
        return told[-1] if told and cumulative else total_of(told)

    def exit_terminal(self, terminal_id: str) -> None:
        self._turns.remove(terminal_id)
        # A terminal with the same key may come after it.
        self._ended.pop(terminal_id, None)
        self._warnings.pop(terminal_id, None)

    def close(self) -> None:
        """A driver that leaves in order takes its agents' processes with it; one that is killed cannot."""
        self._turns.end_all()

    def _row(self, provider: str) -> Provider:
        if provider == COMMAND:
            if not self._agent_command.strip():
                raise ConfigError("provider `command` needs agent_command, with {prompt_file} in it")
            return command_provider(self._agent_command)
        if provider not in PROVIDERS:
            known = ", ".join((*PROVIDERS, COMMAND))
            raise ConfigError(f"unknown provider {provider!r} for the local host; known: {known}")
        return PROVIDERS[provider]

    def _program(self, row: Provider) -> str | None:
        return shutil.which(row.program, path=self._env.get("PATH"))

    def _read(self, terminal_id: str, turn: Path) -> Reading:
        known = self._ended.setdefault(terminal_id, {})
        if turn in known:
            return known[turn]
        # The stage comes first: a turn that ends in between is read again.
        ended = turn != self._turns.turns(terminal_id)[-1] or self._turns.stage(terminal_id)[0] is not Stage.RUNNING
        row = self._row(self._turns.about(terminal_id)["provider"])
        reading = row.reading(_text(turn / "out"), _text(turn / "err"))
        if ended:
            known[turn] = reading
        return reading

    def _session(self, terminal_id: str) -> str:
        """The conversation's name at its provider: given by us, or told by its first turns."""
        about = self._turns.about(terminal_id)
        if about["session"]:
            return str(about["session"])
        for turn in self._turns.turns(terminal_id)[self._since(terminal_id) :]:
            if session := self._read(terminal_id, turn).session:
                self._turns.note(terminal_id, {**about, "session": session})
                return session
        return ""

    def _since(self, terminal_id: str) -> int:
        """How many turns belong to a conversation that was lost."""
        return int(self._turns.about(terminal_id).get("since", 0))

    def _complaint(self, terminal_id: str, turn: Path) -> str:
        stage, code = self._turns.stage(terminal_id)
        if stage is Stage.RUNNING:
            return self._warning(terminal_id, turn / "err")
        error = self._read(terminal_id, turn).error
        if error or (stage is Stage.ENDED and code == 0):
            return plain(error)[:600]
        said = end_of(_text(turn / "err")) or end_of(_text(turn / "out"))
        how = "its process was killed" if stage is Stage.LOST else f"its process ended with {code}"
        return f"{how}{f': {said}' if said else ''}"

    def _warning(self, terminal_id: str, file: Path) -> str:
        """What a running turn said on its error stream that a person should know of."""
        stderr_warnings = self._row(self._turns.about(terminal_id)["provider"]).stderr_warnings
        if stderr_warnings is None:
            return ""
        if terminal_id not in self._warnings or self._warnings[terminal_id].file != file:
            self._warnings[terminal_id] = _GrowingFile(file)
        found = self._warnings[terminal_id].search(stderr_warnings)
        return plain(found[1])[:600] if found else ""


class _GrowingFile:
    """A file that is searched while it grows: complete lines without a match are not read again."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._offset = 0

    def search(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        with suppress(OSError), self.file.open("rb") as source:
            source.seek(self._offset)
            new = source.read()
            found = pattern.search(new.decode("utf-8", "replace"))
            if found is None:
                self._offset += new.rfind(b"\n") + 1
            return found
        return None


def _new_name(row: Provider) -> str:
    return str(uuid.uuid4()) if row.names_sessions else ""


def _copy(file: Path, cwd: Path) -> Path:
    """A prompt where an agent that may read nothing but its own folder can read it."""
    folder = cwd / ".tmp" / "agent-prompts"
    own_folder(folder.parent)
    own_folder(folder)
    copy = folder / f"{file.parents[1].name}-{file.parent.name}.md"
    write_atomically(copy, file.read_text(encoding="utf-8"))
    return copy


def _by_reference(file: Path) -> str:
    return f"Your instructions are in a file. Read the file '{file}' completely and follow it."


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
