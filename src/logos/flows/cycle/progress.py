"""Whether a round that failed ended as an earlier one did: the same files, the same findings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from logos.flows.cycle.findings import RaisedFinding

# How many findings are named.
_MOST_NAMES = 5
# How many rounds are remembered.
MOST_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class FailedRound:
    """How a round has failed. `tree` stands for its files; empty: not known. `findings` stands for all of them."""

    number: int
    evidence: str
    findings: str
    names: tuple[str, ...] = ()
    tree: str = ""

    def is_like(self, other: "FailedRound") -> bool:
        return bool(self.tree) and (self.tree, self.findings) == (other.tree, other.findings)


def failed_round(number: int, evidence: str, raised: Sequence[RaisedFinding]) -> FailedRound:
    ids = "\n".join(sorted(finding.id for finding in raised))
    names = tuple(finding.text for finding in raised[:_MOST_NAMES])
    more = len(raised) - len(names)
    names = (*names, f"and {more} more") if more > 0 else names
    return FailedRound(number, evidence, sha256(ids.encode()).hexdigest(), names)


def standstill(earlier: Iterable[FailedRound], now: FailedRound) -> str:
    """What is told of a round that ended as earlier ones did; empty if none did."""
    alike = [str(before.number) for before in earlier if before.is_like(now)]
    if not alike:
        return ""
    rounds = f"round{'s' if len(alike) > 1 else ''} {', '.join(alike)}"
    found = f": {'; '.join(now.names)}" if now.names else ""
    return f"round {now.number} ended with the same files and the same findings as {rounds}{found}"


def blocked_reason(same: str) -> str:
    return (
        f"no progress: {same}; the programmer was told so in the try before. "
        "`logos resume --set limits.on_no_progress=go_on` tries again"
    )
