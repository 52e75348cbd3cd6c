"""Messages to a person: through ntfy or any service that apprise knows. Each is sent once, also across restarts."""

import hashlib
import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx

from logos.adapters.files import opened_folder, private_folder
from logos.adapters.store.mirror import is_run_id
from logos.errors import LogosError
from logos.views.events import Severity

TIMEOUT_SECONDS = 5.0
# What was sent of runs is forgotten when nothing was sent of them for so long.
KEPT_SECONDS = 90 * 86_400.0


class Target(Protocol):
    """Where messages go. `secret` tells targets apart and is shown to nobody; `name` is for people."""

    @property
    def name(self) -> str: ...

    @property
    def secret(self) -> str: ...

    def send(self, title: str, body: str, severity: Severity) -> str | None:
        """Send one message, within seconds; returns what went wrong, or None."""
        ...


def notify(topic: str, title: str, message: str, priority: int = 3) -> str | None:
    """Send one message through ntfy; returns what went wrong, or None."""
    if not topic:
        return None
    url = topic if "://" in topic else f"https://ntfy.sh/{topic}"
    try:
        # Header values must be Latin-1; ntfy takes everything else in the body.
        headers = {"Title": title.encode("ascii", "replace").decode("ascii"), "Priority": str(priority)}
        content = message.encode("utf-8", "replace")
        httpx.post(url, content=content, headers=headers, timeout=TIMEOUT_SECONDS).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return f"notification not sent: {error or type(error).__name__}"
    return None


@dataclass(frozen=True, slots=True)
class NtfyTopic:
    """The setting `notifications.ntfy_topic`."""

    secret: str
    name: str = "notifications.ntfy_topic"

    def send(self, title: str, body: str, severity: Severity) -> str | None:
        return notify(self.secret, title, body, 4 if severity is Severity.ALARM else 3)


class SentOnce:
    """Remembers what was sent: an empty file per message and target, made before it is sent.

    A driver that is killed in between has perhaps not sent it, and nobody sends it again.
    """

    def __init__(self, folder: Path | None, run: str) -> None:
        self._folder = folder / run if folder is not None and is_run_id(run) else None
        self._claimed: set[str] = set()

    def claim(self, key: str, target: Target) -> bool:
        """Whether the caller may send the message: nobody has claimed it before."""
        name = f"{key}-{hashlib.sha256(target.secret.encode('utf-8', 'replace')).hexdigest()[:16]}"
        if name in self._claimed:
            return False
        self._claimed.add(name)
        # Without the folder, messages are sent once by each driver.
        with suppress(OSError, LogosError):
            return self._claim(name)
        return True

    def _claim(self, name: str) -> bool:
        if self._folder is None:
            return True
        if not self._folder.is_dir():
            for folder in (*reversed(self._folder.parents[:2]), self._folder):
                private_folder(folder)
            _forget_old(self._folder.parent)
        with opened_folder(self._folder) as folder:
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                os.close(os.open(name, flags, 0o600, dir_fd=folder))
            except FileExistsError:
                return False
            os.fsync(folder)
        return True


def _forget_old(folder: Path) -> None:
    old = time.time() - KEPT_SECONDS
    for entry in folder.iterdir():
        if is_run_id(entry.name) and entry.is_dir() and not entry.is_symlink() and entry.stat().st_mtime < old:
            shutil.rmtree(entry, ignore_errors=True)
