"""Agents without a server: Logos runs the agent CLI itself, one process per turn, in one conversation."""

import os
import re
import shlex
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from logos.adapters.commands import exit_code, supervisor_of
from logos.adapters.files import end_of_file, open_regular, private_folder, read_instruction, write_prompt
from logos.adapters.hosts import providers
from logos.adapters.hosts.processes import Json, ProcessHost, exit_message
from logos.adapters.hosts.provider_output import Reading
from logos.adapters.hosts.providers import COMMAND, PROVIDERS, SESSION_FIELD, Grant, Permission, Provider
from logos.adapters.hosts.steps import Reader
from logos.adapters.programs import command_of
from logos.domain.turns import Agent, AgentName
from logos.domain.usage import Usage, total_of
from logos.errors import ConfigError, ProgramNotFound, TerminalNotCreated
from logos.waiting.screens import end_of, plain

# Some systems limit the length of an argument; a longer prompt is passed as a file.
MAX_ARGUMENT_BYTES = 100_000
# The CLI does not know the conversation: it was killed before it stored it.
LOST_CONVERSATION = re.compile(r"no conversation found|no rollout found|session not found", re.IGNORECASE)
# An output is read as a whole up to this size. Of a larger one, the beginning and the end are read, and between them
# the short rows: they say what was used and what was refused.
WHOLE_BYTES = 8_000_000
END_BYTES = 1_000_000
ROWS_BYTES = 2_000_000
_SHORT_ROW = re.compile(rb"\n(\{[^\n]{0,4000}\})(?=\n)")
# An agent without a response file may answer with its last words.
MAX_FINAL = 1_000_000
SESSION = "local"


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
        agents: Iterable[Agent] = (),
        is_supervised: Callable[[Path], object] = supervisor_of,
    ) -> None:
        super().__init__(root, wd, is_supervised=is_supervised)
        self._env = env
        self._permission_of = permission_of
        self._profile_text = profile_text
        self._agent_command = agent_command
        # The agents as they are configured, by name; what a terminal notes about itself could be changed by agents.
        self._agents = {agent.name: agent for agent in agents}
        # The output of ended turns, by terminal; it does not change, so it is read once.
        self._ended: dict[str, dict[Path, Reading]] = {}

    def preflight(self, agents: Iterable[Agent]) -> list[str]:
        """Raise an error if an agent cannot start; returns what the user should know."""
        agents = [*agents]
        used: dict[str, set[Permission]] = {}
        for agent in agents:
            row = self._startable(agent.profile, agent.provider)
            if refusal := row.refusal(agent):
                raise ConfigError(refusal)
            used.setdefault(row.name, set()).add(self._permission_of(agent.profile))
        rows = [self._row(name) for name in used]
        for row in rows:
            self._check(row, sandboxed=used[row.name] != {Permission.ALL})
        warnings = [row.warning for row in rows if row.warning and not row.refused_from]
        return warnings + [
            f"{agent.name} gets more arguments for {agent.provider} ({shlex.join(agent.args)}): they can allow it more "
            "than its role needs"
            for agent in agents
            if agent.args
        ]

    def _check(self, row: Provider, *, sandboxed: bool) -> None:
        """Raise an error if this version is unsafe, or if its sandbox would make every command fail."""
        program = self._command(row)
        if row.refused_from and row.refuses(version := providers.version_of(program, env=self._env)):
            hint = f"install {row.tested} with `{row.install}`"
            raise TerminalNotCreated(f"{row.name} is not started in version {version}: {row.warning}; {hint}")
        if sandboxed and (problem := row.sandbox_problem(program, self._env)):
            why = f"{problem}, so every command of its agents would fail"
            raise TerminalNotCreated(f"{row.name}: {why}; {providers.SANDBOX_REMEDY}")

    def _details(self, about: Mapping[str, str]) -> Json:
        return {"session": _new_name(self._startable(about["profile"], about["provider"])), "since": 0}

    def _startable(self, profile: str, provider: str) -> Provider:
        row = self._row(provider)
        try:
            self._command(row)
        except ProgramNotFound as error:
            hint = f"; install it with `{row.install}`" if row.install else ""
            raise TerminalNotCreated(f"{profile} ({provider}): {error}{hint}") from error
        self._profile_text(profile)
        return row

    def profile_text(self, profile: str, provider: str) -> str:  # noqa: ARG002
        """The first prompt of every conversation begins with this text."""
        return self._profile_text(profile)

    def remembers(self, provider: str) -> bool:
        """The person's own command continues a conversation only if it is told its name."""
        return provider != COMMAND or SESSION_FIELD in self._agent_command

    def send_input(self, terminal_id: str, message: str) -> None:
        about = self._about(terminal_id)
        if message.startswith("/rename "):
            # A label for the terminals of a server; there are none here.
            return
        # The turn was abandoned, or its supervisor was killed.
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
        agent = self._agents.get(AgentName(about.get("agent", "")))
        more = row.wishes(agent) if agent is not None and agent.provider == row.name else ()
        arguments = [part.replace("{prompt_file}", str(file)) for part in row.arguments(grant, session, again, more)]
        command = [*self._command(row), *(part.replace("{cwd}", str(cwd)) for part in arguments)]
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
        return row.permissions.get(self._permission_of(profile), Grant()).at(cwd, scratch)

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

    def _step_reader(self, terminal_id: str) -> Reader:
        return self._row(self._about(terminal_id)["provider"]).steps

    def _row(self, provider: str) -> Provider:
        if provider == COMMAND:
            if not self._agent_command.strip():
                raise ConfigError("provider `command` needs agent_command, with {prompt_file} in it")
            return providers.command_provider(self._agent_command)
        if provider not in PROVIDERS:
            known = ", ".join((*PROVIDERS, COMMAND))
            raise ConfigError(f"unknown provider {provider!r} for the local host; known: {known}")
        return PROVIDERS[provider]

    def _command(self, row: Provider) -> list[str]:
        return command_of(row.program, self._wd, self._env)

    def _read(self, terminal_id: str, turn: Path) -> Reading:
        known = self._ended.setdefault(terminal_id, {})
        if turn in known:
            return known[turn]
        # Checked before the output is read: a turn that ends in between is read again.
        ended = turn != self._turns(terminal_id)[-1] or not self._is_running(terminal_id)
        row = self._row(self._about(terminal_id)["provider"])
        reading = row.reading(output_of(turn / "out"), end_of_file(turn / "err", END_BYTES), exit_code(turn))
        reading = replace(reading, final=reading.final[-MAX_FINAL:])
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
            found = re.search(warnings, end_of_file(turn / "err", END_BYTES), re.IGNORECASE) if warnings else None
            return plain(found[1])[:600] if found else ""
        error, code = self._read(terminal_id, turn).error, exit_code(turn)
        if error or code == 0:
            return plain(error)[:600]
        return exit_message(code, end_of(end_of_file(turn / "err")) or end_of(end_of_file(turn / "out")))


def output_of(path: Path) -> str:
    """What a process printed, in bounded memory; empty if it cannot be read."""
    with suppress(OSError), open_regular(path) as source:
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        if size <= WHOLE_BYTES:
            return source.read(WHOLE_BYTES).decode("utf-8", "replace")
        parts, rows, end = [block := source.read(END_BYTES)], 0, size - END_BYTES
        while (left := end - source.tell()) > 0 and rows < ROWS_BYTES:
            block = _last_line(block) + source.read(min(END_BYTES, left))
            found = [match[1] for match in _SHORT_ROW.finditer(block)]
            parts += found
            rows += sum(map(len, found))
        cut = _last_line(block) if source.tell() == end else b""
        source.seek(end)
        return b"\n".join([*parts, cut + source.read(END_BYTES)]).decode("utf-8", "replace")
    return ""


def _last_line(block: bytes) -> bytes:
    """An incomplete row, from the newline before it; of one that is too long, enough to see that it is."""
    return block[block.rfind(b"\n") :][:5000] if b"\n" in block else b""


def _new_name(row: Provider) -> str:
    return str(uuid.uuid4()) if row.names_sessions else ""
