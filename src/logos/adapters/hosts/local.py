"""Agents without a server: Logos runs the agent CLI itself, one process per turn, in one conversation."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from logos.adapters.files import text_of_file, write_atomically
from logos.adapters.hosts.processes import ProcessSpec, ProcessState, TurnProcesses, exit_message
from logos.adapters.hosts.prompt_files import read_instruction, write_prompt
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

# Some systems limit the length of an argument; a longer prompt is passed as a file.
MAX_ARGUMENT_BYTES = 100_000
SESSION = "local"


class LocalHost:
    """An AgentHost and a TurnReporter. All state of a terminal is on disk, so a new driver can continue with it."""

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
        self._permission_of = permission_of
        self._profile_text = profile_text
        self._agent_command = agent_command
        # The output of ended turns, by terminal; it does not change, so it is read once.
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
        """Raise an error if an agent cannot start."""
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
            # A label for the terminals of a server; there are none here.
            return
        if self._turns.stage(terminal_id)[0] is ProcessState.RUNNING:
            # The turn was abandoned. Processes that an ended turn left running are not touched.
            self._turns.end(terminal_id)
        row, turns = self._row(about["provider"]), self._turns.turns(terminal_id)
        if turns and LOST_CONVERSATION.search(self._failure(terminal_id, turns[-1])):
            self._turns.note(terminal_id, {**about, "session": _new_name(row), "since": len(turns)})
        session = self._session(terminal_id)
        # A conversation without a name, or with a new one, starts now.
        again = bool(session) and len(turns) > self._since(terminal_id)
        prompt = plain(message) if again else f"{self._profile_text(about['profile']).strip()}\n\n{plain(message)}"
        folder = self._turns.next_turn(terminal_id)
        file = folder / "prompt.md"
        write_atomically(file, prompt)
        permission, cwd = self._permission_of(about["profile"]), Path(about.get("cwd") or self._wd)
        arguments = [part.replace("{prompt_file}", str(file)) for part in row.arguments(permission, session, again)]
        command = [str(self._program(row)), *(part.replace("{cwd}", str(cwd)) for part in arguments)]
        if row.as_argument and len(prompt.encode()) > MAX_ARGUMENT_BYTES:
            name = f"{terminal_id}-{folder.name}.md"
            command.append(read_instruction(file if cwd == self._wd else write_prompt(cwd, name, prompt)))
        elif row.as_argument:
            command.append(prompt)
        env = {**row.env, **self._env, **(row.env_when_all if permission is Permission.ALL else {})}
        stdin = None if row.as_argument or row.name == COMMAND else file
        self._turns.begin(terminal_id, folder, ProcessSpec(command, stdin, cwd, env))

    def get_status(self, terminal_id: str) -> str:
        return self._turns.status(terminal_id)

    def get_last_output(self, terminal_id: str) -> str:
        turns = self._turns.turns(terminal_id)
        return self._read(terminal_id, turns[-1]).final if turns else ""

    def provider_error(self, terminal_id: str) -> str:
        turns = self._turns.turns(terminal_id)
        return self._failure(terminal_id, turns[-1]) if turns else ""

    def usage(self, terminal_id: str) -> Usage | None:
        usages = [self._read(terminal_id, turn).usage for turn in self._turns.turns(terminal_id)]
        cumulative = self._row(self._turns.about(terminal_id)["provider"]).cumulative
        return usages[-1] if usages and cumulative else total_of(usages)

    def exit_terminal(self, terminal_id: str) -> None:
        self._turns.remove(terminal_id)
        # A new terminal may get the same key.
        self._ended.pop(terminal_id, None)
        self._warnings.pop(terminal_id, None)

    def close(self) -> None:
        """End the agents' processes; those of a driver that was killed continue."""
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
        # The stage is checked first: a turn that ends in between is read again.
        ended = (
            turn != self._turns.turns(terminal_id)[-1] or self._turns.stage(terminal_id)[0] is not ProcessState.RUNNING
        )
        row = self._row(self._turns.about(terminal_id)["provider"])
        reading = row.reading(text_of_file(turn / "out"), text_of_file(turn / "err"))
        if ended:
            known[turn] = reading
        return reading

    def _session(self, terminal_id: str) -> str:
        """The provider's name of the conversation: chosen by us, or reported in its first turns."""
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

    def _failure(self, terminal_id: str, turn: Path) -> str:
        stage, code = self._turns.stage(terminal_id)
        if stage is ProcessState.RUNNING:
            return self._warning(terminal_id, turn / "err")
        error = self._read(terminal_id, turn).error
        if error or (stage is ProcessState.ENDED and code == 0):
            return plain(error)[:600]
        output = end_of(text_of_file(turn / "err")) or end_of(text_of_file(turn / "out"))
        return exit_message(stage, code, output)

    def _warning(self, terminal_id: str, file: Path) -> str:
        """A warning on the error stream of a running turn that the user should see."""
        warnings = self._row(self._turns.about(terminal_id)["provider"]).stderr_warnings
        if warnings is None:
            return ""
        if terminal_id not in self._warnings or self._warnings[terminal_id].file != file:
            self._warnings[terminal_id] = _GrowingFile(file)
        found = self._warnings[terminal_id].search(warnings)
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
