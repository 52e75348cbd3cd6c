"""`logos lineage`: from the purpose to each spec, component, file and test of a build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from logos.app.workdir import place_of, reading
from logos.cli.options import AsJson, WorkDir, examples
from logos.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from logos.adapters.store.sqlite import SqliteLog
    from logos.domain.specs import Spec
    from logos.domain.turns import RunId
    from logos.flows.levels.state import LevelsState

EXAMPLES = examples(
    "logos lineage                    # of the newest build",
    "logos lineage k3 L4              # the build whose id begins with k3, from L4 down",
    "logos lineage L3.v2 --json",
)


def lineage(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN] [SPEC]", help="A build, and a spec in it: L4, L4.v2, L2.cart or a component."),
    ] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Show what every file was built for: purpose, specs in force, components, files, tests, and what was replaced."""
    from logos.app.runs import open_levels
    from logos.cli.output import console as show

    with reading(place_of(wd)) as log:
        run, wanted = _meant(log, words or [])
        state = open_levels(log, run).state
    spec = _find(state, wanted) if wanted else None
    if as_json:
        show.document(as_document(run, state, spec))
    else:
        put_lineage(show.console(), run, state, spec)
    return 0


def _meant(log: SqliteLog, words: list[str]) -> tuple[RunId, str]:
    from logos.app.runs import runs_with
    from logos.app.workdir import find_run
    from logos.domain.plans import LevelsPlan

    builds = runs_with(log, LevelsPlan)
    if not builds:
        raise UsageError("no build was started here yet; `logos build` starts one")
    if len(words) > 2:
        raise UsageError("one build and one spec: logos lineage [RUN] [SPEC]")
    if len(words) == 2:
        return find_run(log, words[0]), words[1]
    if words and any(run.startswith(words[0].lower()) for run in log.runs()):
        return find_run(log, words[0]), ""
    return builds[-1], words[0] if words else ""


def _find(state: LevelsState, wanted: str) -> Spec:
    """A spec by its id, its level, its component, or their beginning; the newest version."""
    plain = wanted.casefold()
    fitting = [
        spec
        for spec in state.specs
        if plain in (spec.id.casefold(), spec.id.rpartition(".v")[0].casefold(), spec.component.casefold())
    ]
    if not fitting:
        known = ", ".join(dict.fromkeys(spec.id for spec in state.specs)) or "none yet"
        raise UsageError(f"this build has no spec {wanted!r}; it has {known}")
    return fitting[-1]


def put_lineage(target: Console, run: RunId, state: LevelsState, spec: Spec | None) -> None:
    from logos.cli.output import console as show
    from logos.views.redact import one_line

    def put(depth: int, text: str, style: str = "") -> None:
        show.put(target, "  " * depth + one_line(text), style)

    put(0, f"build {run}: {state.plan.feature}", "bold")
    put(0, f"purpose: {dict(state.plan.telos).get(max(dict(state.plan.telos)), '-')}" if state.plan.telos else "")
    depth = 1
    for held in _in_force(state):
        if spec is None or held.level <= spec.level:
            put(depth, f"{held.id} {_title(held)}: {held.summary}  ({_origin(held)})")
        depth += 1
    for component in state.components:
        if spec is None or not spec.component or spec.component == component.name:
            _put_component(put, depth, state, component.name)
    replaced = [old for old in state.specs if state.spec_of(old.level, old.component) != old]
    if replaced and spec is None:
        put(0, "replaced specs:", "dim")
        for old in replaced:
            put(1, f"{old.id} {_title(old)}: {old.summary}  ({_origin(old)})", "dim")
    for settled in state.settled if spec is None else ():
        put(0, f"{settled.id} ({settled.cause}) decided by {settled.by}: {settled.proposal.summary}", "dim")


def _put_component(put: Any, depth: int, state: LevelsState, name: str) -> None:
    from logos.domain.levels import Level

    held, contribution = state.spec_of(Level.L2, name), state.contributions.get(name)
    put(depth, f"{held.id if held else 'L2.' + name}: {held.summary if held else 'not built yet'}")
    if contribution is None:
        return
    for path in contribution.files:
        if path not in contribution.tests:
            put(depth + 1, path)
    for test in contribution.tests:
        put(depth + 1, f"test {test}")


def _in_force(state: LevelsState) -> list[Spec]:
    held = (state.spec_of(level) for level in state.levels)
    return [spec for spec in held if spec is not None]


def _title(spec: Spec) -> str:
    from logos.domain.levels import LEVELS

    return LEVELS[spec.level].title


def _origin(spec: Spec) -> str:
    return f"from {spec.parent}, {spec.turn}"


def as_document(run: RunId, state: LevelsState, spec: Spec | None) -> dict[str, Any]:
    wanted = [own for own in state.specs if spec is None or own.level <= spec.level]
    return {
        "run": run,
        "feature": state.plan.feature,
        "purpose": [{"level": level.name, "text": text} for level, text in state.plan.telos],
        "specs": [
            {
                "id": own.id,
                "level": own.level.name,
                "title": _title(own),
                "version": own.version,
                "parent": own.parent,
                "component": own.component or None,
                "turn": own.turn,
                "summary": own.summary,
                "sections": {section.name: section.text for section in own.sections},
                "in_force": state.spec_of(own.level, own.component) == own,
            }
            for own in wanted
        ],
        "components": [
            {
                "name": component.name,
                "depends_on": list(component.depends_on),
                "commit": contribution.commit if contribution else None,
                "merged": contribution.merged if contribution else False,
                "files": list(contribution.files) if contribution else [],
                "tests": list(contribution.tests) if contribution else [],
            }
            for component in state.components
            for contribution in (state.contributions.get(component.name),)
        ],
    }
