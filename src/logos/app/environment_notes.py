"""What a person is told about the environment variables that a command reads, or does not read."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from logos.adapters.programs import DATABASE_VARIABLE
from logos.app.setting_sources import LEAVES, PREFIX, own_variable
from logos.app.settings import SettingSources
from logos.views.text import listed

# Variables that begin like settings: what a person sets besides them, and what Logos sets for processes it starts.
NO_SETTINGS = frozenset(
    {
        *("LOGOS_LOG", DATABASE_VARIABLE),
        *("LOGOS_ROOT", "LOGOS_TERMINAL", "LOGOS_PROCESS"),
        *("LOGOS_REPORT", "LOGOS_REPORT_TOKEN", "LOGOS_REPORT_NODE_OPTIONS", "LOGOS_REPORT_RESPAWNED"),
    }
)
_KNOWN = NO_SETTINGS | {own_variable(leaf) for leaf in LEAVES}


def common_names(sources: SettingSources) -> Iterator[str]:
    """Which variables decide a setting whose names other programs use, too."""
    decided = sources.environment.keys() - sources.flags.keys()
    bare = [name for key, name in sources.variables.items() if key in decided and not name.startswith(PREFIX)]
    if bare:
        yield (
            f"settings from the environment: {listed(bare)}; a name with {PREFIX} before it, such as "
            f"{PREFIX}{bare[0]}, wins and is read by Logos only"
        )


def unknown_names(env: Mapping[str, str]) -> Iterator[str]:
    """Variables that look like settings and are none, each with the most similar one."""
    for name in sorted(name for name in env if name.startswith(PREFIX) and name not in _KNOWN):
        near = get_close_matches(name, sorted(_KNOWN), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield f"{name} is not a setting of Logos and is ignored{hint}"
