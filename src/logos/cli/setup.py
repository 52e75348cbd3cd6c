"""Commands before a run: `logos init`, `validate`, `doctor`, `schema` and `profiles`."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from logos.app import doctor as diagnosis
from logos.app import profiles as agent_profiles
from logos.app.init import PROMPT, InitResult
from logos.app.init import init as write_files
from logos.app.schemas import SCHEMAS, report_schema
from logos.app.settings import LEAVES
from logos.app.telos_file import TELOS_FILE
from logos.app.validate import validate as check_config
from logos.app.workdir import CONFIG, place_of
from logos.cli.options import AsJson, WorkDir, argument, command, command_group, examples, flag, value
from logos.cli.output import console as show

app = command_group()


@command(app, "logos init", "logos init --wd ~/project --force")
def init(
    force: Annotated[bool, flag("--force", "Overwrite existing files; each is kept with the suffix .bak.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Write logos.json, prompt.md and telos.toml into the work dir, with the test command and the tools found there."""
    result = write_files(place_of(wd), force=force)
    tools = [(tool.level.name, tool.name, tool.command) for tool in result.detected.found]
    missing = [(tool.level.name, tool.what, tool.instead) for tool in result.detected.missing]
    if as_json:
        files = {"wd": str(result.wd), "written": result.written, "kept": result.kept}
        found = [dict(zip(("level", "name", "command"), row, strict=True)) for row in tools]
        replaced = [dict(zip(("level", "what", "instead"), row, strict=True)) for row in missing]
        show.document({**files, "project_test_cmd": result.test_command, "tools": found, "missing": replaced})
        return
    _put_written(result)
    # The commands that Logos would run to prove a level, and what replaces those that are missing.
    for title, rows in (("tools that prove a level", tools), ("not found, and what replaces it", missing)):
        if rows and TELOS_FILE in result.written:
            show.put(show.console(), f"{title}:")
            for line in show.columns(("", "", ""), rows)[1:]:
                show.put(show.console(), f"  {line}")
    show.put(show.console(), f"next: describe the task in {PROMPT}, then `logos doctor` and `logos run`", "bold")
    show.put(show.console(), f'or:   describe the project\'s purpose in {TELOS_FILE}, then `logos build "…"`', "bold")


def _put_written(result: InitResult) -> None:
    for name in (CONFIG, PROMPT, TELOS_FILE):
        written = "written" if name in result.written else "exists, not overwritten (use --force)"
        show.put(show.console(), f"{name}: {written}")
    if CONFIG in result.written:
        none = "none found; set project_test_cmd in logos.json, so that a PASS can be verified"
        show.put(show.console(), f"test command: {result.test_command or none}")


@command(app, "logos validate logos.json", "logos validate team.json --json")
def validate(
    config: Annotated[Path, argument("CONFIG", "The configuration; default: ./logos.json.")] = Path(CONFIG),
    as_json: AsJson = False,
) -> int:
    """Check a configuration as `logos run` would use it, with the environment: settings, prompt, providers."""
    found = check_config(config, os.environ)
    if as_json:
        show.document({"config": str(config), "ok": not found.problems, **asdict(found)})
        return int(bool(found.problems))
    target = show.console()
    for line in found.problems:
        show.put(target, f"problem: {line}", "red")
    for line in found.warnings:
        show.put(target, f"warning: {line}", "yellow")
    if not found.problems:
        show.put(target, f"{config} is valid", "green")
    return int(bool(found.problems))


@command(app, "logos doctor", "logos doctor --json | jq '.checks[] | select(.level == \"fail\")'")
def doctor(wd: WorkDir = None, as_json: AsJson = False) -> int:
    """Check what a run needs: Python, git, agent CLIs and whether they are logged in, a CAO server, work dir, log.

    Says which host a new run would use and why. No model is asked.
    """
    found = diagnosis.doctor(place_of(wd), os.environ)
    if as_json:
        checks = [{**asdict(check), "remedy": check.remedy or None} for check in found.checks]
        host = {"name": found.host.name, "why": found.host.why}
        agents = [asdict(cli) for cli in found.agents]
        show.document({"ok": found.ok, "host": host, "agents": agents, "checks": checks})
        return int(not found.ok)
    target, width = show.console(), max(len(check.about) for check in found.checks)
    for check in found.checks:
        remedy = f"; {check.remedy}" if check.remedy else ""
        line = f"{check.level:<4}  {check.about.ljust(width)}  {check.text}{remedy}"
        show.put(target, line, {"ok": "green", "warn": "yellow", "fail": "red"}[check.level])
    show.put(target, "ready to run" if found.ok else "something a run needs is missing", "bold")
    return int(not found.ok)


# Settings that only the configuration file can have.
FILE_ONLY = (
    ("agents.ROLE.provider", "-", "provider", "Agent CLI of one role."),
    ("agents.ROLE.profile", "-", "the role's own", "Profile of one role."),
    ("agents.ROLE.providers", "-", "none", "Fallback agent CLIs of one role, in order, for on_limit = fallback."),
    ("level_agents.LEVEL.*", "-", "as above", "The same for one level of a build, L1 to L9."),
)


@command(
    app,
    "logos schema > logos.schema.json",
    "logos schema --keys",
    "logos schema --keys --json",
    "logos schema --script > script.schema.json      # scripts for `logos run --simulate`",
    "logos schema --state                            # .telos/state.json, which a build writes",
    "logos schema --report decompose.L3              # a level's report; `--report all` prints every one",
    "logos schema --telos                            # telos.toml",
    "logos schema --output                           # the documents that commands print with --json",
)
def schema(
    keys: Annotated[bool, flag("--keys", "A table of settings: key, environment variable, default, meaning.")] = False,
    script: Annotated[bool, flag("--script", "The schema of scripts for `logos run --simulate`.")] = False,
    state: Annotated[bool, flag("--state", "The schema of .telos/state.json.")] = False,
    telos: Annotated[bool, flag("--telos", "The schema of telos.toml.")] = False,
    output: Annotated[bool, flag("--output", "The schema of what commands print with --json.")] = False,
    report: Annotated[str, value("KIND", "The schema of a level's report: author, decompose.L3 …, all.")] = "",
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of the configuration file, or of another file or report."""
    asked = (("script", script), ("state", state), ("telos", telos), ("output", output))
    wanted = next((name for name, given in asked if given), "")
    if report and not wanted:
        show.document(report_schema(report))
    elif wanted or not keys:
        show.document(SCHEMAS[wanted or "config"]())
    elif as_json:
        rows = [{"key": s.key, "env": s.env, "default": s.default, "description": s.description} for s in LEAVES]
        show.document(rows)
    else:
        rows = [(leaf.key, leaf.env, _word(leaf.default), leaf.description) for leaf in LEAVES]
        show.put_table(show.console(), ("key", "environment", "default", "meaning"), [*rows, *FILE_ONLY])


def _word(default: object) -> str:
    if default is None:
        return "unset"
    return str(default).lower() if isinstance(default, bool) else str(default) or '""'


profiles = command_group(
    "The agents' profiles that come with Logos.",
    examples("logos profiles list", "logos profiles install --api http://localhost:9889"),
)
app.add_typer(profiles, name="profiles")
Api = Annotated[str, value("URL", "The CAO server; default: API, `api` in ./logos.json, localhost:9889.")]


@command(profiles, "logos profiles list", "logos profiles list --json", name="list")
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


@command(profiles, "logos profiles install", "logos profiles install --force --json", name="install")
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
