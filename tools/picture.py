"""Draws docs/pictures/run.svg: what a person sees of a run, exported by rich from a real one (the demo's)."""

from __future__ import annotations

import io
import os
import re
import tempfile
from pathlib import Path

from rich.console import Console

from logos import demo as bundled
from logos.cli import show
from logos.cli.demo import begin_repository, demo_settings, python_name
from logos.cli.live import LiveView
from logos.cli.place import reading
from logos.cli.story import read_story
from logos.cli.wiring import run_here, scripted_host
from logos.domain.events import Recorded, TurnAnswered
from logos.domain.ledger import Ledger
from logos.flows.cycle import CycleState

TARGET = Path(__file__).parents[1] / "docs" / "pictures" / "run.svg"
# The moment the tests have caught the first attempt and the programmer repairs it.
MOMENT = "r2.programmer.c1"
WIDTH = 88


def main() -> None:
    os.environ["COLUMNS"] = str(WIDTH + 4)
    canvas = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    view = LiveView()

    def watch(record: Recorded, state: CycleState, ledger: Ledger) -> None:
        view.watch(record, state, ledger)
        if isinstance(record.event, TurnAnswered) and record.event.turn == MOMENT:
            canvas.print(view.frame())

    with tempfile.TemporaryDirectory(prefix="logos-picture-") as folder, view:
        place = Path(folder).resolve()
        begin_repository(place)
        python = python_name()
        settings = demo_settings(place, python)
        run_here(settings, strict_prompt=True, make_host=scripted_host(bundled.script(python)), watchers=[watch])
        with reading(place) as log:
            story = read_story(log, log.runs()[-1])
    canvas.print()
    show.put_timeline(canvas, story)
    canvas.print()
    show.put_summary(canvas, story)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    # Without fonts from elsewhere: the picture must load nothing.
    picture = re.sub(r"\s*@font-face \{.*?\}", "", canvas.export_svg(title="logos demo"), flags=re.DOTALL)
    TARGET.write_text(picture, encoding="utf-8")
    print(f"drawn: {TARGET}")


if __name__ == "__main__":
    main()
