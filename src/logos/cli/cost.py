"""`logos cost`: what a run cost, by role, phase and round; a build by level, kind of turn and sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logos.app.workdir import find_run, place_of, reading
from logos.cli.options import AsJson, OneRun, WorkDir, examples

if TYPE_CHECKING:
    from logos.views.run import RunView, TurnView
    from logos.views.usage import Bill

EXAMPLES = examples("logos cost", "logos cost k3 --json | jq .roles.tester.cost_usd")


def cost(run: OneRun = None, wd: WorkDir = None, as_json: AsJson = False) -> int:
    """Show tokens and dollars per role, phase and round, and how many turns did not tell. Unknown is never zero.

    Of a build: per level, kind of turn and sweep.
    """
    from logos.app.runs import load_run
    from logos.cli.output import console as show
    from logos.views.usage import bill_as_json

    with reading(place_of(wd)) as log:
        story = load_run(log, find_run(log, run))
    groups = grouped(story)
    if as_json:
        parts: dict[str, Any] = {
            by: {name: bill_as_json(bill) for name, bill in bills.items()} for by, bills in groups.items()
        }
        about = {"run": story.run, "flow": story.plan.flow, "simulated": story.simulated}
        show.document({**about, "total": bill_as_json(story.bill), **parts})
    else:
        put_cost(story, groups)
    return 0


def grouped(story: RunView) -> dict[str, dict[str, Bill]]:
    """Bills in three ways, in the order they came up."""
    from logos.views.usage import Bill

    ways = ("roles", "phases", "rounds") if story.build is None else ("levels", "kinds", "sweeps")
    groups: dict[str, dict[str, Bill]] = {by: {} for by in ways}
    for told in story.turns:
        if told.bills:
            for by, name in zip(groups, _names(told), strict=True):
                groups[by][name] = groups[by].get(name, Bill()).plus(told)
    return groups


def _names(told: TurnView) -> tuple[str, str, str]:
    from logos.domain.roles import Role, phase_def_of
    from logos.flows.levels.turn_ids import level_turn

    turn = level_turn(told.turn)
    if turn is not None:
        return turn.level.name, turn.kind.value, str(turn.sweep)
    phase = phase_def_of(Role(told.agent)).phase.value if told.agent in set(Role) else "-"
    return told.agent, phase, told.turn.partition(".")[0].removeprefix("r")


def put_cost(story: RunView, groups: dict[str, dict[str, Bill]]) -> None:
    from logos.cli.output import console as show
    from logos.views.text import count
    from logos.views.usage import sum_in_words

    target, total = show.console(), story.bill
    simulated = " (simulated)" if story.simulated else ""
    words = sum_in_words(total, story.characters)
    show.put(target, f"run {story.run}{simulated}: {count(total.turns, 'turn')}, {words}", "bold")
    if not total.turns:
        return
    show.put(target, "")
    rows = [
        (f"{by.removesuffix('s')} {name.replace('_', ' ')}", *_cells(bill))
        for by, bills in groups.items()
        for name, bill in bills.items()
    ]
    headers = ("", "turns", "input", "cached", "output", "tokens", "cost", "tokens unknown in", "cost unknown in")
    show.put_table(target, headers, [*rows, ("total", *_cells(total))])


def _cells(bill: Bill) -> tuple[object, ...]:
    from logos.views.usage import dollars, tokens

    usage = bill.usage
    told = (tokens(usage.input), tokens(usage.cached), tokens(usage.output), tokens(usage.tokens))
    return (bill.turns, *told, dollars(usage.cost_usd), bill.tokens_unknown, bill.cost_unknown)
