"""Scripted agents at the levels: what a script may say of them, and what they do in the folder they work in."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.hosts.cao import ApiClient
from logos.adapters.hosts.script import level_turn, level_turn_of, load_script, read_script
from logos.adapters.reports import read_report
from logos.domain.levels import ALL_LEVELS, LEVELS, Level
from logos.domain.reports import Report, TurnKind
from logos.errors import ConfigError
from logos.testing import ScriptedAgents
from logos.testing.cao_server import FakeCao
from tests.support.waiting import wait_for

# --- turns by their ids


@pytest.mark.parametrize(
    ("turn", "keys"),
    [
        ("s1.L9.decompose", ("L9.decompose", "L9")),
        ("s1.L2.cart.author", ("L2.cart", "L2.author", "L2")),
        ("s1.L2.price-list_2.author.v2.t3", ("L2.price-list_2", "L2.author", "L2")),
        ("s1.L2.author.author", ("L2.author", "L2.author", "L2")),
        ("s2.L4.decompose.v2", ("L4.decompose", "L4")),
        ("s1.L8.decompose.t2", ("L8.decompose", "L8")),
        ("s12.L1.lint", ("L1.lint", "L1")),
        ("s1.q1.L4.position", ("L4.position", "L4")),
        ("s1.q1.L5.agree.r2", ("L5.agree", "L5")),
        ("s1.q3.L9.align.r2.t2", ("L9.align", "L9")),
    ],
)
def test_a_turn_of_a_level_is_called_by_its_id_its_component_its_kind_or_its_level(
    turn: str, keys: tuple[str, ...]
) -> None:
    found = level_turn_of(f"Turn: {turn}\nRole: anybody\n")
    assert found is not None
    assert found.keys == (turn, *keys)


@pytest.mark.parametrize(
    "turn",
    [
        "r1.analyst.c1", "L9.decompose", "s0.L9.decompose", "s1.L0.decompose", "s1.L10.decompose", "s1.L9", "s1.L9.think",
        "s1.L9.decompose.x2", "s1.L9.decompose.t2.v2", "s1.L5.cart.validate", "s1.L2.a.b.author", "s1.L2.../x.author",
        "s1.L2.cart.author.gather", "s1.L1.check.ruff", "s1.merge", "s1.L4.L5.position", "S1.L9.decompose", "",
    ],
)  # fmt: skip
def test_anything_else_is_no_turn_of_a_level(turn: str) -> None:
    assert level_turn(turn) is None


@pytest.mark.parametrize(
    "text", ["", "x\nTurn: s1.L9.decompose", " Turn: s1.L9.decompose", "Turn: s1.L9.decompose or so"]
)
def test_a_prompt_names_its_turn_in_its_first_line_or_not_at_all(text: str) -> None:
    assert level_turn_of(text) is None


# --- scripts


def load(folder: Path, text: str) -> Any:
    (folder / "script.yaml").write_text(text, encoding="utf-8")
    return load_script(folder / "script.yaml")


WHOLE = """
agents:
  L9: [{report: {verdict: MISALIGNED, violation: it sells data}}]
  L2.cart: [{edit: {cart.py: "x = 1", old.py: null}}]
  L5.validate: [{run: make e2e}]
turns:
  s1.q1.L5.agree.r2: {say: no}
