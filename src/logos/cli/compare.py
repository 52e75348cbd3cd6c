"""`logos compare`: two runs side by side, and what differs between the files they left."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logos.app.runs import status_of
from logos.app.workdir import place_of
from logos.cli.options import AsJson, ThisRun, WorkDir, examples
from logos.errors import UsageError
from logos.views.document import run_document
from logos.views.document_shapes import VERSION, CompareDocument, ComparedRunDocument

if TYPE_CHECKING:
    from logos.cli.diff import Changed, Side
    from logos.domain.turns import RunId
    from logos.views.run import RunView

EXAMPLES = examples(
    "logos compare k3ab k9cd           # a run and its fork, or any two runs of this repository",
    "logos compare k3ab k9cd --patch   # with the whole difference between their ends",
    "logos compare k3ab k9cd --json | jq '.runs[].usage.cost_usd'",
)
UNFINISHED = "UNFINISHED"
_REASON = 60


@dataclass(frozen=True, slots=True)
class Common:
    """The last event that both runs have, and whose it was first. `commit` is the files then."""

    run: RunId
    seq: int
    commit: str


@dataclass(frozen=True, slots=True)
class Compared:
    """Two runs at their ends. What each changed is counted from the common checkpoint, or from its own beginning."""

    sides: tuple[Side, Side]
    common: Common | None
    changed: tuple[list[Changed] | None, list[Changed] | None]

    @property
    def kept(self) -> bool:
        """Whether the files of both ends are there."""
        return all(own.commit for own in self.sides)

    @property
    def gaps(self) -> list[str]:
        """What cannot be compared, and why."""
        flows = {own.story.plan.flow for own in self.sides}
        told = [
            "a cycle has rounds and a build has sweeps; the files of a cycle are its whole work dir, those of a build "
            "what it merged"
        ]
        apart = ["they have no event in common: what each changed is counted from its own beginning"]
        lost = [f"the files at {own.name} were not kept: {own.why_not_kept}" for own in self.sides if not own.commit]
        damaged = [f"what comes later does not count: {own.story.damage}" for own in self.sides if own.story.damage]
        return [*(told if len(flows) > 1 else []), *(apart if self.common is None else []), *lost, *damaged]


def compare(
    a: ThisRun,
    b: ThisRun,
    patch: Annotated[
        bool, typer.Option("--patch", help="The whole difference between their ends, not a line for each file.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Show two runs side by side: outcome, turns, characters, tokens, time, and what differs between their ends.

    Both may be in this work dir or in that of a fork. Of a fork only what is its own counts; what it has from the run
    it was forked from is told apart.
    """
    from logos.cli.output import console as show

    place = place_of(wd)
    found = side_by_side(end_of(place, a), end_of(place, b))
    if as_json:
        show.document(as_document(found, patch=patch))
    else:
        put_comparison(found, patch=patch)
    return 0


def end_of(place: Path, wanted: str) -> Side:
    from logos.cli.diff import side

    if not wanted or "@" in wanted:
        raise UsageError(f"{wanted!r} is no run; `logos runs` lists them, and `logos diff` compares events")
    # With the sign after it, it is a run whatever it looks like.
    return side(place, f"{wanted}@")


def side_by_side(one: Side, other: Side) -> Compared:
    if one.story.run == other.story.run:
        raise UsageError(f"{one.story.run} is one run; name two")
    common = _common(one, other)
    return Compared((one, other), common, (_changed(one, common), _changed(other, common)))


def _common(one: Side, other: Side) -> Common | None:
    from logos.cli.diff import commit_of

    shared = last_in_common(one.story, other.story)
    if shared is None:
        return None
    # A fork has its own hold on what it began with, whatever became of the run it came from.
    kept = (commit_of(own.place, own.story, shared[1]) for own in (one, other))
    return Common(*shared, next(filter(None, kept), ""))


def last_in_common(one: RunView, other: RunView) -> tuple[RunId, int] | None:
    """The run and the event at which two histories part, over as many generations as there are."""
    shared = None
    for (run, upto), (same, until) in zip(owners(one), owners(other), strict=False):
        if run != same:
            break
        shared = run, min(upto, until)
    return shared


