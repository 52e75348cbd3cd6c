"""One turn of a scripted agent, as a process of its own: edits files, runs commands, writes its response.

It reads its orders from `orders.json` in the folder of the turn. Standard library only, so that it is there at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# A hung agent is ended by whoever started it; one that nobody comes back for must not stay for ever.
HANG_SECONDS = 86_400
# The end of an output is enough for a report.
OUTPUT_SIGNS = 2_000
GARBAGE = b"\x1b[2J\x00\xff\xfe%PDF-1.4 \xc3\x28 0xDEADBEEF\n\x07lorem ipsum, half a sent"


def main(arguments: list[str]) -> int:
    folder, response = map(Path, arguments)
    orders: dict[str, Any] = json.loads((folder / "orders.json").read_text(encoding="utf-8"))
    time.sleep(orders["delay"])
    match orders["fault"]:
        case "hang":
            say("working", end="")
            time.sleep(HANG_SECONDS)
        case "crash" | "usage_limit" | "transient":
            print(orders["message"], file=sys.stderr, flush=True)
            return 1
        case "permission":
            ask(orders["question"], folder)
        case _:
            pass
    for name, text in orders["edit"].items():
        edit(name, text)
    text = words(orders)
    say(text)
    (folder / "said.md").write_bytes(in_bytes(text))
    if orders["fault"] != "no_file":
        response.parent.mkdir(parents=True, exist_ok=True)
        garbage = in_bytes(orders["message"]) or GARBAGE
        response.write_bytes(garbage if orders["fault"] == "garbage" else in_bytes(text))
    time.sleep(orders["after"])
    return 0


def ask(question: str, folder: Path) -> None:
    """Wait for somebody to allow it: whoever presses a key, or a person who makes the file."""
    answer = folder / "answer"
    say(f"{question}\nto allow it: touch {answer}")
    (folder / "question").touch()
    until = time.monotonic() + HANG_SECONDS
    while not answer.exists() and time.monotonic() < until:
        time.sleep(0.02)


def edit(name: str, text: str | None) -> None:
    target = Path(name)
    if not target.resolve().is_relative_to(Path.cwd().resolve()):
        raise SystemExit(f"edit {name}: leads out of the work dir")
    if text is None:
        target.unlink(missing_ok=True)
        say(f"deleted {name}")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(in_bytes(text))
    say(f"edited {name}")


def words(orders: dict[str, Any]) -> str:
    """What is said, with what the command gave in it; a report is said as JSON."""
    gave = run(orders["run"]) if orders["run"] else {}
    said = orders["say"]
    if orders.get("report") is not None:
        failed = orders["failed"] if gave.get("{verdict}") == "FAIL" else None
        said = json.dumps(failed or orders["report"], ensure_ascii=False, indent=2) + "\n"
        gave = {word: json.dumps(text[-OUTPUT_SIGNS:], ensure_ascii=False)[1:-1] for word, text in gave.items()}
    for word, text in gave.items():
        said = said.replace(word, text)
    return said


def run(command: str) -> dict[str, str]:
    """What a command gave, by the words that stand for it."""
    ran = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    output = ran.stdout.decode("utf-8", "replace")
    say(f"$ {command}\n{output}")
    return {"{verdict}": "FAIL" if ran.returncode else "PASS", "{output}": output.strip()}


def in_bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def say(text: str, end: str = "\n") -> None:
    os.write(1, in_bytes(text + end))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
