"""Patterns of paths as in a .gitignore, without a file system."""

import re
from collections.abc import Iterable
from functools import lru_cache

_MAX_PATTERN = 500
_PARTS = re.compile(r"\*\*/|/\*\*$|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)
_REGEX = {"**/": "(?:[^/]+/)*", "/**": "/.+", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def allowed(path: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns matches a path or a folder above it; a later `!pattern` takes it out again."""
    verdict = False
    for pattern in patterns:
        taken_out = pattern.startswith("!")
        if verdict == taken_out and _compiled(pattern.removeprefix("!").strip()).match(path):
            verdict = not taken_out
    return verdict


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern with a slash before its end starts at the work dir; one without matches at any depth."""
    text = pattern[:_MAX_PATTERN].removeprefix("./")
    folder = text.endswith("/")
    body = text.rstrip("/")
    anchored = "/" in body
    regex = "".join(_regex(part) for part in _PARTS.findall(body.lstrip("/")))
    if not regex:
        return re.compile(r"(?!)")
    start = "" if anchored else "(?:.*/)?"
    # `name/` is a folder; `name` is a file, or a folder with all that is in it.
    return re.compile(f"{start}{regex}{'/.+' if folder else '(?:/.*)?'}\\Z", re.DOTALL)


def _regex(part: str) -> str:
    if part in _REGEX:
        return _REGEX[part]
    if part.startswith("[") and len(part) > 2:
        inner = part[1:-1]
        negated = inner[0] in "!^" and len(inner) > 1
        inner = re.sub(r"([\\\]\[&~|])", r"\\\1", inner[1:] if negated else inner)
        return f"[{'^' if negated else ''}{inner}]"
    return re.escape(part)
