"""`logos schema`: what a configuration may contain."""

from __future__ import annotations

from typing import Annotated

import typer

from logos.cli.options import AsJson, examples

EXAMPLES = examples("logos schema > logos.schema.json", "logos schema --keys", "logos schema --keys --json")


def schema(
    keys: Annotated[
        bool, typer.Option("--keys", help="A table: key, environment variable, default, what it means.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Print the JSON Schema of the configuration file."""
    from logos.cli import show
    from logos.runtime.settings import LEAVES, json_schema

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
    show.put_table(show.console(), ("key", "environment", "default", "what it means"), rows)
    return 0


def _word(default: object) -> str:
    if default is None:
        return "unset"
    return str(default).lower() if isinstance(default, bool) else str(default) or '""'
