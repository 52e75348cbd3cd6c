"""The command group of `logos`: a command's module is imported when the command is used."""

import os
from importlib import import_module
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup
from typer.main import get_command

from logos import __version__

# Each command is a module of this package that defines a `Typer` of the same name; here is its line in the help.
COMMANDS = {
    "run": "Run the cycle, or resume the unfinished run.",
    "build": "Build a feature through nine levels, or resume the unfinished build.",
    "status": "Show where a run stands and what to do next.",
    "log": "Show the events of a run; --follow waits for new ones.",
    "show": "Show one prompt and its response in full.",
    "runs": "List the runs of this work dir, or of all.",
    "cost": "Show what a run cost, per role, phase and round.",
    "resume": "Resume the unfinished run or build.",
    "web": "Watch and steer every run in a browser.",
    "stop": "End the driver of a run; it can be resumed.",
    "fork": "Start another run from a checkpoint, in its own worktree.",
    "rollback": "Restore files and run state to a checkpoint.",
    "reset": "Abandon the unfinished run.",
    "sessions": "List who drove which run, when, and how it ended.",
    "diff": "Show what changed between two checkpoints.",
    "compare": "Compare two runs.",
    "gc": "Remove old checkpoints.",
    "report": "Report on a run across its sessions: done, pending, blocked, changed.",
    "proof": "Show what was proven of a run's result; export or repeat the proof.",
    "export": "Send the trace of a run to a collector.",
    "lineage": "Show what each file of a build was built for.",
    "approve": "Approve the gate, or the permission, that a run waits for.",
    "reject": "Reject what a run waits for, with words for the author.",
    "tell": "Tell an agent of a run something with its next prompt.",
    "resolve": "Answer the question a build is blocked on.",
    "telos": "Show the project's purpose per level, and the tools that prove each level.",
    "record": "Write a run as a script that replays it without agents.",
    "init": "Write logos.json, prompt.md and telos.toml to start from.",
    "validate": "Check a configuration before a run.",
    "doctor": "Check that everything a run needs is installed.",
    "demo": "Show a whole run in seconds, without keys or servers.",
    "schema": "Print the settings, or the JSON Schema of a file or report.",
    "profiles": "List the agents' profiles, or install them on a CAO server.",
}
VERBOSE = "Log to stderr what Logos does: -v retries and decisions, -vv also every request, observation and git call."


class CommandGroup(TyperGroup):
    """Knows every command's name and help line without importing it."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(COMMANDS, self)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command: Any = get_command(getattr(import_module(f"logos.cli.{cmd_name}"), cmd_name))
        command.short_help = COMMANDS[cmd_name]
        # `-v` works before and after the name of a command.
        verbose = next(parameter for parameter in self.params if parameter.name == "verbose")
        for leaf in getattr(command, "commands", {cmd_name: command}).values():
            leaf.params.append(verbose)
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _start_log(verbosity: int) -> None:
    if verbosity or os.environ.get("LOGOS_LOG"):
        from logos.app.debug_log import configure_logging  # noqa: PLC0415 - `logos --help` must not import logging

        configure_logging(verbosity, os.environ)


app = typer.Typer(
    name="logos",
    cls=CommandGroup,
    # Plain help: importing rich for it would take longer than printing it.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Runs a team of coding agents on your repository and does not let them fool you or lose your work.",
    epilog="Start here: `logos demo` shows a whole run without keys or servers; `logos init` sets up your own.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"logos {__version__}")
        raise typer.Exit


Version = Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")]
Verbose = Annotated[
    int,
    Option("--verbose", "-v", count=True, callback=_start_log, expose_value=False, show_default=False, help=VERBOSE),
]


@app.callback(invoke_without_command=True)
def logos(context: typer.Context, version: Version = False, verbose: Verbose = 0) -> None:  # noqa: ARG001 - typer calls back
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
