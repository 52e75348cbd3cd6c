"""The reports of each kind as tables: the keys of every object in them, and the checks of one key against others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationInfo

from logos.adapters.reports import values
from logos.adapters.reports.schema import ANNOTATED, TUPLE, Json, Key, Record, record, wrong, wrong_lines
from logos.adapters.reports.text import MAX_ITEMS
from logos.adapters.reports.values import Few, Remark, Text, Texts
from logos.domain import reports
from logos.domain.levels import Level
from logos.domain.reports import ActionKind, Component, Failure, Section, TurnKind, Verdict

MAX_COMPONENTS = 100
Variant = TurnKind | tuple[TurnKind, Level]
"""A kind of report or, where one level's reports of a kind have keys of their own, the kind and the level."""

STOPPED: Variant = TurnKind.LINT
"""The variant of an agent that hands back or asks a person: like a report on linting, it has the common keys only."""


def _each(record: Any, length: Any = Few) -> Any:
    return ANNOTATED[TUPLE[record, ...], length, values.AsList]


def _checked(reads: Any, check: Callable[[Any, ValidationInfo], Any]) -> Any:
    """A type with a check that may use the valid fields before it."""
    return ANNOTATED[reads, AfterValidator(check)]


def _only_when_handing_back(to: Level | None, info: ValidationInfo) -> Level | None:
    return to if info.data.get("step") is ActionKind.HAND_BACK else None


