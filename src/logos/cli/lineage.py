"""`logos lineage`: from the purpose to each spec, component, file and test of a build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console

from logos.app.runs import newest_of, open_levels
from logos.app.workdir import find_run, place_of, reading
from logos.cli.options import AsJson, WorkDir, examples
from logos.cli.output import console as show
from logos.domain.levels import LEVELS, Level
from logos.domain.plans import LevelsPlan
from logos.domain.specs import Spec
from logos.domain.turns import RunId
from logos.errors import UsageError
from logos.flows.levels.state import LevelsState
from logos.ports import Log
from logos.views.document_shapes import VERSION
from logos.views.redact import one_line

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
    """Show why every file of a build exists: purpose, specs in force, components, files, tests, and replaced specs."""
    with reading(place_of(wd)) as log:
        run, wanted = _chosen(log, words or [])
        state = open_levels(log, run).state
    spec = _find(state, wanted) if wanted else None
    if as_json:
        show.document(lineage_document(run, state, spec))
    else:
        put_lineage(show.console(), run, state, spec)
    return 0


def _chosen(log: Log, words: list[str]) -> tuple[RunId, str]:
    newest = newest_of(log, LevelsPlan)
    if newest is None:
        raise UsageError("no build was started here yet; `logos build` starts one")
    if len(words) > 2:
        raise UsageError("one build and one spec: logos lineage [RUN] [SPEC]")
    if len(words) == 2:
        return find_run(log, words[0]), words[1]
    if words and any(run.startswith(words[0].lower()) for run in log.runs()):
        return find_run(log, words[0]), ""
    return newest, words[0] if words else ""


def _find(state: LevelsState, wanted: str) -> Spec:
    """A spec by its id, its level, its component, or their beginning; the newest version."""
    plain = wanted.casefold()
    matches = [
        spec
        for spec in state.specs
        if plain in (spec.id.casefold(), spec.id.rpartition(".v")[0].casefold(), spec.component.casefold())
    ]
    if not matches:
        known = ", ".join(dict.fromkeys(spec.id for spec in state.specs)) or "none yet"
        raise UsageError(f"this build has no spec {wanted!r}; it has {known}")
    return matches[-1]


def put_lineage(target: Console, run: RunId, state: LevelsState, spec: Spec | None) -> None:
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


def _put_component(put: Callable[[int, str], None], depth: int, state: LevelsState, name: str) -> None:
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
    return LEVELS[spec.level].title


def _origin(spec: Spec) -> str:
    return f"from {spec.parent}, {spec.turn}"


def lineage_document(run: RunId, state: LevelsState, spec: Spec | None) -> dict[str, Any]:
    wanted = [known for known in state.specs if spec is None or known.level <= spec.level]
    return {
        "version": VERSION,
        "run": run,
        "feature": state.plan.feature,
        "purpose": [{"level": level.name, "text": text} for level, text in state.plan.telos],
        "specs": [
            {
                "id": known.id,
                "level": known.level.name,
                "title": _title(known),
                "version": known.version,
                "parent": known.parent,
                "component": known.component or None,
                "turn": known.turn,
                "summary": known.summary,
                "sections": {section.name: section.text for section in known.sections},
                "in_force": state.spec_of(known.level, known.component) == known,
            }
            for known in wanted
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
