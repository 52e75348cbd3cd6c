"""`logos approve`: decide that a run goes on."""

from dataclasses import asdict
from typing import Annotated

from logos.app import steering
from logos.app.steering import Delivered
from logos.app.workdir import wd_flag
from logos.cli.options import AsJson, OneRun, WorkDir, command, value
from logos.cli.output import console as show

Gate = Annotated[
    str | None, value("ID", "The gate, or the turn whose agent asks for permission, if several things wait.")
]


@command(
    "logos approve              # the newest run here",
    "logos approve k3ab         # a run of any work dir",
    "logos approve k3ab --gate r1.gate.after_plan",
)
def approve(run: OneRun = None, gate: Gate = None, wd: WorkDir = None, as_json: AsJson = False) -> None:
    """Approve the gate at which a run waits, or grant the permission that one of its agents asks for.

    A driver that waits goes on at once; without one, `logos resume` goes on. Refused below an agent: only a person
    decides. Exit codes: 0 it is recorded, 2 nothing waits, or somebody else has decided already.
    """
    put_delivered(steering.approve(run, gate=gate, wd=wd, tell=show.tell), as_json=as_json)


def put_delivered(done: Delivered, *, as_json: bool) -> None:
    """What was recorded, and what to do next."""
    at = wd_flag(done.place)
    following = f"logos log --follow {done.run}{at}" if done.driven else f"logos resume {done.run}{at}"
    if as_json:
        show.document({**asdict(done), "place": str(done.place), "next": following})
        return
    target = show.console()
    show.put(target, f"run {done.run}: {done.text}", "bold")
    show.put(target, f"next: {following}", whole=True)
