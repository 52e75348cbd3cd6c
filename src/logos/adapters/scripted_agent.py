"""One turn of a scripted agent, as a process of its own: edits files, runs commands, writes its response.

A step of a script: `say` (the response; `{verdict}` and `{output}` stand for what `run` gave), `edit` (path → text),
`run` (a command whose exit code is the verdict), `delay` (seconds before, and `after` the response), `no_file`
(only print it), `crash` (end with an error instead).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from logos.domain.roles import SEATS


def main(arguments: list[str]) -> int:
    script, answer, turn, response, said = arguments
    act(_step(Path(script), answer, int(turn)), Path(said), Path(response))
    return 0


def _step(script: Path, answer: str, turn: int) -> dict[str, Any]:
    """The step for this turn of the role; the last one repeats."""
    role = next(seat.role for seat in SEATS.values() if seat.answer == answer)
    steps = json.loads(script.read_text(encoding="utf-8"))[role]
    return steps[min(turn, len(steps)) - 1]


def act(step: dict[str, Any], said: Path, response: Path) -> None:
    time.sleep(float(step.get("delay", 0)))
    if step.get("crash"):
        raise SystemExit("crashed, as the script says")
    for name, text in step.get("edit", {}).items():
        target = Path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        print(f"edited {name}", flush=True)
    verdict, output = "PASS", ""
    if step.get("run"):
        ran = subprocess.run(
            step["run"], shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        verdict, output = ("PASS" if ran.returncode == 0 else "FAIL"), ran.stdout
        print(f"$ {step['run']}\n{output}", flush=True)
    text = str(step.get("say", "")).replace("{verdict}", verdict).replace("{output}", output.strip())
    said.write_text(text, encoding="utf-8")
    if not step.get("no_file"):
        response.parent.mkdir(parents=True, exist_ok=True)
        response.write_text(text, encoding="utf-8")
    time.sleep(float(step.get("after", 0)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
