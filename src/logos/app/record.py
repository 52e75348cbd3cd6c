"""A run as a script, so that it can be replayed without agents."""

from __future__ import annotations

from typing import Any

from logos.adapters.hosts.script import Otherwise, as_yaml
from logos.errors import UsageError
from logos.views.redact import redact
from logos.views.run import LOGOS, RunView, TurnView
from logos.views.text import date


def script_of(view: RunView, *, delays: bool) -> dict[str, Any]:
    """The responses of a run, turn by turn, with their usage; with `delays` also with their duration."""
    if view.build is not None:
        raise UsageError(
            f"run {view.run} is a build, and a build cannot be recorded: the log does not contain the files that its "
            "authors wrote. `logos show` prints every turn."
        )
    answered = [turn for turn in view.turns if turn.ended is not None and turn.agent != LOGOS]
    if not answered:
        raise UsageError(f"run {view.run} has no answered turn yet: there is nothing to record")
    # A replay must not continue with an invented response where the run had none.
    return {"otherwise": Otherwise.ERROR.value, "turns": {turn.turn: _step(turn, delays=delays) for turn in answered}}


def _step(turn: TurnView, *, delays: bool) -> dict[str, Any]:
    step: dict[str, Any] = {"say": redact(turn.response)}
    if delays and turn.seconds is not None:
        step["delay"] = round(turn.seconds, 1)
    if turn.usage is not None:
        usage = turn.usage
        known = {"input": usage.input, "cached": usage.cached, "output": usage.output, "cost_usd": usage.cost_usd}
        step["usage"] = {key: value for key, value in known.items() if value is not None}
    return step


def script_text(view: RunView, script: dict[str, Any]) -> str:
    outcome = view.outcome.value if view.outcome else "unfinished"
    return as_yaml(
        script,
        f"Recorded from run {view.run} of {date(view.started)}: {outcome}, {view.answered} turns.\n"
        "Replay it with the configuration and the prompt of that run: logos run --simulate THIS_FILE --fresh\n"
        "It contains the agents' responses, but not the files that they changed: those are not in the log. Where\n"
        "Logos runs the tests itself (verify_pass), replay in the tree the run left behind, or --set verify_pass=0.\n",
    )
