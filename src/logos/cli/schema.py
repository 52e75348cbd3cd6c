"""`logos schema`: the settings, or the JSON Schema of a file or report."""

from typing import Annotated

from logos.app.schemas import SCHEMAS, report_schema
from logos.app.setting_sources import LEAVES, Leaf
from logos.cli.options import AsJson, command, flag, value
from logos.cli.output import console as show

# Settings without a variable: in the file, or with --set.
WITHOUT_VARIABLE = (
    ("agents.ROLE.provider", "-", "provider", "Agent CLI of one role."),
    ("agents.ROLE.profile", "-", "the role's own", "Profile of one role."),
    ("agents.ROLE.providers", "-", "none", "Fallback agent CLIs of one role, in order, for on_limit = fallback."),
    ("agents.ROLE.model", "-", "the CLI's own", "Model of one role, as its agent CLI names it."),
    ("agents.ROLE.args", "-", "none", "More arguments of one role's agent CLI; they can allow it more."),
    ("level_agents.LEVEL.*", "-", "as above", "The same for one level of a build, L1 to L9."),
    ("prices.PROVIDER.*", "-", "unset", "US dollars per million tokens: input, cached_input, output."),
)
# Defaults that depend on what is there.
_DEPENDS = {
    "provider": "the first installed; else codex",
    "verify_pass": "on where a test command is known",
    "expect_change": "on in a git repository",
    "limits.on_no_progress": "block; in the bare form go_on",
}


@command(
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
        rows = [(leaf.key, leaf.env, default_in_words(leaf) or '""', leaf.description) for leaf in LEAVES]
        show.put_table(show.console(), ("key", "environment", "default", "meaning"), [*rows, *WITHOUT_VARIABLE])


def default_in_words(leaf: Leaf) -> str:
    match leaf.default:
        case _ if leaf.key in _DEPENDS:
            return _DEPENDS[leaf.key]
        case None:
            return "unset"
        case bool() as on:
            return "on" if on else "off"
        case ():
            return "none"
        case float() as number:
            return f"{number:g}"
        case other:
            return str(other)
