"""What one conversation was told, over random runs: nothing that is required is missing, whatever was lost in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from hypothesis import example, given
from hypothesis import strategies as st

from logos import profiles
from logos.domain.events import (
    Event,
    RunForked,
    RunResumed,
    RunStarted,
    TerminalClosed,
    TerminalOpened,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
)
from logos.domain.ledger import Ledger
from logos.domain.plans import CyclePlan, ReviewRules
from logos.domain.roles import ROLE_DEFS, Role
from logos.domain.turns import AgentName, FailureKind, RunId, TerminalId, Turn
from logos.flows import condense
from logos.flows.cycle.flow import Cycle, CycleState
from logos.prompts import render, standing_rules

EXPLORE = "The parser drops the last line of a file without a newline."
SCENARIO_TEST = "1. Run `parse sample.txt`.\n2. Expected: 3 rows."
RESULT = ("RESULT: PASS", "RESULT: FAIL")
REVIEW = ("REVIEW_RESULT: APPROVED", "REVIEW_RESULT: REVISE")
MARKERS = {
    Role.ANALYST: ("ANALYST_SUMMARY:",),
    Role.PEER_ANALYST: (*REVIEW, "REVIEW_NOTES:"),
    Role.PROGRAMMER: ("PROGRAMMER_SUMMARY:",),
    Role.PEER_PROGRAMMER: (*REVIEW, "REVIEW_NOTES:"),
    Role.TESTER: (*RESULT, "EVIDENCE:"),
}
EVIDENCE = "proposal.md P1 traceability downstream handoff; implementation tests regression fix"


@dataclass
class Conversations:
    """A run as its agents see it; those that are `forgetful` remember no earlier turn. `heard` is what each has certainly read: its profile, and prompts it has answered."""

    flow: Cycle
    with_profiles: frozenset[Role]
    forgetful: frozenset[Role]
    state: CycleState = field(init=False)
    ledger: Ledger = field(default_factory=Ledger)
    heard: dict[Role, list[str]] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.state = self.flow.start()
        self.record(RunStarted(self.flow.plan))
        for role in Role:
            self.open(role, has_rules=role in self.with_profiles)

    def record(self, event: Event) -> None:
        self.state, self.ledger = self.flow.apply(self.state, event), self.ledger.enter(event)

    def open(self, role: Role, *, has_rules: bool) -> None:
        """A new terminal: the first, or after the old one was lost or replaced, perhaps with another profile."""
        number = next(self.numbers)
        remembers = role not in self.forgetful
        self.record(TerminalOpened(AgentName(role), TerminalId(f"t{number}"), "codex", "s", has_rules, remembers))
        self.heard[role] = [profiles.text(ROLE_DEFS[role].profile)] if has_rules else []

    @property
    def due(self) -> Turn | None:
        return next((action for action in self.flow.due(self.state) if isinstance(action, Turn)), None)

    def ask(self, turn: Turn) -> str:
        """The prompt of a turn, as the engine makes it: one that was recorded is sent again as it is."""
        known = self.ledger.in_flight.get(turn.id)
        prompt = known.prompt if known is not None else render(turn.document, turn.facts)
        if known is None:
            self.record(TurnAsked(turn.id, turn.agent, prompt))
        self.record(TurnSent(turn.id))
        return prompt

    def answer(self, turn: Turn, prompt: str, verdict: str) -> None:
        role = Role(turn.agent)
        text = f"{verdict}\nREVIEW_NOTES:\n- {EVIDENCE}\n- remark {next(self.numbers)} in a.py"
        if role in (Role.ANALYST, Role.PROGRAMMER):
            part = "Implementation notes for programmer" if role is Role.ANALYST else "Behavior implemented"
            text = f"{MARKERS[role][0]}\n- {part}: note {next(self.numbers)}"
        if role not in self.forgetful:
            self.heard[role].append(prompt)
        self.record(TurnAnswered(turn.id, text))

    def step(self, what: str, role: Role, number: int) -> None:
        """`number` chooses the verdict of an answer, or the profile of a new terminal."""
        turn, has_rules = self.due, bool(number)
        match what:
            case "lose":
                # Its terminal is gone, or a provider takes over.
                self.record(TerminalClosed(AgentName(role), self.ledger.terminals[AgentName(role)].id))
                self.open(role, has_rules=has_rules)
            case "resume":
                self.record(RunResumed(self.flow.plan))
            case "fork":
                self.record(RunForked(RunId("parent"), 1, self.flow.plan))
                for each in Role:
                    self.open(each, has_rules=has_rules)
            case _ if turn is None:
                self.record(RunResumed(self.flow.plan))
            case "lose while asked":
                self.check(turn, self.ask(turn))
                self.open(Role(turn.agent), has_rules=has_rules)
            case "fail":
                self.check(turn, self.ask(turn))
                self.record(TurnFailed(turn.id, FailureKind.LIMIT, "the limit is reached"))
            case _:
                prompt = self.ask(turn)
                self.check(turn, prompt)
                words = RESULT if turn.agent == Role.TESTER else REVIEW
                self.answer(turn, prompt, words[number])

    def check(self, turn: Turn, prompt: str) -> None:
        role, state = Role(turn.agent), self.state
        # Clients compact long conversations: what a turn cannot do without is in every prompt.
        assert prompt.startswith(f"Turn: {turn.id}\n")
        assert prompt.count("*** RESPONSE FILE INSTRUCTION ***") == 1
        assert f"cat >/repo/.tmp/agent-responses/{ROLE_DEFS[role].response_file} <<'LOGOS_RESPONSE_END'" in prompt
        assert "Nobody answers questions" in prompt
        assert all(marker in prompt for marker in MARKERS[role])
        # What holds for the whole conversation was told in it.
        known = "\n".join([*self.heard[role], prompt])
        assert standing_rules(role) in known
        assert EXPLORE in known
        if role in (Role.PROGRAMMER, Role.TESTER):
            assert SCENARIO_TEST in known
        if role is Role.PROGRAMMER and state.said(Role.ANALYST):
            assert condense.analyst_for_programmer(state.said(Role.ANALYST), self.flow.plan.condense) in known
        # What is new in a turn is in its prompt.
        news = {
            Role.ANALYST: (state.analyst_feedback,),
            Role.PEER_ANALYST: (state.said(Role.ANALYST),),
            Role.PROGRAMMER: (state.programmer_feedback, state.feedback),
            Role.PEER_PROGRAMMER: (state.said(Role.PROGRAMMER), state.feedback),
            Role.TESTER: (SCENARIO_TEST, state.programmer_feedback),
        }
        assert all(text.strip() in prompt for text in news[role])


STEPS = st.tuples(
    st.sampled_from(["answer"] * 8 + ["lose", "lose while asked", "fail", "resume", "fork"]),
    st.sampled_from(Role),
    st.sampled_from([0, 1]),
)
LOST_AT_ONCE = [("lose while asked", Role.ANALYST, 0), ("answer", Role.ANALYST, 0)]
LOST_IN_ROUND_2 = [*[("answer", Role.ANALYST, 0)] * 8, ("answer", Role.ANALYST, 1), ("lose", Role.PROGRAMMER, 0)]


@given(
    st.lists(STEPS, max_size=40),
    st.frozensets(st.sampled_from(Role)),
    st.frozensets(st.sampled_from(Role), max_size=2),
    st.sampled_from(Role),
    st.integers(1, 2),
)
@example(LOST_AT_ONCE, frozenset(), frozenset(), Role.ANALYST, 2)
@example([*LOST_IN_ROUND_2, *LOST_AT_ONCE], frozenset({Role.TESTER}), frozenset(), Role.ANALYST, 2)
def test_nothing_required_is_missing_from_what_one_conversation_was_told(
    steps: list[tuple[str, Role, int]],
    with_profiles: frozenset[Role],
    forgetful: frozenset[Role],
    start: Role,
    min_cycles: int,
) -> None:
    plan = CyclePlan(
        prompt="(both parts)",
        explore=EXPLORE,
        scenario_test=SCENARIO_TEST,
        wd="/repo",
        response_dir="/repo/.tmp/agent-responses",
        start=start,
        review=ReviewRules(min_cycles_before_approval=min_cycles),
    )
    run = Conversations(Cycle(plan), with_profiles, forgetful)
    for step in steps:
        if run.state.outcome is not None:
            return
        run.step(*step)
