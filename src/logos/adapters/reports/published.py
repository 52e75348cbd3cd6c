"""What reports look like, for others: their JSON Schemas, and an example of each kind."""

from __future__ import annotations

from logos.adapters.reports.records import Variant, keys_of, validator, variant_of
from logos.adapters.reports.schema import Json
from logos.domain.levels import ALL_LEVELS, LEVELS, Level
from logos.domain.reports import TurnKind

# The kinds whose report is a spec and has the sections of its level.
_SPEC_KINDS = (TurnKind.DECOMPOSE, TurnKind.AUTHOR)
_GOOD_VERDICTS = {TurnKind.VALIDATE: "PASS", TurnKind.AGREE: "AGREE"}


def sections_of(kind: TurnKind, level: Level) -> tuple[str, ...]:
    """The sections that a report must have."""
    return LEVELS[level].sections if kind in _SPEC_KINDS else ()


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
    values: Json = {
        "work_summary": f"{LEVELS[level].title}: {kind} done.",
        "spec_updates": [
            {"section": name, "text": f"The {name.replace('_', ' ')} of the feature."}
            for name in sections_of(kind, level)
        ],
        "validation_results": [],
        "tool_usage": [],
        "next_recommended_action": {"action": "proceed", "to": None, "why": ""},
        "verdict": _GOOD_VERDICTS.get(kind, "ALIGNED"),
        "violation": "",
        "alternatives": [],
        "components": [
            {"name": "feature", "purpose": "The whole feature.", "files": [], "provides": [], "depends_on": []}
        ],
        "files": ["feature.py"],
        "tests": [],
        "provides": [],
        "constraint": None,
        "failures": [],
        "position": f"{level.name} holds to its spec.",
        "proposal": {
            "summary": "Say it more exactly.",
            "changes": [{"level": level.name, "change": "It says what was missing."}],
            "rework": [],
        },
        "objection": "",
    }
    keys = keys_of(variant_of(kind, level))
    return {key: value for key, value in values.items() if key in keys}
