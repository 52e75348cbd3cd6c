"""Push messages to a person through ntfy; a failed message never delays or fails a run."""

import httpx

TIMEOUT_SECONDS = 5.0


def notify(topic: str, title: str, message: str, priority: int = 3) -> str | None:
    """Send one message; returns what went wrong, or None."""
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
