"""The agent CLIs that Logos can run itself; providers.toml is the table of them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from importlib.resources import files
from pathlib import Path
from subprocess import DEVNULL
from types import MappingProxyType
from typing import Any, cast

from logos.adapters.hosts.provider_output import READERS, Json, Printed, Reading, printed
from logos.adapters.hosts.steps import Reader, plain_steps, step_reader
from logos.domain.turns import Agent
from logos.waiting.screens import end_of, plain

# For questions to a CLI about itself; no model is asked.
TIMEOUT_SECONDS = 30
# How programs report that they do not know an argument.
USAGE_ERROR = 2
# Relative to the folder in which an agent works.
RESPONSES = Path(".tmp", "agent-responses")
SANDBOX_REMEDY = (
    "allow user namespaces (Linux: `sysctl kernel.unprivileged_userns_clone=1 "
    "kernel.apparmor_restrict_unprivileged_userns=0`; Docker: `--security-opt seccomp=unconfined`), or set "
    "AUTO_ACCEPT_PERMISSIONS=1 where the machine itself is the sandbox"
)


class Permission(IntEnum):
    """What an agent may do, each level more than the one before."""

    RESPOND = 0  # read, write its response
    PLAN = 1  # write artifacts
    EDIT = 2  # change the work tree
    RUN = 3  # run commands
    ALL = 4  # anything, if the user allows it


@dataclass(frozen=True, slots=True)
class Grant:
    """What gives an agent a permission: arguments, and variables that replace those of the user.

    `{responses}` is the folder of response files, `{scratch}` one for temporary files, `{work_dir}` where the agent
    works; all stand inside quotes.
    """

    flags: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    # What the agent may do besides reading, in the words of docs/how-to/agents.md.
    may: str = ""

    def at(self, work_dir: Path, scratch: Path) -> Grant:
        folders = {"{responses}": work_dir / RESPONSES, "{scratch}": scratch, "{work_dir}": work_dir}
        places = {name: json.dumps(str(folder))[1:-1] for name, folder in folders.items()}

        def filled(text: str) -> str:
            for name, place in places.items():
                text = text.replace(name, place)
            return text

        return Grant(tuple(map(filled, self.flags)), {name: filled(value) for name, value in self.env.items()})


@dataclass(frozen=True, slots=True)
class Provider:
    """A CLI. `first` and `again` are its arguments; `{permissions}` and `{session}` are filled in.

    `model` are the arguments that name a `{model}`; empty where the CLI has none.

    The prompt goes to its standard input, or with `as_argument` to the end of its arguments. `cumulative`: it reports
    the usage of the whole conversation. `names_sessions`: we choose the name of the session. `stderr_warnings` matches
    messages on the error stream of a waiting process that the user should see.

    `tested` is the version that our tests drive. A version from `refused_from` on is not started; `warning` says why,
    or what to know about every version. `sandbox_probe` succeeds where its sandbox works. `reports_tokens` and
    `reports_cost` say what its turns are known to report.
    """

    name: str
    program: str
    first: tuple[str, ...]
    again: tuple[str, ...]
    read: Callable[[Printed], Reading]
    install: str
    permissions: Mapping[Permission, Grant] = field(default_factory=dict[Permission, Grant])
    model: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    as_argument: bool = False
    cumulative: bool = False
    names_sessions: bool = False
    stderr_warnings: str = ""
    login: tuple[str, ...] = ()
    tested: str = ""
    refused_from: str = ""
    warning: str = ""
    sandbox_probe: tuple[str, ...] = ()
    reports_tokens: bool = True
    reports_cost: bool = False

    def arguments(self, grant: Grant, session: str, again: bool, more: Sequence[str] = ()) -> list[str]:
        """All arguments but the prompt; `more` stand with those that grant permissions."""
        arguments = list[str]()
        for part in self.again if again else self.first:
            arguments += (*grant.flags, *more) if part == "{permissions}" else [part.replace("{session}", session)]
        return arguments

    def wishes(self, agent: Agent) -> list[str]:
        """The arguments for the model and the further ones that a person chose for an agent."""
        model = [part.replace("{model}", agent.model) for part in self.model] if agent.model else []
        return [*model, *agent.args]

    def refusal(self, agent: Agent) -> str:
        """Why an agent cannot be started as a person wishes; empty if it can."""
        wish = "model" if agent.model and not self.model else "args" if agent.args and not self.permissions else ""
        where = "write it into agent_command" if self.name == COMMAND else "set it in the CLI's own configuration"
        return f"agents.{agent.name}.{wish}: Logos cannot pass it to the provider {self.name}; {where}" if wish else ""

    def reading(self, output: str, errors: str, code: int | None) -> Reading:
        """What the output of a process contains; plain text if it has no JSON."""
        found = self.read(printed(output, errors, code))
        return Reading(final=plain(output).strip()) if found == Reading() else found

    @property
    def steps(self) -> Reader:
        """Reads what its agents do from a part of what it has printed."""
        return step_reader(self.program, lambda said: self.read(said).refused) if self.name != COMMAND else plain_steps

    def refuses(self, version: str) -> bool:
        """Whether this version must not be started."""
        return bool(self.refused_from) and version_numbers(version) >= version_numbers(self.refused_from)

    def is_older_than(self, version: str) -> bool:
        """Whether this version is newer than the one that our tests drive."""
        return bool(self.tested) and version_numbers(version) > version_numbers(self.tested)

    def sandbox_problem(self, program: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        """Why the CLI cannot keep its agents inside its sandbox; empty if it can, or if only a turn could tell."""
        code, text = ask(*program, *self.sandbox_probe, env=env) if self.sandbox_probe else (None, "")
        if code in (None, 0, USAGE_ERROR):
            return ""
        return f"its sandbox does not work here ({end_of(text, 1) or f'exit {code}'})"


def ask(*words: str, env: Mapping[str, str] | None = None) -> tuple[int | None, str]:
    """Exit code and output of a short command; no code when it fails to start or times out."""
    try:
        ran = subprocess.run(
            words, stdin=DEVNULL, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_SECONDS, env=env
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, ""
    return ran.returncode, ran.stdout or ran.stderr


def version_of(program: Sequence[str], flag: str = "--version", env: Mapping[str, str] | None = None) -> str:
    lines = [line.strip() for line in ask(*program, flag, env=env)[1].splitlines()]
    return next(filter(None, lines), "version unknown")


def version_numbers(text: str) -> tuple[int, ...]:
    """The version in what a program prints about itself; empty if there is none."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def _load(name: str, row: Json) -> Provider:
    def grant(flags: Sequence[str] = (), env: Mapping[str, str] = MappingProxyType({}), may: str = "") -> Grant:
        return Grant(tuple(flag.replace("{here}", str(Path(__file__).parent)) for flag in flags), env, may)

    given: Json = {key: tuple(cast(Any, it)) if isinstance(it, list) else it for key, it in row.items()}
    grants: Json = given.pop("permissions")
    permissions = {level: grant(**grants.get(level.name.lower(), grants["edit"])) for level in Permission}
    return Provider(name, read=READERS[row["program"]], permissions=permissions, **given)


_TABLE = files("logos.adapters.hosts").joinpath("providers.toml").read_text("utf-8")
PROVIDERS: dict[str, Provider] = {name: _load(name, row) for name, row in tomllib.loads(_TABLE).items()}
COMMAND = "command"
# Where a command is told the name of its conversation.
SESSION_FIELD = "{session}"
# A provider may be named by its program.
BY_PROGRAM = {row.program: row.name for row in PROVIDERS.values()}


def command_provider(template: str) -> Provider:
    """Any other program: its command line with {prompt_file}, {session} and {cwd} in it."""
    program, *arguments = shlex.split(template)
    words = tuple(arguments)
    named = SESSION_FIELD in template
    return Provider(COMMAND, program, words, words, lambda _: Reading(), "", names_sessions=named, reports_tokens=False)
