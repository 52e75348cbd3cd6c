"""A program that answers like an agent CLI, for tests of everything around it; the live tests have the real ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from logos.domain.roles import RESPONSE_FILES
from logos.testing import script

_PROGRAM = """#!{python} -IS
import json, pathlib, re, sys
said = json.loads({said!r})
if sys.argv[1:] == ["--version"]:
    sys.exit(print({version!r}))
if sys.argv[1:2] == ["sandbox"]:
    sys.exit({sandbox!r})
prompt = pathlib.Path(sys.argv[sys.argv.index("--file") + 1]).read_text() if "--file" in sys.argv else sys.stdin.read()
path = re.findall(r"^(?:cat >)?(/.*/(\\w+\\.md))(?: <<.*)?$", prompt, re.MULTILINE)[-1]
with pathlib.Path({notes!r}).open("a") as notes:
    notes.write(json.dumps({{"argv": sys.argv[1:], "prompt": prompt}}) + chr(10))
pathlib.Path(path[0]).write_text(said[path[1]])
print(json.dumps({{"type": "thread.started", "thread_id": "thread-1", "session_id": "thread-1"}}))
print(json.dumps({{"type": "turn.completed", "usage": {{"input_tokens": 5, "cached_input_tokens": 2, "output_tokens": 1}}}}))
print({prints!r})
"""


def install_fake_cli(
    folder: Path, name: str, version: str = "0.1", sandbox: str = "", prints: str = "", **said: str
) -> Path:
    """A program called `name` in `folder`; returns the file in which it notes how it was called.

    `sandbox` is why its sandbox does not work, `prints` what it says at the end of a turn.
    """
    texts = {answer: str(texts[0]) for answer, texts in script().items()} | said
    files = {RESPONSE_FILES[answer]: text for answer, text in texts.items()}
    notes = folder / f"{name}.notes"
    program = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    program.write_text(
        _PROGRAM.format(
            python=sys.executable,
            said=json.dumps(files),
            notes=str(notes),
            version=version,
            sandbox=sandbox or 0,
            prints=prints,
        )
    )
    program.chmod(0o755)
    return notes


def calls(notes: Path) -> list[Mapping[str, object]]:
    return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
