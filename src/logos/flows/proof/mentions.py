"""Whether the text of a file mentions another file: by an import, by its name, or by the folder it is in."""

import re
from collections.abc import Iterator
from functools import lru_cache
from posixpath import basename, dirname, join, normpath, splitext

_SCRIPT = re.compile(r"\.[cm]?[jt]sx?$")
_CODE = re.compile(
    r"\.(py|[cm]?[jt]sx?|vue|svelte|sh|bash|zsh|bats|rb|rake|pl|php|lua|go|rs|java|kt|groovy|scala|cs|exs?|c|cc|cpp|cxx|h|hpp"
    r"|swift|m|mk)$"
)
_MAKEFILES = re.compile(r"(GNU)?[Mm]akefile|\.?[Jj]ustfile|[Rr]akefile|Dockerfile")
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#;]+)|import[ \t]+([^\n#;]+))", re.M
)
_REQUIRED = re.compile(r"""(?:require|import|from|mock|requireActual)\b[\s(]*["'`]([^"'`\n]+)["'`]""")
_NAME = re.compile(r"[A-Za-z_]\w*")
# A line that makes a path; folders are common words, so elsewhere they mean nothing.
_PATH_LINE = re.compile(r"path|join|open|glob|file|dir|read|load|root|resource|here|/", re.IGNORECASE)


def is_code(path: str) -> bool:
    """Whether a file is a program by its name; files without an ending may be one."""
    name = basename(path)
    return bool(_CODE.search(name) or _MAKEFILES.fullmatch(name)) or "." not in name


def mentions(source: str, text: str, path: str) -> bool:
    """Whether the file `source` with this text uses the file at `path`; both are relative to the work dir."""
    if path.endswith(".py"):
        return (source.endswith(".py") and _imports(source, text, path)) or _names(text, path)
    if _SCRIPT.search(path) and _SCRIPT.search(source):
        known = {basename(splitext(path)[0]), basename(dirname(path))} - {"", "index"}
        if not any(name in text for name in known):
            return False
        return any(_leads_to(source, given, path) for given in _REQUIRED.findall(text)) or _names(text, path)
    return _names(text, path) or (not is_code(path) and _names_folder(text, path))


def _names(text: str, path: str) -> bool:
    """By its file name; `index.js` and `__init__.py` are too common for that."""
    name = basename(path)
    if splitext(name)[0] in ("index", "__init__", "__main__", "mod") or name not in text:
        return False
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) is not None


def _names_folder(text: str, path: str) -> bool:
    folder = basename(dirname(path))
    if not folder or folder not in text:
        return False
    whole = re.compile(rf"""["'`/]{re.escape(folder)}["'`/]|(?<![\w.-]){re.escape(folder)}/""")
    return any(whole.search(line) and _PATH_LINE.search(line) for line in text.splitlines() if folder in line)


# -- Python


def _imports(source: str, text: str, path: str) -> bool:
    module = _module(path)
    if not module or module[-1] not in text:
        return False
    if any(_is_end(parts, module) for parts in imported(source, text)):
        return True
    # `import shop`, then `shop.testing.check()`.
    return len(module) > 1 and re.search(rf"\b{re.escape('.'.join(module[-2:]))}\b", text) is not None


@lru_cache(maxsize=4096)
def imported(source: str, text: str) -> frozenset[tuple[str, ...]]:
    """The modules, and the names in modules, that a Python file imports."""
    found: set[tuple[str, ...]] = set()
    for start, names, modules in _IMPORT.findall(text):
        if start:
            above = _absolute(source, start)
            found |= {above, *((*above, name) for name in _names_in(names))}
        else:
            found |= {tuple(module.split(".")) for module in _names_in(modules)}
    return frozenset(found - {()})


def _absolute(source: str, module: str) -> tuple[str, ...]:
    dots = len(module) - len(module.lstrip("."))
    parts = tuple(filter(None, module.split(".")))
    folder = tuple(filter(None, dirname(source).split("/")))
    return (*folder[: len(folder) - dots + 1], *parts) if dots else parts


def _names_in(names: str) -> Iterator[str]:
    for part in names.strip("() \t\n").replace("\n", " ").split(","):
        yield from part.split()[:1]


def _module(path: str) -> tuple[str, ...]:
    parts = splitext(path)[0].split("/")
    return tuple(part for part in (parts[:-1] if parts[-1] == "__init__" else parts) if part not in ("..", "."))


def _is_end(parts: tuple[str, ...], module: tuple[str, ...]) -> bool:
    return bool(parts) and module[-len(parts) :] == parts


def names_from(source: str, text: str, path: str) -> frozenset[str]:
    """The names under which a file uses what is in another one."""
    if path.endswith(".py"):
        module = _module(path)
        return frozenset(name for name in _python_names(source, text, module) if _NAME.fullmatch(name))
    found: set[str] = set()
    for line in text.splitlines():
        if any(_leads_to(source, given, path) for given in _REQUIRED.findall(line)):
            found |= {*_NAME.findall(line.partition("require")[0].partition(" from ")[0])}
    return frozenset(found - {"const", "let", "var", "import", "as", "type"})


def _python_names(source: str, text: str, module: tuple[str, ...]) -> Iterator[str]:
    for start, names, modules in _IMPORT.findall(text):
        if start and _is_end(_absolute(source, start), module):
            yield from (part.split()[-1] for part in names.strip("() \t\n").split(",") if part.split())
        elif start:
            above = _absolute(source, start)
            yield from (name for name in _names_in(names) if _is_end((*above, name), module))
        else:
            yield from (name for name in _names_in(modules) if _is_end(tuple(name.split(".")), module))


# -- JavaScript and TypeScript


def _leads_to(source: str, given: str, path: str) -> bool:
    """Whether what a script requires is this file; a name without a dot may be an alias of a folder."""
    wanted = splitext(path)[0]
    places = {wanted, dirname(wanted)} if basename(wanted) == "index" else {wanted}
    if given.startswith("."):
        target = normpath(join(dirname(source), given))
        return target == path or target in places or splitext(target)[0] in places
    tail = given.lstrip("@~#/").partition("?")[0]
    return bool(tail) and any(place == tail or place.endswith(f"/{tail}") for place in {*places, path})
