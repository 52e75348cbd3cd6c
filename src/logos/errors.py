"""Every error that Logos raises on purpose, grouped by who has to act.

    LogosError
    ├── UsageError              the person: one line, no traceback
    │   ├── ConfigError         a value in the file, the environment or a flag
    │   ├── PromptError         the prompt lacks a part
    │   ├── StateError          a state file that cannot be used
    │   ├── NoRunYet            a work dir has no run
    │   ├── AlreadyEnded        there is nothing to resume: the run has an outcome
    │   └── Busy                another driver holds this folder
    ├── HostError               what the agents run on: retried in the adapter, then the run pauses
    │   ├── HostUnreachable     nobody answers
    │   ├── ProgramNotFound     git, an agent CLI: not on PATH, or only where agents can replace it
    │   ├── TerminalGone        the host does not know this terminal
    │   ├── TerminalNotCreated  the agent did not start; the message names the cause
    │   ├── InputRefused        the terminal takes no input, it is in error
    │   └── DeliveryUnknown     the prompt may or may not have arrived
    ├── AlreadyPassed           there is nothing to resume: the run has passed
    ├── RunPaused               the run cannot continue now and can be resumed
    │   ├── PersonNeeded        a gate is open, and nobody waits at it
    │   ├── LimitReached        a provider's limit
    │   └── BudgetReached       the person's own
    └── LogError
        ├── LogConflict         another driver appended first
        └── LogDamaged          a row that cannot be read

    Interrupted                 SIGINT, SIGTERM or SIGHUP; not an Exception, so that no error handler swallows it

Any other exception that escapes is a bug and keeps its traceback.
"""

import signal


class LogosError(Exception):
    """Base of all errors that Logos reports as one line."""

    exit_code = 1


class UsageError(LogosError):
    exit_code = 2


class ConfigError(UsageError):
    """A setting is wrong; the message names the key, its value and what is allowed."""

    exit_code = 1


class PromptError(UsageError):
    exit_code = 1


class StateError(UsageError):
    exit_code = 1


class NoRunYet(UsageError):
    """There is a log, perhaps of a command that failed before its run began, and no run in it."""


class Busy(UsageError):
    exit_code = 1


class HostError(LogosError):
    """The agents' host failed."""


class HostUnreachable(HostError):
    """No host answers at the configured address."""


class ProgramNotFound(HostError):
    """A program is not installed, or only below the work dir."""


class TerminalGone(HostError):
    """The host does not know this terminal, or no longer."""


class TerminalNotCreated(HostError):
    """The host could not start an agent."""


class InputRefused(HostError):
    """The terminal accepts no input."""


class DeliveryUnknown(HostError):
    """The connection broke while a prompt was being delivered."""


class AlreadyPassed(LogosError):
    exit_code = 0


class AlreadyEnded(UsageError):
    """A run that is to be resumed has ended; the command exits as the run did."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class RunPaused(LogosError):
    """The run stopped before its outcome and can be resumed."""


class PersonNeeded(RunPaused):
    """The run waits for a person's decision."""

    exit_code = 3


class LimitReached(RunPaused):
    exit_code = 4


class BudgetReached(RunPaused):
    """A run has used up its budget: the setting `key`, whose value is `limit`."""

    exit_code = 4

    def __init__(self, message: str, key: str, limit: float) -> None:
        super().__init__(message)
        self.key = key
        self.limit = limit


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
        typed = " (Ctrl-C)" if signum == signal.SIGINT else ""
        super().__init__(f"stopped by {signal.Signals(signum).name}{typed}")
        self.exit_code = 128 + signum
