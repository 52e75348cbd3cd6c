"""The reports of each kind as tables: keys of every object, checks of one key against others; schemas and examples."""

from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationInfo

from logos.adapters.reports import values
from logos.adapters.reports.text import MAX_ITEMS, Json
from logos.adapters.reports.values import ANNOTATED, TUPLE, Few, Key, Record, Remark, Text, Texts, each, record
from logos.domain import reports
from logos.domain.levels import ALL_LEVELS, LEVELS, Level
from logos.domain.reports import ActionKind, Component, Failure, Section, TurnKind, Verdict

MAX_COMPONENTS = 100
Variant = TurnKind | tuple[TurnKind, Level]
"""A kind of report or, where one level's reports of a kind have keys of their own, the kind and the level."""

STOPPED: Variant = TurnKind.LINT
"""The variant of an agent that hands back or asks a person: like a report on linting, it has the common keys only."""


def _each_section_once(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    names = [section.name for section in sections]
    repeated = dict.fromkeys(name for name in names if names.count(name) > 1)
    if repeated:
        raise values.wrong_lines(*(f"spec_updates.{name}: the section is repeated; give it once" for name in repeated))
    return sections


def _can_be_ordered(components: tuple[Component, ...]) -> tuple[Component, ...]:
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
    lines = lines or _cycles({component.name: component.depends_on for component in components})
    if lines:
        raise values.wrong_lines(*lines)
    return components


def _cycles(needs: dict[str, tuple[str, ...]]) -> list[str]:
    """A line per cycle; the components of a found cycle are removed before the next search."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        # The error lists dependencies first; the message reads from dependent to dependency.
        cycle: list[str] = error.args[1][::-1]
        rest = {
            name: tuple(other for other in others if other not in cycle)
            for name, others in needs.items()
            if name not in cycle
        }
        return [f"components: {' → '.join(cycle)} is a cycle; one of them must come first", *_cycles(rest)]
    return []


def _files_or_a_reason(files: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    action = info.data.get("next")
    excused = action is None or action.step is not ActionKind.PROCEED or info.data.get("constraint", action)
    if not files and not excused:
        raise values.wrong("must name the files written; without any, give a constraint, hand_back or ask_person")
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
        raise values.wrong_lines(*lines)
    return failures


def _optional(reads: Any, about: str, *needed_when: tuple[str, str]) -> Key:
    return Key(reads, about, optional=True, needed_when=needed_when)


_SECTION = record(
    Section, section=Key(values.SectionName, "the name of a section", field="name"), text=Key(Text, "a non-empty text")
)
_FINDING = record(
    reports.Finding,
    what=Key(Text, "a text: what was looked at"),
    result=Key(values.choice(str, "pass", "fail", "skipped"), "pass, fail or skipped"),
    detail=_optional(Remark, "a text"),
)
_TOOL = record(
    reports.ToolUse, tool=Key(Text, "a text: the tool or command"), result=_optional(Remark, "a text: what it said")
)
_HANDS_BACK, _ASKS = ("action", ActionKind.HAND_BACK), ("action", ActionKind.ASK_PERSON)
_ACTION = values.choice(ActionKind, *ActionKind, between_words=" -")
_ONLY_THEN = AfterValidator(lambda to, info: to if info.data.get("step") is ActionKind.HAND_BACK else None)
_TO = ANNOTATED[values.LevelName | None, values.OrNone, _ONLY_THEN]
_NEXT = record(
    reports.NextAction,
    action=Key(_ACTION, "proceed, hand_back or ask_person", field="step"),
    to=_optional(_TO, "the level that work is handed back to", _HANDS_BACK),
    why=_optional(Remark, "the reason, or the question to the person", _HANDS_BACK, _ASKS),
)
_COMPONENT = record(
    Component,
    name=Key(values.Name, "a name like cart or price_list"),
    purpose=Key(Text, "a non-empty text"),
    files=_optional(values.Paths, "a list of paths inside the repository"),
    provides=_optional(Texts, "a list of the names it defines for others"),
    depends_on=_optional(values.Names, "a list of names of other components"),
)
_CONSTRAINT = record(
    reports.Constraint,
    statement=Key(Text, "a non-empty text: the technical fact"),
    affects=_optional(values.Levels, "a list of levels, L1 to L9"),
    touches_journeys=_optional(values.Flag, "true or false"),
)
_FAILURE = record(
    Failure,
    what=Key(Text, "a non-empty text: what fails"),
    expected=_optional(Remark, "a text"),
    observed=_optional(Remark, "a text"),
    conflicts_with=_optional(values.Levels, "a list of levels, L1 to L9"),
)
_CHANGE = record(
    reports.Change,
    level=Key(values.LevelName, "a level, L1 to L9"),
    change=Key(Text, "a non-empty text: what changes in its spec"),
)
_CHANGES = each(_CHANGE.type, Field(min_length=1, max_length=MAX_ITEMS))
_PROPOSAL = record(
    reports.Proposal,
    summary=Key(Text, "a non-empty text"),
    changes=Key(_CHANGES, "a list of at least one {level, change}"),
    rework=_optional(values.Names, "a list of names of components to be worked on again"),
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

_ROWS = ANNOTATED[TUPLE[_SECTION.type, ...], Few]
# The context of the validation is the sections that the spec must have.
_REQUIRED = BeforeValidator(
    lambda value, info: values.section_rows(value, info.context or ()), json_schema_input_type=_ROWS | dict[str, Text]
)
_SPEC = ANNOTATED[_ROWS, _REQUIRED, AfterValidator(_each_section_once)]
_TOOLS = each(_TOOL.or_text(lambda value: {"tool": value} if isinstance(value, str) else value))
_RESULTS_ABOUT = "a list, perhaps empty, of {what, result: pass|fail|skipped, detail}"
_ACTION_ABOUT = "an object {action: proceed|hand_back|ask_person, to, why}"
_COMMON = {
    "work_summary": Key(Text, "a non-empty text: what was done"),
    "spec_updates": Key(_SPEC, "a list of {section, text}, or an object with a text per section", field="spec"),
    "validation_results": Key(each(_FINDING.type), _RESULTS_ABOUT, field="results"),
    "tool_usage": Key(_TOOLS, "a list, perhaps empty, of {tool, result}", field="tools"),
    "next_recommended_action": Key(_NEXT.or_text(values.next_of), _ACTION_ABOUT, field="next"),
}
"""The keys of every report."""


def _verdict(*verdicts: Verdict) -> Key:
    return Key(values.choice(Verdict, *verdicts), " or ".join(verdicts))


_MISALIGNED = ("verdict", Verdict.MISALIGNED)
_JUDGEMENT = {
    "verdict": _verdict(Verdict.ALIGNED, Verdict.MISALIGNED),
    "violation": _optional(Remark, "a text: what the purpose forbids; needed when MISALIGNED", _MISALIGNED),
    "alternatives": _optional(Texts, "a list of texts, at least one when MISALIGNED", _MISALIGNED),
}
_COMPONENTS = each(_COMPONENT.type, Field(min_length=1, max_length=MAX_COMPONENTS))
_COMPONENTS_ABOUT = f"a list of 1 to {MAX_COMPONENTS} {{name, purpose, files, provides, depends_on}}"
_CONSTRAINT_OR_NONE = ANNOTATED[_CONSTRAINT.type | None, values.OrNone]
_FILES = ANNOTATED[values.Paths, AfterValidator(_files_or_a_reason)]
_FAILURES = ANNOTATED[each(_FAILURE.type), AfterValidator(_no_failure_in_a_pass)]
_FAILURES_ABOUT = "a list of {what, expected, observed, conflicts_with}, at least one when FAIL"
_EXTRA_KEYS: dict[Variant, dict[str, Key]] = {
    (TurnKind.DECOMPOSE, Level.L9): _JUDGEMENT,
    (TurnKind.DECOMPOSE, Level.L3): {
        "components": Key(ANNOTATED[_COMPONENTS, AfterValidator(_can_be_ordered)], _COMPONENTS_ABOUT)
    },
    TurnKind.AUTHOR: {
        "constraint": _optional(_CONSTRAINT_OR_NONE, "null, or {statement, affects, touches_journeys}"),
        "files": Key(_FILES, "a list of the files written, paths inside the repository"),
        "tests": Key(values.Paths, "a list of the test files written; if it is empty, why_no_tests says why"),
        "why_no_tests": _optional(Remark, "a text: why nothing is tested, in a sentence"),
        "provides": _optional(Texts, "a list of the names it defines for others"),
    },
    TurnKind.VALIDATE: {
        "verdict": _verdict(Verdict.PASS, Verdict.FAIL),
        "failures": _optional(_FAILURES, _FAILURES_ABOUT, ("verdict", Verdict.FAIL)),
    },
    TurnKind.POSITION: {"position": Key(Text, "a non-empty text: what this level holds, and why")},
    TurnKind.PROPOSE: {"proposal": Key(_PROPOSAL.type, "an object {summary, changes: [{level, change}], rework}")},
    TurnKind.AGREE: {
        "verdict": _verdict(Verdict.AGREE, Verdict.OBJECT),
        "objection": _optional(Remark, "a text, needed when OBJECT", ("verdict", Verdict.OBJECT)),
    },
    TurnKind.ALIGN: _JUDGEMENT,
}
"""The keys of a variant's reports besides the common ones."""


def variant_of(kind: TurnKind, level: Level) -> Variant:
    return (kind, level) if (kind, level) in _EXTRA_KEYS else kind


def keys_of(variant: Variant) -> dict[str, Key]:
    return _COMMON | _EXTRA_KEYS.get(variant, {})


@cache
def validator(variant: Variant) -> TypeAdapter[Json]:
    """Validates a JSON object as the fields of a `Report`, all but its kind and level."""
    return TypeAdapter(Record(reports.Report, keys_of(variant), make=dict).type)


def sections_of(kind: TurnKind, level: Level) -> tuple[str, ...]:
    """The sections that a report must have: only a spec has those of its level."""
    return LEVELS[level].sections if kind in (TurnKind.DECOMPOSE, TurnKind.AUTHOR) else ()


def report_schema(kind: TurnKind, level: Level) -> Json:
    """The JSON Schema of a kind's report at a level. The reader accepts all that it allows, and a little more."""
    return _schema(variant_of(kind, level), sections_of(kind, level), f"{kind} at {level.name}")


def report_schemas() -> dict[str, Json]:
    """All schemas: by kind, and for specs by kind and level. `decompose` is what the specs have in common."""
    common = {kind.value: _schema(kind, (), kind.value) for kind in TurnKind}
    specs = {
        f"{TurnKind.DECOMPOSE}.{level.name}": report_schema(TurnKind.DECOMPOSE, level)
        for level in ALL_LEVELS
        if LEVELS[level].document == TurnKind.DECOMPOSE
    }
    return {**common, TurnKind.AUTHOR.value: report_schema(TurnKind.AUTHOR, Level.L2), **specs}


def _schema(variant: Variant, sections: tuple[str, ...], title: str) -> Json:
    schema = validator(variant).json_schema()
    as_list, as_object = schema["properties"]["spec_updates"]["anyOf"]
    if sections:
        as_list["allOf"] = [
            {"contains": {"properties": {"section": {"const": name}}, "required": ["section"]}} for name in sections
        ]
        as_object["required"] = list(sections)
    if variant is TurnKind.VALIDATE:
        passed = {"properties": {"verdict": {"const": "PASS"}}, "required": ["verdict"]}
        schema["allOf"].append({"if": passed, "then": {"properties": {"failures": {"maxItems": 0}}}})
    about = {"title": f"Logos report: {title}", "description": "What an agent of a level hands in."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, **about}


def example(kind: TurnKind, level: Level) -> Json:
    """A minimal good report of a kind at a level."""
    change = {"level": level.name, "change": "It says what was missing."}
    part: Json = {"name": "feature", "purpose": "The whole feature.", "files": [], "provides": [], "depends_on": []}
    good: Json = {TurnKind.VALIDATE: "PASS", TurnKind.AGREE: "AGREE"}
    texts = {name: f"The {name.replace('_', ' ')} of the feature." for name in sections_of(kind, level)}
    given: Json = {
        "work_summary": f"{LEVELS[level].title}: {kind} done.",
        "spec_updates": [{"section": name, "text": text} for name, text in texts.items()],
        "next_recommended_action": {"action": "proceed", "to": None, "why": ""},
        "verdict": good.get(kind, "ALIGNED"),
        "components": [part],
        "files": ["feature.py"],
        "position": f"{level.name} holds to its spec.",
        "proposal": {"summary": "Say it more exactly.", "changes": [change], "rework": []},
        "why_no_tests": "This is an example, which does nothing.",
        **dict.fromkeys(("violation", "objection"), ""),
        "constraint": None,
    }
    return {key: given.get(key, []) for key in keys_of(variant_of(kind, level))}
