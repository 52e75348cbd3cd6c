"""When is an agent done? A glance at its terminal and what we remember of earlier ones give a decision."""

from __future__ import annotations

from dataclasses import dataclass, replace

from logos.domain.turns import FailureKind, Status
from logos.waiting.provider_errors import failure_kind_of

# A terminal that rests from the first glance on may be one whose status never changes: let its file settle.
SETTLE_SECONDS = 0.25
# After a server restart the status stays unknown; a file and a still screen then decide.
UNKNOWN_GRACE_SECONDS = 5.0
MAX_PERMISSIONS = 20
# A prompt that was answered stays on the screen for a moment.
PERMISSION_SECONDS = 0.5
# A shell seen once may be an agent's own subshell passing by.
SHELL_LOOKS = 2
SHELL_SECONDS = 2.0
# How often a terminal that is still busy is looked at before its next prompt goes out.
READY_POLL_SECONDS = 0.1
# A provider's complaint left on the screen by an earlier turn must not end this one.
COMPLAINT_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class WaitRules:
    """How long to wait for what. `exact`: the host runs the turns itself, so its status is the truth at once."""

    poll_seconds: float = 2.0
    idle_grace: float = 30.0
    max_reminders: int = 1
    strict: bool = True
    auto_accept: bool = False
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """One look: `file` and `screen` are fingerprints, None for nothing there or not looked at."""

    at: float
    status: Status
    file: str | None = None
    screen: str | None = None
    provider_error: str | None = None
    shell: bool = False


@dataclass(frozen=True, slots=True)
class WaitState:
    """What is remembered of a turn being waited for."""

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
    answered_at: float = float("-inf")

    @classmethod
    def begin(cls, at: float, timeout: float, reminders: int = 0, permissions: int = 0) -> WaitState:
        return cls(
            since=at,
            deadline=at + timeout,
            busy_at=at,
            file_at=at,
            screen_at=at,
            reminders=reminders,
            permissions=permissions,
        )

    @property
    def quiet_since(self) -> float:
        return max(self.busy_at, self.file_at, self.screen_at)


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again after `seconds`, or when the file system says something changed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Accept:
    """The response is there and the agent has finished with it."""


@dataclass(frozen=True, slots=True)
class Remind:
    """The agent went idle without its file: tell it once more where the response goes."""


@dataclass(frozen=True, slots=True)
class ShowPermission:
    """The agent waits for a person: say so at once."""


@dataclass(frozen=True, slots=True)
class GivePermission:
    """The agent waits, and the person allowed Logos to say yes."""


