"""Services that apprise knows. It takes half a second to import, so this module is imported when it is used."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType

from logos.views.events import Severity
from logos.views.redact import one_line

TIMEOUT_SECONDS = 10.0
_TYPES = {Severity.GOOD: NotifyType.SUCCESS, Severity.BAD: NotifyType.FAILURE, Severity.NORMAL: NotifyType.INFO}


@dataclass(frozen=True, slots=True)
class AppriseUrl:
    """One of `notifications.urls`. A service is named by its place and scheme: its address may hold a secret."""

    secret: str
    name: str
    # An `Apprise`, whose types are not complete.
    service: Any

    def send(self, title: str, body: str, severity: Severity) -> str | None:
        sent = self.service.notify(
            body=body,
            title=title,
            notify_type=_TYPES.get(severity, NotifyType.WARNING),
            body_format=NotifyFormat.TEXT,
            timeout=TIMEOUT_SECONDS,
        )
        if sent:
            return None
        said = [one_line(entry.message) for entry in sent.logs()]
        why = said[-1] if said else "no answer in time"
        return f"notification not sent: {self.name}: {why}"


def targets_of(urls: Sequence[str]) -> Iterator[AppriseUrl | str]:
    """A target for each address, or what is wrong with it."""
    asset = AppriseAsset(app_id="Logos", app_desc="Logos", app_url="", async_mode=False, secure_logging=True)
    for place, url in enumerate(urls, 1):
        service: Any = Apprise(asset=asset)
        name = f"notifications.urls, number {place} ({url.partition('://')[0] if '://' in url else 'no scheme'})"
        if service.add(url):
            yield AppriseUrl(url, name, service)
        else:
            yield f"{name} is not an address that apprise knows: nothing is sent there"
