"""Tells a command that could not run from one that ran and failed, by its exit code and output."""

import re

_BY_EXIT_CODE = {
    0: "",
    126: "a program of it may not be executed (exit 126)",
    127: "a program of it was not found (exit 127)",
}
MODULE = re.compile(r"(?<!\S)-m\s+([\w.]+)")
# How wrappers report that they have nothing to run.
_WRAPPERS = {
    re.compile(r"^make(?:\[\d+\])?: \*\*\* .*Error 12[67]\b", re.MULTILINE): "a command in the Makefile was not found",
    re.compile(r"^make(?:\[\d+\])?: \*\*\* No rule to make target", re.MULTILINE): "make has no such target",
    re.compile(r"Missing script:", re.IGNORECASE): "package.json has no such script",
    re.compile(r"npx canceled due to missing packages"): "npx has no such package",
}


def why_it_cannot_run(command: str, exit_code: int, output: str) -> str:
    """Why a command failed before it tested anything; empty where it ran, whatever its result."""
    if exit_code in _BY_EXIT_CODE:
        return _BY_EXIT_CODE[exit_code]
    for module in MODULE.findall(command):
        if re.search(rf"No module named '?{re.escape(module)}'?(?![\w.])", output):
            return f"its Python has no module {module} (exit {exit_code})"
    found = (why for pattern, why in _WRAPPERS.items() if pattern.search(output))
    return next((f"{why} (exit {exit_code})" for why in found), "")
