"""Scripted agents at the levels: what a script may say of them, and what they do in the folder they work in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.hosts.cao import ApiClient
from logos.adapters.hosts.script import Flow, level_turn, level_turn_of, load_script, read_script
from logos.adapters.hosts.scripted import ScriptedHost
from logos.adapters.reports import read_report
from logos.domain.levels import ALL_LEVELS, LEVELS, Level
from logos.domain.reports import Report, TurnKind, Verdict
from logos.errors import ConfigError
from logos.testing import ScriptedAgents
from logos.testing.cao_server import FakeCao

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
    assert script.flow is Flow.LEVELS
    assert script.agents["L2.cart"][0].edit == {"cart.py": "x = 1", "old.py": None}
    assert read_script({"analyst": [{"say": "x"}]}).flow is Flow.CYCLE
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
KEYS_OF_AGENTS = "L9, L8, L7, L6, L5, L4, L3, L2, L1, L5.validate, L2.cart"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("agents: {L9: [{}], boss: [{}]}", f'agents.boss = "boss": must be one of {KEYS_OF_AGENTS}'),
        ("agents: {L10: [{}]}", f'agents.L10 = "L10": must be one of {KEYS_OF_AGENTS}'),
        ("agents: {L5.author: [{}]}", "must be one of L5, L5.decompose, L5.validate, L5.position, L5.propose, L5.agree"),
        ("agents: {L2.a.b: [{}]}", "must be one of L2, L2.author, L2.position, L2.propose, L2.agree, L2.COMPONENT"),
        ("agents: {boss: [{}]}", f"peer_programmer, tester; for levels: {KEYS_OF_AGENTS}"),
        ("agents: {L9: [{sya: x}]}", f"agents.L9, step 1: sya: unknown key; known here: {STEP}"),
        ("agents: {L9: [x]}", f'agents.L9, step 1 = "x": must be a mapping with the keys {STEP}'),
        ("turns: {s1.L5.cart.validate: {}}", "must be a turn id such as s1.L5.validate"),
        ("turns: {s1.L2.../x.author: {}}", "must be a turn id such as s1.L5.validate"),
        ("agents: {L9: [{say: x, report: {}}]}", "agents.L9, step 1: `say` and `report` are two ways to give one response"),
        ("agents: {L9: [{report: x}]}", 'agents.L9, step 1: report = "x": must be a mapping'),
        ("agents: {L9: [{report: {when: 2026-01-01}}]}", "agents.L9, step 1: report.when = "),
        ("agents: {L9: [{edit: {a.py: 3}}]}", "agents.L9, step 1: edit.a.py = 3: must be text (put it in quotes)"),
        ("agents: {tester: [{}, {report: {}}]}", "agents.tester, step 2: `report` is for levels"),
        ("turns: {r1.tester.c1: {report: {}}}", "turns.r1.tester.c1: `report` is for levels"),
        ("agents: {tester: [{}], L9: [{}]}", "a script speaks of roles or of levels, not of both: tester and L9"),
        ("{agents: {L9: [{}]}, turns: {r1.tester.c1: {}}}", "not of both: r1.tester.c1 and L9"),
    ],
)  # fmt: skip
def test_a_wrong_script_is_one_line_with_what_its_flow_knows(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


# --- agents as processes


class Stage:
    """A scripted host and a worktree in which its agents work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hosts: list[ScriptedHost] = []
        self.work_in("run-1/main")

    def play(self, **script: Any) -> None:
        """Agents that follow this script from now on, with everything before remembered, as after a restart."""
        host = ScriptedHost(self.folder / "host", read_script(script), self.folder / "responses", self.folder)
        self._hosts.append(host)

    def work_in(self, place: str) -> None:
        self.tree = self.folder / place
        self.tree.mkdir(parents=True)

    @property
    def host(self) -> ScriptedHost:
        return self._hosts[-1]

    def send(self, turn: str, terminal: str = "") -> str:
        terminal = terminal or self.open(turn)
        self.host.send_input(terminal, f"Turn: {turn}\nWork. Not in /analyst_summary.md.")
        return terminal

    def open(self, key: str) -> str:
        """An agent in a session of its own, as every turn of a level has it."""
        made = self.host.create_session("p", provider="mock_cli", idempotency_key=key, working_directory=str(self.tree))
        return made["id"]

    def finish(self, terminal: str) -> None:
        end = time.monotonic() + 30
        while self.host.get_status(terminal) == "processing":
            assert time.monotonic() < end, "it never ended"
            time.sleep(0.005)

    def ask(self, turn: str, terminal: str = "") -> str:
        """A turn from its prompt to its response."""
        terminal = self.send(turn, terminal)
        self.finish(terminal)
        return self.response(turn)

    def response(self, turn: str) -> str:
        return (self.tree / ".tmp" / "agent-responses" / f"{turn}.md").read_text(encoding="utf-8")

    def report(self, turn: str) -> Report:
        """What a real reader makes of it."""
        found = level_turn(turn)
        assert found is not None
        report = read_report(found.kind, found.level, self.ask(turn))
        assert isinstance(report, Report), report
        return report

    def close(self) -> None:
        for host in self._hosts:
            host.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with closing(Stage(tmp_path)) as made:
        yield made


