"""Gates: the moments at which a run waits for a person to approve or reject."""

from enum import StrEnum


class GateKind(StrEnum):
    # Cycle: after the approved analysis. Build: after L3.
    AFTER_PLAN = "after_plan"
    # Cycle: after the proof, before post-processing. Build: before the branch is written.
    BEFORE_PASS = "before_pass"
