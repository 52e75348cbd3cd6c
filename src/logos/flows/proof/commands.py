"""Which files a shell command executes or is configured by, read from its text."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from posixpath import basename, dirname, join, normpath

_MAX_TEXT = 100_000
_PUNCTUATION = ";&|()\n`"
_SEPARATORS = re.compile(r"[;&|(){}\n`]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_MAKEFILE = re.compile(r"(?:GNU)?[Mm]akefile|.*\.mk|\.?[Jj]ustfile")
_INCLUDE = re.compile(r"^[-s]?include[ \t]+(.+)$", re.MULTILINE)
# What handles an import that fails.
_MAY_FAIL = frozenset(("ImportError", "ModuleNotFoundError", "Exception"))
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_FILE = re.compile(r"[\w@./+-]*\.\w+")
# What a path can be; anything else was never one word of a file name.
_PATH = re.compile(r"[^\s*?$<>\"'\\=]+")


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


# Words before the program that is meant. Options and numbers after them are theirs.
_PREFIXES = _words(
    "exec env nice nohup time timeout sudo command xargs npx bunx then do else if elif while until ! { } set cross-env",
    "dotenv c8 nyc stdbuf setsid ionice chronic xvfb-run dbus-run-session",
)
# The same with a word that belongs to them.
_PREFIX_PAIRS = {
    "uv": "run",
    "poetry": "run",
    "pipenv": "run",
    "pdm": "run",
    "hatch": "run",
    "rye": "run",
    "pixi": "run",
    "bundle": "exec",
    "coverage": "run",
    "npm": "exec",
    "pnpm": "exec",
    "yarn": "exec",
}
_INTERPRETER = re.compile(
    r"(?:python|pypy)[\d.]*|node|nodejs|deno|bun|tsx|ts-node|(?:ba|da|z|k|fi)?sh|ruby|perl|php|lua|Rscript|source|\.|tclsh"
)
_SHELL = re.compile(r"(?:ba|da|z|k)?sh")
_TEST_PROGRAMS = _words(
    "pytest py.test unittest doctest trial nose2 mocha jest vitest ava tap tape jasmine bats prove rspec phpunit",
    "diff cmp",
)
# Options whose value is a file that steers the program.
_FILE_OPTIONS = _words(
    "-c -f -r --config --config-file --file --makefile --justfile --taskfile --rcfile --require --import --loader",
    "--experimental-loader --env-file --setup-file --setupFiles --globalSetup --reporter --test-reporter --options",
)
# Programs that read a file of this name without being told.
IMPLIED = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    "npm": ("package.json",),
    "pnpm": ("package.json",),
    "yarn": ("package.json",),
    "bun": ("package.json",),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "inv": ("tasks.py",),
    "invoke": ("tasks.py",),
    "doit": ("dodo.py",),
}


@lru_cache(maxsize=64)
def named_by(text: str) -> frozenset[str]:
    """The paths that a command, or the text of a script, executes or is configured by."""
    found: set[str] = set()
    for folder, words in _commands(text):
        found.update(path for word in _files_of(words) if (path := _normal(folder, word)))
    return frozenset(found)


@lru_cache(maxsize=64)
def implied_by(text: str) -> frozenset[str]:
    """The files that the programs of a command read without being told, such as a Makefile."""
    found = {normpath(join(folder, name)) for folder, words in _commands(text) for name in IMPLIED.get(words[0], ())}
    return frozenset(found)


@lru_cache(maxsize=64)
def named_modules(text: str) -> frozenset[str]:
    """The files of the Python modules that a command executes with `-m`, or gives to unittest."""
    found: set[str] = set()
    for folder, words in _commands(text):
        for module in _modules_of(words):
            name = module.replace(".", "/")
            found |= {
                normpath(join(folder, root, name + end)) for root in ("", "src") for end in (".py", "/__main__.py")
            }
    return frozenset(found)


def included_by(path: str, text: str) -> frozenset[str]:
    """The files that a script reads as parts of itself, also where it does so only if they are there.

    `include` of make, `.` and `source` of a shell, and imports in Python that may fail.
    """
    parts = [
        ("", word) for line in _INCLUDE.findall(text) for word in line.split() if _MAKEFILE.fullmatch(basename(path))
    ]
    parts += [(folder, words[1]) for folder, words in _commands(script_text(path, text)) if _includes(words)]
    if path.endswith(".py"):
        parts += [("", name + end) for name in _optional_imports(text) for end in (".py", "/__init__.py")]
    # A script often changes to a folder that is not known here.
    found = (_normal(start, word) for folder, word in parts for start in {folder, "", dirname(path)})
    return frozenset(filter(None, found))


def _includes(words: list[str]) -> bool:
    return len(words) > 1 and words[0] in (".", "source")


def _optional_imports(text: str) -> Iterator[str]:
    """The modules that a Python file imports where that may fail."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try) or not any(map(_handles_imports, node.handlers)):
            continue
        for inner in node.body:
            if isinstance(inner, ast.Import):
                yield from (alias.name.replace(".", "/") for alias in inner.names)
            elif isinstance(inner, ast.ImportFrom) and inner.module and not inner.level:
                yield inner.module.replace(".", "/")


