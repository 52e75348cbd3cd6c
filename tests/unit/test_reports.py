"""Reports from anything an agent may say: a Report, or every reason why not; never anything else."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
from hypothesis import example as such_as
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from logos.adapters.reports import MAX_REPORT_CHARACTERS, example, read_report, report_schema, report_schemas
from logos.domain.levels import LEVELS, Level
from logos.domain.reports import (
    ActionKind,
    Change,
    Component,
    Constraint,
    Failure,
    Finding,
    NextAction,
    Proposal,
    Refused,
    Report,
    Section,
    ToolUse,
    TurnKind,
    Verdict,
)
from tests.builders import examples

FIVE = ("work_summary", "spec_updates", "validation_results", "tool_usage", "next_recommended_action")
EVERYWHERE = [(kind, level) for kind in TurnKind for level in Level]
# Where each kind of report is asked for.
ASKED = [
    *((TurnKind.DECOMPOSE, level) for level in Level if level > Level.L2),
    (TurnKind.AUTHOR, Level.L2),
    (TurnKind.LINT, Level.L1),
    (TurnKind.VALIDATE, Level.L5),
    (TurnKind.POSITION, Level.L4),
    (TurnKind.PROPOSE, Level.L4),
    (TurnKind.AGREE, Level.L3),
    (TurnKind.ALIGN, Level.L9),
]


def accepted(kind: TurnKind, level: Level, text: str) -> Report:
    got = read_report(kind, level, text)
    assert isinstance(got, Report), got
    return got


def errors(kind: TurnKind, level: Level, text: str) -> tuple[str, ...]:
    got = read_report(kind, level, text)
    assert isinstance(got, Refused), got
    return got.errors


def changed(kind: TurnKind, level: Level, **changes: Any) -> str:
    return json.dumps({**example(kind, level), **changes})


def refusal(kind: TurnKind, level: Level, **changes: Any) -> str:
    """The one line that a good report gets after these changes."""
    (line,) = errors(kind, level, changed(kind, level, **changes))
    return line


@pytest.mark.scenario("LOG-10")
@pytest.mark.parametrize(("kind", "level"), EVERYWHERE)
def test_the_example_of_every_kind_and_level_is_a_report(kind: TurnKind, level: Level):
    report = accepted(kind, level, json.dumps(example(kind, level)))
    assert (report.kind, report.level, report.next) == (kind, level, NextAction())
    wanted = LEVELS[level].sections if kind in (TurnKind.DECOMPOSE, TurnKind.AUTHOR) else ()
    assert tuple(section.name for section in report.spec) == wanted


@pytest.mark.scenario("LOG-10")
@pytest.mark.parametrize(("kind", "level"), ASKED)
def test_each_required_field_that_is_missing_is_named(kind: TurnKind, level: Level):
    required = report_schema(kind, level)["required"]
    assert set(FIVE) <= set(required)
    for field in required:
        data = example(kind, level)
        del data[field]
        (line,) = errors(kind, level, json.dumps(data))
        assert line.startswith(f"{field}: is missing; it must be ")


@pytest.mark.scenario("LOG-10")
def test_every_problem_is_named_at_once():
    lines = errors(
        TurnKind.VALIDATE, Level.L5, '{"verdict": "MAYBE", "tool_usage": [{"result": "ok"}], "work_summary": " "}'
    )
    assert lines == (
        'work_summary = " ": must not be empty',
        "spec_updates: is missing; it must be a list of {section, text}, or an object with a text per section",
        "validation_results: is missing; it must be a list, perhaps empty, of {what, result: pass|fail|skipped, detail}",
        "tool_usage[0].tool: is missing; it must be a text: the tool or command",
        "next_recommended_action: is missing; it must be an object {action: proceed|hand_back|ask_person, to, why}",
        'verdict = "MAYBE": must be PASS or FAIL, that word alone',
    )


def test_twenty_problems_are_enough():
    lines = errors(TurnKind.LINT, Level.L1, changed(TurnKind.LINT, Level.L1, validation_results=[{}] * 30))
    assert len(lines) == 20
    assert lines[-1] == "and 41 more problems"


@pytest.mark.scenario("LOG-10")
@pytest.mark.parametrize("level", [level for level in Level if LEVELS[level].sections])
def test_each_section_of_the_level_is_needed_in_a_spec(level: Level):
    kind = TurnKind.AUTHOR if level is Level.L2 else TurnKind.DECOMPOSE
    for name in LEVELS[level].sections:
        others = {other: "text" for other in LEVELS[level].sections if other != name}
        assert (
            refusal(kind, level, spec_updates=others) == f"spec_updates.{name}: is missing; it must be a non-empty text"
        )
        assert (
            refusal(kind, level, spec_updates={**others, name: "  "})
            == f'spec_updates.{name} = "  ": must not be empty'
        )
        assert (
            refusal(kind, level, spec_updates={**others, name: ["a"]}) == f'spec_updates.{name} = ["a"]: must be text'
        )


def test_a_missing_spec_is_told_its_sections():
    data = example(TurnKind.DECOMPOSE, Level.L8)
    del data["spec_updates"]
    assert errors(TurnKind.DECOMPOSE, Level.L8, json.dumps(data))[0].endswith("here business_case and success_measures")


def test_sections_may_be_written_in_any_case_and_may_be_more():
    text = changed(
        TurnKind.DECOMPOSE, Level.L8, spec_updates={"Business case": "a", "success-measures": "b", "Risks": "c"}
    )
    assert accepted(TurnKind.DECOMPOSE, Level.L8, text).spec == (
        Section("business_case", "a"),
        Section("success_measures", "b"),
        Section("risks", "c"),
    )


def test_a_section_that_is_there_twice_is_refused():
    rows = [{"section": "behaviour", "text": "a"}, {"section": "Behaviour", "text": "b"}]
    assert (
        refusal(TurnKind.AUTHOR, Level.L2, spec_updates=rows)
        == "spec_updates.behaviour: the section is repeated; give it once"
    )


@pytest.mark.parametrize("nothing", [None, [], "none", "-", "n/a", ["none"]])
def test_nothing_is_an_empty_list_however_it_is_said(nothing: object):
    report = accepted(
        TurnKind.LINT, Level.L1, changed(TurnKind.LINT, Level.L1, validation_results=nothing, tool_usage=nothing)
    )
    assert (report.results, report.tools) == ((), ())


def test_tools_and_findings_are_read():
    text = changed(
        TurnKind.LINT,
        Level.L1,
        tool_usage=["ruff", {"tool": "pyright", "result": None}, {"tool": "tox", "result": "ok", "secret": "x"}],
        validation_results=[
            {"what": "style", "result": "Pass"},
            {"what": "types", "result": "skipped", "detail": "none"},
        ],
    )
    report = accepted(TurnKind.LINT, Level.L1, text)
    assert report.tools == (ToolUse("ruff"), ToolUse("pyright"), ToolUse("tox", "ok"))
    assert report.results == (Finding("style", "pass"), Finding("types", "skipped"))


@pytest.mark.scenario("LOG-10")
@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("proceed", NextAction()),
        ("**Proceed**", NextAction()),
        ("proceed: all done", NextAction(why="all done")),
        ("proceed to L8: next is the case", NextAction(why="next is the case")),
        (
            "hand_back to L4: the contract is impossible",
            NextAction(ActionKind.HAND_BACK, Level.L4, "the contract is impossible"),
        ),
        ("Hand back to l4 - no", NextAction(ActionKind.HAND_BACK, Level.L4, "no")),
        ("ask_person: which currency?", NextAction(ActionKind.ASK_PERSON, None, "which currency?")),
        ({"action": "hand_back", "to": 4, "why": "no"}, NextAction(ActionKind.HAND_BACK, Level.L4, "no")),
        ({"action": "HAND-BACK", "to": "l4", "why": "no"}, NextAction(ActionKind.HAND_BACK, Level.L4, "no")),
        ({"action": "proceed", "to": "L3", "why": None}, NextAction()),
        ({"action": "ask_person", "to": "none", "why": "which?"}, NextAction(ActionKind.ASK_PERSON, None, "which?")),
    ],
)
def test_the_next_action_routes(said: object, meant: NextAction):
    assert (
        accepted(TurnKind.LINT, Level.L1, changed(TurnKind.LINT, Level.L1, next_recommended_action=said)).next == meant
    )


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ({"action": "hand_back", "why": "no"}, ".to = null: must not be empty when action is hand_back"),
        ({"action": "hand_back", "to": "L4"}, '.why = "": must not be empty when action is hand_back'),
        ({"action": "ask_person", "why": "none"}, '.why = "none": must not be empty when action is ask_person'),
        ("hand_back to L12: no", '.to = "L12": there is no such level; the levels are L1 to L9'),
        ({"action": "stop"}, '.action = "stop": must be proceed, hand_back or ask_person, that word alone'),
        (
            {"action": "proceed|hand_back|ask_person"},
            '.action = "proceed|hand_back|ask_person": must be proceed, hand_back or ask_person, that word alone',
        ),
    ],
)
def test_an_action_that_leads_nowhere_is_refused(said: object, line: str):
    assert refusal(TurnKind.LINT, Level.L1, next_recommended_action=said) == f"next_recommended_action{line}"


@pytest.mark.parametrize(
    "said",
    [
        "proceed|hand_back|ask_person",
        "proceed, hand_back or ask_person",
        "proceed or hand_back",
        "proceed: or hand_back",
        "do not proceed",
        "",
        5,
        [],
        None,
    ],
)
def test_an_action_that_chooses_nothing_is_refused(said: object):
    assert "next_recommended_action = " in refusal(TurnKind.LINT, Level.L1, next_recommended_action=said)


VERDICTS = [
    (TurnKind.DECOMPOSE, Level.L9, "ALIGNED", "MISALIGNED"),
    (TurnKind.ALIGN, Level.L9, "ALIGNED", "MISALIGNED"),
    (TurnKind.VALIDATE, Level.L5, "PASS", "FAIL"),
    (TurnKind.AGREE, Level.L4, "AGREE", "OBJECT"),
]


@pytest.mark.parametrize(("kind", "level", "good", "bad"), VERDICTS)
def test_a_verdict_is_one_word_in_any_case(kind: TurnKind, level: Level, good: str, bad: str):
    for said in (good, good.lower(), f"**{good.title()}**", f" {good}."):
        assert accepted(kind, level, changed(kind, level, verdict=said)).verdict == Verdict(good)
    both = (
        f"{good}|{bad}",
        f"{good} or {bad}",
        f"{good}/{bad}",
        f"NOT {good}",
        f"{good} {good}",
        "",
        True,
        None,
        [good],
    )
    for said in both:
        line = refusal(kind, level, verdict=said)
        assert line.startswith("verdict = ")
        assert line.endswith(f": must be {good} or {bad}, that word alone")


def test_a_letter_that_only_looks_like_one_is_not_a_verdict():
    assert "verdict" in refusal(TurnKind.VALIDATE, Level.L5, verdict="paſs")


@pytest.mark.parametrize("kind", [TurnKind.DECOMPOSE, TurnKind.ALIGN])
def test_a_misalignment_says_what_is_violated_and_what_to_do_instead(kind: TurnKind):
    said = {"verdict": "MISALIGNED", "violation": "it tracks users", "alternatives": ["count visits"]}
    report = accepted(kind, Level.L9, changed(kind, Level.L9, **said))
    assert (report.verdict, report.violation, report.alternatives) == (
        Verdict.MISALIGNED,
        "it tracks users",
        ("count visits",),
    )
    assert errors(kind, Level.L9, changed(kind, Level.L9, verdict="MISALIGNED", violation="none")) == (
        'violation = "none": must not be empty when verdict is MISALIGNED',
        "alternatives = []: must not be empty when verdict is MISALIGNED",
    )
    assert refusal(kind, Level.L9, **{**said, "alternatives": ["a", " "]}) == 'alternatives[1] = " ": must not be empty'


def component(name: str, *depends_on: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "purpose": "to be", "depends_on": list(depends_on), **more}


def test_components_are_read_with_their_dependencies():
    rows = [component("price"), component("cart", "price", files=["./src//cart.py"], provides=["Cart"], colour="red")]
    assert accepted(
        TurnKind.DECOMPOSE, Level.L3, changed(TurnKind.DECOMPOSE, Level.L3, components=rows)
    ).components == (
        Component("price", "to be"),
        Component("cart", "to be", ("src/cart.py",), ("Cart",), ("price",)),
    )


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        (
            [component("cart", "price"), component("price", "cart")],
            ("components: cart → price → cart is a cycle; one of them must come first",),
        ),
        (
            [
                component("a", "b"),
                component("b", "c", "d"),
                component("c", "b"),
                component("d", "e"),
                component("e", "d"),
                component("f"),
            ],
            (
                "components: b → c → b is a cycle; one of them must come first",
                "components: d → e → d is a cycle; one of them must come first",
            ),
        ),
        ([component("cart", "cart")], ('components[0].depends_on[0] = "cart": a component cannot depend on itself',)),
        (
            [component("cart", "prise"), component("cart")],
            (
                'components[1].name = "cart": the name is taken by components[0]',
                'components[0].depends_on[0] = "prise": there is no such component; name one of the report\'s components',
            ),
        ),
        (
            [component("Cart")],
            (
                'components[0].name = "Cart": must be a name like cart or price_list: a-z, then a-z, 0-9, _ or -, at most 40 characters',
            ),
        ),
        (
            [component("a", files=["/etc/passwd"])],
            ('components[0].files[0] = "/etc/passwd": must be a path inside the repository',),
        ),
        (
            ["cart"],
            ('components[0] = "cart": must be an object with the keys name, purpose, files, provides, depends_on',),
        ),
        ([{"name": "cart"}], ("components[0].purpose: is missing; it must be a non-empty text",)),
        ([], ("components = []: must be a list of 1 to 100 {name, purpose, files, provides, depends_on}",)),
    ],
)
def test_components_that_cannot_be_built_in_an_order_are_refused(rows: list[Any], lines: tuple[str, ...]):
    assert errors(TurnKind.DECOMPOSE, Level.L3, changed(TurnKind.DECOMPOSE, Level.L3, components=rows)) == lines


def test_a_hundred_components_are_read_and_one_more_is_not():
    chain = [component("c0"), *(component(f"c{n}", f"c{n - 1}") for n in range(1, 101))]
    assert (
        len(
            accepted(
                TurnKind.DECOMPOSE, Level.L3, changed(TurnKind.DECOMPOSE, Level.L3, components=chain[:100])
            ).components
        )
        == 100
    )
    assert "1 to 100" in refusal(TurnKind.DECOMPOSE, Level.L3, components=chain)


@pytest.mark.parametrize(
    "path",
    [
        "../../etc/passwd",
        "src/../../x",
        "..",
        "/etc/passwd",
        "",
        ".",
        "a\0b",
        "a\nb",
        "\ud800.py",
        "C:/x",
        "c:x",
        "src\\x.py",
        ".git/hooks/pre-commit",
        ".GIT/config",
        "vendor/.git/config",
        "./.telos/state.json",
        ".telos",
        "telos.toml",
        "Telos.TOML",
        "x" * 2000,
        5,
        None,
    ],
)
def test_a_path_that_leaves_the_repository_or_is_not_the_agents_is_refused(path: object):
    for field in ("files", "tests"):
        line = refusal(TurnKind.AUTHOR, Level.L2, **{field: ["a.py", "b c/ä.py", path]})
        assert line.startswith(f"{field}[2] = ")
        assert "a path inside the repository" in line
        assert line.isprintable()
        assert len(line) < 200


def test_the_line_about_a_path_reads_as_it_should():
    line = refusal(TurnKind.AUTHOR, Level.L2, files=["a", "b", "../../etc/passwd"])
    assert line == 'files[2] = "../../etc/passwd": must be a path inside the repository'


def test_an_author_reports_files_tests_names_and_a_constraint():
    text = changed(
        TurnKind.AUTHOR,
        Level.L2,
        files=["a.py", "telos.toml.md", ".github/x.yml"],
        tests=["test_a.py"],
        provides=["f"],
        constraint={"statement": "no decimals", "affects": ["L4", 5], "touches_journeys": True},
    )
    report = accepted(TurnKind.AUTHOR, Level.L2, text)
    assert (report.files, report.tests, report.provides) == (
        ("a.py", "telos.toml.md", ".github/x.yml"),
        ("test_a.py",),
        ("f",),
    )
    assert report.constraint == Constraint("no decimals", (Level.L4, Level.L5), True)


def test_an_author_without_files_says_why():
    assert refusal(TurnKind.AUTHOR, Level.L2, files=[]).startswith("files = []: must name the files written")
    for excuse in (
        {"constraint": {"statement": "the API is gone"}},
        {"next_recommended_action": "hand_back to L3: too large"},
        {"next_recommended_action": "ask_person: which one?"},
    ):
        assert accepted(TurnKind.AUTHOR, Level.L2, changed(TurnKind.AUTHOR, Level.L2, files=[], **excuse)).files == ()


def test_a_failed_validation_names_its_failures():
    failure = {"what": "total", "expected": "3", "observed": "4", "conflicts_with": ["L4", "l7", 9]}
    report = accepted(
        TurnKind.VALIDATE, Level.L5, changed(TurnKind.VALIDATE, Level.L5, verdict="FAIL", failures=[failure])
    )
    assert report.failures == (Failure("total", "3", "4", (Level.L4, Level.L7, Level.L9)),)
    assert refusal(TurnKind.VALIDATE, Level.L5, verdict="FAIL") == (
        "failures = []: must not be empty when verdict is FAIL"
    )


@pytest.mark.parametrize("level", ["L12", "L0", 0, 10, -1, 4.5, True, "4", "", None, "L４", [], {}])
def test_a_level_that_does_not_exist_is_named(level: object):
    failures = [{"what": "x", "conflicts_with": ["L4", level]}]
    line = refusal(TurnKind.VALIDATE, Level.L5, verdict="FAIL", failures=failures)
    shown = json.dumps(level, ensure_ascii=False)
    assert line == f"failures[0].conflicts_with[1] = {shown}: there is no such level; the levels are L1 to L9"


def test_a_pass_against_a_failing_result_is_refused():
    results = [{"what": "a", "result": "pass"}, {"what": "b", "result": "fail"}]
    text = changed(TurnKind.VALIDATE, Level.L5, validation_results=results, failures=[{"what": "b"}])
    assert errors(TurnKind.VALIDATE, Level.L5, text) == (
        'verdict = "PASS": contradicts validation_results[1], which is fail; a PASS has no failing result',
        'verdict = "PASS": contradicts failures, which must be empty when the verdict is PASS',
    )
    accepted(TurnKind.VALIDATE, Level.L5, changed(TurnKind.VALIDATE, Level.L5, validation_results=results[:1]))


def test_a_proposal_changes_at_least_one_spec():
    proposal = {"summary": "round", "changes": [{"level": 4, "change": "round up"}], "rework": ["cart"]}
    report = accepted(TurnKind.PROPOSE, Level.L4, changed(TurnKind.PROPOSE, Level.L4, proposal=proposal))
    assert report.proposal == Proposal("round", (Change(Level.L4, "round up"),), ("cart",))
    assert refusal(TurnKind.PROPOSE, Level.L4, proposal={**proposal, "changes": []}) == (
        "proposal.changes = []: must be a list of at least one {level, change}"
    )
    assert refusal(TurnKind.PROPOSE, Level.L4, proposal={**proposal, "changes": [{"level": "L0", "change": "a"}]}) == (
        'proposal.changes[0].level = "L0": there is no such level; the levels are L1 to L9'
    )
    assert refusal(TurnKind.PROPOSE, Level.L4, proposal="round") == (
        'proposal = "round": must be an object {summary, changes: [{level, change}], rework}'
    )


def test_an_objection_says_something():
    assert (
        refusal(TurnKind.AGREE, Level.L4, verdict="OBJECT")
        == 'objection = "": must not be empty when verdict is OBJECT'
    )
    report = accepted(
        TurnKind.AGREE, Level.L4, changed(TurnKind.AGREE, Level.L4, verdict="object", objection="too slow")
    )
    assert (report.verdict, report.objection) == (Verdict.OBJECT, "too slow")


def test_a_position_is_taken():
    assert refusal(TurnKind.POSITION, Level.L4, position="") == 'position = "": must not be empty'
    assert accepted(TurnKind.POSITION, Level.L4, changed(TurnKind.POSITION, Level.L4, position="no")).position == "no"


def test_what_does_not_belong_to_the_kind_never_gets_through():
    marker = "MARKER-7f3a"
    text = changed(
        TurnKind.LINT,
        Level.L1,
        verdict=marker,
        files=["/" + marker],
        proposal={"summary": marker},
        thoughts=marker,
        tool_usage=[{"tool": "ruff", "secret": marker}],
    )
    assert marker not in repr(accepted(TurnKind.LINT, Level.L1, f"{marker}\n\n```json\n{text}\n```\n{marker}"))


GOOD = json.dumps(example(TurnKind.VALIDATE, Level.L5), indent=2)


@pytest.mark.scenario("LOG-10")
@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"\ufeff\n{GOOD}\n",
        GOOD.replace("\n", "\r\n"),
        f"Here it is:\n\n```json\n{GOOD}\n```\nThat is all.",
        f"```JSON\n{GOOD}\n```",
        f"~~~json\n{GOOD}\n~~~",
        f"1. Mine:\n    ```json\n{GOOD}\n    ```",
        f"- mine:\n\t```json title=report\n{GOOD}\n\t```\n- done",
        f"```\n{GOOD}\n```",
        f"```json\n{GOOD}",
        f"I looked at {{a, b}} and found: {GOOD} which is {{fine}}.".replace(": {", ":\n{"),
        f"Done. {GOOD} Bye.",
        f'As asked:\n```json\n{{"work_summary": "...", "verdict": "PASS|FAIL", "tool_usage": []}}\n```\nMine:\n```json\n{GOOD}\n```',
        f'```json\n{GOOD}\n```\nOutput was:\n```json\n{{"exit": 0}}\n```',
        f"# Report\n\n## Work summary\nSee below.\n\n```json\n{GOOD}\n```",
    ],
)
def test_json_is_found_wherever_it_stands(text: str):
    assert accepted(TurnKind.VALIDATE, Level.L5, text).verdict is Verdict.PASS


def test_raw_line_breaks_in_texts_are_forgiven():
    text = GOOD.replace("Journey-Validator: validate done.", "one\n\ttwo")
    assert accepted(TurnKind.VALIDATE, Level.L5, text).work_summary == "one\n\ttwo"


def test_a_report_that_cannot_be_read_is_not_replaced_by_one_before_it():
    broken = GOOD.replace('"tool_usage": [],', '"tool_usage": []')
    (line,) = errors(TurnKind.VALIDATE, Level.L5, f"```json\n{GOOD}\n```\n```json\n{broken}\n```")
    assert line.startswith("the JSON in the response cannot be read: expecting ',' delimiter (line 6, column 3); ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the response is empty"),
        (" \n", "the response is empty"),
        ("All done, everything passes!", "there is no report"),
        ("[1, 2]", "the response is JSON, but not an object"),
        ('"work_summary"', "the response is JSON, but not an object"),
        ('{"work_summary": NaN}', "NaN is not a JSON value"),
        ('{"work_summary": -Infinity}', "-Infinity is not a JSON value"),
        ('{"work_summary": "a" "b"}', "expecting ',' delimiter (line 1, column 22)"),
        ("{" * 100, "cannot be read"),
        ('{"a":' * 5_000, "nested too deeply"),
    ],
)
def test_a_response_without_a_report_is_told_what_is_wanted(text: str, why: str):
    (line,) = errors(TurnKind.LINT, Level.L1, text)
    assert why in line
    assert all(field in line for field in FIVE)


def test_a_key_that_is_there_twice_is_refused():
    text = GOOD.replace('"verdict": "PASS"', '"verdict": "FAIL", "verdict": "PASS"')
    assert errors(TurnKind.VALIDATE, Level.L5, text) == ("verdict: the key is repeated; give it once",)


@pytest.mark.parametrize("size", [MAX_REPORT_CHARACTERS + 1, 5_000_000])
def test_a_huge_response_is_refused_by_its_size(size: int):
    (line,) = errors(TurnKind.LINT, Level.L1, "x" * size)
    assert line.startswith(f"the response has {size:,} characters, and at most 200,000 are read")


def test_lists_of_more_entries_than_anybody_reads_are_refused():
    failures = [{"what": "x", "conflicts_with": ["L4"] * 500}] * 20
    (line,) = errors(
        TurnKind.VALIDATE, Level.L5, changed(TurnKind.VALIDATE, Level.L5, verdict="FAIL", failures=failures)
    )
    assert line == "the lists of the report have 10,020 entries, and at most 10,000 are read"


def test_what_no_log_can_hold_is_replaced():
    report = accepted(TurnKind.LINT, Level.L1, changed(TurnKind.LINT, Level.L1, work_summary="a\0b\ud800c"))
    assert report.work_summary == "a\ufffdb\ufffdc"


def test_values_in_errors_are_cut_and_on_one_line():
    line = refusal(TurnKind.VALIDATE, Level.L5, verdict="\n\x1b[31m\u202e\ud800" + "x" * 5000)
    assert line.isprintable()
    shown = line.removeprefix("verdict = ").removesuffix(": must be PASS or FAIL, that word alone")
    assert len(shown) == 80


MARKDOWN = """
I thought long about this: MARKER.

