"""Events as JSON and back: exactly, whatever was said, and readable by whoever comes later."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logos.adapters.store.codec import Undecodable, decode, encode
from logos.domain.events import (
    AcceptanceWritten,
    CheckRan,
    Event,
    GateDecided,
    GateOpened,
    Noted,
    PermissionDecided,
    PersonSaid,
    ProofRan,
    QuestionResolved,
    RecordsTampered,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    Source,
    TerminalClosed,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
    WorkCompared,
    WorkGathered,
    WorkMerged,
    WorkUndone,
)
from logos.domain.gates import GateKind
from logos.domain.levels import ALL_LEVELS, Level
from logos.domain.plans import CondenseRules, CyclePlan, CycleSeed, LevelsPlan, OnExhausted, ReviewRules
from logos.domain.proof import AcceptanceTests, CountedTests, LentFolder, ProofStep, RoomReport
from logos.domain.roles import ANSWERS, Phase, Role
from logos.domain.specs import ContentConflict, Tool, TouchedFile
from logos.domain.turns import Agent, AgentName, FailureKind, Outcome, RunId, TerminalId, TurnId
from tests.builders import a_plan, examples
from tests.levels_builders import a_levels_plan

words = st.text(max_size=40)
texts = words | st.sampled_from(["", "\n", "a\r\nb\n", "\x00\x1b[31m", '"\\', "语 🙂 é", "\u2028", "x" * 10_000])
names = st.text(min_size=1, max_size=20)
counts = st.integers(0, 1_000_000)

agents = st.builds(Agent, names.map(AgentName), words, words)
reviews = st.builds(ReviewRules, counts, counts, st.booleans(), counts, st.sampled_from(OnExhausted))
condensing = st.builds(
    CondenseRules, st.booleans(), counts, st.booleans(), st.booleans(), st.booleans(), counts, st.none() | counts
)
levels = st.sampled_from(Level)
builds = st.builds(
    LevelsPlan,
    feature=texts,
    wd=words,
    base=words,
    telos=st.lists(st.tuples(levels, texts), max_size=3).map(tuple),
    agents=st.lists(agents, max_size=3).map(tuple),
    levels=st.sets(levels).map(lambda chosen: tuple(level for level in ALL_LEVELS if level in chosen)),
    tools=st.lists(st.builds(Tool, levels, words, words), max_size=2).map(tuple),
    max_parallel=counts,
    max_reconciliations=counts,
    max_rounds=counts,
    rules=counts,
)
cycles = st.builds(
    CyclePlan,
    prompt=texts,
    explore=texts,
    scenario_test=texts,
    wd=words,
    response_dir=words,
    agents=st.lists(agents, max_size=5).map(tuple),
    start=st.sampled_from(Role),
    max_rounds=counts,
    test_command=words,
    verify_pass=st.booleans(),
    review=reviews,
    condense=condensing,
    rules=counts,
)
plans = cycles | builds
seeds = st.builds(
    CycleSeed,
    counts,
    st.sampled_from(Phase),
    *(texts,) * 4,
    st.lists(texts, min_size=5, max_size=5).map(lambda said: tuple(zip(ANSWERS, said, strict=True))),
)
turns = names.map(TurnId)
opened = st.builds(TerminalOpened, names.map(AgentName), names.map(TerminalId), words, words)
EVENTS: dict[type, st.SearchStrategy[Event]] = {
    RunStarted: st.builds(RunStarted, plans, st.none() | seeds, st.lists(opened, max_size=3).map(tuple)),
    RunResumed: st.builds(RunResumed, plans),
    RunForked: st.builds(
        RunForked,
        names.map(RunId),
        counts,
        plans,
        st.sampled_from(["fork", "rollback"]),
        words,
        st.lists(st.tuples(words, words), max_size=2).map(tuple),
    ),
    RunAbandoned: st.builds(RunAbandoned, texts),
    TerminalOpened: opened,
    TerminalClosed: st.builds(TerminalClosed, names.map(AgentName), names.map(TerminalId)),
    TurnAsked: st.builds(TurnAsked, turns, names.map(AgentName), texts),
    TurnSent: st.builds(TurnSent, turns),
    TurnAnswered: st.builds(TurnAnswered, turns, texts, st.sampled_from(Source)),
    TurnFailed: st.builds(TurnFailed, turns, st.sampled_from(FailureKind), texts),
    CheckRan: st.builds(CheckRan, turns, words, st.integers(-300, 300), texts),
    WorkCompared: st.builds(WorkCompared, turns, st.none() | st.lists(texts, max_size=3).map(tuple), words),
    ProofRan: st.builds(
        ProofRan,
        turns,
        st.sampled_from(ProofStep),
        words,
        words,
        texts,
        st.integers(-300, 300),
        st.none() | st.builds(CountedTests, words, *[st.lists(texts, max_size=2).map(tuple)] * 4),
        texts,
        st.lists(texts, max_size=2).map(tuple),
        texts,
        st.builds(RoomReport, words, st.booleans(), texts, lent=st.tuples(st.builds(LentFolder, texts, words))),
    ),
    AcceptanceWritten: st.builds(
        AcceptanceWritten,
        turns,
        st.builds(AcceptanceTests, words, words, words, st.lists(words, max_size=3).map(tuple), counts, counts),
        problem=texts,
    ),
    WorkUndone: st.builds(WorkUndone, turns, st.lists(texts, max_size=3).map(tuple), words),
    WorkGathered: st.builds(
        WorkGathered,
        turns,
        words,
        words,
        st.lists(st.builds(TouchedFile, texts, words, st.lists(words).map(tuple)), max_size=3).map(tuple),
        st.lists(texts, max_size=3).map(tuple),
    ),
    WorkMerged: st.builds(
        WorkMerged,
        turns,
        words,
        st.lists(st.builds(ContentConflict, words, st.lists(words).map(tuple), texts, texts), max_size=2).map(tuple),
    ),
    QuestionResolved: st.builds(QuestionResolved, words, counts, texts),
    GateOpened: st.builds(GateOpened, turns, st.sampled_from(GateKind), texts),
    GateDecided: st.builds(GateDecided, turns, st.booleans(), texts, words),
    PermissionDecided: st.builds(PermissionDecided, turns, st.booleans(), words),
    PersonSaid: st.builds(PersonSaid, texts, st.none() | names.map(AgentName), words),
    Noted: st.builds(Noted, st.sampled_from(Topic), texts, st.none() | turns),
    RecordsTampered: st.builds(RecordsTampered, texts),
    RunEnded: st.builds(RunEnded, st.sampled_from(Outcome)),
}


def test_every_kind_of_event_is_tried_here() -> None:
    assert set(EVENTS) == set(get_args(Event))


@examples(60)
@given(st.one_of(*EVENTS.values()))
def test_every_event_comes_back_as_it_was(event: Event) -> None:
    body = encode(event)
    back = decode(body)
    assert back == event
    assert type(back) is type(event)
    assert decode(body.encode("utf-8")) == event
    assert "\n" not in body


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_every_kind_can_be_told_by_its_name(kind: type) -> None:
    names_of_kinds = {other.__dataclass_fields__["kind"].default for other in EVENTS}
    assert len(names_of_kinds) == len(EVENTS)
    assert kind.__dataclass_fields__["kind"].default in names_of_kinds


def test_a_very_large_response_comes_back_whole() -> None:
    event = TurnAnswered(TurnId("r1.analyst.c1"), "语言\n" * 500_000)
    assert decode(encode(event)) == event


def test_a_lone_surrogate_in_an_agents_text_does_not_end_the_run() -> None:
    event = TurnAnswered(TurnId("r1.analyst.c1"), "before \ud800 after")
    back = decode(encode(event))
    assert isinstance(back, TurnAnswered)
    assert back.text.startswith("before ")
    assert back.text.endswith(" after")


# --- what cannot be read


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "null",
        "[]",
        "5",
        '"turn_sent"',
        "{}",
        '{"kind": null}',
        '{"kind": "turn_teleported", "turn": "r1.analyst.c1"}',
        '{"turn": "r1.analyst.c1"}',
        '{"kind": "turn_sent"}',
        '{"kind": "turn_sent", "turn": 5}',
        '{"kind": "turn_answered", "turn": "t", "text": "x", "source": "hearsay"}',
        '{"kind": "run_ended", "outcome": "PASS"}',
        '{"kind": "run_started", "plan": {}}',
        b"\xff\xfe",
        b'{"kind": "turn_sent", "turn": "\xff"}',
    ],
)
def test_what_is_no_event_says_so(body: str | bytes) -> None:
    with pytest.raises(Undecodable):
        decode(body)


def test_an_unknown_kind_is_named_in_the_complaint() -> None:
    with pytest.raises(Undecodable, match="turn_teleported"):
        decode('{"kind": "turn_teleported"}')


@examples()
@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_garbage_is_undecodable_and_nothing_else(body: bytes | str) -> None:
    with pytest.raises(Undecodable):
        decode(body)


@examples()
@given(st.one_of(*EVENTS.values()), st.data())
def test_a_truncated_event_is_undecodable(event: Event, data: st.DataObject) -> None:
    body = encode(event).encode("utf-8")
    with pytest.raises(Undecodable):
        decode(body[: data.draw(st.integers(0, len(body) - 1))])


# --- what older versions wrote


def without(body: str, *paths: str) -> str:
    document = json.loads(body)
    for path in paths:
        place = document
        *parents, last = path.split(".")
        for part in parents:
            place = place[part]
        del place[last]
    return json.dumps(document)


@pytest.mark.parametrize(
    ("event", "newer"),
    [
        (RunStarted(a_plan()), ["seed"]),
        (RunStarted(a_plan()), ["opened"]),
        (RunStarted(a_plan()), ["given", "files"]),
        (RunStarted(a_plan()), ["seed", "opened"]),
        (RunStarted(a_plan()), ["plan.verify_pass", "plan.test_command", "plan.max_rounds", "plan.start"]),
        (RunStarted(a_plan()), ["plan.review", "plan.condense"]),
        (RunStarted(a_plan()), ["plan.review.on_exhausted", "plan.condense.max_test_evidence_lines"]),
        (RunStarted(replace(a_plan(), agents=())), ["plan.agents"]),
        (RunStarted(a_plan(), CycleSeed(round=3)), ["seed.retry_context", "seed.outputs", "seed.phase"]),
        (RunStarted(a_plan(rules=1)), ["plan.rules"]),
        (RunResumed(a_levels_plan(rules=1)), ["plan.rules"]),
        (TurnAnswered(TurnId("t"), "x"), ["source"]),
        (Noted(Topic.WARNING, "x"), ["turn"]),
    ],
)
def test_an_older_event_without_newer_fields_has_their_defaults(event: Event, newer: list[str]) -> None:
    assert decode(without(encode(event), *newer)) == event


@example(TurnSent(TurnId("t")))
@examples(20)
@given(st.one_of(*EVENTS.values()))
def test_a_field_of_a_newer_version_is_no_reason_to_lose_an_event(event: Event) -> None:
    document = json.loads(encode(event))
    assert decode(json.dumps({**document, "added_later": {"a": 1}})) == event
