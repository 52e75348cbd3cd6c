"""The agent profiles that come with Logos, as CAO reads them: front matter, then the system prompt."""

from importlib.resources import files

from logos.errors import ConfigError


def names() -> tuple[str, ...]:
    """Every profile there is, in alphabetical order."""
    documents = (file.name for file in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(".md") for name in documents if name.endswith(".md")))


def text(name: str) -> str:
    if name not in names():
        raise ConfigError(f"Logos has no profile {name!r}; it has {', '.join(names())}")
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
