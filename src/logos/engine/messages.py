"""Taking what persons tell a driver into the logs of its runs: each message becomes one event, or is refused."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from logos.domain.events import Message, PermissionDecided
from logos.domain.turns import RunId
from logos.engine.journal import Journal
from logos.errors import LogError, UsageError
from logos.flows.persons import problem_with
from logos.ports import Inbox

logger = logging.getLogger(__name__)

JournalOf = Callable[[RunId], Journal[Any]]


@dataclass(frozen=True, slots=True)
class MessageTaker:
    """Holds the lock of the work dir. `journal_of` opens a run of its log, or raises the reason why it cannot.

    `driven` is the run whose agents are at work, if any.
    """

    inbox: Inbox
    journal_of: JournalOf
    driven: RunId | None = None

    def take(self) -> None:
        """Record every message as an event of its run, then remove it.

        A driver may die between the two: a message whose id the log has is only removed.
        """
        for message in self.inbox.messages():
            try:
                journal = self.journal_of(message.run)
            except (LogError, UsageError) as error:
                self.inbox.refuse(message, str(error))
                continue
            if message.id in journal.ledger.messages:
                self.inbox.remove(message)
            elif why := self._problem_with(message, journal):
                logger.info("message %s is refused: %s", message.id, why)
                self.inbox.refuse(message, why)
            else:
                logger.info("message %s is taken: %s", message.id, message.event.kind)
                journal.record(replace(message.event, message=message.id))
                self.inbox.remove(message)

    def _problem_with(self, message: Message, journal: Journal[Any]) -> str:
        if isinstance(message.event, PermissionDecided) and message.run != self.driven:
            return f"no driver is attached to run {message.run}, which could press the key"
        return problem_with(message.event, journal.fold)
