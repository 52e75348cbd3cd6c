"""The agent profiles that come with Logos, as CAO reads them: front matter, then the system prompt."""

import re
from importlib.resources import files

from logos.errors import ConfigError
from logos.prompts import standing_rules

# A line of a profile in place of the rules that the prompts of a role have, too.
_RULES = re.compile(r"^\(the rules of (\w+)\)$", re.MULTILINE)


def names() -> tuple[str, ...]:
    """Every profile there is, in alphabetical order."""
    documents = (file.name for file in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(".md") for name in documents if name.endswith(".md")))


def text(name: str) -> str:
    if name not in names():
        raise ConfigError(f"Logos has no profile {name!r}; it has {', '.join(names())}")
    document = files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    return _RULES.sub(lambda found: standing_rules(found[1]), document)
