"""`logos reject`: decide that a run does not go on like this."""

from typing import Annotated

from logos.app import steering
from logos.cli.approve import Gate, put_delivered
from logos.cli.options import AsJson, ThisRun, WorkDir, argument, command
from logos.cli.output import console as show


@command(
    'logos reject k3ab "the plan forgets the migration"',
    "logos reject k3ab --gate r1.programmer.c1     # no to a permission that an agent asks for",
)
def reject(
    run: ThisRun,
    words: Annotated[str, argument("WHY", "What is wrong; the author gets these words. A permission needs none.")] = "",
    gate: Gate = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Reject at the gate at which a run waits, or refuse the permission that one of its agents asks for.

    What was rejected goes back to its author with your words, as another review cycle or round. Exit codes: 0 it is
    recorded, 2 nothing waits, or somebody else has decided already.
    """
    put_delivered(steering.reject(run, words, gate=gate, wd=wd, tell=show.tell), as_json=as_json)
