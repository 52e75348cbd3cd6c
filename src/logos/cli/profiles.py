"""`logos profiles`: the agents' profiles that come with Logos, and putting them on a CAO server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from logos.cli.options import AsJson, examples

if TYPE_CHECKING:
    from logos.adapters.hosts.cao import ApiClient

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
    from logos import profiles
    from logos.app.hosts import server_client
    from logos.cli.output import console as show
    from logos.errors import HostError

    host = server_client(api)
    try:
        host.preflight((), patience=0)
        there = host.profiles()
    except HostError:
        there = None
    finally:
        host.close()
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "description": _about(profiles.text(name)),
            "installed": None if there is None else name in there,
        }
        for name in profiles.names()
    ]
    if as_json:
        show.document({"api": host.base_url, "profiles": rows})
        return 0
    words = {True: "yes", False: "no", None: "unknown"}
    show.put_table(
        show.console(),
        ("profile", "installed", "what it is"),
        [(row["name"], words[row["installed"]], row["description"]) for row in rows],
    )
    if there is None:
        show.tell(f"no CAO server answers at {host.base_url}")
    return 0


@app.command("install", epilog=examples("logos profiles install", "logos profiles install --force --json"))
def install(
    api: Api = "",
    force: Annotated[bool, typer.Option("--force", help="Replace profiles of the same name.")] = False,
    as_json: AsJson = False,
) -> int:
    """Put the profiles into the CAO server's store."""
    from logos import profiles
    from logos.app.hosts import server_client
    from logos.cli.output import console as show

    host = server_client(api)
    try:
        host.preflight(())
        done = {name: _install(host, name, profiles.text(name), force=force) for name in profiles.names()}
    finally:
        host.close()
    if as_json:
        show.document({"api": host.base_url, "profiles": done})
        return 0
    for name, what in done.items():
        show.put(show.console(), f"{name}: {what}")
    return 0


def _install(host: ApiClient, name: str, content: str, *, force: bool) -> str:

    if host.install_profile(name, content):
        return "installed"
    if not force:
        return "is there already, left as it is (--force replaces it)"
    host.replace_profile(name, content)
    return "replaced"


def _about(text: str) -> str:
    lines = (line for line in text.splitlines() if line.startswith("description:"))
    return next(lines, "description:").removeprefix("description:").strip()
