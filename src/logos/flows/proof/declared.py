"""What an analyst declared about tests: which must change, which fail for other reasons, and why."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from logos.flows.proof.test_ids import file_of, function_of

# More is no declaration but an attempt to declare everything.
MAX_DECLARED = 50
_MAX_CHARACTERS = 200_000
_MAX_LINE = 1_000
_MAX_PATH = 300

_MAX_TEST = 500

_TITLE = r"^[#>*_\s\d.)-]*{}\b[*_\s]*:?[*_\s]*(?P<rest>.*)$"
_CHANGED_TITLE = re.compile(_TITLE.format("tests that must change"), re.IGNORECASE)
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+(?P<text>.*)$")
_HEADING = re.compile(r"^\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$|__[^_]+__:?\s*$)")
_QUOTED = re.compile(r"^(?:\*\*)?`(?P<path>[^`]+)`(?:\*\*)?\s*(?:[:–—-]|,|\()?\s*(?P<why>.*)$")
_PLAIN = re.compile(r"^(?P<path>[^\s:,]+)\s*(?::|,|\s[–—-]{1,2}\s)\s*(?P<why>.*)$")
# A test's id has colons itself: what separates it from the reason is followed by a space.
_PLAIN_TEST = re.compile(r"^(?P<path>\S.*?)(?::|,|\s[–—-]{1,2})\s+(?P<why>.*)$")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_PLAIN_NAMES = (
    "Makefile",
    "GNUmakefile",
    "makefile",
    "justfile",
    "Justfile",
    "Rakefile",
    "Jenkinsfile",
    "gradlew",
    "mvnw",
)
# A reason needs a word.
_WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class Declared:
    """A file, or a folder that ends with a slash, that must change, and the reason."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class NamedTest:
    """A test, or a file of tests, and what is said about it: the reason why it may fail, or what it checks."""

    test: str
    why: str

    def names(self, test_id: str) -> bool:
        """Whether it means this test: by its id, with or without parameters, by its name alone, or by its file."""
        known = {test_id, function_of(test_id), file_of(test_id)}
        return self.test in known or any(other.endswith(f"::{self.test}") for other in known)


def declared_in(text: str) -> tuple[Declared, ...]:
    """The items of every section "Tests that must change:"; a path without a reason is not declared.

    Patterns are refused, except a folder (`tests/api/`, `tests/api/*`). What stands in a code fence or a quotation is
    not declared.
    """
    found: dict[str, Declared] = {}
    for line in _lines_below(_CHANGED_TITLE, text):
        declared = _read(line)
        if declared is not None and len(found) < MAX_DECLARED:
            found.setdefault(declared.path, declared)
    return tuple(found.values())


def unrelated_in(text: str) -> tuple[NamedTest, ...]:
    """The items of every section "Unrelated failing tests:"; a test without a reason is not declared."""
    return named_below("unrelated failing tests", text, MAX_DECLARED)


def named_below(title: str, text: str, most: int) -> tuple[NamedTest, ...]:
    """The items `- test: text` of every section with this title."""
    found: dict[str, NamedTest] = {}
    for line in _lines_below(re.compile(_TITLE.format(title), re.IGNORECASE), text):
        named = _read_test(line)
        if named is not None and len(found) < most:
            found.setdefault(named.test, named)
    return tuple(found.values())


def excused(before: Iterable[str], declared: Iterable[NamedTest]) -> tuple[str, ...]:
    """The tests that failed before the run and were declared: a declaration about any other test means nothing."""
    named = tuple(declared)
    return tuple(test for test in before if any(one.names(test) for one in named))


def _lines_below(heading: re.Pattern[str], text: str) -> Iterator[str]:
    """The lines of every section with this title, without fences and quotations."""
    inside = fenced = False
    for line in text[:_MAX_CHARACTERS].splitlines():
        if _FENCE.match(line):
            fenced = not fenced
            continue
        if fenced or line.lstrip().startswith(">"):
            continue
        title = heading.match(line[:_MAX_LINE])
        inside = title is not None or (inside and _goes_on(line))
        if inside:
            yield title["rest"] if title else line


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


def _read_test(line: str) -> NamedTest | None:
    if len(line) > _MAX_LINE:
        return None
    item = _ITEM.match(line)
    text = (item["text"] if item else line).strip()
    parts = _QUOTED.match(text) or _PLAIN_TEST.match(text)
    test = parts["path"].strip().removeprefix("**").strip("`'\"").removeprefix("./") if parts else ""
    why = parts["why"].strip().rstrip(")").strip() if parts else ""
    return NamedTest(test, why) if 0 < len(test) <= _MAX_TEST and _WORD.search(why) else None


def _path(text: str) -> str | None:
    """A path below the work dir as it is written in an id, or None."""
    path = text.strip().removeprefix("**").strip("`'\"").removeprefix("./")
    for end in ("/**", "/*"):
        path = path.removesuffix(end) + "/" if path.endswith(end) else path
    parts = path.rstrip("/").split("/")
    bad = any(part in ("", ".", "..") or set(part) & set("*?[]{}\\!\0") for part in parts)
    # A word without a dot or a slash is no path, but the beginning of a sentence, unless a build knows the name.
    is_path = "/" in path or "." in path or path in _PLAIN_NAMES
    return path if is_path and not bad and len(path) <= _MAX_PATH and not any(map(str.isspace, path)) else None
