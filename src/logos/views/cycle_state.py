"""The JSON state file of a cycle: written from the log after every event; runs can also be imported from it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from logos.domain.ledger import Ledger
from logos.domain.plans import CycleSeed
from logos.domain.roles import ANSWERS, Phase, Role
from logos.domain.turns import AgentName, Outcome, RunId, Terminal, TerminalId
from logos.errors import StateError
from logos.flows.cycle.flow import CycleState

Json = dict[str, Any]

RUNNING = "RUNNING"
# What an older tool wrote into its feedback fields before there was any feedback.
NO_FEEDBACK_YET = "None yet."
# Outcomes as the state file and notifications name them.
FINAL: dict[Outcome | None, str] = {
    None: RUNNING,
    **{outcome: outcome.value for outcome in Outcome},
    Outcome.PASSED: "PASS",
    Outcome.FAILED: "FAIL",
}


class StateDamaged(StateError):
    """The state file is not a JSON object."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The contents of a state file; unusable values are replaced by their defaults."""

    seed: CycleSeed
    api: str = ""
    provider: str = ""
    wd: str = ""
    prompt: str = ""
    final_status: str = RUNNING
    session: str = ""
    terminals: Mapping[AgentName, Terminal] = field(default_factory=dict[AgentName, Terminal])
    run: RunId | None = None
    seq: int = 0


def project(state: CycleState, ledger: Ledger, run: RunId, seq: int, api: str, provider: str) -> Json:
    """The state as the file shows it, without the time of writing."""
    blank = {"id": "", "provider": ""}
    shown = {name: {"id": t.id, "provider": t.provider} for name, t in ledger.terminals.items()}
    return {
        "version": 1,
        "api": api,
        "provider": provider,
        "wd": state.plan.wd,
        "prompt": state.plan.prompt,
        "current_round": state.round,
        "current_phase": state.phase.value,
        "final_status": FINAL[state.outcome],
        "verified": state.verified,
        "session_name": ledger.session,
        "terminals": {role.value: shown.get(AgentName(role), blank) for role in Role},
        "feedback": state.feedback,
        "analyst_feedback": state.analyst_feedback,
        "programmer_feedback": state.programmer_feedback,
        "programmer_context_for_retry": state.retry_context,
        "outputs": dict(state.outputs),
        "gate": asdict(state.gate) if state.gate is not None else None,
        "logos": {"run": run, "seq": seq},
    }


def parse(data: Json, default_provider: str) -> Saved:
    provider = _text(data, "provider") or default_provider
    mark = _table(data, "logos")
    run, seq = _text(mark, "run"), mark.get("seq")
    outputs, phase = _table(data, "outputs"), _text(data, "current_phase")
    seed = CycleSeed(
        round=_round(data.get("current_round")),
        phase=Phase(phase) if phase in set(Phase) else Phase.ANALYST,
        feedback=_feedback(data, "feedback"),
        analyst_feedback=_feedback(data, "analyst_feedback"),
        programmer_feedback=_feedback(data, "programmer_feedback"),
        retry_context=_text(data, "programmer_context_for_retry"),
        outputs=tuple((answer, _text(outputs, answer)) for answer in ANSWERS),
    )
    return Saved(
        seed,
        api=_text(data, "api"),
        provider=_text(data, "provider"),
        wd=_text(data, "wd"),
        prompt=_text(data, "prompt"),
        final_status=_text(data, "final_status"),
        session=_text(data, "session_name"),
        terminals=_terminals(_table(data, "terminals"), provider),
        run=RunId(run) if run and isinstance(seq, int) else None,
        seq=seq if isinstance(seq, int) and not isinstance(seq, bool) else 0,
    )


def _terminals(table: Json, provider: str) -> dict[AgentName, Terminal]:
    """Both formats: `{"id", "provider"}`, and the older plain string."""
    found: dict[AgentName, Terminal] = {}
    for role in Role:
        entry = table.get(role.value)
        if isinstance(entry, dict):
            entry = cast(Json, entry)
            terminal = Terminal(TerminalId(_text(entry, "id")), _text(entry, "provider") or provider)
        else:
            terminal = Terminal(TerminalId(_text(table, role.value)), provider)
        if terminal.id:
            found[AgentName(role.value)] = terminal
    return found


def _round(value: object) -> int:
    """A whole number from 1 on, also one written as text."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 9:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else 1


def _feedback(data: Json, key: str) -> str:
    text = _text(data, key)
    return "" if text.strip() == NO_FEEDBACK_YET else text


def _text(table: Json, key: str) -> str:
    value = table.get(key)
    return value if isinstance(value, str) else ""


def _table(data: Json, key: str) -> Json:
    value = data.get(key)
    return cast(Json, value) if isinstance(value, dict) else {}
