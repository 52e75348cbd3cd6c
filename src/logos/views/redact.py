"""Remove control sequences and secrets from texts before they are shown."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, cast

from logos.waiting.screens import plain

HIDDEN = "[redacted]"

# Each pattern keeps its group `keep`, where it has one, and hides the rest.
SECRETS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        r"\bsk-[A-Za-z0-9_-]{16,}",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
        r"\bglpat-[A-Za-z0-9_-]{16,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
        r"\bey[A-Za-z0-9_-]{10,}\.ey[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}",
        r"(?P<keep>\b[Bb]earer[ \t]+)[A-Za-z0-9._~+/=-]{8,}",
        r"(?P<keep>\b[a-z][a-z0-9+.-]*://[^\s:/@]+:)[^\s:/@]{3,}(?=@)",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----",
    )
)
SECRET_NAMES = ("_API_KEY", "_TOKEN", "_SECRET")
# Shorter values could be ordinary words.
SHORTEST = 8


def values_to_hide(env: Mapping[str, str]) -> list[str]:
    """The secrets of this environment, the longest first: one may be part of another."""
    # By name first: os.environ decodes every value that is asked for, and this is done for every text that is shown.
    found = {env[name] for name in env if name.upper().endswith(SECRET_NAMES)}
    return sorted((value for value in found if len(value) >= SHORTEST), key=len, reverse=True)


def redact(text: str, env: Mapping[str, str] | None = None) -> str:
    for value in values_to_hide(os.environ if env is None else env):
        text = text.replace(value, HIDDEN)
    for pattern in SECRETS:
        text = pattern.sub(lambda found: (found.groupdict().get("keep") or "") + HIDDEN, text)
    return text


def clean(text: object) -> str:
    """A text without control sequences and secrets, safe for a terminal."""
    return redact(plain(str(text)))


def one_line(text: object) -> str:
    return " ".join(clean(text).split())


def redacted(data: object) -> Any:
    """Redact every text inside a JSON document; control characters stay, JSON escapes them."""
    if isinstance(data, str):
        return redact(data)
    if isinstance(data, dict):
        return {key: redacted(value) for key, value in cast("dict[str, object]", data).items()}
    if isinstance(data, list | tuple):
        return [redacted(value) for value in cast("list[object]", data)]
    return data
