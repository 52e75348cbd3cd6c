"""Scripts that must fail, for commands whose tests nobody counts: where the command still exits 0, its code is forged.

A planted script leaves a mark in the folder of the report, so that only those that really ran are believed.
"""

import re
from collections.abc import Callable, Collection, Mapping
from posixpath import basename

from logos.flows.proof.commands import IMPLIED, script_text

# The folder of the marks in that of the report, whose path is in this variable.
MARKS = "planted"
_FOLDER = "LOGOS_REPORT"
_MAX_CHARACTERS = 400_000
_SHELL_NAME = re.compile(r".*\.(?:sh|bash)")
_SHEBANG = re.compile(r"#!.*\b(?:(?P<python>python[\d.]*)|(?:ba|da)?sh)\b")
# What may succeed although a script in it fails: pipes, alternatives, and recipes that ignore errors.
_FORGIVES = re.compile(r"\||\bif\b|\bwhile\b|\$\(|`")
_IGNORES_ERRORS = re.compile(r"\||^\s+@?-|\bif\b", re.MULTILINE)
# A trap of its own replaces ours, and so does another program.
_OWN_END = re.compile(r"\btrap\b|^\s*exec\b", re.MULTILINE)
_EXITS = re.compile(r"\bexit\(|\bSystemExit\b")


def planted_scripts(
    command: str, named: Collection[str], files: Mapping[str, str], word: Callable[[], str]
) -> dict[str, tuple[str, str]]:
    """The scripts that a command starts itself, or by a Makefile or the like, as their mark and a text that fails.

    `named` are the paths that the command names; `files` are the texts of these and of what they name in turn.
    """
    implied = {name for names in IMPLIED.values() for name in names}
    lists = {path: text for path, text in files.items() if basename(path) in implied}
    if _FORGIVES.search(command) or any(map(_IGNORES_ERRORS.search, lists.values())):
        return {}
    texts = [command, *(script_text(path, text) for path, text in lists.items())]
    direct = {path for path in files if path in named or any(path in text for text in texts)}
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(direct):
        mark = word()
        text = _failing(path, files[path], mark, word) if len(files[path]) <= _MAX_CHARACTERS else None
        if text is not None:
            found[path] = mark, text
    return found


def _failing(path: str, text: str, mark: str, word: Callable[[], str]) -> str | None:
    shebang = _SHEBANG.match(text)
    if path.endswith(".py") or (shebang and shebang["python"]):
        return _python(text, mark, word)
    if _SHELL_NAME.fullmatch(path) or shebang:
        return _shell(text, mark)
    return None


def _python(text: str, mark: str, word: Callable[[], str]) -> str:
    """The script as it is, and then a failure of the kind it has itself; exit handlers of the product still run."""
    first = text.partition("\n")[0] if text.startswith("#!") else ""
    fails = "__import__('sys').exit(117)" if _EXITS.search(text) else f'assert "{word()}" == "{word()}"'
    lines = [
        *([first] if first else []),
        "# -*- coding: utf-8 -*-",
        f"if __name__ == '__main__' and __import__('os').environ.get({_FOLDER!r}):",
        f"    open(__import__('os').environ[{_FOLDER!r}] + {f'/{MARKS}/{mark}'!r}, 'w').close()",
        "try:",
        f"    exec(compile({text!r}, __file__, 'exec'), globals())",
        "finally:",
        "    if __name__ == '__main__':",
        f"        {fails}",
    ]
    return "\n".join(lines) + "\n"


def _shell(text: str, mark: str) -> str | None:
    if _OWN_END.search(text):
        return None
    first, newline, rest = text.partition("\n") if text.startswith("#!") else ("", "", text)
    planted = f'test -z "${_FOLDER}" || : > "${_FOLDER}/{MARKS}/{mark}"\ntrap "exit 117" EXIT\n'
    return f"{first}{newline}{planted}{rest}"
