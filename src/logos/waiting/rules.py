"""When is an agent done? Decided from an observation of its terminal and the state of the wait."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from logos.domain.turns import FailureKind, Status
from logos.waiting.provider_errors import failure_kind_of

# A terminal that is idle from the start may never change its status: let its file settle first.
SETTLE_SECONDS = 0.25
# After a server restart the status stays unknown; a file and an unchanged screen decide then.
UNKNOWN_GRACE_SECONDS = 5.0
MAX_PERMISSIONS = 20
# An answered permission prompt stays on the screen for a moment.
PERMISSION_SECONDS = 0.5
# A shell prompt seen once may belong to a short-lived subshell of the agent.
SHELL_LOOKS = 2
SHELL_SECONDS = 2.0
# Pause between observations of a busy terminal that is to get a prompt.
READY_POLL_SECONDS = 0.1
# A provider error that an earlier turn left on the screen must not end this one.
COMPLAINT_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class WaitRules:
    """How long to wait for what.

    `exact`: the host runs the turns itself, so its status is reliable. `confirm_error`: a status `error` counts if it
    is still there after `poll_seconds`.
    """

    poll_seconds: float = 2.0
    idle_grace: float = 30.0
    max_reminders: int = 1
    strict: bool = True
    auto_accept: bool = False
    exact: bool = False
    confirm_error: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation. `file` and `screen` are fingerprints; None: absent, or not fetched."""

    at: float
    status: Status
    file: str | None = None
    screen: str | None = None
    provider_error: str | None = None
    shell: bool = False
    # A person's answer to the permission prompt that was shown last.
    decided: bool | None = None


@dataclass(frozen=True, slots=True)
class WaitState:
    """What is known from earlier observations of the turn."""

    since: float
    deadline: float
    worked: bool = False
    busy_at: float = 0.0
    file: str | None = None
    file_at: float = 0.0
    screen: str | None = None
    screen_at: float = 0.0
    shell_looks: int = 0
    reminders: int = 0
    permissions: int = 0
    waiting: bool = False
    # The permission prompt that a person was told of.
    question: str = ""
    answered_at: float = float("-inf")
    # Since when the status is `error`.
    error_at: float | None = None

    @classmethod
    def begin(cls, at: float, timeout: float, reminders: int = 0, permissions: int = 0) -> WaitState:
        return cls(at, at + timeout, busy_at=at, file_at=at, screen_at=at, reminders=reminders, permissions=permissions)


@dataclass(frozen=True, slots=True)
class Wait:
    """Observe again after `seconds`, or when a file changes."""

    seconds: float


class Act(Enum):
    ACCEPT = "the response is complete"
    REMIND = "the agent went idle without its file: remind it of the response file"
    SHOW_PERMISSION = "the agent asks for permission: tell the person"
    GIVE_PERMISSION = "the agent asks for permission, and the person allowed Logos to give it"
    GRANT = "a person has answered the agent's permission prompt with yes"
    DENY = "a person has answered the agent's permission prompt with no"
    FALL_BACK = "there is no file; use the last output as the response"


@dataclass(frozen=True, slots=True)
class GiveUp:
    trouble: FailureKind
    detail: str = ""


Decision = Wait | GiveUp | Act


def updated(wait_state: WaitState, observation: Observation) -> WaitState:
    busy = observation.status in (Status.PROCESSING, Status.WAITING)
    if observation.screen is not None:
        wait_state = replace(wait_state, shell_looks=wait_state.shell_looks + 1 if observation.shell else 0)
        if observation.screen != wait_state.screen:
            # The first screen is not a change: there is nothing to compare it with.
            moved = observation.at if wait_state.screen is not None else wait_state.screen_at
            wait_state = replace(wait_state, screen=observation.screen, screen_at=moved)
    if observation.file != wait_state.file:
        wait_state = replace(wait_state, file=observation.file, file_at=observation.at)
    error_at = wait_state.error_at if wait_state.error_at is not None else observation.at
    return replace(
        wait_state,
        error_at=error_at if observation.status is Status.ERROR else None,
        worked=wait_state.worked or observation.status is Status.PROCESSING,
        busy_at=observation.at if busy else wait_state.busy_at,
        waiting=wait_state.waiting and observation.status is Status.WAITING,
    )


def acted(wait_state: WaitState, act: Act, at: float) -> WaitState:
    """The wait state after a reminder, with which the grace period starts again, or a shown or given permission."""
    if act is Act.REMIND:
        return replace(wait_state, reminders=wait_state.reminders + 1, busy_at=at)
    if act in (Act.GRANT, Act.DENY):
        # Another prompt may follow at once, and a person has to see that one, too.
        return replace(wait_state, waiting=False, answered_at=at)
    if act is Act.GIVE_PERMISSION:
        wait_state = replace(wait_state, permissions=wait_state.permissions + 1, answered_at=at)
    return replace(wait_state, waiting=True)


def wants_screen(status: Status, file: str | None) -> bool:
    """Whether the screen can change the decision; fetching it costs a request."""
    return file is None or not status.resting


