"""One turn of a scripted agent as a process: it edits files, runs commands and writes its response.

It reads its orders from the file `orders` in the folder of the turn. It imports only modules that every interpreter has
already loaded, and others where it needs them, so that benchmarks do not measure its start.
"""

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
    # Deletions first: a folder may take the place of a file, or a file that of a folder.
    for name, file in sorted(orders["edit"].items(), key=lambda item: item[1] is not None):
        edit(name, file)
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


def edit(name: str, file: str | dict[str, str | bool | None] | None) -> None:
    """Write a file, or delete it; a mapping has its content and mode, and replaces a symbolic link."""
    here, folder = os.path.realpath(os.getcwd()), os.path.dirname(name)
    target = os.path.realpath(name) if isinstance(file, str) else os.path.realpath(folder or ".")
    if os.path.commonpath([here, target]) != here:
        raise SystemExit(f"edit {name}: is outside the work dir")
    if isinstance(file, str):
        write(name, in_bytes(file))
    else:
        if os.path.lexists(name) and (file is None or os.path.islink(name) or file["link"] is not None):
            os.unlink(name)
        if file is None:
            remove_empty(folder)
        else:
            put(name, file)
    say(f"{'deleted' if file is None else 'edited'} {name}")


def remove_empty(folder: str) -> None:
    """Remove folders without files, as git does: a file may take their place."""
    while folder and os.path.isdir(folder) and not os.listdir(folder):
        os.rmdir(folder)
        folder = os.path.dirname(folder)


def put(name: str, file: dict[str, str | bool | None]) -> None:
    if file["link"] is not None:
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        os.symlink(str(file["link"]), name)
        return
    if file["base64"] is not None:
        # Only recordings of binary files need it.
        import binascii  # noqa: PLC0415 - a scripted agent must start fast

        write(name, binascii.a2b_base64(str(file["base64"])))
    else:
        write(name, in_bytes(str(file["text"])))
    if file["executable"] is not None:
        mode = os.stat(name).st_mode & 0o777
        os.chmod(name, mode | (mode & 0o444) >> 2 if file["executable"] else mode & 0o666)


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
