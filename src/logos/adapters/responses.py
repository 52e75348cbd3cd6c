"""Response files: fixed names in one folder, regular files only, limited in size, and a signal when they change."""

import logging
import stat
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from watchdog import events
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from logos.adapters.files import open_regular, own_folder
from logos.domain.roles import RESPONSE_FILES
from logos.errors import HostError, UsageError
from logos.ports import FileProbe
from logos.prompts import PLACEHOLDER

MAX_BYTES = 4_000_000
logger = logging.getLogger(__name__)

# The events that can complete a response. Each wakes a waiter that then asks the host, so one per response is best:
# Linux reports when a written file is closed and, with full events, when a file is moved into the folder.
_changes: list[type[events.FileSystemEvent]]
_new_observer: Callable[[], BaseObserver]
if sys.platform == "linux":
    from watchdog.observers.inotify import InotifyObserver

    _changes = [events.FileClosedEvent, events.FileMovedEvent]
    _new_observer = partial(InotifyObserver, generate_full_events=True)
else:
    _changes = [events.FileCreatedEvent, events.FileModifiedEvent, events.FileMovedEvent]
    _new_observer = Observer


class ResponseFiles:
    def __init__(self, folder: Path, names: dict[str, str] | None = None) -> None:
        self.folder = folder
        self._names = RESPONSE_FILES if names is None else names

    def path(self, answer: str) -> Path:
        return self.folder / self._names[answer]

    def ensure(self) -> None:
        own_folder(self.folder.parent)
        own_folder(self.folder)

    def clear(self, answer: str) -> None:
        try:
            self.path(answer).unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"cannot remove the old response {self.path(answer)}: {error.strerror}") from error

    def peek(self, answer: str) -> FileProbe:
        path = self.path(answer)
        try:
            info = path.lstat()
        except OSError:
            return FileProbe()
        if not stat.S_ISREG(info.st_mode):
            return FileProbe(problem=f"{path} is not a regular file")
        if info.st_size > MAX_BYTES:
            return FileProbe(problem=f"{path} has {info.st_size} bytes, more than {MAX_BYTES}")
        try:
            lines = self.read(answer).strip().splitlines()
        except HostError:
            return FileProbe()
        # Blank lines and the placeholder of the instruction are not a response.
        answered = any(line.strip() not in ("", PLACEHOLDER) for line in lines)
        if not answered:
            return FileProbe()
        # Unlike st_mtime, a process cannot set st_ctime.
        return FileProbe(f"{info.st_ino}-{info.st_size}-{info.st_mtime_ns}", changed_at=info.st_ctime_ns)

    def read(self, answer: str) -> str:
        """The text of the response; symbolic links are not followed."""
        path = self.path(answer)
        try:
            with open_regular(path) as source:
                return source.read(MAX_BYTES).decode("utf-8-sig", "replace")
        except OSError as error:
            raise HostError(f"cannot read {path}: {error.strerror}") from error


class ManualSignal:
    """A ChangeSignal that only `wake` triggers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.wakeups = 0

    def wait(self, seen: int, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.wakeups > seen, seconds)

    def wake(self) -> None:
        with self._changed:
            self.wakeups += 1
            self._changed.notify_all()

    def close(self) -> None:
        self.wake()


class FileWatcher(ManualSignal, events.FileSystemEventHandler):
    """A ChangeSignal for the files of a folder. Its threads use no processor time until the system wakes them.

    If the system reports no changes, polling still finds every file.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._observer = _observe(folder, self)

    def on_any_event(self, event: events.FileSystemEvent) -> None:
        del event
        self.wake()

    def close(self) -> None:
        if self._observer is not None:
            self._observer.stop()
        super().close()


def _observe(folder: Path, handler: events.FileSystemEventHandler) -> BaseObserver | None:
    """None where the folder does not exist, or where the user's limit of watchers or of watched folders is reached."""
    observer: BaseObserver | None = None
    try:
        observer = _new_observer()
        # macOS reports real paths.
        observer.schedule(handler, str(folder.resolve()), event_filter=_changes)
        observer.start()
    except OSError as error:
        logger.debug("no file watcher for %s (%s): looking for files now and then", folder, error)
        if observer is not None:
            observer.stop()
        return None
    return observer