def decide(wait_state: WaitState, observation: Observation, rules: WaitRules) -> Decision:
    """What to do now; `wait_state` already includes `observation`."""
    if left := _unconfirmed(wait_state, observation, rules):
        return Wait(left)
    if observation.status is Status.ERROR:
        return GiveUp(FailureKind.ERROR, observation.provider_error or "")
    if observation.file is not None and _finished(wait_state, observation, rules):
        return Act.ACCEPT
    if observation.file is None and wait_state.shell_looks >= SHELL_LOOKS:
        return GiveUp(FailureKind.DIED)
    if observation.at >= wait_state.deadline:
        return _no_file(rules) if observation.status.resting else GiveUp(FailureKind.TIMEOUT)
    if observation.status is Status.WAITING:
        return _permission(wait_state, observation, rules)
    if observation.file is None and observation.status is not Status.PROCESSING:
        return _idle(wait_state, observation, rules)
    if rules.exact and observation.file is None and observation.provider_error is not None:
        # A client that waits for a limit to end looks busy.
        return GiveUp(failure_kind_of(observation.provider_error), observation.provider_error)
    return Wait(_pace(wait_state, observation, rules))


def _unconfirmed(wait_state: WaitState, observation: Observation, rules: WaitRules) -> float:
    """How long to wait before a status `error` counts; 0 for any other status."""
    if wait_state.error_at is None or not rules.confirm_error:
        return 0.0
    return max(wait_state.error_at + rules.poll_seconds - observation.at, 0.0)


def _finished(wait_state: WaitState, observation: Observation, rules: WaitRules) -> bool:
    if wait_state.shell_looks >= SHELL_LOOKS:
        # The agent exited after its response; its status never shows that.
        return True
    match observation.status:
        case Status.IDLE | Status.COMPLETED:
            settled = rules.exact or wait_state.worked or observation.at - wait_state.file_at >= SETTLE_SECONDS
            return settled or observation.at >= wait_state.deadline
        case Status.PROCESSING | Status.UNKNOWN:
            # Some providers never report the end of a turn; a file and an unchanged screen show it.
            unknown = observation.status is Status.UNKNOWN
            grace = min(rules.idle_grace, UNKNOWN_GRACE_SECONDS) if unknown else rules.idle_grace
            grace = max(grace, SETTLE_SECONDS)
            still = observation.at - max(wait_state.file_at, wait_state.screen_at)
            return observation.screen is not None and still >= grace
        case Status.WAITING | Status.ERROR:
            return False


def _idle(wait_state: WaitState, observation: Observation, rules: WaitRules) -> Decision:
    fresh = rules.exact or wait_state.worked or observation.at - wait_state.since >= COMPLAINT_GRACE_SECONDS
    if observation.provider_error is not None and fresh:
        return GiveUp(failure_kind_of(observation.provider_error), observation.provider_error)
    if observation.at - max(wait_state.busy_at, wait_state.file_at, wait_state.screen_at) < rules.idle_grace:
        return Wait(min(_pace(wait_state, observation, rules), rules.idle_grace))
    return Act.REMIND if wait_state.reminders < rules.max_reminders else _no_file(rules)


def _no_file(rules: WaitRules) -> Decision:
    return GiveUp(FailureKind.NO_FILE) if rules.strict else Act.FALL_BACK


def _permission(wait_state: WaitState, observation: Observation, rules: WaitRules) -> Decision:
    if wait_state.waiting and observation.decided is not None:
        return Act.GRANT if observation.decided else Act.DENY
    if observation.at - wait_state.answered_at < max(rules.poll_seconds, PERMISSION_SECONDS):
        return Wait(_pace(wait_state, observation, rules))
    if not rules.auto_accept:
        return Wait(_pace(wait_state, observation, rules)) if wait_state.waiting else Act.SHOW_PERMISSION
    if wait_state.permissions >= MAX_PERMISSIONS:
        return GiveUp(FailureKind.PERMISSION, f"{MAX_PERMISSIONS} permission prompts in one turn")
    return Act.GIVE_PERMISSION


def _pace(wait_state: WaitState, observation: Observation, rules: WaitRules) -> float:
    """Seconds until the next observation: short when the end is near, never past the deadline."""
    pace = max(rules.poll_seconds, 0.02)
    if observation.file is not None:
        # The file exists: observe often, and less often the longer it takes.
        pace = min(max((observation.at - wait_state.file_at) / 10, 0.004), 0.5, pace)
    return max(min(pace, wait_state.deadline - observation.at), 0.001)


def may_send(wait_state: WaitState, observation: Observation, rules: WaitRules) -> Decision:
    """Whether a prompt can be typed now (ACCEPT): a busy agent would lose it, a dead agent's shell would execute it."""
    still = observation.at - wait_state.screen_at
    if left := _unconfirmed(wait_state, observation, rules):
        return Wait(left)
    if observation.status is Status.ERROR:
        return GiveUp(FailureKind.ERROR)
    if observation.shell:
        # A starting agent shows its shell for a moment, too.
        return GiveUp(FailureKind.DIED) if still >= SHELL_SECONDS else Wait(READY_POLL_SECONDS)
    if observation.at >= wait_state.deadline:
        return GiveUp(FailureKind.TIMEOUT)
    if observation.status is Status.WAITING:
        return _permission(wait_state, observation, rules)
    # Some providers report `processing` for ever; an unchanged screen decides then.
    if observation.status is Status.PROCESSING and still < rules.idle_grace:
        return Wait(READY_POLL_SECONDS)
    return Act.ACCEPT


def resume_decision(first: Observation, latest: Observation, rules: WaitRules) -> tuple[bool, str] | None:
    """Whether a resumed driver keeps waiting for a turn or asks again, and why; None: observe again."""
    if latest.file is not None:
        return True, "its response exists"
    if latest.status in (Status.PROCESSING, Status.WAITING):
        return True, "its terminal is busy"
    if first.screen != latest.screen:
        return True, "its screen is changing"
    # The status can lag seconds behind an agent that has printed nothing yet.
    if latest.at - first.at < min(rules.idle_grace, UNKNOWN_GRACE_SECONDS):
        return None
    return False, "its terminal is idle and there is no response"