# Work summary
- Read the specs.
- Wrote the case:

```python
# Verdict
```

## Spec Updates
MARKER
### Business case
It pays.

#### Numbers
- 5 %
### success_measures
1. orders

# VALIDATION-RESULTS
- read the telos: pass
- GET /cart: gives 200: **fail** (it gave 500)
- **prices**: skipped - no data
  detail: none yet
# Appendix
MARKER
# tool_usage #
- ruff: clean
- `git log`: 3 commits
- looked around
## 5. Next recommended action
hand_back to L9: the purpose
is unclear
"""


@pytest.mark.scenario("LOG-10")
def test_markdown_with_the_standard_sections_is_a_report():
    assert accepted(TurnKind.DECOMPOSE, Level.L8, MARKDOWN) == Report(
        TurnKind.DECOMPOSE,
        Level.L8,
        "- Read the specs.\n- Wrote the case:\n\n```python\n# Verdict\n```",
        (Section("business_case", "It pays.\n\n#### Numbers\n- 5 %"), Section("success_measures", "1. orders")),
        (
            Finding("read the telos", "pass"),
            Finding("GET /cart: gives 200", "fail", "it gave 500"),
            Finding("prices", "skipped", "no data\nnone yet"),
        ),
        (ToolUse("ruff", "clean"), ToolUse("git log", "3 commits"), ToolUse("looked around")),
        NextAction(ActionKind.HAND_BACK, Level.L9, "the purpose\nis unclear"),
    )


@pytest.mark.scenario("LOG-10")
@pytest.mark.parametrize("field", FIVE)
def test_a_heading_that_is_missing_is_named(field: str):
    lines = MARKDOWN.replace("MARKER", "").splitlines()
    without = [
        line
        for line in lines
        if field.replace("_", "") not in line.lower().replace("_", "").replace("-", "").replace(" ", "")
    ]
    assert any(
        line.startswith(f"{field}: is missing") for line in errors(TurnKind.DECOMPOSE, Level.L8, "\n".join(without))
    )


def markdown(next_action: str = "proceed", **sections: str) -> str:
    common = {
        "Work summary": "did it",
        "Spec updates": "none",
        "Validation results": "-",
        "Tool usage": "n/a",
        "Next recommended action": next_action,
    }
    named = {name.replace("_", " ").capitalize(): text for name, text in sections.items()}
    return "\n".join(f"## {name}\n{text}\n" for name, text in {**common, **named}.items())


def test_markdown_components():
    block = json.dumps([component("price"), component("cart", "price")], indent=2)
    bullets = """