def test_a_level_that_no_script_mentions_hands_in_a_good_report_in_its_own_folder(stage: Stage) -> None:
    stage.play(otherwise="good")
    assert stage.report("s1.L9.decompose").verdict is Verdict.ALIGNED
    assert stage.report("s1.L5.validate").verdict is Verdict.PASS
    assert not (stage.folder / ".tmp").exists()


def test_a_script_says_only_what_differs_from_a_good_report(stage: Stage) -> None:
    stage.play(
        agents={
            "L5.validate": [{"report": {"verdict": "FAIL", "failures": [{"what": "no way back"}]}}],
            "L6": [{"report": {"spec_updates": {"experience": "by voice"}, "next_recommended_action": {"why": "w"}}}],
        }
    )
    failed = stage.report("s1.L5.validate")
    assert (failed.verdict, failed.failures[0].what) == (Verdict.FAIL, "no way back")
    assert failed.work_summary
    spec = stage.report("s1.L6.decompose")
    assert {section.name: section.text for section in spec.spec}["experience"] == "by voice"
    assert [section.name for section in spec.spec] == ["experience", "accessibility"]
    assert spec.next.why == "w"


def test_an_author_without_a_step_writes_one_function_and_says_so(stage: Stage) -> None:
    stage.play(agents={"L2.cart": [{"delay": 0.01}]})
    done = stage.report("s1.L2.price-list.author")
    assert (done.files, done.tests, done.provides) == (("price_list.py",), (), ("price_list",))
    assert (stage.tree / "price_list.py").read_text() == "def price_list() -> None: ...\n"
    assert stage.report("s1.L2.cart.author").files == ("cart.py",)


def test_an_author_that_is_asked_for_more_work_changes_something(stage: Stage) -> None:
    stage.play(otherwise="good")
    texts: list[str] = []
    for turn in ("s1.L2.cart.author", "s2.L2.cart.author", "s2.L2.cart.author.v2"):
        assert stage.report(turn).provides == ("cart",)
        texts.append((stage.tree / "cart.py").read_text())
        compile(texts[-1], "cart.py", "exec")
    assert len(set(texts)) == 3


def test_an_author_declares_what_it_edits(stage: Stage) -> None:
    (stage.tree / "old.py").write_text("")
    edit = {
        "src/cart.py": "class Cart:\n    def add(self): ...\n\ndef total(): ...\ndef _own(): ...\n",
        "tests/helper.py": "def a_cart(): ...\n",
        "web/cart.spec.ts": "",
        "old.py": None,
    }
    stage.play(agents={"L2.cart": [{"edit": edit}], "L2.told": [{"edit": edit, "report": {"files": ["src/cart.py"]}}]})
    done = stage.report("s1.L2.cart.author")
    assert set(done.files) == edit.keys()
    assert set(done.tests) == {"tests/helper.py", "web/cart.spec.ts"}
    assert done.provides == ("Cart", "total")
    assert not (stage.tree / "old.py").exists()
    assert (stage.tree / "src" / "cart.py").exists()
    assert stage.report("s1.L2.told.author").files == ("src/cart.py",)


def test_an_author_may_say_that_it_changed_nothing(stage: Stage) -> None:
    told = {"files": [], "constraint": {"statement": "no such field"}}
    stage.play(agents={"L2.cart": [{"edit": {}, "report": told}], "L2.list": [{"say": "I will not."}]})
    stage.ask("s1.L2.cart.author")
    assert stage.ask("s1.L2.list.author") == "I will not."
    assert [path.name for path in stage.tree.iterdir()] == [".tmp"]


