"""Every error Logos raises on purpose, by whose move it is.

    LogosError
    ├── UsageError              the person: one line, no traceback
    │   ├── ConfigError         a value in the file, the environment or a flag
    │   ├── PromptError         the prompt lacks a part
    │   ├── StateError          a state file that cannot be used
    │   └── Busy                another driver holds this folder
    ├── HostError               what the agents run on: retried in the adapter, then the run pauses
    │   ├── HostUnreachable     nobody answers
    │   ├── TerminalGone        the host does not know this terminal
    │   ├── TerminalNotCreated  the agent did not start; the message names the cause
    │   ├── InputRefused        the terminal takes no input, it is in error
    │   └── DeliveryUnknown     the prompt may or may not have arrived
    ├── RunPaused               the run cannot go on now, and can be resumed
    │   ├── LimitReached        a provider's limit
    │   └── BudgetReached       the person's own
    └── LogError
        ├── LogConflict         another driver appended first
        └── LogDamaged          a row that cannot be read

    Interrupted                 SIGINT, SIGTERM or SIGHUP; no Exception, so no handler of errors swallows it

Anything else that escapes is a bug of ours and keeps its traceback.
"""

from __future__ import annotations


class LogosError(Exception):
    """Something Logos knows how to name."""

    exit_code = 1


class UsageError(LogosError):
    """The command line does not say something Logos can do."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting is wrong; the message names the key, its value and what is allowed."""

    exit_code = 1


class PromptError(UsageError):
    """The prompt is missing, or lacks one of its two parts."""

    exit_code = 1


class StateError(UsageError):
    """The state file is there and cannot be used."""

    exit_code = 1


class Busy(UsageError):
    """Another driver is at work in this folder."""

    exit_code = 1


class HostError(LogosError):
    """The host of the agents did not do what was asked."""


class HostUnreachable(HostError):
    """No host answers at the configured address."""


class TerminalGone(HostError):
    """The host does not know this terminal (any more)."""


class TerminalNotCreated(HostError):
    """The host could not start an agent."""


class InputRefused(HostError):
    """The terminal does not take input now."""


class DeliveryUnknown(HostError):
    """The connection broke while a prompt was being delivered."""


class RunPaused(LogosError):
    """The run stopped in the middle; what was done is kept and it can be resumed."""


class LimitReached(RunPaused):
    """A provider's usage or rate limit is reached."""

    exit_code = 4


class BudgetReached(RunPaused):
    """The run has cost what it may cost."""

    exit_code = 4


class LogError(LogosError):
    """The run log cannot be used."""


class LogConflict(LogError):
    """Another driver has appended to this run."""


class LogDamaged(LogError):
    """A row of the log cannot be read."""

    def __init__(self, run: str, seq: int, why: str) -> None:
        super().__init__(f"run {run}: event {seq} of the log cannot be read ({why})")
        self.run = run
        self.seq = seq


class Interrupted(BaseException):
    """A signal asked Logos to stop."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by signal {signum}")
        self.exit_code = 128 + signum
