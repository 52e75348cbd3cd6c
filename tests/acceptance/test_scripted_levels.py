"""Scripted agents of the levels as processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.hosts.script import level_turn, read_script
from logos.adapters.hosts.scripted import ScriptedHost
from logos.adapters.reports import read_report
from logos.domain.reports import Report, Verdict
from tests.support.waiting import wait_for


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
        wait_for(lambda: self.host.get_status(terminal) != "processing", f"the end of the turn in {terminal}")

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
