"""`logos tell`: a person's guidance for an agent."""

from typing import Annotated

from logos.app import steering
from logos.cli.approve import put_delivered
from logos.cli.options import AsJson, ThisRun, WorkDir, argument, command
from logos.cli.output import console as show
from logos.errors import UsageError

WORDS = "The agent, if not whoever is asked next: a role, a level or a component; then the text, in quotes."


@command(
    'logos tell k3ab "keep the old flag as an alias"           # whoever is asked next',
    'logos tell k3ab programmer "use the helper in dates.py"',
    'logos tell k3ab L4 "prices are in cents"                  # a level of a build',
)
def tell(
    run: ThisRun,
    words: Annotated[list[str], argument("[AGENT] TEXT", WORDS)],
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Tell an agent something: its next prompt has your words, marked as a person's, and the log keeps them.

    They approve nothing: only `logos approve` does. A turn that an agent has already is not disturbed.
    """
    if len(words) > 2:
        raise UsageError("too many words: put the text in quotes, after the agent if you name one")
    *agent, text = words
    put_delivered(steering.say_to(run, text, agent[0] if agent else None, wd=wd, tell=show.tell), as_json=as_json)
