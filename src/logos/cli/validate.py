"""`logos validate`: check a configuration before a run."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from logos.app.validate import validate as check_config
from logos.app.workdir import CONFIG
from logos.cli.options import AsJson, argument, command
from logos.cli.output import console as show
from logos.errors import UsageError

INVALID = UsageError.exit_code


@command("logos validate logos.json", "logos validate team.json --json | jq '.problems[] | {line, column, message}'")
def validate(
    config: Annotated[Path, argument("CONFIG", "The configuration; default: ./logos.json.")] = Path(CONFIG),
    as_json: AsJson = False,
) -> int:
    """Check a configuration as `logos run` would use it, with the environment: settings, prompt, providers, telos.toml.

    Every problem is shown, with file, line and column. Exit codes: 0 valid, 2 there are problems.
    """
    found = check_config(config, os.environ)
    if as_json:
        show.document({"config": str(config), "ok": not found.problems, **asdict(found)})
    else:
        target = show.console()
        for line in found.problems:
            show.put(target, f"problem: {line}", "red")
        for line in found.warnings:
            show.put(target, f"warning: {line}", "yellow")
        if not found.problems:
            show.put(target, f"{config} is valid", "green")
    return INVALID if found.problems else 0
