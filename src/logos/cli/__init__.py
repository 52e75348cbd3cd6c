"""The command line: `main` runs one command and turns errors and signals into a message and an exit code."""

import io
import json
import os
import signal
import stat
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from typer import TyperException
from typer.main import get_command

from logos.cli.app import app as commands
from logos.errors import Interrupted, LogosError, UsageError
from logos.signals import interruptible
from logos.views.redact import one_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; unexpected exceptions keep their traceback."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        # Print `?` for a character that the terminal's encoding lacks, instead of raising an error.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        with _completing(), interruptible():
            done = get_command(commands).main(args=arguments, prog_name="logos", standalone_mode=False, obj=arguments)
            return done if isinstance(done, int) else 0
    except TyperException as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "logos")
        text = f"{error.format_message().rstrip('.')} (see `{command} --help`)"
        return _fail(text, UsageError.exit_code, arguments)
    except (LogosError, Interrupted) as error:
        if error.exit_code == 128 + signal.SIGHUP:
            _redirect_closed_terminal()
        text = str(error) or type(error).__doc__ or type(error).__name__
        return _fail(text, error.exit_code, arguments, getattr(error, "__notes__", []))


def _completing() -> AbstractContextManager[None]:
    if "_LOGOS_COMPLETE" not in os.environ:
        return nullcontext()
    from logos.cli.completion import in_bash  # noqa: PLC0415 - only a completion needs it

    return in_bash(os.environ)


def _redirect_closed_terminal() -> None:
    """Writing to a terminal after SIGHUP fails: send stdout and stderr to /dev/null instead."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        if stat.S_ISCHR(os.fstat(descriptor).st_mode):
            os.dup2(null, descriptor)


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or sys.maxsize
    except OSError:
        return sys.maxsize


def _fail(text: str, exit_code: int, arguments: Sequence[str], hints: Sequence[str] = ()) -> int:
    text, hints = one_line(text), [one_line(hint) for hint in hints]
    # Commands in hints are not broken: they are copied.
    # Folding needs a part of rich, which nothing else here does.
    from logos.cli.output.layout import fold  # noqa: PLC0415

    shown = "\n".join(fold(f"logos: {text}", _columns())) if sys.stderr.isatty() else f"logos: {text}"
    print(shown, *hints, sep="\n", file=sys.stderr, flush=True)
    if "--json" in (arguments[: arguments.index("--")] if "--" in arguments else arguments):
        hint = {"hint": " ".join(hints)} if hints else {}
        print(json.dumps({"error": text, "exit_code": exit_code, **hint}, indent=2), flush=True)
    return exit_code
