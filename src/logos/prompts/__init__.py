"""The documents agents are sent: a flow decides the facts, a document says them."""

import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, UndefinedError, meta

from logos.domain.turns import Fact

# Where the response goes in the command of the response instruction. A file that holds only this line is
# no response: a shell that got the prompt instead of an agent would write it.
PLACEHOLDER = "[LOGOS: replace this line with your complete final response]"

_SUFFIX = ".md.j2"

# A name that begins with an underscore is a fragment.
DOCUMENTS = tuple(sorted(file.name.removesuffix(_SUFFIX) for file in Path(__file__).parent.glob(f"[!_]*{_SUFFIX}")))


def preload() -> None:
    """Compile every document: a faulty one is found before a run starts, and no turn waits for it."""
    for document in DOCUMENTS:
        _environment().get_template(document + _SUFFIX)
        _named_in(document + _SUFFIX)


def render(document: str, facts: Mapping[str, Fact]) -> str:
    """The text of a document. Every fact it names must be given, also one that this text leaves out."""
    # Without blank lines around a text; what is inside an agent's text is left as it is.
    texts = {name: fact.rstrip().lstrip("\r\n") for name, fact in facts.items() if isinstance(fact, str)}
    told = {**facts, **texts, "placeholder": PLACEHOLDER}
    missing = _named_in(document + _SUFFIX) - told.keys()
    if missing:
        raise UndefinedError(f"{document}: no fact named {', '.join(sorted(missing))}")
    return _environment().get_template(document + _SUFFIX).render(told).strip()


@cache
def standing_rules(agent: str) -> str:
    """The guards, criteria and response format of a role, which hold in all of its turns; empty for other agents."""
    fragment = f"_rules_{agent}{_SUFFIX}"
    is_role = Path(__file__).with_name(fragment).is_file()
    return _environment().get_template(fragment).render().strip() if is_role else ""


def response_instruction(path: str | Path) -> str:
    """The last block of every document on its own: where the response goes, and how."""
    return render("_response_file", {"response_path": str(path)})


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["shell_quote"] = shlex.quote  # pyright: ignore[reportUnknownMemberType]
    return environment


@cache
def _named_in(template: str) -> frozenset[str]:
    """The facts that a template and the fragments it includes name, in whatever branch."""
    environment = _environment()
    assert environment.loader is not None
    source, file, _ = environment.loader.get_source(environment, template)
    tree = environment.parse(source, template, file)
    names = frozenset(meta.find_undeclared_variables(tree) - environment.make_globals(None).keys())
    fragments = (fragment for fragment in meta.find_referenced_templates(tree) if fragment is not None)
    return names.union(*(_named_in(fragment) for fragment in fragments))
