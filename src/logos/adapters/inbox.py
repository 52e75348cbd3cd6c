"""The inbox of a log: a folder in the user state folder into which other processes put what a person tells the driver.

One file per message, `NS-RANDOM.json`, and `NS-RANDOM.refused` with the reason for the sender of a refused one.
"""

import json
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from logos.adapters.files import bytes_of_file, opened_folder, private_folder, refused, set_aside, write_atomically
from logos.adapters.responses import FileWatcher
from logos.adapters.store.codec import Undecodable, decode, encode
from logos.adapters.store.mirror import folder_of, is_run_id, state_folder
from logos.domain.events import (
    GateDecided,
    Message,
    PermissionDecided,
    PersonEvent,
    PersonSaid,
    QuestionResolved,
)
from logos.domain.turns import RunId
from logos.errors import LogosError, UsageError

Tell = Callable[[str], object]

# More than a person writes.
MAX_BYTES = 1_000_000
# How long the reason for a refusal is kept for a sender that does not come for it.
KEPT_SECONDS = 86_400.0
_NAME = re.compile(r"\d{20}-[0-9a-f]{8}")
_MESSAGE, _REFUSAL = ".json", ".refused"


def inbox_folder(database: Path) -> Path:
    """The folder for the log in this file; it has the name of the mirror. OSError if there is no home folder."""
    return _folder(folder_of(database).name)


def existing_inbox(mirror: str) -> tuple[Path, ...]:
    """The inbox of the log whose mirror has this name, if there is one."""
    folder = _folder(mirror)
    return (folder,) if folder.is_dir() and not folder.is_symlink() else ()


def _folder(mirror: str) -> Path:
    return state_folder() / "inbox" / mirror


def inbox_of(database: Path, tell: Tell) -> "FileInbox":
    try:
        return FileInbox(inbox_folder(database), tell)
    except OSError as error:
        raise refused("there is no place for messages to a driver", error) from error


def new_message(run: RunId, event: PersonEvent) -> Message:
    return Message(f"{time.time_ns():020d}-{secrets.token_hex(4)}", run, event)


class FileInbox:
    """An Inbox, and what senders need: `send`, `is_waiting` and `refusal`."""

    def __init__(self, folder: Path, tell: Tell) -> None:
        for path in (folder.parent.parent, folder.parent, folder):
            private_folder(path)
        if folder.is_symlink():
            raise UsageError(f"{folder} is a symbolic link, which Logos never makes; it is not followed: remove it")
        self.folder = folder
        self._tell = tell
        self._watcher: FileWatcher | None = None
        # What can be neither read nor renamed is told once.
        self._told: set[str] = set()

    def send(self, run: RunId, event: PersonEvent) -> Message:
        message = new_message(run, event)
        self.put(message)
        return message

    def put(self, message: Message) -> None:
        """Put a message into the inbox, durably."""
        event = json.loads(encode(message.event))
        text = json.dumps({"id": message.id, "run": message.run, "event": event}, indent=1)
        if len(text) > MAX_BYTES:
            raise UsageError(f"the text is too long: more than {MAX_BYTES // 1000} kB")
        write_atomically(self._path(message.id), text + "\n")
        with suppress(OSError), opened_folder(self.folder) as handle:
            os.fsync(handle)

    def is_waiting(self, message: Message) -> bool:
        return self._path(message.id).exists()

    def withdraw(self, message: Message) -> bool:
        """Take back what nobody has taken; whether it was still there."""
        try:
            self._path(message.id).unlink()
        except OSError:
            return False
        return True

    def refusal(self, message: Message) -> str | None:
        """Why a message was refused, for its sender, once; None if it was not."""
        path = self._path(message.id, _REFUSAL)
        try:
            why = bytes_of_file(path, limit=MAX_BYTES).decode("utf-8", "replace").strip()
            path.unlink()
        except OSError:
            return None
        return why

    def watch(self, arrived: Callable[[], object]) -> None:
        self.close()
        self._watcher = _Arrivals(self.folder, arrived)

    def messages(self) -> tuple[Message, ...]:
        try:
            paths = sorted(path for path in self.folder.iterdir() if path.suffix == _MESSAGE and path.name[0] != ".")
        except OSError:
            return ()
        found = (self._read(path) for path in paths if path.name not in self._told)
        return tuple(message for message in found if message is not None)

    def remove(self, message: Message) -> None:
        self._remove(self._path(message.id))

    def refuse(self, message: Message, why: str) -> None:
        for path in self.folder.glob(f"*{_REFUSAL}"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                    path.unlink()
        # The reason first: a sender takes a message that is gone, and not refused, for an event.
        write_atomically(self._path(message.id, _REFUSAL), f"{why}\n", durable=False)
        self._remove(self._path(message.id))

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None

    def _path(self, id_: str, suffix: str = _MESSAGE) -> Path:
        return self.folder / f"{id_}{suffix}"

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            # It is in the log, so that it is never taken twice.
            self._say_once(path, f"{path} cannot be removed: {error.strerror}")

    def _read(self, path: Path) -> Message | None:
        try:
            return read_message(path)
        except FileNotFoundError:
            # Somebody else has taken it.
            return None
        except OSError as error:
            why = error.strerror or str(error)
        except (ValueError, RecursionError, Undecodable) as error:
            why = str(error)
        try:
            kept = set_aside(path, time.strftime("%Y%m%d-%H%M%S"))
            self._tell(f"warning: {path} is no message and is ignored ({why}); it is kept as {kept.name}")
        except (OSError, LogosError):
            self._say_once(path, f"{path} is no message and is ignored ({why})")
        return None

    def _say_once(self, path: Path, text: str) -> None:
        if path.name not in self._told:
            self._told.add(path.name)
            self._tell(f"warning: {text}")


def read_message(path: Path) -> Message:
    """OSError, ValueError or Undecodable if the file has none."""
    read: object = json.loads(bytes_of_file(path, limit=MAX_BYTES))
    data = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
    if not _NAME.fullmatch(path.stem) or data.get("id") != path.stem:
        raise ValueError("its id is not its name")
    run = data.get("run")
    if not isinstance(run, str) or not is_run_id(run):
        raise ValueError("it names no run")
    event = decode(json.dumps(data.get("event")))
    if not isinstance(event, QuestionResolved | GateDecided | PermissionDecided | PersonSaid):
        raise ValueError(f"a person does not send the event {event.kind}")
    return Message(path.stem, RunId(run), event)


class _Arrivals(FileWatcher):
    """Calls a function whenever a file has come into a folder."""

    def __init__(self, folder: Path, arrived: Callable[[], object]) -> None:
        self._arrived = arrived
        self._closed = threading.Event()
        super().__init__(folder)

    def wake(self) -> None:
        super().wake()
        if not self._closed.is_set():
            self._arrived()

    def close(self) -> None:
        self._closed.set()
        super().close()
