"""The agent CLIs that Logos can run itself: how each is started, continued and allowed. Rows, not classes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from logos.adapters.hosts.provider_output import (
    Printed,
    Reading,
    printed,
    read_claude,
    read_codex,
    read_copilot,
    read_gemini,
    read_goose,
    read_kimi,
    read_opencode,
    read_plain,
    read_qwen,
)
from logos.waiting.screens import last_lines, plain


class Permission(IntEnum):
    """What an agent may do, each level more than the one before."""

    RESPOND = 0  # read, write its response
    EDIT = 1  # change the work tree
    RUN = 2  # run commands
    ALL = 3  # anything, if the user allows it


@dataclass(frozen=True, slots=True)
class Grant:
    """What gives an agent a permission: arguments, and variables that replace those of the user.

    `{responses}` is the folder of response files, `{scratch}` a folder for temporary files; both stand inside quotes.
    """

    flags: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    def at(self, responses: Path, scratch: Path) -> Grant:
        places = {"{responses}": json.dumps(str(responses))[1:-1], "{scratch}": json.dumps(str(scratch))[1:-1]}

        def filled(text: str) -> str:
            for name, place in places.items():
                text = text.replace(name, place)
            return text

        return Grant(tuple(map(filled, self.flags)), {name: filled(value) for name, value in self.env.items()})


Grants = Mapping[Permission, Grant]

# The CLI does not know the conversation: it was killed before it stored it.
LOST_CONVERSATION = re.compile(r"no conversation found|no rollout found|session not found", re.IGNORECASE)


def _grants(edit: Grant, run: Grant, everything: Grant, respond: Grant | None = None) -> Grants:
    return {
        Permission.RESPOND: respond or edit,
        Permission.EDIT: edit,
        Permission.RUN: run,
        Permission.ALL: everything,
    }


def _flags(edit: tuple[str, ...], run: tuple[str, ...], everything: tuple[str, ...]) -> Grants:
    return _grants(Grant(edit), Grant(run), Grant(everything))


@dataclass(frozen=True, slots=True)
class Provider:
    """A CLI. `first` and `again` are its arguments; `{permissions}` and `{session}` are filled in.

    The prompt goes to its standard input, or with `as_argument` to the end of its arguments. `cumulative`: it reports
    the usage of the whole conversation. `names_sessions`: we choose the name of the session. `stderr_warnings` matches
    messages on the error stream of a waiting process that the user should see.

    `tested` is the version that our tests drive. A version from `refused_from` on is not started; `warning` says why,
    or what to know about every version. `sandbox_probe` succeeds where its sandbox works.
    """

    name: str
    program: str
    first: tuple[str, ...]
    again: tuple[str, ...]
    read: Callable[[Printed], Reading]
    install: str
    permissions: Grants = field(default_factory=dict[Permission, Grant])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    as_argument: bool = False
    cumulative: bool = False
    names_sessions: bool = False
    stderr_warnings: re.Pattern[str] | None = None
    login: tuple[str, ...] = ()
    tested: str = ""
    refused_from: str = ""
    warning: str = ""
    sandbox_probe: tuple[str, ...] = ()

    def arguments(self, grant: Grant, session: str, again: bool) -> list[str]:
        arguments = list[str]()
        for part in self.again if again else self.first:
            arguments += grant.flags if part == "{permissions}" else [part.replace("{session}", session)]
        return arguments

    def reading(self, output: str, errors: str, code: int | None) -> Reading:
        """What the output of a process contains; plain text if it has no JSON."""
        found = self.read(printed(output, errors, code))
        return Reading(final=plain(output).strip()) if found == Reading() else found


def version_numbers(text: str) -> tuple[int, ...]:
    """The version in what a program prints about itself; empty if there is none."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(map(int, found[0].split("."))) if found else ()


_OPENCODE = ("run", "--format", "json", "--print-logs", "--log-level", "ERROR", "{permissions}")
_GOOSE = ("--with-builtin", "developer", "--output-format", "json", "-i", "-")
_CLAUDE_EDITS = ("--permission-mode", "acceptEdits")
_COPILOT_EDITS = ("--allow-tool", "write", "--allow-tool", "shell(mkdir:*)")
_SANDBOX = Grant(("--sandbox", "workspace-write"))
# A sandbox in which all is read-only but the response; the shell needs a place for long here-documents.
_REVIEWER = Grant(
    (
        *("-c", 'default_permissions="logos"'),
        *("-c", 'permissions.logos.extends=":read-only"'),
        *("-c", 'permissions.logos.filesystem={"{responses}"="write","{scratch}"="write"}'),
    ),
    {"TMPDIR": "{scratch}"},
)
_NO_SHELL = ("--agent-file", str(Path(__file__).with_name("kimi_without_shell.yaml")))


def _opencode(**rules: object) -> Grant:
    """A refusal by a rule is an answer to the agent; a question that nobody answers would end its turn."""
    outside = {"*": "deny", "{responses}/*": "allow"}
    return Grant(env={"OPENCODE_PERMISSION": json.dumps({**rules, "external_directory": outside})})


