"""`logos validate`: check a configuration before a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from logos.app import validate as use_case
from logos.app.workdir import CONFIG
from logos.cli.options import AsJson, examples
from logos.cli.output import console as show

EXAMPLES = examples("logos validate logos.json", "logos validate team.json --json")


def validate(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The configuration; default: ./logos.json.")] = Path(
        CONFIG
    ),
    as_json: AsJson = False,
) -> int:
    """Check a configuration as `logos run` would use it, with the environment: settings, prompt, providers."""
    found = use_case.validate(config, os.environ)
    if as_json:
        details = {"problems": list(found.problems), "warnings": list(found.warnings)}
        show.document({"config": str(config), "ok": not found.problems, **details})
    else:
        target = show.console()
        for line in found.problems:
            show.put(target, f"problem: {line}", "red")
        for line in found.warnings:
            show.put(target, f"warning: {line}", "yellow")
        if not found.problems:
            show.put(target, f"{config} is valid", "green")
    return 1 if found.problems else 0
