"""Reports as agents write them: one model per kind, each with what it becomes."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from logos.adapters.report_values import (
    Action,
    Agreement,
    Alignment,
    AsList,
    Few,
    Flag,
    LevelName,
    Levels,
    Name,
    Names,
    OrNone,
    Passing,
    Paths,
    Remark,
    Result,
    SectionName,
    Text,
    Texts,
    cycles,
    next_of,
    rows_of,
    says,
    tool_of,
    wrong,
)
from logos.domain.levels import Level
from logos.domain.reports import (
    ActionKind,
    Change,
    Component,
    Constraint,
    Failure,
    Finding,
    NextAction,
    Proposal,
    Report,
    Section,
    ToolUse,
    TurnKind,
    Verdict,
)

MAX_COMPONENTS = 100
_SOME_TEXT = {"type": "string", "minLength": 1}
_SOME_LIST = {"type": "array", "minItems": 1}


def _when(field: str, says: str, then: dict[str, Any], needs: tuple[str, ...] = ()) -> dict[str, Any]:
    """A condition of a schema: where a field says this, others must look like that."""
    said = {"properties": {field: {"const": says}}, "required": [field]}
    return {"if": said, "then": {"properties": then, "required": list(needs)}}


class Row(BaseModel):
    # Defaults are checked, too, because what may be left out depends on what else is said.
    model_config = ConfigDict(frozen=True, extra="ignore", validate_default=True)


class SectionRow(Row):
    section: SectionName = Field(description="the name of a section")
    text: Text = Field(description="a non-empty text")

    def domain(self) -> Section:
        return Section(self.section, self.text)


class FindingRow(Row):
    what: Text = Field(description="a text: what was looked at")
    result: Result = Field(description="pass, fail or skipped")
    detail: Remark = Field("", description="a text")

    def domain(self) -> Finding:
        return Finding(self.what, self.result, self.detail)


class ToolRow(Row):
    tool: Text = Field(description="a text: the tool or command")
    result: Remark = Field("", description="a text: what it said")

    def domain(self) -> ToolUse:
        return ToolUse(self.tool, self.result)


class NextRow(Row):
    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                _when("action", "hand_back", {"to": {"not": {"type": "null"}}, "why": _SOME_TEXT}, ("to", "why")),
                _when("action", "ask_person", {"why": _SOME_TEXT}, ("why",)),
            ]
        }
    )

    action: Action = Field(description="proceed, hand_back or ask_person")
    to: Annotated[LevelName | None, OrNone] = Field(None, description="the level that work is handed back to")
    why: Remark = Field("", description="the reason, or the question to the person")

    @field_validator("to")
    @classmethod
    def _names_a_level(cls, to: Level | None, info: ValidationInfo) -> Level | None:
        action = info.data.get("action")
        if action is ActionKind.HAND_BACK and to is None:
            raise wrong("must name the level when action is hand_back, L1 to L9")
        return to if action is ActionKind.HAND_BACK else None

    @field_validator("why")
    @classmethod
    def _says_why(cls, why: str, info: ValidationInfo) -> str:
        action = info.data.get("action")
        if action in (ActionKind.HAND_BACK, ActionKind.ASK_PERSON) and not why:
            raise wrong(f"must not be empty when action is {action}")
        return why

    def domain(self) -> NextAction:
        return NextAction(self.action, self.to, self.why)


class ComponentRow(Row):
    name: Name = Field(description="a name like cart or price_list")
    purpose: Text = Field(description="a non-empty text")
    files: Paths = Field((), description="a list of paths inside the repository")
    provides: Texts = Field((), description="a list of the names it defines for others")
    depends_on: Names = Field((), description="a list of names of other components")

    def domain(self) -> Component:
        return Component(self.name, self.purpose, self.files, self.provides, self.depends_on)


class ConstraintRow(Row):
    statement: Text = Field(description="a non-empty text: the technical fact")
    affects: Levels = Field((), description="a list of levels, L1 to L9")
    touches_journeys: Flag = Field(False, description="true or false")

    def domain(self) -> Constraint:
        return Constraint(self.statement, self.affects, self.touches_journeys)


class FailureRow(Row):
    what: Text = Field(description="a non-empty text: what fails")
    expected: Remark = Field("", description="a text")
    observed: Remark = Field("", description="a text")
    conflicts_with: Levels = Field((), description="a list of levels, L1 to L9")

    def domain(self) -> Failure:
        return Failure(self.what, self.expected, self.observed, self.conflicts_with)


class ChangeRow(Row):
    level: LevelName = Field(description="a level, L1 to L9")
    change: Text = Field(description="a non-empty text: what changes in its spec")

    def domain(self) -> Change:
        return Change(self.level, self.change)


class ProposalRow(Row):
    summary: Text = Field(description="a non-empty text")
    changes: Annotated[tuple[ChangeRow, ...], Few, AsList] = Field(
        min_length=1, description="a list of at least one {level, change}"
    )
    rework: Names = Field((), description="a list of names of components to be worked on again")

    def domain(self) -> Proposal:
        return Proposal(self.summary, tuple(row.domain() for row in self.changes), self.rework)


class AnyReport(Row):
    """What every kind of report says. The context of the validation is the sections that the spec must have."""

    work_summary: Text = Field(description="a non-empty text: what was done")
    spec_updates: Annotated[
        tuple[SectionRow, ...],
        Few,
        BeforeValidator(rows_of, json_schema_input_type=Annotated[list[SectionRow], Few] | dict[str, Text]),
    ] = Field(description="a list of {section, text}, or an object with a text per section")
    validation_results: Annotated[tuple[FindingRow, ...], Few, AsList] = Field(
        description="a list, perhaps empty, of {what, result: pass|fail|skipped, detail}"
    )
    tool_usage: Annotated[
        tuple[Annotated[ToolRow, BeforeValidator(tool_of, json_schema_input_type=ToolRow | Text)], ...], Few, AsList
    ] = Field(description="a list, perhaps empty, of {tool, result}")
    next_recommended_action: Annotated[NextRow, BeforeValidator(next_of, json_schema_input_type=NextRow | Text)] = (
        Field(description="an object {action: proceed|hand_back|ask_person, to, why}")
    )

    @field_validator("spec_updates")
    @classmethod
    def _each_once(cls, rows: tuple[SectionRow, ...]) -> tuple[SectionRow, ...]:
        names = [row.section for row in rows]
        twice = dict.fromkeys(name for name in names if names.count(name) > 1)
        if twice:
            raise says(*(f"spec_updates.{name}: the section is there twice; give it once" for name in twice))
        return rows

    def report(self, kind: TurnKind, level: Level) -> Report:
        return Report(
            kind,
            level,
            self.work_summary,
            tuple(row.domain() for row in self.spec_updates),
            tuple(row.domain() for row in self.validation_results),
            tuple(row.domain() for row in self.tool_usage),
            self.next_recommended_action.domain(),
        )


class Judged(AnyReport):
    """Of a request, or of an agreement: does it serve the purpose?"""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                _when(
                    "verdict",
                    "MISALIGNED",
                    {"violation": _SOME_TEXT, "alternatives": _SOME_LIST},
                    ("violation", "alternatives"),
                )
            ]
        }
    )

    verdict: Alignment = Field(description="ALIGNED or MISALIGNED")
    violation: Remark = Field("", description="a text: what the purpose forbids; needed when MISALIGNED")
    alternatives: Texts = Field((), description="a list of texts, at least one when MISALIGNED")

    @field_validator("violation", "alternatives")
    @classmethod
    def _explained(cls, value: Any, info: ValidationInfo) -> Any:
        if info.data.get("verdict") is Verdict.MISALIGNED and not value:
            raise wrong("must not be empty when the verdict is MISALIGNED")
        return value

    def report(self, kind: TurnKind, level: Level) -> Report:
        common = super().report(kind, level)
        return replace(common, verdict=self.verdict, violation=self.violation, alternatives=self.alternatives)


class Divided(AnyReport):
    """The work in components."""

    components: Annotated[tuple[ComponentRow, ...], AsList] = Field(
        min_length=1,
        max_length=MAX_COMPONENTS,
        description=f"a list of 1 to {MAX_COMPONENTS} {{name, purpose, files, provides, depends_on}}",
    )

    @field_validator("components")
    @classmethod
    def _can_be_ordered(cls, rows: tuple[ComponentRow, ...]) -> tuple[ComponentRow, ...]:
        lines = [*_misnamed(rows)] or [*cycles({row.name: row.depends_on for row in rows})]
        if lines:
            raise says(*lines)
        return rows

    def report(self, kind: TurnKind, level: Level) -> Report:
        return replace(super().report(kind, level), components=tuple(row.domain() for row in self.components))


def _misnamed(rows: tuple[ComponentRow, ...]) -> list[str]:
    names = [row.name for row in rows]
    lines = [
        f'components[{number}].name = "{name}": the name is taken by components[{names.index(name)}]'
        for number, name in enumerate(names)
        if names.index(name) != number
    ]
    for number, row in enumerate(rows):
        for place, other in enumerate(row.depends_on):
            where = f'components[{number}].depends_on[{place}] = "{other}"'
            if other == row.name:
                lines.append(f"{where}: a component cannot depend on itself")
            elif other not in names:
                lines.append(f"{where}: there is no such component; name one of the report's components")
    return lines


class Authored(AnyReport):
    """A component's code."""

    constraint: Annotated[ConstraintRow | None, OrNone] = Field(
        None, description="null, or {statement, affects, touches_journeys}"
    )
    files: Paths = Field(description="a list of the files written, paths inside the repository")
    tests: Paths = Field(description="a list, perhaps empty, of the test files written")
    provides: Texts = Field((), description="a list of the names it defines for others")

    @field_validator("files")
    @classmethod
    def _something_written(cls, files: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        step = info.data.get("next_recommended_action")
        excused = step is None or step.action is not ActionKind.PROCEED or info.data.get("constraint", step)
        if not files and not excused:
            raise wrong("must name the files written; without any, give a constraint, hand_back or ask_person")
        return files

    def report(self, kind: TurnKind, level: Level) -> Report:
        return replace(
            super().report(kind, level),
            constraint=self.constraint.domain() if self.constraint else None,
            files=self.files,
            tests=self.tests,
            provides=self.provides,
        )


class Validated(AnyReport):
    """Whether a level's own spec is satisfied."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                _when("verdict", "FAIL", {"failures": _SOME_LIST}, ("failures",)),
                _when("verdict", "PASS", {"failures": {"maxItems": 0}}),
            ]
        }
    )

    verdict: Passing = Field(description="PASS or FAIL")
    failures: Annotated[tuple[FailureRow, ...], Few, AsList] = Field(
        (), description="a list of {what, expected, observed, conflicts_with}, at least one when FAIL"
    )

    @field_validator("failures")
    @classmethod
    def _fits_the_verdict(cls, failures: tuple[FailureRow, ...], info: ValidationInfo) -> tuple[FailureRow, ...]:
        verdict, results = info.data.get("verdict"), info.data.get("validation_results", ())
        if verdict is Verdict.FAIL and not failures:
            raise wrong("must name at least one failure when the verdict is FAIL")
        lines = [
            f'verdict = "PASS": contradicts validation_results[{number}], which is fail; a PASS has no failing result'
            for number, row in enumerate(results)
            if row.result == "fail"
        ]
        if failures:
            lines.append('verdict = "PASS": contradicts failures, which must be empty when the verdict is PASS')
        if verdict is Verdict.PASS and lines:
            raise says(*lines)
        return failures

    def report(self, kind: TurnKind, level: Level) -> Report:
        failures = tuple(row.domain() for row in self.failures)
        return replace(super().report(kind, level), verdict=self.verdict, failures=failures)


class Positioned(AnyReport):
    position: Text = Field(description="a non-empty text: what this level holds, and why")

    def report(self, kind: TurnKind, level: Level) -> Report:
        return replace(super().report(kind, level), position=self.position)


class Proposed(AnyReport):
    proposal: ProposalRow = Field(description="an object {summary, changes: [{level, change}], rework}")

    def report(self, kind: TurnKind, level: Level) -> Report:
        return replace(super().report(kind, level), proposal=self.proposal.domain())


class Agreed(AnyReport):
    model_config = ConfigDict(
        json_schema_extra={"allOf": [_when("verdict", "OBJECT", {"objection": _SOME_TEXT}, ("objection",))]}
    )

    verdict: Agreement = Field(description="AGREE or OBJECT")
    objection: Remark = Field("", description="a text, needed when OBJECT")

    @field_validator("objection")
    @classmethod
    def _objects_to_something(cls, objection: str, info: ValidationInfo) -> str:
        if info.data.get("verdict") is Verdict.OBJECT and not objection:
            raise wrong("must not be empty when the verdict is OBJECT")
        return objection

    def report(self, kind: TurnKind, level: Level) -> Report:
        return replace(super().report(kind, level), verdict=self.verdict, objection=self.objection)


MODELS: dict[TurnKind, type[AnyReport]] = {
    TurnKind.DECOMPOSE: AnyReport,
    TurnKind.AUTHOR: Authored,
    TurnKind.LINT: AnyReport,
    TurnKind.VALIDATE: Validated,
    TurnKind.POSITION: Positioned,
    TurnKind.PROPOSE: Proposed,
    TurnKind.AGREE: Agreed,
    TurnKind.ALIGN: Judged,
}

AT_LEVEL: dict[tuple[TurnKind, Level], type[AnyReport]] = {
    (TurnKind.DECOMPOSE, Level.L9): Judged,
    (TurnKind.DECOMPOSE, Level.L3): Divided,
}
"""Where one level's report of a kind says more than the others'."""

INNER: dict[str, type[Row]] = {
    "spec_updates": SectionRow,
    "validation_results": FindingRow,
    "tool_usage": ToolRow,
    "next_recommended_action": NextRow,
    "components": ComponentRow,
    "constraint": ConstraintRow,
    "failures": FailureRow,
    "proposal": ProposalRow,
    "changes": ChangeRow,
}
"""What the entries of a field are."""