ROWS: tuple[Provider, ...] = (
    Provider(
        name="codex",
        program="codex",
        first=("exec", "--json", "--skip-git-repo-check", "{permissions}", "-"),
        again=("exec", "--json", "--skip-git-repo-check", "{permissions}", "resume", "{session}", "-"),
        read=read_codex,
        install="npm install -g @openai/codex",
        permissions=_grants(
            _SANDBOX, _SANDBOX, Grant(("--dangerously-bypass-approvals-and-sandbox",)), respond=_REVIEWER
        ),
        cumulative=True,
        login=("login", "status"),
        tested="0.166.0",
        # It needs user namespaces; without them every command fails, and codex still ends with 0.
        sandbox_probe=("sandbox", "--", "true"),
    ),
    Provider(
        name="claude_code",
        program="claude",
        first=("-p", "--output-format", "stream-json", "--verbose", "{permissions}"),
        again=("-p", "--output-format", "stream-json", "--verbose", "{permissions}", "--resume", "{session}"),
        read=read_claude,
        install="npm install -g @anthropic-ai/claude-code",
        permissions=_grants(
            Grant(_CLAUDE_EDITS),
            Grant((*_CLAUDE_EDITS, "--allowedTools", "Bash")),
            # As root it skips permissions only in a sandbox.
            Grant(("--dangerously-skip-permissions",), {"IS_SANDBOX": "1"}),
        ),
        # By default it retries a refused key for minutes.
        env={"CLAUDE_CODE_MAX_RETRIES": "5"},
        login=("auth", "status"),
        tested="2.1.325",
    ),
    Provider(
        name="opencode_cli",
        program="opencode",
        first=(*_OPENCODE, "--title", "logos"),
        again=(*_OPENCODE, "--session", "{session}"),
        read=read_opencode,
        install="npm install -g opencode-ai",
        permissions=_grants(
            _opencode(bash="deny"),
            _opencode(),
            Grant(("--auto",)),
            respond=_opencode(bash="deny", edit={"*": "deny", "*.tmp/agent-responses/*": "allow"}),
        ),
        # It waits until a limit is reset and reports that only in its log.
        stderr_warnings=re.compile(r"AI_APICallError: ([^\"\n]*limit[^\"\n]*)", re.IGNORECASE),
        login=("auth", "list"),
        tested="1.18.33",
    ),
    Provider(
        name="gemini",
        program="gemini",
        first=("-o", "json", "{permissions}"),
        again=("-o", "json", "{permissions}", "--resume", "{session}"),
        read=read_gemini,
        install="npm install -g @google/gemini-cli",
        permissions=_flags(("--approval-mode", "auto_edit"), ("-y",), ("-y",)),
        # In a folder that nobody trusted at its own prompt it refuses to work.
        env={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        tested="0.61.0",
    ),
    Provider(
        name="qwen",
        program="qwen",
        first=("-o", "stream-json", "{permissions}"),
        again=("-o", "stream-json", "{permissions}", "--resume", "{session}"),
        read=read_qwen,
        install="npm install -g @qwen-code/qwen-code",
        permissions=_flags(("--approval-mode", "auto-edit"), ("-y",), ("-y",)),
        cumulative=True,
        tested="0.24.4",
    ),
    Provider(
        name="copilot_cli",
        program="copilot",
        first=("--output-format", "json", "{permissions}", "-p"),
        again=("--output-format", "json", "{permissions}", "--resume={session}", "-p"),
        read=read_copilot,
        install="npm install -g @github/copilot",
        permissions=_flags(_COPILOT_EDITS, ("--allow-tool", "write", "--allow-tool", "shell"), ("--allow-all",)),
        as_argument=True,
        cumulative=True,
        tested="1.0.102",
    ),
    Provider(
        name="kimi_cli",
        program="kimi",
        first=("--print", "--output-format", "stream-json", "{permissions}", "-p"),
        again=("--print", "--output-format", "stream-json", "{permissions}", "-r", "{session}", "-p"),
        read=read_kimi,
        install="pip install kimi-cli==1.51.0",
        # Whoever writes files needs the shell: its file tool cannot make folders.
        permissions=_grants(Grant(), Grant(), Grant(), respond=Grant(_NO_SHELL)),
        # It breaks the lines of its errors to fit.
        env={"COLUMNS": "1000"},
        as_argument=True,
        tested="1.51.0",
        refused_from="1.52",
        warning="kimi 1.52 pipes a script that it downloads into bash",
    ),
    Provider(
        name="goose",
        program="goose",
        first=("run", "-q", "-n", "{session}", *_GOOSE),
        again=("run", "-q", "-n", "{session}", "-r", *_GOOSE),
        read=read_goose,
        install="npm install -g @aaif/goose-binary-linux-x64",
        # Its other modes ask at a keyboard and end a turn without one.
        permissions=dict.fromkeys(Permission, Grant(env={"GOOSE_MODE": "auto"})),
        cumulative=True,
        names_sessions=True,
        tested="1.52.0",
        warning="goose knows no permissions without a keyboard: its agents may run any command, whatever their role",
    ),
)
PROVIDERS: dict[str, Provider] = {row.name: row for row in ROWS}
COMMAND = "command"


def command_provider(template: str) -> Provider:
    """Any other program: its command line with {prompt_file}, {session} and {cwd} in it."""
    program, *arguments = shlex.split(template)
    return Provider(COMMAND, program, tuple(arguments), tuple(arguments), read_plain, "", names_sessions=True)


def end_of(text: str, lines: int = 5) -> str:
    """The last lines of an output on one line, for a message."""
    return " ⏎ ".join(last_lines(text, lines))[:600]
