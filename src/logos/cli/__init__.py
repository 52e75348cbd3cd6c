"""The command line. Everything a command needs is imported when it runs, so that `logos --help` is there at once."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import sys
from collections.abc import Sequence

from logos.app.signals import interruptible
from logos.errors import Interrupted, LogosError, UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the one place where errors and signals become a line and an exit code.

    Our own bugs keep their traceback.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _print_whatever_comes()
    try:
        with interruptible():
            return _command(given)
    except (LogosError, Interrupted) as error:
        if error.exit_code == 128 + signal.SIGHUP:
            _let_go_of_the_terminal()
        return _fail(_words(error), error.exit_code, given, getattr(error, "__notes__", []))


def _command(given: list[str]) -> int:
    from typer import TyperException
    from typer.main import get_command

    from logos.cli.app import app

    try:
        done = get_command(app).main(args=given, prog_name="logos", standalone_mode=False)
    except TyperException as error:
        place = getattr(getattr(error, "ctx", None), "command_path", "logos")
        raise UsageError(f"{error.format_message().rstrip('.')} (see `{place} --help`)") from error
    return done if isinstance(done, int) else 0


def _let_go_of_the_terminal() -> None:
    """It is gone: whatever is still said to it would be an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for handle in (1, 2):
        if stat.S_ISCHR(os.fstat(handle).st_mode):
            os.dup2(nowhere, handle)


def _words(error: LogosError | Interrupted) -> str:
    if isinstance(error, Interrupted):
        return f"stopped by {signal.Signals(error.exit_code - 128).name}"
    return str(error) or type(error).__doc__ or type(error).__name__


def _fail(text: str, exit_code: int, given: Sequence[str], hints: Sequence[str] = ()) -> int:
    from logos.views.redact import one_line

    text, hints = one_line(text), [one_line(hint) for hint in hints]
    print(f"logos: {text}", *hints, sep="\n", file=sys.stderr, flush=True)
    if "--json" in (given[: given.index("--")] if "--" in given else given):
        document: dict[str, object] = {"error": text, "exit_code": exit_code}
        print(json.dumps({**document, "hint": " ".join(hints)} if hints else document, indent=2), flush=True)
    return exit_code


def _print_whatever_comes() -> None:
    """A terminal that cannot show a character shows `?` instead of ending the run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
