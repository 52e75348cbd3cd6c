"""Agents without a server: Logos runs the agent CLI itself, one process per turn, in one conversation."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from logos.adapters.files import private_folder, text_of_file
from logos.adapters.hosts.cli_checks import SANDBOX_REMEDY, sandbox_problem, version_of, version_refused
from logos.adapters.hosts.processes import Json, ProcessHost, exit_code, exit_message
from logos.adapters.hosts.prompt_files import read_instruction, write_prompt
from logos.adapters.hosts.provider_output import Reading
from logos.adapters.hosts.providers import (
    COMMAND,
    LOST_CONVERSATION,
    PROVIDERS,
    Grant,
    Permission,
    Provider,
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
RESPONSES = Path(".tmp", "agent-responses")


class LocalHost(ProcessHost):
    """An AgentHost and a TurnReporter."""

    session_name = SESSION

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
        super().__init__(root, wd)
        self._env = env
        self._permission_of = permission_of
        self._profile_text = profile_text
        self._agent_command = agent_command
        # The output of ended turns, by terminal; it does not change, so it is read once.
        self._ended: dict[str, dict[Path, Reading]] = {}

    def preflight(self, agents: Iterable[Agent]) -> list[str]:
        """Raise an error if an agent cannot start; returns what the user should know."""
        used: dict[str, set[Permission]] = {}
        for agent in agents:
            row = self._startable(agent.profile, agent.provider)
            used.setdefault(row.name, set()).add(self._permission_of(agent.profile))
        rows = [self._row(name) for name in used]
        for row in rows:
            self._check(row, sandboxed=used[row.name] != {Permission.ALL})
        return [row.warning for row in rows if row.warning and not row.refused_from]

    def _check(self, row: Provider, *, sandboxed: bool) -> None:
        """Raise an error if this version is unsafe, or if its sandbox would make every command fail."""
        program = str(self._program(row))
        if row.refused_from and version_refused(row, version := version_of(program, env=self._env)):
            hint = f"install {row.tested} with `{row.install}`"
            raise TerminalNotCreated(f"{row.name} is not started in version {version}: {row.warning}; {hint}")
        if sandboxed and (problem := sandbox_problem(row, program, self._env)):
            raise TerminalNotCreated(
                f"{row.name}: {problem}, so every command of its agents would fail; {SANDBOX_REMEDY}"
            )

    def _details(self, about: Mapping[str, str]) -> Json:
        return {"session": _new_name(self._startable(about["profile"], about["provider"])), "since": 0}

    def _startable(self, profile: str, provider: str) -> Provider:
        row = self._row(provider)
        if self._program(row) is None:
            hint = f"; install it with `{row.install}`" if row.install else ""
            raise TerminalNotCreated(f"{profile} ({provider}): there is no program `{row.program}`{hint}")
        self._profile_text(profile)
        return row

    def send_input(self, terminal_id: str, message: str) -> None:
        about = self._about(terminal_id)
        if message.startswith("/rename "):
            # A label for the terminals of a server; there are none here.
            return
        if self._is_running(terminal_id):
            # The turn was abandoned. Processes that an ended turn left running are not touched.
            self._end(terminal_id)
        row, turns = self._row(about["provider"]), self._turns(terminal_id)
        if turns and LOST_CONVERSATION.search(self._failure(terminal_id, turns[-1])):
            about |= {"session": _new_name(row), "since": len(turns)}
            self._note(terminal_id, about)
        # `since`: how many turns belong to a conversation that was lost.
        ours = turns[int(about.get("since", 0)) :]
        session = self._session(terminal_id, about, ours)
        # A conversation without a name, or with a new one, starts now.
        again = bool(session and ours)
        prompt = plain(message) if again else f"{self._profile_text(about['profile']).strip()}\n\n{plain(message)}"
        folder = self._next_turn(terminal_id, prompt)
        file = folder / "prompt.md"
        cwd = Path(about.get("cwd") or self._wd)
        grant = self._grant(row, about["profile"], terminal_id, cwd)
        arguments = [part.replace("{prompt_file}", str(file)) for part in row.arguments(grant, session, again)]
        command = [str(self._program(row)), *(part.replace("{cwd}", str(cwd)) for part in arguments)]
        if row.as_argument and len(prompt.encode()) > MAX_ARGUMENT_BYTES:
            name = f"{terminal_id}-{folder.name}.md"
            command.append(read_instruction(file if cwd == self._wd else write_prompt(cwd, name, prompt)))
        elif row.as_argument:
            command.append(prompt)
        stdin = None if row.as_argument or row.name == COMMAND else file
        self._begin(folder, command, cwd, {**row.env, **self._env, **grant.env}, stdin)

    def _grant(self, row: Provider, profile: str, terminal_id: str, cwd: Path) -> Grant:
        scratch = self._root / terminal_id / "tmp"
        private_folder(scratch)
        return row.permissions.get(self._permission_of(profile), Grant()).at(cwd / RESPONSES, scratch)

    def get_last_output(self, terminal_id: str) -> str:
        turns = self._turns(terminal_id)
        return self._read(terminal_id, turns[-1]).final if turns else ""

    def provider_error(self, terminal_id: str) -> str:
        turns = self._turns(terminal_id)
        return self._failure(terminal_id, turns[-1]) if turns else ""

    def refused_calls(self, terminal_id: str) -> tuple[str, ...]:
        turns = self._turns(terminal_id)
        return self._read(terminal_id, turns[-1]).refused if turns else ()

    def usage(self, terminal_id: str) -> Usage | None:
        usages = [self._read(terminal_id, turn).usage for turn in self._turns(terminal_id)]
        cumulative = self._row(self._about(terminal_id)["provider"]).cumulative
        return usages[-1] if usages and cumulative else total_of(usages)

    def exit_terminal(self, terminal_id: str) -> None:
        super().exit_terminal(terminal_id)
        # A new terminal may get the same key.
        self._ended.pop(terminal_id, None)

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
        # Checked before the output is read: a turn that ends in between is read again.
        ended = turn != self._turns(terminal_id)[-1] or not self._is_running(terminal_id)
        row = self._row(self._about(terminal_id)["provider"])
        reading = row.reading(text_of_file(turn / "out"), text_of_file(turn / "err"), exit_code(turn))
        if ended:
            known[turn] = reading
        return reading

    def _session(self, terminal_id: str, about: Json, turns: list[Path]) -> str:
        """The provider's name of the conversation: chosen by us, or reported in its first turns."""
        if about["session"]:
            return str(about["session"])
        session = next((found for turn in turns if (found := self._read(terminal_id, turn).session)), "")
        if session:
            self._note(terminal_id, {**about, "session": session})
        return session

    def _failure(self, terminal_id: str, turn: Path) -> str:
        if self._is_running(terminal_id):
            # A warning on the error stream of a running turn that the user should see.
            warnings = self._row(self._about(terminal_id)["provider"]).stderr_warnings
            found = warnings.search(text_of_file(turn / "err")) if warnings is not None else None
            return plain(found[1])[:600] if found else ""
        error, code = self._read(terminal_id, turn).error, exit_code(turn)
        if error or code == 0:
            return plain(error)[:600]
        return exit_message(code, end_of(text_of_file(turn / "err")) or end_of(text_of_file(turn / "out")))


def _new_name(row: Provider) -> str:
    return str(uuid.uuid4()) if row.names_sessions else ""
