"""Writing a configuration, a prompt and a telos.toml to start from."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from logos.adapters.files import own_folder, write_atomically
from logos.app.environments import read_beginning
from logos.app.hosts import installed_providers, provider_name
from logos.app.prompt import TEMPLATE
from logos.app.setting_sources import json_schema
from logos.app.telos_file import KNOWN, TELOS_FILE, TEMPLATE_PURPOSE
from logos.app.tool_detection import Detected, detect_test_command, detect_tools
from logos.app.workdir import CONFIG, TELOS
from logos.domain.levels import LEVELS
from logos.errors import UsageError
from logos.validation import one_line as printable_line
from logos.views.redact import one_line

PROMPT = "prompt.md"
SCHEMA = f"{TELOS}/logos.schema.json"
READMES = ("README.md", "readme.md", "Readme.md", "README.rst", "README.txt", "README")
README_MAX_READ = 10_000
README_KEEP = 200


@dataclass(frozen=True, slots=True)
class InitResult:
    """Which files were written, which existed and were kept, and what was detected in the work dir.

    `provider` is the one in logos.json, empty if none was written; `installed` are those on PATH.
    """

    wd: Path
    written: tuple[str, ...]
    kept: tuple[str, ...]
    test_command: str
    detected: Detected
    provider: str = ""
    installed: tuple[str, ...] = ()


def first_of(installed: Sequence[str]) -> str:
    return installed[0]


def init(
    work_dir: Path, *, force: bool = False, provider: str = "", choose: Callable[[Sequence[str]], str] = first_of
) -> InitResult:
    """Write logos.json, prompt.md and telos.toml; with `force` also over existing ones, which are renamed to .bak.

    `choose` is asked which provider to write where several are installed and none is named.
    """
    provider = provider and provider_name(provider)
    names = (CONFIG, PROMPT, TELOS_FILE)
    kept = tuple(name for name in names if (work_dir / name).exists() and not force)
    if len(kept) == len(names):
        raise UsageError(f"{', '.join(kept[:-1])} and {kept[-1]} exist in {work_dir}; --force overwrites them")
    installed = installed_providers(work_dir)
    if CONFIG in kept:
        provider = ""
    elif installed and not provider:
        provider = choose(installed) if len(installed) > 1 else installed[0]
    command, detected = detect_test_command(work_dir), detect_tools(work_dir)
    config = {
        "$schema": SCHEMA,
        "prompt_file": PROMPT,
        **({"provider": provider} if provider else {}),
        "project_test_cmd": command,
        "verify_pass": True,
        "limits": {"max_rounds": 8, "max_review_cycles": 3},
    }
    telos = first_telos(detected, readme_paragraph(work_dir))
    files = {CONFIG: json.dumps(config, indent=2) + "\n", PROMPT: TEMPLATE, TELOS_FILE: telos}
    # Editors complete and check logos.json with its JSON Schema.
    own_folder(work_dir / TELOS)
    write_atomically(work_dir / SCHEMA, json.dumps(json_schema(), indent=2) + "\n")
    written = tuple(name for name in files if name not in kept)
    for path in map(work_dir.joinpath, written):
        try:
            if path.exists():
                path.replace(path.with_name(path.name + ".bak"))
            path.write_text(files[path.name], encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return InitResult(work_dir, written, kept, command, detected, provider, tuple(installed))


def toml_string(text: str) -> str:
    """A text as TOML; its escapes are those of JSON, and DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def first_telos(detected: Detected, readme: str = "") -> str:
    """A telos.toml with the detected tools; the person fills in the purpose."""
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True, autoescape=False)
    template = environment.from_string(Path(__file__).with_name("telos.toml.j2").read_text(encoding="utf-8"))
    told = {"purpose": TEMPLATE_PURPOSE, "readme": readme, "levels": [LEVELS[level] for level in KNOWN]}
    return template.render(told, detected=detected, toml=toml_string, one_line=printable_line)


def readme_paragraph(work_dir: Path) -> str:
    """The first paragraph of the README as plain text on one line; empty when there is none."""
    text = next(filter(None, (read_beginning(work_dir / name, README_MAX_READ) for name in READMES)), "") or ""
    for pattern, flags, plain in MARKUP:
        text = re.sub(pattern, plain, text, flags=flags)
    paragraphs = (one_line(block) for block in re.split(r"\n[ \t]*\n", text))
    first = next((words for words in paragraphs if " " in words and any(map(str.isalpha, words))), "")
    return first if len(first) <= README_KEEP else first[: README_KEEP - 1] + "…"


# Parts of a README that are not prose, and their replacement.
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