@dataclass(frozen=True, slots=True)
class FallBack:
    """No file came; the last output is taken for the response."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    trouble: FailureKind
    detail: str = ""


Decision = Wait | Accept | Remind | ShowPermission | GivePermission | FallBack | GiveUp


def remember(watch: WaitState, glance: Observation) -> WaitState:
    """The watch after a glance."""
    busy = glance.status in (Status.PROCESSING, Status.WAITING)
    if glance.screen is not None:
        watch = replace(watch, shell_looks=watch.shell_looks + 1 if glance.shell else 0)
        if glance.screen != watch.screen:
            # The first look is no movement; there is nothing to compare it with.
            moved = glance.at if watch.screen is not None else watch.screen_at
            watch = replace(watch, screen=glance.screen, screen_at=moved)
    if glance.file != watch.file:
        watch = replace(watch, file=glance.file, file_at=glance.at)
    return replace(
        watch,
        worked=watch.worked or glance.status is Status.PROCESSING,
        busy_at=glance.at if busy else watch.busy_at,
        waiting=watch.waiting and glance.status is Status.WAITING,
    )


def reminded(watch: WaitState, at: float) -> WaitState:
    """The watch after a reminder: the grace period starts again."""
    return replace(watch, reminders=watch.reminders + 1, busy_at=at)


def shown(watch: WaitState) -> WaitState:
    return replace(watch, waiting=True)


def permitted(watch: WaitState, at: float) -> WaitState:
    return replace(watch, permissions=watch.permissions + 1, answered_at=at, waiting=True)


def wants_screen(status: Status, file: str | None) -> bool:
    """Whether the screen could change the decision; looking costs a request, so it is not done for nothing."""
    return file is None or not status.resting


def decide(watch: WaitState, glance: Observation, rules: WaitRules) -> Decision:
    """What to do now. `watch` already remembers `glance`."""
    if glance.status is Status.ERROR:
        return GiveUp(FailureKind.ERROR, glance.provider_error or "")
    if glance.file is not None and _finished(watch, glance, rules):
        return Accept()
    if glance.file is None and watch.shell_looks >= SHELL_LOOKS:
        return GiveUp(FailureKind.DIED)
    if glance.at >= watch.deadline:
        return _no_file(rules) if glance.status.resting else GiveUp(FailureKind.TIMEOUT)
    if glance.status is Status.WAITING:
        return _permission(watch, glance, rules)
    if glance.file is None and glance.status is not Status.PROCESSING:
        return _idle(watch, glance, rules)
    if rules.exact and glance.file is None and glance.provider_error is not None:
        # A client that waits out a limit looks like one that works.
        return GiveUp(failure_kind_of(glance.provider_error), glance.provider_error)
    return Wait(_pace(watch, glance, rules))


def _finished(watch: WaitState, glance: Observation, rules: WaitRules) -> bool:
    if watch.shell_looks >= SHELL_LOOKS:
        # The agent left after its response; its status will never say so.
        return True
    match glance.status:
        case Status.IDLE | Status.COMPLETED:
            settled = rules.exact or watch.worked or glance.at - watch.file_at >= SETTLE_SECONDS
            return settled or glance.at >= watch.deadline
        case Status.PROCESSING | Status.UNKNOWN:
            # Some providers never report the end of a turn: a file and a still screen must be able to.
            unknown = glance.status is Status.UNKNOWN
            grace = min(rules.idle_grace, UNKNOWN_GRACE_SECONDS) if unknown else rules.idle_grace
            grace = max(grace, SETTLE_SECONDS)
            still = glance.at - max(watch.file_at, watch.screen_at)
            return glance.screen is not None and still >= grace
        case Status.WAITING | Status.ERROR:
            return False


def _idle(watch: WaitState, glance: Observation, rules: WaitRules) -> Decision:
    fresh = rules.exact or watch.worked or glance.at - watch.since >= COMPLAINT_GRACE_SECONDS
    if glance.provider_error is not None and fresh:
        return GiveUp(failure_kind_of(glance.provider_error), glance.provider_error)
    if glance.at - watch.quiet_since < rules.idle_grace:
        return Wait(min(_pace(watch, glance, rules), rules.idle_grace))
    return Remind() if watch.reminders < rules.max_reminders else _no_file(rules)


def _no_file(rules: WaitRules) -> Decision:
    return GiveUp(FailureKind.NO_FILE) if rules.strict else FallBack()


def _permission(watch: WaitState, glance: Observation, rules: WaitRules) -> Decision:
    if not rules.auto_accept:
        return Wait(_pace(watch, glance, rules)) if watch.waiting else ShowPermission()
    if watch.waiting and glance.at - watch.answered_at < max(rules.poll_seconds, PERMISSION_SECONDS):
        return Wait(_pace(watch, glance, rules))
    if watch.permissions >= MAX_PERMISSIONS:
        return GiveUp(FailureKind.PERMISSION, f"{MAX_PERMISSIONS} permission prompts in one turn")
    return GivePermission()


def _pace(watch: WaitState, glance: Observation, rules: WaitRules) -> float:
    """How long until the next look: short where an end is near, never past the deadline."""
    pace = max(rules.poll_seconds, 0.02)
    if glance.file is not None:
        # The file is there, the end is near: look often, less so the longer it takes.
        pace = min(max((glance.at - watch.file_at) / 10, 0.004), 0.5, pace)
    return max(min(pace, watch.deadline - glance.at), 0.001)


def may_send(watch: WaitState, glance: Observation, rules: WaitRules) -> Decision:
    """Whether a prompt may be typed now (Take): a busy agent would lose it, a dead agent's shell would run it."""
    still = glance.at - watch.screen_at
    if glance.status is Status.ERROR:
        return GiveUp(FailureKind.ERROR)
    if glance.shell:
        # An agent that is just starting shows its shell for a moment, too.
        return GiveUp(FailureKind.DIED) if still >= SHELL_SECONDS else Wait(READY_POLL_SECONDS)
    if glance.at >= watch.deadline:
        return GiveUp(FailureKind.TIMEOUT)
    if glance.status is Status.WAITING:
        return _permission(watch, glance, rules)
    # Some providers say `processing` for ever; a screen that stands still then decides.
    if glance.status is Status.PROCESSING and still < rules.idle_grace:
        return Wait(READY_POLL_SECONDS)
    return Accept()


@dataclass(frozen=True, slots=True)
class OnReturn:
    """What a driver finds when it comes back to a turn it had asked before it died."""

    wait: bool
    why: str


def on_return(first: Observation, latest: Observation, rules: WaitRules) -> OnReturn | None:
    """Is somebody still at work on this turn, or must it be asked again? None: look once more."""
    if latest.file is not None:
        return OnReturn(True, "its response is there")
    if latest.status in (Status.PROCESSING, Status.WAITING):
        return OnReturn(True, "its terminal is at work")
    if first.screen != latest.screen:
        return OnReturn(True, "its screen is moving")
    # A status can lag seconds behind an agent that prints nothing yet.
    if latest.at - first.at < min(rules.idle_grace, UNKNOWN_GRACE_SECONDS):
        return None
    return OnReturn(False, "its terminal rests and there is no response")