@pytest.mark.parametrize(("exit_code", "verdict"), [(0, Verdict.PASS), (3, Verdict.FAIL)])
def test_a_command_decides_a_validation(stage: Stage, exit_code: int, verdict: Verdict) -> None:
    command = f"""pwd; echo 'a "quoted" \\ line'; seq 5000; exit {exit_code}"""
    stage.play(agents={"L5.validate": [{"run": command}]})
    judged = stage.report("s1.L5.validate")
    assert judged.verdict is verdict
    if verdict is Verdict.FAIL:
        assert judged.failures[0].what == command
        assert judged.failures[0].observed.endswith("5000")


def test_what_a_command_gave_can_be_put_into_a_report(stage: Stage) -> None:
    told = {"work_summary": "it is {verdict}: {output}"}
    stage.play(agents={"L4": [{"run": """pwd; echo '"'; exit 1""", "report": told}]})
    judged = stage.report("s1.L4.validate")
    assert (judged.verdict, judged.work_summary) == (Verdict.PASS, f'it is FAIL: {stage.tree}\n"')


def test_the_nth_turn_from_a_key_takes_step_n_and_a_turn_asked_again_keeps_its_place(stage: Stage) -> None:
    stage.play(
        agents={
            "L4": [{"say": "one"}, {"say": "two"}],
            "L4.validate": [{"say": "judged once"}, {"say": "judged twice"}],
        },
        turns={"s2.L4.decompose": {"say": "its own"}},
    )
    assert stage.ask("s1.L4.decompose") == "one"
    assert stage.ask("s1.L4.validate") == "judged once"
    assert stage.ask("s2.L4.decompose") == "its own"
    assert stage.ask("s1.L4.decompose") == "one"
    # A second try, because the report was refused, is a turn of its own, in the same conversation.
    assert stage.ask("s1.L4.decompose.t2", stage.open("s1.L4.decompose")) == "two"
    assert stage.ask("s1.q1.L4.position") == "two"
    assert stage.ask("s2.L4.validate") == "judged twice"


def test_places_are_kept_by_a_new_driver_and_after_a_terminal_is_closed(stage: Stage) -> None:
    steps = [{"say": "one"}, {"say": "two"}, {"say": "three"}]
    stage.play(agents={"L4": steps})
    stage.ask("s1.L4.decompose")
    stage.host.exit_terminal(stage.open("s1.L4.decompose"))
    stage.play(agents={"L4": steps})
    assert stage.ask("s1.L4.validate") == "two"
    assert stage.ask("s1.L4.decompose") == "one"


def test_agents_of_one_run_count_their_turns_together_wherever_they_work_and_another_run_begins_anew(
    stage: Stage,
) -> None:
    stage.play(agents={"L2": [{"say": "one"}, {"say": "two"}, {"say": "three"}]})
    assert stage.ask("s1.L2.cart.author") == "one"
    stage.work_in("run-1/list")
    assert stage.ask("s1.L2.list.author") == "two"
    stage.work_in("run-2/cart")
    assert stage.ask("s1.L2.cart.author", stage.open("another run's")) == "one"


def test_turns_that_begin_at_the_same_time_take_different_steps(stage: Stage) -> None:
    stage.play(agents={"L2": [{"say": str(number)} for number in range(5)]})
    turns = [f"s1.L2.part{number}.author" for number in range(5)]
    for terminal in [stage.send(turn) for turn in turns]:
        stage.finish(terminal)
    assert [stage.response(turn) for turn in turns] == ["0", "1", "2", "3", "4"]


def test_a_fault_strikes_only_the_first_tries(stage: Stage) -> None:
    stage.play(agents={"L3": [{"fault": "crash", "times": 1, "say": "at last"}]})
    stage.finish(stage.send("s1.L3.decompose"))
    assert "ended with 1" in stage.host.provider_error(stage.open("s1.L3.decompose"))
    assert stage.ask("s1.L3.decompose") == "at last"


def test_a_turn_that_must_not_come_is_an_error_that_names_it(stage: Stage) -> None:
    stage.play(agents={"L9": [{}]}, otherwise="error")
    stage.finish(stage.send("s1.L8.decompose"))
    assert "the script has no step for s1.L8.decompose" in stage.host.provider_error(stage.open("s1.L8.decompose"))


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
        until(lambda: client.get_status(terminal) == "completed")
    text = (tree / ".tmp" / "agent-responses" / "s1.L9.decompose.md").read_text(encoding="utf-8")
    assert json.loads(text)["work_summary"] == "guarded"


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)
