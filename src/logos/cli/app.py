"""The commands of `logos`, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from logos.cli import (
    build,
    compare,
    cost,
    demo,
    diff,
    doctor,
    fork,
    gc,
    init,
    lineage,
    log,
    profiles,
    record,
    report,
    reset,
    resolve,
    resume,
    rollback,
    run,
    runs,
    schema,
    sessions,
    show,
    status,
    telos,
    validate,
)

app = typer.Typer(
    name="logos",
    # Plain help: loading rich for it would take longer than showing it.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Runs a team of coding agents on your repository and does not let them fool you or lose your work.",
    epilog="Start here: `logos demo` shows a whole run without keys or servers; `logos init` sets up your own.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from logos import __version__

        typer.echo(f"logos {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def logos(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - typer calls back
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for name, command, epilog, short in (
    ("run", run.run, run.EXAMPLES, "Run the cycle, or go on with the unfinished run."),
    ("build", build.build, build.EXAMPLES, "Build a feature through nine levels, or go on with the unfinished build."),
    ("status", status.status, status.EXAMPLES, "Where the newest run stands, and what to do next."),
    ("log", log.log, log.EXAMPLES, "The events of a run; --follow for what comes."),
    ("show", show.show, show.EXAMPLES, "A prompt and its response, whole."),
    ("runs", runs.runs, runs.EXAMPLES, "Every run of this work dir."),
    ("cost", cost.cost, cost.EXAMPLES, "What a run cost, per role, phase and round."),
    ("resume", resume.resume, resume.EXAMPLES, "Go on with what is unfinished."),
    ("fork", fork.fork, fork.EXAMPLES, "Another run from a checkpoint, in a worktree of its own."),
    ("rollback", rollback.rollback, rollback.EXAMPLES, "Files and state as they were at a checkpoint."),
    ("reset", reset.reset, reset.EXAMPLES, "Give up the unfinished run."),
    ("sessions", sessions.sessions, sessions.EXAMPLES, "Who drove which run, when, and how it ended."),
    ("diff", diff.diff, diff.EXAMPLES, "What changed between two checkpoints."),
    ("compare", compare.compare, compare.EXAMPLES, "Two runs side by side."),
    ("gc", gc.gc, gc.EXAMPLES, "Remove old checkpoints."),
    ("report", report.report, report.EXAMPLES, "A run across its sessions: completed, pending, blocked, changed."),
    ("lineage", lineage.lineage, lineage.EXAMPLES, "What each file of a build was built for."),
    ("resolve", resolve.resolve, resolve.EXAMPLES, "Answer what a build could not decide."),
    ("telos", telos.telos, telos.EXAMPLES, "The project's purpose, level by level, and what proves each."),
    ("record", record.record, record.EXAMPLES, "A run as a script, to replay without agents."),
    ("init", init.init, init.EXAMPLES, "Write logos.json, prompt.md and telos.toml to start from."),
    ("validate", validate.validate, validate.EXAMPLES, "Check a configuration before a run."),
    ("doctor", doctor.doctor, doctor.EXAMPLES, "Is everything here that a run needs?"),
    ("demo", demo.demo, demo.EXAMPLES, "A whole run in seconds, no keys, no server."),
    ("schema", schema.schema, schema.EXAMPLES, "What a configuration may contain."),
):
    app.command(name, epilog=epilog, short_help=short)(command)
app.add_typer(profiles.app, name="profiles", short_help="The agents' profiles, and putting them on a CAO server.")