def _handles_imports(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in _MAY_FAIL) for kind in kinds)


def script_text(path: str, text: str) -> str:
    """The part of a file that a shell executes: recipes of a Makefile, scripts of a package.json, a shell script."""
    name = basename(path)
    if name == "package.json":
        return _package_scripts(text)
    if _MAKEFILE.fullmatch(name):
        lines = (line.strip().lstrip("@-+") for line in text.splitlines() if line[:1].isspace())
        # Each line of a recipe is a shell of its own, in the folder of the file.
        return "\n".join(f"({line})" if line.startswith("cd ") else line for line in lines)
    if re.fullmatch(r"[Tt]askfile.*\.ya?ml", name):
        return "\n".join(line.strip().removeprefix("- ").removeprefix("cmd: ") for line in text.splitlines())
    is_shell = name.endswith((".sh", ".bash", ".zsh", ".bats")) or re.match(r"#!.*\b(?:ba|da|z|k)?sh\b", text)
    return text if is_shell else ""


def _package_scripts(text: str) -> str:
    try:
        scripts = json.loads(text).get("scripts", {})
        return "\n".join(value for value in scripts.values() if isinstance(value, str))
    except (ValueError, AttributeError, RecursionError):
        return ""


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each simple command with the folder that `cd` before it leads to."""
    folder = ""
    for part in _simple(text[:_MAX_TEXT].replace("\\\n", " ")):
        words = _without_prefixes(part)
        if not words:
            continue
        if words[0] == "cd" and len(words) > 1:
            folder = normpath(join(folder, words[1]))
        elif "-c" in words[:-1] and _SHELL.fullmatch(basename(words[0])):
            yield from ((normpath(join(folder, inner)), rest) for inner, rest in _inner(words))
        else:
            yield folder, words


def _simple(text: str) -> Iterator[list[str]]:
    """The words of each simple command, without their quotes."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for word in lexer:
            if set(word) <= {*_PUNCTUATION}:
                yield words
                words = []
            else:
                words.append(word)
    except ValueError:
        # A quote that nobody closes, for example in text that is no shell.
        yield from (part.split() for part in _SEPARATORS.split(text))
    yield words


def _inner(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The commands of `sh -c "…"`; quoted text gets shorter with each level, so this ends."""
    code = words[words.index("-c") + 1]
    yield from _commands(code)


def _without_prefixes(words: list[str]) -> list[str]:
    left = list(words)
    while left:
        first = left[0].lstrip("@")
        if _ASSIGNMENT.match(first):
            del left[0]
        elif first in _PREFIXES or (first in _PREFIX_PAIRS and left[1:2] == [_PREFIX_PAIRS[first]]):
            del left[: 1 if first in _PREFIXES else 2]
            while left and (left[0].startswith("-") or re.fullmatch(r"\d[\d.]*[smhd]?", left[0])):
                del left[0]
        else:
            return [first, *left[1:]] if first else left[1:]
    return left


def _files_of(words: list[str]) -> Iterator[str]:
    program, arguments = words[0], words[1:]
    if "/" in program:
        yield program
    name = basename(program)
    is_interpreter = _INTERPRETER.fullmatch(name) is not None
    module = arguments[arguments.index("-m") + 1] if "-m" in arguments[:-1] else ""
    if is_interpreter and not module and "-c" not in arguments and "-e" not in arguments:
        script = next((word for word in arguments if not word.startswith("-") and _FILE.fullmatch(word)), None)
        script = script or next((word for word in arguments if not word.startswith("-")), None)
        yield from [script] if script else []
    if name in _TEST_PROGRAMS or module in _TEST_PROGRAMS or (is_interpreter and "--test" in arguments):
        yield from (word.partition("::")[0] for word in arguments if _FILE.fullmatch(word.partition("::")[0]))
    for option, value in pairwise(arguments):
        if option in _FILE_OPTIONS and not value.startswith("-"):
            yield value
    for word in arguments:
        option, found, value = word.partition("=")
        if found and option in _FILE_OPTIONS:
            yield value


def _modules_of(words: list[str]) -> Iterator[str]:
    if "-m" not in words[:-1]:
        return
    place = words.index("-m") + 1
    yield words[place]
    if words[place] in ("unittest", "trial"):
        yield from (word for word in words[place + 1 :] if _MODULE.fullmatch(word))


def _normal(folder: str, word: str) -> str | None:
    """A path below the work dir, or None."""
    if not _PATH.fullmatch(word):
        return None
    path = normpath(join(folder, word))
    return None if path.startswith(("..", "/")) or path == "." or not dirname(path) + basename(path) else path
