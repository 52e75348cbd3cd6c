"""Whole builds through the command line: scripted agents as real processes, real worktrees, real branches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.hosts.script import load_script
from logos.adapters.reports import example
from logos.app.hosts import scripted_host
from logos.app.schemas import SCHEMAS
from logos.app.setting_sources import load_settings
from logos.app.start import build_here
from logos.domain.events import (
    CheckRan,
    QuestionResolved,
    Recorded,
    TerminalClosed,
    TerminalOpened,
    TurnAnswered,
    TurnAsked,
    TurnSent,
    WorkGathered,
    WorkMerged,
)
from logos.domain.levels import ALL_LEVELS, LEVELS, Level
from logos.domain.reports import TurnKind
from tests.support.repositories import FILES
from tests.support.sandbox import Done, Json, Sandbox
from tests.support.waiting import until_exists

TELOS = FILES["telos.toml"]
FAST = {"POLL_SECONDS": "0.02"}


def tool(level: int, command: str, name: str = "proof") -> str:
    """A tool, as telos.toml has it."""
    return f"[[tools]]\nlevel = {level}\nname = {json.dumps(name)}\ncommand = {json.dumps(command)}\n"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Sandbox]:
    site = Sandbox.of_repository(tmp_path / "repo", **FAST)
    yield site
    site.close()


def a_division(*components: Json | str) -> Json:
    """A step of L3: these components, independent unless they say otherwise."""
    rows = [{"name": own} if isinstance(own, str) else own for own in components]
    return {"report": {"components": [{"purpose": f"what {row['name']} is for", **row} for row in rows]}}


def a_fact(**told: Any) -> Json:
    return {"report": told}


def in_order(wanted: list[str], found: list[str]) -> bool:
    """Whether these occur in this order, whatever is between them."""
    left = iter(found)
    return all(one in left for one in wanted)


# --- one whole build on all nine levels, looked at from every side

BELOW_L9 = [level for level in ALL_LEVELS if level is not Level.L9]
DESCENT = [level for level in ALL_LEVELS if level >= Level.L3]
ASCENT = [level for level in reversed(ALL_LEVELS) if level >= Level.L3]
PARTS = ("cart", "price", "till")

# What each level's tool runs; L1's holds only after the linter's own change, L2's only for all components together.
PROOFS = {Level.L1: "grep -q int: cart.py", Level.L2: "test -f cart.py -a -f price.py -a -f till.py", Level.L5: "true"}
GREAT_TELOS = "\n".join(
    [
        TELOS,
        "[levels]",
        *(f'{level.name} = "telos-{level.name}"' for level in BELOW_L9),
        *(tool(level, command) for level, command in PROOFS.items()),
    ]
)


def marked(kind: TurnKind, level: Level, **changes: Any) -> Json:
    """A good report with a mark in every field, and one in the words around it."""
    name = f"{kind}-{level.name}"
    report = {
        **example(kind, level),
        "work_summary": f"summary-{name}",
        "validation_results": [{"what": f"finding-{name}", "result": "pass", "detail": ""}],
        "tool_usage": [{"tool": f"tool-{name}", "result": ""}],
        "next_recommended_action": {"action": "proceed", "why": f"why-{name}"},
        **changes,
    }
    if report["spec_updates"]:
        report["spec_updates"] = [{**row, "text": f"{row['section']}-{name}"} for row in report["spec_updates"]]
    return {"say": f"stray-{name}: I wondered.\n\n```json\n{json.dumps(report)}\n```\nstray-{name}, too.\n"}


def refused(level: Level) -> Json:
    """A report that lacks a section and recommends what cannot be."""
    own = example(TurnKind.DECOMPOSE, level)
    wrong = {"work_summary": "refused-mark", "spec_updates": own["spec_updates"][:1]}
    return {"say": json.dumps({**own, **wrong, "next_recommended_action": {"action": "refused-action"}})}


def meeting(place: Path, name: str, other: str) -> str:
    """A command that ends when both are there, and says where it ran."""
    return f"touch {place}/{name}; {until_exists(place / other)}; test -e {place}/{other} && echo met; {WHERE}"


WHERE = "pwd; git rev-parse HEAD; git branch --show-current; ls"


def an_author(name: str, run: str, edit: Json) -> Json:
    spec = {"behaviour": f"behaviour-{name}"}
    return {"edit": edit, "run": run, "report": {"work_summary": f"{name}: {{output}}", "spec_updates": spec}}


def great_script(place: Path) -> Json:
    parts = [
        {"name": "cart", "files": ["cart.py"]},
        {"name": "price", "files": ["price.py"]},
        {"name": "till", "depends_on": ["cart", "price"]},
    ]
    down = {f"{level.name}.decompose": [marked(TurnKind.DECOMPOSE, level)] for level in DESCENT}
    up = {f"{level.name}.validate": [marked(TurnKind.VALIDATE, level)] for level in ASCENT}
    components = [{"purpose": f"purpose-{own['name']}", **own} for own in parts]
    return {
        **down,
        **up,
        "L7.decompose": [refused(Level.L7), marked(TurnKind.DECOMPOSE, Level.L7)],
        "L3.decompose": [marked(TurnKind.DECOMPOSE, Level.L3, components=components)],
        "L2.cart": [
            an_author("cart", meeting(place, "cart", "price"), {"cart.py": "def cart(): return 1  # code-cart\n"})
        ],
        "L2.price": [
            an_author(
                "price",
                meeting(place, "price", "cart"),
                {"price.py": "def price(): return 2\n", "tests/test_price.py": "def test_price(): ...\n"},
            )
        ],
        "L2.till": [an_author("till", WHERE, {"till.py": "def till(): return 3\n"})],
        "L1.lint": [{"edit": {"cart.py": "def cart() -> int:\n    return 1\n"}}],
    }


@pytest.fixture(scope="module")
def great(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sandbox, Done]:
    """All nine levels, two authors at once and one after them, by a process of its own."""
    place = tmp_path_factory.mktemp("great")
    site = Sandbox.of_repository(place / "repo", {**FILES, "telos.toml": GREAT_TELOS}, **FAST)
    (place / "meet").mkdir()
    site.script(great_script(place / "meet"))
    script = ("--simulate", str(site.script_path), "--json")
    done = site.apart("build", "readers can buy several books at once", *script)
    assert done.code == 0, done.err
    return site, done


@pytest.mark.scenario("LOG-03")
def test_a_feature_goes_down_all_levels_each_bound_by_the_one_above(great: tuple[Sandbox, Done]) -> None:
    site, done = great
    assert (done.json["outcome"], done.json["exit_code"], done.json["run"]) == ("PASSED", 0, site.run_id)
    down = [f"s1.{level.name}.decompose" for level in DESCENT]
    assert in_order([*down, "s1.L2.till.author", "s1.L1.lint"], site.asked)
    assert set(site.asked) - {"s1.L7.decompose.t2"} == {
        *down,
        *(f"s1.L2.{part}.author" for part in PARTS),
        "s1.L1.lint",
        *(f"s1.{level.name}.validate" for level in ASCENT),
    }
    specs = {spec["id"]: spec["parent"] for spec in site.build_state["specification_stack"]}
    chain = {f"{level.name}.v1": f"{higher.name}.v1" for higher, level in pairwise(DESCENT)}
    assert specs == {"L9.v1": "telos", **chain, **{f"L2.{part}.v1": "L3.v1" for part in PARTS}}
    for higher, level in pairwise(DESCENT):
        for section in LEVELS[higher].sections:
            assert f"{section}-decompose-{higher.name}" in site.prompts[f"s1.{level.name}.decompose"]


@pytest.mark.scenario("LOG-05")
def test_validation_goes_up_from_what_tools_prove_to_the_purpose(great: tuple[Sandbox, Done]) -> None:
    site, _ = great
    up = [f"s1.{level.name}.validate" for level in ASCENT]
    assert site.asked[-len(up) :] == up
    checks = site.events(CheckRan)
    assert [(check.turn, check.command, check.exit_code) for check in checks] == [
        (f"s1.{level.name}.check.proof", command, 0) for level, command in PROOFS.items()
    ]
    assert site.seq(CheckRan, "s1.L2.check.proof") < site.seq(TurnAsked, "s1.L3.validate")
    assert site.seq(TurnAnswered, "s1.L4.validate") < site.seq(CheckRan, "s1.L5.check.proof")
    for level in ASCENT:
        prompt = site.prompts[f"s1.{level.name}.validate"]
        assert all(f"{section}-decompose-{level.name}" in prompt for section in LEVELS[level].sections)
        assert f"`{PROOFS[Level.L2]}` exited 0" in prompt
    standing = {row["level"]: row["status"] for row in site.build_state["validation_status"]}
    assert standing == {"L1": "proven", "L2": "proven", **{level.name: "passed" for level in ASCENT}}


@pytest.mark.long
@pytest.mark.scenario("LOG-02")
def test_an_agent_is_told_the_telos_down_to_it_the_specs_above_it_and_its_own_tools(
    great: tuple[Sandbox, Done],
) -> None:
    site, _ = great
    for turn, prompt in site.prompts.items():
        level = Level[turn.split(".")[1]]
        assert "Sell books honestly" in prompt, turn
        assert "readers can buy several books at once" in prompt, turn
        known = {other for other in BELOW_L9 if f"telos-{other.name}" in prompt}
        assert known == {other for other in BELOW_L9 if other >= level}, turn
        own = {level} if "validate" in turn else set[Level]()
        told = {other for other in DESCENT if f"{LEVELS[other].sections[0]}-decompose-{other.name}" in prompt}
        assert told == {other for other in DESCENT if other > level} | own, turn
        tools = prompt.partition("*** TOOLS ***")[2].partition("***")[0]
        assert {other for other, command in PROOFS.items() if command in tools} == {level} & PROOFS.keys(), turn


@pytest.mark.scenario("LOG-09")
def test_nothing_an_agent_says_reaches_another_but_by_its_accepted_report(great: tuple[Sandbox, Done]) -> None:
    site, _ = great

    def heard(mark: str) -> set[str]:
        return {turn for turn, prompt in site.prompts.items() if mark in prompt}

    said = " ".join(event.text for event in site.events(TurnAnswered))
    marks = ("stray-decompose-L8", "refused-mark", "refused-action", "tool-decompose-L8", "stray-validate-L5")
    assert all(mark in said for mark in marks), "the marks were never planted"
    # Around a report, in a refused one, or in a field that is for the log: nobody's.
    assert heard("stray-") == set()
    assert heard("refused-mark") == set()
    assert heard("tool-") == set()
    assert heard("code-cart") == set()
    # What was wrong with a report: its own agent's.
    assert heard("refused-action") == {"s1.L7.decompose.t2"}
    # What was found on the way: the next level's, and no further.
    assert heard("finding-decompose-L8") == {"s1.L7.decompose", "s1.L7.decompose.t2"}
    assert heard("finding-validate-L5") == {"s1.L6.validate"}
    assert heard("summary-validate-L8") == {"s1.L9.validate"}
    # A spec: everybody's below, and its own level's when it judges.
    assert heard("user_needs-decompose-L7") == {
        turn for turn in site.asked if Level[turn.split(".")[1]] < Level.L7 or turn == "s1.L7.validate"
    }
    # An author's: for those who see the work as a whole.
    assert heard("behaviour-cart") == {"s1.L1.lint", "s1.L3.validate"}


@pytest.mark.long
@pytest.mark.scenario("LOG-09")
def test_every_turn_has_an_agent_of_its_own(great: tuple[Sandbox, Done]) -> None:
    site, _ = great
    opened = [event.terminal for event in site.events(TerminalOpened)]
    agents = {event.agent for event in site.events(TurnAsked)}
    assert len(opened) == len({*opened}) == len(agents)
    # Asked again, the same agent keeps its terminal.
    assert len(site.asked) == len(agents) + 1


@pytest.mark.scenario("LOG-11")
def test_a_handoff_is_checked_told_to_the_next_level_and_kept(great: tuple[Sandbox, Done]) -> None:
    site, _ = great
    assert site.seq(TurnAnswered, "s1.L7.decompose.t2") < site.seq(TurnAsked, "s1.L6.decompose")
    again = site.prompts["s1.L7.decompose.t2"]
    assert "spec_updates" in again.partition("*** PROBLEMS OF THE PREVIOUS TRY ***")[2].partition("***")[0]
    assert "| From L8 (s1.L8.decompose):\n| summary-decompose-L8" in site.prompts["s1.L7.decompose"]
    assert "why-decompose-L8" in site.prompts["s1.L7.decompose"]
    lineage = [(row["from_level"], row["to_level"], row["toward"]) for row in site.build_state["handoff_lineage"]]
    names = [level.name for level in DESCENT]
    assert lineage[:7] == [*((one, other, "down") for one, other in zip(names, [*names[1:], "L2"], strict=True))]
    assert lineage[7:10] == [("L2", "L1", "down")] * 3
    up = [level.name for level in ASCENT]
    assert lineage[10:] == [(one, other, "up") for one, other in pairwise(up)]


@pytest.mark.scenario("LOG-13")
def test_independent_components_are_written_at_once_each_in_a_worktree_of_its_own(great: tuple[Sandbox, Done]) -> None:
    site, _ = great
    work = {part: said_by_author(site, f"s1.L2.{part}.author") for part in PARTS}
    (met, cart_at, cart_head, cart_branch, *cart_files) = work["cart"]
    (also_met, price_at, price_head, price_branch, *price_files) = work["price"]
    # They waited for each other, so both were at work.
    assert met == also_met == "met"
    places = site.wd / ".telos" / "worktrees" / site.run_id
    assert (cart_at, price_at) == (str(places / "cart"), str(places / "price"))
    assert cart_head == price_head == site.git("rev-parse", "HEAD")
    assert (cart_branch, price_branch) == (f"logos-work/{site.run_id}/cart", f"logos-work/{site.run_id}/price")
    assert ("cart.py" in cart_files, "price.py" in cart_files) == (True, False)
    assert ("cart.py" in price_files, "price.py" in price_files) == (False, True)
    # Whoever needs their work finds it there.
    (_, _, _, *till_files) = work["till"]
    assert {"cart.py", "price.py", "till.py"} <= {*till_files}
    gathered = max(site.seq(WorkGathered, f"s1.L2.{part}.author.gather") for part in ("cart", "price"))
    assert gathered < site.seq(TurnAsked, "s1.L2.till.author")


def said_by_author(site: Sandbox, turn: str) -> list[str]:
    text = next(event.text for event in site.events(TurnAnswered) if event.turn == turn)
    return json.loads(text)["work_summary"].partition(": ")[2].splitlines()


@pytest.mark.scenario("LOG-13")
def test_all_authors_are_collected_before_the_linter_and_judged_together(great: tuple[Sandbox, Done]) -> None:
    site, _ = great
    (merged,) = site.events(WorkMerged)
    assert merged.clashes == ()
    last = max(site.seq(WorkGathered, f"s1.L2.{part}.author.gather") for part in PARTS)
    assert last < site.seq(WorkMerged, "s1.merge") < site.seq(TurnAsked, "s1.L1.lint")
    for turn in ("s1.L1.lint", "s1.L3.validate"):
        assert all(f"behaviour-{part}" in site.prompts[turn] for part in PARTS), turn


def test_what_was_built_is_a_branch_and_nothing_else_is_left(great: tuple[Sandbox, Done]) -> None:
    site, _ = great
    assert site.built() == {
        "cart.py": "def cart() -> int:\n    return 1",
        "price.py": "def price(): return 2",
        "tests/test_price.py": "def test_price(): ...",
        "till.py": "def till(): return 3",
    }
    assert site.git("merge-base", "HEAD", site.result) == site.git("rev-parse", "HEAD")
    assert site.git("rev-parse", site.result) == site.build_state["head"]
    site.assert_tidy(site.result)


def test_lineage_leads_from_the_purpose_to_each_file_and_test(
    great: tuple[Sandbox, Done],
) -> None:
    cli, _ = great
    lines = cli("lineage").out.splitlines()
    wanted = ["purpose: Sell books honestly", *(f"{level.name}.v1" for level in DESCENT), "L2.price.v1", "price.py"]
    assert in_order_within([*wanted, "test tests/test_price.py"], lines)
    depths = [len(line) - len(line.lstrip()) for line in lines if ".v1" in line and "L2." not in line]
    assert depths == sorted(depths)
    assert len({*depths}) == len(DESCENT)
    document = cli("lineage", cli.run_id, "L3", "--json").json
    assert {spec["id"] for spec in document["specs"]} == {"L3.v1", *(f"L2.{part}.v1" for part in PARTS)}
    price = next(own for own in document["components"] if own["name"] == "price")
    assert (price["files"], price["tests"]) == (["price.py", "tests/test_price.py"], ["tests/test_price.py"])
    unknown = cli("lineage", "L12")
    assert unknown.code == 2
    assert "'L12'" in unknown.err


def in_order_within(wanted: list[str], lines: list[str]) -> bool:
    left = iter(lines)
    return all(any(one in line for line in left) for one in wanted)


def test_telos_shows_what_every_level_knows_and_what_proves_it(
    great: tuple[Sandbox, Done],
) -> None:
    cli, _ = great
    levels = cli("telos", "--json").json["levels"]
    assert [row["level"] for row in levels] == [level.name for level in ALL_LEVELS]
    assert [row["says"] for row in levels[1:]] == [f"telos-{level.name}" for level in BELOW_L9]
    proofs = {row["level"]: row["tools"][0]["command"] for row in levels if row["tools"]}
    assert proofs == {level.name: command for level, command in PROOFS.items()}
    assert in_order_within(
        ["L9  Telos-Guardian", "Sell books", "L1  Syntax-Linter", "grep -q"], cli("telos").out.splitlines()
    )


# --- the state file


@pytest.mark.scenario("LOG-01")
def test_the_state_file_shows_a_build_after_every_event(site: Sandbox) -> None:
    schema = pytest.importorskip("jsonschema").Draft202012Validator(SCHEMAS["state"]())
    site.script({"L3": [a_division("cart", "price")]})
    seen: list[Json] = []

    def look(record: Recorded, _state: Any, _ledger: Any) -> None:
        shown = site.build_state
        schema.validate(shown)
        # A delivered prompt and a closed terminal change nothing that is shown.
        unseen = isinstance(record.event, TurnSent | TerminalClosed)
        assert shown["logos"] == {"run": record.run, "seq": seen[-1]["logos"]["seq"] if unseen else record.seq}
        seen.append(shown)

    settings = load_settings(None, {"WD": str(site.wd), "LEVELS": "9,4-1", **FAST})
    host = scripted_host(load_script(site.script_path))
    build_here(settings, "pay by invoice", make_host=host, watchers=[look], tell=lambda _text: None)
    assert len(seen) == len(site.records())
    for record, shown in zip(site.records(), seen, strict=True):
        active = {agent["turn"]: agent for agent in shown["active_agents"]}
        if isinstance(record.event, TurnAsked):
            agent = active[record.event.turn]
            assert (agent["asked"], agent["level"]) == (True, record.event.turn.split(".")[1])
            assert agent["terminal"]
        if isinstance(record.event, TurnAnswered):
            assert record.event.turn not in active
    ways = list(dict.fromkeys((shown["direction"], shown["current_level"]) for shown in seen))
    down = [("down", "L9"), ("down", "L4"), ("down", "L3"), ("build", "L2"), ("merge", "L2"), ("lint", "L1")]
    assert ways == [*down, ("up", "L3"), ("up", "L4"), ("up", "L9")]
    at_l4 = next(shown for shown in seen if shown["current_level"] == "L4")
    assert [(own["from_level"], own["to_level"]) for own in at_l4["pending_handoffs"]] == [("L9", "L4")]
    assert [spec["id"] for spec in at_l4["specification_stack"]] == ["L9.v1"]
    authors = [{agent["component"] for agent in shown["active_agents"]} for shown in seen]
    assert {"cart", "price"} in authors
    assert (seen[0]["status"], seen[-1]["status"], seen[-1]["active_agents"]) == ("RUNNING", "PASSED", [])


def test_levels_that_take_no_part_are_recorded_as_skipped(site: Sandbox) -> None:
    site.script()
    done = site.build("pay by invoice", "--levels", "L3-L2")
    assert done.code == 0, done.err
    assert site.asked == ["s1.L3.decompose", "s1.L2.feature.author", "s1.L3.validate"]
    assert site.build_state["levels"] == ["L3", "L2"]
    assert site.build_state["skipped_levels"] == ["L9", "L8", "L7", "L6", "L5", "L4", "L1"]
    standing = {row["level"]: (row["takes_part"], row["status"]) for row in site.build_state["validation_status"]}
    assert standing["L9"] == standing["L1"] == (False, "skipped")
    # Nobody named a tool for L2, so nothing but words stands behind it.
    assert standing["L2"] == (True, "unproven")
    assert "nothing proves L2" in done.json["reason"]


# --- down


@pytest.mark.scenario("LOG-04")
def test_a_request_against_the_purpose_is_rejected_before_anybody_else_is_asked(site: Sandbox) -> None:
    verdict = {"verdict": "MISALIGNED", "violation": "it sells what readers do"}
    site.script({"L9": [a_fact(**verdict, alternatives=["count readers, name nobody", "ask readers first"])]})
    done = site.build("sell the reading lists")
    assert (done.code, done.json["outcome"]) == (3, "REJECTED")
    alternatives = ["count readers, name nobody", "ask readers first"]
    assert (done.json["violation"], done.json["alternatives"]) == ("it sells what readers do", alternatives)
    shown = done.err.partition("\nREJECTED: ")[2]
    assert all(words in shown for words in ("it sells what readers do", *alternatives))
    assert site.asked == ["s1.L9.decompose"]
    assert len(site.events(TerminalOpened)) == 1
    assert (site.build_state["status"], site.build_state["violation"]) == ("REJECTED", "it sells what readers do")
    assert site.build_state["alternatives"] == alternatives
    site.assert_tidy()


@pytest.mark.scenario("LOG-10")
def test_a_report_that_cannot_be_used_is_asked_for_again_with_what_is_wrong(site: Sandbox) -> None:
    division = example(TurnKind.DECOMPOSE, Level.L3)
    markdown = (
        "# Work summary\nOne component.\n# Spec updates\n## architecture\nOne part.\n# Validation results\nNone.\n"
        "# Tool usage\nNone.\n# Next recommended action\nproceed\n# Components\n"
        "- name: cart\n  purpose: holds books\n  files: cart.py\n"
    )
    incomplete = {name: value for name, value in division.items() if name not in ("tool_usage", "components")}
    site.script({"L3.decompose": [{"say": "I would divide it."}, {"say": json.dumps(incomplete)}, {"say": markdown}]})
    done = site.build("pay by invoice", "--levels", "3,2")
    assert done.code == 0, done.err
    down = ["s1.L3.decompose", "s1.L3.decompose.t2", "s1.L3.decompose.t3"]
    assert site.asked == [*down, "s1.L2.cart.author", "s1.L3.validate"]
    second, third = (problems_of(site.prompts[turn]) for turn in down[1:])
    assert "there is no report" in second
    assert "tool_usage: is missing" in third
    assert "components: is missing" in third
    # The same agent, in the same conversation.
    assert len({event.agent for event in site.events(TurnAsked) if event.turn in down}) == 1
    assert len(site.events(TerminalOpened)) == 3


def problems_of(prompt: str) -> str:
    return prompt.partition("*** PROBLEMS OF THE PREVIOUS TRY ***")[2].partition("\n***")[0]


# --- up


@pytest.mark.scenario("LOG-05")
def test_a_failing_tool_beats_every_word_of_an_agent(site: Sandbox) -> None:
    site.set_telos(TELOS + tool(2, "echo three tests fail; exit 3", "tests"))
    passing = a_fact(validation_results=[{"what": "all tests", "result": "pass"}])
    site.script({"L2.author": [passing]})
    done = site.build("pay by invoice", "--levels", "3-1", "--set", "build.max_reconciliations=0")
    assert (done.code, done.json["outcome"]) == (1, "FAILED")
    assert "`echo three tests fail; exit 3` exits 3" in done.json["reason"]
    assert "s1.L3.validate" not in site.asked
    assert {row["level"]: row["status"] for row in site.build_state["validation_status"]}["L2"] == "failed"
    # Work is not lost because it is not good enough yet.
    assert list(site.built()) == ["feature.py"]
    site.assert_tidy(site.result)


@pytest.mark.scenario("LOG-06")
@pytest.mark.scenario("LOG-07")
def test_a_failed_validation_is_settled_at_the_highest_level_in_conflict_and_validated_again(site: Sandbox) -> None:
    failure = {"what": "an empty cart can be paid", "expected": "a refusal", "observed": "a receipt"}
    changes = [{"level": "L6", "change": "the cart says it is empty"}, {"level": "L3", "change": "cart refuses"}]
    site.script(
        {
            "L3.decompose": [a_division("cart", "price")],
            "L2.cart": [{"edit": {"cart.py": "def cart(): ...\n"}}, {"edit": {"cart.py": "def cart(): return []\n"}}],
            "L5.validate": [a_fact(verdict="FAIL", failures=[{**failure, "conflicts_with": ["L6"]}]), {}],
            "L6.position": [a_fact(position="position-of-L6")],
            "L6.propose": [a_fact(proposal={"summary": "say it", "changes": changes, "rework": ["cart"]})],
        }
    )
    done = site.build("pay by invoice", "--levels", "9,6,5,3-1")
    assert done.code == 0, done.err
    # It halts: nobody above is asked to judge what is known to fail.
    stop = site.seq(TurnAnswered, "s1.L5.validate")
    assert not any(turn in site.asked for turn in ("s1.L6.validate", "s1.L9.validate"))
    # The highest level in conflict with its neighbours: positions, then a proposal, then agreement, then the purpose.
    talk = [turn for turn in site.asked if ".q1." in turn]
    positions = {f"s1.q1.{level}.position" for level in ("L5", "L6", "L9")}
    assert {*talk[:3]} == positions
    assert talk[3] == "s1.q1.L6.propose.r1"
    assert {*talk[4:6]} == {"s1.q1.L5.agree.r1", "s1.q1.L9.agree.r1"}
    assert talk[6:] == ["s1.q1.L9.align.r1"]
    assert stop < min(site.seq(TurnAsked, turn) for turn in positions)
    assert max(site.seq(TurnAnswered, turn) for turn in positions) < site.seq(TurnAsked, talk[3])
    # With the failure and what was said so far in their hands.
    for turn in talk:
        assert all(words in site.prompts[turn] for words in failure.values()), turn
    assert "position-of-L6" in site.prompts["s1.q1.L6.propose.r1"]
    assert not any("position-of-L6" in site.prompts[turn] for turn in positions)
    assert "the cart says it is empty" in site.prompts["s1.q1.L9.agree.r1"]
    assert "the cart says it is empty" in site.prompts["s1.q1.L9.align.r1"]
    # Down again from the highest change, only the component that is to change, and all the way up.
    second = [turn for turn in site.asked if turn.startswith("s2.")]
    down = ["s2.L6.decompose", "s2.L5.decompose", "s2.L3.decompose", "s2.L2.cart.author", "s2.L1.lint"]
    assert second == [*down, *(f"s2.{level}.validate" for level in ("L3", "L5", "L6", "L9"))]
    assert "the cart says it is empty" in site.prompts["s2.L6.decompose"]
    specs = {spec["id"]: spec["in_force"] for spec in site.build_state["specification_stack"]}
    assert [name for name, holds in specs.items() if holds] == [
        *("L9.v1", "L2.price.v1", "L6.v2", "L5.v2", "L3.v2", "L2.cart.v2")
    ]
    assert not specs["L6.v1"]
    (reconciled,) = site.build_state["reconciliations"]
    assert (reconciled["cause"], reconciled["level"], reconciled["decided_by"]) == ("failure", "L6", "the levels")
    assert site.built()["cart.py"] == "def cart(): return []"
    site.assert_tidy(site.result)


@pytest.mark.long
@pytest.mark.scenario("LOG-08")
def test_a_constraint_found_late_is_taken_to_the_levels_it_concerns(site: Sandbox) -> None:
    constraint = {"statement": "the bank answers after a minute", "affects": ["L4"], "touches_journeys": True}
    changes = [{"level": level, "change": f"waits-at-{level}"} for level in ("L5", "L4", "L3")]
    site.script(
        {
            "L2.author": [a_fact(constraint=constraint, files=[]), {}],
            "L5.propose": [a_fact(proposal={"summary": "wait", "changes": changes, "rework": ["feature"]})],
        }
    )
    done = site.build("pay by invoice", "--levels", "9,6-1")
    assert done.code == 0, done.err
    talk = [turn for turn in site.asked if ".q1." in turn]
    assert {*talk[:3]} == {f"s1.q1.{level}.position" for level in ("L5", "L4", "L3")}
    assert all("the bank answers after a minute" in site.prompts[turn] for turn in talk)
    assert talk[-1] == "s1.q1.L9.align.r1"
    second = [turn for turn in site.asked if turn.startswith("s2.")]
    assert second[:4] == ["s2.L5.decompose", "s2.L4.decompose", "s2.L3.decompose", "s2.L2.feature.author"]
    assert second[-1] == "s2.L9.validate"
    held = {spec["level"]: spec["version"] for spec in site.build_state["specification_stack"] if spec["in_force"]}
    assert held == {"L9": 1, "L6": 1, "L5": 2, "L4": 2, "L3": 2, "L2": 2}
    assert site.build_state["reconciliations"][0]["cause"] == "constraint"


# --- beside each other


@pytest.mark.long
def test_no_more_authors_work_at_once_than_allowed(site: Sandbox) -> None:
    site.script({"L3": [a_division("cart", "price", "till")]})
    done = site.build("pay by invoice", "--levels", "3,2", "--max-parallel", "1")
    assert done.code == 0, done.err
    authors = [turn for turn in site.asked if ".L2." in turn]
    assert len(authors) == 3
    for one, other in pairwise(authors):
        assert site.seq(TurnAnswered, one) < site.seq(TurnAsked, other)


@pytest.mark.scenario("LOG-14")
@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        (
            {"cart": {"cart.py": "def total(): return 1\n"}, "price": {"price.py": "def total(): return 2\n"}},
            {"cart": {"cart.py": "def cart_total(): return 1\n"}, "price": {"price.py": "def total(): return 2 + 2\n"}},
            "same definition: total (cart and price)",
        ),
        (
            {"cart": {"shop.py": "CART = 1\n"}, "price": {"shop.py": "PRICE = 2\n"}},
            {"cart": {"shop.py": "CART = 1\n"}, "price": {"shop.py": FILES["shop.py"], "price.py": "PRICE = 2\n"}},
            "same path: shop.py (cart and price)",
        ),
    ],
)
def test_conflicting_outputs_are_found_before_they_are_merged(
    site: Sandbox, first: Json, second: Json, kind: str
) -> None:
    site.script(
        {
            "L3.decompose": [a_division("cart", "price")],
            # They declare no names: what was really done is looked at.
            **{f"L2.{part}": [{**a_fact(provides=[]), "edit": one[part]} for one in (first, second)] for part in first},
        }
    )
    done = site.build("pay by invoice", "--levels", "3-1")
    assert done.code == 0, done.err
    assert kind in site.prompts["s1.q1.L3.position"]
    # Nothing was merged, and nobody above has seen it.
    assert {event.turn for event in site.events(WorkMerged)} == {"s2.merge"}
    assert [turn for turn in site.asked if "lint" in turn or "validate" in turn] == ["s2.L1.lint", "s2.L3.validate"]
    assert {turn for turn in site.asked if turn.startswith("s2.L2")} == {f"s2.L2.{part}.author" for part in first}
    assert site.build_state["reconciliations"][0]["cause"] == "conflict"
    left = {path: text for part in ("price", "cart") for path, text in second[part].items()}
    assert site.built() == {path: text.strip() for path, text in sorted(left.items())}
    site.assert_tidy(site.result)


# --- what agents cannot decide


@pytest.mark.scenario("LOG-12")
def test_a_loop_of_handoffs_ends_in_a_question_that_a_person_answers(site: Sandbox) -> None:
    back = a_fact(next_recommended_action={"action": "hand_back", "to": "L4", "why": "prices need a currency"})
    proposals = {level: f"option of {level}" for level in ("L4", "L3")}
    site.script(
        {
            "L3.decompose": [back, back, back, a_division("cart")],
            **{
                f"{level}.propose": [
                    a_fact(proposal={"summary": summary, "changes": [{"level": "L4", "change": "euros"}], "rework": []})
                ]
                for level, summary in proposals.items()
            },
            "L3.agree": [a_fact(verdict="OBJECT", objection="L3 says no")],
            "L4.agree": [a_fact(verdict="OBJECT", objection="L4 says no")],
        }
    )
    done = site.build("pay by invoice", "--levels", "9,4-1", "--set", "build.max_rounds=2")
    assert (done.code, done.json["outcome"]) == (3, "BLOCKED"), done.err
    # Three times the same, and no fourth time.
    assert [turn for turn in site.asked if ".L3.decompose" in turn] == [
        *("s1.L3.decompose", "s1.L3.decompose.v2", "s1.L3.decompose.v3")
    ]
    assert "prices need a currency" in site.prompts["s1.L4.decompose.v2"]
    assert site.build_state["handoff_loops"] == ["L3→L4"] * 3
    talk = [turn for turn in site.asked if ".q1." in turn]
    assert {*talk[:2]} == {"s1.q1.L4.position", "s1.q1.L3.position"}
    rounds = ["s1.q1.L4.propose.r1", "s1.q1.L3.agree.r1", "s1.q1.L3.propose.r2", "s1.q1.L4.agree.r2"]
    assert talk[2:] == rounds
    assert "L3 says no" in site.prompts["s1.q1.L3.propose.r2"]
    assert site.build_state["reconciliations"][0]["cause"] == "loop"
    assert site.build_state["question"]["options"] == ["option of L4", "option of L3"]
    shown = done.err.partition("\nBLOCKED: ")[2]
    assert all(words in shown for words in ("handoff loop", "option of L4", "option of L3", "logos resolve"))
    assert len(done.json["question"]["options"]) == 2
    assert "handoff loop (L3→L4 3 times)" in site.build_state["question"]["text"]
    site.assert_untouched()
    # Without a decision it does not go on.
    waits = site.build("--resume")
    assert waits.code == 1
    assert "logos resolve" in waits.err
    shown = site("resolve")
    assert shown.code == 0
    for words in ("handoff loop", "1. option of L4", "2. option of L3", "logos resolve 2"):
        assert words in shown.out
    assert [option["number"] for option in site("resolve", "--json").json["question"]["options"]] == [1, 2]
    wrong = site("resolve", "3")
    assert (wrong.code, wrong.err) == (2, "logos: there is no option 3: this question has options 1 to 2\n")
    assert site("resolve", "2", "and", "no dollars").code == 0
    (resolved,) = site.events(QuestionResolved)
    assert (resolved.option, resolved.text) == (2, "and no dollars")
    assert (site.build_state["status"], site.build_state["question"]) == ("RUNNING", None)
    again = site("resolve", "1")
    assert again.code == 2
    assert "there is no open question" in again.err
    done = site.build("--resume")
    assert (done.code, done.json["outcome"]) == (0, "PASSED"), done.err
    told = site.prompts["s2.L4.decompose"]
    assert all(words in told for words in ("Decided by a person", "option of L3", "and no dollars"))
    assert site.build_state["reconciliations"][0]["decided_by"] == "a person"
    site.assert_tidy(site.result)


def test_a_question_of_an_agent_is_answered_in_plain_words(site: Sandbox) -> None:
    asking = {"action": "ask_person", "why": "which currency?"}
    site.script({"L2.author": [a_fact(next_recommended_action=asking), {}]})
    done = site.build("pay by invoice", "--levels", "2")
    assert (done.code, done.json["outcome"]) == (3, "BLOCKED")
    assert "which currency?" in done.err
    assert "which currency?" in site("resolve").out
    assert "no options; decide in plain words" in site("resolve", "1").err
    recorded = site("resolve", "euros,", "please", "--json")
    assert (recorded.json["option"], recorded.json["text"]) == (0, "euros, please")
    done = site.build("--resume")
    assert done.code == 0, done.err
    assert site.asked == ["s1.L2.feature.author", "s1.L2.feature.author.v2"]
    assert "A person answered: euros, please" in site.prompts["s1.L2.feature.author.v2"]
    assert list(site.built()) == ["feature.py"]
    site.assert_tidy(site.result)


def test_nothing_is_resolved_where_nothing_waits(site: Sandbox) -> None:
    nobody = site("resolve")
    assert nobody.code == 2
    site.script()
    assert site.build("pay by invoice", "--levels", "2").code == 0
    for words in ((), ("1",), ("euros",)):
        done = site("resolve", *words)
        assert done.code == 2
        assert "there is no open question" in done.err


def test_a_work_dir_inside_a_repository_is_built_in_its_own_folder(site: Sandbox) -> None:
    inner = site.wd / "shop"
    inner.mkdir()
    (inner / "telos.toml").write_text(TELOS)
    site.git("add", "--all")
    site.git("commit", "--quiet", "--message", "shop")
    site.remember()
    site.script()
    done = site("build", "pay", "--levels", "2", "--simulate", str(site.script_path), "--wd", "shop", "--json")
    assert done.code == 0, done.err
    changed = site.git("diff", "--name-only", "HEAD", f"logos/{done.json['run']}")
    assert changed == "shop/feature.py"
