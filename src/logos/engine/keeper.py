"""Reviewers and testers judge the work of others: what they change of it is put back.

An analyst plans: what it changes besides its artifacts is named, and stays.
"""

import posixpath
from collections.abc import Callable
from dataclasses import dataclass

from logos.domain.artifacts import SPECS
from logos.domain.events import WorkUndone
from logos.domain.turns import TurnId
from logos.errors import HostError, UsageError
from logos.ports import Snapshots

# An event names no more files than this.
_MOST_NAMES = 100
# A warning names fewer.
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class WorkKeeper:
    """`latest` is the newest snapshot of the work tree, if there is one."""

    snapshots: Snapshots
    latest: Callable[[], str | None]
    tell: Callable[[str], None]

    def tree(self) -> str:
        """The work tree as it is before a turn; empty if it cannot be stored."""
        try:
            return self.latest() or self.snapshots.take()
        except (HostError, UsageError, OSError) as error:
            self.tell(f"warning: what the next agent changes will not be noticed: {error}")
            return ""

    def put_back(self, turn: TurnId, before: str) -> WorkUndone | None:
        """Put back files of `before` that were changed or deleted since; new files stay, tests may have made them."""
        try:
            now = self.snapshots.take()
            changed = self.snapshots.altered(before, now)
            if not changed:
                return None
            self.snapshots.keep(now)
            self.snapshots.put_back(before, changed)
        except (HostError, UsageError, OSError) as error:
            self.tell(f"warning: what {turn} has changed is not known: {error}")
            return None
        names = (path.removeprefix(self.snapshots.prefix) for path in changed[:_MOST_NAMES])
        return WorkUndone(turn, tuple(names), now)

    def outside_specs(self, turn: TurnId, before: str) -> str:
        """The files besides specs that were changed, added or deleted since, as a warning names them; empty if none."""
        try:
            changed = self.snapshots.changed(before, self.snapshots.take())
        except (HostError, UsageError, OSError) as error:
            self.tell(f"warning: what {turn} has changed is not known: {error}")
            return ""
        paths = (posixpath.relpath(path, self.snapshots.prefix or ".") for path in changed)
        names = [path for path in paths if not path.startswith(SPECS)]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return ", ".join(names[:_SHOWN]) + more
