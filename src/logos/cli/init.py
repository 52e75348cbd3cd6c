"""`logos init`: a configuration, a prompt and a telos to start from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logos.app.workdir import CONFIG, TELOS, place_of
from logos.cli.options import AsJson, WorkDir, examples
from logos.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from logos.app.tool_detection import Detected

EXAMPLES = examples("logos init", "logos init --wd ~/project --force")

PROMPT = "prompt.md"
SCHEMA = f"{TELOS}/logos.schema.json"
READMES = ("README.md", "readme.md", "Readme.md", "README.rst", "README.txt", "README")
README_LOOK_AT = 10_000
README_KEEP = 200


def init(
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite what is there; the old file is kept as .bak.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Write logos.json, prompt.md and telos.toml into the work dir, with the test command and the tools found there."""
    from logos.app.prompt import TEMPLATE
    from logos.app.settings import json_schema
    from logos.app.telos_file import TELOS_FILE, first_telos
    from logos.app.tool_detection import detect_test_command, detect_tools
    from logos.cli.output import console as show

    place = place_of(wd)
    command, detected = detect_test_command(place), detect_tools(place)
    files = {
        CONFIG: json.dumps(first_config(command), indent=2) + "\n",
        PROMPT: TEMPLATE,
        TELOS_FILE: first_telos(detected, readme_paragraph(place)),
    }
    kept = [name for name in files if (place / name).exists() and not force]
    if len(kept) == len(files):
        raise UsageError(f"{_listed(kept)} are in {place} already; --force overwrites them")
    _write_schema(place, json.dumps(json_schema(), indent=2) + "\n")
    written = [name for name, text in files.items() if name not in kept and _write(place / name, text)]
    if as_json:
        found = {"project_test_cmd": command, **_as_json(detected)}
        show.document({"wd": str(place), "written": written, "kept": kept, **found})
        return 0
    target = show.console()
    for name in files:
        show.put(target, f"{name}: {'written' if name in written else 'is there already, left as it is'}")
    if CONFIG in written:
        none = "none was found; set project_test_cmd in logos.json, so that a PASS can be verified"
        show.put(target, f"test command: {command or none}")
    if TELOS_FILE in written:
        _put_tools(target, detected)
    show.put(target, f"next: write in {PROMPT} what is to be done, then `logos doctor` and `logos run`", "bold")
    show.put(target, f'or:   write in {TELOS_FILE} what the project is for, then `logos build "…"`', "bold")
    return 0


def first_config(command: str) -> dict[str, Any]:
    return {
        "$schema": SCHEMA,
        "prompt_file": PROMPT,
        "provider": "codex",
        "project_test_cmd": command,
        "verify_pass": True,
        "limits": {"max_rounds": 8, "max_review_cycles": 3},
    }


def _write_schema(place: Path, text: str) -> None:
    """For editors, which complete and check logos.json with it."""
    from logos.adapters.files import own_folder, write_atomically

    own_folder(place / TELOS)
    write_atomically(place / SCHEMA, text)


def _write(path: Path, text: str) -> bool:
    try:
        if path.exists():
            path.replace(path.with_name(path.name + ".bak"))
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return True


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _as_json(detected: Detected) -> dict[str, Any]:
    return {
        "tools": [{"level": tool.level.name, "name": tool.name, "command": tool.command} for tool in detected.found],
        "missing": [
            {"level": missing.level.name, "what": missing.what, "instead": missing.instead}
            for missing in detected.missing
        ],
    }


def _put_tools(target: Console, detected: Detected) -> None:
    """What Logos would run to prove a level, and what it would have to do without."""
    from logos.cli.output import console as show

    found = [(tool.level.name, tool.name, tool.command) for tool in detected.found]
    missing = [(missing.level.name, missing.what, missing.instead) for missing in detected.missing]
    for title, rows in (("tools that prove a level", found), ("not found, and what takes its place", missing)):
        if rows:
            show.put(target, f"{title}:")
            for line in show.columns(("", "", ""), rows)[1:]:
                show.put(target, f"  {line}")


def readme_paragraph(place: Path) -> str:
    """The first paragraph of the README in plain words on one line; empty when there is none."""
    from logos.views.redact import one_line

    text = next(filter(None, (_beginning(place / name) for name in READMES)), "")
    for pattern, flags, plain in MARKUP:
        text = re.sub(pattern, plain, text, flags=flags)
    paragraphs = (one_line(block) for block in re.split(r"\n[ \t]*\n", text))
    first = next((words for words in paragraphs if " " in words and any(map(str.isalpha, words))), "")
    return first if len(first) <= README_KEEP else first[: README_KEEP - 1] + "…"


def _beginning(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(README_LOOK_AT)
    except OSError:
        return ""


# What is no prose in a README, and what stands in its place.
MARKUP: tuple[tuple[str, int, str], ...] = (
    (r"<!--.*?-->", re.DOTALL, ""),
    (r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE, ""),
    (r"<[^<>]{1,300}>", 0, ""),
    # Badges and pictures, then links.
    (r"!\[[^\[\]]{0,300}\]\([^()]{0,500}\)", 0, ""),
    (r"\[([^\[\]]{0,300})\](?:\([^()]{0,500}\)|\[[^\[\]]{0,100}\])", 0, r"\1"),
    # Headings: marked, and underlined.
    (r"^#{1,6}[ \t].*$", re.MULTILINE, "\n"),
    (r"^.+\n[=~-]{3,}[ \t]*$", re.MULTILINE, "\n"),
    (r"^[ \t]*(?:>|\.\. ).*$", re.MULTILINE, ""),
    (r"\*\*|__|[*`]", 0, ""),
)
