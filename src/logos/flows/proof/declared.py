"""Which tests an analyst declared that they must change, and why."""

import re
from dataclasses import dataclass

# More is no declaration but an attempt to declare everything.
MAX_DECLARED = 50
_MAX_CHARACTERS = 200_000
_MAX_LINE = 1_000
_MAX_PATH = 300

_TITLE = re.compile(r"^[#>*_\s\d.)-]*tests that must change\b[*_\s]*:?[*_\s]*(?P<rest>.*)$", re.IGNORECASE)
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+(?P<text>.*)$")
_HEADING = re.compile(r"^\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$|__[^_]+__:?\s*$)")
_QUOTED = re.compile(r"^(?:\*\*)?`(?P<path>[^`]+)`(?:\*\*)?\s*(?:[:–—-]|,|\()?\s*(?P<why>.*)$")
_PLAIN = re.compile(r"^(?P<path>[^\s:,]+)\s*(?::|,|\s[–—-]{1,2}\s)\s*(?P<why>.*)$")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
# A reason needs a word.
_WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class Declared:
    """A file, or a folder that ends with a slash, that must change, and the reason."""

    path: str
    why: str


def declared_in(text: str) -> tuple[Declared, ...]:
    """The items of every section "Tests that must change:"; a path without a reason is not declared.

    Patterns are refused, except a folder (`tests/api/`, `tests/api/*`). What stands in a code fence or a quotation is
    not declared.
    """
    found: dict[str, Declared] = {}
    inside = fenced = False
    for line in text[:_MAX_CHARACTERS].splitlines():
        if _FENCE.match(line):
            fenced = not fenced
            continue
        if fenced or line.lstrip().startswith(">"):
            continue
        title = _TITLE.match(line[:_MAX_LINE])
        inside = title is not None or (inside and _goes_on(line))
        declared = _read(title["rest"] if title else line) if inside else None
        if declared is not None and len(found) < MAX_DECLARED:
            found.setdefault(declared.path, declared)
    return tuple(found.values())


def _goes_on(line: str) -> bool:
    """A section lasts until the next heading, or a line that is neither an item, nor indented, nor empty."""
    if _HEADING.match(line):
        return False
    return not line.strip() or line[0].isspace() or _ITEM.match(line) is not None


def _read(line: str) -> Declared | None:
    if len(line) > _MAX_LINE:
        return None
    item = _ITEM.match(line)
    text = (item["text"] if item else line).strip()
    parts = _QUOTED.match(text) or _PLAIN.match(text)
    path = _path(parts["path"]) if parts else None
    why = parts["why"].strip().rstrip(")").strip() if parts else ""
    return Declared(path, why) if path and _WORD.search(why) else None


def _path(text: str) -> str | None:
    """A path below the work dir as it is written in an id, or None."""
    path = text.strip().removeprefix("**").strip("`'\"").removeprefix("./")
    for end in ("/**", "/*"):
        path = path.removesuffix(end) + "/" if path.endswith(end) else path
    parts = path.rstrip("/").split("/")
    bad = any(part in ("", ".", "..") or set(part) & set("*?[]{}\\!\0") for part in parts)
    # A word without a dot or a slash is no path, but the beginning of a sentence.
    is_path = "/" in path or "." in path
    return path if is_path and not bad and len(path) <= _MAX_PATH and not any(map(str.isspace, path)) else None
