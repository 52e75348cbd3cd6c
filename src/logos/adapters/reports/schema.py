"""Frozen dataclasses read from JSON objects: tables of keys that pydantic validates them by."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

Json = dict[str, Any]
# For types that are built at run time; type checkers accept these only in type expressions.
ANNOTATED: Any = Annotated
LITERAL: Any = Literal
TUPLE: Any = tuple


def wrong(why: str) -> PydanticCustomError:
    """The error of one value."""
    return PydanticCustomError("wrong", "{why}", {"why": why})


def wrong_lines(*lines: str) -> PydanticCustomError:
    """An error of whole lines, each of which names its location."""
    return PydanticCustomError("lines", "{lines}", {"lines": lines})


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a JSON object: the type it is read as, and what may stand there.

    `field` is the name of the dataclass's field, where it differs. An optional key has the default of the field, unless
    it is needed: `needed_when` has the values of an earlier key that forbid this one to be empty.
    """

    reads: Any
    about: str
    optional: bool = False
    needed_when: tuple[tuple[str, str], ...] = ()
    field: str = ""

    @property
    def type(self) -> Any:
        needed = (AfterValidator(self._check_needed),) if self.needed_when else ()
        return ANNOTATED[(self.reads, *needed, Field(description=self.about))]

    def _check_needed(self, value: Any, info: ValidationInfo) -> Any:
        for key, needing in self.needed_when:
            # `data` has the valid fields before this one. Only a verdict or an action is this very member of an enum.
            if not value and any(earlier is needing for earlier in info.data.values()):
                raise wrong(f"must not be empty when {key} is {needing}")
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """How a dataclass is read from a JSON object: an annotation that replaces the schema pydantic derives from it.

    `make` gets the values of the fields; without it, the dataclass itself does.
    """

    cls: type[Any]
    keys: Mapping[str, Key]
    make: Callable[..., Any] | None = None

    @property
    def type(self) -> Any:
        return ANNOTATED[self.cls, self]

    def or_text(self, parse: Callable[[object], object], text: Any) -> Any:
        """The type of an object that may also be written as a text, which `parse` turns into an object."""
        return ANNOTATED[self.type, BeforeValidator(parse, json_schema_input_type=self.type | text)]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        defaults = {field.name: field.default for field in dataclasses.fields(self.cls)}
        fields: dict[str, core_schema.TypedDictField] = {}
        for name, key in self.keys.items():
            field, schema = key.field or name, handler.generate_schema(key.type)
            if key.optional:
                schema = core_schema.with_default_schema(schema, default=defaults[field], validate_default=True)
            fields[field] = core_schema.typed_dict_field(schema, required=not key.optional, validation_alias=name)
        values = core_schema.typed_dict_schema(fields, cls_name=self.cls.__name__)
        make = self.make or self.cls
        return core_schema.no_info_after_validator_function(lambda fields: make(**fields), values)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
        json = handler(schema)
        needs = [_needs(name, *case) for name, key in self.keys.items() for case in key.needed_when]
        # pydantic asks again for every validator around the record.
        return {**json, "allOf": needs} if needs and "properties" in json else json


def record(cls: type[Any], **keys: Key) -> Record:
    return Record(cls, keys)


def _needs(name: str, key: str, needing: str) -> Json:
    """The condition in a JSON Schema that a key is there and not empty where another one has this value."""
    given = {"properties": {key: {"const": str(needing)}}, "required": [key]}
    return {"if": given, "then": {"properties": {name: {"not": {"enum": [None, "", []]}}}, "required": [name]}}
