"""Remove control sequences and secrets from texts before they are shown."""

import os
import re
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import unquote

from logos.waiting.screens import plain

HIDDEN = "[redacted]"

# Each pattern keeps its group `keep`, where it has one, and hides the rest. It is tried only in a text with its word:
# most texts have none, and to look for a word is a hundred times as fast.
_GITHUB = r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"
_AMAZON = r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
SECRETS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        ("sk-", r"\bsk-[A-Za-z0-9_-]{16,}"),
        *((word, _GITHUB) for word in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_")),
        ("glpat-", r"\bglpat-[A-Za-z0-9_-]{16,}"),
        *((word, _AMAZON) for word in ("AKIA", "ASIA")),
        ("AIza", r"\bAIza[A-Za-z0-9_-]{30,}"),
        ("xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
        (".ey", r"\bey[A-Za-z0-9_-]{10,}\.ey[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}"),
        ("earer", r"(?P<keep>\b[Bb]earer[ \t]+)[A-Za-z0-9._~+/=-]{8,}"),
        ("://", r"(?P<keep>\b[a-z][a-z0-9+.-]*://[^\s:/@]+:)[^\s:/@]{3,}(?=@)"),
        ("PRIVATE KEY-", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----"),
    )
)
# Characters without a glyph of their own: they reverse the order of others, hide in a name, or break a line. They are
# those that Unicode calls ignorable, without the sixteen that choose between a letter and a picture.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
SECRET_NAMES = ("_API_KEY", "_TOKEN", "_SECRET", "PGPASSWORD")
# The password in the address of a database, as it is written there.
_PASSWORD = re.compile(r"://[^/?#@:]*:(?P<login>[^/?#@]+)@|[?&]password=(?P<query>[^&#]+)")
# Shorter values could be ordinary words; no pattern fits a shorter text.
SHORTEST = 8


def redact(text: str) -> str:
    if len(text) < SHORTEST:
        return text
    for value in _environment.secrets():
        text = text.replace(value, HIDDEN)
    for word, pattern in SECRETS:
        if word in text:
            text = pattern.sub(lambda found: (found.groupdict().get("keep") or "") + HIDDEN, text)
    return text


class _Environment:
    """Finds the secrets of the process environment, again whenever it has changed.

    It is compared as bytes: `os.environ` decodes every name that is looked at, and every text that is shown asks.
    """

    def __init__(self) -> None:
        self._seen: dict[bytes, bytes] = {}
        self._secrets: tuple[str, ...] = ()

    def secrets(self) -> tuple[str, ...]:
        """The longest first: one may be part of another."""
        now: dict[bytes, bytes] = vars(os.environ)["_data"]
        if now != self._seen:
            self._seen = dict(now)
            named = {value for name, value in os.environ.items() if name.upper().endswith(SECRET_NAMES)}
            named |= set(_passwords(os.environ.get("LOGOS_DATABASE", "")))
            self._secrets = tuple(sorted((it for it in named if len(it) >= SHORTEST), key=len, reverse=True))
        return self._secrets


def _passwords(address: str) -> Iterator[str]:
    """An address, where it has a password, and that as it is written and as it is meant."""
    for found in _PASSWORD.finditer(address):
        password = found["login"] or found["query"]
        yield from (address, password, unquote(password))


_environment = _Environment()


def clean(text: object) -> str:
    """A text without control sequences and secrets, safe for a terminal; invisible characters are shown as escapes."""
    shown = str(text)
    # Most texts have neither, and are only searched for secrets.
    if shown.isascii() and shown.replace("\n", "").replace("\t", "").isprintable():
        return redact(shown)
    return visible(redact(plain(shown)))


def visible(text: str) -> str:
    return _INVISIBLE.sub(lambda found: ascii(found[0])[1:-1], text)


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
