"""One turn of a scripted agent as a process: it edits files, runs commands and writes its response.

It reads its orders from the file `orders` in the folder of the turn. It imports only modules that every interpreter has
already loaded, and others where it needs them, so that benchmarks do not measure its start.
"""

from __future__ import annotations

import marshal
import os
import sys
import time

# The driver ends a hung agent; without a driver, it ends itself after this time.
HANG_SECONDS = 86_400
# A report contains the end of the output.
OUTPUT_CHARACTERS = 2_000
GARBAGE = b"\x1b[2J\x00\xff\xfe%PDF-1.4 \xc3\x28 0xDEADBEEF\n\x07lorem ipsum, half a sent"


def main(arguments: list[str]) -> int:
    folder, response = arguments
    with open(os.path.join(folder, "orders"), "rb") as source:
        orders = marshal.load(source)
    time.sleep(orders["delay"])
    fault = orders["fault"]
    if fault == "hang":
        say("working", end="")
        time.sleep(HANG_SECONDS)
    if fault in ("crash", "usage_limit", "transient"):
        print(orders["message"], file=sys.stderr, flush=True)
        return 1
    if fault == "permission":
        ask(orders["question"], folder)
    for name, text in orders["edit"].items():
        edit(name, text)
    text = response_text(orders["say"], orders["run"], orders.get("failed"), is_report=orders.get("is_report", False))
    say(text)
    write(os.path.join(folder, "said.md"), in_bytes(text))
    if fault != "no_file":
        garbage = in_bytes(orders["message"]) or GARBAGE
        write(response, garbage if fault == "garbage" else in_bytes(text))
    time.sleep(orders["after"])
    return 0


def ask(question: str, folder: str) -> None:
    """Wait for permission: a pressed key, or a file that a user creates."""
    answer = os.path.join(folder, "answer")
    say(f"{question}\nto allow it: touch {answer}")
    write(os.path.join(folder, "question"), b"")
    until = time.monotonic() + HANG_SECONDS
    while not os.path.exists(answer) and time.monotonic() < until:
        time.sleep(0.02)


def edit(name: str, text: str | None) -> None:
    here = os.path.realpath(os.getcwd())
    if os.path.commonpath([here, os.path.realpath(name)]) != here:
        raise SystemExit(f"edit {name}: is outside the work dir")
    if text is None:
        if os.path.lexists(name):
            os.unlink(name)
        say(f"deleted {name}")
        return
    write(name, in_bytes(text))
    say(f"edited {name}")


def response_text(response: str, command: str, failed: str | None, *, is_report: bool) -> str:
    """The response with the results of the command; a report has them as JSON, and is `failed` if the command fails."""
    if not command:
        return response
    # Most turns run no command.
    import subprocess  # noqa: PLC0415 - a scripted agent must start fast

    ran = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    output = ran.stdout.decode("utf-8", "replace")
    say(f"$ {command}\n{output}")
    verdict, output = "FAIL" if ran.returncode else "PASS", output.strip()
    if is_report:
        # Only reports of levels need it, and importing it takes longer than the rest of the turn.
        import json  # noqa: PLC0415 - a scripted agent must start fast

        response = failed if failed is not None and ran.returncode else response
        output = json.dumps(output[-OUTPUT_CHARACTERS:], ensure_ascii=False)[1:-1]
    return response.replace("{verdict}", verdict).replace("{output}", output)


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
