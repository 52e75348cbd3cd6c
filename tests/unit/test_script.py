"""Scripts of simulated agents: what they may say, and the one line that says what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.adapters.hosts.script import GOOD, Fault, Script, as_yaml, load_script, read_script
from logos.adapters.hosts.scripted import SESSION
from logos.domain.plans import ReviewRules
from logos.domain.roles import Phase, Role
from logos.domain.usage import Usage
from logos.errors import ConfigError
from logos.flows.cycle.verdicts import is_approved
from logos.views.run import SCRIPTED
from tests.builders import examples


def load(folder: Path, text: str) -> Script:
    path = folder / "script.yaml"
    path.write_text(text, encoding="utf-8")
    return load_script(path)


WHOLE = """
agents:
  programmer:
    - say: first
      delay: 0.5
      after: 1
      edit:
        src/greet.py: |
          print("hello")
      usage: {input: 1200, cached: 300, output: 80, cost_usd: 0.012}
    - fault: usage_limit
      message: try again at 3pm
      times: 2
  tester:
    - run: make test
turns:
  r2.programmer.c1:
    fault: permission
    question: May I?
otherwise: error
"""


def test_a_script_is_read_whole(tmp_path: Path) -> None:
    script = load(tmp_path, WHOLE)
    first = script.agents[Role.PROGRAMMER][0]
    assert (first.say, first.delay, first.after) == ("first", 0.5, 1)
    assert first.edit == {"src/greet.py": 'print("hello")\n'}
    assert first.usage is not None
    assert Usage(**first.usage.model_dump()).tokens == 1280
    assert script.agents[Role.PROGRAMMER][1].times == 2
    assert script.turns["r2.programmer.c1"].fault is Fault.PERMISSION


def test_a_script_may_be_json(tmp_path: Path) -> None:
    assert load(tmp_path, '{"agents": {"tester": [{"say": "RESULT: PASS"}]}}').agents[Role.TESTER][0].say


def test_the_nth_turn_takes_step_n_the_last_repeats_and_a_turns_own_step_wins() -> None:
    script = read_script(
        {"agents": {"tester": [{"say": "one"}, {"say": "two"}]}, "turns": {"r2.tester.c1": {"say": "own"}}}
    )

    def said(turn: str, position: int) -> str | None:
        _, steps = script.steps((turn, Role.TESTER))
        return steps[min(position, len(steps)) - 1].say

    assert [said(f"r{n}.tester.c1", n) for n in (1, 2, 3, 4)] == ["one", "own", "two", "two"]


def test_a_turn_nobody_wrote_a_step_for_goes_well_or_is_an_error() -> None:
    lenient, strict = read_script({"turns": {}}), read_script({"turns": {}, "otherwise": "error"})
    _, (step,) = lenient.steps(("r1.tester.c1", Role.TESTER))
    assert (step.say, step.fault) == (None, None)
    assert strict.steps(("r1.tester.c1", Role.TESTER)) == ("", ())


def test_programs_may_give_steps_by_role_alone() -> None:
    script = read_script({"analyst": [{"say": "a", "fault": "no_file"}, {"fault": "crash"}, {"say": "b"}]})
    assert [step.fault for step in script.agents[Role.ANALYST]] == [Fault.NO_FILE, Fault.CRASH, None]
    assert script.steps(("r1.tester.c1", Role.TESTER)) == ("", ())


def test_the_good_responses_pass_the_gates_of_a_real_run() -> None:
    for role, phase in ((Role.PEER_ANALYST, Phase.ANALYST), (Role.PEER_PROGRAMMER, Phase.PROGRAMMER)):
        assert is_approved(GOOD[role], 2, phase, ReviewRules())


STEP = "say, report, delay, after, edit, run, usage, fault, times, message, question"
FAULTS = "hang, crash, no_file, garbage, permission, usage_limit, transient"
ROLES = "analyst, peer_analyst, programmer, peer_programmer, tester"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a script is a mapping with the keys agents, turns, otherwise"),
        ("- 1", "a script is a mapping with the keys agents, turns, otherwise"),
        ("agent: {}", "agent: unknown key; known here: agents, turns, otherwise"),
        ("1: 2", "1 = 1: keys should be strings"),
        ("tester: [{say: x}]", "tester: unknown key; known here: agents, turns, otherwise"),
        ("agents: 3", f"agents = 3: must be a mapping with the keys {ROLES}"),
        ("agents: {boss: [{say: x}]}", f'agents.boss = "boss": must be one of {ROLES}'),
        ("agents: {tester: {say: x}}", 'agents.tester = {"say": "x"}: must be a list of steps'),
        ("agents: {tester: []}", "agents.tester = []: must have at least one step"),
        ("agents: {tester: [x]}", f'agents.tester, step 1 = "x": must be a mapping with the keys {STEP}'),
        ("agents: {tester: [{}, {sya: x}]}", f"agents.tester, step 2: sya: unknown key; known here: {STEP}"),
        ("agents: {tester: [{say: 3}]}", "agents.tester, step 1: say = 3: must be text (put it in quotes)"),
        ("agents: {tester: [{fault: burn}]}", f'agents.tester, step 1: fault = "burn": must be one of {FAULTS}'),
        ("agents: {tester: [{delay: -1}]}", "agents.tester, step 1: delay = -1: input should be greater than or equal"),
        ("agents: {tester: [{delay: yes}]}", "agents.tester, step 1: delay = true: must be a number"),
        ("agents: {tester: [{times: 1}]}", "agents.tester, step 1: `times` needs a `fault`"),
        ("agents: {tester: [{question: x}]}", "agents.tester, step 1: `question` needs the fault permission"),
        ("agents: {tester: [{message: x, fault: hang}]}", "`message` needs one of the faults crash, garbage,"),
        ("turns: {r2.boss.c1: {}}", 'turns.r2.boss.c1 = "r2.boss.c1": must be a turn id such as r2.programmer.c1'),
        ("turns: {r1.verify: {}}", "must be a turn id such as r2.programmer.c1"),
        ("turns: {r1.tester.c1: {usage: {tokens: 1}}}", "usage.tokens: unknown key; known here: input, cached,"),
        ("turns: {r1.tester.c1: {usage: {input: 1.5}}}", "usage.input = 1.5: must be a whole number"),
        ("otherwise: maybe", 'otherwise = "maybe": must be one of good, error'),
        ("agents:\n  tester:\n    - say: a\n      say: b", "script.yaml, line 4: the key 'say' is repeated"),
        ("agents:\n\ttester: []", "script.yaml, line 2: found character '\\t' that cannot start any token"),
        ("agents: {tester: [", "script.yaml, line 1: expected the node content"),
        ("a: !!python/name:os.system ''", "script.yaml, line 1: could not determine a constructor"),
        ("a: \x01", "is not valid YAML: unacceptable character #x0001"),
    ],
)
def test_a_wrong_script_is_one_line_that_names_file_place_and_what_is_allowed(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "script.yaml"))
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", "  "])
def test_edits_stay_inside_the_work_dir(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigError, match=r"edit.*must be a path inside the work dir"):
        load(tmp_path, f'agents: {{tester: [{{edit: {{"{path}": x}}}}]}}')


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_script_that_cannot_be_read_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "script.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match="cannot read the script"):
        load_script(tmp_path / "script.yaml")


SAID = st.text(st.characters(exclude_categories=["Cs"]), max_size=80) | st.lists(
    st.sampled_from(["", " ", "  - item", "key: value", "# no comment", "\ttab", "end ", "---", "…", "ü\u2028x", "a\r"])
).map("\n".join)


@examples(80)
@given(said=st.lists(SAID, min_size=1, max_size=4), comment=st.text("ab \n#", max_size=20))
def test_what_was_said_comes_back_to_the_letter(
    tmp_path_factory: pytest.TempPathFactory, said: list[str], comment: str
) -> None:
    turns = {f"r{number}.tester.c1": {"say": text} for number, text in enumerate(said, 1)}
    path = tmp_path_factory.getbasetemp() / "spoken.yaml"
    path.write_text(as_yaml({"turns": turns}, comment), encoding="utf-8", newline="")
    assert [step.say for step in load_script(path).turns.values()] == said


def test_long_texts_are_readable_in_the_file() -> None:
    script: dict[str, Any] = {"turns": {"r1.tester.c1": {"say": "RESULT: PASS\nEVIDENCE:\n- ok\n"}}}
    assert as_yaml(script, "by hand") == (
        "# by hand\nturns:\n  r1.tester.c1:\n    say: |\n      RESULT: PASS\n      EVIDENCE:\n      - ok\n"
    )


def test_everybody_calls_simulated_sessions_the_same() -> None:
    assert SESSION == SCRIPTED