def owners(story: RunView) -> list[tuple[RunId, int]]:
    """Whose events a run's history is made of, each up to which: its ancestors from the first on, and itself.

    A fork has the events of the run it came from, so nobody else's log is needed.
    """
    from logos.domain.events import RunForked

    forks = [record.event for record in story.records if isinstance(record.event, RunForked)]
    return [*((fork.parent, fork.at) for fork in forks), (story.run, len(story.records))]


def _changed(end: Side, common: Common | None) -> list[Changed] | None:
    from dataclasses import replace

    from logos.cli.diff import commit_of, files

    began = common.commit if common is not None else commit_of(end.place, end.story, 1)
    return files(replace(end, commit=began), end) if began and end.commit else None


# --- in words


def put_comparison(found: Compared, *, patch: bool) -> None:
    from logos.cli.diff import put_changes
    from logos.cli.output import console as show

    target, (one, other) = show.console(), found.sides
    # A patch alone is fit for a pipe.
    about = show.console(stderr=True) if patch and not sys.stdout.isatty() else target
    rows = [(name, *cells) for name, *cells in zip(_labels(found), *map(_cells, _pairs(found)), strict=True)]
    show.put_table(about, ("", one.story.run, other.story.run), rows)
    show.put(about, "")
    if found.common is not None:
        show.put(about, f"they have all events up to {found.common.run}@{found.common.seq} in common")
    for gap in found.gaps:
        show.put(about, gap, "dim")
    if found.kept:
        show.put(about, f"from the end of {one.story.run} to the end of {other.story.run}:")
        put_changes(one, other, stat=not patch)


def _pairs(found: Compared) -> list[tuple[Side, list[Changed] | None]]:
    return [*zip(found.sides, found.changed, strict=True)]


def _labels(found: Compared) -> tuple[str, ...]:
    flows = {own.story.plan.flow for own in found.sides}
    rounds = {"cycle": "rounds", "levels": "sweeps"}
    common = found.common
    since = f"since {common.run}@{common.seq}" if common is not None else "since it began"
    return (
        *("outcome", "reason", "asked for", "began"),
        rounds[flows.pop()] if len(flows) == 1 else "rounds, sweeps",
        *("turns", "turns inherited", "characters sent", "tokens", "cost", "time driven", "sessions"),
        *(f"files changed {since}", "folder"),
    )


def _cells(pair: tuple[Side, list[Changed] | None]) -> tuple[object, ...]:
    from logos.views.text import cut, date, duration, number
    from logos.views.usage import UNKNOWN, dollars, tokens

    end, changed = pair
    story, bill = end.story, end.story.bill
    return (
        story.outcome.value if story.outcome else UNFINISHED,
        cut(story.reason, _REASON) or "-",
        story.asked_for,
        date(story.started),
        story.rounds,
        story.answered,
        story.inherited,
        number(story.characters),
        _partly(tokens(bill.usage.tokens), bill.tokens_unknown, bill.turns),
        _partly(dollars(bill.usage.cost_usd), bill.cost_unknown, bill.turns),
        duration(sum(session.seconds for session in story.own_sessions)),
        len(story.own_sessions),
        UNKNOWN if changed is None else len(changed),
        str(end.place),
    )


def _partly(told: str, unknown: int, turns: int) -> str:
    """What some turns did not tell is not in the sum."""
    return f"{told} (unknown for {unknown} of {turns})" if 0 < unknown < turns else told


# --- as JSON


def as_document(found: Compared, *, patch: bool) -> CompareDocument:
    from logos.adapters.git.command import text_of
    from logos.cli import diff

    common = found.common
    return {
        "version": VERSION,
        "runs": [_as_json(end, changed) for end, changed in _pairs(found)],
        "common": None if common is None else {"run": common.run, "event": common.seq, "commit": common.commit or None},
        "files": diff.files_as_json(diff.files(*found.sides)) if found.kept else None,
        "patch": text_of(diff.patch(*found.sides)) if found.kept and patch else None,
        "not_comparable": found.gaps,
    }


def _as_json(end: Side, changed: list[Changed] | None) -> ComparedRunDocument:
    return {
        **run_document(status_of(end.place, end.story)),
        "files_changed": None if changed is None else len(changed),
        "commit": end.commit or None,
    }
