"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from logos.app.workdir import place_of, reading
from logos.errors import LogosError


def _known_runs(incomplete: str) -> list[str]:
    """Run ids for shell completion; an error must not print anything, so it completes nothing."""
    try:
        with reading(place_of(None)) as log:
            return [run for run in reversed(log.runs()) if run.startswith(incomplete)]
    except LogosError:
        return []


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, everything else on stderr.")]
WorkDir = Annotated[
    Path | None,
    typer.Option("--wd", metavar="DIR", help="The work dir; default: WD, `wd` in ./logos.json, the current directory."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; `logos schema --keys` lists them."),
]
Simulate = Annotated[
    Path | None,
    typer.Option("--simulate", metavar="SCRIPT", help="Agents follow this YAML script; no agent CLI, no model."),
]
Recreate = Annotated[
    bool, typer.Option("--recreate", help="On resume, open new terminals for agents whose terminals are gone.")
]
OneRun = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="A run id or its beginning; default: the newest.", autocompletion=_known_runs),
]
ThisRun = Annotated[str, typer.Argument(metavar="RUN", help="A run id or its beginning.", autocompletion=_known_runs)]


def repeated(settings: Iterable[str], simulate: Path | None) -> list[str]:
    """The options that a command to resume must repeat."""
    options = [part for setting in settings for part in ("--set", setting)]
    return [*options, *(("--simulate", str(simulate)) if simulate else ())]


def examples(*lines: str) -> str:
    """An epilog whose line breaks are kept."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
