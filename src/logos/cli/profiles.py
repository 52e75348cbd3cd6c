"""`logos profiles`: list the agents' profiles that come with Logos, and install them on a CAO server."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from logos.app import profiles
from logos.cli.options import AsJson, examples
from logos.cli.output import console as show

app = typer.Typer(
    help="The agents' profiles that come with Logos.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog=examples("logos profiles list", "logos profiles install --api http://localhost:9889"),
)

Api = Annotated[
    str,
    typer.Option("--api", metavar="URL", help="The CAO server; default: API, `api` in ./logos.json, localhost:9889."),
]


@app.command("list", epilog=examples("logos profiles list", "logos profiles list --json"))
def list_profiles(api: Api = "", as_json: AsJson = False) -> int:
    """List the profiles, and whether the CAO server has them."""
    found = profiles.list_profiles(api)
    if as_json:
        show.document({"api": found.api, "profiles": [asdict(profile) for profile in found.profiles]})
        return 0
    words = {True: "yes", False: "no", None: "unknown"}
    rows = [(profile.name, words[profile.installed], profile.description) for profile in found.profiles]
    show.put_table(show.console(), ("profile", "installed", "what it is"), rows)
    if not found.server_answers:
        show.tell(f"no CAO server answers at {found.api}")
    return 0


@app.command("install", epilog=examples("logos profiles install", "logos profiles install --force --json"))
def install(
    api: Api = "",
    force: Annotated[bool, typer.Option("--force", help="Replace profiles of the same name.")] = False,
    as_json: AsJson = False,
) -> int:
    """Put the profiles into the CAO server's store."""
    done = profiles.install_profiles(api, force=force)
    if as_json:
        show.document({"api": done.api, "profiles": done.profiles})
        return 0
    for name, what in done.profiles.items():
        show.put(show.console(), f"{name}: {what}")
    return 0
