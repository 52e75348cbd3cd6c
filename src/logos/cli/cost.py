"""`logos cost`: what a run cost, by role, phase and round; a build by level, kind of turn and sweep."""

from __future__ import annotations

from logos.app.runs import load_status
from logos.app.workdir import find_run, place_of, reading
from logos.cli.options import AsJson, OneRun, WorkDir, examples
from logos.cli.output import console as show
from logos.domain.roles import Role, phase_def_of
from logos.domain.usage import Spent
from logos.flows.levels.turn_ids import level_turn
from logos.views.document import cost_document
from logos.views.run import RunView, TurnView
from logos.views.text import count
from logos.views.usage import dollars, sum_in_words, tokens

EXAMPLES = examples("logos cost", "logos cost k3 --json | jq .usage_by.roles.tester.cost_usd")
_GROUPS = {"cycle": ("roles", "phases", "rounds"), "levels": ("levels", "kinds", "sweeps")}
_HEADERS = ("", "turns", "input", "cached", "output", "tokens", "cost", "tokens unknown in", "cost unknown in")


def cost(run: OneRun = None, wd: WorkDir = None, as_json: AsJson = False) -> int:
    """Show tokens and dollars per role, phase and round, and for how many turns they are unknown.

    For a build: per level, kind of turn and sweep.
    """
    place = place_of(wd)
    with reading(place) as log:
        status = load_status(place, log, find_run(log, run))
    groups = grouped(status.view)
    if as_json:
        show.document(cost_document(status, groups))
    else:
        put_cost(status.view, groups)
    return 0


def grouped(view: RunView) -> dict[str, dict[str, Spent]]:
    """The usage of turns, grouped in three ways, in the order of the turns."""
    groups: dict[str, dict[str, Spent]] = {by: {} for by in _GROUPS[view.plan.flow]}
    for turn in view.turns:
        if turn.bills:
            for by, name in zip(groups, _names(turn), strict=True):
                groups[by][name] = groups[by].get(name, Spent()).plus(*turn.bills)
    return groups


def _names(turn: TurnView) -> tuple[str, str, str]:
    """The groups of a turn."""
    level = level_turn(turn.turn)
    if level is not None:
        return level.level.name, level.kind.value, str(level.sweep)
    phase = phase_def_of(Role(turn.agent)).phase.value if turn.agent in set(Role) else "-"
    return turn.agent, phase, turn.turn.partition(".")[0].removeprefix("r")


def put_cost(view: RunView, groups: dict[str, dict[str, Spent]]) -> None:
    target, total = show.console(), view.bill
    simulated = " (simulated)" if view.simulated else ""
    words = sum_in_words(total, view.characters)
    show.put(target, f"run {view.run}{simulated}: {count(total.turns, 'turn')}, {words}", "bold")
    if not total.turns:
        return
    show.put(target, "")
    rows = [
        (f"{by.removesuffix('s')} {name.replace('_', ' ')}", *_cells(spent))
        for by, group in groups.items()
        for name, spent in group.items()
    ]
    show.put_table(target, _HEADERS, [*rows, ("total", *_cells(total))])


def _cells(spent: Spent) -> tuple[object, ...]:
    usage = spent.usage
    known = (tokens(usage.input), tokens(usage.cached), tokens(usage.output), tokens(usage.tokens))
    return (spent.turns, *known, dollars(usage.cost_usd), spent.tokens_unknown, spent.cost_unknown)
