"""What the agents of a cycle were told in their conversations, and what a new one is told of the old."""

from collections.abc import Mapping
from types import MappingProxyType

from logos.domain.events import TerminalOpened
from logos.domain.records import replace
from logos.domain.roles import ACCEPTANCE_TESTER, Role
from logos.domain.turns import TurnId
from logos.flows import condense, guidance
from logos.flows.cycle import blind
from logos.flows.cycle.state import CycleState

# How much of the old conversation a replacement agent is told.
MEMORY_TURNS = 3
MEMORY_LINES = 15


def asked(state: CycleState, turn: TurnId, agent: str, prompt: str) -> CycleState:
    as_told = blind.placeless(state) if agent == ACCEPTANCE_TESTER else str
    said = guidance.after_prompt(state.guidance, (agent,), turn, prompt, as_told)
    state = replace(state, guidance=said) if said != state.guidance else state
    # The acceptance tester has no role: nobody else was told anything.
    told = frozenset({state.role} if agent != ACCEPTANCE_TESTER else ())
    return replace(state, briefed=(state.briefed | told) - state.forgetful)


def remembered(state: CycleState, text: str) -> Mapping[Role, tuple[str, ...]]:
    """The role's latest answers, condensed, are for an agent in a new conversation."""
    said = f"{state.turn_id}:\n{condense.head(text, MEMORY_LINES)}"
    return MappingProxyType({**state.memory, state.role: (*state.memory.get(state.role, ()), said)[-MEMORY_TURNS:]})


def new_conversation(state: CycleState, role: Role, opened: TerminalOpened) -> CycleState:
    """A new conversation needs the explore summary and a memory of earlier turns; an import has only outputs."""
    memory, said = state.memory, state.said(role)
    if said and role not in memory:
        memory = MappingProxyType({**memory, role: (f"earlier:\n{condense.head(said, MEMORY_LINES)}",)})
    own = frozenset({role})
    profiled = state.profiled - own | (own if opened.has_rules else frozenset[Role]())
    forgetful = state.forgetful - own | (own if not opened.remembers else frozenset[Role]())
    state = replace(state, briefed=state.briefed - own, begun=state.begun - own, memory=memory)
    return replace(state, profiled=profiled, forgetful=forgetful)