def _each_section_once(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    names = [section.name for section in sections]
    repeated = dict.fromkeys(name for name in names if names.count(name) > 1)
    if repeated:
        raise wrong_lines(*(f"spec_updates.{name}: the section is repeated; give it once" for name in repeated))
    return sections


def _can_be_ordered(components: tuple[Component, ...]) -> tuple[Component, ...]:
    lines = _wrong_names(components) or _cycles({component.name: component.depends_on for component in components})
    if lines:
        raise wrong_lines(*lines)
    return components


def _wrong_names(components: tuple[Component, ...]) -> list[str]:
    names = [component.name for component in components]
    lines = [
        f'components[{number}].name = "{name}": the name is taken by components[{names.index(name)}]'
        for number, name in enumerate(names)
        if names.index(name) != number
    ]
    for number, component in enumerate(components):
        for position, other in enumerate(component.depends_on):
            location = f'components[{number}].depends_on[{position}] = "{other}"'
            if other == component.name:
                lines.append(f"{location}: a component cannot depend on itself")
            elif other not in names:
                lines.append(f"{location}: there is no such component; name one of the report's components")
    return lines


def _cycles(needs: dict[str, tuple[str, ...]]) -> list[str]:
    """A line per cycle; the components of a found cycle are removed before the next search."""
    lines: list[str] = []
    while True:
        try:
            TopologicalSorter(needs).prepare()
        except CycleError as error:
            # The error lists dependencies first; the message reads from dependent to dependency.
            cycle: list[str] = error.args[1][::-1]
            lines.append(f"components: {' → '.join(cycle)} is a cycle; one of them must come first")
            needs = {
                name: tuple(other for other in others if other not in cycle)
                for name, others in needs.items()
                if name not in cycle
            }
        else:
            return lines


def _files_or_a_reason(files: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    action = info.data.get("next")
    excused = action is None or action.step is not ActionKind.PROCEED or info.data.get("constraint", action)
    if not files and not excused:
        raise wrong("must name the files written; without any, give a constraint, hand_back or ask_person")
    return files


def _no_failure_in_a_pass(failures: tuple[Failure, ...], info: ValidationInfo) -> tuple[Failure, ...]:
    lines = [
        f'verdict = "PASS": contradicts validation_results[{number}], which is fail; a PASS has no failing result'
        for number, finding in enumerate(info.data.get("results", ()))
        if finding.result == "fail"
    ]
    if failures:
        lines.append('verdict = "PASS": contradicts failures, which must be empty when the verdict is PASS')
    if info.data.get("verdict") is Verdict.PASS and lines:
        raise wrong_lines(*lines)
    return failures


_SECTION = record(
    Section,
    section=Key(values.SectionName, "the name of a section", field="name"),
    text=Key(Text, "a non-empty text"),
)
_FINDING = record(
    reports.Finding,
    what=Key(Text, "a text: what was looked at"),
    result=Key(values.choice(str, "pass", "fail", "skipped"), "pass, fail or skipped"),
    detail=Key(Remark, "a text", optional=True),
)
_TOOL = record(
    reports.ToolUse,
    tool=Key(Text, "a text: the tool or command"),
    result=Key(Remark, "a text: what it said", optional=True),
)
_HANDS_BACK = ("action", ActionKind.HAND_BACK)
_NEXT = record(
    reports.NextAction,
    action=Key(values.Action, "proceed, hand_back or ask_person", field="step"),
    to=Key(
        _checked(ANNOTATED[values.LevelName | None, values.OrNone], _only_when_handing_back),
        "the level that work is handed back to",
        optional=True,
        needed_when=(_HANDS_BACK,),
    ),
    why=Key(
        Remark,
        "the reason, or the question to the person",
        optional=True,
        needed_when=(_HANDS_BACK, ("action", ActionKind.ASK_PERSON)),
    ),
)
_COMPONENT = record(
    Component,
    name=Key(values.Name, "a name like cart or price_list"),
    purpose=Key(Text, "a non-empty text"),
    files=Key(values.Paths, "a list of paths inside the repository", optional=True),
    provides=Key(Texts, "a list of the names it defines for others", optional=True),
    depends_on=Key(values.Names, "a list of names of other components", optional=True),
)
_CONSTRAINT = record(
    reports.Constraint,
    statement=Key(Text, "a non-empty text: the technical fact"),
    affects=Key(values.Levels, "a list of levels, L1 to L9", optional=True),
    touches_journeys=Key(values.Flag, "true or false", optional=True),
)
_FAILURE = record(
    Failure,
    what=Key(Text, "a non-empty text: what fails"),
    expected=Key(Remark, "a text", optional=True),
    observed=Key(Remark, "a text", optional=True),
    conflicts_with=Key(values.Levels, "a list of levels, L1 to L9", optional=True),
)
_CHANGE = record(
    reports.Change,
    level=Key(values.LevelName, "a level, L1 to L9"),
    change=Key(Text, "a non-empty text: what changes in its spec"),
)
_PROPOSAL = record(
    reports.Proposal,
    summary=Key(Text, "a non-empty text"),
    changes=Key(
        _each(_CHANGE.type, Field(min_length=1, max_length=MAX_ITEMS)), "a list of at least one {level, change}"
    ),
    rework=Key(values.Names, "a list of names of components to be worked on again", optional=True),
)
NESTED: dict[str, Record] = {
    "spec_updates": _SECTION,
    "validation_results": _FINDING,
    "tool_usage": _TOOL,
    "next_recommended_action": _NEXT,
    "components": _COMPONENT,
    "constraint": _CONSTRAINT,
    "failures": _FAILURE,
    "proposal": _PROPOSAL,
    "changes": _CHANGE,
}
"""The objects under a key, single or in a list."""

_SECTIONS = ANNOTATED[
    TUPLE[_SECTION.type, ...],
    Few,
    BeforeValidator(
        values.required_sections, json_schema_input_type=ANNOTATED[TUPLE[_SECTION.type, ...], Few] | dict[str, Text]
    ),
    AfterValidator(_each_section_once),
]
COMMON = {
    "work_summary": Key(Text, "a non-empty text: what was done"),
    "spec_updates": Key(_SECTIONS, "a list of {section, text}, or an object with a text per section", field="spec"),
    "validation_results": Key(
        _each(_FINDING.type), "a list, perhaps empty, of {what, result: pass|fail|skipped, detail}", field="results"
    ),
    "tool_usage": Key(
        _each(_TOOL.or_text(values.tool_of, Text)), "a list, perhaps empty, of {tool, result}", field="tools"
    ),
    "next_recommended_action": Key(
        _NEXT.or_text(values.next_of, Text), "an object {action: proceed|hand_back|ask_person, to, why}", field="next"
    ),
}
"""The keys of every report."""


def _verdict(*verdicts: Verdict) -> Key:
    return Key(values.choice(Verdict, *verdicts), " or ".join(verdicts))


def _when(verdict: Verdict, reads: Any, about: str) -> Key:
    return Key(reads, about, optional=True, needed_when=(("verdict", verdict),))


_JUDGEMENT = {
    "verdict": _verdict(Verdict.ALIGNED, Verdict.MISALIGNED),
    "violation": _when(Verdict.MISALIGNED, Remark, "a text: what the purpose forbids; needed when MISALIGNED"),
    "alternatives": _when(Verdict.MISALIGNED, Texts, "a list of texts, at least one when MISALIGNED"),
}
_DIVISION = {
    "components": Key(
        ANNOTATED[
            _each(_COMPONENT.type, Field(min_length=1, max_length=MAX_COMPONENTS)), AfterValidator(_can_be_ordered)
        ],
        f"a list of 1 to {MAX_COMPONENTS} {{name, purpose, files, provides, depends_on}}",
    )
}
_EXTRA_KEYS: dict[Variant, dict[str, Key]] = {
    (TurnKind.DECOMPOSE, Level.L9): _JUDGEMENT,
    (TurnKind.DECOMPOSE, Level.L3): _DIVISION,
    TurnKind.AUTHOR: {
        "constraint": Key(
            ANNOTATED[_CONSTRAINT.type | None, values.OrNone],
            "null, or {statement, affects, touches_journeys}",
            optional=True,
        ),
        "files": Key(
            _checked(values.Paths, _files_or_a_reason), "a list of the files written, paths inside the repository"
        ),
        "tests": Key(values.Paths, "a list, perhaps empty, of the test files written"),
        "provides": Key(Texts, "a list of the names it defines for others", optional=True),
    },
    TurnKind.VALIDATE: {
        "verdict": _verdict(Verdict.PASS, Verdict.FAIL),
        "failures": _when(
            Verdict.FAIL,
            _checked(_each(_FAILURE.type), _no_failure_in_a_pass),
            "a list of {what, expected, observed, conflicts_with}, at least one when FAIL",
        ),
    },
    TurnKind.POSITION: {"position": Key(Text, "a non-empty text: what this level holds, and why")},
    TurnKind.PROPOSE: {"proposal": Key(_PROPOSAL.type, "an object {summary, changes: [{level, change}], rework}")},
    TurnKind.AGREE: {
        "verdict": _verdict(Verdict.AGREE, Verdict.OBJECT),
        "objection": _when(Verdict.OBJECT, Remark, "a text, needed when OBJECT"),
    },
    TurnKind.ALIGN: _JUDGEMENT,
}
"""The keys of a variant's reports besides the common ones."""


def variant_of(kind: TurnKind, level: Level) -> Variant:
    return (kind, level) if (kind, level) in _EXTRA_KEYS else kind


def keys_of(variant: Variant) -> dict[str, Key]:
    return COMMON | _EXTRA_KEYS.get(variant, {})


@cache
def validator(variant: Variant) -> TypeAdapter[Json]:
    """Validates a JSON object as the fields of a `Report`, all but its kind and level."""
    return TypeAdapter(Record(reports.Report, keys_of(variant), make=dict).type)
