"""`logos cost`: what a run cost, per role, phase and round."""

from logos.app.registry import place_of_run
from logos.app.runs import read_status
from logos.cli.options import AsJson, OneRun, WorkDir, command
from logos.cli.output import console as show
from logos.domain.roles import Role, phase_def_of
from logos.domain.usage import Spent
from logos.flows.levels.turn_ids import level_turn
from logos.views.document import RunDocument, SpentDocument
from logos.views.run import RunView
from logos.views.text import count
from logos.views.usage import price, sum_in_words, tokens

_GROUPS = {"cycle": ("roles", "phases", "rounds"), "levels": ("levels", "kinds", "sweeps")}
_COST_HEADERS = ("", "turns", "input", "cached", "output", "tokens", "cost", "tokens unknown in", "cost unknown in")


@command("logos cost", "logos cost k3 --json | jq .usage_by.roles.tester.cost_usd")
def cost(run: OneRun = None, wd: WorkDir = None, as_json: AsJson = False) -> None:
    """Show tokens and dollars per role, phase and round, and for how many turns they are unknown.

    For a build: per level, kind of turn and sweep.
    """
    status = read_status(place_of_run(run, wd), run)
    view, groups = status.view, _grouped(status.view)
    if as_json:
        by = {name: {key: SpentDocument.of(spent) for key, spent in rows.items()} for name, rows in groups.items()}
        show.document({**RunDocument.of(status), "usage_by": by})
        return
    target, total = show.console(), view.bill
    simulated = " (simulated)" if view.simulated else ""
    spent = f"{count(total.turns, 'turn')}, {sum_in_words(total, view.characters)}"
    show.put(target, f"run {view.run}{simulated}: {spent}", "bold")
    if total.turns:
        show.put(target, "")
        rows = [
            _cost_row(f"{by.removesuffix('s')} {name.replace('_', ' ')}", spent)
            for by, group in groups.items()
            for name, spent in group.items()
        ]
        cells = [*rows, _cost_row("total", total)]
        show.put_table(target, _COST_HEADERS, cells, spare=("tokens unknown in", "cached", "cost unknown in", "input"))
        if total.usage.estimated:
            show.put(target, "~ estimated from tokens, with the setting `prices`")


def _grouped(view: RunView) -> dict[str, dict[str, Spent]]:
    """The usage of turns, grouped in three ways, in the order of the turns."""
    groups: dict[str, dict[str, Spent]] = {by: {} for by in _GROUPS[view.plan.flow]}
    for turn in (turn for turn in view.turns if turn.bills):
        level = level_turn(turn.turn)
        if level is not None:
            names = (level.level.name, level.kind.value, str(level.sweep))
        else:
            phase = phase_def_of(Role(turn.agent)).phase.value if turn.agent in set(Role) else "-"
            names = (turn.agent, phase, turn.turn.partition(".")[0].removeprefix("r"))
        for by, name in zip(groups, names, strict=True):
            groups[by][name] = groups[by].get(name, Spent()).plus(*turn.bills)
    return groups


def _cost_row(title: str, spent: Spent) -> tuple[object, ...]:
    usage = spent.usage
    known = (tokens(usage.input), tokens(usage.cached), tokens(usage.output), tokens(usage.tokens))
    return (title, spent.turns, *known, price(usage), spent.tokens_unknown, spent.cost_unknown)
