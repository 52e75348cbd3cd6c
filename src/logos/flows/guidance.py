"""A person's guidance: kept until the prompt of the agent that it is for has it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from logos.domain.events import PersonSaid
from logos.domain.records import replace

HEADING = "A person says:"


@dataclass(frozen=True, slots=True)
class Guidance:
    """`agent` is a role, a level or a component; None: whoever is asked next.

    `told` is the turn whose prompt has it. Until that turn is answered, an agent that replaces another is told as well.
    """

    text: str
    agent: str | None = None
    told: str = ""

    def is_for(self, names: Collection[str], turn: str) -> bool:
        return self.told == turn if self.told else self.agent is None or self.agent in names

    @property
    def words(self) -> str:
        return f"{HEADING}\n{quoted(self.text)}"


Said = tuple[Guidance, ...]


def quoted(text: str) -> str:
    """A person's words as a prompt has them: no line of them can be taken for a verdict or a heading."""
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())


def kept(said: Said, event: PersonSaid) -> Said:
    return (*said, Guidance(event.text, event.agent)) if event.text.strip() else said


def in_words(said: Said, names: Collection[str], turn: str) -> str:
    """What the agent with these names is told in this turn."""
    return "\n\n".join(one.words for one in said if one.is_for(names, turn))


def after_prompt(
    said: Said, names: Collection[str], turn: str, prompt: str, as_told: Callable[[str], str] = str
) -> Said:
    """A turn was asked. What came after its prompt was written is for the next one."""
    return tuple(
        replace(one, told=turn) if one.is_for(names, turn) and f"{as_told(one.words)}\n" in f"{prompt}\n" else one
        for one in said
    )


def after_answer(said: Said, turn: str) -> Said:
    return tuple(one for one in said if one.told != turn) if said else said


def not_told(said: Said, turn: str) -> Said:
    """The agent that was told will not finish its turn."""
    return tuple(replace(one, told="") if one.told == turn else one for one in said) if said else said
