"""A run as a person wants to hear of it: its turns with their verdicts, and where it stands. Read from the log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from logos.cli.bill import Bill, bill_for, usage_as_json
from logos.domain.events import (
    CheckRan,
    Noted,
    Recorded,
    RunResumed,
    RunStarted,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
)
from logos.domain.ledger import Ledger
from logos.domain.plans import CyclePlan
from logos.domain.roles import Role, stage_with
from logos.domain.turns import RunId
from logos.domain.usage import Usage
from logos.errors import LogDamaged, LogError
from logos.flows.cycle import Cycle, CycleState
from logos.flows.gates import Verdict, evidence_found, is_approved, read_result, says_approved
from logos.ports import Log

_TURN = re.compile(r"r\d+\.(?P<role>[a-z_]+)\.c(?P<cycle>\d+)")
LOGOS = "logos"
# What scripted agents call their session.
SCRIPTED = "scripted"


@dataclass(frozen=True, slots=True)
class Told:
    """One turn, or one check that Logos ran itself."""

    turn: str
    agent: str
    asked: float
    prompt: str
    response: str = ""
    ended: float | None = None
    verdict: str = ""
    failure: str = ""
    waits: str = ""
    rests: str = ""
    bills: tuple[Usage | None, ...] = ()

    @property
    def usage(self) -> Usage | None:
        """What it cost as far as its host told, all tries together."""
        known = [usage for usage in self.bills if usage is not None]
        return reduce(Usage.plus, known) if known else None

    @property
    def seconds(self) -> float | None:
        return None if self.ended is None else self.ended - self.asked


@dataclass(frozen=True, slots=True)
class Story:
    run: RunId
    state: CycleState
    ledger: Ledger
    started: float
    last: float
    turns: tuple[Told, ...] = ()
    damage: str = ""
    records: tuple[Recorded, ...] = field(default=(), repr=False)

    @property
    def answered(self) -> int:
        return sum(1 for told in self.turns if told.ended is not None and told.agent != LOGOS)

    @property
    def seconds(self) -> float:
        return self.last - self.started

    @property
    def characters(self) -> int:
        return self.ledger.characters

    @property
    def simulated(self) -> bool:
        """Whether its agents followed a script."""
        opened = (record.event for record in self.records if isinstance(record.event, TerminalOpened))
        return any(event.session == SCRIPTED for event in opened)

    @property
    def bill(self) -> Bill:
        return bill_for(self.turns)

    @property
    def left(self) -> str:
        """Why the last driver left, when none took over since."""
        for record in reversed(self.records):
            match record.event:
                case Noted(Topic.INTERRUPTED, text):
                    return text
                case RunResumed():
                    return ""
                case _:
                    pass
        return ""

    def last_of(self, *roles: Role) -> Told | None:
        return next((told for told in reversed(self.turns) if told.agent in roles), None)


def read_story(log: Log, run: RunId) -> Story:
    """Everything the log tells of a run; of a damaged one, what comes before the damage."""
    records: list[Recorded] = []
    damage = ""
    try:
        for record in log.read(run):
            records.append(record)
    except LogDamaged as error:
        damage = str(error)
    first = records[0] if records else None
    if first is None or not isinstance(first.event, RunStarted):
        raise LogError(damage or f"run {run} is not in the log")
    flow = Cycle(first.event.plan, first.event.seed)
    state, ledger = flow.start(), Ledger()
    for record in records:
        state, ledger = flow.apply(state, record.event), ledger.enter(record.event)
    turns = tuple(tell_turns(records))
    return Story(run, state, ledger, first.at, records[-1].at, turns, damage, tuple(records))


def tell_turns(records: Iterable[Recorded]) -> list[Told]:
    """The turns in the order they were asked. A turn that was asked again after a crash stays one."""
    told: dict[str, Told] = {}
    plan: CyclePlan | None = None
    before = 0.0

    def of(turn: str, at: float) -> Told:
        # Who joins in the middle hears of answers to turns that were asked before.
        return told.get(turn) or Told(turn, _agent_of(turn), at, "")

    for record in records:
        event, at = record.event, record.at
        match event:
            case RunStarted() | RunResumed():
                plan = event.plan
            case TurnAsked(turn, agent, prompt):
                told.setdefault(turn, Told(turn, agent, at, prompt))
            case TurnSent(turn) if turn in told:
                told[turn] = replace(told[turn], rests="")
            case TurnAnswered(turn, text, _, usage):
                ended = replace(of(turn, at), response=text, ended=at, verdict=verdict_of(plan, turn, text))
                told[turn] = replace(ended, failure="", waits="", rests="", bills=(*ended.bills, usage))
            case TurnFailed(turn, _, message, usage):
                failed = of(turn, at)
                told[turn] = replace(failed, failure=message, waits="", rests="", bills=(*failed.bills, usage))
            case Noted(Topic.TRIED_AGAIN, text, str(turn)):
                told[turn] = replace(of(turn, at), rests=text)
            case Noted(Topic.PERMISSION_ASKED, text, str(turn)):
                told[turn] = replace(of(turn, at), waits=text)
            case Noted(Topic.PERMISSION_GIVEN, _, str(turn)):
                told[turn] = replace(of(turn, at), waits="")
            case CheckRan(turn, command, exit_code, output):
                told[turn] = Told(turn, LOGOS, before, command, output, at, f"exit {exit_code}")
            case _:
                pass
        before = at
    return list(told.values())


def _agent_of(turn: str) -> str:
    parts = _TURN.fullmatch(turn)
    return parts["role"] if parts else ""


def verdict_of(plan: CyclePlan | None, turn: str, text: str) -> str:
    """What a response decides, in a few words; authors decide nothing."""
    parts = _TURN.fullmatch(turn)
    if plan is None or parts is None or parts["role"] not in set(Role):
        return ""
    role, cycle = Role(parts["role"]), int(parts["cycle"])
    stage = stage_with(role)
    if role is Role.TESTER:
        verdict = read_result(text)
        return "no verdict" if verdict is Verdict.UNCLEAR else verdict.value
    if role is not stage.reviewer:
        return ""
    if not says_approved(text):
        return "REVISE" if "REVISE" in text else "no verdict"
    rules = plan.review
    if is_approved(text, cycle, stage.phase, rules):
        return "APPROVED"
    if cycle < rules.min_cycles_before_approval:
        return f"APPROVED, but cycle {cycle} is too early to count"
    found = evidence_found(text, stage.phase)
    return f"APPROVED, but with too little evidence to count ({found} of {rules.evidence_min_match})"


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def turns_as_json(story: Story) -> list[dict[str, Any]]:
    return [
        {
            "turn": told.turn,
            "agent": told.agent,
            "asked_at": iso(told.asked),
            "seconds": None if told.seconds is None else round(told.seconds, 3),
            "verdict": told.verdict or None,
            "failure": told.failure or None,
            "prompt_characters": len(told.prompt),
            "response_characters": len(told.response),
            "usage": usage_as_json(told.usage),
        }
        for told in story.turns
    ]
