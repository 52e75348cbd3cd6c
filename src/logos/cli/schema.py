"""`logos schema`: what a configuration may contain."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from logos.cli.options import AsJson, examples
from logos.errors import UsageError

EXAMPLES = examples(
    "logos schema > logos.schema.json",
    "logos schema --keys",
    "logos schema --keys --json",
    "logos schema --script > script.schema.json      # of the scripts that `logos run --simulate` follows",
    "logos schema --state                            # of .telos/state.json, which a build writes",
    "logos schema --report decompose.L3              # of a level's report; `--report all` prints every one",
    "logos schema --telos                            # of telos.toml",
    "logos schema --output                           # of the documents that commands print with --json",
)


def schema(
    keys: Annotated[
        bool, typer.Option("--keys", help="A table: key, environment variable, default, what it means.")
    ] = False,
    script: Annotated[bool, typer.Option("--script", help="Of a script for `logos run --simulate` instead.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Of .telos/state.json instead.")] = False,
    telos: Annotated[bool, typer.Option("--telos", help="Of telos.toml instead.")] = False,
    output: Annotated[bool, typer.Option("--output", help="Of what commands print with --json instead.")] = False,
    report: Annotated[
        str, typer.Option("--report", metavar="KIND", help="Of a level's report instead: author, decompose.L3 …, all.")
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Print the JSON Schema of the configuration file."""
    from logos.app.settings import LEAVES, json_schema
    from logos.cli.output import console as show

    other = _other(script=script, state=state, telos=telos, output=output, report=report)
    if other is not None:
        show.document(other)
        return 0
    if not keys:
        show.document(json_schema())
        return 0
    if as_json:
        show.document(
            [
                {"key": leaf.key, "env": leaf.env, "default": leaf.default, "description": leaf.description}
                for leaf in LEAVES
            ]
        )
        return 0
    rows = [(leaf.key, leaf.env, _word(leaf.default), leaf.description) for leaf in LEAVES]
    rows.append(("agents.ROLE.provider", "-", "provider", "the agent CLI of one role; in the file only"))
    rows.append(("agents.ROLE.profile", "-", "its own", "the profile of one role; in the file only"))
    rows.append(("level_agents.LEVEL.*", "-", "as above", "the same for a level of a build, L1 to L9"))
    rows.append(("agents.ROLE.providers", "-", "none", "spares, in order, for on_limit = fallback; in the file only"))
    show.put_table(show.console(), ("key", "environment", "default", "what it means"), rows)
    return 0


def _other(*, script: bool, state: bool, telos: bool, output: bool, report: str) -> dict[str, Any] | None:
    """A schema other than the configuration's."""
    if script:
        return script_schema()
    if state:
        from logos.views.build_state import state_schema

        return state_schema()
    if telos:
        from logos.app.telos_file import telos_schema

        return telos_schema()
    if output:
        from logos.views.document_schema import output_schema

        return output_schema()
    return report_schema(report) if report else None


def report_schema(wanted: str) -> dict[str, Any]:
    from logos.adapters.reports import report_schemas

    schemas = report_schemas()
    if wanted == "all":
        return dict(schemas)
    if wanted not in schemas:
        raise UsageError(f"--report {wanted}: there is no such report; there are {', '.join(schemas)}, and all")
    return schemas[wanted]


def script_schema() -> dict[str, Any]:
    from logos.adapters.hosts.script import Script

    schema = Script.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Logos script"}


def _word(default: object) -> str:
    if default is None:
        return "unset"
    return str(default).lower() if isinstance(default, bool) else str(default) or '""'
