"""`logos schema`: what a configuration may contain."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from logos.cli.options import AsJson, examples

EXAMPLES = examples(
    "logos schema > logos.schema.json",
    "logos schema --keys",
    "logos schema --keys --json",
    "logos schema --script > script.schema.json      # of the scripts that `logos run --simulate` follows",
)


def schema(
    keys: Annotated[
        bool, typer.Option("--keys", help="A table: key, environment variable, default, what it means.")
    ] = False,
    script: Annotated[bool, typer.Option("--script", help="Of a script for `logos run --simulate` instead.")] = False,
    as_json: AsJson = False,
) -> int:
    """Print the JSON Schema of the configuration file."""
    from logos.cli import show
    from logos.runtime.settings import LEAVES, json_schema

    if script:
        show.document(script_schema())
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
    rows.append(("agents.ROLE.providers", "-", "none", "spares, in order, for on_limit = fallback; in the file only"))
    show.put_table(show.console(), ("key", "environment", "default", "what it means"), rows)
    return 0


def script_schema() -> dict[str, Any]:
    from logos.adapters.script import Script

    schema = Script.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Logos script"}


def _word(default: object) -> str:
    if default is None:
        return "unset"
    return str(default).lower() if isinstance(default, bool) else str(default) or '""'