"""


def test_a_script_speaks_of_levels_or_of_roles(tmp_path: Path) -> None:
    script = load(tmp_path, WHOLE.replace("say: no", "say: 'no'"))
    assert script.flow == "levels"
    assert script.agents["L2.cart"][0].edit == {"cart.py": "x = 1", "old.py": None}
    assert read_script({"analyst": [{"say": "x"}]}).flow == "cycle"
    assert read_script({"otherwise": "error"}).flow is None


def test_a_script_has_a_key_for_whatever_a_level_can_be_asked(tmp_path: Path) -> None:
    keys = [level.name for level in ALL_LEVELS]
    keys += [
        f"{level_def.name}.{kind}"
        for level_def in LEVELS.values()
        for kind in (level_def.document, "position", "propose", "agree")
    ]
    keys += [f"{level.name}.validate" for level in ALL_LEVELS if level >= Level.L3] + [
        "L9.align",
        "L2.cart",
        "L2.a-b_c",
    ]
    assert list(load(tmp_path, json.dumps({"agents": {key: [{}] for key in keys}})).agents) == keys


STEP = "say, report, delay, after, edit, run, usage, fault, times, message, question"
ROLES = "analyst, peer_analyst, programmer, peer_programmer, tester, acceptance_tester"
KEYS_OF_LEVELS = "for levels: a level (L5), a kind (L5.validate) or an author (L2.cart)"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("agents: {L9: [{}], boss: [{}]}", f'agents.boss = "boss": must be one of {ROLES}; {KEYS_OF_LEVELS}'),
        ("agents: {L10: [{}]}", f'agents.L10 = "L10": must be one of {ROLES}; {KEYS_OF_LEVELS}'),
        ("agents: {L5.author: [{}]}", KEYS_OF_LEVELS),
        ("agents: {L2.a.b: [{}]}", KEYS_OF_LEVELS),
        ("agents: {boss: [{}]}", f"tester, acceptance_tester; {KEYS_OF_LEVELS}"),
        ("agents: {L9: [{sya: x}]}", f"agents.L9, step 1: sya: unknown key; known here: {STEP}"),
        ("agents: {L9: [x]}", f'agents.L9, step 1 = "x": must be a mapping with the keys {STEP}'),
        ("turns: {s1.L5.cart.validate: {}}", "must be a turn id such as r2.programmer.c1 or s1.L5.validate"),
        ("turns: {s1.L2.../x.author: {}}", "must be a turn id such as r2.programmer.c1 or s1.L5.validate"),
        ("agents: {L9: [{say: x, report: {}}]}", "agents.L9, step 1: `say` and `report` are two ways to give one response"),
        ("agents: {L9: [{report: x}]}", 'agents.L9, step 1: report = "x": must be a mapping'),
        ("agents: {L9: [{report: {when: 2026-01-01}}]}", "agents.L9, step 1: report.when = "),
        ("agents: {L9: [{edit: {a.py: 3}}]}", "agents.L9, step 1: edit.a.py = 3: must be text (put it in quotes)"),
        ("agents: {tester: [{}, {report: {}}]}", "agents.tester, step 2: `report` is for levels"),
        ("turns: {r1.tester.c1: {report: {}}}", "turns.r1.tester.c1: `report` is for levels"),
        ("agents: {tester: [{}], L9: [{}]}", "a script has steps for roles or for levels, not for both: tester and L9"),
        ("{agents: {L9: [{}]}, turns: {r1.tester.c1: {}}}", "not for both: r1.tester.c1 and L9"),
    ],
)  # fmt: skip
def test_a_wrong_script_is_one_line_with_what_its_flow_knows(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


# --- agents as processes


# --- agents in this process, and behind a server


def ask_agents(agents: ScriptedAgents, turn: str, tree: Path) -> str:
    made = agents.create_session("p", provider="codex", idempotency_key=turn, working_directory=str(tree))
    agents.send_input(made["id"], f"Turn: {turn}\nWork.")
    return (tree / ".tmp" / "agent-responses" / f"{turn}.md").read_text(encoding="utf-8")


def test_agents_in_this_process_play_levels_too(tmp_path: Path) -> None:
    agents = ScriptedAgents(
        tmp_path / ".tmp" / "agent-responses",
        {
            "L9": [{"verdict": "MISALIGNED", "violation": "no", "alternatives": ["yes"]}, lambda prompt: prompt[:21]],
            "L2.cart": [({"src/cart.py": "def add(): ...\n"}, {"work_summary": "carts"})],
            "s1.L8.decompose": ["not a report"],
            "L8.decompose": [lambda _prompt: {"work_summary": "from a function"}],
        },
    )
    level_def = agents.change_signal.wakeups
    assert json.loads(ask_agents(agents, "s1.L9.decompose", tmp_path / "a"))["verdict"] == "MISALIGNED"
    assert ask_agents(agents, "s1.L9.decompose.t2", tmp_path / "a") == "Turn: s1.L9.decompose"
    assert json.loads(ask_agents(agents, "s1.L9.decompose", tmp_path / "a"))["verdict"] == "MISALIGNED"
    assert ask_agents(agents, "s1.L8.decompose", tmp_path / "a") == "not a report"
    assert json.loads(ask_agents(agents, "s1.L8.decompose.t2", tmp_path / "a"))["work_summary"] == "from a function"
    assert agents.change_signal.wakeups == level_def + 5
    cart = read_report(TurnKind.AUTHOR, Level.L2, ask_agents(agents, "s1.L2.cart.author", tmp_path / "c"))
    assert isinstance(cart, Report)
    assert (cart.work_summary, cart.files, cart.provides) == ("carts", ("src/cart.py",), ("add",))
    assert (tmp_path / "c" / "src" / "cart.py").read_text() == "def add(): ...\n"
    other = read_report(TurnKind.AUTHOR, Level.L2, ask_agents(agents, "s1.L2.other.author", tmp_path / "d"))
    assert isinstance(other, Report)
    assert other.files == ("other.py",)
    assert (tmp_path / "d" / "other.py").exists()


def test_agents_behind_a_server_play_levels_in_the_folder_it_was_asked_for(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    with (
        FakeCao(tmp_path / "responses", {"L9": [{"work_summary": "guarded"}]}) as server,
        closing(ApiClient(server.url, str(tmp_path), patience=5)) as client,
    ):
        terminal = client.create_session("p", provider="codex", working_directory=str(tree))["id"]
        client.send_input(terminal, f"Turn: s1.L9.decompose\n{'語' * 30_000}")
        wait_for(lambda: client.get_status(terminal) == "completed")
    text = (tree / ".tmp" / "agent-responses" / "s1.L9.decompose.md").read_text(encoding="utf-8")
    assert json.loads(text)["work_summary"] == "guarded"
