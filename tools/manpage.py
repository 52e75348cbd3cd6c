"""Writes the manual page of `logos`, made from the help of its commands; `make man` writes docs/logos.1."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from typer import Context
from typer.main import get_command

from logos import __version__
from logos.cli.app import COMMANDS, app

FILES = (
    ("logos.json", "the configuration; `logos schema` prints its schema"),
    ("prompt.md", "the task, as `logos init` writes it"),
    ("telos.toml", "purpose and tools of a project, for builds"),
    (".telos/", "the log of the runs of this work dir"),
    ("~/.local/state/logos/", "the mirror of every log, and clean rooms"),
)
EXIT = ((0, "PASS"), (1, "FAIL or error"), (2, "usage"), (3, "blocked"), (4, "limit or budget reached"))


def text(words: str) -> str:
    """Plain words as roff: nothing in them is a request or an escape."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(character if character.isascii() else f"\\[u{ord(character):04X}]" for character in escaped)
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in escaped.splitlines())


def code(words: str) -> str:
    """The same with what stands between backquotes in bold."""
    return re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text(words))


def paragraphs(words: str) -> str:
    parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", words.strip())]
    return "\n.PP\n".join(code(part) for part in parts if part)


def parameters(command: Any) -> list[str]:
    lines: list[str] = []
    context = Context(command)
    for parameter in command.params:
        record = parameter.get_help_record(context) if parameter.param_type_name == "option" else None
        if record is not None:
            lines += [".TP", f"\\fB{text(record[0])}\\fR", code(" ".join(record[1].split()))]
        elif parameter.param_type_name == "argument":
            lines += [
                ".TP",
                f"\\fI{text(parameter.metavar or parameter.name)}\\fR",
                code(getattr(parameter, "help", "") or ""),
            ]
    return lines


def leaves(name: str, command: Any) -> list[tuple[str, Any]]:
    inner: dict[str, Any] = getattr(command, "commands", {})
    return [(f"{name} {own}", leaf) for own, leaf in inner.items()] or [(name, command)]


def page() -> str:
    group: Any = get_command(app)
    lines = [
        f'.TH LOGOS 1 "" "logos {__version__}" "User Commands"',
        ".SH NAME",
        text("logos - run a team of coding agents"),
    ]
    lines += [".SH SYNOPSIS", "\\fBlogos\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]", ".SH DESCRIPTION"]
    lines += [paragraphs(group.help), ".SH COMMANDS"]
    for name, summary in COMMANDS.items():
        for title, leaf in leaves(name, group.get_command(None, name)):
            lines += [f".SS logos {text(title)}", paragraphs(leaf.help or summary), *parameters(leaf)]
    lines += [".SH FILES", *(line for file, what in FILES for line in (".TP", f"\\fI{text(file)}\\fR", code(what)))]
    lines += [".SH EXIT STATUS", *(line for number, what in EXIT for line in (".TP", str(number), text(what)))]
    lines += [".SH ENVIRONMENT", code("Every setting has a variable: `logos schema --keys` lists them.")]
    return "\n".join(line for line in lines if line) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "ascii")
