"""One turn of a scripted agent, as a process of its own: edits files, runs commands, writes its response.

It reads its orders from `orders` in the folder of the turn. It imports what every interpreter has loaded already and
the rest where it is needed, so that it is there at once: an agent's start must not be what a measurement measures.
"""

from __future__ import annotations

import marshal
import os
import sys
import time

# A hung agent is ended by whoever started it; one that nobody comes back for must not stay for ever.
HANG_SECONDS = 86_400
# The end of an output is enough for a report.
OUTPUT_SIGNS = 2_000
GARBAGE = b"\x1b[2J\x00\xff\xfe%PDF-1.4 \xc3\x28 0xDEADBEEF\n\x07lorem ipsum, half a sent"


def main(arguments: list[str]) -> int:
    folder, response = arguments
    with open(os.path.join(folder, "orders"), "rb") as source:
        orders = marshal.load(source)
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
    text = words(orders["say"], orders.get("failed"), orders["run"], is_report=orders.get("report") is not None)
    say(text)
    write(os.path.join(folder, "said.md"), in_bytes(text))
    if orders["fault"] != "no_file":
        garbage = in_bytes(orders["message"]) or GARBAGE
        write(response, garbage if orders["fault"] == "garbage" else in_bytes(text))
    time.sleep(orders["after"])
    return 0


def ask(question: str, folder: str) -> None:
    """Wait for somebody to allow it: whoever presses a key, or a person who makes the file."""
    answer = os.path.join(folder, "answer")
    say(f"{question}\nto allow it: touch {answer}")
    write(os.path.join(folder, "question"), b"")
    until = time.monotonic() + HANG_SECONDS
    while not os.path.exists(answer) and time.monotonic() < until:
        time.sleep(0.02)


def edit(name: str, text: str | None) -> None:
    here = os.path.realpath(os.getcwd())
    if os.path.commonpath([here, os.path.realpath(name)]) != here:
        raise SystemExit(f"edit {name}: leads out of the work dir")
    if text is None:
        if os.path.lexists(name):
            os.unlink(name)
        say(f"deleted {name}")
        return
    write(name, in_bytes(text))
    say(f"edited {name}")


def words(said: str, failed: str | None, command: str, *, is_report: bool) -> str:
    """What is said, with what the command gave in it; a report has it as JSON, and another text when that failed."""
    gave = run(command) if command else {}
    if is_report and gave:
        import json  # noqa: PLC0415 - a scripted agent must start fast

        said = failed if failed is not None and gave["{verdict}"] == "FAIL" else said
        gave = {word: json.dumps(text[-OUTPUT_SIGNS:], ensure_ascii=False)[1:-1] for word, text in gave.items()}
    for word, text in gave.items():
        said = said.replace(word, text)
    return said


def run(command: str) -> dict[str, str]:
    """What a command gave, by the words that stand for it."""
    import subprocess  # noqa: PLC0415 - as above

    ran = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    output = ran.stdout.decode("utf-8", "replace")
    say(f"$ {command}\n{output}")
    return {"{verdict}": "FAIL" if ran.returncode else "PASS", "{output}": output.strip()}


def write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as sink:
        sink.write(content)


def in_bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def say(text: str, end: str = "\n") -> None:
    os.write(1, in_bytes(text + end))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
