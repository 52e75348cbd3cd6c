"""The ledger of findings as it is shown: what reviewers and tests found, and which of it is new, open or settled."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from logos.domain.events import CheckRan, ProofRan, Recorded
from logos.domain.proof import ProofStep
from logos.flows.condense import tail
from logos.flows.cycle.findings import LOGOS, Findings, FindingState, in_evidence, of_tests, updated
from logos.flows.cycle.flow import CycleState
from logos.flows.fold import RunState
from logos.views.redact import one_line
from logos.views.turns import TurnView

# The end of a tool's output that is searched for failing tests.
_OUTPUT_LINES = 30
_ORDER = (FindingState.AGAIN, FindingState.NEW, FindingState.OPEN, FindingState.SETTLED)


@dataclass(frozen=True, slots=True)
class FindingView:
    """A finding, without secrets; `first_at` and `last_at` are the times of the turns that raised it."""

    id: str
    text: str
    raised_by: str
    state: FindingState
    first: str
    last: str
    first_at: float | None
    last_at: float | None

    @property
    def is_settled(self) -> bool:
        return self.state is FindingState.SETTLED


def findings_of(state: RunState, records: Sequence[Recorded], turns: Iterable[TurnView]) -> tuple[FindingView, ...]:
    """Those that stand first: raised again, new, open; then the settled ones."""
    found = state.findings if isinstance(state, CycleState) else reduce(_with_tests, records, ())
    ended = {turn.turn: turn.ended for turn in turns} if found else {}
    return tuple(
        FindingView(
            own.id,
            one_line(own.text),
            own.raised_by,
            own.state,
            own.first,
            own.last,
            ended.get(own.first),
            ended.get(own.last),
        )
        for own in sorted(found, key=lambda finding: _ORDER.index(finding.state))
    )


def _with_tests(findings: Findings, record: Recorded) -> Findings:
    """In a build, tests fail in its tools and in the proof."""
    match record.event:
        case CheckRan(turn, _, exit_code, output):
            raised = in_evidence(tail(output, _OUTPUT_LINES)) if exit_code != 0 else ()
            return updated(findings, turn.partition(".")[2], LOGOS, turn, raised)
        case ProofRan(turn, ProofStep.RESULT | ProofStep.GUARDED as step):
            tests = record.event.tests
            return updated(findings, f"proof.{step}", LOGOS, turn, of_tests(tests.failed if tests is not None else ()))
        case _:
            return findings


def findings_in_words(findings: Iterable[FindingView]) -> str:
    """`1 raised again, 2 open, 4 settled`; empty without any."""
    counted = Counter(finding.state for finding in findings)
    return ", ".join(f"{counted[state]} {state}" for state in _ORDER if counted[state])