- price: to be
- name: cart
  purpose: to be
  files:
    - `src/cart.py`
    - src/b.py
  provides: Cart, total
  depends on: price
"""
    spec = "- architecture: two parts\n  and no more"
    fenced = accepted(
        TurnKind.DECOMPOSE, Level.L3, markdown(spec_updates=spec, components=f"So:\n```json\n{block}\n```")
    )
    listed = accepted(TurnKind.DECOMPOSE, Level.L3, markdown(spec_updates=spec, components=bullets))
    assert fenced.spec == listed.spec == (Section("architecture", "two parts\nand no more"),)
    assert fenced.components == (Component("price", "to be"), Component("cart", "to be", (), (), ("price",)))
    assert listed.components == (
        Component("price", "to be"),
        Component("cart", "to be", ("src/cart.py", "src/b.py"), ("Cart", "total"), ("price",)),
    )


def test_markdown_of_an_author():
    sections = {
        "spec_updates": "### behaviour\nadds",
        "files": "- `src/a.py` the code\n- src/b.py",
        "tests": "tests/test_a.py, tests/test_b.py",
        "provides": "- add",
    }
    report = accepted(TurnKind.AUTHOR, Level.L2, markdown(**sections, constraint="none"))
    assert (report.files, report.tests) == (("src/a.py", "src/b.py"), ("tests/test_a.py", "tests/test_b.py"))
    assert (report.provides, report.constraint) == (("add",), None)
    keyed = "- statement: no decimals\n- affects: L4, L5\n- touches journeys: yes"
    assert accepted(TurnKind.AUTHOR, Level.L2, markdown(**sections, constraint=keyed)).constraint == Constraint(
        "no decimals", (Level.L4, Level.L5), True
    )
    assert accepted(TurnKind.AUTHOR, Level.L2, markdown(**sections, constraint="no decimals")).constraint == Constraint(
        "no decimals"
    )


def test_markdown_of_a_failed_validation():
    failures = "- L5-2: the total is wrong\n  expected: 3\n  observed: 4\n  conflicts with: L4\n- no more"
    report = accepted(TurnKind.VALIDATE, Level.L5, markdown(verdict="**FAIL**", failures=failures))
    assert report.verdict is Verdict.FAIL
    assert report.failures == (Failure("L5-2: the total is wrong", "3", "4", (Level.L4,)), Failure("no more"))


def test_markdown_of_a_reconciliation():
    proposal = "Round up.\n\n- L4: prices are whole\n  everywhere\n- L5: so are totals\n- rework: cart, price"
    assert accepted(TurnKind.PROPOSE, Level.L4, markdown(proposal=proposal)).proposal == Proposal(
        "Round up.",
        (Change(Level.L4, "prices are whole\neverywhere"), Change(Level.L5, "so are totals")),
        ("cart", "price"),
    )
    assert accepted(TurnKind.POSITION, Level.L4, markdown(position="- a\n- b")).position == "- a\n- b"
    objecting = accepted(TurnKind.AGREE, Level.L4, markdown(verdict="object", objection="too slow"))
    assert (objecting.verdict, objecting.objection) == (Verdict.OBJECT, "too slow")
    asking = accepted(
        TurnKind.ALIGN, Level.L9, markdown("- action: ask_person\n- why: which?", verdict="aligned", violation="none")
    )
    assert (asking.verdict, asking.violation, asking.next) == (
        Verdict.ALIGNED,
        "",
        NextAction(ActionKind.ASK_PERSON, None, "which?"),
    )


def test_a_misalignment_in_markdown_lists_alternatives():
    text = markdown(verdict="MISALIGNED", violation="it tracks", alternatives="- count\n  visits\n- ask")
    assert accepted(TurnKind.ALIGN, Level.L9, text).alternatives == ("count\nvisits", "ask")


def test_a_verdict_may_stand_in_its_heading():
    text = markdown().replace("## Spec updates", "## Verdict: PASS\n\n## Spec updates")
    assert accepted(TurnKind.VALIDATE, Level.L5, text).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "between", ["- a list\n  ", "<!-- a comment\n", "> a quote\n   ", "a paragraph\n    ", "[a]: b\n"]
)
def test_a_heading_ends_whatever_stands_before_it(between: str):
    text = markdown().replace("## Spec updates", f"{between}## Verdict\nPASS\n## Spec updates")
    assert accepted(TurnKind.VALIDATE, Level.L5, text).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("sections", "line"),
    [
        ({"verdict": "PASS or FAIL"}, 'verdict = "PASS or FAIL": must be PASS or FAIL, that word alone'),
        ({"verdict": "PASS\n## Verdict\nFAIL"}, "verdict: the heading is repeated; give it once"),
        (
            {"verdict": "PASS", "failures": "```json\n[{]\n```"},
            "failures: the json block under the heading cannot be read: expecting property name enclosed in double quotes (line 1, column 3)",
        ),
        (
            {"verdict": "PASS", "failures": '```json\n[{"what": "a", "what": "b"}]\n```'},
            "failures: the json block under the heading cannot be read: the key what is repeated",
        ),
        (
            {"verdict": "PASS", "validation_results": "- all: pass or fail"},
            'validation_results[0].result = "pass or fail": must be pass, fail or skipped, that word alone',
        ),
        (
            {"verdict": "PASS", "validation_results": "- all: pass|fail|skipped"},
            'validation_results[0].result = "pass|fail|skipped": must be pass, fail or skipped, that word alone',
        ),
        (
            {"verdict": "PASS", "validation_results": "everything is fine"},
            'validation_results = "everything is fine": must be a list, perhaps empty, of {what, result: pass|fail|skipped, detail}',
        ),
        (
            {"verdict": "PASS", "validation_results": "- all: fail"},
            'verdict = "PASS": contradicts validation_results[0], which is fail; a PASS has no failing result',
        ),
    ],
)
def test_markdown_is_read_as_strictly(sections: dict[str, str], line: str):
    assert errors(TurnKind.VALIDATE, Level.L5, markdown(**sections)) == (line,)


def test_headings_of_other_kinds_are_ignored():
    assert accepted(TurnKind.LINT, Level.L1, markdown(verdict="maybe", files="- /etc/passwd", proposal="x")).files == ()


HUGE = MAX_REPORT_CHARACTERS - 500
HOSTILE = {
    "braces": "{" * HUGE,
    "brackets": "[" * HUGE,
    "deep objects": '{"a":' * (HUGE // 5),
    "deep value": '{"work_summary": ' + "[" * 900 + "]" * 900 + "}",
    "objects that never end": '\n{"a":' * 40 + "[" + "{}," * (HUGE // 4),
    "many wrong rows": json.dumps(
        {"work_summary": "x", "failures": [{"conflicts_with": [0] * 900} for _ in range(60)]}
    ),
    "as many wrong rows as are read": json.dumps(
        {"work_summary": "x", "failures": [{"conflicts_with": [0] * 900} for _ in range(11)]}
    ),
    "many wrong sections": json.dumps({"work_summary": "x", "spec_updates": {f"s{n}": 1 for n in range(1000)}}),
    "a long list": '{"work_summary": "x", "tool_usage": [' + "1," * (HUGE // 3) + "1]}",
    "a long number": '{"work_summary": ' + "9" * HUGE + "}",
    "twice, often": "{" + '"a":1,' * (HUGE // 7) + '"work_summary":1,"tool_usage":1}',
    "fences": "```json\n" * (HUGE // 8),
    "a fence that is none": "```" + "a" * HUGE + "`",
    "headings": "# work summary\n" * (HUGE // 15),
    "signs of a heading": "# work summary\n# " + "- _" * (HUGE // 3),
    "colons": "# work summary\nx\n## Validation results\n- " + ": " * (HUGE // 2),
    "bullets": "# work summary\nx\n## Tool usage\n" + "- a: b\n" * (HUGE // 7),
    "nested bullets": "# work summary\nx\n## Failures\n" + "".join(" " * n + "- a\n" for n in range(600)),
    "blanks": "# work summary\n" + " " * HUGE + "\n# verdict: pass",
    "an endless level": json.dumps(
        {"work_summary": "x", "next_recommended_action": "hand_back to " + "L" * HUGE + " !"}
    ),
    "an endless pause": json.dumps({"work_summary": "x", "next_recommended_action": "proceed" + " " * HUGE + "!"}),
    "surrogates": "\ud800" * HUGE,
    "NULs": "\0" * HUGE,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_refused_in_no_time(text: str):
    began = time.process_time()
    lines = errors(TurnKind.VALIDATE, Level.L5, text)
    assert time.process_time() - began < 5
    assert 1 <= len(lines) <= 20
    assert all(line.isprintable() and len(line) < 600 for line in lines)


any_text = st.text(max_size=30) | st.text(st.characters(categories=["Cs", "Cc", "L"]), max_size=4)
words = st.sampled_from(
    ["PASS", "none", "proceed", "hand_back to L4: x", "L4", "L12", "../x", "cart", "pass", "[", "{", "```json", 4]
)
FIELDS = sorted(
    {field for kind, level in EVERYWHERE for field in example(kind, level)} | {"what", "text", "section", "to"}
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.just(10**400) | any_text | words
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | any_text, inner, max_size=4),
    max_leaves=12,
)
markdown_lines = st.one_of(
    st.sampled_from(
        [f"## {field.replace('_', ' ')}" for field in FIELDS] + ["```json", "```", "### purpose", "- a: pass"]
    ),
    st.builds("{}{}".format, st.sampled_from(["", "- ", "  - ", "# ", "### ", "1. ", "what: "]), any_text | words),
)


def check(kind: TurnKind, level: Level, text: str) -> None:
    got = read_report(kind, level, text)
    if isinstance(got, Refused):
        assert 1 <= len(got.errors) <= 20
        assert all(line.isprintable() for line in got.errors)
    else:
        repr(got).encode()


@examples(40)
@given(st.sampled_from(EVERYWHERE), any_text | st.text() | st.lists(markdown_lines, max_size=25).map("\n".join))
@such_as((TurnKind.LINT, Level.L1), "## work summary\n## proposal\n")
def test_any_text_is_a_report_or_refused(where: tuple[TurnKind, Level], text: str):
    check(*where, text)


@examples(40)
@given(st.sampled_from(EVERYWHERE), values)
def test_any_json_is_a_report_or_refused(where: tuple[TurnKind, Level], value: object):
    check(*where, json.dumps(value))


@examples(40)
@given(st.sampled_from(ASKED), st.dictionaries(st.sampled_from(FIELDS), values, min_size=1, max_size=3))
def test_a_good_report_with_anything_in_some_fields_is_a_report_or_refused(
    where: tuple[TurnKind, Level], changes: dict[str, Any]
):
    check(*where, changed(*where, **changes))


def test_there_is_a_schema_for_every_kind_and_for_every_level_that_decomposes():
    assert set(report_schemas()) == {*TurnKind, *(f"decompose.L{number}" for number in range(3, 10))}


@pytest.mark.scenario("LOG-10")
@pytest.mark.parametrize(("kind", "level"), ASKED)
def test_the_schema_agrees_with_the_reader(kind: TurnKind, level: Level):
    schema, data = report_schema(kind, level), example(kind, level)
    assert set(data) == set(schema["properties"])
    validator = Draft202012Validator
    validator.check_schema(schema)
    assert validator(schema).is_valid(data)
    for wrong in ({field: 5} for field in data):
        assert not validator(schema).is_valid({**data, **wrong})
        assert isinstance(read_report(kind, level, json.dumps({**data, **wrong})), Refused)
    for field in schema["required"]:
        without = {key: value for key, value in data.items() if key != field}
        assert not validator(schema).is_valid(without)


@pytest.mark.parametrize(
    ("kind", "level", "changes", "good"),
    [
        (TurnKind.DECOMPOSE, Level.L9, {"spec_updates": {"purpose": "a", "boundaries": "b"}}, True),
        (TurnKind.DECOMPOSE, Level.L9, {"spec_updates": {"purpose": "a"}}, False),
        (TurnKind.DECOMPOSE, Level.L9, {"spec_updates": [{"section": "purpose", "text": "a"}]}, False),
        (TurnKind.DECOMPOSE, Level.L9, {"verdict": "MISALIGNED"}, False),
        (TurnKind.DECOMPOSE, Level.L9, {"verdict": "MISALIGNED", "violation": "a", "alternatives": ["b"]}, True),
        (TurnKind.DECOMPOSE, Level.L3, {"components": []}, False),
        (TurnKind.DECOMPOSE, Level.L3, {"components": [{"name": "A", "purpose": "a"}]}, False),
        (TurnKind.VALIDATE, Level.L5, {"verdict": "FAIL"}, False),
        (TurnKind.VALIDATE, Level.L5, {"failures": [{"what": "a"}]}, False),
        (
            TurnKind.VALIDATE,
            Level.L5,
            {"verdict": "FAIL", "failures": [{"what": "a", "conflicts_with": ["L4", 5]}]},
            True,
        ),
        (
            TurnKind.VALIDATE,
            Level.L5,
            {"verdict": "FAIL", "failures": [{"what": "a", "conflicts_with": ["L12"]}]},
            False,
        ),
        (TurnKind.AGREE, Level.L5, {"verdict": "OBJECT"}, False),
        (TurnKind.PROPOSE, Level.L5, {"proposal": {"summary": "a", "changes": []}}, False),
        (TurnKind.LINT, Level.L1, {"next_recommended_action": "hand_back to L4: why"}, True),
        (TurnKind.LINT, Level.L1, {"next_recommended_action": {"action": "hand_back", "why": "a"}}, False),
        (TurnKind.LINT, Level.L1, {"next_recommended_action": {"action": "ask_person"}}, False),
        (TurnKind.LINT, Level.L1, {"tool_usage": ["ruff", {"tool": "tox", "result": None}], "more": 1}, True),
    ],
)
def test_schema_and_reader_say_the_same(kind: TurnKind, level: Level, changes: dict[str, Any], good: bool):
    data = {**copy.deepcopy(example(kind, level)), **changes}
    assert isinstance(read_report(kind, level, json.dumps(data)), Report) is good
    validator = Draft202012Validator
    assert validator(report_schema(kind, level)).is_valid(data) is good


@pytest.mark.scenario("LOG-10")
@pytest.mark.parametrize(
    ("kind", "level"), [(TurnKind.DECOMPOSE, Level.L3), (TurnKind.DECOMPOSE, Level.L9), (TurnKind.VALIDATE, Level.L5)]
)
def test_who_hands_back_or_asks_a_person_owes_only_what_every_report_says(kind: TurnKind, level: Level) -> None:
    common = {"work_summary": "stuck", "spec_updates": [], "validation_results": [], "tool_usage": []}
    for action in ({"action": "hand_back", "to": "L9", "why": "no"}, {"action": "ask_person", "why": "which?"}):
        report = read_report(kind, level, json.dumps({**common, "next_recommended_action": action}))
        assert isinstance(report, Report)
        assert report.next.why == action["why"]
    assert isinstance(read_report(kind, level, json.dumps({**common, "next_recommended_action": "proceed"})), Refused)


@pytest.mark.scenario("LOG-04")
def test_a_rejection_needs_no_spec() -> None:
    told = {**example(TurnKind.DECOMPOSE, Level.L9), "spec_updates": [], "verdict": "misaligned"}
    report = read_report(
        TurnKind.DECOMPOSE, Level.L9, json.dumps({**told, "violation": "ads", "alternatives": ["a paid plan"]})
    )
    assert isinstance(report, Report)
    assert (report.verdict, report.violation, report.alternatives) == (Verdict.MISALIGNED, "ads", ("a paid plan",))
    assert isinstance(read_report(TurnKind.DECOMPOSE, Level.L9, json.dumps({**told, "verdict": "ALIGNED"})), Refused)


@pytest.mark.scenario("LOG-08")
def test_an_author_with_a_constraint_owes_no_code() -> None:
    told = {**example(TurnKind.AUTHOR, Level.L2), "spec_updates": [], "files": [], "tests": []}
    report = read_report(TurnKind.AUTHOR, Level.L2, json.dumps({**told, "constraint": {"statement": "32 bits"}}))
    assert isinstance(report, Report)
    assert report.constraint == Constraint("32 bits")
    assert isinstance(read_report(TurnKind.AUTHOR, Level.L2, json.dumps(told)), Refused)
