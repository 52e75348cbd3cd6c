"""`logos profiles`: the agents' profiles, listed or installed on a CAO server."""

from dataclasses import asdict
from typing import Annotated

from typer import Context, echo

from logos.app import profiles as agent_profiles
from logos.cli.options import AsJson, command_group, examples, flag, value
from logos.cli.output import console as show

profiles = command_group(
    "The agents' profiles that come with Logos.",
    examples("logos profiles list", "logos profiles install --api http://localhost:9889"),
)


@profiles.callback(invoke_without_command=True)
def show_help(context: Context) -> None:
    if context.invoked_subcommand is None:
        echo(context.get_help())


Api = Annotated[str, value("URL", "The CAO server; default: API, `api` in ./logos.json, localhost:9889.")]


@profiles.command("list", epilog=examples("logos profiles list", "logos profiles list --json"))
def list_profiles(api: Api = "", as_json: AsJson = False) -> None:
    """List the profiles, and whether the CAO server has them."""
    found = agent_profiles.list_profiles(api)
    if as_json:
        show.document({"api": found.api, "profiles": [asdict(profile) for profile in found.profiles]})
        return
    words = {True: "yes", False: "no", None: "unknown"}
    rows = [(profile.name, words[profile.installed], profile.description) for profile in found.profiles]
    show.put_table(show.console(), ("profile", "installed", "what it is"), rows)
    if not found.server_answers:
        show.tell(f"no CAO server answers at {found.api}")


@profiles.command("install", epilog=examples("logos profiles install", "logos profiles install --force --json"))
def install_profiles(
    api: Api = "",
    force: Annotated[bool, flag("--force", "Replace profiles of the same name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put the profiles into the CAO server's store."""
    done = agent_profiles.install_profiles(api, force=force)
    if as_json:
        show.document(asdict(done))
        return
    for name, what in done.profiles.items():
        show.put(show.console(), f"{name}: {what}")
