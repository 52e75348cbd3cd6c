"""Reviewers and testers judge the work of others: what they change of it is put back.

An analyst plans: what it changes besides its artifacts is named, and stays.
"""

import posixpath
from collections.abc import Callable, Iterable
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

    def put_back(self, turn: TurnId, before: str) -> tuple[WorkUndone | None, str]:
        """Put back files of `before` that were changed or deleted since.

        New files stay, because tests may have made them: the second value names them.
        """
        try:
            now = self.snapshots.take()
            if now == before:
                return None, ""
            changed = self.snapshots.altered(before, now)
            new = self._named(path for path in self.snapshots.changed(before, now) if path not in {*changed})
            if not changed:
                return None, new
            self.snapshots.keep(now)
            self.snapshots.put_back(before, changed)
        except (HostError, UsageError, OSError) as error:
            self.tell(f"warning: what {turn} has changed is not known: {error}")
            return None, ""
        names = (path.removeprefix(self.snapshots.prefix) for path in changed[:_MOST_NAMES])
        return WorkUndone(turn, tuple(names), now), new

    def outside_specs(self, turn: TurnId, before: str) -> str:
        """The files besides specs that were changed, added or deleted since, as a warning names them; empty if none."""
        try:
            changed = self.snapshots.changed(before, self.snapshots.take())
        except (HostError, UsageError, OSError) as error:
            self.tell(f"warning: what {turn} has changed is not known: {error}")
            return ""
        return self._named(path for path in changed if not self._seen_from_here(path).startswith(SPECS))

    def _seen_from_here(self, path: str) -> str:
        return posixpath.relpath(path, self.snapshots.prefix or ".")

    def _named(self, paths: Iterable[str]) -> str:
        names = [self._seen_from_here(path) for path in paths]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return ", ".join(names[:_SHOWN]) + more
