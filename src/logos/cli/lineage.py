"""`logos lineage`: what each file of a build was built for."""

from dataclasses import asdict
from typing import Annotated, Any

from rich.console import Console

from logos.app.runs import newest_of, open_levels
from logos.app.workdir import find_run, place_to_read, reading
from logos.cli.options import AsJson, WorkDir, argument, command
from logos.cli.output import console as show
from logos.domain.levels import LEVELS, Level
from logos.domain.plans import LevelsPlan
from logos.domain.specs import Spec
from logos.domain.turns import RunId
from logos.errors import UsageError
from logos.flows.levels.state import LevelsState
from logos.ports import Log
from logos.views.build_state import built_component
from logos.views.document import VERSION
from logos.views.redact import one_line


@command(
    "logos lineage                    # of the newest build",
    "logos lineage k3 L4              # the build whose id begins with k3, from L4 down",
    "logos lineage L3.v2 --json",
)
def lineage(
    words: Annotated[
        list[str] | None, argument("[RUN] [SPEC]", "A build, and a spec in it: L4, L4.v2, L2.cart or a component.")
    ] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Show why every file of a build exists: purpose, specs in force, components, files, tests, and replaced specs."""
    with reading(place_to_read(wd)) as log:
        run, wanted = _chosen(log, words or [])
        state = open_levels(log, run).state
    spec = _find_spec(state, wanted) if wanted else None
    if as_json:
        show.document(lineage_document(run, state, spec))
    else:
        put_lineage(show.console(), run, state, spec)


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


def _find_spec(state: LevelsState, wanted: str) -> Spec:
    """A spec by its id, its level, its component, or their beginning; the newest version."""
    for spec in reversed(state.specs):
        if wanted.casefold() in map(str.casefold, (spec.id, spec.id.rpartition(".v")[0], spec.component)):
            return spec
    known = ", ".join(dict.fromkeys(spec.id for spec in state.specs)) or "none yet"
    raise UsageError(f"this build has no spec {wanted!r}; it has {known}")


def put_lineage(target: Console, run: RunId, state: LevelsState, spec: Spec | None) -> None:
    def put(depth: int, text: str, style: str = "") -> None:
        show.put(target, "  " * depth + one_line(text), style)

    def put_spec(depth: int, spec: Spec, style: str = "") -> None:
        title = LEVELS[spec.level].title
        put(depth, f"{spec.id} {title}: {spec.summary}  (from {spec.parent}, {spec.turn})", style)

    put(0, f"build {run}: {state.plan.feature}", "bold")
    put(0, f"purpose: {dict(state.plan.telos).get(max(dict(state.plan.telos)), '-')}" if state.plan.telos else "")
    in_force = [held for level in state.levels if (held := state.spec_of(level)) is not None]
    for depth, held in enumerate(in_force, 1):
        if spec is None or held.level <= spec.level:
            put_spec(depth, held)
    for component in state.components:
        if spec is None or not spec.component or spec.component == component.name:
            held, built = state.spec_of(Level.L2, component.name), state.contributions.get(component.name)
            name, summary = (held.id, held.summary) if held else (f"L2.{component.name}", "not built yet")
            put(len(in_force) + 1, f"{name}: {summary}")
            files = [path for path in built.files if path not in built.tests] if built else []
            for text in (*files, *(f"test {test}" for test in (built.tests if built else ()))):
                put(len(in_force) + 2, text)
    if spec is not None:
        return
    replaced = [old for old in state.specs if state.spec_of(old.level, old.component) != old]
    if replaced:
        put(0, "replaced specs:", "dim")
    for old in replaced:
        put_spec(1, old, "dim")
    for settled in state.settled:
        put(0, f"{settled.id} ({settled.cause}) decided by {settled.by}: {settled.proposal.summary}", "dim")


def lineage_document(run: RunId, state: LevelsState, spec: Spec | None) -> dict[str, Any]:
    specs = [
        {
            **asdict(known),
            "id": known.id,
            "level": known.level.name,
            "title": LEVELS[known.level].title,
            "component": known.component or None,
            "sections": {section.name: section.text for section in known.sections},
            "in_force": state.spec_of(known.level, known.component) == known,
        }
        for known in state.specs
        if spec is None or known.level <= spec.level
    ]
    components = [built_component(state, component) for component in state.components]
    purpose = [{"level": level.name, "text": text} for level, text in state.plan.telos]
    build = {"version": VERSION, "run": run, "feature": state.plan.feature, "purpose": purpose}
    return {**build, "specs": specs, "components": components}
