"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer
from typer.core import TyperCommand

from logos.cli.completion import known_checkpoints, known_runs


def flag(name: str, help: str) -> Any:
    return Option(name, help=help)


def value(metavar: str, help: str, **more: Any) -> Any:
    """An option with a value, named after its parameter."""
    return Option(metavar=metavar, help=help, **more)


def argument(metavar: str, help: str, **more: Any) -> Any:
    return Argument(metavar=metavar, help=help, **more)


AsJson = Annotated[bool, flag("--json", "Print one JSON document on stdout, everything else on stderr.")]
WorkDir = Annotated[
    Path | None, value("DIR", "The work dir; default: WD, `wd` in ./logos.json, the current directory.")
]
OneRun = Annotated[
    str | None, argument("RUN", "A run id or its beginning; default: the newest.", autocompletion=known_runs)
]
ThisRun = Annotated[str, argument("RUN", "A run id or its beginning.", autocompletion=known_runs)]
_SAME = "The same, of A's run unless it names another"
_CHECKPOINT = "An event's number, RUN@NUMBER, RUN, a turn's id, RUN@TURN, a date."
CHECKPOINT = argument("CHECKPOINT", _CHECKPOINT, autocompletion=known_checkpoints)
FROM = argument("A", f"{_CHECKPOINT} Default: the start of the newest run.", autocompletion=known_checkpoints)
TO = argument("B", f"{_SAME}; default: the files now.", autocompletion=known_checkpoints)
Output = Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Write to FILE; default: stdout.")]


class PlainCommand(TyperCommand):
    """Its help names an argument by its metavar alone, without the Python type that Typer adds."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        named = [(parameter, parameter.get_help_record(ctx)) for parameter in self.get_params(ctx)]
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            rows = [(own, record) for own, record in named if record is not None and own.param_type_name == kind]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(
                        [(own.metavar if kind == "argument" else name, text) for own, (name, text) in rows]
                    )


def command_group(help: str | None = None, epilog: str | None = None) -> Typer:
    """Commands without colours in their help: importing rich for it would take longer than printing it."""
    return Typer(help=help, epilog=epilog, rich_markup_mode=None, add_completion=False)


def examples(*lines: str) -> str:
    """An epilog whose line breaks are kept."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def command(*shown: str) -> Callable[[Callable[..., int | None]], Typer]:
    """Makes a command of a function; its help ends with the examples `shown`."""

    def declared(function: Callable[..., int | None]) -> Typer:
        group = command_group()
        group.command(cls=PlainCommand, epilog=examples(*shown))(function)
        return group

    return declared
