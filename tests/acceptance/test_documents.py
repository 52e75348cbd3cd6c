"""What commands print with `--json` is what `logos schema --output` says, field by field."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from logos.testing import FAIL, PASS
from tests.support.sandbox import Sandbox
from tests.unit.test_cli_levels import RUN, SHOP, Talk, built, here, keep


@pytest.fixture
def schema(sandbox: Sandbox) -> dict[str, Any]:
    """As published, but without room for fields that it does not name."""
    published = sandbox("schema", "--output").json
    Draft202012Validator.check_schema(published)
    for definition in published["$defs"].values():
        definition["additionalProperties"] = False
    return published


def is_a(document: Any, command: str, schema: dict[str, Any]) -> None:
    (ref,) = (one["$ref"] for one in schema["anyOf"] if one["title"] == command)
    Draft202012Validator({"$ref": ref, "$defs": schema["$defs"]}).validate(document)


def test_every_field_is_described(schema: dict[str, Any]) -> None:
    fields = [(name, field, text) for name, one in schema["$defs"].items() for field, text in one["properties"].items()]
    assert [(name, field) for name, field, text in fields if not text.get("description")] == []
    assert [name for name, one in schema["$defs"].items() if not one.get("description")] == []


def commands(run: str, turn: str) -> dict[str, tuple[str, ...]]:
    return {
        "logos status": ("status",),
        "logos runs": ("runs",),
        "logos show RUN": ("show", run),
        "logos show RUN TURN": ("show", run, turn),
        "logos log": ("log", run),
        "logos cost": ("cost", run),
        "logos report": ("report", run),
        "logos sessions": ("sessions",),
    }


def test_the_documents_of_a_cycle_are_as_published(sandbox: Sandbox, schema: dict[str, Any]) -> None:
    is_a(sandbox("status", "--json").json, "logos status, before the first run", schema)
    sandbox.hire(tester=[FAIL, PASS])
    first = sandbox.run().run
    sandbox.hire()
    second = sandbox.run().run
    for command, arguments in commands(first, "r1.tester.c1").items():
        is_a(sandbox(*arguments, "--json").json, command, schema)
    is_a(sandbox("compare", first, second, "--json").json, "logos compare", schema)


def test_the_document_of_a_run_that_has_ended_is_as_published(sandbox: Sandbox, schema: dict[str, Any]) -> None:
    done = sandbox("run", "say hello", "--test", "true", "--simulate", str(sandbox.script()), "--json")
    is_a(done.json, "logos run, build, resume", schema)


def test_the_documents_of_a_build_are_as_published(sandbox: Sandbox, schema: dict[str, Any]) -> None:
    keep(sandbox, built(here(sandbox), Talk(SHOP)))
    for command, arguments in commands(RUN, "s1.L2.cart.author").items():
        is_a(sandbox(*arguments, "--json").json, command, schema)


def test_a_run_is_the_same_object_wherever_it_is_printed(sandbox: Sandbox) -> None:
    run = sandbox.run().run
    (listed,) = sandbox("runs", "--json").json["runs"]
    for command in (("status",), ("show", run), ("cost", run), ("report", run)):
        document = sandbox(*command, "--json").json
        assert {key: document[key] for key in listed} == listed, command
